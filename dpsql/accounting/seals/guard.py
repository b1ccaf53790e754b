"""Guard: what makes it evident that a ledger was changed by something else than dpsql.

Beside the ledger stand its key (`.seal`, mode 0600), without which no entry or purse can be forged,
and its anchor (`.anchor`), which knows how far the ledger had come. Whoever opens a ledger checks
the anchor, the newest entries of the chain and all purses, whoever charges checks the anchor again;
`verify` checks the rest of the log. In doubt nothing is answered.

What it cannot see: a ledger and its anchor put back together, from one older copy (a second anchor
beside the data, when the ledger is kept elsewhere, sees that too, unless it is put back as well);
a folder from which ledger, key and anchor were all taken away; what whoever holds the key forges.
Of a ledger on a server each machine has an anchor of its own, which is made when there is none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TypeVar

from dpsql.accounting.book import Book, Page, Tip
from dpsql.accounting.purse import Entry
from dpsql.accounting.seals.anchor import VERIFY as VERIFY
from dpsql.accounting.seals.anchor import Anchor, Mark
from dpsql.accounting.seals.scribe import Scribe
from dpsql.accounting.seals.seal import Seal
from dpsql.accounting.seals.secret import secret
from dpsql.errors import LedgerError

T = TypeVar("T")

TAIL = 64  # entries whose links are checked whenever a ledger is opened
KEY, ANCHOR = ".seal", ".anchor"


class Guard:
    """The seal of a ledger, and its anchors."""

    def __init__(self, seal: Seal, anchors: Sequence[Anchor], name: str) -> None:
        self.seal = seal
        self._anchors, self._name = anchors, name

    def marks(self) -> list[Mark]:
        """How far the anchors have seen the ledger come. To be read before the ledger is."""
        found = [anchor.read() for anchor in self._anchors]
        if self._anchors and found[0] is None:
            raise LedgerError(f"{self._name}: its anchor ({ANCHOR}) is gone ({VERIFY})")
        return [mark for mark in found if mark is not None]

    def check(self, marks: Sequence[Mark], page: Page) -> None:
        """Raises LedgerError unless the ledger has come that far, and by the same way."""
        tip = page.tip()
        for mark in marks:
            if mark.seq == 0:
                continue
            seq = 0 if tip is None else tip.seq
            if tip is None or seq < mark.seq:
                raise LedgerError(
                    f"{self._name}: the ledger ends at entry {seq}, and its anchor has seen entry"
                    f" {mark.seq}: it was truncated, or replaced by an older copy, and what was"
                    f" charged since is unknown; restore the newest copy ({VERIFY})"
                )
            there = tip if tip.seq == mark.seq else at(page, mark.seq)
            if there is None or there.mac != mark.head:
                raise LedgerError(
                    f"{self._name}: entry {mark.seq} is not the one that the anchor has seen: the"
                    f" log was changed, or replaced by another copy; restore it ({VERIFY})"
                )

    def inspect(self, page: Page) -> None:
        """Check the newest links and all purses. Raises LedgerError."""
        tip = page.tip()
        if tip is None:
            if page.purses():
                raise self._changed("it has purses and no log")
            return
        recent = page.entries(max(0, tip.seq - TAIL), TAIL, None, None)
        first = recent[0].seq
        found = self.seal.broken(at(page, first - 1) if first > 1 else None, recent)
        if found:
            raise self._changed(found[0])
        if self.seal.state(page.purses()) != tip.state:
            raise self._changed("its purses (grants, sums, caps or members) were changed")

    def write(self, book: Book, change: Callable[[Page], T]) -> T:
        """Make a change that is sealed, checked against the anchors, and known to them."""
        marks = self.marks()

        def sealed(page: Page) -> tuple[T, Tip | None]:
            scribe = Scribe(page, self.seal)
            self.check(marks, scribe)
            value = change(scribe)
            if not scribe.told:
                raise AssertionError("a purse was changed and no entry tells of it")
            return value, scribe.tip()

        value, tip = book.write(sealed)
        if tip is not None:
            self.advance(Mark(tip.seq, tip.mac))
        return value

    def advance(self, mark: Mark) -> None:
        """Let the anchors know of a newest entry that is durable."""
        for anchor in self._anchors:
            anchor.advance(mark)

    def _changed(self, what: str) -> LedgerError:
        return LedgerError(
            f"{self._name}: {what}: something else than dpsql wrote to the ledger, and nothing is"
            f" answered from it ({VERIFY})"
        )


def at(page: Page, seq: int) -> Entry | None:
    """The entry with this number, if there is one."""
    found = page.entries(seq - 1, 1, None, None)
    return found[0] if found and found[0].seq == seq else None


def missing(book: Book, what: str, suffix: str) -> LedgerError:
    """The error for a book without its key or anchor."""
    if book.shared:
        name = os.path.basename(book.place or "") + suffix
        return LedgerError(
            f"{book.name}: this machine lacks the {what} of the ledger, {name}; copy it from a"
            " machine that has it into $XDG_STATE_HOME/dpsql (~/.local/state/dpsql)"
        )
    return LedgerError(
        f"{book.name}: its {what} ({suffix}) is missing; restore it beside the ledger, where it"
        f" was ({VERIFY})"
    )


def seal_of(book: Book, *, make: bool) -> Seal:
    """The seal of a book, whose key is made if it is missing and `make` is true."""
    if book.place is None:
        return Seal(bytes(32), book.ledger)  # nobody else can reach it
    path = book.place + KEY
    if not make and not os.path.lexists(path):
        raise missing(book, "key", KEY)
    remedy = f"restore it ({VERIFY})"
    return Seal(secret(path, fail=LedgerError, remedy=remedy), book.ledger)


def anchors_of(book: Book, seal: Seal, witness: str | None) -> list[Anchor]:
    """The anchor beside the ledger, and the one beside the data."""
    if book.place is None:
        return []
    still = book.still
    anchors = [Anchor(book.place + ANCHOR, seal, book.name, still=still)]
    if witness is not None:
        path = f"{witness}.{book.ledger[:8]}{ANCHOR}"
        anchors.append(Anchor(path, seal, book.name, needed=False, still=still))
    return anchors


def guarded(book: Book, witness: str | None) -> Guard:
    """The guard of a book, after all checks. Raises LedgerError.

    The key and the anchor of a ledger without entries are made; a log that was kept before there
    were any is taken as it stands.
    """
    from dpsql.accounting.seals.adopt import adopt

    adopt(book)
    tip = book.read(lambda page: page.tip())
    seal = seal_of(book, make=tip is None and not book.shared)
    anchors = anchors_of(book, seal, witness)
    for number, anchor in enumerate(anchors):
        if anchor.read() is None:
            if number == 0 and tip is not None and not book.shared:
                raise missing(book, "anchor", ANCHOR)
            anchor.make(Mark(0, seal.origin))
    guard = Guard(seal, anchors, book.name)
    marks = guard.marks()

    def look(page: Page) -> Mark:
        guard.check(marks, page)
        guard.inspect(page)
        newest = page.tip()
        return Mark(0, seal.origin) if newest is None else Mark(newest.seq, newest.mac)

    guard.advance(book.read(look))
    return guard
