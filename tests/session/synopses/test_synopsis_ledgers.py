"""Synopses on every ledger, under pure grants, and where rows are replaced."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.errors import Error, UsageError
from dpsql.mechanisms import sparse
from dpsql.release import Release
from dpsql.session import Session
from tests.session.synopses.test_synopsis import COLUMNS, NOT_TOLD, TOLD, filled, spent, within

FAR = "SELECT COUNT(*) AS n FROM town WHERE sex = 'male' AND region = 'N'"
ASKED = {"backend": "synopsis"}
MADE = {"rho": 1.0, "method": "pmw", "ways": 1, "updates": 4}


def opened(path: Path, ledger: Ledger, user: str) -> Session:
    return Session(path, user=user, ledger=ledger, settings={"reuse": True})


def test_one_is_made_taught_read_and_dropped_on_every_ledger(town: Any, ledger: Ledger) -> None:
    path = filled(town, "b", "i % 4 < 2", "i % 4")
    with opened(path, ledger, "alice") as alice, opened(path, ledger, "bob") as bob:
        with pytest.raises(UsageError, match="zoe has no grant for town"):
            alice.synopses.create("main", COLUMNS, users=["zoe"], **MADE)
        alice.synopses.create("main", COLUMNS, users=["bob"], **MADE)
        told = alice.answer(FAR, **ASKED)
        assert abs(told.rows[0][0] - 5000) < 100 and within(told)
        before = spent(bob)
        read = bob.answer(FAR, **ASKED)
        assert read.rows == told.rows and read.charged is not None
        assert spent(bob) - before == round(read.charged.rho * 1e12) > 0
        with opened(path, ledger, "carol") as carol, pytest.raises(UsageError, match="no synopsis"):
            carol.answer(FAR, **ASKED)
        paid = spent(bob)
        assert len(bob.synopses.export("main", 40).rows) == 40 and spent(bob) == paid
        one, two = (s.answer(f"{FAR} AND age < 5", **ASKED) for s in (alice, bob))
        assert within(one) and within(two)
        (kept,) = bob.synopses.listed()
        assert kept == alice.synopses.listed()[0] and kept.updates == 4 - len(kept.charges) + 1
        largest = "SELECT region, COUNT(*) AS n FROM town GROUP BY 1 LARGEST 1 WITH COUNTS"
        first = bob.answer(largest, rho=0.1)
        assert bob.answer(largest, rho=0.1).rows == first.rows and abs(first.rows[0][1] - 5000) < 50
        alice.synopses.drop("main")
        assert bob.synopses.listed() == []


@pytest.mark.parametrize("gate", ["exponential", "laplace"])
def test_where_rows_are_replaced_counts_move_both_ways_and_gates_allow_it(
    town: Any, gate: Any
) -> None:
    path = filled(town, "b", "i % 4 < 2", "i % 4")
    text = path.with_suffix(".toml").read_text()
    path.with_suffix(".toml").write_text(
        text.replace('unit = "row"', 'neighbours = "replace-one"\nunit = "row"')
    )
    with opened(path, town.ledger, "alice") as session:
        session.synopses.create("main", COLUMNS, gate=gate, **MADE)
        for sql in (FAR, TOLD, NOT_TOLD):
            assert within(session.answer(sql, **ASKED))
        entries = [e.event for e in session.ledger.log("alice") if "GATE" in e.statement]
        assert entries and all(e is not None and not e["monotone"] for e in entries)
        found = session.answer("SELECT region, COUNT(*) AS n FROM town GROUP BY 1 LARGEST 1", rho=1)
        (event,) = [e.event for e in session.ledger.log("alice") if "LARGEST" in e.statement]
        assert found.rows and event is not None and event["monotone"] is False


def test_a_pure_purse_neither_makes_nor_reads_one(town: Any) -> None:
    """Its noise has no pure price; that is said before anything is charged."""
    path = filled(town, "b", "i % 4 < 2", "i % 4")
    town.ledger.grant("bob", dataset="town", epsilon=5.0, delta=0.0)
    with opened(path, town.ledger, "alice") as alice:
        alice.synopses.create("main", COLUMNS, **MADE)
    with opened(path, town.ledger, "bob") as bob:
        with pytest.raises(UsageError, match="the grant is pure"):
            bob.synopses.create("own", COLUMNS, epsilon=1.0)
        told = bob.answer(TOLD, epsilon=0.1, **ASKED)
        assert told.backend == "laplace" and "the grant is pure" in told.notes[0]
        assert "the grant is pure" in bob.explain(TOLD, epsilon=0.2, **ASKED).notes[0]
        assert town.ledger.balance("bob", "town").spent_epsilon == 10**11
        with pytest.raises(Error, match="pure"):
            bob.synopses.export("main", 10)
        assert town.ledger.balance("bob", "town").spent_epsilon == 10**11
        found = bob.answer("SELECT region, COUNT(*) AS n FROM town GROUP BY 1 FIRST 1 ABOVE 100")
        assert found.charged is not None and found.charged.epsilon > 0


@pytest.mark.parametrize("level", [0.9, 0.99])
def test_all_guesses_that_a_laplace_gate_lets_pass_are_near_as_often_as_is_said(
    level: float,
) -> None:
    """By the exact law, of as many guesses just beyond the bound as it is good for, and of one."""
    import numpy as np

    from dpsql.mechanisms.synopses.verifier import QUESTIONS, share, verifier

    told = verifier(1, 10**9, "laplace")
    assert told.most(level) == told.threshold + sparse.hidden(
        told.event, QUESTIONS, share(level, 1)
    )
    a, b = float(told.event.threshold_scale), float(told.event.query_scale)
    z = np.arange(-int(40 * a), int(40 * a))
    weights = np.exp(-np.abs(z) / a)
    weights /= weights.sum()

    def failed(questions: int) -> float:
        gap = told.threshold + z - (told.most(level) + 1)  # passes where N < that
        q = np.exp(-1 / b)
        below = np.where(gap > 0, 1 - q**gap / (1 + q), q ** (1 - gap) / (1 + q))
        # a gate is asked on until it closes: it fails if the first guess passes, or is never asked
        return (
            float((weights * below).sum())
            if questions == 1
            else float((weights * (1 - (1 - below) ** questions)).sum())
        )

    assert failed(1) <= failed(QUESTIONS) <= 1 - share(level, 1)


@pytest.mark.parametrize("lost", ["1", "seq = (SELECT min(seq) FROM release)", "seq > 4"])
def test_what_is_left_of_damaged_releases_is_fitted_and_nothing_else_breaks(
    tmp_path: Path, town: Any, lost: str
) -> None:
    path, place = filled(town, "b", "i % 4 < 2", "i % 4"), tmp_path / "some.ledger"
    with Ledger.open(str(place)) as ledger:
        ledger.grant("alice", dataset="town", epsilon=100)
        with opened(path, ledger, "alice") as alice:
            alice.synopses.create("main", COLUMNS, **MADE)
            for asked in (FAR, FAR.replace("'N'", "'S' AND smoker")):
                alice.answer(asked, **ASKED)
    with contextlib.closing(sqlite3.connect(place, isolation_level=None)) as made:
        assert made.execute(f"UPDATE release SET stored = substr(stored, 1, 40) WHERE {lost}")
    with Ledger.open(str(place)) as ledger, opened(path, ledger, "alice") as alice:
        paid = spent(alice)
        asks: list[Callable[[], Release]] = [
            lambda: alice.explain(NOT_TOLD, **ASKED),
            lambda: alice.answer(NOT_TOLD, strict=False, **ASKED),
            lambda: alice.synopses.export("main", 10),
        ]
        for ask in asks:
            if lost == "1":
                with pytest.raises(UsageError, match="what was measured for synopsis main is lost"):
                    ask()
            else:
                ask()
        listed, items = (
            alice.synopses.shown(),
            {k: v for _, k, v in alice.synopses.described("main").rows},
        )
        assert listed.rows[0][listed.columns.index("current")] == (lost != "1")
        assert items["current"].startswith("no: what was measured" if lost == "1" else "yes")
        assert ("updates" in items) == (lost != "1")
        assert spent(alice) == paid
