"""The ledger: who was granted what, what was charged, and what is left.

A charge is checked, taken and kept for good in one transaction, before anything is read or drawn;
it is never given back. A purse belongs to a user (or a group) and a dataset; the terms of its grant
can be replaced at any time, what is spent stays spent. Every charge is paid by all purses that it
concerns (`payers`) or by none, and each line is sealed (`guard`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import os
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from types import TracebackType
from typing import Literal, TypeVar

from dpsql.accounting import members, payers, terms
from dpsql.accounting.book import Book, Page
from dpsql.accounting.books.memory_book import MemoryBook
from dpsql.accounting.books.shelf import book_at
from dpsql.accounting.clock import end
from dpsql.accounting.clock import now as _now
from dpsql.accounting.events import Event
from dpsql.accounting.filter import holds
from dpsql.accounting.footprints.footprint import Footprint
from dpsql.accounting.footprints.states import Known, States
from dpsql.accounting.kept.reads import Reads
from dpsql.accounting.kept.releases import Releases
from dpsql.accounting.kept.synopses import Synopses
from dpsql.accounting.names import check_names
from dpsql.accounting.purse import (
    EVERYBODY,
    Balance,
    Entry,
    Grant,
    Payment,
    Price,
    Purse,
    Receipt,
    Rise,
)
from dpsql.accounting.refusals import Regranted, excess, require_room
from dpsql.accounting.seals.guard import guarded
from dpsql.accounting.steps import Course, rise_of, taken
from dpsql.errors import BudgetExceeded, LedgerError

T = TypeVar("T")
__all__ = ["Balance", "Entry", "Grant", "Ledger", "Price", "Receipt", "Regranted", "Rise"]

BATCH = 1000


class Ledger:
    """Grants, charges and their log, kept in a book. Threads may share it; it survives a fork."""

    def __init__(self, book: Book, *, witness: str | None = None) -> None:
        self._book = book
        self._guard = guarded(book, witness)
        self._states = States()
        self.releases = Releases(book, self._guard.seal)
        self.reads = Reads(book, self._logged, self._states)
        self.synopses = Synopses(book, self._write)

    @classmethod
    def open(
        cls,
        path: str | PathLike[str],
        *,
        create: bool = True,
        witness: str | PathLike[str] | None = None,
    ) -> Ledger:
        """The ledger kept in the file `path`, or in PostgreSQL at `postgresql://...`.

        It is made if it is missing and `create` is true. `witness` is the data's own file: beside
        it is kept, where possible, how far the ledger has come. Raises LedgerError for a ledger
        that is missing, damaged, changed by something else, rolled back, or of a newer dpsql.
        """
        book = book_at(path, create=create)
        try:
            return cls(book, witness=None if witness is None else os.fspath(witness))
        except BaseException:
            book.close()
            raise

    @classmethod
    def memory(cls) -> Ledger:
        """A ledger that forgets with its process."""
        return cls(MemoryBook())

    def close(self) -> None:
        self._book.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- the owner -----------------------------------------------------------------------------

    def grant(
        self,
        user: str,
        *,
        dataset: str,
        epsilon: float,
        delta: float = 1e-6,
        until: datetime.date | str | None = None,
        cap: float | None = None,
    ) -> Grant:
        """Give `user` (epsilon, delta) on `dataset`, in place of any terms in force.

        delta = 0 makes a pure grant: prices in epsilon add, and releases without a pure epsilon
        are refused. The grant ends with the day `until` (UTC), or at that time. `cap` fixes what
        all users together may spend, in epsilon at the same delta. Raises UsageError for terms
        that are no budget, and for a pure grant to a purse that has paid for a release without a
        pure epsilon.
        """
        check_names(user, dataset)
        grant = Grant.of(user, dataset, epsilon, delta, _now(), end(until))

        return self._write(lambda page: terms.grant(page, grant, cap, _latest(page)))

    def revoke(self, user: str, *, dataset: str) -> None:
        """End the grant of `user` on `dataset`, and any membership in groups.

        What is spent is remembered. Raises NoGrant where there is neither.
        """
        check_names(user, dataset)
        self._write(lambda page: terms.revoke(page, user, dataset, _now()))

    def cap(self, dataset: str, *, epsilon: float, delta: float | None = None) -> Grant:
        """Fix what all users of `dataset` together may spend; delta is the grants' unless given.

        Raises UsageError for terms that are no budget.
        """
        check_names(dataset, dataset)
        return self._write(lambda page: terms.set_cap(page, dataset, epsilon, delta, _now()))

    def uncap(self, dataset: str) -> None:
        """Let the cap follow the largest grant on `dataset` again. Raises UsageError."""
        check_names(dataset, dataset)
        self._write(lambda page: terms.free_cap(page, dataset, _now()))

    def join(self, user: str, group: str, *, dataset: str) -> None:
        """Make `user` a member of `group`: the group's purse pays for what the user asks.

        Raises UsageError for one who is a member already.
        """
        self._move("join", user, group, dataset)

    def leave(self, user: str, group: str, *, dataset: str) -> None:
        """End the membership of `user` in `group`. Raises UsageError where there is none."""
        self._move("leave", user, group, dataset)

    def _move(self, kind: Literal["join", "leave"], user: str, group: str, dataset: str) -> None:
        check_names(user, dataset)
        check_names(group, dataset)
        self._write(lambda page: terms.move(page, kind, user, group, dataset, _now()))

    # -- who asks ------------------------------------------------------------------------------

    def charge(
        self,
        user: str,
        dataset: str,
        event: Event,
        *,
        statement: str,
        footprint: Footprint | None = None,
        snapshot: str = "",
        people: str = "",
        grant: Grant | None = None,
        token: str = "",
        also: Callable[[Page, int], None] | None = None,
    ) -> Receipt:
        """Take what `event` costs from all purses that pay, for good when this returns.

        With the `footprint` of the release on a `snapshot` of the data, that is the rise of the
        largest loss of a person; without one it is the event's price, as if it concerned everybody.
        `people` says whose losses these are: under which neighbouring relation, and of which unit;
        losses of different people are never added. `grant` is the one that the event was chosen
        under; by a random `token` the charge is told from all others; `also` writes on the page
        what belongs to the charge, whose number it is given. Raises NoGrant,
        BudgetExceeded, UsageError for other people than those of the dataset's earlier charges, or
        Regranted where another grant is in force now, and then nothing is charged. After another
        LedgerError or an interrupt the charge may stand (`balance` tells), and nothing may be
        released.
        """
        check_names(user, dataset)
        price = Price.of(event)
        written = event.to_dict()
        told = "" if footprint is None else footprint.text
        text = statement.encode("utf-8", "backslashreplace").decode()

        def change(page: Page) -> tuple[Receipt, list[tuple[Purse, Known]]]:
            at, seq = _now(), page.last() + 1
            paying = payers.payers(page, user, dataset, lambda: at)
            if grant is not None and paying[0].grant != grant:
                raise Regranted(f"{user} has another grant on {dataset}; nothing was charged")
            first_of = payers.newly_about(paying[-1].purse, people)
            steps = taken(self._states, page, paying, price, footprint, snapshot, seq)
            for payer, step in zip(paying, steps, strict=True):
                if payer.grant is None:
                    require_room(step.after)
                elif not holds(payer.grant, step.after):
                    raise BudgetExceeded(excess(payer.grant, payer.purse.spent, price, step.after))
            after, known, payments = [], [], []
            for payer, step in zip(paying, steps, strict=True):
                before, joint = payer.purse, payer.purse.joint
                if step.trial is not None:
                    state = self._states.record(page, before, step.trial)
                    known.append((before, state))
                    joint = state.joint
                about = people if before.user == EVERYBODY and people else before.people
                purse = before.after(step.after, joint, about)
                page.put(purse)
                after.append(payers.Payer(purse, payer.grant))
                payments.append(Payment(purse.user, before.spent, step.after, step.exact))
            page.append(Entry(
                seq, at, "charge", user, dataset, payments[0].before, payments[0].after,
                statement=text, event=written, price=price, payments=tuple(payments),
                footprint=told, snapshot=snapshot if told else "", people=first_of, token=token,
            ))  # fmt: skip
            if also is not None:
                also(page, seq)
            return Receipt(rise_of(price, paying, after, steps), seq), known

        receipt, known = self._logged(change)
        for purse, state in known:
            self._states.keep(purse, state)
        return receipt

    def rise(
        self,
        user: str,
        dataset: str,
        event: Event,
        *,
        footprint: Footprint | None = None,
        snapshot: str = "",
        people: str = "",
        then: Sequence[tuple[Event, Footprint]] = (),
    ) -> Rise:
        """What `charge` would do now, to the last digit, whether the purses hold it or not.

        With `then`, what it and these after it would do together. Raises NoGrant, and UsageError as
        `charge` does.
        """
        check_names(user, dataset)

        def question(page: Page) -> Rise:
            course = Course(self._states, page, payers.payers(page, user, dataset, _now))
            payers.newly_about(course.paying[-1].purse, people)
            for one, told in ((event, footprint), *then):
                course.pay(Price.of(one), told, snapshot)
            return course.rise

        return self._until_ended(lambda: self._book.read(question))

    def balance(self, user: str, dataset: str) -> Balance:
        """What is granted and spent where `user` pays first, and in `others` where as well.

        Raises NoGrant.
        """
        check_names(user, dataset)

        def question(page: Page) -> Balance:
            return payers.balance(payers.payers(page, user, dataset, _now))

        return self._until_ended(lambda: self._book.read(question))

    def purses(self) -> list[Balance]:
        """The balances of all grants, by user and dataset; caps are apart."""
        return self._book.read(lambda page: payers.all_held(page, _latest(page)))

    def paying(self, user: str) -> list[Balance]:
        """The balances of the purses that pay for `user`, groups included, by dataset.

        Each knows in `others` which ones pay as well.
        """
        check_names(user, user)
        return self._book.read(lambda page: payers.paying(page, user, _latest(page)))

    def caps(self) -> list[Balance]:
        """What all users of a dataset together may spend and have spent, by dataset."""
        return [
            Balance.of(purse.grant, purse.spent, fixed=purse.fixed)
            for purse in self._book.read(lambda page: page.purses())
            if purse.user == EVERYBODY and purse.grant is not None
        ]

    def members(self, group: str, *, dataset: str) -> tuple[str, ...]:
        """The users in `group`, by name."""
        check_names(group, dataset)
        return self._book.read(lambda page: members.members(page, group, dataset))

    def groups(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """The users in each group that has any, by group and dataset."""
        return self._book.read(members.groups)

    def log(self, user: str | None = None, dataset: str | None = None) -> Iterator[Entry]:
        """All entries, oldest first, or those that concern a user, a group or a dataset."""
        after = 0
        while batch := self._entries(after, user, dataset):
            yield from batch
            after = batch[-1].seq

    def _entries(self, after: int, user: str | None, dataset: str | None) -> tuple[Entry, ...]:
        return tuple(self._book.read(lambda page: page.entries(after, BATCH, user, dataset)))

    def _until_ended(self, work: Callable[[], T]) -> T:
        """What `work` gives; the log tells, once, of a grant whose end it found.

        From then on no clock opens it again. Raises NoGrant.
        """
        try:
            return work()
        except payers.Ended as ended:
            found = ended
        with contextlib.suppress(LedgerError):  # whoever may only read is refused all the same
            self._write(lambda page: terms.end(page, found))
        raise found

    def _logged(self, change: Callable[[Page], T]) -> T:
        return self._until_ended(lambda: self._write(change))

    def _write(self, change: Callable[[Page], T]) -> T:
        return self._guard.write(self._book, change)

    def dump(self) -> list[str]:
        """All that the ledger says, an item a line: purses, then the log."""
        kept: list[Purse | Entry] = list(self._book.read(lambda page: page.purses()))
        kept.extend(self.log())
        return [json.dumps(dataclasses.asdict(item)) for item in kept]


def _latest(page: Page) -> str:
    """The latest time known: the clock's, or the latest that the ledger has seen."""
    return max(_now(), page.seen())
