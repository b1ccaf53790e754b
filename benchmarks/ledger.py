"""What a charge costs beside a bare fsync on the same disk: `python -m benchmarks ledger`.

`python -m benchmarks.ledger [FOLDER]` prints medians in milliseconds, of wall clock and CPU,
for a new ledger and for one with a long log, and the time to open each. FOLDER (default: the
current one) says which disk.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from statistics import median, quantiles

from benchmarks.clock import fsync
from benchmarks.figures import Figure
from dpsql.accounting.events import Gaussian
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.seals.guard import TAIL

ROUNDS = 1000
LONG = 1_000_000
EVENT = Gaussian(1, Fraction(10**6))
STATEMENT = "SELECT sex, COUNT(*) AS n FROM adult WHERE age >= 40 GROUP BY sex"


def timed(work: Callable[[], object], rounds: int) -> tuple[list[float], list[float]]:
    """Wall and CPU milliseconds of each round."""
    wall, cpu = [], []
    for _ in range(rounds):
        start, spent = time.perf_counter(), time.process_time()
        work()
        cpu.append((time.process_time() - spent) * 1e3)
        wall.append((time.perf_counter() - start) * 1e3)
    return wall, cpu


def line(name: str, wall: list[float], cpu: list[float], beside: tuple[float, float]) -> None:
    middle, most, spent = median(wall), quantiles(wall, n=100)[-1], median(cpu)
    print(
        f"{name:34} wall {middle:8.3f} (p99 {most:8.3f})  cpu {spent:7.3f}"
        f"   beyond fsync: wall {middle - beside[0]:+7.3f} ({middle / beside[0]:5.2f} x)"
        f"  cpu {spent - beside[1]:+7.3f}"
    )


def lengthen(path: Path) -> None:
    """Give the ledger a log of LONG charges, all but the newest written by SQLite itself."""
    with Ledger.open(path, create=False) as ledger:
        newest = list(ledger.log())[-1]
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute(
                "WITH RECURSIVE n(i) AS (SELECT ? UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
                " INSERT INTO entry SELECT i, '2026-01-01T00:00:00.000+00:00', 'charge', 'bob',"
                " 'adult', i, NULL, i + 1, NULL, NULL, NULL, NULL, NULL, ?, '{}', 1, NULL, NULL,"
                " '', ?, '' FROM n",
                (newest.seq + 1, LONG - TAIL, STATEMENT, newest.state),
            )
        for _ in range(TAIL):
            ledger.charge("alice", "adult", EVENT, statement=STATEMENT)


def measure(folder: Path) -> Iterator[Figure]:
    """A charge to a new ledger and to one with a long log."""
    path = folder / "a.ledger"
    with Ledger.open(path) as ledger:
        ledger.grant("alice", dataset="adult", epsilon=1e6)
    for name in ("a new ledger", f"one of {LONG:,} entries"):
        with Ledger.open(path, create=False) as ledger:

            def charge(ledger: Ledger = ledger) -> None:
                ledger.charge("alice", "adult", EVENT, statement=STATEMENT)

            with fsync(folder) as write:
                bare = median(timed(write, ROUNDS)[0])
            wall, cpu = timed(charge, ROUNDS)
            yield Figure(f"a charge to {name}, wall", median(wall), "ms", bare, "ms bare fsync")
            yield Figure(f"a charge to {name}, CPU", median(cpu), "ms")
        lengthen(path)


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as room:
        path = Path(room) / "a.ledger"
        synchronise = getattr(os, "fdatasync", os.fsync)  # SQLite calls the same
        handle = os.open(Path(room) / "bare", os.O_CREAT | os.O_WRONLY)

        def bare() -> None:
            os.write(handle, bytes(8240))  # two pages and their headers, as a charge writes
            synchronise(handle)

        bare_wall, bare_cpu = timed(bare, ROUNDS)
        beside = median(bare_wall), median(bare_cpu)
        line("write and fsync, bare", bare_wall, bare_cpu, beside)
        with Ledger.open(path) as ledger:
            ledger.grant("alice", dataset="adult", epsilon=1e6)
        for name in ("new", f"{LONG:,} entries"):
            opening = timed(lambda: Ledger.open(path, create=False).close(), 20)
            line(f"open and close, {name}", *opening, beside)
            with Ledger.open(path, create=False) as ledger:

                def charge(ledger: Ledger = ledger) -> None:
                    ledger.charge("alice", "adult", EVENT, statement=STATEMENT)

                def balance(ledger: Ledger = ledger) -> None:
                    ledger.balance("alice", "adult")

                line(f"charge, {name}", *timed(charge, ROUNDS), beside)
                line(f"balance, {name}", *timed(balance, ROUNDS), beside)
            if name == "new":
                lengthen(path)
        os.close(handle)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path.cwd())
