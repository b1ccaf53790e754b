"""Run all benchmarks, or those named, and print one table: `python -m benchmarks [NAME...]`.

Compare ratios, not seconds: machines differ, and a shared one has noise of its own.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from benchmarks.figures import Figure, Note, printed

NAMES = (
    "latency",
    "cold",
    "accuracy",
    "factorization",
    "smartnoise",
    "noise",
    "ledger",
    "joint",
    "synopsis",
    "asked",
    "page",
)


def found(names: list[str]) -> Iterator[Figure | Note]:
    """The figures of the benchmarks named, each in a folder of its own."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    yield Note(
        f"Python {platform.python_version()}, DuckDB {version('duckdb')}, {os.cpu_count()} cores,"
        f" load {load:.1f} at the start"
    )
    for name in names:
        yield Note(f"{name}: {_title(name)}")
        measure: Callable[[Path], Iterator[Figure | Note]]
        measure = import_module(f"benchmarks.{name}").measure
        with tempfile.TemporaryDirectory(prefix=f"dpsql-{name}-") as folder:
            os.environ["DPSQL_CACHE"] = folder  # no strategy was found before
            yield from measure(Path(folder))


def _title(name: str) -> str:
    text = import_module(f"benchmarks.{name}").__doc__ or ""
    return text.split(": `")[0].split(".\n")[0]


def main(arguments: list[str]) -> int:
    """Print the table."""
    unknown = [name for name in arguments if name not in NAMES]
    if unknown:
        print(f"no benchmark {unknown[0]}: choose of {', '.join(NAMES)}", file=sys.stderr)
        return 2
    for line in printed(found(arguments or list(NAMES))):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
