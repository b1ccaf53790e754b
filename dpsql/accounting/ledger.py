"""The ledger: who was granted what, what was charged, and what is left.

A charge is checked, taken and kept for good in one transaction, before anything is read or drawn;
it is never given back. A purse belongs to a user (or a group) and a dataset; the terms of its grant
can be replaced at any time, what is spent stays spent. Every charge is paid by all purses that it
concerns (`payers`) or by none, and each line is sealed (`guard`).
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
from collections.abc import Callable, Iterator
from os import PathLike
from types import TracebackType
from typing import TypeVar

from dpsql.accounting import members, payers
from dpsql.accounting.anchor import Mark
from dpsql.accounting.book import Book, Page
from dpsql.accounting.caps import cap_of, fix, follow
from dpsql.accounting.clock import end
from dpsql.accounting.clock import now as _now
from dpsql.accounting.convert import epsilon_of
from dpsql.accounting.events import Event
from dpsql.accounting.filter import accepts
from dpsql.accounting.guard import guarded
from dpsql.accounting.memory_book import MemoryBook
from dpsql.accounting.names import check_names
from dpsql.accounting.purse import (
    EVERYBODY,
    LIMIT,
    NOTHING,
    Balance,
    Entry,
    Grant,
    Kind,
    Payment,
    Price,
    Purse,
    Receipt,
    ones,
)
from dpsql.accounting.scribe import Scribe
from dpsql.accounting.shelf import book_at
from dpsql.errors import BudgetExceeded, UsageError

T = TypeVar("T")

__all__ = ["Balance", "Entry", "Grant", "Ledger", "Price", "Receipt"]

BATCH = 1000


class Ledger:
    """Grants, charges and their log, kept in a book. Threads may share it; it survives a fork."""

    def __init__(self, book: Book, *, witness: str | None = None) -> None:
        self._book = book
        self._guard = guarded(book, witness)

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

        def change(page: Page) -> Grant:
            if grant.ended(_latest(page)):
                raise UsageError(f"until {until} has passed; the ledger has seen {_latest(page)}")
            purse = page.purse(user, dataset) or Purse(user, dataset, None, NOTHING)
            if grant.pure and purse.spent.epsilon is None:
                raise UsageError(
                    f"{user} has paid on {dataset} for a release that has no pure epsilon, so the"
                    " purse can keep no promise at delta = 0; grant with a delta above 0"
                )
            page.put(dataclasses.replace(purse, grant=grant))
            follows = follow(page, dataset, grant.at) if cap is None else None
            page.append(_entry(page, "grant", purse, at=grant.at, grant=grant, cap=follows))
            if cap is not None:
                _cap(page, dataset, cap, delta, grant.at)
            return grant

        return self._write(change)

    def revoke(self, user: str, *, dataset: str) -> None:
        """End the grant of `user` on `dataset`, and any membership in groups.

        What is spent is remembered. Raises NoGrant where there is neither.
        """
        check_names(user, dataset)

        def change(page: Page) -> None:
            purse, at = page.purse(user, dataset), _now()
            if purse is None or (purse.grant is None and not purse.groups):
                raise payers.absent(user, dataset)
            page.put(dataclasses.replace(purse, grant=None, groups=()))
            follows = follow(page, dataset, at)
            page.append(_entry(page, "revoke", purse, at=at, cap=follows))

        self._write(change)

    def cap(self, dataset: str, *, epsilon: float, delta: float | None = None) -> Grant:
        """Fix what all users of `dataset` together may spend; delta is the grants' unless given.

        Raises UsageError for terms that are no budget.
        """
        check_names(dataset, dataset)
        return self._write(lambda page: _cap(page, dataset, epsilon, delta, _now()))

    def uncap(self, dataset: str) -> None:
        """Let the cap follow the largest grant on `dataset` again. Raises UsageError."""
        check_names(dataset, dataset)

        def change(page: Page) -> None:
            at, before = _now(), cap_of(page, dataset)
            page.put(dataclasses.replace(before, fixed=False))
            page.append(_entry(page, "cap", before, at=at, cap=follow(page, dataset, at)))

        self._write(change)

    def join(self, user: str, group: str, *, dataset: str) -> None:
        """Make `user` a member of `group`: the group's purse pays for what the user asks.

        Raises UsageError for one who is a member already.
        """
        self._move("join", user, group, dataset)

    def leave(self, user: str, group: str, *, dataset: str) -> None:
        """End the membership of `user` in `group`. Raises UsageError where there is none."""
        self._move("leave", user, group, dataset)

    def _move(self, kind: Kind, user: str, group: str, dataset: str) -> None:
        check_names(user, dataset)
        check_names(group, dataset)
        act = members.join if kind == "join" else members.leave

        def change(page: Page) -> None:
            purse = act(page, user, group, dataset)
            page.append(_entry(page, kind, purse, at=_now(), group=group))

        self._write(change)

    # -- who asks ------------------------------------------------------------------------------

    def charge(self, user: str, dataset: str, event: Event, *, statement: str) -> Receipt:
        """Take the price of `event` from all purses that pay, for good when this returns.

        Raises NoGrant or BudgetExceeded, and then nothing is charged. After a LedgerError or an
        interrupt the charge may stand (`balance` tells), and nothing may be released.
        """
        check_names(user, dataset)
        price = Price.of(event)
        written = event.to_dict()
        text = statement.encode("utf-8", "backslashreplace").decode()

        def change(page: Page) -> Receipt | payers.Ended:
            at = _now()
            try:
                paying = payers.payers(page, user, dataset, _latest(page, at))
            except payers.Ended as ended:
                return _ending(page, ended, at)
            for payer in paying:
                if not accepts(payer.grant, payer.purse.spent, price):
                    raise BudgetExceeded(_excess(payer.grant, payer.purse.spent, price))
            after = [payer.plus(price) for payer in paying]
            for payer in after:
                page.put(payer.purse)
            payments = tuple(
                Payment(payer.purse.user, payer.purse.spent, paid.purse.spent)
                for payer, paid in zip(paying, after, strict=True)
            )
            first, seq = payments[0], page.last() + 1
            page.append(
                Entry(
                    seq,
                    at,
                    "charge",
                    user,
                    dataset,
                    first.before,
                    first.after,
                    statement=text,
                    event=written,
                    price=price,
                    payments=payments,
                )
            )
            return Receipt(price, payers.balance(paying), payers.balance(after), seq)

        receipt = self._write(change)
        if isinstance(receipt, payers.Ended):
            raise receipt
        return receipt

    def balance(self, user: str, dataset: str) -> Balance:
        """What is granted and spent where `user` pays first, and in `others` where as well.

        Raises NoGrant.
        """
        check_names(user, dataset)
        return self._book.read(
            lambda page: payers.balance(payers.payers(page, user, dataset, _latest(page)))
        )

    def purses(self) -> list[Balance]:
        """The balances of all grants, by user and dataset; caps are apart."""
        return self._book.read(
            lambda page: [
                payers.held(page, purse, _latest(page))
                for purse in page.purses()
                if purse.user != EVERYBODY and purse.grant is not None
            ]
        )

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

    def log(self, user: str | None = None, dataset: str | None = None) -> Iterator[Entry]:
        """All entries, oldest first, or those that concern a user, a group or a dataset."""
        after = 0
        while batch := self._entries(after, user, dataset):
            yield from batch
            after = batch[-1].seq

    def _entries(self, after: int, user: str | None, dataset: str | None) -> tuple[Entry, ...]:
        return tuple(self._book.read(lambda page: page.entries(after, BATCH, user, dataset)))

    def _write(self, change: Callable[[Page], T]) -> T:
        """Make a change that is sealed, checked against the anchors, and known to them."""
        marks = self._guard.marks()

        def sealed(page: Page) -> tuple[T, Entry | None]:
            scribe = Scribe(page, self._guard.seal)
            self._guard.check(marks, scribe)
            value = change(scribe)
            if not scribe.told:
                raise AssertionError("a purse was changed and no entry tells of it")
            return value, scribe.tip()

        value, tip = self._book.write(sealed)
        if tip is not None:
            self._guard.advance(Mark(tip.seq, tip.mac))
        return value

    def dump(self) -> list[str]:
        """All that the ledger says, an item a line: purses, then the log."""
        kept: list[Purse | Entry] = list(self._book.read(lambda page: page.purses()))
        kept.extend(self.log())
        return [json.dumps(dataclasses.asdict(item)) for item in kept]


def _entry(
    page: Page,
    kind: Kind,
    purse: Purse,
    *,
    at: str,
    grant: Grant | None = None,
    cap: Grant | None = None,
    group: str = "",
) -> Entry:
    """The next entry, of a change that leaves what is spent alone."""
    return Entry(
        page.last() + 1, at, kind, purse.user, purse.dataset, purse.spent, purse.spent, grant,
        cap=cap, group=group,
    )  # fmt: skip


def _cap(page: Page, dataset: str, epsilon: float, delta: float | None, at: str) -> Grant:
    before = cap_of(page, dataset)
    grant = fix(page, dataset, epsilon, delta, at)
    page.append(_entry(page, "cap", before, at=at, grant=grant))
    return grant


def _ending(page: Page, ended: payers.Ended, at: str) -> payers.Ended:
    """Let the log tell, once, that a grant has ended: from then on no clock opens it again."""
    tip, purse = page.tip(), page.purse(ended.grant.user, ended.grant.dataset)
    if purse is not None and (tip is None or not ended.grant.ended(tip.seen)):
        page.append(_entry(page, "end", purse, at=at))
    return ended


def _latest(page: Page, at: str = "") -> str:
    """The latest time known: the clock's, or the latest that the ledger has seen."""
    tip = page.tip()
    return max(at or _now(), "" if tip is None else tip.seen)


def _excess(grant: Grant, spent: Price, price: Price) -> str:
    """Why `price` cannot be paid: the price, what is left, and that nothing was charged."""
    balance = Balance.of(grant, spent)
    who, aside = payers.called(grant), payers.remedy(grant)
    has = "have" if grant.user == EVERYBODY else "has"
    if grant.pure:
        if price.epsilon is None:
            return (
                f"release has no pure ε, and the grant of {who} is pure (δ=0)"
                f"{aside}: use the laplace backend; nothing was charged"
            )
        return (
            f"release costs ε={ones(price.epsilon)}, {who} {has} ε={ones(balance.left_epsilon)}"
            f" left of {ones(grant.epsilon_pico)} (pure, δ=0){aside}; nothing was charged"
        )
    return (
        f"release costs {_shown(price.rho, grant)}, {who} {has}"
        f" {_shown(balance.left_rho, grant)} left of ρ={ones(grant.rho)} (ε={grant.epsilon:g})"
        f" at δ={grant.delta:g}{aside}; nothing was charged"
    )


def _shown(rho: int, grant: Grant) -> str:
    """A cost in rho and, unless it is beyond all grants, in epsilon."""
    aside = f" (ε={epsilon_of(rho, grant.delta):.3g})" if rho <= LIMIT else ""
    return f"ρ={ones(rho)}{aside}"
