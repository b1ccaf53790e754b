"""Scribe: the page of a transaction that seals whatever is written on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dpsql.accounting.book import Name, Page, Tip
from dpsql.accounting.purse import Entry, Purse
from dpsql.accounting.seals.seal import SUMS, Seal, shown


class Scribe:
    """A Page that keeps the state of the purses and links each entry to the one before.

    Purses are put before the entry that tells of them.
    """

    def __init__(self, page: Page, seal: Seal) -> None:
        self._page, self._seal = page, seal
        self._tip = page.tip()
        self._state = 0 if self._tip is None else int(self._tip.state or "0", 16)
        self._told = True  # whether an entry tells of all purses put so far
        self._known: dict[tuple[str, str], Purse | None] = {}

    @property
    def told(self) -> bool:
        return self._told

    def tip(self) -> Tip | None:
        return self._tip

    def seen(self) -> str:
        return "" if self._tip is None else self._tip.seen

    def last(self) -> int:
        return 0 if self._tip is None else self._tip.seq

    def purse(self, user: str, dataset: str) -> Purse | None:
        name = (user, dataset)
        if name not in self._known:
            self._known[name] = self._page.purse(user, dataset)
        return self._known[name]

    def purses(self) -> Sequence[Purse]:
        return self._page.purses()

    def entries(
        self, after: int, most: int, user: str | None, dataset: str | None
    ) -> Sequence[Entry]:
        return self._page.entries(after, most, user, dataset)

    def footprints(self, user: str, dataset: str, after: int) -> Sequence[Entry]:
        return self._page.footprints(user, dataset, after)

    def noted(self, user: str, dataset: str, after: int, note: str) -> Sequence[Entry]:
        return self._page.noted(user, dataset, after, note)

    def state(self, user: str, dataset: str) -> bytes | None:
        return self._page.state(user, dataset)

    def put_state(self, user: str, dataset: str, seq: int, state: bytes) -> None:
        self._page.put_state(user, dataset, seq, state)

    def forgive(self) -> list[str]:
        return self._page.forgive()

    def paid(self) -> Iterator[tuple[object, ...]]:
        return self._page.paid()

    def discard(self) -> None:
        self._page.discard()

    def forget(self) -> None:
        self._page.forget()

    def put_release(self, name: Name, seq: int, columns: str, stored: bytes) -> None:
        self._page.put_release(name, seq, columns, stored)

    def releases(self, name: Name, after: int) -> Sequence[tuple[int, str]]:
        return self._page.releases(name, after)

    def others(self, name: Name, after: int) -> Sequence[tuple[int, str]]:
        return self._page.others(name, after)

    def stored(self, name: Name, seqs: Sequence[int]) -> Mapping[int, bytes]:
        return self._page.stored(name, seqs)

    def kept(self) -> Iterator[tuple[str, str, str, int, bytes]]:
        return self._page.kept()

    def put_synopsis(self, dataset: str, name: str, body: str | None) -> None:
        self._page.put_synopsis(dataset, name, body)

    def synopses(self, dataset: str) -> Sequence[str]:
        return self._page.synopses(dataset)

    def put_fit(self, dataset: str, name: str, fit: bytes) -> None:
        self._page.put_fit(dataset, name, fit)

    def fit(self, dataset: str, name: str) -> bytes | None:
        return self._page.fit(dataset, name)

    def put(self, purse: Purse) -> None:
        before = self.purse(purse.user, purse.dataset)
        fall = self._seal.weight(before)
        rise = self._seal.weight(purse) - fall
        self._state = (self._state + rise) % SUMS
        self._told = False
        self._known[purse.user, purse.dataset] = purse
        self._page.put(purse)

    def append(self, entry: Entry) -> None:
        before = self._tip
        seen = entry.at if before is None else max(entry.at, before.seen)
        entry = self._seal.linked(before, entry, seen, shown(self._state))
        self._page.append(entry)
        self._tip, self._told = Tip.of(entry), True
