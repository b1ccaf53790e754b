"""Ledgers in files that are full, read-only, truncated or flipped, run after run.

`python -m tests.faults.harmed FAULT FOLDER RUNS` runs these faults, and those of `seeded`, and
prints how each run came out.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from dpsql.accounting.ledger import Ledger
from dpsql.accounting.seals.verify import verify
from dpsql.errors import LedgerError
from tests.faults.ledger_trials import EVENT, pay, say
from tests.faults.seeded import (
    SUFFIXES,
    Say,
    Town,
    answers,
    charges,
    check,
    copied,
    die,
    granted,
    heard,
    made,
    power,
    released,
    sound,
    warm,
)

REMEDIES = re.compile(
    "restore|upgrade dpsql|budget verify|check the (rights|permissions)|chmod|try again"
    "|read-only|the disk is full|not a ledger"
)


def judged(path: Path, paid: dict[str, int]) -> str:
    """Whether a ledger opens, and then knows all that was released, or says what is wrong."""
    try:
        with Ledger.open(path, create=False) as ledger:
            before = ledger.balance("alice", "town").spent_rho
            assert before >= sum(paid.values())
            pay(ledger, "after", dataset="town")
            assert ledger.balance("alice", "town").spent_rho == before + EVENT.rho
    except LedgerError as error:
        assert path.name in str(error) and REMEDIES.search(str(error)), str(error)
        return "refused"
    return "opened"


def full(folder: Path, draw: random.Random, runs: int) -> Iterator[str]:
    """The system lets no file grow beyond a size: a charge is whole or refused."""

    def work(tell: Say, path: Path, room: int) -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        try:
            with Ledger.open(path, create=False) as ledger:
                size = max(os.path.getsize(f"{path}{suffix}") for suffix in SUFFIXES)
                resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, hard))
                for number in range(20):
                    sql = f"{path.name} {number}"
                    tell("answered", sql, 0 if not pay(ledger, sql, dataset="town") else EVENT.rho)
                if room % 2:
                    die()
        except LedgerError as error:
            assert REMEDIES.search(str(error)), str(error)
            tell("refused")

    for run in range(runs):
        path = granted(folder / f"{run}.ledger")
        said, end = heard(work, path, draw.randrange(90_000))
        assert end in (0, -signal.SIGKILL)
        paid = released(said)
        check(path, paid, set())
        assert judged(path, paid) == "opened"
        sound(path)
        yield "refused" if ["refused"] in said else "whole"


def shut(folder: Path, draw: random.Random, runs: int) -> Iterator[str]:
    """Some of the files or their folder are read-only, or not even that."""

    def work(tell: Say, path: Path) -> None:
        if os.geteuid() == 0:
            os.setresuid(65534, 65534, 65534)
        try:
            with Ledger.open(path, create=False) as ledger:
                tell("spent", ledger.balance("alice", "town").spent_rho)
                for number in range(2):
                    pay(ledger, str(number), dataset="town")
                    tell("answered", str(number), EVENT.rho)
        except LedgerError as error:
            assert REMEDIES.search(str(error)), str(error)
            tell("refused")

    for _ in range(runs):
        room = Path(tempfile.mkdtemp(prefix="ledger"))  # which any user can reach
        path = granted(room / "a.ledger")
        with Ledger.open(path) as ledger:
            pay(ledger, "first", dataset="town")
        names = [name for name in sorted(os.listdir(room)) if draw.random() < 0.5]
        if os.geteuid() == 0:
            for name in os.listdir(room):
                os.chown(room / name, 65534, 65534)
            os.chown(room, 65534, 65534)
        for name in names:
            (room / name).chmod(draw.choice([0o400, 0o400, 0]))
        room.chmod(draw.choice([0o700, 0o500]))
        said, end = heard(work, path)
        assert end == 0
        room.chmod(0o700)
        for name in os.listdir(room):
            (room / name).chmod(0o600)
        paid = {"first": EVENT.rho, **released(said)}
        check(path, paid, set())
        assert judged(path, paid) == "opened"
        sound(path)
        shutil.rmtree(room)
        yield "refused" if ["refused"] in said else "whole"


def damage(
    folder: Path, draw: random.Random, runs: int, harm: Callable[[str], None]
) -> Iterator[str]:
    """One file of a ledger is harmed, which was closed or whose process was killed."""
    town = Town(folder, draw)
    warm(town, granted(folder / "warm.ledger"))
    ledgers: list[tuple[Path, dict[str, int]]] = []
    for count, crash in ((1, True), (5, False), (8, True), (40, False), (90, True)):
        path = granted(folder / f"{count}.ledger")
        ending = (die,) if crash else ()
        said, _ = heard(town.ask, path, town.questions(count), 10**9, *ending)
        ledgers.append((path, released(said)))
    for run in range(runs):
        path, paid = draw.choice(ledgers)
        copy = copied(path, folder / f"harmed{run}")
        suffixes = [suffix for suffix in SUFFIXES if os.path.exists(f"{copy}{suffix}")]
        chosen = draw.choice(suffixes)
        harm(f"{copy}{chosen}")
        outcome = judged(copy, paid)
        with contextlib.suppress(LedgerError):
            found = verify(copy).problems
            if not found and outcome == "refused":  # a log that was whole has mended the file
                outcome = judged(copy, paid)
                assert outcome == "opened"
        yield outcome
        shutil.rmtree(copy.parent)


def cut(folder: Path, draw: random.Random, runs: int) -> Iterator[str]:
    """A file is truncated."""
    return damage(folder, draw, runs, lambda p: os.truncate(p, draw.randrange(os.path.getsize(p))))


def flipped(folder: Path, draw: random.Random, runs: int) -> Iterator[str]:
    """One bit of a file is flipped, or a few are."""

    def harm(path: str) -> None:
        content = bytearray(Path(path).read_bytes())
        for _ in range(draw.choice((1, 1, 8))):
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        Path(path).write_bytes(content)

    return damage(folder, draw, runs, harm)


FAULTS = {
    fault.__name__: fault for fault in (answers, charges, made, power, full, shut, cut, flipped)
}

if __name__ == "__main__":
    fault, place, runs = sys.argv[1:]
    for word in FAULTS[fault](Path(place), random.Random(f"20261128 {fault}"), int(runs)):
        say(word)
