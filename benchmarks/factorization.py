"""What planning together is worth, beside the optimum: `python -m benchmarks factorization`.

Errors are in rows, measured against plain DuckDB's own answers, at one total price.
"""

from __future__ import annotations

import itertools
import math
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import duckdb

from benchmarks.accuracy import MEAN, RHO, workload
from benchmarks.clock import child, peak
from benchmarks.figures import Figure
from benchmarks.tables import build, grant
from dpsql.accounting.ledger import Ledger
from dpsql.mechanisms.strategies.axes import Identity
from dpsql.mechanisms.strategies.optimum import optimum
from dpsql.mechanisms.strategies.residual import plan as residual
from dpsql.mechanisms.strategies.rows import Prefixes, Ranges, Rows
from dpsql.mechanisms.threads import one_thread
from dpsql.release import Release
from dpsql.session import Session

RUNS = 5
SMALL = 1e-6  # rho of a script whose noise is larger than many of its counts
PAIRED = (
    "age", "education", "marital_status", "relationship", "hours_per_week", "income", "race", "sex"
)  # fmt: skip
COLUMNS, VALUES, STATEMENTS = 12, 10, 200  # 10^12 cells, and what is asked of them
PLANNING = """
import os
os.environ["DPSQL_CACHE"] = {cache!r}  # a folder where nothing is
from pathlib import Path
from dpsql.session import Session
with Session("wide.duckdb", user="alice") as session:
    session.explain_script(Path("wide.sql"), rho={rho})
"""
KEYS = ("sex", "race", "income", "workclass", "marital_status", "relationship")


def measure(folder: Path) -> Iterator[Figure]:
    """Scripts on real data, then strategies by themselves."""
    database = build("adult", folder, epsilon=1e6)
    yield from _counts(database)
    yield from _projection(database)
    yield from _report(database)
    yield from _pairs(database)
    yield from _aggregates(database)
    yield from _products(database)
    yield from _wide(folder)
    yield from _strategies()


def _counts(database: Path) -> Iterator[Figure]:
    listed, truth = _truths(database)
    script = ";\n".join(listed)
    with Session(database, user="alice", settings={"reuse": False}) as session:
        start = time.process_time()
        session.explain_script(script, rho=RHO)
        spent = time.process_time() - start
        errors = [
            abs(release.rows[0][0] - true)
            for _ in range(RUNS)
            for release, true in zip(session.run(script, rho=RHO), truth, strict=True)
        ]
    alone = MEAN * math.sqrt(len(listed) / (2 * RHO))
    name = "100 counts in (1, 1e-6) as one script, mean error"
    yield Figure(name, fmean(errors), "rows", alone, "rows one by one", 12)
    yield Figure("planning them, CPU", spent, "s", None, "", 10)


def _truths(database: Path) -> tuple[list[str], list[int]]:
    """The counts of the workload, and what they are."""
    listed = [f"SELECT COUNT(*) FROM adult WHERE {predicate}" for predicate in workload()]
    with duckdb.connect(str(database), read_only=True) as plain:
        return listed, [plain.execute(sql).fetchall()[0][0] for sql in listed]


def _projection(database: Path) -> Iterator[Figure]:
    """The same answers as they are, and as the nearest table gives them, which is free."""
    listed, truth = _truths(database)
    script = ";\n".join(listed)
    with duckdb.connect(str(database), read_only=True) as plain:
        [(rows,)] = plain.execute("SELECT COUNT(*) FROM adult").fetchall()
    asked: tuple[dict[str, Any], ...] = (
        {},
        {"postprocess": "projection"},
        {"postprocess": "projection", "total": rows},
    )
    errors: list[list[float]] = [[] for _ in asked]
    spent = 0.0
    for _ in range(RUNS):
        ledger = Ledger.memory()  # so that each run buys noise of its own, and projects it twice
        ledger.grant("alice", dataset="adult", epsilon=1.0)
        with Session(database, user="alice", ledger=ledger) as session:
            for settings, found in zip(asked, errors, strict=True):
                start = time.process_time()
                releases = session.run(script, rho=SMALL, **settings)
                spent = time.process_time() - start
                found += [abs(r.rows[0][0] - true) for r, true in zip(releases, truth, strict=True)]
    before, without, known = (fmean(found) for found in errors)
    name = f"{len(listed)} counts at rho {SMALL:g} as one script, projected"
    yield Figure(name, without, "rows", before, "rows before", before)
    yield Figure("with a public total", known, "rows", before, "rows before", before)
    yield Figure("projecting them, CPU", spent, "s", None, "", 10)


def report() -> list[str]:
    """200 statements: single counts, means of predicates and small GROUP BYs."""
    rng = random.Random(200)
    predicates = workload()
    listed = [f"SELECT COUNT(*) FROM adult WHERE {p}" for p in predicates]
    for at in range(60):
        key = KEYS[at % len(KEYS)]
        low = rng.randrange(20, 60)
        share = f"AVG(({predicates[at]})::INT) FROM adult WHERE age >= {low}"
        if at % 2:
            share = f"AVG((income = '>50K')::INT) FROM adult WHERE {predicates[at]}"
        listed.append(f"SELECT {share}")
        if at < 40:
            where = f"WHERE {predicates[-at]}"
            listed.append(f"SELECT {key}, COUNT(*) FROM adult {where} GROUP BY {key}")
    return listed


def _report(database: Path) -> Iterator[Figure]:
    """The report together, and each of its statements by itself."""
    listed = report()
    with Session(database, user="alice", settings={"reuse": False}) as session:
        start = time.process_time()
        together = session.run(";\n".join(listed), rho=RHO)
        spent = time.process_time() - start
        ratios = []
        for sql, release in zip(listed, together, strict=True):
            alone = session.answer(sql, rho=RHO / len(listed), backend="gaussian")
            if width := _error(alone):  # else all of it was beyond what a mean can be
                ratios.append(_error(release) / width)
    name = f"a report of {len(listed)} statements, errors beside one by one at the same total"
    yield Figure(name, fmean(ratios), "x", None, "", 0.4)
    yield Figure("planning and answering it, CPU", spent, "s", None, "", 10)


def _wide(folder: Path) -> Iterator[Figure]:
    """Planning over a universe that nobody can list: a whole process, from the first import on."""
    names = [f"c{at}" for at in range(COLUMNS)]
    with duckdb.connect(str(folder / "wide.duckdb")) as plain:
        digits = ", ".join(f"(i * {2 * at + 3} // {VALUES}) % {VALUES} AS {n}"
                           for at, n in enumerate(names))  # fmt: skip
        plain.execute(f"CREATE TABLE wide AS SELECT {digits} FROM range(20000) AS t(i)")
    declared = [f'{n} = {{type = "integer", min = 0, max = {VALUES - 1}}}' for n in names]
    first = ['dataset = "wide"', 'unit = "row"', "[source]", 'table = "wide"', "[columns]"]
    (folder / "wide.toml").write_text("\n".join([*first, *declared, ""]))
    grant("wide", folder / "wide.ledger", epsilon=1e6)
    (folder / "wide.sql").write_text(";\n".join(_asked(names)))
    once, again = (PLANNING.format(cache=f"cache-{n}", rho=RHO) for n in range(2))
    spent = child([sys.executable, "-c", once], folder)
    name = f"{STATEMENTS} statements over {VALUES}^{COLUMNS} cells planned, CPU"
    yield Figure(name, spent, "s", None, "", 10)
    yield Figure("the most memory it holds", peak(again, folder), "MB", None, "", 1024)


def _asked(names: list[str]) -> list[str]:
    """Counts of two or three conditions, means and small GROUP BYs, of all columns."""
    rng, listed = random.Random(12), []
    for at in range(STATEMENTS):
        one, two, three = rng.sample(names, 3)
        low, high = sorted(rng.sample(range(VALUES), 2))
        value = rng.randrange(1, VALUES)
        where = f"FROM wide WHERE {one} BETWEEN {low} AND {high} AND {two} <> {value}"
        listed.append(
            (
                f"SELECT COUNT(*) {where}",
                f"SELECT COUNT(*) {where} AND {three} < {value}",
                f"SELECT AVG({three}) FROM wide WHERE {one} >= {low}",
                f"SELECT {three}, COUNT(*) {where} GROUP BY {three}",
            )[at % 4]
        )
    return listed


def _pairs(database: Path) -> Iterator[Figure]:
    """All pairs of eight columns, in one statement and as a script of 28, beside the closed form of
    their residual plan.
    """
    pairs = list(itertools.combinations(PAIRED, 2))
    sets = ", ".join(f"({a}, {b})" for a, b in pairs)
    sql = f"SELECT {', '.join(PAIRED)}, COUNT(*) FROM adult GROUP BY GROUPING SETS ({sets})"
    with duckdb.connect(str(database), read_only=True) as plain:
        truth = {row[:-1]: row[-1] for row in plain.execute(sql).fetchall()}
    with Session(database, user="alice", settings={"reuse": False}) as session:
        sizes = [session.datasets["adult"].column(name).cells for name in PAIRED]
        start = time.process_time()
        session.explain(sql, rho=RHO)
        rows = session.answer(sql, rho=RHO).rows
        spent = time.process_time() - start
        start = time.process_time()
        script = ";\n".join(
            f"SELECT {a}, {b}, COUNT(*) FROM adult GROUP BY {a}, {b}" for a, b in pairs
        )
        releases = session.run(script, rho=RHO)
        together = time.process_time() - start
    squares = []
    for (a, b), release in zip(pairs, releases, strict=True):
        for one, other, count in release.rows:
            key = tuple({a: one, b: other}.get(name) for name in PAIRED)
            squares.append((count - truth.get(key, 0)) ** 2)
    ideal = residual([Identity(n) for n in sizes], list(itertools.combinations(range(8), 2)))
    least = math.sqrt(float(ideal.average(RHO) @ ideal.answers / ideal.answers.sum()))
    error = math.sqrt(fmean((row[-1] - truth.get(row[:-1], 0)) ** 2 for row in rows))
    name = "28 pairs of eight columns of adult in (1, 1e-6), root mean square"
    yield Figure(name, error, "rows", least, "rows in closed form", least * 1.1)
    yield Figure("planning and answering it, CPU", spent, "s", None, "", 2)
    script_error = math.sqrt(fmean(squares))
    one_by_one = math.sqrt(len(pairs) / (2 * RHO))
    name = "all pairs of eight columns as 28 GROUP BYs of a script, root mean square"
    yield Figure(name, script_error, "rows", one_by_one, "rows one by one", least * 1.1)
    yield Figure("planning and answering it, CPU", together, "s", None, "", 3)


def _aggregates(database: Path) -> Iterator[Figure]:
    """Running counts by group in one statement: what they err, as it says, beside plain noise."""
    listed = ", ".join(f"COUNT(*) FILTER (WHERE age <= {n})" for n in range(20, 80, 6))
    sql = f"SELECT education, {listed} FROM adult GROUP BY education"
    with Session(database, user="alice", settings={"reuse": False}) as session:
        start = time.process_time()
        told = session.explain(sql, rho=RHO)
        spent = time.process_time() - start
    errors = {candidate.backend: candidate.rmse for candidate in told.candidates}
    mixed, plain = errors["factorization"], errors["gaussian"]
    name = "10 running counts of each of 16 groups, root mean square"
    yield Figure(name, mixed, "rows", plain, "rows with Gaussian noise", plain / 1.9)
    yield Figure("planning them, CPU", spent, "s", None, "", 1)


def _products(database: Path) -> Iterator[Figure]:
    """Running counts by two keys in a script: what they err, as it says, beside plain noise."""
    script = ";\n".join(
        f"SELECT sex, education, COUNT(*) FROM adult WHERE hours_per_week <= {n} "
        "GROUP BY sex, education"
        for n in range(1, 100)
    )
    with Session(database, user="alice", settings={"reuse": False}) as session:
        start = time.process_time()
        told = session.explain_script(script, rho=RHO)
        spent = time.process_time() - start
    errors = {candidate.backend: candidate.rmse for candidate in told.candidates}
    mixed, plain = errors["factorization"], errors["gaussian"]
    name = "99 running counts of each of 32 groups, a script, root mean square"
    yield Figure(name, mixed, "rows", plain, "rows with Gaussian noise", plain / 4)
    yield Figure("planning them, CPU", spent, "s", None, "", 5)


def _error(release: Release) -> float:
    """The mean half-width of the intervals of a release."""
    halves = [
        (high - low) / 2
        for lows, highs in zip(release.low, release.high, strict=True)
        for low, high in zip(lows, highs, strict=True)
        if low is not None and high is not None
    ]
    return fmean(halves)


def _strategies() -> Iterator[Figure]:
    known: tuple[tuple[str, Rows, float], ...] = (
        ("prefixes", Prefixes(1024), 2.9555),
        ("ranges", Ranges(1024), 3.5151),
    )
    for name, rows, best in known:
        start = time.process_time()
        with one_thread():  # as whoever plans has it
            found = optimum(rows.gram(), rows.count, gap=2e-3)
        spent = time.process_time() - start
        yield Figure(f"{name} of 1,024 cells, root mean square", found.rmse, "", best, "the least")
        yield Figure("finding it, CPU", spent, "s", None, "", 1)
    start = time.process_time()
    tables = list(itertools.combinations(range(100), 3))
    residual((Identity(10),) * 100, tables)
    spent = time.process_time() - start
    yield Figure(
        "all 3-way tables of 100 columns of 10 values planned, CPU", spent, "s", None, "", 5
    )
