"""Verifying a ledger: every link of its log, every sum and grant recomputed from it, its anchors.

An owner who knows what happened (the newest copy is lost, say) may have the ledger taken as it
stands: `accept` writes that into the log, with the reason, and the chain goes on from there.
"""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass
from os import PathLike

from dpsql.accounting.book import Book, Page
from dpsql.accounting.books.shelf import book_at
from dpsql.accounting.caps import most_rho
from dpsql.accounting.footprints.states import States
from dpsql.accounting.purse import EVERYBODY, NOTHING, Entry, Price, Purse
from dpsql.accounting.seals.adopt import adopt, take
from dpsql.accounting.seals.anchor import Anchor, Mark
from dpsql.accounting.seals.guard import ANCHOR, anchors_of, at, missing, seal_of
from dpsql.accounting.seals.replay import Replay, called, larger, priced
from dpsql.accounting.seals.seal import Seal
from dpsql.accounting.seals.vouch import MARK, opened
from dpsql.errors import LedgerError, UsageError


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found: how long the log is, how far the anchor has seen it, and all problems."""

    ledger: str
    entries: int
    purses: int
    anchor: int | None
    problems: tuple[str, ...]


def verify(path: str | PathLike[str], *, witness: str | None = None) -> Verdict:
    """Check the whole ledger. Raises LedgerError for one that cannot be read at all."""
    with contextlib.closing(book_at(path, create=False)) as book:
        with contextlib.suppress(LedgerError):  # which is then said below
            adopt(book)
        return _verdict(book, witness)


def accept(path: str | PathLike[str], note: str, *, witness: str | None = None) -> Verdict:
    """Take the ledger as it stands, on the owner's word; gives what was wrong with it.

    Each purse is then what its log says, and has spent the largest sum that it or any entry tells
    of; where the log is broken it was granted the less of what either says. A row that cannot be
    read is named, and taken away. Missing keys and anchors are made anew. What was charged in
    entries that are gone stays unknown.
    """
    if not note.strip():
        raise UsageError("say in a few words why the ledger is taken as it stands")
    with contextlib.closing(book_at(path, create=False)) as book:
        verdict = _verdict(book, witness)
        seal = seal_of(book, make=True)
        anchors = anchors_of(book, seal, witness)
        last = max([0, *(mark.seq for mark in map(_known, anchors) if mark)])

        rebuilt: list[str] = []

        def change(page: Page) -> Entry:
            lost = page.forgive()
            replay = Replay(seal)
            broken = seal.broken(None, replay.follow(page))
            found = {(purse.user, purse.dataset): purse for purse in page.purses()}
            page.discard()
            sound = not (broken or replay.problems or any(x.startswith("entry") for x in lost))
            rebuilt.clear()
            for name in replay.purses.keys() | found.keys() | replay.most.keys():
                told, kept = replay.purses.get(name), found.get(name)
                spent = replay.most.get(name, NOTHING)
                for purse in (told, kept):
                    spent = spent if purse is None else larger(spent, purse.spent)
                blank = Purse(*name, None, NOTHING)
                if told is None:
                    purse = dataclasses.replace(kept or blank, grant=None, groups=(), fixed=False)
                else:
                    purse = told if sound else _least(kept or blank, told)
                page.put(dataclasses.replace(purse, spent=spent))
                if kept is None:
                    rebuilt.append(_rebuilt(purse, spent))
            page.forget()  # what is spent so far counts for everybody from here on
            for kept in page.purses():
                page.put(dataclasses.replace(kept, joint=""))
            words = "; ".join([note.strip(), *lost])
            return take(page, seal, words, after=last, anew=True)

        entry = book.write(change)
        for anchor in anchors:
            if _known(anchor) is None:
                anchor.remove()
                anchor.make(Mark(entry.seq, entry.mac))
            anchor.advance(Mark(entry.seq, entry.mac))
        return dataclasses.replace(verdict, problems=(*verdict.problems, *sorted(rebuilt)))


def _rebuilt(purse: Purse, spent: Price) -> str:
    """What became of a purse that was gone, or could not be read."""
    words = f"the purse of {called((purse.user, purse.dataset))}"
    if purse.grant is not None:
        return f"{words} was made again from the log: it has spent {priced(spent)}"
    return f"{words} has no grant that is known: grant anew; it has spent at least {priced(spent)}"


def _verdict(book: Book, witness: str | None) -> Verdict:
    problems: list[str] = []
    seal: Seal | None = None
    marks: list[Mark] = []
    try:
        seal = seal_of(book, make=False)
        anchors = anchors_of(book, seal, witness)
        marks = [mark for anchor in anchors if (mark := anchor.read())]
        if anchors and anchors[0].read() is None:
            problems.append(str(missing(book, "anchor", ANCHOR)))
    except LedgerError as error:
        problems.append(str(error))
    return book.read(lambda page: _inspected(page, book.name, seal, marks, problems))


def _inspected(
    page: Page, name: str, seal: Seal | None, marks: list[Mark], problems: list[str]
) -> Verdict:
    lost = page.forgive()
    replay = Replay(seal)
    if seal is None:
        links = ["the links cannot be checked without the key" for _ in replay.follow(page)][:1]
    else:
        links = seal.broken(None, replay.follow(page))
    tip, purses = replay.tip, page.purses()
    found = [*problems, *lost, *links, *replay.problems]
    for mark in marks:
        last = 0 if tip is None else tip.seq
        there = at(page, mark.seq) if 0 < mark.seq <= last else None
        if mark.seq > last:
            found.append(
                f"the log ends at entry {last}, and the anchor has seen entry {mark.seq}: what was"
                " charged since is missing; restore the newest copy"
            )
        elif mark.seq and (there is None or there.mac != mark.head):
            found.append(f"entry {mark.seq} is not the one that the anchor has seen")
    if seal is not None:
        found += replay.differences({(purse.user, purse.dataset): purse for purse in purses})
        found += [problem for purse in purses if (problem := _unknown(page, purse))]
        found += replay.unpaid(page.paid())
        found += [
            f"what entry {seq} released to {user} was changed or moved: it answers nothing"
            for user, dataset, snapshot, seq, kept in page.kept()
            if kept.startswith(MARK)
            and (opened(seal, (dataset, snapshot, seq), kept) or ("", b""))[0] != user
        ]
        if not found and tip is not None and seal.state(purses) != tip.state:
            found.append("the purses are not those that the newest entry tells of")
    furthest = max((mark.seq for mark in marks), default=None)
    return Verdict(name, replay.count, len(purses), furthest, tuple(found))


def _unknown(page: Page, purse: Purse) -> str:
    """Why it is not known what a purse paid for; nothing, where it is."""
    try:
        States().current(page, purse)
    except LedgerError as error:
        return str(error).partition(";")[0]
    return ""


def _known(anchor: Anchor) -> Mark | None:
    """The mark of an anchor that can be read."""
    try:
        return anchor.read()
    except LedgerError:
        return None


def _least(kept: Purse, told: Purse) -> Purse:
    """The less that was granted, and all groups that either tells of."""
    grants = [purse.grant for purse in (kept, told) if purse.grant is not None]
    both = len(grants) == 2 or (bool(grants) and kept.user == EVERYBODY)  # a cap is never lost
    grant = min(grants, key=most_rho) if both else None
    groups = tuple(dict.fromkeys((*told.groups, *kept.groups)))
    people = told.people or kept.people
    return dataclasses.replace(kept, grant=grant, groups=groups, people=people)
