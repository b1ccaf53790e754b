"""`dpsql budget verify`, and ledgers that are elsewhere."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import dpsql
from tests.surfaces.budget.words import SCHEMA, SQL, Run, ask, budget, parsed


def test_a_sound_ledger_is_said_to_be_sound(run: Run) -> None:
    budget(run, "grant", "alice", "--epsilon", "1")
    ask(run, "alice")
    assert budget(run, "verify").splitlines() == [
        "people.ledger: 2 entries, 2 purses, anchor at entry 2",
        "sound: the log, the purses and the anchor",
    ]
    fields = parsed(budget(run, "verify", "--format", "json"))
    assert fields == {
        "ledger": "people.ledger", "sound": True, "accepted": False, "entries": 2, "purses": 2,
        "anchor": 2, "problems": [],
    }  # fmt: skip


def test_a_changed_ledger_answers_nothing_and_verify_says_where(run: Run) -> None:
    budget(run, "grant", "alice", "--epsilon", "1")
    ask(run, "alice")
    with sqlite3.connect("people.ledger") as stranger:
        stranger.execute("UPDATE purse SET rho = 10 * rho WHERE user = 'alice'")
    stranger.close()
    assert "something else than dpsql wrote to the ledger" in ask(run, "alice", code=4)
    for name in ("show", "log", "cap"):
        budget(run, name, code=4)
    said = budget(run, "verify", code=4)
    assert "the purse of alice on people was changed: grant ε 1" in said
    assert said.endswith("broken\n")
    fields = parsed(budget(run, "verify", "--format", "json", code=4))
    assert not fields["sound"] and len(fields["problems"]) == 1
    assert budget(run, "verify", "--accept", "a trial").endswith(
        "taken as it stands; the log says so\n"
    )
    budget(run, "verify")
    ask(run, "alice")
    assert "taken as it stands: a trial" in budget(run, "log")
    assert "ε 1.00 at δ 1e-06 (ρ 0.0244)" in budget(run, "show")


def test_a_ledger_elsewhere_has_an_anchor_beside_the_data(run: Run, tmp_path: Path) -> None:
    elsewhere = ["--ledger", str(tmp_path / "kept.ledger")]
    budget(run, "grant", "alice", "--epsilon", "1", *elsewhere)
    ask(run, "alice", *elsewhere)
    (second,) = Path().glob("people.duckdb.*.anchor")
    old = {path: path.read_bytes() for path in tmp_path.glob("kept.ledger*")}
    ask(run, "alice", *elsewhere)
    for path, content in old.items():
        path.write_bytes(content)
    refusal = ask(run, "alice", *elsewhere, code=4).replace("\n", " ")
    assert "the ledger ends at entry 2, and its anchor has seen entry 3" in refusal
    assert "entry 3" in budget(run, "verify", *elsewhere, code=4)
    second.unlink()  # what is put back together cannot be seen
    ask(run, "alice", *elsewhere)


def test_an_address_is_taken_wherever_a_ledger_is(
    run: Run, address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = ["--ledger", address]
    assert "there is no ledger in postgresql:///postgres" in ask(run, "alice", *there, code=4)
    budget(run, "grant", "alice", "--epsilon", "1", *there)
    budget(run, "group", "team", "bob", *there)
    ask(run, "alice", *there)
    run("explain", "people.duckdb", SQL, "-u", "alice", *there)
    assert "1.0 % of ρ spent" in budget(run, "show", "alice", *there)
    assert SQL in budget(run, "log", *there)
    assert budget(run, "verify", *there).startswith("postgresql:///postgres: 3 entries")
    monkeypatch.setenv("DPSQL_LEDGER", address)
    ask(run, "alice")
    with dpsql.connect("people.duckdb", user="alice", ledger=address) as connection:
        assert connection.execute(SQL).fetchone() is not None
        assert connection.budget().user == "alice"
    with dpsql.connect("people.duckdb", user="alice") as connection:
        connection.execute(SQL)
    with dpsql.Ledger.open(address) as ledger:
        assert len([entry for entry in ledger.log() if entry.kind == "charge"]) == 4
    budget(run, "revoke", "alice")
    ask(run, "alice", code=4)
    assert not list(Path().glob("*.ledger*"))


def test_the_units_key_of_a_distant_ledger_stands_beside_the_data(
    run: Run, town: Path, address: str
) -> None:
    (town / "people.toml").write_text(
        SCHEMA.replace('unit = "row"', 'unit = {column = "sex", max_rows = 2}')
    )
    budget(run, "grant", "alice", "--epsilon", "1", "--ledger", address)
    ask(run, "alice", "--ledger", address)
    assert (town / "people.ledger.key").stat().st_mode & 0o777 == 0o600
