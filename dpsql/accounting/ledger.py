"""The ledger: who was granted what, what was charged, and what is left.

A charge is checked, taken and kept for good in one transaction, before anything is read or drawn;
it is never given back. A purse belongs to a user and a dataset; the terms of its grant can be
replaced at any time, what is spent stays spent.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import shlex
from collections.abc import Iterator
from decimal import Decimal
from os import PathLike
from types import TracebackType

from dpsql.accounting.book import Book, Page
from dpsql.accounting.convert import epsilon_of
from dpsql.accounting.events import PICO, Event
from dpsql.accounting.filter import holds
from dpsql.accounting.footprint import Footprint
from dpsql.accounting.memory_book import MemoryBook
from dpsql.accounting.purse import (
    LIMIT,
    NOTHING,
    Balance,
    Entry,
    Grant,
    Kind,
    Price,
    Purse,
    Receipt,
    Rise,
    difference,
)
from dpsql.accounting.sqlite_book import SqliteBook
from dpsql.accounting.states import States, Trial
from dpsql.errors import BudgetExceeded, NoGrant, UsageError

__all__ = ["Balance", "Entry", "Grant", "Ledger", "Price", "Receipt", "Rise"]

LONGEST_NAME = 255
BATCH = 1000


class Ledger:
    """Grants, charges and their log, kept in a book. Threads may share it; it survives a fork."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._states = States()

    @classmethod
    def open(cls, path: str | PathLike[str], *, create: bool = True) -> Ledger:
        """The ledger kept in the file `path`, made if it is missing and `create` is true.

        Raises LedgerError for a file that is missing, damaged, no ledger, or of a newer dpsql.
        """
        return cls(SqliteBook(path, create=create))

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

    def grant(self, user: str, *, dataset: str, epsilon: float, delta: float = 1e-6) -> Grant:
        """Give `user` (epsilon, delta) on `dataset`, in place of any terms in force.

        delta = 0 makes a pure grant: prices in epsilon add, and releases without a pure epsilon
        are refused. Raises UsageError for terms that are no budget, and for a pure grant to a
        purse that has paid for a release without a pure epsilon.
        """
        _check_names(user, dataset)
        grant = Grant.of(user, dataset, epsilon, delta, _now())

        def change(page: Page) -> Grant:
            purse = page.purse(user, dataset) or Purse(user, dataset, None, NOTHING)
            if grant.pure and purse.spent.epsilon is None:
                raise UsageError(
                    f"{user} has paid on {dataset} for a release that has no pure epsilon, so the"
                    " purse can keep no promise at delta = 0; grant with a delta above 0"
                )
            page.put(dataclasses.replace(purse, grant=grant))
            page.append(_entry(page, "grant", purse, at=grant.at, grant=grant))
            return grant

        return self._book.write(change)

    def revoke(self, user: str, *, dataset: str) -> None:
        """End the grant of `user` on `dataset`; what is spent is remembered. Raises NoGrant."""
        _check_names(user, dataset)

        def change(page: Page) -> None:
            purse, _ = _granted(page, user, dataset)
            page.put(dataclasses.replace(purse, grant=None))
            page.append(_entry(page, "revoke", purse, at=_now()))

        self._book.write(change)

    def charge(
        self,
        user: str,
        dataset: str,
        event: Event,
        *,
        statement: str,
        footprint: Footprint | None = None,
        snapshot: str = "",
    ) -> Receipt:
        """Take what `event` costs from the purse, for good when this returns.

        With the `footprint` of the release on a `snapshot` of the data, that is the rise of the
        largest loss of a person; without one it is the event's price, as if it concerned
        everybody. Raises NoGrant or BudgetExceeded, and then nothing is charged. After a
        LedgerError or an interrupt the charge may stand (`balance` tells), and nothing may be
        released.
        """
        _check_names(user, dataset)
        price = Price.of(event)
        written = event.to_dict()
        told = None if footprint is None else footprint.to_text()
        text = statement.encode("utf-8", "backslashreplace").decode()

        def change(page: Page) -> tuple[Receipt, Trial | None]:
            purse, grant = _granted(page, user, dataset)
            seq = page.last() + 1
            trial = self._trial(page, purse, price, footprint, snapshot, seq)
            before = purse.spent
            after = before + price if trial is None else trial.after
            if not holds(grant, after):
                raise BudgetExceeded(_excess(grant, before, price, after))
            page.put(dataclasses.replace(purse, spent=after))
            exact = None if trial is None else trial.exact
            page.append(
                Entry(
                    seq,
                    _now(),
                    "charge",
                    user,
                    dataset,
                    before,
                    after,
                    statement=text,
                    event=written,
                    price=price,
                    footprint=told,
                    snapshot=snapshot if told else "",
                    exact=exact,
                )
            )
            if trial is not None:
                self._states.record(page, purse, trial)
            return Receipt(_rise(grant, before, price, after, bool(exact)), seq), trial

        receipt, trial = self._book.write(change)
        if trial is not None:
            self._states.keep(user, dataset, trial.state)
        return receipt

    def rise(
        self,
        user: str,
        dataset: str,
        event: Event,
        *,
        footprint: Footprint | None = None,
        snapshot: str = "",
    ) -> Rise:
        """What `charge` would do now, to the last digit, whether the purse holds it or not.

        Raises NoGrant.
        """
        _check_names(user, dataset)
        price = Price.of(event)

        def question(page: Page) -> Rise:
            purse, grant = _granted(page, user, dataset)
            trial = self._trial(page, purse, price, footprint, snapshot, page.last() + 1)
            after = purse.spent + price if trial is None else trial.after
            exact = trial is not None and trial.exact
            return _rise(grant, purse.spent, price, after, exact)

        return self._book.read(question)

    def _trial(
        self,
        page: Page,
        purse: Purse,
        price: Price,
        footprint: Footprint | None,
        snapshot: str,
        seq: int,
    ) -> Trial | None:
        if footprint is None:
            return None
        return self._states.trial(page, purse, price, footprint, snapshot, seq)

    def balance(self, user: str, dataset: str) -> Balance:
        """The grant of `user` on `dataset`, and what is spent of it. Raises NoGrant."""
        _check_names(user, dataset)

        def question(page: Page) -> Balance:
            purse, grant = _granted(page, user, dataset)
            return Balance.of(grant, purse.spent)

        return self._book.read(question)

    def purses(self) -> list[Balance]:
        """The balances of all grants in force, by user and dataset."""
        return [
            Balance.of(purse.grant, purse.spent)
            for purse in self._book.read(lambda page: page.purses())
            if purse.grant is not None
        ]

    def log(self, user: str | None = None, dataset: str | None = None) -> Iterator[Entry]:
        """Grants, revocations and charges, oldest first, of one user or dataset if given."""
        after = 0
        while batch := self._entries(after, user, dataset):
            yield from batch
            after = batch[-1].seq

    def _entries(self, after: int, user: str | None, dataset: str | None) -> tuple[Entry, ...]:
        return tuple(self._book.read(lambda page: page.entries(after, BATCH, user, dataset)))

    def dump(self) -> list[str]:
        """All that the ledger says, an item a line: purses, then the log."""
        kept: list[Purse | Entry] = list(self._book.read(lambda page: page.purses()))
        kept.extend(self.log())
        return [json.dumps(dataclasses.asdict(item)) for item in kept]


def _entry(page: Page, kind: Kind, purse: Purse, *, at: str, grant: Grant | None = None) -> Entry:
    """The next entry, of a change that leaves what is spent alone."""
    return Entry(
        page.last() + 1, at, kind, purse.user, purse.dataset, purse.spent, purse.spent, grant
    )


def _check_names(user: str, dataset: str) -> None:
    for what, name in (("user", user), ("dataset", dataset)):
        if not isinstance(name, str):
            raise UsageError(f"a {what} is named by text, not by {name!r}")
        if not name.strip():
            raise UsageError(f"the {what} has an empty name")
        if len(name) > LONGEST_NAME:
            raise UsageError(f"the name of a {what} has at most {LONGEST_NAME} characters")
        if not name.isprintable() and any(_control(ord(character)) for character in name):
            raise UsageError(f"the name of a {what} has no control characters: {name!a}")


def _control(code: int) -> bool:
    """Whether a code point is a control, a line separator, or half of a surrogate pair."""
    return code < 0x20 or 0x7F <= code < 0xA0 or code in (0x2028, 0x2029) or 0xD800 <= code < 0xE000


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def _granted(page: Page, user: str, dataset: str) -> tuple[Purse, Grant]:
    """The purse and the grant in force. Raises NoGrant."""
    purse = page.purse(user, dataset)
    if purse is None or purse.grant is None:
        raise NoGrant(
            f"{user} has no grant on {dataset}; the owner gives one:"
            f" dpsql budget grant DB {shlex.quote(user)} --epsilon E"
            f" --dataset {shlex.quote(dataset)}"
        )
    return purse, purse.grant


def _rise(grant: Grant, before: Price, price: Price, after: Price, exact: bool) -> Rise:
    return Rise(price, Balance.of(grant, before), Balance.of(grant, after), exact)


def _excess(grant: Grant, spent: Price, price: Price, after: Price) -> str:
    """Why `price` cannot be paid: the cost, what is left, and that nothing was charged."""
    balance, charged = Balance.of(grant, spent), difference(spent, after)
    who = f"{grant.user} on {grant.dataset}"
    if grant.pure:
        if price.epsilon is None or charged.epsilon is None:
            return (
                f"release has no pure ε, and the grant of {who} is pure (δ=0):"
                " use the laplace backend; nothing was charged"
            )
        alone = f" (alone {_exact(price.epsilon)})" if charged.epsilon < price.epsilon else ""
        return (
            f"release costs ε={_exact(charged.epsilon)}{alone}, {who} has"
            f" ε={_exact(balance.left_epsilon)} left of {_exact(grant.epsilon_pico)}"
            " (pure, δ=0); nothing was charged"
        )
    alone = f" (alone ρ={_exact(price.rho)})" if charged.rho < price.rho else ""
    return (
        f"release costs {_shown(charged.rho, grant)}{alone}, {who} has"
        f" {_shown(balance.left_rho, grant)} left of ρ={_exact(grant.rho)} (ε={grant.epsilon:g})"
        f" at δ={grant.delta:g}; nothing was charged"
    )


def _shown(rho: int, grant: Grant) -> str:
    """A cost in rho and, unless it is beyond all grants, in epsilon."""
    aside = f" (ε={epsilon_of(rho, grant.delta):.3g})" if rho <= LIMIT else ""
    return f"ρ={_exact(rho)}{aside}"


def _exact(pico: int) -> str:
    """A number of pico as a decimal of ones, with all its digits: 375000000000 is 0.375."""
    return f"{(Decimal(pico) / PICO).normalize():f}"
