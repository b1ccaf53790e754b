"""Synopses: bought once, asked without end, taught by what they get wrong."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.accounting.kept.synopses import Synopsis
from dpsql.errors import BudgetExceeded, UsageError
from dpsql.release import Release
from dpsql.session import Session

COLUMNS = ["sex", "region", "age", "smoker"]
TOLD = "SELECT sex, region, COUNT(*) AS n FROM town GROUP BY ALL"  # by the tables of two columns
NOT_TOLD = "SELECT COUNT(*) AS n FROM town WHERE sex = 'male' AND region = 'N' AND age < 5"


def opened(town: Any, path: Path, user: str = "alice") -> Session:
    return Session(path, user=user, ledger=town.ledger, settings={"reuse": True})


def filled(town: Any, name: str, sex: str, region: str) -> Path:
    """A database of 20,000 people, whose sex and region are made of `i`."""
    path: Path = town.database(name, [])
    with duckdb.connect(str(path)) as made:
        made.execute(
            f"INSERT INTO people SELECT CASE WHEN {sex} THEN 'male' ELSE 'female' END, "
            f"'NESW'[1 + ({region})], i // 4 % 10, 1 + i % 12, (i * 13 // 7 % 3 = 0) "
            "FROM (SELECT range::INT AS i FROM range(20000))"
        )
    return path


@pytest.fixture
def session(town: Any) -> Iterator[Session]:
    """Columns that have hardly to do with each other."""
    path = filled(town, "a", "i * 31 // 11 % 2 = 0", "i * 17 // 13 % 4")
    with opened(town, path) as found:
        yield found


def spent(session: Session) -> int:
    return session.ledger.balance(session.user, "town").spent_rho


def within(release: Release) -> bool:
    return all(
        low <= value <= high
        for row, lows, highs in zip(release.rows, release.low, release.high, strict=True)
        for value, low, high in zip(row, lows, highs, strict=True)
        if low is not None
    )


def test_its_tables_are_bought_once_at_the_price_that_was_foretold(session: Session) -> None:
    before = session.ledger.dump()
    foretold = session.synopses.create("main", COLUMNS, rho=0.1, explain=True)
    assert session.ledger.dump() == before and session.synopses.listed() == []
    made = session.synopses.create("main", COLUMNS, rho=0.1)
    assert made.rows == foretold.rows and made.charged == foretold.charged
    assert made.charged is not None and made.charged.rho == pytest.approx(0.1, rel=1e-5)
    assert session.last_charge == made.charged
    assert spent(session) == round(made.charged.rho * 1e12)
    assert [row[:2] for row in made.rows][:5] == [
        ("sex", 2), ("region", 4), ("age", 10), ("smoker", 3), ("sex, region", 8),
    ]  # fmt: skip
    (listed,) = session.synopses.listed()
    assert (listed.name, listed.user, listed.updates) == ("main", "alice", 0)
    told = ("town", "main", "sex, region, age, smoker", 10, "marginals", 0)
    assert session.synopses.shown().rows[0][:6] == told


def test_what_its_tables_tell_is_free_and_within_their_intervals(session: Session) -> None:
    session.synopses.create("main", COLUMNS, rho=0.1)
    paid = spent(session)
    plan = session.explain(TOLD, backend="synopsis")
    assert plan.backend == "synopsis" and plan.charged is not None and plan.charged.rho == 0
    first = session.answer(TOLD, backend="synopsis")
    assert first.backend == "synopsis" and first.reused and within(first)
    assert first.stderr == plan.stderr
    again = session.answer(
        "SELECT region, sex, COUNT(*) AS n FROM town GROUP BY 2, 1", backend="synopsis"
    )
    assert {(s, r): n for r, s, n in again.rows} == {(s, r): n for s, r, n in first.rows}
    assert spent(session) == paid
    plain = session.answer(TOLD, rho=0.01)  # reuse says the same free, without the distribution
    assert plain.backend == "reuse" and spent(session) == paid


def test_what_it_cannot_tell_is_bought_as_auto_would(session: Session) -> None:
    session.synopses.create("main", COLUMNS, rho=0.1)
    paid = spent(session)
    plan = session.explain(NOT_TOLD, backend="synopsis", rho=0.01)
    answer = session.answer(NOT_TOLD, backend="synopsis", rho=0.01)
    assert (plan.backend, answer.backend) == ("gaussian", "gaussian")
    assert "it learns no others, so this was bought" in answer.notes[0]
    assert "not answer (its tables do not tell it, and it learns no others)" in plan.notes[0]
    assert spent(session) - paid == round(plan.charged.rho * 1e12) == 10**10


def test_guesses_that_are_near_are_free_once_a_gate_is_bought(session: Session) -> None:
    session.synopses.create("main", COLUMNS, rho=1.0, method="pmw", ways=1, updates=4)
    (synopsis,) = session.synopses.listed()
    assert synopsis.updates == 4 and synopsis.rho == pytest.approx(0.85e12 / 4, abs=2)
    paid = spent(session)
    plan = session.explain(NOT_TOLD, backend="synopsis")
    answer = session.answer(NOT_TOLD, backend="synopsis")
    assert answer.charged == plan.charged and answer.charged is not None
    gate = spent(session) - paid
    assert 0 < gate <= synopsis.rho // 2 and gate == round(answer.charged.rho * 1e12)
    assert within(answer) and answer.stderr == plan.stderr
    paid = spent(session)
    other = "SELECT age, COUNT(*) AS n FROM town WHERE sex = 'female' AND smoker GROUP BY age"
    for question in (NOT_TOLD, other, NOT_TOLD, other):
        plan = session.explain(question, backend="synopsis")
        free = session.answer(question, backend="synopsis")
        assert free.backend == plan.backend == "synopsis" and free.reused and within(free)
        assert plan.charged == free.charged and plan.stderr == free.stderr
        assert "nothing was charged" in free.notes
    assert spent(session) == paid


@pytest.fixture
def uneven(town: Any) -> Iterator[Session]:
    """Sex follows from region: a distribution of single columns is far off."""
    with opened(town, filled(town, "b", "i % 4 < 2", "i % 4")) as found:
        yield found


FAR = "SELECT COUNT(*) AS n FROM town WHERE sex = 'male' AND region = 'N'"


def test_a_guess_that_is_far_off_buys_the_table_of_its_columns_and_teaches(
    uneven: Session,
) -> None:
    uneven.synopses.create("main", COLUMNS, rho=1.0, method="pmw", ways=1, updates=4)
    paid = spent(uneven)
    answer = uneven.answer(FAR, backend="synopsis")
    assert abs(answer.rows[0][0] - 5_000) < 100 and within(answer)
    (synopsis,) = uneven.synopses.listed()
    assert synopsis.updates == 3 and synopsis.sets[-1] == ("region", "sex")
    assert answer.charged is not None
    assert spent(uneven) - paid == round(answer.charged.rho * 1e12) <= synopsis.rho + 1
    paid = spent(uneven)
    for question in (FAR, TOLD):  # the whole table was measured
        free = uneven.answer(question, backend="synopsis")
        assert free.charged is not None and free.charged.rho == 0
    assert spent(uneven) == paid
    guess = uneven.answer(FAR + " AND age = 3", backend="synopsis")  # by a new gate, rightly
    assert guess.backend == "synopsis" and abs(guess.rows[0][0] - 500) < 250
    assert len(uneven.synopses.listed()[0].charges) == 2


def test_it_learns_until_its_updates_are_spent_then_answers_are_bought(uneven: Session) -> None:
    uneven.synopses.create("main", COLUMNS, rho=1.0, method="pmw", ways=1, updates=1)
    assert uneven.answer(FAR, backend="synopsis").backend == "synopsis"
    bought = uneven.answer(FAR + " AND age = 3", backend="synopsis", rho=0.01)
    assert bought.backend == "gaussian" and "no updates left" in bought.notes[0]


def test_a_restart_pays_for_a_gate_of_its_own(town: Any, session: Session) -> None:
    session.synopses.create("main", COLUMNS, rho=1.0, method="pmw", ways=1, updates=4)
    session.answer(NOT_TOLD, backend="synopsis")
    paid = spent(session)
    with opened(town, session.database) as other:
        plan = other.explain(NOT_TOLD, backend="synopsis")
        assert any("buys a gate" in note for note in plan.notes)
        answer = other.answer(NOT_TOLD, backend="synopsis")
        assert answer.charged == plan.charged and spent(session) > paid


def test_others_pay_once_for_what_they_read_and_the_cap_does_not_pay_again(
    town: Any, session: Session
) -> None:
    for user in ("bob", "carol"):
        town.ledger.grant(user, dataset="town", epsilon=100)
    session.synopses.create("main", COLUMNS, rho=0.1, users=["bob"])
    shown = session.answer("SHOW SYNOPSES")
    assert shown == session.synopses.shown("town")
    assert shown.rows[0][shown.columns.index("asked_by")] == "alice, bob"
    (cap,) = town.ledger.caps()
    with (
        opened(town, session.database, "bob") as bob,
        opened(town, session.database, "carol") as carol,
    ):
        plan = bob.explain(TOLD, backend="synopsis")
        answer = bob.answer(TOLD, backend="synopsis")
        assert answer.charged == plan.charged == answer.price
        assert answer.charged is not None and answer.charged.rho == pytest.approx(0.1, rel=1e-5)
        assert bob.last_charge == answer.charged
        assert bob.answer(TOLD, backend="synopsis").charged.rho == 0
        with pytest.raises(UsageError, match="that carol may ask"):
            carol.answer(TOLD, backend="synopsis")
        assert answer.rows == session.answer(TOLD, backend="synopsis").rows
    with opened(town, session.database, "bob") as bob:  # another process knows what was read
        assert bob.answer(TOLD, backend="synopsis").charged.rho == 0
    assert town.ledger.caps()[0].spent_rho == cap.spent_rho


def test_two_sessions_never_buy_the_same_lesson_twice(
    town: Any, uneven: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    uneven.synopses.create("main", COLUMNS, rho=1.0, method="pmw", ways=1, updates=4)
    with opened(town, uneven.database) as other:
        curator = uneven._curator(uneven.datasets["town"])
        measure, lessons = curator.measure, []

        def late(*given: Any, **named: Any) -> Any:
            if not lessons:  # the other one is first, after this one's gate has closed
                lessons.append(other.answer(FAR, backend="synopsis"))
            return measure(*given, **named)

        monkeypatch.setattr(curator, "measure", late)
        answer = uneven.answer(FAR, backend="synopsis")
        assert answer.rows == lessons[0].rows
    (synopsis,) = uneven.synopses.listed()
    assert synopsis.updates == 3 and len(synopsis.charges) == 2


def test_an_accuracy_that_it_does_not_reach_is_bought(session: Session) -> None:
    session.synopses.create("main", COLUMNS, rho=0.001, method="pmw", ways=1, updates=2)
    for question in (NOT_TOLD, "SELECT COUNT(*) AS n FROM town WHERE age = 3"):
        plan = session.explain(question, backend="synopsis", accuracy=20)
        answer = session.answer(question, backend="synopsis", accuracy=20)
        assert "not as accurate as was asked" in answer.notes[0] + plan.notes[0]
        assert answer.high[0][0] - answer.low[0][0] <= 40
        assert answer.charged == plan.charged


def test_a_changed_table_has_no_synopsis(town: Any) -> None:
    path = filled(town, "c", "i % 3 = 0", "i % 4")
    with opened(town, path) as session:
        session.synopses.create("main", COLUMNS, rho=0.1)
        session.answer(TOLD, backend="synopsis")
        assert not any("changed" in note for note in session.synopses.export("main", 9).notes)
    filled(town, "c", "i % 5 = 0", "i % 4")
    with opened(town, path) as session:
        with pytest.raises(UsageError, match=r"no synopsis of town .* changed since main was made"):
            session.answer(TOLD, backend="synopsis")
        assert "the data have changed" in session.synopses.export("main", 9).notes[0]
        assert session.synopses.shown().rows[0][-1] is False
        session.synopses.create("main", COLUMNS, rho=0.1)  # the name is free again
        assert session.answer(TOLD, backend="synopsis").backend == "synopsis"


def test_a_refused_purchase_leaves_no_synopsis(session: Session) -> None:
    before = session.ledger.dump()
    with pytest.raises(BudgetExceeded):
        session.synopses.create("main", COLUMNS, rho=1e9)
    assert session.ledger.dump() == before and session.synopses.listed() == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"name": "a b", "columns": COLUMNS}, "'a b' is no name of a synopsis"),
        ({"name": "a", "columns": ["sex", "height"]}, "town has no column 'height'"),
        ({"name": "a"}, "which columns? the schema of town lists none under [synopses] for 'a'"),
        ({"name": "a", "columns": []}, "a synopsis needs a column"),
        ({"name": "a", "columns": ["sex"]}, "of two columns or more: a GROUP BY of sex is kept"),
        ({"name": "a", "columns": COLUMNS, "ways": 5}, "ways is from 1 to the 4 columns, not 5"),
        ({"name": "a", "columns": COLUMNS, "method": "magic"}, "method is one of auto"),
        (
            {"name": "a", "columns": COLUMNS, "updates": 3},
            "updates are of the methods pmw, mwem and",
        ),
        ({"name": "a", "columns": COLUMNS, "method": "pmw", "updates": 0}, "updates is from 1 to"),
        (
            {"name": "a", "columns": COLUMNS, "method": "pmw", "accuracy": 20, "rho": 0.001},
            "more than the price leaves",
        ),
        (
            {"name": "a", "columns": COLUMNS, "method": "pmw", "accuracy": 9, "updates": 2},
            "give one",
        ),
    ],
)
def test_what_cannot_be_made_is_said_and_nothing_is_charged(
    session: Session, given: dict[str, Any], words: str
) -> None:
    before = session.ledger.dump()
    with pytest.raises(UsageError, match=re.escape(words)):
        session.synopses.create(**given)
    assert session.ledger.dump() == before


@pytest.mark.parametrize("questions", [1000])  # as many as usual
def test_gates_as_accurate_as_was_asked(session: Session) -> None:
    session.synopses.create("main", COLUMNS, rho=2.0, method="pmw", ways=1, accuracy=60)
    (synopsis,) = session.synopses.listed()
    assert 1 < synopsis.updates < 100
    answer = session.answer(NOT_TOLD, backend="synopsis")
    assert answer.high[0][0] - answer.low[0][0] <= 120


def test_settings_that_do_not_go_together(session: Session) -> None:
    session.synopses.create("main", COLUMNS, rho=0.1)
    with pytest.raises(UsageError, match="needs reuse = on"):
        session.answer(TOLD, backend="synopsis", reuse=False)
    with pytest.raises(UsageError, match="RESET postprocess"):
        session.answer(TOLD, backend="synopsis", postprocess="projection")
    with pytest.raises(UsageError, match="no synopsis of town that alice may ask has all of month"):
        session.answer("SELECT COUNT(*) FROM town WHERE month = 3", backend="synopsis")


def test_dropping(session: Session) -> None:
    session.synopses.create("main", COLUMNS, rho=0.1)
    session.synopses.drop("main")
    assert session.synopses.listed() == []
    with pytest.raises(UsageError, match="there is none"):
        session.answer(TOLD, backend="synopsis")
    assert session.answer(TOLD, rho=0.01).backend == "reuse"  # what was released stays kept


def test_a_synopsis_is_what_the_log_says(session: Session) -> None:
    session.synopses.create("main", ["sex", "age"], rho=0.1, method="pmw", ways=1, updates=1)
    (synopsis,) = session.synopses.listed()
    assert isinstance(synopsis, Synopsis)
    entries = {entry.seq: entry.statement for entry in session.ledger.log()}
    assert [entries[seq] for seq in synopsis.charges] == [
        "CREATE SYNOPSIS main ON town AS (sex), (age)"
    ]
    session.answer("SELECT COUNT(*) FROM town WHERE sex = 'male' AND age = 1", backend="synopsis")
    assert "GATE OF SYNOPSIS main" in {entry.statement for entry in session.ledger.log()}


def test_made_up_rows_follow_the_tables_and_cost_nothing(session: Session) -> None:
    session.synopses.create("main", COLUMNS, rho=10)
    paid = spent(session)
    made = session.synopses.export("main")
    assert made.columns == tuple(COLUMNS) and abs(len(made.rows) - 20_000) < 20
    assert spent(session) == paid and made.charged is not None and made.charged.rho == 0
    told = {row[:2]: row[2] for row in session.answer(TOLD, backend="synopsis").rows}
    counted = Counter(row[:2] for row in made.rows)
    assert all(abs(counted[key] - n) < 30 for key, n in told.items())
    assert {type(row[2]) for row in made.rows} == {int}
    assert {row[3] for row in made.rows} <= {True, False, None}
    with pytest.raises(UsageError, match="rows is a whole number"):
        session.synopses.export("main", -1)
    assert session.synopses.export("main", 0).rows == ()


def test_who_makes_up_rows_has_paid_for_what_they_follow(town: Any, session: Session) -> None:
    town.ledger.grant("bob", dataset="town", epsilon=100)
    session.synopses.create("main", COLUMNS, rho=0.1, users=["bob"])
    with opened(town, session.database, "bob") as bob:
        made = bob.synopses.export("main", 10)
        assert made.charged is not None and made.charged.rho == pytest.approx(0.1, rel=1e-5)
        assert bob.synopses.export("main", 10).charged.rho == 0
    town.ledger.grant("carol", dataset="town", epsilon=100)
    with (
        opened(town, session.database, "carol") as carol,
        pytest.raises(UsageError, match="is not for carol"),
    ):
        carol.synopses.export("main")


def test_the_distribution_is_kept_and_fitted_again_where_it_is_lost(
    town: Any, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpsql.session.synopses import held

    session.synopses.create("main", COLUMNS, rho=0.1)
    said = session.answer(TOLD, backend="synopsis").rows
    fits = []
    rooted = held.rooted
    monkeypatch.setattr(held, "rooted", lambda *given: fits.append(1) or rooted(*given))
    with opened(town, session.database) as other:
        assert other.answer(TOLD, backend="synopsis").rows == said and not fits
    (synopsis,) = session.synopses.listed()
    kept = session.ledger.synopses.fit(synopsis)
    assert kept is not None
    for damaged in (b"", b"x", kept[:-9], kept[: len(kept) // 2]):
        session.ledger.synopses.keep_fit(synopsis, damaged)
        with opened(town, session.database) as other:
            assert other.answer(TOLD, backend="synopsis").rows == said
    assert len(fits) == 4
    assert session.ledger.synopses.fit(synopsis) == kept


def test_what_is_learnt_is_in_the_distribution_of_the_next_session(
    town: Any, uneven: Session
) -> None:
    uneven.synopses.create("main", COLUMNS, rho=1.0, method="pmw", ways=1, updates=4)
    uneven.answer(FAR, backend="synopsis")
    made = Counter(row[:2] for row in uneven.synopses.export("main").rows)
    with opened(town, uneven.database) as other:
        again = Counter(row[:2] for row in other.synopses.export("main").rows)
    for counted in (made, again):
        assert abs(counted["male", "N"] - 5000) < 150 and counted["female", "N"] < 150
