"""A book in memory, for tests and trials: it forgets with its process, and no fork can use it."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from dpsql.accounting.book import Name, Page, Tip
from dpsql.accounting.purse import Entry, Purse
from dpsql.errors import LedgerError

T = TypeVar("T")
Kept: TypeAlias = "dict[tuple[str, ...] | int, Purse | Entry | bytes]"

SYNOPSIS = "synopsis"  # with its dataset and name
RELEASE = "release"  # with the name, seq and columns of what is kept
STATE = "state"  # of a purse, kept under this and its names
NEWEST = 0  # the newest entry is kept under its own seq, which is at least 1, and under this


class MemoryBook:
    """A Book of one process."""

    name = "the ledger in memory"
    place: str | None = None
    shared = False
    still = False

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._kept: Kept = {}
        self._process = os.getpid()
        self._closed = False
        self._writes = 0
        self.ledger = os.urandom(16).hex()

    def read(self, question: Callable[[Page], T]) -> T:
        return self._run(question, keep=False)

    def write(self, change: Callable[[Page], T]) -> T:
        return self._run(change, keep=True)

    note = write

    def version(self) -> object:
        return self._writes

    def close(self) -> None:
        self._closed = True

    def _run(self, work: Callable[[Page], T], *, keep: bool) -> T:
        if os.getpid() != self._process:
            raise LedgerError("a ledger in memory serves the process that made it, not a fork")
        with self._lock:
            if self._closed:
                raise LedgerError("the ledger is closed")
            page = _MemoryPage(self._kept)
            value = work(page)
            if keep:
                self._writes += 1
                self._kept.update(page.changes)  # one step: an interrupt comes before or after it
            return value


class _MemoryPage:
    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self.changes: Kept = {}

    def purse(self, user: str, dataset: str) -> Purse | None:
        found = self.changes.get((user, dataset), self._kept.get((user, dataset)))
        return found if isinstance(found, Purse) else None

    def purses(self) -> Sequence[Purse]:
        items = {**self._kept, **self.changes}.values()
        held = [item for item in items if isinstance(item, Purse)]
        return sorted(held, key=lambda purse: (purse.user, purse.dataset))

    def entries(
        self, after: int, most: int, user: str | None, dataset: str | None
    ) -> Sequence[Entry]:
        wanted = [
            entry
            for key, entry in self._kept.items()
            if isinstance(entry, Entry)
            and key != NEWEST
            and entry.seq > after
            and (user is None or entry.concerns(user))
            and dataset in (None, entry.dataset)
        ]
        return wanted[:most]

    def last(self) -> int:
        newest = self.tip()
        return 0 if newest is None else newest.seq

    def tip(self) -> Tip | None:
        newest = self._kept.get(NEWEST)
        return Tip.of(newest) if isinstance(newest, Entry) else None

    def seen(self) -> str:
        newest = self._kept.get(NEWEST)
        return newest.seen if isinstance(newest, Entry) else ""

    def footprints(self, user: str, dataset: str, after: int) -> Sequence[Entry]:
        found = []
        for seq in range(after + 1, self.last() + 1):
            entry = self._kept.get(seq)
            if isinstance(entry, Entry) and entry.footprint and entry.dataset == dataset:
                found.append(entry)
        return [entry for entry in found if any(p.purse == user for p in entry.payments)]

    def noted(self, user: str, dataset: str, after: int, note: str) -> Sequence[Entry]:
        return [found for found in self.footprints(user, dataset, after) if found.note == note]

    def state(self, user: str, dataset: str) -> bytes | None:
        found = self._kept.get((STATE, user, dataset))
        return found if isinstance(found, bytes) else None

    def put_state(self, user: str, dataset: str, seq: int, state: bytes) -> None:
        self.changes[STATE, user, dataset] = state

    def forgive(self) -> list[str]:
        return []

    def paid(self) -> Iterator[tuple[object, ...]]:
        raise AssertionError("a ledger in memory keeps no table of who paid")

    def discard(self) -> None:
        raise AssertionError("a ledger in memory is never damaged")

    def forget(self) -> None:
        raise AssertionError("a ledger in memory is never damaged")

    def put(self, purse: Purse) -> None:
        self.changes[purse.user, purse.dataset] = purse

    def append(self, entry: Entry) -> None:
        self.changes[entry.seq] = self.changes[NEWEST] = entry

    def put_release(self, name: Name, seq: int, columns: str, stored: bytes) -> None:
        self.changes[RELEASE, *name, str(seq), columns] = stored

    def releases(self, name: Name, after: int) -> Sequence[tuple[int, str]]:
        return sorted(
            (int(key[4]), key[5])
            for key in self._released(name)
            if key[1] == name[0] and int(key[4]) > after
        )

    def others(self, name: Name, after: int) -> Sequence[tuple[int, str]]:
        return sorted(
            (int(key[4]), key[5])
            for key in self._released(name)
            if key[1] != name[0] and int(key[4]) > after
        )

    def stored(self, name: Name, seqs: Sequence[int]) -> Mapping[int, bytes]:
        found, asked = dict[int, bytes](), set(seqs)
        for key in sorted(self._released(name), key=lambda key: key[1] == name[0]):
            value = self._kept[key]
            if int(key[4]) in asked and isinstance(value, bytes):
                found[int(key[4])] = value
        return found

    def kept(self) -> Iterator[tuple[str, str, str, int, bytes]]:
        for key, value in self._kept.items():
            if isinstance(key, tuple) and len(key) == 6 and isinstance(value, bytes):
                _, user, dataset, snapshot, seq, _ = key
                yield user, dataset, snapshot, int(seq), value

    def put_synopsis(self, dataset: str, name: str, body: str | None) -> None:
        self.changes[SYNOPSIS, SYNOPSIS, dataset, name] = (body or "").encode()
        self.changes[SYNOPSIS, dataset, name] = b""

    def synopses(self, dataset: str) -> Sequence[str]:
        found = {
            key[3]: body.decode()
            for key, body in itertools.chain(self._kept.items(), self.changes.items())
            if isinstance(key, tuple) and len(key) == 4 and key[1:3] == (SYNOPSIS, dataset)
            if isinstance(body, bytes)
        }
        return [body for _, body in sorted(found.items()) if body]

    def put_fit(self, dataset: str, name: str, fit: bytes) -> None:
        self.changes[SYNOPSIS, dataset, name] = fit

    def fit(self, dataset: str, name: str) -> bytes | None:
        found = self._kept.get((SYNOPSIS, dataset, name))
        return found if isinstance(found, bytes) and found else None

    def _released(self, name: Name) -> Iterator[tuple[str, ...]]:
        """The keys of what was released on a dataset and snapshot, to anybody."""
        for key in self._kept:
            if isinstance(key, tuple) and len(key) == 6 and key[2:4] == name[1:]:
                yield key
