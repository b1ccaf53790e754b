"""Replay: the purses as the log tells of them, entry by entry, and where it contradicts itself."""

from __future__ import annotations

import contextlib
import dataclasses
from array import array
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TypeAlias

from dpsql.accounting.book import Page, Tip
from dpsql.accounting.clock import last_day
from dpsql.accounting.events import from_dict
from dpsql.accounting.footprints.footprint import Footprint, OtherVersion
from dpsql.accounting.footprints.joint import Joint
from dpsql.accounting.purse import EVERYBODY, NOTHING, Entry, Payment, Price, Purse, ones
from dpsql.accounting.seals.adopt import log
from dpsql.accounting.seals.seal import Digest, Seal

Name: TypeAlias = "tuple[str, str]"


class Replay:
    """The purses as the log tells of them, and where it contradicts itself."""

    def __init__(self, seal: Seal | None) -> None:
        self._seal = seal
        self.purses: dict[Name, Purse] = {}
        self.problems: list[str] = []
        self.count = 0
        self._digest = Digest()
        self._joint: dict[Name, Joint] = {}
        self._paid: dict[Name, array[int]] = {}  # the numbers of the footprints that each paid for
        self.most: dict[Name, Price] = {}  # the largest sums that any entry tells of
        self.tip: Tip | None = None

    def follow(self, page: Page) -> Iterator[Entry]:
        """All entries of the log, each of them followed."""
        for entry in log(page):
            self.add(entry)
            yield entry

    def add(self, entry: Entry) -> None:
        """Follow one more entry."""
        self.count += 1
        self.tip = Tip.of(entry)
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
                yield f"the purse of {called(name)} is missing"
            elif found != told:
                what = [
                    f"{what} {said} in the purse and {meant} in the log"
                    for what, said, meant in (
                        ("spent", priced(found.spent), priced(told.spent)),
                        ("grant", _terms(found), _terms(told)),
                        ("groups", ", ".join(found.groups), ", ".join(told.groups)),
                    )
                    if said != meant
                ]
                yield f"the purse of {called(name)} was changed: {'; '.join(what)}"

    def unpaid(self, rows: Iterable[tuple[object, ...]]) -> Iterator[str]:
        """Where the table of who paid for which footprints is not what the entries tell."""
        told = dict(self._paid)
        for key, listed in groupby(rows, key=lambda row: row[:2]):
            user, dataset = key
            name = (str(user), str(dataset))
            kept = [row[2] for row in listed]
            due = told.pop(name, array("q")) if key == name else array("q")
            if kept != due.tolist():
                yield from _moved(name, set(kept), set(due))
        for name, due in told.items():
            yield from _moved(name, set(), set(due))

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
                    f"entry {entry.seq} takes {priced(price)} from {called(name)}, which had spent"
                    f" {priced(purse.spent)}, and tells of {priced(before)} and {priced(after)}"
                )
            self.purses[name] = dataclasses.replace(purse, spent=after)
            self._more(name, before, after)
            if entry.footprint:
                self._paid.setdefault(name, array("q")).append(entry.seq)
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
        self._paid.clear()
        for purse in entry.stand:
            self._more((purse.user, purse.dataset), purse.spent)

    def _more(self, name: Name, *told: Price) -> None:
        for price in told:
            self.most[name] = larger(self.most.get(name, NOTHING), price)


def larger(one: Price, other: Price) -> Price:
    """The more of both, in each currency; no pure epsilon where one has none."""
    pure = None not in (one.epsilon, other.epsilon)
    epsilon = max(one.epsilon or 0, other.epsilon or 0) if pure else None
    return Price(max(one.rho, other.rho), epsilon)


def _moved(name: Name, kept: set[object], due: set[int]) -> Iterator[str]:
    table = "the table of who paid for which footprints"
    if gone := sorted(due.difference(kept)):
        yield f"{table} lacks {called(name)} for {_entries(gone)}"
    if added := sorted(map(str, kept.difference(due))):
        yield f"{table} has {called(name)} for {_entries(added)}, which that purse did not pay"


def _entries(numbers: list[int] | list[str]) -> str:
    shown = ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
    return f"{'entry' if len(numbers) == 1 else 'entries'} {shown}"


def called(name: Name) -> str:
    user, dataset = name
    return f"{user} on {dataset}" if user else f"all users of {dataset} (its cap)"


def priced(price: Price) -> str:
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
