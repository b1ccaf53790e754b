"""Verifying a ledger: every link of its log, every sum and grant recomputed from it, its anchors.

An owner who knows what happened (the newest copy is lost, say) may have the ledger taken as it
stands: `accept` writes that into the log, with the reason, and the chain goes on from there.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from typing import TypeAlias

from dpsql.accounting.adopt import adopt, log, take
from dpsql.accounting.anchor import Anchor, Mark
from dpsql.accounting.book import Book, Page
from dpsql.accounting.caps import most_rho
from dpsql.accounting.clock import last_day
from dpsql.accounting.events import from_dict
from dpsql.accounting.footprint import Footprint, OtherVersion
from dpsql.accounting.guard import ANCHOR, anchors_of, at, missing, seal_of
from dpsql.accounting.joint import Joint
from dpsql.accounting.purse import EVERYBODY, NOTHING, Entry, Payment, Price, Purse, ones
from dpsql.accounting.seal import Digest, Seal
from dpsql.accounting.shelf import book_at
from dpsql.accounting.states import States
from dpsql.errors import LedgerError, UsageError

Name: TypeAlias = "tuple[str, str]"


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

    Each purse is then what its log says; where the links of the log are broken, it has spent the
    more and was granted the less of what either says. Missing keys and anchors are made anew. What
    was charged in entries that are gone stays unknown.
    """
    if not note.strip():
        raise UsageError("say in a few words why the ledger is taken as it stands")
    with contextlib.closing(book_at(path, create=False)) as book:
        verdict = _verdict(book, witness)
        seal = seal_of(book, make=True)
        anchors = anchors_of(book, seal, witness)
        last = max([0, *(mark.seq for mark in map(_known, anchors) if mark)])

        def change(page: Page) -> Entry:
            replay = Replay(seal)
            broken = seal.broken(None, replay.follow(page))
            sound = not broken and not replay.problems
            for name, told in replay.purses.items():
                kept = page.purse(*name) or Purse(*name, None, NOTHING)
                page.put(told if sound else _least(kept, told))
            for kept in page.purses():
                if (kept.user, kept.dataset) not in replay.purses:
                    page.put(dataclasses.replace(kept, grant=None, groups=(), fixed=False))
            page.forget()  # what is spent so far counts for everybody from here on
            for kept in page.purses():
                page.put(dataclasses.replace(kept, joint=""))
            return take(page, seal, note.strip(), after=last, anew=True)

        entry = book.write(change)
        for anchor in anchors:
            if _known(anchor) is None:
                anchor.remove()
                anchor.make(Mark(entry.seq, entry.mac))
            anchor.advance(Mark(entry.seq, entry.mac))
        return verdict


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
    replay = Replay(seal)
    if seal is None:
        links = ["the links cannot be checked without the key" for _ in replay.follow(page)][:1]
    else:
        links = seal.broken(None, replay.follow(page))
    found = [*problems, *links, *replay.problems]
    tip, purses = page.tip(), page.purses()
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
        if not found and tip is not None and seal.state(purses) != tip.state:
            found.append("the purses are not those that the newest entry tells of")
    furthest = max((mark.seq for mark in marks), default=None)
    return Verdict(name, replay.count, len(purses), furthest, tuple(found))


class Replay:
    """The purses as the log tells of them, and where it contradicts itself."""

    def __init__(self, seal: Seal | None) -> None:
        self._seal = seal
        self.purses: dict[Name, Purse] = {}
        self.problems: list[str] = []
        self.count = 0
        self._digest = Digest()
        self._joint: dict[Name, Joint] = {}

    def follow(self, page: Page) -> Iterator[Entry]:
        """All entries of the log, each of them followed."""
        for entry in log(page):
            self.add(entry)
            yield entry

    def add(self, entry: Entry) -> None:
        """Follow one more entry."""
        self.count += 1
        name = (entry.user, entry.dataset)
        purse = self._purse(name)
        match entry.kind:
            case "grant":
                self.purses[name] = dataclasses.replace(purse, grant=entry.grant)
            case "revoke":
                self.purses[name] = dataclasses.replace(purse, grant=None, groups=())
            case "cap":
                fixed, grant = entry.grant is not None, entry.grant or purse.grant
                self.purses[name] = dataclasses.replace(purse, grant=grant, fixed=fixed)
            case "join":
                groups = (*purse.groups, entry.group)
                self.purses[name] = dataclasses.replace(purse, groups=groups)
            case "leave":
                groups = tuple(group for group in purse.groups if group != entry.group)
                self.purses[name] = dataclasses.replace(purse, groups=groups)
            case "charge":
                self._charge(entry)
            case "accept" if self._seal is not None and self._seal.restarts(entry):
                self._restart(entry)
            case "end" | "accept":
                pass
        if entry.cap is not None:
            cap = (EVERYBODY, entry.dataset)
            self.purses[cap] = dataclasses.replace(self._purse(cap), grant=entry.cap)
        self._digest.add(entry)

    def differences(self, kept: dict[Name, Purse]) -> Iterator[str]:
        """Where the purses that are kept are not those of the log."""
        for name in sorted(kept.keys() | self.purses.keys()):
            told, found = self._purse(name), kept.get(name)
            if found is not None:  # which is for `States` to tell
                told = dataclasses.replace(told, joint=found.joint)
            if found is None:
                yield f"the purse of {_words(name)} is missing"
            elif found != told:
                what = [
                    f"{what} {said} in the purse and {meant} in the log"
                    for what, said, meant in (
                        ("spent", _price(found.spent), _price(told.spent)),
                        ("grant", _terms(found), _terms(told)),
                        ("groups", ", ".join(found.groups), ", ".join(told.groups)),
                    )
                    if said != meant
                ]
                yield f"the purse of {_words(name)} was changed: {'; '.join(what)}"

    def _purse(self, name: Name) -> Purse:
        return self.purses.get(name) or Purse(*name, None, NOTHING)

    def _charge(self, entry: Entry) -> None:
        payments = entry.payments or (
            Payment(entry.user, entry.before, entry.after),  # of the first format
        )
        price = entry.price or NOTHING
        if entry.people:
            everybody = (EVERYBODY, entry.dataset)
            self.purses[everybody] = dataclasses.replace(
                self._purse(everybody), people=entry.people
            )
        for payment in payments:
            before, after = payment.before, payment.after
            name = (payment.purse, entry.dataset)
            purse = self._purse(name)
            try:
                fits = purse.spent == before and self._fits(entry, price, name, payment)
            except OtherVersion as error:
                self.problems.append(
                    f"entry {entry.seq} was written by another version of dpsql: it has {error}"
                )
                fits = True
            if not fits:
                self.problems.append(
                    f"entry {entry.seq} takes {_price(price)} from {_words(name)}, which had spent"
                    f" {_price(purse.spent)}, and tells of {_price(before)} and {_price(after)}"
                )
            self.purses[name] = dataclasses.replace(purse, spent=after)
        with contextlib.suppress(KeyError, ValueError):  # an event of a newer version
            if price != Price.of(from_dict(entry.event or {})):
                self.problems.append(f"entry {entry.seq} has another price than its noise")

    def _fits(self, entry: Entry, price: Price, name: Name, payment: Payment) -> bool:
        """Whether a purse has paid what it should: the price, or the rise of the largest loss.

        Of a bound, which depends on the way it was found, only that it is at most the price.
        """
        before, after = payment.before, payment.after
        if not entry.footprint:
            return before + price == after
        state = self._joint.setdefault(name, Joint())
        try:
            footprint = Footprint.from_text(entry.footprint)
        except OtherVersion:
            raise
        except ValueError:
            return False
        found = state.pay(before, price, footprint, entry.snapshot, entry.seq)
        exact = state.exact
        state.settle(after)
        if exact and payment.exact:
            return found == after
        most = before + price
        pure = after.epsilon is None or (most.epsilon or 0) >= after.epsilon
        return before.rho <= after.rho <= most.rho and pure

    def _restart(self, entry: Entry) -> None:
        """An entry with which the ledger was taken as it stood vouches for all before it."""
        self.problems.clear()
        if entry.digest != self._digest.shown():
            self.problems.append(
                f"the log before entry {entry.seq}, which took it as it stood, was changed since"
            )
        self.purses = {(purse.user, purse.dataset): purse for purse in entry.stand}
        self._joint.clear()  # what was spent before counts for everybody


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
    """The more that was spent, the less that was granted, and all groups that either tells of."""
    pure = [kept.spent.epsilon, told.spent.epsilon]
    epsilon = None if None in pure else max(value or 0 for value in pure)
    spent = Price(max(kept.spent.rho, told.spent.rho), epsilon)
    grants = [purse.grant for purse in (kept, told) if purse.grant is not None]
    both = len(grants) == 2 or (bool(grants) and kept.user == EVERYBODY)  # a cap is never lost
    grant = min(grants, key=most_rho) if both else None
    groups = tuple(dict.fromkeys((*told.groups, *kept.groups)))
    people = told.people or kept.people
    return dataclasses.replace(kept, spent=spent, grant=grant, groups=groups, people=people)


def _words(name: Name) -> str:
    user, dataset = name
    return f"{user} on {dataset}" if user else f"all users of {dataset} (its cap)"


def _price(price: Price) -> str:
    pure = "" if price.epsilon is None else f" (pure ε {ones(price.epsilon)})"
    return f"ρ {ones(price.rho)}{pure}"


def _terms(purse: Purse) -> str:
    grant = purse.grant
    if grant is None:
        return "none"
    held = f"pure ε {ones(grant.epsilon_pico)}" if grant.pure else f"ρ {ones(grant.rho)}"
    until = f" until {last_day(grant.until)}" if grant.until else ""
    fixed = ", fixed" if purse.fixed else ""
    return f"ε {grant.epsilon:g} at δ {grant.delta:g} ({held}){until}{fixed}"
