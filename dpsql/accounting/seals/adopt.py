"""Taking a ledger as it stands: the chain starts anew with an entry that says so.

It happens by itself, once, to a log that an earlier format kept without a seal; that log is
evident from then on, and vouched for only as it stood. Otherwise an owner's word is needed
(`verify`), for instance when the newest copy of a ledger is lost.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from dpsql.accounting.book import Book, Page
from dpsql.accounting.caps import follow, total
from dpsql.accounting.clock import now
from dpsql.accounting.purse import EVERYBODY, NOTHING, Entry, Purse
from dpsql.accounting.seals.anchor import Mark
from dpsql.accounting.seals.guard import ANCHOR, KEY, VERIFY, anchors_of, seal_of
from dpsql.accounting.seals.seal import Digest, Seal
from dpsql.errors import LedgerError

BATCH = 1000
FIRST = "the log before was kept by an earlier version, without a seal"


def adopt(book: Book) -> None:
    """Seal a log that has no seal yet. Raises LedgerError where it had one."""
    newest = book.read(lambda page: page.tip())
    if newest is None or newest.mac:
        return

    def change(page: Page) -> None:
        tip = page.tip()
        if tip is None or tip.mac:
            return  # another process was first
        place = book.place or ""
        fresh = not book.shared and not (
            os.path.lexists(place + KEY) or os.path.lexists(place + ANCHOR)
        )
        seal = seal_of(book, make=fresh)
        anchor = anchors_of(book, seal, None)[0]
        if fresh:
            anchor.make(Mark(0, seal.origin))
        mark = anchor.read()
        if mark is None or mark.seq > 0:
            raise LedgerError(
                f"{book.name}: its newest entry has no seal, though the ledger has its key:"
                " something else than dpsql wrote to the ledger, and nothing is answered from it"
                f" ({VERIFY})"
            )
        for dataset in sorted({purse.dataset for purse in page.purses()}):
            purses = [purse for purse in page.purses() if purse.dataset == dataset]
            page.put(Purse(EVERYBODY, dataset, None, total(purses)))
            follow(page, dataset, now())
        take(page, seal, FIRST)

    book.write(change)


def take(page: Page, seal: Seal, note: str, *, after: int = 0, anew: bool = False) -> Entry:
    """Append the entry with which the log and the purses are taken as they stand.

    Its number is beyond that of `after`, which an anchor may have seen. Where time begins `anew`,
    the clock is believed again, whatever the entries before say.
    """
    digest, at = Digest(), now()
    seq, seen = after, at
    for entry in log(page):
        digest.add(entry)
        seq, seen = max(seq, entry.seq), max(seen, entry.at, entry.seen)
    purses = tuple(page.purses())
    blank = Entry(
        seq + 1,
        at,
        "accept",
        EVERYBODY,
        "",
        NOTHING,
        NOTHING,
        stand=purses,
        digest=digest.shown(),
        note=note,
    )
    sealed = seal.linked(None, blank, at if anew else seen, seal.state(purses))
    page.append(sealed)
    return sealed


def log(page: Page) -> Iterator[Entry]:
    """All entries of a page, oldest first."""
    after = 0
    while batch := page.entries(after, BATCH, None, None):
        yield from batch
        after = batch[-1].seq
