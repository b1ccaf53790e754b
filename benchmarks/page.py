"""A report of 40 statements and a ledger of 10,000 charges as pages: `python -m benchmarks page`.

What a page takes is beside what its answers take, or what it takes to read the log.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from benchmarks.clock import timed
from benchmarks.figures import Figure, Note
from benchmarks.tables import build, shipped
from dpsql.accounting.events import Gaussian
from dpsql.accounting.ledger import Ledger
from dpsql.session import Session

KEYS = (
    "workclass", "education", "marital_status", "occupation", "relationship", "race", "sex",
    "education_num", "age // 5 * 5", "hours_per_week // 10 * 10",
)  # fmt: skip
PAIRS = (
    ("occupation", "relationship"), ("education", "race"), ("workclass", "sex"),
    ("marital_status", "income"), ("age // 10 * 10", "sex"), ("education_num", "income"),
    ("race", "sex"), ("occupation", "sex"), ("relationship", "race"), ("workclass", "income"),
)  # fmt: skip
CHARGES = 10_000
IMPORT = "import sys, time; start = time.perf_counter(); import dpsql.session, {}; "
TELL = "print(time.perf_counter() - start)"


def script() -> str:
    """40 statements with titles and texts: means of groups, shares, and tables of two keys."""
    parts = ["-- # Adults\n-- All of it, in *forty* answers.\n\nSET epsilon = 2;\n"]
    for number, key in enumerate(KEYS * 2):
        measure = "AVG(hours_per_week) AS hours" if number < len(KEYS) else "AVG(income = '>50K')"
        parts.append(
            f"-- # Number {number}\n-- What **{key}** says.\n"
            f"SELECT {key} AS k, COUNT(*) AS n, {measure} FROM adult GROUP BY k ORDER BY k;\n"
        )
    for number, (one, other) in enumerate(PAIRS * 2, 2 * len(KEYS)):
        where = "" if number < 30 else "WHERE income = '>50K' "
        parts.append(
            f"-- # Number {number}\n-- Both.\nSELECT {one} AS k, {other} AS l, COUNT(*) AS n"
            f" FROM adult {where}GROUP BY k, l;\n"
        )
    return "\n".join(parts)


def measure(folder: Path) -> Iterator[Figure | Note]:
    """Seconds and size of both pages."""
    if not shipped("adult"):
        yield Note("  skipped: examples/data has no adult.parquet")
        return
    yield from _report(folder)
    yield from _budget()


def _report(folder: Path) -> Iterator[Figure]:
    from dpsql.surfaces.html.report import of_report

    database = build("adult", folder, epsilon=20)
    pages: list[str] = []
    with Session(database, user="alice") as session:
        found = []
        _, asked = timed(lambda: found.append(session.report(script())))
    assert len(found[0].sections) == 40
    _, drawn = timed(lambda: pages.append(of_report(found[0])))
    loaded = _imported("dpsql.surfaces.html.report") - _imported("dpsql.release")
    size = len(pages[0].encode()) / 1e6
    words = "s, its answers"
    yield Figure("a report of 40 statements as a page, wall", drawn, "s", asked, words, 2.0)
    yield Figure("the imports that a page adds, wall", max(loaded, 0.0), "s", None, "", 2.0)
    yield Figure("size of the report's page", size, "MB", None, "", 1.0)


def _imported(module: str) -> float:
    """Wall seconds to import a module after the session."""
    code = IMPORT.format("sys") + f"start = time.perf_counter(); import {module}; " + TELL
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    return float(done.stdout)


def _budget() -> Iterator[Figure]:
    from dpsql.surfaces.html.books import read
    from dpsql.surfaces.html.budget import of_books

    with Ledger.memory() as ledger:
        ledger.grant("alice", dataset="adult", epsilon=10)
        for number in range(CHARGES):
            ledger.charge(
                "alice", "adult", Gaussian(1, Fraction(10**6)), statement=f"SELECT {number}"
            )
        _, listed = timed(lambda: sum(1 for _ in ledger.log()))
        pages: list[str] = []
        _, made = timed(lambda: pages.append(of_books(read(ledger, None), "adult")))
    size = len(pages[0].encode()) / 1e6
    yield Figure("a ledger of 10,000 charges as a page, wall", made, "s", listed, "s, its log", 2.0)
    yield Figure("size of the ledger's page", size, "MB", None, "", 1.0)
