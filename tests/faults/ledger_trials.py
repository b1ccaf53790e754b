"""Processes that the tests of the ledger start, and end: `python ledger_trials.py TRIAL PATH ...`.

What a process prints after a charge has returned is an answer that an analyst may have seen.
"""

import contextlib
import ctypes
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
from dpsql.accounting import joint
from dpsql.accounting.events import Gaussian
from dpsql.accounting.footprint import Axis, Factor, Footprint, Loss
from dpsql.accounting.ledger import Ledger
from dpsql.errors import BudgetExceeded, LedgerError

ROOM = os.path.dirname(os.path.abspath(dpsql.accounting.__file__))
PURE = {
    f"{ROOM}/{name}.py"
    for name in (
        *("events", "convert", "fields", "purse", "rows", "seal"),
        *(
            "footprint",
            "joint",
            "tables",
            "tops",
            "elimination",
            "shares",
            "pieces",
            "runs",
            "pack",
        ),
    )
}
EVENT = Gaussian(1, Fraction(500))


def pay(ledger: Ledger, statement: str, user: str = "alice") -> int:
    return ledger.charge(user, "adult", EVENT, statement=statement).seq


def pay_for(
    ledger: Ledger, code: int, statement: str, user: str = "alice", dataset: str = "adult"
) -> int:
    """Charge for the people with one code of a column."""
    axis = Axis("sex", (0, code + 1, code + 2), (0, 1, 0))
    loss = Loss(0, (Factor((axis,), (0, EVENT.rho)),), EVENT.rho)
    footprint = Footprint(loss, None)
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
        signal.alarm(60)  # no child outlives a trial that fails
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
    """A trace function that acts at the `number`-th line of the accounting room.

    A line counts once a phase, however often a loop comes back to it; what only computes, not.
    """

    def __init__(self, number: int, act: Callable[[], None]) -> None:
        self.left, self.act = number, act
        self.seen: set[tuple[str, int]] = set()

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(ROOM) or name in PURE:
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


def race(path: str, rank: str) -> None:
    """For every user and dataset named on standard input, try to buy once.

    A `%` in the name of the user stands for the rank of this racer.
    """
    with Ledger.open(path, create=False) as ledger:
        say("ready")
        for line in sys.stdin:
            user, dataset = line.replace("%", rank).split()
            try:
                ledger.charge(user, dataset, EVENT, statement="")
                say("paid")
            except BudgetExceeded:
                say("refused")


def race_for(path: str, code: str) -> None:
    """The same, about the people with one code."""
    with Ledger.open(path, create=False) as ledger:
        say("ready")
        for line in sys.stdin:
            user, dataset = line.split()
            try:
                pay_for(ledger, int(code), "", user, dataset)
                say("paid")
            except BudgetExceeded:
                say("refused")


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
        race_for,
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
