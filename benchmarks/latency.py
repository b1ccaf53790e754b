"""How long an answer takes, beside plain DuckDB: `python -m benchmarks latency`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import duckdb

from benchmarks.clock import ROUND, children, fsync, timed
from benchmarks.figures import Figure
from benchmarks.tables import build
from dpsql.session import Session

ROUNDS = 180  # while thresholds are new as well
TURN = 20  # statements of a kind at a time
COUNT = "SELECT COUNT(*) FROM adult WHERE "
SHAPES = (  # predicates by column set; two numbers each, so that every text is new
    "age > {0} AND hours_per_week <= {1}",
    "age BETWEEN {0} AND {1} AND sex = 'Male' AND income = '>50K'",
    "education_num >= {0} % 16 OR age < {1} AND race IN ('Black', 'White')",
)
WARM = (
    "age > 0 AND hours_per_week > 0",
    "age > 0 AND sex = 'Male' AND income = '>50K'",
    "education_num > 0 OR age > 0 AND race = 'Black'",
)


def measure(folder: Path) -> Iterator[Figure]:
    """Answers in a session, and from the command line."""
    database = build("adult", folder, epsilon=1e6)
    yield from _session(database)
    yield from _command(database)


def questions() -> list[str]:
    """Statements that are all different, on columns whose counts `WARM` reads."""
    return [
        COUNT + SHAPES[i % len(SHAPES)].format(20 + i // len(SHAPES) % 50, 30 + i // 3)
        for i in range(ROUNDS)
    ]


def _session(database: Path) -> Iterator[Figure]:
    with (
        fsync(database.parent) as bare,
        Session(database, user="alice") as session,
        duckdb.connect(str(database), read_only=True) as plain,
    ):
        for warm in WARM:
            session.answer(COUNT + warm, rho=0.01)
        ours, theirs, disk = [], [], []
        listed = questions()
        for start in range(0, len(listed), TURN):  # in turns, for the machine's load changes
            some = listed[start : start + TURN]
            ours += [timed(lambda sql=sql: session.answer(sql, rho=0.01)) for sql in some]
            theirs += [timed(lambda sql=sql: plain.execute(sql).fetchall()) for sql in some]
            disk += [timed(bare) for _ in some]
        cpu, wall = (1e3 * median(times) for times in zip(*ours, strict=True))
        plain_cpu, plain_wall = (1e3 * median(times) for times in zip(*theirs, strict=True))
        disk_cpu, disk_wall = (1e3 * median(times) for times in zip(*disk, strict=True))
        yield Figure(
            "a new predicate count, CPU beyond one fsync",
            cpu - disk_cpu,
            "ms",
            plain_cpu,
            "ms plain DuckDB",
            3,
        )
        yield Figure("a new predicate count, wall", wall, "ms", plain_wall, "ms plain DuckDB")
        yield Figure("one fsync on this disk, CPU", disk_cpu, "ms", disk_wall, "ms wall")
        sql = questions()[0]
        again = [timed(lambda: session.answer(sql, rho=0.01)) for _ in range(ROUNDS)]
        plain_again = [timed(lambda: plain.execute(sql).fetchall()) for _ in range(ROUNDS)]
        yield Figure(
            "a statement seen before, CPU beyond one fsync",
            1e3 * median(cpu for cpu, _ in again) - disk_cpu,
            "ms",
            1e3 * median(cpu for cpu, _ in plain_again),
            "ms plain DuckDB",
            1,
        )


def _command(database: Path) -> Iterator[Figure]:
    python = sys.executable
    text = f"SELECT COUNT(*) FROM adult WHERE age > 4{ROUND}"
    query = [python, "-m", "dpsql", "query", database.name, text, "-u", "alice"]
    start, light, heavy, whole = children(
        [
            [python, "-c", "pass"],
            [python, "-c", "import dpsql"],
            [python, "-c", "import duckdb, click, numpy"],
            query,
        ],
        database.parent,
    )
    yield Figure("import dpsql, CPU above a bare Python", light - start, "s", None, "", 0.1)
    yield Figure(
        "dpsql query, CPU above importing its packages",
        whole - heavy,
        "s",
        heavy - start,
        "s those imports",
        0.35,
    )
