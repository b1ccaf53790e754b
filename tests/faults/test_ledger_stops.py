"""Ctrl-C at any line of a charge: it is whole or absent, and nobody is locked out."""

import functools
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.accounting.books.sqlite_book import SqliteBook
from dpsql.accounting.events import Gaussian
from dpsql.accounting.ledger import Ledger
from dpsql.errors import BudgetExceeded
from tests.faults import ledger_trials as trials

EVENT = Gaussian(1, Fraction(500))
TRIALS = Path(str(trials.__file__))


def pay(ledger: Ledger, statement: str = "SELECT 1") -> int:
    return ledger.charge("alice", "adult", EVENT, statement=statement).seq


def filled(path: Path, charges: int = 3) -> Path:
    with Ledger.open(path) as ledger:
        ledger.grant("alice", dataset="adult", epsilon=100)
        for _ in range(charges):
            pay(ledger)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return filled(tmp_path / "a.ledger")


def in_a_thread(test: Callable[[Path], None]) -> Callable[[Path], None]:
    """The test in a thread of its own.

    CPython may keep, as the one in hand, the exception whose handler a trace function leaves; all
    later exceptions of that thread would carry it as their context.
    """

    @functools.wraps(test)
    def run(path: Path) -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(test, path).result()

    return run


def lines_of(work: Callable[[], object], number: int) -> bool:
    """Whether Ctrl-C at the `number`-th line of the accounting room came before `work` ended."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    sys.settrace(trials.Trace(number, interrupt))
    try:
        work()
    except (KeyboardInterrupt, BudgetExceeded) as error:
        return isinstance(error, KeyboardInterrupt)
    finally:
        sys.settrace(None)
    return False


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@in_a_thread
def test_ctrl_c_at_any_line_leaves_a_charge_whole_or_absent(path: Path) -> None:
    with (
        Ledger.open(path) as ledger,
        Ledger(SqliteBook(path, create=False, patience=0.5)) as other,
    ):
        outcomes = set()
        number = 1
        while True:
            before = ledger.balance("alice", "adult").spent_rho
            cut = lines_of(lambda: pay(ledger), number)
            after = other.balance("alice", "adult").spent_rho
            outcomes.add((cut, (after - before) // EVENT.rho))
            assert after - before in (0, EVENT.rho)
            pay(other)  # nobody is locked out
            if not cut:
                break
            number += 1
        assert outcomes == {(True, 0), (True, 1), (False, 1)}
        total = sum(entry.price.rho for entry in ledger.log() if entry.price)
        assert total == ledger.balance("alice", "adult").spent_rho


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@in_a_thread
def test_ctrl_c_during_a_refusal_locks_nobody_out(path: Path) -> None:
    with (
        Ledger.open(path) as ledger,
        Ledger(SqliteBook(path, create=False, patience=0.5)) as other,
    ):
        ledger.grant("alice", dataset="adult", epsilon=1e-3)
        other.grant("bob", dataset="adult", epsilon=100)
        number = 1
        while lines_of(lambda: pay(ledger), number):
            other.charge("bob", "adult", EVENT, statement="")
            number += 1
        assert number > 50
