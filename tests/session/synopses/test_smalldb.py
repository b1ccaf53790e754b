"""Synopses of one small database: chosen for some queries, which it answers, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dpsql.errors import UsageError
from dpsql.session import Session
from tests.session.synopses.test_synopsis import filled, opened, spent, within

QUERIES = """
SELECT sex, region, COUNT(*) AS n FROM town GROUP BY ALL;
SELECT COUNT(*) AS n FROM town WHERE sex = 'male';
"""
TOLD = "SELECT region, sex, COUNT(*) AS n FROM town GROUP BY ALL"
ONE = "SELECT COUNT(*) AS n FROM town WHERE sex = 'male' AND region = 'N'"
OTHER = "SELECT COUNT(*) AS n FROM town WHERE region = 'N'"


@pytest.fixture
def session(town: Any) -> Iterator[Session]:
    """Sex follows from region: a quarter of the people in each of four cells, and nobody else."""
    with opened(town, filled(town, "b", "i % 4 < 2", "i % 4")) as found:
        yield found


def create(session: Session, name: str = "small", **given: Any) -> Any:
    terms = {"rho": 0.1, "method": "smalldb", "queries": QUERIES, "size": 4}
    return session.synopses.create(name, **{**terms, **given})


def test_one_charge_buys_it_as_foretold(session: Session) -> None:
    before = session.ledger.dump()
    foretold = create(session, explain=True)
    assert session.ledger.dump() == before and session.synopses.listed() == []
    assert [*foretold.rows] == [("sex, region", 8, None)]
    assert "one of 330 databases of 4 rows" in foretold.notes[0]
    made = create(session)
    assert made.charged == foretold.charged == session.last_charge and made.backend == "smalldb"
    assert made.charged is not None and 0.099 <= made.charged.rho <= 0.1
    assert spent(session) == round(made.charged.rho * 1e12)
    assert len([e for e in session.ledger.log() if e.kind == "charge"]) == 1
    (listed,) = session.synopses.listed()
    assert (listed.method, listed.columns, listed.sets) == ("smalldb", ("sex", "region"), ())


def test_it_answers_its_queries_within_one_bound_and_no_others(session: Session) -> None:
    made = create(session)
    paid = spent(session)
    most = made.rows[0][2]
    assert 0 < most < 100  # the right database is among the 330
    plan = session.explain(TOLD, backend="synopsis")
    answer = session.answer(TOLD, backend="synopsis")
    assert plan.backend == answer.backend == "synopsis" and plan.stderr == answer.stderr
    right = {("N", "male"): 5000, ("E", "male"): 5000, ("S", "female"): 5000, ("W", "female"): 5000}
    for (region, sex, n), (_, _, low), (_, _, high) in zip(
        answer.rows, answer.low, answer.high, strict=True
    ):
        true = right.get((region, sex), 0)
        assert low <= true <= high and abs(n - true) <= most and high - low <= 2 * most
    single = session.answer(ONE, backend="synopsis")  # a group of a statement
    assert abs(single.rows[0][0] - 5000) <= most and within(single)
    assert spent(session) == paid
    plan = session.explain(OTHER, backend="synopsis", rho=0.01)
    assert "it was not made for this question" in plan.notes[0]
    share = session.answer(
        "SELECT AVG((sex = 'male')::INT) AS n FROM town WHERE region = 'N'",
        backend="synopsis", rho=0.01,
    )  # fmt: skip
    other = session.answer(OTHER, backend="synopsis", rho=0.01)
    for bought in (share, other):
        assert bought.backend != "synopsis" or bought.rows[0][0] == 1.0
    assert "it was not made for this question, so this was bought" in other.notes[0]
    close = session.answer(ONE, backend="synopsis", accuracy=2)
    assert "not as accurate as was asked" in close.notes[0]


def test_a_reader_pays_once_and_knows_nothing_before(town: Any, session: Session) -> None:
    town.ledger.grant("bob", dataset="town", epsilon=100)
    made = create(session)
    (cap,) = town.ledger.caps()
    with opened(town, session.database, "bob") as bob:
        plan = bob.explain(TOLD, backend="synopsis")
        assert any("at best" in note for note in plan.notes)
        answer = bob.answer(TOLD, backend="synopsis")
        assert answer.charged == plan.charged == made.charged
        assert answer.rows == session.answer(TOLD, backend="synopsis").rows
        assert bob.answer(TOLD, backend="synopsis").charged.rho == 0
    assert town.ledger.caps()[0].spent_rho == cap.spent_rho


def test_its_rows_are_exported(session: Session) -> None:
    create(session)
    rows = session.synopses.export("small", 400).rows
    assert len(rows) == 400
    assert {tuple(row) for row in rows} == {
        ("male", "N"), ("male", "E"), ("female", "S"), ("female", "W")
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"size": 40}, "there are 62,891,499 databases of 40 rows over 8 cells"),
        ({"size": 0}, "size is a whole number"),
        ({"size": None, "columns": ["sex", "region", "age", "smoker"], "rho": 1e-12}, "too small"),
        ({"updates": 3}, "updates are of the methods"),
        ({"method": "mwem"}, "size is of method smalldb"),
        ({"queries": None}, "is for queries"),
    ],
)
def test_what_it_cannot_do_is_refused(session: Session, given: Any, words: str) -> None:
    before = session.ledger.dump()
    with pytest.raises(UsageError, match=words):
        create(session, **given)
    assert session.ledger.dump() == before


def test_what_is_held_already_and_more_accurate_is_said_instead(session: Session) -> None:
    bought = session.answer(ONE, rho=0.5)
    create(session)
    found = session.answer(ONE, backend="synopsis")
    assert (found.rows, found.stderr) == (bought.rows, bought.stderr)
    assert session.explain(ONE, backend="synopsis").stderr == bought.stderr


def test_who_bought_a_synopsis_alone_drops_it(session: Session, town: Any) -> None:
    create(session)
    town.ledger.grant("bob", dataset="town", epsilon=100)
    with opened(town, session.database, "bob") as bob:
        with pytest.raises(UsageError, match="was bought by alice, who alone can drop it"):
            bob.synopses.drop("small")
        assert [s.name for s in bob.synopses.listed()] == ["small"]
    session.synopses.drop("small")
    assert session.synopses.listed() == []
