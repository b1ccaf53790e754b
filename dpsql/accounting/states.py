"""The joint states of purses, as far as this process knows them."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from dpsql.accounting.book import Page
from dpsql.accounting.footprint import Footprint
from dpsql.accounting.joint import Joint
from dpsql.accounting.purse import NOTHING, Entry, Price, Purse
from dpsql.errors import LedgerError

KEPT = 8  # purses


@dataclass(frozen=True, slots=True)
class Trial:
    """What paying would do: what the purse will have spent, and its state then."""

    after: Price
    state: Joint

    @property
    def exact(self) -> bool:
        return self.state.exact


class States:
    """A state for each purse that was lately charged. Threads may share it; a fork copies it.

    A state that is kept is never changed, only replaced by a newer one; one that is lost, or was
    replaced by an older one, is made again from what the ledger has written down and the entries
    after that. So nothing depends on what is kept here but time.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], Joint] = {}

    def current(self, page: Page, user: str, dataset: str) -> Joint:
        """The state of a purse after all of its entries, not to be changed."""
        state = self._kept.get((user, dataset))
        if state is None:
            state = _written(page.state(user, dataset))
        newer = page.footprints(user, dataset, state.seq)
        if newer:
            state = state.copy()
            for entry in newer:
                _replay(state, entry)
        self.keep(user, dataset, state)
        return state

    def trial(
        self, page: Page, purse: Purse, price: Price, footprint: Footprint, snapshot: str, seq: int
    ) -> Trial:
        """What it would do to pay for a release that becomes entry `seq`."""
        state = self.current(page, purse.user, purse.dataset).copy()
        return Trial(state.pay(purse.spent, price, footprint, snapshot, seq), state)

    def record(self, page: Page, purse: Purse, trial: Trial) -> None:
        """Write the state down if it is time, so that opening the ledger stays quick."""
        state = trial.state
        if state.due:
            page.put_state(purse.user, purse.dataset, state.seq, state.to_bytes())
            state.count = state.work = 0

    def keep(self, user: str, dataset: str, state: Joint) -> None:
        """Remember a state that the ledger now has."""
        self._kept.pop((user, dataset), None)
        self._kept[user, dataset] = state
        while len(self._kept) > KEPT:
            with contextlib.suppress(RuntimeError):  # another thread was quicker
                self._kept.pop(next(iter(self._kept)), None)


def _written(data: bytes | None) -> Joint:
    """The state that was written down, or the one before all entries."""
    if data is not None:
        with contextlib.suppress(ValueError):  # damaged: the entries tell the same
            return Joint.from_bytes(data)
    return Joint()


def _replay(state: Joint, entry: Entry) -> None:
    try:
        footprint = Footprint.from_text(entry.footprint or "")
    except ValueError:
        raise LedgerError(
            f"entry {entry.seq} of the ledger is damaged; restore it from a copy"
        ) from None
    state.pay(entry.before, entry.price or NOTHING, footprint, entry.snapshot, entry.seq)
    state.settle(entry.after)
