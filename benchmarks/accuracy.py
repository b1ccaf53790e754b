"""How far answers are off, beside theory: `python -m benchmarks accuracy`.

Errors are in rows unless said otherwise, and measured against plain DuckDB's own answers.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import duckdb

from benchmarks.figures import Figure
from benchmarks.tables import build
from dpsql.accounting.convert import rho_of
from dpsql.accounting.events import PICO
from dpsql.accounting.ledger import Ledger
from dpsql.session import Session

PREDICATES = 100
PURSES = 12
RELEASES = 60
MEAN = math.sqrt(2 / math.pi)  # mean of |Z| for standard normal Z
RHO = rho_of(1.0, 1e-6) / PICO  # what a grant of (1, 1e-6) holds
RANGES = {"age": (17, 90), "education_num": (1, 16), "hours_per_week": (1, 99)}
VALUES = {
    "sex": ("Female", "Male"),
    "race": ("Asian-Pac-Islander", "Black", "White"),
    "marital_status": ("Divorced", "Married-civ-spouse", "Never-married"),
    "income": ("<=50K", ">50K"),
}


def measure(folder: Path) -> Iterator[Figure]:
    """A hundred counts within (1, 1e-6), then means and groups."""
    database = build("adult", folder, epsilon=1e6)
    predicates = workload()
    yield from _one_by_one(database, predicates)
    yield _together(database, predicates)
    yield from _others(database)


def workload() -> list[str]:
    """Predicates on one to three columns, the same in every run."""
    rng = random.Random(1994)
    found: dict[str, None] = {}
    while len(found) < PREDICATES:
        parts = []
        for column in rng.sample([*RANGES, *VALUES], rng.randint(1, 3)):
            if column in RANGES:
                low, high = RANGES[column]
                first, last = sorted(rng.sample(range(low, high + 1), 2))
                parts.append(f"{column} BETWEEN {first} AND {last}")
            else:
                parts.append(f"{column} = '{rng.choice(VALUES[column])}'")
        found[" AND ".join(parts)] = None
    return list(found)


def _truth(database: Path, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(database), read_only=True) as connection:
        return connection.execute(sql).fetchall()


def _filters(predicates: Sequence[str]) -> str:
    listed = ", ".join(f"COUNT(*) FILTER (WHERE {predicate})" for predicate in predicates)
    return f"SELECT {listed} FROM adult"


def _one_by_one(database: Path, predicates: Sequence[str]) -> Iterator[Figure]:
    truth = _truth(database, _filters(predicates))[0]
    errors: list[float] = []
    shares: list[float] = []
    for index in range(PURSES):
        user = f"user{index}"
        with Ledger.open(database.with_suffix(".ledger")) as book:
            book.grant(user, dataset="adult", epsilon=1, delta=1e-6)
        with Session(database, user=user) as session:
            for predicate, true in zip(predicates, truth, strict=True):
                noisy = session.answer(f"SELECT COUNT(*) FROM adult WHERE {predicate}").rows[0][0]
                errors.append(abs(noisy - true))
            budget = session.budget()
            shares.append(budget.spent.rho / budget.granted.rho)
    theory = MEAN * math.sqrt(PREDICATES / (2 * RHO))
    yield Figure(
        "100 counts in (1, 1e-6), one by one, mean error",
        fmean(errors),
        "rows",
        theory,
        "rows in theory",
    )
    yield Figure("what they cost, part of the purse", fmean(shares), "", 1.0, "all prices together")


def _together(database: Path, predicates: Sequence[str]) -> Figure:
    sql = _filters(predicates)
    truth = _truth(database, sql)[0]
    with Session(database, user="alice") as session:
        sensitivity = session.explain(sql, rho=RHO).sensitivity
        errors = [
            abs(noisy - true)
            for _ in range(RELEASES)
            for noisy, true in zip(session.answer(sql, rho=RHO).rows[0], truth, strict=True)
        ]
    theory = MEAN * sensitivity / math.sqrt(2 * RHO)
    name = f"the same in one statement, sensitivity {sensitivity:.3g}, mean error"
    return Figure(name, fmean(errors), "rows", theory, "rows in theory")


def _others(database: Path) -> Iterator[Figure]:
    rho = 0.001
    sigma = math.sqrt(1 / (2 * rho))
    where = "FROM adult WHERE sex = 'Female'"
    ((n, high, hours),) = _truth(
        database, f"SELECT COUNT(*), COUNT_IF(income = '>50K'), AVG(hours_per_week) {where}"
    )
    with Session(database, user="alice") as session:

        def errors(sql: str) -> float:
            true = _truth(database, sql)[0][0]
            found = [session.answer(sql, rho=rho).rows[0][0] - true for _ in range(8 * RELEASES)]
            return math.sqrt(fmean(error**2 for error in found))

        share = errors(f"SELECT AVG((income = '>50K')::INT) {where}")
        theory = sigma * math.hypot(high, n - high) / n**2
        yield Figure(
            "AVG of a predicate, standard error x 1000", 1e3 * share, "", 1e3 * theory, "in theory"
        )
        mean = errors(f"SELECT AVG(hours_per_week) {where}")
        part = (hours - 1) / 98  # of the declared range, 1 to 99
        theory = sigma * 98 * math.hypot(part, 1 - part) / n
        yield Figure("AVG of a column, standard error", mean, "hours", theory, "in theory")
        yield from _groups(database, session, rho, sigma)


def _groups(database: Path, session: Session, rho: float, sigma: float) -> Iterator[Figure]:
    for keys in ("sex", "workclass, education"):
        sql = f"SELECT {keys}, COUNT(*) FROM adult GROUP BY ALL"
        true = {row[:-1]: row[-1] for row in _truth(database, sql)}
        found: list[float] = []
        for _ in range(RELEASES * 8 if keys == "sex" else 20):
            rows = session.answer(sql, rho=rho).rows
            found += [abs(row[-1] - true.get(row[:-1], 0)) for row in rows]
        name = f"GROUP BY of {len(rows)} groups, mean error of each"
        yield Figure(name, fmean(found), "rows", MEAN * sigma, "rows in theory")
