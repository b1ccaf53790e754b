"""A PostgreSQL server that goes down, and comes back: no answer without its charge."""

from __future__ import annotations

import signal
import threading
import time
from fractions import Fraction
from typing import Any

import pytest

from dpsql.accounting.events import Gaussian
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.verify import verify
from dpsql.errors import LedgerError

EVENT = Gaussian(1, Fraction(500))


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
