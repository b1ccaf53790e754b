"""Book: where a ledger is kept. The rules are the ledger's; a book stores, and has transactions.

A book runs one function on a page, alone (`write`) or on a consistent view (`read`). A `write`
either takes effect entirely, and for good, before it returns, or, when the function or the book
raises, not at all. The function may be run again after a conflict, so it does nothing but read
and write its page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from dpsql.accounting.purse import Entry, Purse

T = TypeVar("T")


class Page(Protocol):
    """What a transaction sees and changes."""

    def purse(self, user: str, dataset: str) -> Purse | None: ...

    def purses(self) -> Sequence[Purse]:
        """All purses, by user and dataset."""
        ...

    def entries(
        self, after: int, most: int, user: str | None, dataset: str | None
    ) -> Sequence[Entry]:
        """The first `most` entries with a greater `seq`, of one user or dataset if given."""
        ...

    def last(self) -> int:
        """The `seq` of the newest entry, 0 in a new book."""
        ...

    def footprints(self, user: str, dataset: str, after: int) -> Sequence[Entry]:
        """A purse's charges with a footprint and a greater `seq`, oldest first."""
        ...

    def state(self, user: str, dataset: str) -> bytes | None:
        """The joint state of a purse that was written down last."""
        ...

    def put(self, purse: Purse) -> None: ...

    def put_state(self, user: str, dataset: str, seq: int, state: bytes) -> None:
        """Write down the joint state of a purse after entry `seq`, in place of an older one."""
        ...

    def append(self, entry: Entry) -> None: ...


class Book(Protocol):
    """A store of purses and entries, shared by threads. Failures are LedgerErrors."""

    def read(self, question: Callable[[Page], T]) -> T: ...

    def write(self, change: Callable[[Page], T]) -> T: ...

    def close(self) -> None: ...
