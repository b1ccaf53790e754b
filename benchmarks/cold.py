"""First answers on 336,776 flights, and the memory they take: `python -m benchmarks cold`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

import duckdb

from benchmarks.clock import medians, peak, timed
from benchmarks.figures import Figure, Note
from benchmarks.tables import build, shipped
from dpsql.curator.engines.duckdb import DuckDBEngine
from dpsql.schema import load
from dpsql.session import Session

ROUNDS = 5
FROM = "FROM flights"
STATEMENTS = (
    f"SELECT COUNT(*) {FROM} WHERE cancelled",
    f"SELECT AVG(CASE WHEN dep_delay <= 15 THEN 1 ELSE 0 END) {FROM}",
    f"SELECT carrier, origin, COUNT(*) AS n {FROM} GROUP BY carrier, origin ORDER BY ALL",
    f"SELECT COUNT(*) {FROM} WHERE arr_delay < dep_delay",
    "SELECT CASE WHEN dep_delay IS NULL THEN 'cancelled' WHEN dep_delay < 0 THEN 'early'"
    " WHEN dep_delay < 15 THEN '0-14' WHEN dep_delay < 60 THEN '15-59'"
    f" WHEN dep_delay < 180 THEN '60-179' ELSE '180+' END AS b, COUNT(*) AS n {FROM}"
    " GROUP BY b ORDER BY b",
    f"SELECT (month - 1) // 3 + 1 AS quarter, COUNT(*) AS n {FROM} GROUP BY quarter ORDER BY 1",
    f"SELECT COUNT(*) {FROM} WHERE month = 2 AND day = 30",
    "SELECT COUNT(CASE WHEN origin = 'JFK' THEN 1 END) AS jfk,"
    f" COUNT(CASE WHEN origin = 'LGA' THEN 1 END) AS lga {FROM}",
    f"SELECT AVG((dist_100mi >= 24)::INT) {FROM}",
    f"SELECT dep_delay // 15 AS b, COUNT(*) AS n {FROM} WHERE dep_delay BETWEEN -30 AND 30"
    " GROUP BY b ORDER BY b",
    f"SELECT COUNT(*) {FROM} WHERE dep_delay % 10 = -5",
    f"SELECT COUNT(*) {FROM} WHERE -dep_delay ^ 2 = 25",
)
COLUMNS = ("month", "day", "hour", "carrier", "origin", "dest", "dep_delay", "dist_100mi")
OURS = """
from dpsql.session import Session
from dpsql.curator.engines.duckdb import DuckDBEngine
with Session("flights.duckdb", user="alice") as session:
    for sql in {statements!r}:
        session.answer(sql, rho=0.01)
engine = DuckDBEngine(session.database, session.datasets["flights"], unit_key=None)
engine.counts({columns!r})
"""
PLAIN = """
import duckdb, numpy
with duckdb.connect("flights.duckdb", read_only=True) as connection:
    for sql in {statements!r}:
        connection.execute(sql).fetchall()
    connection.execute("SELECT {columns}, COUNT(*) FROM flights GROUP BY ALL").fetchnumpy()
"""


def measure(folder: Path) -> Iterator[Figure | Note]:
    """Each statement in a session of its own; eight columns counted; memory of a process."""
    if not shipped("flights"):
        yield Note("  skipped: examples/data has no flights.parquet")
        return
    database = build("flights", folder, epsilon=1e6)
    yield from _answers(database)
    yield from _cells(database)
    yield _peak(folder)


def _answers(database: Path) -> Iterator[Figure]:
    found = {sql: _cold(database, sql) for sql in STATEMENTS}
    with duckdb.connect(str(database), read_only=True) as connection:
        plain = {
            sql: medians([lambda sql=sql: connection.execute(sql).fetchall()]) for sql in found
        }
    for index, kind in enumerate(("CPU", "wall")):
        slowest, sql = max((times[index], sql) for sql, times in found.items())
        beside = plain[sql][index]
        name = f"slowest of {len(found)} first answers, {kind}"
        yield Figure(name, slowest, "s", beside, "s plain DuckDB", 0.3 if index else None)
    yield Figure("median of them, wall", median(wall for _, wall in found.values()), "s")


def _cold(database: Path, sql: str) -> tuple[float, float]:
    """Median processor and wall seconds to open a session and answer."""

    def answer() -> None:
        with Session(database, user="alice") as session:
            session.answer(sql, rho=0.01)

    return medians([answer] * ROUNDS)


def _cells(database: Path) -> Iterator[Figure]:
    dataset = load(database.with_suffix(".toml"))
    listed = ", ".join(COLUMNS)

    def plain() -> None:
        with duckdb.connect(str(database), read_only=True) as connection:
            connection.execute(f"SELECT {listed}, COUNT(*) FROM flights GROUP BY ALL").fetchnumpy()

    def count() -> None:
        engine = DuckDBEngine(database, dataset, unit_key=None)
        try:
            engine.counts(COLUMNS)
        finally:
            engine.close()

    ours = median(timed(count)[1] for _ in range(ROUNDS))
    theirs = median(timed(plain)[1] for _ in range(ROUNDS))
    yield Figure("cells of 8 columns counted, wall", ours, "s", theirs, "s plain DuckDB", 1.5)


def _peak(folder: Path) -> Figure:
    ours, theirs = (
        peak(script.format(statements=STATEMENTS, columns=columns), folder)
        for script, columns in ((OURS, COLUMNS), (PLAIN, ", ".join(COLUMNS)))
    )
    return Figure("peak memory of all this", ours, "MB", theirs, "MB plain DuckDB")
