"""Reading what another user's purse has paid for.

A release was charged to whoever asked and, once and for all, to the cap of the dataset: what all
users know together does not grow when another of them reads it. What that one knows does, so the
reader's own purse, and those of its groups, pay its footprint as if it were released now. The log
tells of each reading, like of a charge, with a note of the entry that was read. Purses that paid
for that one, and groups that paid for a member's reading of it, do not pay again: what a purse
bounds is what its holders learn together, and they knew the release already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpsql.accounting import payers
from dpsql.accounting.book import Book, Page
from dpsql.accounting.clock import now
from dpsql.accounting.events import Event
from dpsql.accounting.filter import holds
from dpsql.accounting.footprints.footprint import Footprint
from dpsql.accounting.footprints.states import Known, States, Trial
from dpsql.accounting.purse import (
    NOTHING,
    Entry,
    Grant,
    Payment,
    Price,
    Purse,
    Receipt,
    Rise,
)
from dpsql.accounting.refusals import Regranted, excess, require_room
from dpsql.accounting.steps import Course
from dpsql.errors import BudgetExceeded, LedgerError

Change = Callable[[Page], Receipt]


class Reads:
    """What readings cost, and the charges for them."""

    def __init__(self, book: Book, write: Callable[[Change], Receipt], states: States) -> None:
        self._book, self._write, self._states = book, write, states

    def rise(
        self,
        user: str,
        dataset: str,
        *seqs: int,
        then: Sequence[tuple[Event, Footprint, str]] = (),
    ) -> Rise:
        """What reading the releases of some entries would cost, one after the other, whether the
        purses hold it or not; `then` what is charged after that, of a snapshot.

        Raises NoGrant, and LedgerError where there is no such release.
        """

        def question(page: Page) -> Rise:
            course = Course(self._states, page, payers.payers(page, user, dataset, now))
            for seq in seqs:
                source = _source(page, dataset, seq)
                footprint = _footprint(source) if source.footprint else None
                due = _due(page, user, course.paying, source)
                course.pay(source.price or NOTHING, footprint, source.snapshot, due)
            for event, footprint, snapshot in then:
                course.pay(Price.of(event), footprint, snapshot)
            return course.rise

        return self._book.read(question)

    def charge(
        self,
        user: str,
        dataset: str,
        seq: int,
        *,
        statement: str,
        grant: Grant | None = None,
        token: str = "",
    ) -> Receipt:
        """Take what reading the release of entry `seq` costs; it may be read when this returns.

        Raises NoGrant, BudgetExceeded, LedgerError, or Regranted where another grant than `grant`
        is in force; then nothing is charged. A random `token` tells the charge from all others.
        """
        text = statement.encode("utf-8", "backslashreplace").decode()
        known: list[tuple[Purse, Known]] = []

        def change(page: Page) -> Receipt:
            known.clear()
            step = self._step(page, user, dataset, seq)
            if grant is not None and step.rise.before.grant != grant:
                raise Regranted(f"{user} has another grant on {dataset}; nothing was charged")
            price = step.rise.price
            payments = []
            for payer, after, trial in step.due:
                before = payer.purse
                if payer.grant is None:
                    require_room(after)
                elif not holds(payer.grant, after):
                    raise BudgetExceeded(excess(payer.grant, before.spent, price, after))
                joint, exact = before.joint, None
                if trial is not None:
                    state = self._states.record(page, before, trial)
                    known.append((before, state))
                    joint, exact = state.joint, trial.exact
                page.put(before.after(after, joint, before.people))
                payments.append(Payment(before.user, before.spent, after, exact))
            source, number = step.source, page.last() + 1
            if payments:
                page.append(
                    Entry(
                        number, max(now(), page.seen()), "charge", user, dataset,
                        payments[0].before, payments[0].after, statement=text,
                        event=source.event, price=price, payments=tuple(payments),
                        footprint=source.footprint, snapshot=source.snapshot,
                        token=token, note=_note(seq),
                    )
                )  # fmt: skip
            return Receipt(step.rise, number if payments else seq)

        receipt = self._write(change)
        for purse, state in known:
            self._states.keep(purse, state)
        return receipt

    def _step(self, page: Page, user: str, dataset: str, seq: int) -> _Step:
        source = _source(page, dataset, seq)
        paying = payers.payers(page, user, dataset, now)
        number, price = page.last() + 1, source.price or NOTHING
        due: list[tuple[payers.Payer, Price, Trial | None]] = []
        after = []
        wanted = _due(page, user, paying, source)
        for payer in paying:
            if payer.purse.user not in wanted:
                after.append(payer)
                continue
            spent = payer.purse.spent + price
            trial: Trial | None = None
            if source.footprint:
                footprint = _footprint(source)
                trial = self._states.trial(
                    page, payer.purse, price, footprint, source.snapshot, number
                )
                spent = trial.after
            due.append((payer, spent, trial))
            after.append(payer.at(spent))
        first = due[0][2] if due else None
        exact = first is not None and first.exact
        rise = Rise(price, payers.balance(paying), payers.balance(after), exact)
        return _Step(source, rise, due)


@dataclass(frozen=True, slots=True)
class _Step:
    """The entry that is read, what that costs, and the purses that pay, with what they come to."""

    source: Entry
    rise: Rise
    due: list[tuple[payers.Payer, Price, Trial | None]]


def _source(page: Page, dataset: str, seq: int) -> Entry:
    """The entry of a release."""
    from dpsql.accounting.seals.guard import at

    source = at(page, seq)
    if source is None or source.price is None or source.dataset != dataset:
        raise LedgerError(f"entry {seq} is no release of {dataset}")
    return source


def _due(page: Page, user: str, paying: Sequence[payers.Payer], source: Entry) -> frozenset[str]:
    """Of the purses that pay for a user, the holders of those that pay for reading an entry."""
    paid = {payment.purse for payment in source.payments}
    return frozenset(
        payer.purse.user
        for payer in paying[:-1]
        if payer.purse.user not in paid and not _knows(page, user, payer, source)
    )


def _note(seq: int) -> str:
    return f"reads entry {seq}"


def _knows(page: Page, user: str, payer: payers.Payer, source: Entry) -> bool:
    """Whether a group's purse has paid the footprint of an entry when a member read it."""
    purse = payer.purse
    if purse.user == user or not source.footprint:
        return False
    read = page.noted(purse.user, purse.dataset, source.seq, _note(source.seq))
    return any(
        (found.kind, found.footprint, found.snapshot)
        == ("charge", source.footprint, source.snapshot)
        for found in read
    )


def _footprint(source: Entry) -> Footprint:
    try:
        return Footprint.from_text(source.footprint)
    except ValueError:
        raise LedgerError(f"what entry {source.seq} cost each person cannot be read") from None
