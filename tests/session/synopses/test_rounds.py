"""Synopses whose tables are chosen in rounds: one charge, one release, whatever was chosen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from dpsql.errors import BudgetExceeded, Refused, UsageError
from dpsql.session import Session
from tests.session.synopses.test_synopsis import NOT_TOLD, filled, opened, spent, within

QUERIES = """
-- the columns hardly have to do with each other, but for sex and region
SELECT sex, region, COUNT(*) FROM town GROUP BY ALL;
SELECT COUNT(*) FROM town WHERE sex = 'male' AND age < $old;
SELECT region, AVG(smoker::INT) FROM town GROUP BY region;
SELECT COUNT(*) FROM town WHERE region = 'N' AND age < 3;
"""
PARAMS = {"old": 4}
TOLD = "SELECT sex, region, COUNT(*) AS n FROM town GROUP BY ALL"


@pytest.fixture
def session(town: Any) -> Iterator[Session]:
    """Sex follows from region: that table is the one that a synopsis needs most."""
    with opened(town, filled(town, "b", "i % 4 < 2", "i % 4")) as found:
        yield found


def create(session: Session, name: str = "main", **given: Any) -> Any:
    terms = {"rho": 0.1, "method": "mwem", "updates": 1, "queries": QUERIES, "params": PARAMS}
    return session.synopses.create(name, **{**terms, **given})


def test_all_rounds_are_one_charge_as_foretold(session: Session) -> None:
    before = session.ledger.dump()
    foretold = create(session, updates=2, explain=True)
    assert session.ledger.dump() == before and session.synopses.listed() == []
    made = create(session, updates=2)
    assert made.charged == foretold.charged == session.last_charge and made.price == foretold.price
    assert made.charged is not None and 0.097 <= made.charged.rho <= 0.1
    assert spent(session) == round(made.charged.rho * 1e12)
    (entry,) = [e for e in session.ledger.log() if e.kind == "charge"]
    assert entry.event is not None and entry.event["event"] == "rounds"
    assert entry.event["times"] == 2
    assert made.rows[:4] == foretold.rows[:4]
    assert [row[0] for row in made.rows[:4]] == ["sex", "region", "age", "smoker"]
    assert len(made.rows) == 6 and {row[3] for row in made.rows[:4]} == {None}
    (listed,) = session.synopses.listed()
    assert (listed.method, listed.updates, listed.rounds) == ("mwem", 0, 2)
    assert listed.columns == ("sex", "region", "age", "smoker")
    assert session.synopses.shown().rows[0][3:6] == (6, "mwem", 0)


def test_the_table_that_the_synopsis_errs_most_on_is_chosen(session: Session) -> None:
    made = create(session)
    assert made.rows[-1][:2] == ("sex, region", 8)
    assert made.rows[-1][3] == "script:3"  # the line of its statement


def test_what_its_tables_tell_is_free_and_within_their_intervals(session: Session) -> None:
    create(session)
    paid = spent(session)
    plan = session.explain(TOLD, backend="synopsis")
    assert plan.backend == "synopsis" and plan.charged is not None and plan.charged.rho == 0
    first = session.answer(TOLD, backend="synopsis")
    assert first.backend == "synopsis" and first.reused and within(first)
    assert first.stderr == plan.stderr
    assert sum(row[2] for row in first.rows) == pytest.approx(20_000, abs=200)
    single = session.answer("SELECT COUNT(*) AS n FROM town WHERE age = 3", backend="synopsis")
    assert abs(single.rows[0][0] - 2_000) < 100 and within(single)
    plain = session.answer(
        "SELECT COUNT(*) AS n FROM town WHERE sex = 'male' AND region = 'N'", rho=0.001
    )
    assert plain.backend == "reuse" and abs(plain.rows[0][0] - 5_000) < 100
    assert spent(session) == paid
    bought = session.answer(NOT_TOLD, backend="synopsis", rho=0.01)
    assert "it learns no others, so this was bought" in bought.notes[0]


@pytest.mark.parametrize("given", [{}, {"method": "marginals", "updates": None}])
def test_its_tables_tell_the_truth_where_noise_is_small(session: Session, given: Any) -> None:
    """Each group by its name, as DuckDB counts it."""
    session.ledger.grant("alice", dataset="town", epsilon=1e6)
    create(session, rho=1e4, **{"updates": 4, **given})
    database = session.database
    for keys in ("sex, region", "region, sex", "age, region", "smoker, region", "age, sex"):
        told = session.answer(
            f"SELECT {keys}, COUNT(*) AS n FROM town GROUP BY ALL", backend="synopsis"
        )
        assert told.backend == "synopsis"
        with duckdb.connect(str(database), read_only=True) as other:
            listed = other.sql(f"SELECT {keys}, COUNT(*) FROM people GROUP BY ALL").fetchall()
        true = {row[:-1]: row[-1] for row in listed}
        assert all(abs(row[-1] - true.get(row[:-1], 0)) <= 1 for row in told.rows)


def test_it_is_kept_and_exported_as_any_synopsis(town: Any, session: Session) -> None:
    create(session)
    paid = spent(session)
    with opened(town, session.database) as other:
        told = other.answer(TOLD, backend="synopsis")
        assert told.rows == session.answer(TOLD, backend="synopsis").rows
        rows = other.synopses.export("main", 1_000)
        assert len(rows.rows) == 1_000 and spent(other) == paid
        north = [row for row in rows.rows if row[1] == "N"]
        assert sum(row[0] == "male" for row in north) >= 0.95 * len(north) > 200
        other.synopses.drop("main")
        assert other.synopses.listed() == []


def test_a_reader_pays_for_the_choices_and_the_tables_and_knows_neither_before(
    town: Any, session: Session
) -> None:
    """EXPLAIN says the same of a table that was chosen and of one that was not."""
    town.ledger.grant("bob", dataset="town", epsilon=100)
    made = create(session)
    (cap,) = town.ledger.caps()
    with opened(town, session.database, "bob") as bob:
        shown = bob.synopses.shown().rows[0]
        assert shown[3] == 5 and "sex, region" not in shown[3:]
        seen = [
            bob.explain(sql, backend="synopsis")
            for sql in (TOLD, "SELECT region, smoker, COUNT(*) AS n FROM town GROUP BY ALL")
        ]  # of which one was chosen, and the other was not
        assert seen[0].charged == seen[1].charged == seen[0].price
        assert seen[0].notes == seen[1].notes
        assert any("is known once they are read" in note for note in seen[0].notes)
        alone = bob.explain(TOLD, rho=1e-4)
        assert alone.backend != "reuse" and not any("another user" in n for n in alone.notes)
        answer = bob.answer(TOLD, backend="synopsis")
        assert answer.charged == seen[0].charged == made.charged and answer.stderr == seen[0].stderr
        assert answer.rows == session.answer(TOLD, backend="synopsis").rows
        assert bob.answer(TOLD, backend="synopsis").charged.rho == 0
    assert town.ledger.caps()[0].spent_rho == cap.spent_rho


def test_a_run_that_is_stopped_was_paid_and_tells_nothing(
    town: Any, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpsql.curator.chooser import Chooser

    def stopped(*given: Any) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Chooser, "pick", stopped)
        with pytest.raises(KeyboardInterrupt) as told:
            create(session)
    assert "charged" in str(told.value.__notes__)
    assert 0.097e12 <= spent(session) <= 0.1e12
    assert "is lost: drop it" in session.answer(TOLD, backend="synopsis").notes[0]
    listed, items = (
        session.synopses.shown(),
        {k: v for _, k, v in session.synopses.described("main").rows},
    )
    assert not listed.rows[0][listed.columns.index("current")]
    assert "is lost" in listed.notes[0] and "is lost; drop it" in items["current"]
    session.synopses.drop("main")
    create(session)


def test_what_is_stopped_before_it_is_paid_costs_nothing(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = Session._curator

    def stopped(self: Session, dataset: Any) -> Any:
        self.interrupt()
        return usual(self, dataset)

    with monkeypatch.context() as patch:
        patch.setattr(Session, "_curator", stopped)
        with pytest.raises(KeyboardInterrupt) as told:
            create(session)
    assert told.value.__notes__ == ["nothing was charged"] and spent(session) == 0
    create(session)


def test_nothing_is_read_before_it_is_paid(
    town: Any, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(session._curator(session.datasets["town"])), "_answers", None)
    with pytest.raises(BudgetExceeded):
        create(session, rho=1e9)
    assert spent(session) == 0 and session.synopses.listed() == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"queries": None, "params": None}, "is for queries: give a script"),
        ({"queries": None}, "is for queries"),
        ({"queries": None, "method": "marginals", "updates": None}, "params are values for"),
        ({"sets": [["sex", "age"]]}, "give these or those"),
        ({"method": "pmw", "sets": [["sex", "age"]]}, "give these or those"),
        ({"updates": 5}, "at most 4 updates, not 5"),
        ({"accuracy": 10.0}, "accuracy is of method pmw"),
        ({"columns": ["sex", "region"]}, "asks about age, smoker, too"),
        ({"params": {"old": 3, "x": 1}}, "has no parameter x"),
        ({"queries": "SELECT COUNT(*) FROM town WHERE age < $old"}, "single columns tell all"),
        ({"queries": "SET rho = 1; SELECT COUNT(*) FROM town WHERE age < $old"}, "a price above"),
        ({"rho": 1e-12}, "too small"),
    ],
)
def test_what_it_cannot_do_is_refused(session: Session, given: Any, words: str) -> None:
    before = session.ledger.dump()
    with pytest.raises(UsageError, match=words):
        create(session, **given)
    assert session.ledger.dump() == before


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT SUM(age) FROM town", "adds up values"),
        ("SELECT COUNT(*) FROM town;\nSHOW BUDGET", "SELECTs that count rows"),
        ("SELECT COUNT(*) FROM nowhere", "nowhere"),
    ],
)
def test_a_statement_that_is_no_count_is_refused_by_its_line(
    session: Session, sql: str, words: str
) -> None:
    with pytest.raises(Refused, match=words) as refused:
        create(session, queries=f"SELECT COUNT(*) FROM town WHERE age < $old;\n{sql};")
    line = 2 + sql.count("\n")
    assert f"script:{line}:" in str(refused.value)


def test_marginals_measure_the_tables_of_the_queries(session: Session) -> None:
    made = create(session, method="marginals", updates=None)
    assert [row[0] for row in made.rows[4:]] == [
        "sex, region", "sex, age", "region, smoker", "region, age",
    ]  # fmt: skip
