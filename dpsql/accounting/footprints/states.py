"""The joint states of purses, as far as this process knows them.

A purse, which is sealed, bears the running hash of what its state was made from: that of the state
written down last, and then of each footprint since. So a state, or a footprint, that was changed or
taken out of the ledger is found before anything is charged on it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from dataclasses import dataclass

from dpsql.accounting.book import Page
from dpsql.accounting.footprints.footprint import Footprint, OtherVersion
from dpsql.accounting.footprints.joint import Joint
from dpsql.accounting.purse import NOTHING, Price, Purse
from dpsql.accounting.seals.fields import packed
from dpsql.errors import LedgerError

KEPT = 16  # purses


@dataclass(frozen=True, slots=True)
class Known:
    """A state, and the hash of what it was made from. It is replaced, never changed."""

    state: Joint
    joint: str


class Trial:
    """What paying would do: what the purse will have spent, and its state then.

    `data` is the state to be written down, if it is time for that.
    """

    def __init__(self, after: Price, known: Known) -> None:
        self.after, self.exact = after, known.state.exact
        self.known, self._due = known, known.state.due

    @functools.cached_property
    def data(self) -> bytes:
        if not self._due:
            return b""
        state = self.known.state
        data = state.to_bytes()
        state.count = state.work = 0
        self.known = Known(state, hashlib.sha256(data).hexdigest())
        return data


class States:
    """A state for each purse that was lately charged. Threads may share it; a fork copies it.

    A state that is lost, or was replaced by an older one, is made again from what the ledger has
    written down and the entries after that. So nothing depends on what is kept here but time.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], Known] = {}

    def current(self, page: Page, purse: Purse) -> Known:
        paid = f"what {purse.user or 'everybody'} paid on {purse.dataset}"
        kept = self._kept.get((purse.user, purse.dataset))
        try:
            if kept is not None and kept.joint != purse.joint:
                kept = _replayed(page, purse, kept)
            if kept is None:  # or another process has written the state down since
                kept = _replayed(page, purse, _written(page.state(purse.user, purse.dataset)))
        except OtherVersion as error:
            raise LedgerError(
                f"{paid} was written by another version of dpsql (there is {error}); this one does"
                " not answer from this ledger: use the dpsql that wrote it"
            ) from None
        if kept is None:
            raise LedgerError(
                f"{paid} was changed by something else than dpsql; nothing is answered from this"
                " ledger (dpsql budget verify DB says more, and what to do)"
            )
        self.keep(purse, kept)
        return kept

    def trial(
        self,
        page: Page,
        purse: Purse,
        price: Price,
        footprint: Footprint,
        snapshot: str,
        seq: int,
        known: Known | None = None,
    ) -> Trial:
        """What it would do to pay for a release that becomes entry `seq`.

        The purse's state is `known` where another than the page's is meant.
        """
        known = known or self.current(page, purse)
        state = known.state.copy()
        before = purse.spent
        after = state.pay(before, price, footprint, snapshot, seq)
        joint = _extended(known.joint, seq, snapshot, footprint.text, before, price, after)
        return Trial(after, Known(state, joint))

    def record(self, page: Page, purse: Purse, trial: Trial) -> Known:
        """The state of a purse that has paid, which is written down if it is time."""
        if data := trial.data:
            page.put_state(purse.user, purse.dataset, trial.known.state.seq, data)
        return trial.known

    def keep(self, purse: Purse, known: Known) -> None:
        """Remember a state that the ledger now has."""
        name = (purse.user, purse.dataset)
        self._kept.pop(name, None)
        self._kept[name] = known
        while len(self._kept) > KEPT:
            with contextlib.suppress(RuntimeError):  # another thread was quicker
                self._kept.pop(next(iter(self._kept)), None)


def _written(data: bytes | None) -> Known | None:
    """The state that was written down, or the one before all entries; None if it is damaged."""
    if data is None:
        return Known(Joint(), "")
    try:
        return Known(Joint.from_bytes(data), hashlib.sha256(data).hexdigest())
    except OtherVersion:
        raise
    except ValueError:
        return None


def _replayed(page: Page, purse: Purse, known: Known | None) -> Known | None:
    """The state after the entries since; None unless they are those that the purse paid for."""
    if known is None or known.joint == purse.joint:
        return known
    state, joint = known.state.copy(), known.joint
    for entry in page.footprints(purse.user, purse.dataset, state.seq):
        payment = next((p for p in entry.payments if p.purse == purse.user), None)
        if payment is None:
            return None
        price = entry.price or NOTHING
        try:
            footprint = Footprint.from_text(entry.footprint)
        except OtherVersion:
            raise
        except ValueError:
            return None
        state.pay(payment.before, price, footprint, entry.snapshot, entry.seq)
        state.settle(payment.after)
        joint = _extended(
            joint, entry.seq, entry.snapshot, entry.footprint, payment.before, price, payment.after
        )
    return Known(state, joint) if joint == purse.joint else None


def _extended(joint: str, seq: int, snapshot: str, footprint: str, *prices: Price) -> str:
    """The hash `joint` with one more footprint."""
    fields = {
        "seq": seq,
        "snapshot": snapshot,
        "footprint": footprint,
        "prices": [[price.rho, price.epsilon] for price in prices],
    }
    return hashlib.sha256(f"{joint} {packed(fields)}".encode()).hexdigest()
