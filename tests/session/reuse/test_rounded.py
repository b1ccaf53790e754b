"""Whole numbers are as far off as is said of them, at every price, however they were made."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import numpy as np
import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.release import Release
from dpsql.session import Session
from tests.session.conftest import Town, people

ROWS = 2000
CUBE = "SELECT region, month, age, COUNT(*) AS n FROM town GROUP BY CUBE (region, month, age)"
STATEMENTS = [
    CUBE,
    "SELECT region, month, age, COUNT(*) AS n FROM town GROUP BY ALL",
    "SELECT region, month, AVG(age) AS n FROM town GROUP BY ALL",
    "SELECT month, age, COUNT_IF(smoker) - COUNT(*) AS n FROM town GROUP BY ROLLUP (month, age)",
]
SCRIPT = [
    "SELECT region, month, COUNT(*) AS n FROM town GROUP BY ALL",
    "SELECT month, age, COUNT(*) AS n FROM town WHERE sex = 'male' GROUP BY ALL",
    "SELECT region, AVG(age) AS n FROM town GROUP BY ALL",
    "SELECT age, SUM(month) AS n FROM town GROUP BY ALL",
    *(f"SELECT COUNT(*) AS n FROM town WHERE age <= {at} AND month > {at}" for at in range(9)),
]
MANY = 6000  # errors, of which each is as good as half an independent one
NEAR = 0.13  # of a mean square of 3,000 normal errors: 5 standard deviations, both ways 6e-7
TRIED = (1 << 15) // 480  # tables of 480 atoms that are rounded to see what it does
SELDOM = 0.25  # rows: what is shown with less error than that is nearly always right


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Town(tmp_path_factory.mktemp("town")).database("a", people(ROWS, 1))


@pytest.fixture
def ledger() -> Ledger:
    made = Ledger.memory()
    made.grant("alice", dataset="town", epsilon=1e7)
    return made


@pytest.fixture
def session(path: Path, ledger: Ledger) -> Iterator[Session]:
    with Session(path, user="alice", ledger=ledger, settings={"reuse": False}) as found:
        yield found


@pytest.fixture(scope="module")
def truth(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as plain:
        plain.execute(f"ATTACH '{path}' AS file (READ_ONLY)")
        plain.execute("CREATE TABLE town AS FROM file.people")
        plain.execute("DETACH file")
        yield plain


def errors(release: Release, true: Sequence[tuple[object, ...]]) -> list[tuple[float, float]]:
    """Of each value its error and what is said to be its standard error."""
    known = {row[:-1]: row[-1] for row in true}
    found = []
    for row, stderr in zip(release.rows, release.stderr, strict=True):
        if row[-1] is not None and stderr[-1] is not None:
            found.append((float(row[-1]) - float(known.get(row[:-1], 0)), stderr[-1]))
    return found


def allowance(*groups: int) -> float:
    """Of the mean square of small noise, what is told of tables of so many groups beyond it.

    That is two standard errors of the mean of the tries, as of normal errors, of each table by
    itself; and three errors of 1 more than were seen, where the mean square is some 0.45 and more.
    """
    doubt = sum(2 * math.sqrt(2 / (TRIED * n)) * n for n in groups) / sum(groups)
    return doubt + 3 / TRIED * len(groups) / sum(groups) / 0.45


def as_said(found: Sequence[tuple[float, float]], more: float = 0.0, allowed: float = 0.0) -> bool:
    """Whether the mean square of the errors, and so much more of it, is what is said: no more, and
    not less by more than is `allowed`."""
    error, said = np.array(found).T
    moved = error != 0
    seldom = np.zeros(len(error), bool)
    if np.allclose(error, np.rint(error)):
        seldom = said < SELDOM
    elif moved.mean() < SELDOM**2:  # means of whole numbers: in steps of the least that was seen
        error, said = np.array([error, said]) / np.abs(error[moved]).min()
        seldom |= True
    # a Poisson number of mean m is above 20 + 3 m in less than one of 10^9 trials
    few = float((error[seldom] ** 2).sum()) <= 20 + 3 * float((said[seldom] ** 2).sum())
    if seldom.mean() > 0.9:
        return few
    ratio = float(np.mean((error[~seldom] / said[~seldom]) ** 2)) * (1 + more)
    return few and -NEAR - allowed < ratio - 1 < NEAR


@pytest.mark.parametrize("rho", [1, 4, 100, 1000])
@pytest.mark.parametrize("sql", STATEMENTS)
def test_a_statement_errs_as_it_says(
    session: Session, truth: duckdb.DuckDBPyConnection, sql: str, rho: float
) -> None:
    true = truth.execute(sql).fetchall()
    plan = session.explain(sql, rho=rho)
    found: list[tuple[float, float]] = []
    while len(found) < MANY:
        release = session.answer(sql, rho=rho)
        found += errors(release, true)
    assert as_said(found)
    assert rho > 1 or not (as_said(found, 0.3) or as_said(found, -0.3)), "it could not fail"
    predicted = [each for row in plan.stderr for each in row if each is not None]
    shown = [each for row in release.stderr for each in row if each is not None]
    if predicted:
        assert predicted == pytest.approx(shown, rel=1e-9)


@pytest.mark.parametrize("rho", [1, 4, 100])
def test_a_script_errs_as_it_says(
    session: Session, truth: duckdb.DuckDBPyConnection, rho: float
) -> None:
    true = [truth.execute(sql).fetchall() for sql in SCRIPT]
    found: list[list[tuple[float, float]]] = [[] for _ in SCRIPT]
    while len(found[0]) + len(found[1]) < MANY:
        releases = session.run(";".join(SCRIPT), rho=rho)
        for own, release, rows in zip(found, releases, true, strict=True):
            own += errors(release, rows)
    whole = [each for at in (0, 1, 3, *range(4, len(SCRIPT))) for each in found[at]]
    assert as_said(whole)
    assert as_said(found[0] + found[1])


@pytest.mark.parametrize("rho", [2, 8])
def test_what_follows_from_earlier_releases_errs_as_it_says(
    path: Path, truth: duckdb.DuckDBPyConnection, rho: float
) -> None:
    """Coarser groups of a CUBE, by residual tables (rho = 2) and by all its tables (rho = 8)."""
    asked = [
        CUBE,
        "SELECT region, age, COUNT(*) AS n FROM town WHERE month BETWEEN 3 AND 5 GROUP BY ALL",
        "SELECT age, month // 3 AS quarter, COUNT(*) AS n FROM town GROUP BY ALL",
    ]
    true = [truth.execute(sql).fetchall() for sql in asked]
    found: list[list[tuple[float, float]]] = [[] for _ in asked]
    while len(found[1]) < 1000:
        ledger = Ledger.memory()
        ledger.grant("alice", dataset="town", epsilon=1e7)
        with Session(path, user="alice", ledger=ledger, settings={"reuse": True}) as session:
            plan, release = session.explain(CUBE, rho=rho), session.answer(CUBE, rho=rho)
            assert plan.stderr[0][3] == pytest.approx(release.stderr[0][3], rel=1e-9)
            found[0] += errors(release, true[0])
            for at in (1, 2):
                again = session.answer(asked[at], rho=1e-9)
                assert again.reused
                found[at] += errors(again, true[at])
    small = rho > 2  # what residual tables tell is told exactly
    tables = [math.prod(some) for r in range(4) for some in itertools.combinations((4, 12, 10), r)]
    assert as_said(found[0], allowed=small * allowance(*tables))
    assert as_said([*found[1], *found[2]], allowed=small * allowance(40, 50))


def test_a_sum_beside_groups_that_its_table_cannot_keep_is_as_near_as_is_said(
    town: Town,
) -> None:
    """A table of whole numbers with these groups may hold no right sum: then it is told wide."""
    ledger = Ledger.memory()
    ledger.grant("alice", dataset="town", epsilon=1e7)
    asked = [
        ("smoker, age, COUNT(*)", "WHERE region IN ('S', 'N') GROUP BY 1, 2", 0.01),
        ("region, smoker, month, COUNT(*)", "GROUP BY 1, 2, 3", 1e3),
        ("region, AVG(age)", "GROUP BY 1", 1e4),
    ]
    path = town.database("b", people(60, 3), 'unit = "row"\nneighbours = "replace-one"')
    with Session(path, user="alice", ledger=ledger, settings={"reuse": True}) as session:
        for columns, rest, rho in asked:
            sql = f"SELECT {columns} FROM town {rest}"
            exact = session.answer(sql, rho=1e6, reuse=False)
            found = session.answer(sql, rho=rho)
    for row, line, true in zip(found.rows, found.stderr, exact.rows, strict=True):
        assert abs(row[1] - true[1]) <= 6.0 * line[1] + 1e-9
