"""A question asked again after more was bought: free, no worse, and it agrees with all the rest.

And a plan told again is not worked out again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpsql.mechanisms.reuse.fit import Model
from dpsql.mechanisms.strategies.tables import Precisions
from dpsql.release import Release
from dpsql.session import Session

CUBE = "SELECT sex, region, COUNT(*) AS n FROM town GROUP BY CUBE (sex, region)"
PARTS = [
    "SELECT sex, COUNT(*) AS n FROM town GROUP BY sex",
    "SELECT region, COUNT(*) AS n FROM town GROUP BY region",
    "SELECT COUNT(*) AS n FROM town",
]
TABLES = "SELECT sex, month, age, COUNT(*) AS n FROM town GROUP BY CUBE (sex, month, age)"


@pytest.fixture
def again(path: Path, town: Any) -> Iterator[Session]:
    with Session(path, user="alice", ledger=town.ledger, settings={"reuse": True}) as opened:
        yield opened


def free(release: Release) -> bool:
    return release.charged is not None and release.charged.rho == 0.0


def largest(release: Release) -> float:
    return max(row[-1] for row in release.stderr if row[-1] is not None)


def test_a_cube_says_what_was_learnt_since_and_agrees_with_it(again: Session) -> None:
    """Other numbers, free: those of all that was measured, of which the later answers are sums."""
    first = again.answer(CUBE, rho=0.0005, backend="factorization")
    assert first.backend == "factorization"
    said = [first]
    for part in PARTS:
        bought = again.answer(part, rho=0.003)
        assert not free(bought)
        said.append(again.answer(CUBE, rho=0.0005))
        assert free(said[-1]) and again.answer(CUBE, rho=0.0005).rows == said[-1].rows
        assert again.answer(part, rho=0.003).rows == bought.rows
    assert said[0].rows != said[-1].rows, "it could not fail"
    errors = [largest(release) for release in said]
    assert errors == sorted(errors, reverse=True) and errors[-1] < 0.9 * errors[0]
    sums = {tuple(key for key in row[:-1] if key is not None): row[-1] for row in said[-1].rows}
    for part in PARTS:
        release = again.answer(part, rho=0.003)
        assert free(release)
        assert all(sums[row[:-1]] == row[-1] for row in release.rows)


@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("sql", [CUBE, TABLES, PARTS[2]])
def test_a_plan_that_is_told_again_is_not_worked_out_again(
    again: Session, monkeypatch: pytest.MonkeyPatch, sql: str, reuse: bool
) -> None:
    """Neither fits nor what rounding does, which take long: EXPLAIN is to take 10 ms."""
    for part in PARTS:
        again.answer(part, rho=0.0004)
    first = again.explain(sql, rho=0.02, reuse=reuse)
    monkeypatch.setattr(Model, "of", None)
    monkeypatch.setattr(Model, "rounding", None)
    monkeypatch.setattr(Precisions, "rounding", None)
    assert again.explain(sql, rho=0.02, reuse=reuse) == first


KNOWN = ["region", "region, smoker", "region, sex", "region, month > 6"]
LATER = ["region, age", "region, month"]
FREE = "SELECT COUNT(*) AS n FROM town WHERE region IN ('N', 'E')"


def by(keys: str) -> str:
    return f"SELECT {keys}, COUNT(*) AS n FROM town GROUP BY ALL"


@pytest.mark.parametrize("script", [False, True])
def test_what_was_free_is_free_again_whatever_was_bought_since(
    path: Path, town: Any, script: bool
) -> None:
    """In another session, and in other words: later releases leave no room for those it was of."""

    def asked(session: Session, sql: str) -> Release:
        return session.run(sql, rho=0.002)[0] if script else session.answer(sql, rho=0.002)

    def open() -> Session:
        return Session(path, user="alice", ledger=town.ledger, settings={"reuse": True})

    with open() as session:
        for keys in KNOWN:  # by scripts, which rest on nothing else
            session.run(by(keys), rho=0.002)
        first = asked(session, FREE)
        for keys in LATER:
            session.run(by(keys), rho=0.002)
    entries = list(town.ledger.log())
    words = "SELECT SUM(CASE WHEN region = 'E' OR region = 'N' THEN 1 ELSE 0 END) AS n FROM town"
    with open() as session:
        for sql in (FREE, words):
            assert session.explain(sql, rho=0.002).backend == "reuse"
            again = asked(session, sql)
            assert first.backend == again.backend == "reuse" and free(again)
            assert (again.rows, again.stderr) == (first.rows, first.stderr)
    assert list(town.ledger.log()) == entries, "something was bought"
