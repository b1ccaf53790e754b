"""Processor time and wall time: of a call, and of a whole process.

Medians of processor time, for the machine may be shared; DuckDB's threads are counted.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

ROUND = "@"  # in a command of `children`
PAGES = bytes(8240)  # two pages of SQLite's log and their headers, as a charge writes
# On Linux getrusage tells what the parent held before it started the process.
PEAK = """
import pathlib, resource
status = pathlib.Path("/proc/self/status")
if status.exists():
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    print(int(lines["VmHWM"].split()[0]) / 1024)
else:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Processor and wall seconds of one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def medians(works: Sequence[Callable[[], object]]) -> tuple[float, float]:
    """Median processor and wall seconds of the calls."""
    found = [timed(work) for work in works]
    return median(cpu for cpu, _ in found), median(wall for _, wall in found)


def child(command: Sequence[str], folder: Path) -> float:
    """Processor seconds of a whole process, which must succeed."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=_environment(folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def peak(script: str, folder: Path) -> float:
    """The most memory that a Python of its own holds while it runs the script, in megabytes."""
    done = subprocess.run(
        [sys.executable, "-c", script + PEAK],
        cwd=folder,
        env=_environment(folder),
        capture_output=True,
        check=True,
        text=True,
    )
    return float(done.stdout)


def _environment(folder: Path) -> dict[str, str]:
    """Modules are compiled once, into `folder`, as an installation has them compiled."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    kept["OPENBLAS_THREAD_TIMEOUT"] = "20"  # as dpsql sets it, for whatever is beside it as well
    return {**kept, "PYTHONPYCACHEPREFIX": str(folder / "compiled")}


def children(commands: Sequence[Sequence[str]], folder: Path, rounds: int = 9) -> list[float]:
    """Median processor seconds of each command, all run in turn a few times.

    ROUND in a command is the number of the turn, so that no turn asks what another has asked.
    """

    def turn(number: int) -> list[float]:
        return [
            child([word.replace(ROUND, str(number)) for word in command], folder)
            for command in commands
        ]

    turn(0)
    found = [turn(number) for number in range(1, rounds + 1)]
    return [median(times) for times in zip(*found, strict=True)]


@contextmanager
def fsync(folder: Path) -> Iterator[Callable[[], None]]:
    """A call that writes two pages down to the disk that holds `folder`."""
    synchronise = getattr(os, "fdatasync", os.fsync)  # SQLite calls the same
    path = folder / "bare"
    handle = os.open(path, os.O_CREAT | os.O_WRONLY)

    def write() -> None:
        os.write(handle, PAGES)
        synchronise(handle)

    try:
        yield write
    finally:
        os.close(handle)
        path.unlink()
