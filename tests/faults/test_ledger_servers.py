"""A PostgreSQL server that goes down, and comes back: no answer without its charge."""

from __future__ import annotations

import importlib.util
import signal
import sys
import threading
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpsql.accounting.books.postgres_book import PostgresBook
from dpsql.accounting.events import Gaussian
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.seals.verify import verify
from dpsql.errors import LedgerError

EVENT = Gaussian(1, Fraction(500))

_spec = importlib.util.spec_from_file_location(
    "ledger_trials", Path(__file__).with_name("ledger_trials.py")
)
assert _spec is not None and _spec.loader is not None
trials = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(trials)


@pytest.mark.parametrize("how", [signal.SIGQUIT, signal.SIGINT], ids=["crash", "in order"])
def test_a_server_that_goes_down_takes_no_answer_with_it(
    address: str, postgres: Any, how: signal.Signals
) -> None:
    answered: list[str] = []
    refusals: list[str] = []
    back = threading.Event()
    with Ledger.open(address) as ledger:
        ledger.grant("alice", dataset="adult", epsilon=1e6)

    def work(rank: int) -> None:
        with Ledger.open(address, create=False) as own:
            try:
                for number in range(10**6):
                    statement = f"{rank}.{number}"
                    own.charge("alice", "adult", EVENT, statement=statement)
                    answered.append(statement)
            except LedgerError as refusal:
                refusals.append(str(refusal))
            back.wait(120)  # a server that shuts down waits for those who knock
            own.charge("alice", "adult", EVENT, statement=f"{rank} again")  # the same one goes on

    threads = [threading.Thread(target=work, args=(rank,), daemon=True) for rank in range(6)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 60
    while len(answered) < 60:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    postgres.stop(how)
    postgres.start()
    back.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert len(refusals) == 6
    assert all("cannot be reached" in text or "may stand" in text for text in refusals)
    with Ledger.open(address, create=False) as ledger:
        kept = [entry.statement for entry in ledger.log() if entry.kind == "charge"]
        assert len(set(kept)) == len(kept) and set(answered) <= set(kept)
        assert len(set(kept) - set(answered)) <= 12  # one in flight, and one again, a thread
        assert ledger.balance("alice", "adult").spent_rho == len(kept) * EVENT.rho
    assert verify(address).problems == ()


def test_while_the_server_is_down_nothing_is_answered(address: str, postgres: Any) -> None:
    with Ledger.open(address) as ledger:
        ledger.grant("alice", dataset="adult", epsilon=1)
        postgres.stop()
        try:
            for _ in range(2):
                with pytest.raises(LedgerError, match="the server cannot be reached"):
                    ledger.charge("alice", "adult", EVENT, statement="")
            with pytest.raises(LedgerError, match="the server cannot be reached"):
                Ledger.open(address)
        finally:
            postgres.start()
        ledger.charge("alice", "adult", EVENT, statement="")
        assert ledger.balance("alice", "adult").spent_rho == EVENT.rho


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.filterwarnings("ignore:.*was deleted while still open.*:ResourceWarning")
def test_ctrl_c_at_any_line_leaves_a_charge_whole_or_absent(address: str) -> None:
    with (
        Ledger.open(address) as ledger,
        Ledger(PostgresBook(address, create=False, patience=2)) as other,
    ):
        ledger.grant("alice", dataset="adult", epsilon=1e6)
        outcomes = set()
        number, cut = 1, True

        def interrupt() -> None:
            raise KeyboardInterrupt

        while cut:
            before = ledger.balance("alice", "adult").spent_rho
            sys.settrace(trials.Trace(number, interrupt))
            try:
                ledger.charge("alice", "adult", EVENT, statement="")
                cut = False
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(None)
            after = other.balance("alice", "adult").spent_rho
            assert after - before in (0, EVENT.rho)
            outcomes.add((cut, (after - before) // EVENT.rho))
            other.charge("alice", "adult", EVENT, statement="")  # nobody is locked out
            number += 1
        assert outcomes == {(True, 0), (True, 1), (False, 1)}
    assert verify(address).problems == ()
