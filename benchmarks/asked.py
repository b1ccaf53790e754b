"""Synopses asked through a session: `python -m benchmarks asked`.

Both are bought from a grant of (1, 1e-9). One learns online: 1,000 conjunctions of three columns,
half of them of a row that there is, each asked as a statement; beside Gaussian noise on each alone.
Another is all tables of three columns: 100,000 further conjunctions follow from them, free. One
starts with tables of single columns, with and without gates that are bypassed. One is of nine
columns of `flights`, of 10^14 cells. The last have learnt 30 questions about random columns: what a
free answer takes from its text to its release, each in new words, and what it takes to fit the
distribution to a table more.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import random
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, median
from typing import Any

import duckdb
import numpy as np

from benchmarks.clock import timed
from benchmarks.figures import Figure, Note
from benchmarks.marginals import Codes, counts, noise, table, triples
from benchmarks.synopsis import ASKED, LEARNT, RHO, SEVEN, UNIVERSES, conjunctions
from benchmarks.tables import build, shipped
from dpsql.accounting.ledger import Ledger
from dpsql.domain import Domain
from dpsql.mechanisms.synopses.growth import Growth
from dpsql.query.expr import text_literal
from dpsql.schema import Dataset
from dpsql.session import Session
from dpsql.session.synopses import bypass, held

FURTHER = 100_000
RUNS = 3
FREE = 300  # answers that are timed
PEOPLE = 30_000
DECLARED = (
    'dataset = "people"', 'neighbours = "add-remove"', 'unit = "row"', "[source]",
    'table = "people"', "[columns]",
)  # fmt: skip


def measure(folder: Path) -> Iterator[Figure | Note]:
    """Online with whole tables, mean of a few runs; then the conjunctions that follow."""
    database = build("adult", folder, epsilon=1e6)
    domain, codes = table(database, SEVEN)
    found = np.array([_online(database, domain, codes, seed) for seed in range(RUNS)])
    error, largest, alone, free, spent, seconds = found.mean(axis=0).tolist()
    name = f"{ASKED} conjunctions asked of a synopsis that learns, mean error"
    yield Figure(name, error, "rows", alone, "rows one by one", 0.2 * alone)
    yield Figure("largest error", largest, "rows")
    yield Figure("questions that cost something", ASKED - free, "")
    yield Figure("part of the grant that was spent", spent, "", None, "", 1)
    yield Figure("buying and asking, CPU", seconds, "s", None, "", 10)
    yield from _further(database, domain, codes)
    yield from _bypassed(database, domain, codes)
    yield from _large(folder)
    for name, sizes in UNIVERSES.items():
        yield from _free(folder, name, sizes)


def _opened(database: Path) -> Session:
    ledger = Ledger.memory()
    ledger.grant("alice", dataset="adult", epsilon=1.0, delta=1e-9)
    return Session(database, user="alice", ledger=ledger, settings={"backend": "synopsis"})


def _online(database: Path, domain: Domain, codes: Codes, seed: int) -> tuple[float, ...]:
    """Mean and largest error, error one by one, free answers, part that was spent, CPU seconds."""
    asked = conjunctions(domain, codes, seed)
    alone = fmean(np.abs(noise(ASKED / (2 * RHO), (ASKED,))))
    start = time.process_time()
    errors, free = [], 0
    with _opened(database) as session:
        declared = session.datasets["adult"]
        session.synopses.create("seven", SEVEN, method="pmw", epsilon=0.999)
        for names, values in asked:
            where = " AND ".join(
                _among(declared, name, [code]) for name, code in zip(names, values, strict=True)
            )
            release = session.answer(f"SELECT COUNT(*) AS n FROM adult WHERE {where}")
            truth = float(counts(domain, codes, names)[values])
            errors.append(abs(release.rows[0][0] - truth))
            assert release.charged is not None
            free += release.charged.rho == 0
        left = session.budget("adult").left.rho
    spent = time.process_time() - start
    return fmean(errors), max(errors), alone, free, 1.0 - left / RHO, spent


def _bypassed(database: Path, domain: Domain, codes: Codes) -> Iterator[Figure]:
    """From tables of single columns, many guesses are far off: 300 conjunctions of each run."""
    found = {}
    for far in (math.inf, bypass.FAR):
        given = [_single(database, domain, codes, seed, far) for seed in range(2 * RUNS)]
        found[far] = np.array(given).mean(axis=0).tolist()
    (error, paid, gates), (other, more, asked) = found[bypass.FAR], found[math.inf]
    name = "mean error from single columns, gates bypassed"
    yield Figure(name, error, "rows", other, "rows, never bypassed")
    yield Figure("gates that were bought", gates, "", asked, "never bypassed")
    yield Figure("part of the grant that was spent", paid, "", more, "never bypassed")


def _single(
    database: Path, domain: Domain, codes: Codes, seed: int, far: float
) -> tuple[float, float, int]:
    """Mean error, part that was spent, and gates, with a threshold of bypassing."""
    errors, usual = [], bypass.FAR
    bypass.FAR = far
    try:
        with _opened(database) as session:
            declared = session.datasets["adult"]
            session.synopses.create("seven", SEVEN, method="pmw", ways=1, epsilon=0.999)
            for names, values in conjunctions(domain, codes, seed)[:300]:
                both = zip(names, values, strict=True)
                where = " AND ".join(_among(declared, name, [code]) for name, code in both)
                release = session.answer(f"SELECT COUNT(*) AS n FROM adult WHERE {where}")
                truth = float(counts(domain, codes, names)[values])
                errors.append(abs(release.rows[0][0] - truth))
            spent = 1.0 - session.budget("adult").left.rho / RHO
            return fmean(errors), spent, session._learned.bought
    finally:
        bypass.FAR = usual


def _large(folder: Path) -> Iterator[Figure | Note]:
    """Buying and fitting a synopsis of many columns of many values."""
    if not shipped("flights"):
        yield Note("  skipped: examples/data has no flights.parquet")
        return
    ledger = Ledger.memory()
    ledger.grant("alice", dataset="flights", epsilon=1e3)
    with Session(build("flights", folder, epsilon=1e6), user="alice", ledger=ledger) as session:
        names = [column.name for column in session.datasets["flights"].columns][:9]
        start = time.process_time()
        session.synopses.create("nine", names, rho=0.1)
        spent = time.process_time() - start
    yield Figure("a synopsis of 9 columns of flights, CPU", spent, "s", None, "", 30)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    yield Figure("memory of all of this at most", most, "GiB", None, "", 2)


def _free(folder: Path, name: str, sizes: tuple[int, ...]) -> Iterator[Figure]:
    """Processor time of free answers once 30 tables were learnt, or as many as are far off; each
    column hangs on the one before."""
    draw, database = random.Random(30), folder / f"people{len(sizes)}.duckdb"
    source = f"SELECT i, hash(i) % {sizes[0]} AS c0 FROM range({PEOPLE}) AS r(i)"
    for at, size in enumerate(sizes[1:], 1):
        after = f"(c{at - 1} + hash(i + {at * PEOPLE}) % 4) % {size}"
        source = f"SELECT *, {after} AS c{at} FROM ({source})"
    with duckdb.connect(str(database)) as connection:
        connection.execute(f"CREATE TABLE people AS {source}")
    lines = [f'c{at} = {{type = "integer", min = 0, max = {s - 1}}}' for at, s in enumerate(sizes)]
    database.with_suffix(".toml").write_text("\n".join([*DECLARED, *lines]))
    ledger, spent, plain, learnt = Ledger.memory(), list[float](), list[float](), 0
    updates = list[float]()
    ledger.grant("alice", dataset="people", epsilon=20.0)
    settings = {"backend": "synopsis"}
    with Session(database, user="alice", ledger=ledger, settings=settings) as session:
        names = [f"c{at}" for at in range(len(sizes))]
        many = 2 * LEARNT
        session.synopses.create("all", names, method="pmw", ways=1, epsilon=18.0, updates=many)
        for asked in itertools.count():
            sql = f"SELECT COUNT(*) FROM people WHERE {_random(sizes, draw)}"
            start = time.process_time()
            with _updates(updates):
                release = session.answer(sql)
            took = time.process_time() - start
            assert release.charged is not None
            learnt += release.charged.rho > 0
            if release.charged.rho == 0 and (learnt >= LEARNT or asked >= FREE):
                spent.append(took)
            if len(spent) >= FREE:
                break
    with duckdb.connect(str(database), read_only=True) as connection:
        for _ in range(FREE):
            sql = f"SELECT COUNT(*) FROM people WHERE {_random(sizes, draw)}"
            plain.append(timed(lambda sql=sql: connection.sql(sql).fetchall())[0])
    what = f"a free answer from new SQL, {name} cells, {learnt} learnt, p50 CPU"
    other = 1e3 * median(plain), "ms, plain DuckDB"
    yield Figure(what, 1e3 * median(spent), "ms", *other, 1 if name == "10^6" else 3)
    what = f"an update in a session, {name} cells, {len(updates)} of them, p50 CPU"
    yield Figure(what, 1e3 * median(updates), "ms", None, "", 10)
    yield Figure("the longest of them", 1e3 * max(updates), "ms", None, "", 10)


@contextlib.contextmanager
def _updates(spent: list[float]) -> Iterator[None]:
    """Note what fits to a table more take, until they are kept."""
    fit = held._fit

    def timed_fit(*given: Any) -> Growth:
        start = time.process_time()
        found = fit(*given)
        spent.append(time.process_time() - start)
        return found

    held._fit = timed_fit
    try:
        yield
    finally:
        held._fit = fit


def _random(sizes: tuple[int, ...], draw: random.Random) -> str:
    """Three columns: a range of those with many values, a value of the others."""
    found = []
    for at in draw.sample(range(len(sizes)), 3):
        low, high = sorted(draw.sample(range(sizes[at]), 2))
        found.append(f"c{at} BETWEEN {low} AND {high}" if sizes[at] > 20 else f"c{at} = {low}")
    return " AND ".join(found)


def _further(database: Path, domain: Domain, codes: Codes) -> Iterator[Figure]:
    """Each GROUP BY of two columns, for some values of a third, is a conjunction a group."""
    draw, asked, missed = random.Random(8), 0, 0
    with _opened(database) as session:
        declared = session.datasets["adult"]
        session.synopses.create("seven", SEVEN, method="marginals", ways=3, epsilon=0.999)
        before = session.budget("adult").left.rho
        start = time.process_time()
        while asked < FURTHER:
            names = draw.choice(triples(domain))
            *keys, third = draw.sample(names, 3)
            codes_of = range(domain.size(third))
            some = sorted(draw.sample(codes_of, draw.randint(1, len(codes_of))))
            listed = ", ".join(keys)
            release = session.answer(
                f"SELECT {listed}, COUNT(*) AS n FROM adult"
                f" WHERE {_among(declared, third, some)} GROUP BY {listed}"
            )
            true = counts(domain, codes, (*keys, third))[..., some].sum(axis=-1)
            place = [
                {value: code for code, value in enumerate(_values(declared, name))} for name in keys
            ]
            for row, low, high in zip(release.rows, release.low, release.high, strict=True):
                truth = true[place[0][row[0]], place[1][row[1]]]
                missed += not low[2] <= truth <= high[2]
            asked += len(release.rows)
        spent = time.process_time() - start
        paid = before - session.budget("adult").left.rho
    yield Figure(f"{FURTHER:,} conjunctions more, charged", paid, "rho", None, "", 0)
    yield Figure("part of their 95 % intervals that miss", missed / asked, "", None, "", 0.05)
    yield Figure("asking them, CPU", spent, "s")


def _values(declared: Dataset, name: str) -> list[object]:
    """What the codes of a column stand for."""
    column = declared.column(name)
    return [column.point(code) for code in range(column.cells)]


def _among(declared: Dataset, name: str, codes: list[int]) -> str:
    """A condition that holds for some codes of a column."""
    values = [_values(declared, name)[code] for code in codes]
    listed = ", ".join(
        text_literal(value) if isinstance(value, str) else str(value)
        for value in values
        if value is not None
    )
    found = [f"{name} IN ({listed})"] if listed else []
    found += [f"{name} IS NULL"] if None in values else []
    return f"({' OR '.join(found)})"
