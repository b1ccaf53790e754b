"""`dpsql budget`: caps, groups, grants that end, the audit trail."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import dpsql
from dpsql.surfaces.aim import Aim
from dpsql.surfaces.cli import main
from tests.surfaces.budget.words import SQL, Run, ask, budget, parsed


def test_a_grant_says_what_all_users_together_may_spend(run: Run) -> None:
    assert budget(run, "grant", "alice", "--epsilon", "2").splitlines() == [
        "granted alice ε 2.00 at δ 1e-06 (ρ 0.0882) on people",
        "All answers that alice pays for are together (2, 1e-06)-differentially private;"
        " 100 default queries are left.",
        "All users of people together: at most ε 2.00 at δ 1e-06 (ρ 0.0882), the largest grant;"
        " ε 2.00 is left.",
    ]
    shown = budget(run, "grant", "bob", "--epsilon", "1", "--cap", "5", "--until", "2999-12-31")
    assert "(ρ 0.0244) on people until 2999-12-31" in shown
    assert "at most ε 5.00 at δ 1e-06 (ρ 0.463), set by the owner; ε 5.00 is left." in shown
    fields = parsed(budget(run, "grant", "bob", "--epsilon", "1", "--format", "json"))
    assert fields["until"] is None and fields["cap"]["granted"]["epsilon"] == 5


def test_users_share_the_cap_and_the_refusal_says_how_to_move_it(run: Run) -> None:
    for user in ("alice", "bob"):
        budget(run, "grant", user, "--epsilon", "1")
    ask(run, "alice", "--epsilon", "1")
    refusal = ask(run, "bob", "--epsilon", "0.5", code=4)
    assert "all users of people together have ρ=0.000000000" in refusal.replace("\n", " ")
    assert "dpsql budget cap people.duckdb --epsilon E --dataset people" in refusal.replace(
        "\n", " "
    )
    assert "nothing was charged" in refusal
    shown = budget(run, "show", "bob")
    assert "no more than all users together have left (ε 4.16e-05)" in shown
    assert "all users of people together (the cap, the largest grant)" in shown
    assert "0 default queries left" in shown
    told = budget(run, "cap", "--epsilon", "3")
    assert told == (
        "All users of people together: at most ε 3.00 at δ 1e-06 (ρ 0.185), set by the owner;"
        " ε 2.78 is left.\n"
    )
    ask(run, "bob", "--epsilon", "0.5")
    assert budget(run, "cap") == budget(run, "cap")
    assert "the largest grant" in budget(run, "cap", "--auto")


def test_a_cap_is_shown_as_json(run: Run) -> None:
    budget(run, "grant", "alice", "--epsilon", "1", "--until", "2999-12-31")
    (purse,) = parsed(budget(run, "show", "--format", "json"))
    assert purse["user"] == "alice" and purse["until"] == "3000-01-01T00:00:00.000+00:00"
    assert (purse["ended"], purse["members"]) == (False, [])
    assert purse["cap"]["granted"]["epsilon"] == 1
    assert (purse["cap"]["user"], purse["cap"]["fixed"]) == (None, False)
    shown = parsed(budget(run, "cap", "--epsilon", "2", "--format", "json"))
    assert shown["cap"]["fixed"] and shown["cap"]["granted"]["epsilon"] == 2


def test_a_group_shares_its_purse(run: Run) -> None:
    told = budget(run, "group", "team", "bob", "carol").splitlines()
    assert told == [
        "team on people: bob, carol",
        "team has no grant yet, so its members get no answers: dpsql budget grant people.duckdb "
        "team --epsilon E",
        "bob, carol have no grant of their own: what team is granted alone bounds them",
    ]
    assert "team, a group of bob, has no grant" in ask(run, "bob", code=4).replace("\n", " ")
    budget(run, "grant", "team", "--epsilon", "1")
    assert budget(run, "group", "team") == "team on people: bob, carol\n"
    for user in ("bob", "carol"):
        ask(run, user, "--epsilon", "0.5")
    assert "budget error: release costs" in ask(run, "bob", "--epsilon", "0.9", code=4)
    assert "team on people (a group: bob, carol)" in budget(run, "show")
    assert budget(run, "show", "bob").startswith("team on people (a group: bob, carol)")
    shown = run("query", "people.duckdb", "SHOW BUDGET", "-u", "carol", "--format", "csv")
    told, line = shown.splitlines()
    assert told.endswith("rho_left,rho_spent,default_queries_left,purse")
    assert line.startswith("people,1.0,0.7") and line.endswith(",team")
    fields = parsed(budget(run, "group", "team", "--remove", "bob", "--format", "json"))
    assert fields == {"group": "team", "dataset": "people", "members": ["carol"]}
    assert "bob has no grant" in ask(run, "bob", code=4)
    advice = (
        "bob has no grant; the owner gives one: dpsql budget grant people.duckdb bob --epsilon E"
    )
    assert advice in budget(run, "show", "bob", code=4)
    budget(run, "revoke", "carol")
    assert budget(run, "group", "team") == "team on people: no members\n"


def test_a_member_with_a_grant_pays_from_both(run: Run) -> None:
    budget(run, "group", "team", "bob")
    budget(run, "grant", "team", "--epsilon", "2")
    budget(run, "grant", "bob", "--epsilon", "1")
    ask(run, "bob", "--epsilon", "0.5")
    shown = budget(run, "show", "bob")
    assert "team pays as well (ε left 1." in shown
    entries = parsed(budget(run, "log", "bob", "--format", "json"))
    assert [entry["kind"] for entry in entries] == ["join", "grant", "charge"]
    assert [paid["purse"] for paid in entries[2]["payments"]] == ["bob", "team", None]
    assert entries[2]["payments"][1]["after"] == entries[2]["spent"] == entries[2]["price"]
    assert [e["kind"] for e in parsed(budget(run, "log", "team", "--format", "json"))] == [
        "join",
        "grant",
        "charge",
    ]


def test_a_grant_that_has_ended_answers_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.accounting.ledger._now", lambda: "2026-06-01T00:00:00.000+00:00")
    budget(run, "grant", "alice", "--epsilon", "1", "--until", "2026-06-30")
    ask(run, "alice")
    monkeypatch.setattr("dpsql.accounting.ledger._now", lambda: "2026-07-01T00:00:00.000+00:00")
    refusal = ask(run, "alice", code=4).replace("\n", " ")
    assert "the grant of alice on people ended: it was until 2026-06-30" in refusal
    assert "until 2026-06-30, ended" in budget(run, "show")
    assert "│ grant ended" in budget(run, "log")
    assert "has passed" in budget(
        run, "grant", "alice", "--epsilon", "1", "--until", "2026-06-30", code=2
    )


@pytest.mark.parametrize(
    "words",
    [
        ["grant", "bob", "--epsilon", "1", "--until", "soon"],
        ["grant", "bob", "--epsilon", "1", "--until", "2020-01-01"],
        ["grant", "bob", "--epsilon", "1", "--cap", "0"],
        ["grant", "bob", "--epsilon", "1", "--cap", "nan"],
        ["cap", "--epsilon", "-1"],
        ["cap", "--epsilon", "1", "--auto"],
        ["cap", "--delta", "1e-6"],
        ["cap", "--epsilon", "1", "--dataset", "nowhere"],
        ["group"],
        ["group", "team", "team"],
        ["group", "team", "--remove", "nobody"],
        ["verify", "--accept", " "],
    ],
)
def test_wrong_words_are_refused_and_change_nothing(run: Run, words: list[str]) -> None:
    budget(run, "grant", "alice", "--epsilon", "1")
    with dpsql.Ledger.open("people.ledger") as ledger:
        before = ledger.dump()
    assert main(["budget", words[0], "people.duckdb", *words[1:]]) == 2
    with dpsql.Ledger.open("people.ledger") as ledger:
        assert ledger.dump() == before


@pytest.mark.parametrize("option", ["--delta", "--epsilon", "--cap"])
def test_a_number_that_is_read_as_0_is_not_taken_for_it(run: Run, option: str) -> None:
    words = {"--epsilon": "1", option: "1e-400"}
    listed = [part for pair in words.items() for part in pair]
    found = budget(run, "grant", "dora", *listed, code=2)
    assert "1e-400 is too small to be told from 0" in found
    assert not Path("people.ledger").exists()


def test_the_log_is_an_audit_trail(run: Run) -> None:
    budget(run, "grant", "alice", "--epsilon", "1")
    ask(run, "alice", "--rho", "0.001")
    ask(run, "alice", "--rho", "0.001", "--backend", "laplace")
    budget(run, "cap", "--epsilon", "2")
    budget(run, "cap", "--auto")
    lines = [line.split("│")[1:-1] for line in budget(run, "log").splitlines()]
    told = [[cell.strip() for cell in line] for line in lines if line]
    assert told[0] == ["#", "when (UTC)", "user", "dataset", "what", "spent (ρ)", "statement"]
    assert [line[4] for line in told[1:]] == [
        "grant ε 1.00 at δ 1e-06; cap ε 1.00 at δ 1e-06",
        "charge ρ 0.00100, gaussian σ 22.4",
        "charge ρ 0.00100, laplace b 22.4",
        "cap ε 2.00 at δ 1e-06",
        "cap follows the largest grant; cap ε 1.00 at δ 1e-06",
    ]
    assert told[2][5] == "0 → 0.00100, all 0 → 0.00100"
    assert told[3][2] == "alice" and told[3][6] == SQL and told[4][2] == "everybody"
    entries = parsed(budget(run, "log", "--format", "json"))
    assert entries[1]["event"]["event"] == "gaussian" and len(entries[1]["mac"]) == 64
    assert entries[3]["user"] is None and entries[3]["grant"]["epsilon"] == 2


def test_a_pure_grant_says_how_far_it_lifts_the_cap(run: Run) -> None:
    assert "counts as" not in budget(run, "grant", "paul", "--epsilon", "1", "--delta", "0")
    told = budget(run, "grant", "alice", "--epsilon", "1")
    assert "The pure grant of paul, ε 1.00, counts as ρ 0.462" in told
    assert "the cap rises to ε 4.99 at δ 1e-06" in told and "rises to" in budget(run, "cap")
    assert "rises to" not in budget(run, "cap", "--epsilon", "1")


def test_explain_says_that_the_cap_would_refuse(run: Run) -> None:
    for user in ("alice", "bob"):
        budget(run, "grant", user, "--epsilon", "1")
    ask(run, "alice", "--epsilon", "0.9")
    words = ("explain", "people.duckdb", SQL, "-u", "bob", "--epsilon")
    told = run(*words, "0.9")
    assert "note: would be refused: all users of people together have too little left" in told
    assert "would be refused" not in run(*words, "0.01")


def test_explain_says_that_the_grant_would_refuse(run: Run, town: Path) -> None:
    budget(run, "grant", "alice", "--epsilon", "1")
    (town / "s.sql").write_text(f"{SQL};")
    for words in (
        ("explain", "people.duckdb", SQL),
        ("run", "people.duckdb", "s.sql", "--explain"),
    ):
        told = run(*words, "-u", "alice", "--epsilon", "3")
        assert "note: would be refused: alice on people has too little left: a price up to" in told
        assert "(ε=1) can be paid" in told
        assert "would be refused" not in run(*words, "-u", "alice", "--epsilon", "1")


def test_show_budget_of_a_pure_grant_tells_no_rho(run: Run) -> None:
    budget(run, "grant", "paul", "--epsilon", "1", "--delta", "0")
    told = parsed(run("query", "people.duckdb", "SHOW BUDGET", "-u", "paul", "--format", "json"))
    assert told["rows"][0][5:8] == [None] * 3 and told["rows"][0][3] == 1
    assert "NULL" in run("query", "people.duckdb", "SHOW BUDGET", "-u", "paul")


def test_a_narrow_terminal_gets_the_whole_log(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    budget(run, "grant", "alice", "--epsilon", "1")
    ask(run, "alice", "--rho", "0.001")
    monkeypatch.setattr("dpsql.surfaces.terminal.width", lambda stream: 80)
    shown = budget(run, "log")
    entries = parsed(budget(run, "log", "--format", "json"))
    assert all(entry["at"][:19].replace("T", " ") in shown for entry in entries)
    assert "charge ρ 0.00100, gaussian σ 22.4" in shown and SQL in shown and "…" not in shown


def test_a_user_without_grant_and_entry_has_no_log(run: Run) -> None:
    budget(run, "grant", "alice", "--epsilon", "1")
    for command in ("show", "log"):
        assert "zed" in budget(run, command, "zed", code=4)
    assert "zed never had a grant" in budget(run, "log", "zed", "--format", "json", code=4)
    budget(run, "revoke", "alice")
    assert "revoke" in budget(run, "log", "alice")


@pytest.mark.parametrize("sign", ["\u202e", "\u2066", "\u200b", "\u3164"])
def test_what_cannot_be_seen_is_shown_escaped(run: Run, sign: str) -> None:
    user, team = f"ali{sign}ce", f"te{sign}am"
    shown = budget(run, "grant", user, "--epsilon", "1")
    shown += budget(run, "group", team, user) + budget(run, "grant", team, "--epsilon", "1")
    shown += run("query", "people.duckdb", f'SELECT COUNT(*) AS "{user}" FROM people', "-u", user)
    shown += budget(run, "show") + budget(run, "show", user) + budget(run, "log", user)
    shown += budget(run, "log", "--format", "json") + budget(run, "show", "--format", "json")
    shown += budget(run, "revoke", user) + budget(run, "show", f"{user}x", code=4)
    assert sign not in shown and f"ali\\u{ord(sign):04x}ce" in shown
    entries = parsed(budget(run, "log", "--format", "json"))
    assert {user, team} <= {entry["user"] for entry in entries}


def test_the_last_day_that_there_is_can_be_granted(run: Run) -> None:
    assert "until 9999-12-31\n" in budget(
        run, "grant", "alice", "--epsilon", "1", "--until", "9999-12-31"
    )
    ask(run, "alice")
    assert "until 9999-12-31; cap" in budget(run, "log", "alice")
    past = budget(run, "grant", "bob", "--epsilon", "1", "--until", "2020-01-01", code=2)
    assert "until 2020-01-01 has passed" in past
    past = budget(run, "grant", "bob", "--epsilon", "1", "--until", "2020-01-01T10:00Z", code=2)
    assert "until 2020-01-01 10:00 UTC has passed" in past
    assert "beyond the year 9999" in budget(
        run, "grant", "bob", "--epsilon", "1", "--until", "9999-12-31T23:00-05:00", code=2
    )


def test_a_group_without_a_grant_is_said_to_shut_its_members_out(run: Run) -> None:
    budget(run, "grant", "alice", "--epsilon", "1")
    said = budget(run, "group", "team", "alice", "bob", "alcie")
    assert "team has no grant yet, so its members get no answers: dpsql budget grant" in said
    assert "bob, alcie have no grant of their own: what team is granted alone bounds them" in said
    for user in ([], ["alice"]):
        shown = budget(run, "show", *user)
        assert (
            "team on people (a group: alcie, alice, bob)\n"
            "  no grant, so its members get no answers\n" in shown
        )
    assert "team, a group of alice, has no grant" in ask(run, "alice", code=4)
    budget(run, "grant", "team", "--epsilon", "1")
    assert "no grant" not in budget(run, "show")
    assert "carol has no grant of their own" in budget(run, "group", "team", "carol")
    assert "no grant" not in budget(run, "group", "other", "--remove", "x", code=2)


def test_commands_that_an_error_advises_can_be_typed_as_they_stand(run: Run) -> None:
    """With the database, ledger and schema that were given, and quoted as a shell needs it."""
    Path("people.toml").rename("a b.toml")
    place = ["-s", "a b.toml", "--ledger", "my purse.ledger"]
    for user in ("bob", "al ice"):
        said = ask(run, user, *place, code=4)  # at first there is no ledger, and then no grant
        advised = said.partition("dpsql ")[2].splitlines()[0].replace("epsilon E", "epsilon 1")
        run(*shlex.split(advised))
        ask(run, user, *place)
    said = ask(run, "bob", *place, "--epsilon", "9", code=4)
    advised = said.partition("can grant more: dpsql ")[2].splitlines()[0]
    run(*shlex.split(advised.replace("epsilon E", "epsilon 10")))
    ask(run, "bob", *place, "--epsilon", "9")
    error = parsed(ask(run, "eve", *place, "--format", "json", code=4))
    assert "dpsql budget grant people.duckdb --ledger 'my purse.ledger' eve " in error["message"]
    assert "dpsql budget grant people.duckdb USER" in budget(run, "show", code=4)


def test_an_advised_command_tells_no_password() -> None:
    aim = Aim(Path("a.duckdb"), "postgresql://ann:secret@host/db", (Path("s.toml"),))
    advised = "make one: dpsql budget grant DB USER --epsilon E --ledger postgresql://..."
    assert aim.words(advised) == (
        "make one: dpsql budget grant a.duckdb --ledger postgresql://ann@host/db -s s.toml"
        " USER --epsilon E"
    )
    assert aim.words("dpsql budget verify DB says more") == (
        "dpsql budget verify a.duckdb --ledger postgresql://ann@host/db -s s.toml says more"
    )
