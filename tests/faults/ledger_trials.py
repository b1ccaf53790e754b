"""Processes that the tests of the ledger start, and end: `python ledger_trials.py TRIAL PATH ...`.

What a process prints after a charge has returned is an answer that an analyst may have seen.
"""

import contextlib
import ctypes
import multiprocessing
import os
import random
import resource
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from fractions import Fraction
from types import FrameType
from typing import Any

import dpsql.accounting
from dpsql.accounting.events import Gaussian
from dpsql.accounting.footprints import joint
from dpsql.accounting.footprints.footprint import Axis, Factor, Footprint, Loss
from dpsql.accounting.ledger import Ledger
from dpsql.errors import BudgetExceeded, LedgerError

ROOM = os.path.dirname(os.path.abspath(dpsql.accounting.__file__))
PURE = {
    f"{ROOM}/{name}.py"
    for name in (
        *("events", "convert", "seals/fields", "purse", "books/rows", "seals/seal"),
        *(
            "footprints/footprint",
            "footprints/joint",
            "footprints/tables",
            "footprints/tops",
            "footprints/elimination",
            "footprints/shares",
            "footprints/pieces",
            "footprints/runs",
            "kept/pack",
        ),
    )
}
EVENT = Gaussian(1, Fraction(500))


def pay(ledger: Ledger, statement: str, user: str = "alice", dataset: str = "adult") -> int:
    return ledger.charge(user, dataset, EVENT, statement=statement).seq


def about_codes(name: str, low: int, high: int) -> Footprint:
    """The footprint of a release about the people whose code in a column is in a range."""
    axis = Axis(name, (0, low, high), (0, 1, 0))
    return Footprint(Loss(0, (Factor((axis,), (0, EVENT.rho)),), EVENT.rho), None)


def pay_for(
    ledger: Ledger, code: int, statement: str, user: str = "alice", dataset: str = "adult"
) -> int:
    """Charge for the people with one code of a column."""
    footprint = about_codes("sex", code + 1, code + 2)
    return ledger.charge(user, dataset, EVENT, statement=statement, footprint=footprint).seq


def say(text: str) -> None:
    """One write, so that a kill leaves whole lines."""
    os.write(1, f"{text}\n".encode())


def child(work: Callable[..., None], *arguments: object) -> int:
    """The id of a forked process that does `work` and ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of threads
        pid = os.fork()
    if pid == 0:
        status = 1
        signal.alarm(240)  # no child outlives a trial that fails
        try:
            work(*arguments)
            status = 0
        finally:
            os._exit(status)
    return pid


def ended(pid: int) -> int:
    """What ended a child: 0, or minus the signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Trace:
    """A trace function that acts at the `number`-th line of the accounting room, or of `rooms`.

    A line counts once a phase, however often a loop comes back to it; what only computes, not.
    """

    def __init__(
        self, number: int, act: Callable[[], None], rooms: tuple[str, ...] = (ROOM,)
    ) -> None:
        self.left, self.act, self.rooms = number, act, rooms
        self.seen: set[tuple[str, int]] = set()

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(self.rooms) or name in PURE:
            return None
        line = (name, frame.f_lineno)
        if event == "line" and line not in self.seen:
            self.seen.add(line)
            self.left -= 1
            if self.left == 0:
                self.act()
        return self

    def phase(self) -> None:
        """From here on, all lines are new."""
        self.seen.clear()


RACERS = 50  # processes, and as many threads of another one
THREE = 0.38  # the epsilon of a purse that holds three charges of EVENT, and not four


def race(path: str, rounds: str, *kinds: str) -> None:
    """For `rounds` datasets in turn, 50 processes and 50 threads try to buy once, all at a time.

    Before each round all of them wait for each other. Round `n` is of kind `n` modulo their number:

    - one: as one user;
    - capped: as five users, under a cap that holds no more than the purse of each;
    - overlapping: about a hundred ranges of ages that all hold 100, so that each raises the most
      that somebody loses;
    - both: the last two;
    - disjoint: half of them about each of two groups of people, who do not pay for each other.
    """
    gate = multiprocessing.get_context("fork").Barrier(2 * RACERS)
    with Ledger.open(path) as ledger:
        ledger.grant("one", dataset="first", epsilon=THREE)
        for number in range(int(rounds)):
            crowd = kinds[number % len(kinds)] in ("capped", "both")
            for user in [f"user{i}" for i in range(5)] if crowd else ["one"]:
                ledger.grant(user, dataset=f"data{number}", epsilon=THREE)
        pay(ledger, "", "one", "first")  # what is imported at the first charge is imported here
        pay_for(ledger, 0, "", "one", "first")

    def run(ledger: Ledger, rank: int) -> None:
        for number in range(int(rounds)):
            kind, dataset = kinds[number % len(kinds)], f"data{number}"
            user = f"user{rank % 5}" if kind in ("capped", "both") else "one"
            footprint = None
            if kind in ("overlapping", "both"):
                footprint = about_codes("age", rank + 1, rank + 101)
            elif kind == "disjoint":
                footprint = about_codes("sex", rank % 2 + 1, rank % 2 + 2)
            gate.wait(120)
            try:
                found = ledger.charge(user, dataset, EVENT, statement="", footprint=footprint)
                say(f"{dataset} {rank} {found.seq}")
            except BudgetExceeded:
                say(f"{dataset} {rank} refused")

    def work(rank: int) -> None:
        with Ledger.open(path, create=False) as own:
            run(own, rank)

    pids = [child(work, rank) for rank in range(RACERS)]
    with Ledger.open(path, create=False) as shared:
        threads = [
            threading.Thread(target=run, args=(shared, rank)) for rank in range(RACERS, 2 * RACERS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [ended(pid) for pid in pids] == [0] * RACERS


def kill_people_at_lines(path: str) -> None:
    """Die at each line of those that keep a charge with a footprint, in turn."""
    joint.BATCH = 3  # so that states are written down on the way
    with Ledger.open(path) as ledger:
        pay_for(ledger, 0, "first")  # what is imported at the first charge is imported here

    def work(number: int) -> None:
        ledger = Ledger.open(path)
        sys.settrace(Trace(number, lambda: os.kill(os.getpid(), signal.SIGKILL)))
        pay_for(ledger, number % 5, str(number))
        sys.settrace(None)
        ledger.close()
        say(str(number))

    number = 1
    while ended(child(work, number)) == -signal.SIGKILL:
        number += 1
    say(f"steps {number - 1}")


def kill_at_lines(path: str) -> None:
    """Die at each line that opening and two charges go through, in turn."""

    load(path)

    def work(number: int) -> None:
        trace = Trace(number, lambda: os.kill(os.getpid(), signal.SIGKILL))
        sys.settrace(trace)
        ledger = Ledger.open(path)
        for part in "ab":
            trace.phase()
            statement = f"{number}{part}"
            pay(ledger, statement)
            say(statement)
        sys.settrace(None)
        ledger.close()

    number = 1
    while ended(child(work, number)) == -signal.SIGKILL:
        number += 1
    say(f"steps {number - 1}")


def kill_at_instants(path: str, runs: str) -> None:
    """Be killed from outside at any instant, while charging or, now and then, while opening."""
    draw = random.Random(20261128)
    load(path)

    def work(run: int, opened: int) -> None:
        ledger = Ledger.open(path)
        os.write(opened, b".")
        for number in range(10**6):
            pay(ledger, f"{run}.{number}")
            say(f"{run}.{number}")

    for run in range(int(runs)):
        heard, opened = os.pipe()
        pid = child(work, run, opened)
        if run % 5:
            os.read(heard, 1)
        time.sleep(draw.uniform(0.0, 0.03))
        os.kill(pid, signal.SIGKILL)
        ended(pid)
        os.close(heard)
        os.close(opened)


def load(path: str) -> None:
    """Import what opening a ledger imports, so that children need not."""
    with contextlib.suppress(LedgerError):
        Ledger.open(path, create=False).close()


def fork_after_open(path: str) -> None:
    """Parent and children charge one ledger that was open at the fork, and the parent leaves."""
    ledger = Ledger.open(path)
    pay(ledger, "parent")
    busy = threading.Thread(target=lambda: [pay(ledger, "thread") for _ in range(30)])
    busy.start()
    left, leave = os.pipe()

    def work() -> None:
        os.close(leave)
        pay(ledger, "child")
        os.read(left, 1)  # until the parent has closed the ledger
        pay(ledger, "child again")
        ledger.close()

    pids = [child(work) for _ in range(8)]
    pay(ledger, "parent again")
    busy.join()
    ledger.close()
    with Ledger.open(path, create=False) as other:
        pay(other, "reopened")
        os.close(leave)
        os.close(left)
        assert [ended(pid) for pid in pids] == [0] * 8
        pay(other, "last")
    say("done")


def foreign_fork(path: str) -> None:
    """A fork that Python does not know of: the child refuses."""
    ledger = Ledger.open(path)
    pay(ledger, "parent")
    pid = ctypes.PyDLL(None).fork()
    if pid == 0:
        try:
            pay(ledger, "child")
        except LedgerError as error:
            say(str(error))
        finally:
            os._exit(0)
    ended(pid)
    pay(ledger, "parent again")
    ledger.close()


def fill_disk(path: str) -> None:
    """Charge until the system refuses to let the files grow, then let them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Ledger.open(path, create=False) as ledger:
        pay(ledger, "before")
        say("before")
        room = os.stat(f"{path}-wal").st_size + 50_000
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
        try:
            for number in range(10**6):
                pay(ledger, str(number))
                say(str(number))
        except LedgerError as error:
            say(f"refused {error}")
        spent = ledger.balance("alice", "adult").spent_rho  # reading still works
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert ledger.balance("alice", "adult").spent_rho == spent
        pay(ledger, "after")
        say("after")


TRIALS: dict[str, Callable[..., None]] = {
    trial.__name__: trial
    for trial in (
        race,
        kill_at_lines,
        kill_people_at_lines,
        kill_at_instants,
        fork_after_open,
        foreign_fork,
        fill_disk,
    )
}

if __name__ == "__main__":
    TRIALS[sys.argv[1]](*sys.argv[2:])
