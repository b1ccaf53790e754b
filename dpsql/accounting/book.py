"""Book: where a ledger is kept. The rules are the ledger's; a book stores, and has transactions.

A book runs one function on a page, alone (`write`) or on a consistent view (`read`). A `write`
either takes effect entirely, and for good, before it returns, or, when the function or the book
raises, not at all. The function may be run again after a conflict, so it does nothing but read
and write its page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

from dpsql.accounting.purse import Entry, Purse, check_texts, whole

T = TypeVar("T")
Name: TypeAlias = tuple[str, str, str]  # of kept releases: user, dataset, snapshot


@dataclass(frozen=True, slots=True)
class Tip:
    """What the next entry needs of the newest one: see `Entry` and `seal`."""

    seq: int
    seen: str
    state: str
    mac: str

    def __post_init__(self) -> None:
        check_texts(self.seen, self.state, self.mac)
        if not whole(self.seq):
            raise ValueError(f"not the number of an entry: {self.seq!r}")

    @classmethod
    def of(cls, entry: Entry) -> Tip:
        return cls(entry.seq, entry.seen, entry.state, entry.mac)


class Page(Protocol):
    """What a transaction sees and changes."""

    def purse(self, user: str, dataset: str) -> Purse | None: ...

    def purses(self) -> Sequence[Purse]:
        """All purses, by user and dataset."""
        ...

    def entries(
        self, after: int, most: int, user: str | None, dataset: str | None
    ) -> Sequence[Entry]:
        """The first `most` entries with a greater `seq` that concern a user, or a dataset."""
        ...

    def last(self) -> int:
        """The `seq` of the newest entry, 0 in a new book."""
        ...

    def tip(self) -> Tip | None:
        """What is to be known of the newest entry, None in a new book."""
        ...

    def seen(self) -> str:
        """The latest time of all entries, "" in a new book."""
        ...

    def footprints(self, user: str, dataset: str, after: int) -> Sequence[Entry]:
        """The charges with a footprint and a greater `seq` that a purse paid, oldest first."""
        ...

    def noted(self, user: str, dataset: str, after: int, note: str) -> Sequence[Entry]:
        """Those of them with this note."""
        ...

    def state(self, user: str, dataset: str) -> bytes | None:
        """The joint state of a purse that was written down last."""
        ...

    def put(self, purse: Purse) -> None: ...

    def put_state(self, user: str, dataset: str, seq: int, state: bytes) -> None:
        """Write down the joint state of a purse after entry `seq`, in place of an older one."""
        ...

    def forgive(self) -> list[str]:
        """From here on leave out rows that cannot be read, and name each in this list, once."""
        ...

    def paid(self) -> Iterator[tuple[object, ...]]:
        """Who paid for which footprints: user, dataset and seq of each row, in this order."""
        ...

    def discard(self) -> None:
        """Delete the purses and entries that were left out so far."""
        ...

    def forget(self) -> None:
        """Drop the states of all purses, and who paid for which footprints so far."""
        ...

    def append(self, entry: Entry) -> None: ...

    def put_release(self, name: Name, seq: int, columns: str, stored: bytes) -> None:
        """Keep what charge `seq` released, unless it is kept already."""
        ...

    def releases(self, name: Name, after: int) -> Sequence[tuple[int, str]]:
        """The charges with a greater `seq` whose releases are kept, and their columns."""
        ...

    def others(self, name: Name, after: int) -> Sequence[tuple[int, str]]:
        """The same of all other users."""
        ...

    def stored(self, name: Name, seqs: Sequence[int]) -> Mapping[int, bytes]:
        """What some charges released, to the user, or else to whomever, as far as it is kept."""
        ...

    def kept(self) -> Iterator[tuple[str, str, str, int, bytes]]:
        """All releases that are kept: user, dataset, snapshot, charge, content."""
        ...

    def put_synopsis(self, dataset: str, name: str, body: str | None) -> None:
        """Write down a synopsis in place of one of that name, or drop it."""
        ...

    def synopses(self, dataset: str) -> Sequence[str]:
        """The synopses of a dataset as they were written down, by name."""
        ...

    def put_fit(self, dataset: str, name: str, fit: bytes) -> None:
        """Keep what was fitted to a synopsis, until that is written down anew."""
        ...

    def fit(self, dataset: str, name: str) -> bytes | None:
        """What was fitted to a synopsis."""
        ...


class Book(Protocol):
    """A store of purses and entries, shared by threads. Failures are LedgerErrors.

    `name` is what errors call it, `ledger` its own random name, and `place` the path that its key
    and its anchor stand at, each with a suffix; None where they last no longer than the process.
    Other machines than this one may use a `shared` one; this process may only read a `still` one.
    """

    @property
    def name(self) -> str: ...

    @property
    def ledger(self) -> str: ...

    @property
    def place(self) -> str | None: ...

    @property
    def shared(self) -> bool: ...

    @property
    def still(self) -> bool: ...

    def read(self, question: Callable[[Page], T]) -> T: ...

    def write(self, change: Callable[[Page], T]) -> T: ...

    def note(self, change: Callable[[Page], T]) -> T:
        """As `write`, but what is written may be lost in a power cut, until the next `write`."""
        ...

    def version(self) -> object:
        """Another value than before if somebody else may have written meanwhile; None for maybe."""
        ...

    def close(self) -> None: ...
