"""Processes that are killed, or lose power, at seeded steps; `harmed` runs them.

Each of these faults gives a word for each run: how it came out. What a process says, it says
through a pipe before it goes on; so it is at least what an analyst has seen. What must not be is an
AssertionError.
"""

from __future__ import annotations

import gc
import json
import os
import random
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb

import dpsql
from dpsql.accounting.events import PICO
from dpsql.accounting.footprints import joint
from dpsql.accounting.kept.releases import Releases
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.seals.verify import verify
from dpsql.curator.curator import Curator
from dpsql.session import Session
from tests.faults.ledger_trials import EVENT, Trace, about_codes, child, ended, pay
from tests.rows import fill

Say = Callable[..., None]
HOME = os.path.dirname(os.path.abspath(dpsql.__file__))
STEPS = tuple(
    f"{HOME}/{room}"
    for room in (
        *("accounting/", "curator/curator.py", "curator/engines/duckdb.py"),
        *("session/session.py", "session/charge.py", "session/reuse/earlier.py"),
        *("mechanisms/reuse/archive.py", "mechanisms/reuse/kept.py"),
    )
)
SUFFIXES = ("", "-wal", ".anchor", ".seal")
SCHEMA = """
dataset = "town"
unit = "row"
[source]
table = "people"

[columns]
sex = {type = "category", values = ["f", "m"]}
age = {type = "integer", min = 0, max = 9}
"""


def heard(work: Callable[..., None], *arguments: object) -> tuple[list[Any], int]:
    """What a forked process said before it ended, and what ended it."""
    reading, writing = os.pipe()

    def say(*words: object) -> None:
        os.write(writing, (json.dumps(words) + "\n").encode())

    def run() -> None:
        try:
            work(say, *arguments)
        except BaseException:
            sys.settrace(None)
            traceback.print_exc()
            raise

    pid = child(run)
    os.close(writing)
    with open(reading) as file:
        said = [json.loads(line) for line in file]
    return said, ended(pid)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def released(said: list[Any]) -> dict[str, int]:
    """What was charged, as the answers say, by statement."""
    return {words[1]: words[2] for words in said if words[0] == "answered"}


def check(path: Path, answers: dict[str, int], looked: set[str]) -> None:
    """The ledger opens, has all charges of what was released or looked at, and nothing free."""
    with Ledger.open(path, create=False) as ledger:
        charges = {e.statement: e for e in ledger.log() if e.kind == "charge"}
        assert looked <= charges.keys(), looked - charges.keys()
        for statement, paid in answers.items():
            assert paid == (charges[statement].charged.rho if statement in charges else 0)
        spent = ledger.balance("alice", "town").spent_rho
        assert sum(answers.values()) <= spent == sum(e.charged.rho for e in charges.values())
        if charges:
            name = ("alice", "town", next(iter(charges.values())).snapshot)
            kept = ledger.releases.listed(name, 0, (), others=False)
            assert {seq for seq, _ in kept} <= {entry.seq for entry in charges.values()}


def sound(path: Path) -> None:
    assert verify(path).problems == ()


# -- killed --------------------------------------------------------------------------------------


class Town:
    """A table of sixty people, and a process that asks about it with reuse on."""

    def __init__(self, folder: Path, draw: random.Random) -> None:
        self.database, self.draw = folder / "town.duckdb", draw
        rows = [(draw.choice("fm"), draw.randrange(10)) for _ in range(60)]
        with duckdb.connect(str(self.database)) as made:
            made.execute("CREATE TABLE people (sex TEXT, age INT)")
            fill(made, "people", rows)
        self.database.with_suffix(".toml").write_text(SCHEMA)
        self.number = 0

    def questions(self, count: int) -> list[tuple[str, float]]:
        """Statements that differ in their texts, not always in what they ask, and their rho."""
        found = []
        for _ in range(count):
            self.number += 1
            sex = self.draw.choice(["", " WHERE sex = 'f'", f" WHERE age < {self.number % 9 + 1}"])
            by = self.draw.choice(["", " GROUP BY sex", " GROUP BY age"])
            sql = f"SELECT COUNT(*) AS n{self.number} FROM town{sex}{by}"
            found.append((sql, self.draw.choice([0.001, 0.01, 0.02, 0.1])))
        return found

    def ask(
        self, say: Say, path: Path, asked: list[tuple[str, float]], number: int, last: Say = bool
    ) -> None:
        """Answer, and die at the `number`-th line; say what is looked at, answered and left."""
        noisy, keep, now = Curator._noisy, Releases.keep, [""]

        def looking(*arguments: Any) -> Any:
            say("looked", now[0])
            return noisy(*arguments)

        def keeping(*arguments: Any) -> None:
            say("durable", os.path.getsize(f"{path}-wal"))
            keep(*arguments)

        trace = Trace(number, die, STEPS)
        with (
            mock.patch.object(Curator, "_noisy", looking),
            mock.patch.object(Releases, "keep", keeping),
            Session(self.database, user="alice", ledger=path, settings={"reuse": True}) as session,
        ):
            sys.settrace(trace)
            for sql, rho in asked:
                trace.phase()
                now[0] = sql
                found = session.answer(sql, rho=rho)
                assert found.charged is not None
                say("answered", sql, round(found.charged.rho * PICO))
            last()
            session.close()
            sys.settrace(None)
        say("left", trace.left)


def granted(path: Path) -> Path:
    with Ledger.open(path) as ledger:
        ledger.grant("alice", dataset="town", epsilon=1e4)
    return path


def warm(town: Town, path: Path) -> None:
    """Import all that a child will need; no connection of DuckDB is left at a fork."""
    town.ask(lambda *_: None, path, town.questions(12), 10**9)
    gc.collect()


def answers(folder: Path, draw: random.Random, runs: int) -> Iterator[str]:
    """Killed at a line of charge, look, answer, store; a ledger lasts for 20 runs."""
    town = Town(folder, draw)
    warm(town, granted(folder / "warm.ledger"))
    paid: dict[str, int] = {}
    looked: set[str] = set()
    path = folder
    for run in range(runs):
        if run % 20 == 0:
            if run:
                sound(path)
            path, paid, looked = granted(folder / f"{run}.ledger"), {}, set()
            said, _ = heard(town.ask, path, town.questions(2), 10**9)
            lines = 10**9 - said[-1][1]
        else:
            said, end = heard(town.ask, path, town.questions(2), draw.randint(1, lines))
            assert end in (0, -signal.SIGKILL)
        paid |= released(said)
        looked |= {words[1] for words in said if words[0] == "looked"}
        check(path, paid, looked)
        yield "whole" if said and said[-1][0] == "left" else f"killed-{len(released(said))}"
    sound(path)


def charges(folder: Path, draw: random.Random, runs: int) -> Iterator[str]:
    """Killed at a line of opening, a charge about everybody, and joint charges that overlap."""
    joint.BATCH = 3  # so that states are written down on the way
    path = granted(folder / "a.ledger")

    def work(say: Say, run: int, number: int) -> None:
        trace = Trace(number, die)
        sys.settrace(trace)
        with Ledger.open(path, create=False) as ledger:
            for part in range(3):
                trace.phase()
                sql, first = f"{run}.{part}", (run + part) % 7
                about = about_codes("age", first + 1, first + 5) if part else None
                found = ledger.charge(
                    "alice", "town", EVENT, statement=sql, footprint=about, snapshot="now"
                )
                say("answered", sql, found.charged.rho)
        sys.settrace(None)
        say("left", trace.left)

    paid: dict[str, int] = {}
    work(lambda *_: None, -1, 10**9)
    lines = 10**9 - heard(work, -2, 10**9)[0][-1][1]
    for run in range(runs):
        said, end = heard(work, run, draw.randint(1, lines))
        assert end in (0, -signal.SIGKILL)
        paid |= released(said)
        check(path, paid, set())
        yield "whole" if said and said[-1][0] == "left" else f"killed-{len(released(said))}"
    sound(path)


def made(folder: Path, draw: random.Random, runs: int) -> Iterator[str]:
    """Killed at a line of making a ledger and its first grant: the next one makes it all the same,
    or finds it."""

    def work(say: Say, path: Path, number: int) -> None:
        trace = Trace(number, die)
        sys.settrace(trace)
        granted(path)
        sys.settrace(None)
        say("left", trace.left)

    work(lambda *_: None, folder / "warm.ledger", 10**9)
    lines = 10**9 - heard(work, folder / "count.ledger", 10**9)[0][-1][1]
    for run in range(runs):
        path = folder / f"{run}.ledger"
        _, end = heard(work, path, draw.randint(1, lines))
        assert end in (0, -signal.SIGKILL)
        with Ledger.open(granted(path)) as ledger:
            pay(ledger, "SELECT 1", dataset="town")
        sound(path)
        yield "killed" if end else "whole"


# -- without power -------------------------------------------------------------------------------


def copied(path: Path, to: Path) -> Path:
    to.mkdir()
    for suffix in SUFFIXES:
        if os.path.exists(f"{path}{suffix}"):
            shutil.copy(f"{path}{suffix}", to / f"{path.name}{suffix}")
    return to / path.name


def power(folder: Path, draw: random.Random, runs: int) -> Iterator[str]:
    """Of what was written after the newest charge a power cut leaves a part, or something else:
    a release that was kept for reuse may be gone, no charge is."""
    town = Town(folder, draw)
    warm(town, granted(folder / "warm.ledger"))
    for run in range(runs):
        if run % 10 == 0:
            path = granted(folder / f"{run}.ledger")
            said, end = heard(town.ask, path, town.questions(draw.randint(1, 6)), 10**9, die)
            assert end == -signal.SIGKILL
            durable = max(words[1] for words in said if words[0] == "durable")
            paid = released(said)
            looked = {words[1] for words in said if words[0] == "looked"}
            kept = len(looked)
        copy = copied(path, folder / f"cut{run}")
        wal = f"{copy}-wal"
        size, place = os.path.getsize(wal), draw.randint(durable, os.path.getsize(wal))
        if run % 2:
            os.truncate(wal, place)
        else:
            with open(wal, "r+b") as file:
                file.seek(place)
                file.write(draw.randbytes(size - place))
        check(copy, paid, looked)
        sound(copy)
        with Ledger.open(copy, create=False) as ledger:
            snapshot = next(e for e in ledger.log() if e.kind == "charge").snapshot
            left = len(ledger.releases.listed(("alice", "town", snapshot), 0, (), others=False))
        assert kept - 1 <= left <= kept
        yield "lost" if left < kept else "kept"
