"""The releases of one user, dataset and snapshot, as far as a process has had to read them.

Most new questions follow from nothing, and that has to be found out fast: so a release is read
when a column of its is first asked about, and what all of them together tell apart of a column is
kept. A query that tells more apart is no combination of what was measured, whatever its values.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.book import Name
from dpsql.accounting.kept.releases import Releases
from dpsql.accounting.kept.stored import Stored
from dpsql.accounting.purse import Price
from dpsql.mechanisms.reuse.lines import changes, interacts
from dpsql.mechanisms.reuse.precision import stddev_of
from dpsql.mechanisms.reuse.prints import Index, prints
from dpsql.query.canon import Family
from dpsql.query.linear import Classes, numbered

if TYPE_CHECKING:
    from dpsql.mechanisms.reuse.ordered import Order

READ = 2048  # releases of a snapshot that are looked at: the newest
_LATE = 64  # charges within which another process will have kept its release
_TOGETHER = 256  # releases that are read at once

Columns: TypeAlias = frozenset[str]
Ints: TypeAlias = NDArray[np.int64]


class Facts(NamedTuple):
    """What is looked at of a release for each question: the error of an answer, about, how many
    queries were measured, of which somebody may be counted in, and on which columns these depend.
    """

    stddev: float
    rows: int
    sets: frozenset[Columns]


class Kept:
    """Releases by the charge that paid for them, oldest first; those of all `others` on demand."""

    def __init__(self, releases: Releases, name: Name, *, others: bool = False) -> None:
        self.name, self._others = name, others
        self._releases = releases
        self._mine = 0  # releases that were kept through this one
        self._listed: object = None  # the state of the ledger when it was looked at last
        self._seen = self._counted = 0
        self.columns: dict[int, Columns] = {}
        self._stored: dict[int, Stored | None] = {}
        self._unread: dict[int, Columns] = {}
        self._by_key: dict[str, tuple[int, ...]] = {}
        self._fit: set[int] = set()  # those that were read, and that may be looked at
        self.whole: set[int] = set()  # and those that are whole tables
        self._facts: dict[int, Facts] = {}
        self._index = Index()
        self._linked: dict[Columns, Sequence[int]] = {}  # by what was asked about, of this state
        self.orders: dict[tuple[Columns, bool], Order] = {}  # and those of an earlier one
        self._sets: dict[Columns, None] = {}  # on which single queries depend, of all that was read
        self._said = set[tuple[str, tuple[int, ...]]]()  # what was written of questions
        # by column: what the releases up to a charge tell apart, and where on its lines it shows
        self._told: dict[str, tuple[int, Classes | None]] = {}
        self._changes: dict[str, tuple[int, NDArray[np.bool_]]] = {}

    @property
    def state(self) -> tuple[int, int]:
        """It changes with every release that comes or goes."""
        return self._seen, self._counted

    def copy(self) -> Kept:
        other = Kept(self._releases, self.name, others=self._others)
        other._seen, other._counted = self._seen, self._counted
        other.columns, other._stored = self.columns.copy(), self._stored.copy()
        other._unread = self._unread.copy()
        other._by_key, other._sets = self._by_key.copy(), self._sets.copy()
        other._fit, other.whole = self._fit.copy(), self.whole.copy()
        other._facts, other._index = self._facts.copy(), self._index.copy()
        other._linked, other.orders = self._linked.copy(), self.orders.copy()
        other._told, other._changes = dict(self._told), dict(self._changes)
        return other

    def until(self, seq: int) -> Kept:
        """Those of earlier charges."""
        other = self.copy()
        other._told, other._changes, other._linked = {}, {}, {}
        other.columns = {own: columns for own, columns in self.columns.items() if own < seq}
        return other

    def refresh(self) -> None:
        """Look for releases that were kept since, here or elsewhere."""
        listed, self._listed = (
            self._listed,
            self._releases.state(self.name, self._mine, others=self._others),
        )
        if self._listed is not None and listed == self._listed:
            return
        after = self._seen - _LATE
        for seq, columns in self._releases.listed(
            self.name, after, self.columns, others=self._others
        ):
            self._count(seq, columns)
        while len(self.columns) > READ:
            self._drop(next(iter(self.columns)))

    def _drop(self, seq: int) -> None:
        for known in (self.columns, self._stored, self._unread, self._facts):
            known.pop(seq, None)
        self._fit.discard(seq)
        self.whole.discard(seq)
        self._linked.clear()

    def add(self, seq: int, stored: Stored) -> None:
        """A release of this process."""
        self._count(seq, frozenset(stored.columns))
        self._take(seq, stored)

    def _count(self, seq: int, columns: Columns) -> None:
        if seq < self._seen:  # kept later than others after it
            self._told.clear()
            self._changes.clear()
        self.columns[seq] = self._unread[seq] = columns
        self._seen = max(self._seen, seq)
        self._counted += 1
        self._linked.clear()

    def keep(self, seq: int, rests: tuple[int, ...]) -> None:
        """Write a release into the ledger, with what it rests on. Raises LedgerError."""
        stored = self._stored[seq]
        assert stored is not None
        if rests != stored.rests:
            self._stored[seq] = stored = dataclasses.replace(stored, rests=rests)
        self._mine += 1
        self._releases.keep(self.name, seq, stored)

    def say(self, question: str, used: tuple[int, ...]) -> None:
        """Write into the ledger from which releases a question is answered. Raises LedgerError."""
        if (question, used) not in self._said:
            self._releases.say(self.name, question, used)
            self._said.add((question, used))

    def said(self, question: str) -> list[tuple[int, ...]]:
        """From which releases, as far as they are kept, a question was answered before."""
        found = self._releases.said(self.name, question)
        return [used for used in found if all(map(self.fits, used))]

    def rests(self, seq: int) -> tuple[int, ...]:
        """The releases that an answer was made from when it was bought, as far as they are kept."""
        stored = self.read(seq)
        if stored is None or not stored.rests or self.stood_alone(seq):
            return ()
        others = [other for other in stored.rests if other in self.columns]
        return tuple(sorted([seq, *(other for other in others if self.fits(other))]))

    def stood_alone(self, seq: int) -> bool:
        """Whether an answer was made of nothing but this when it was bought: it rests on itself.

        Where a release rests on nothing, that is not known: a script's statements may differ.
        """
        stored = self.read(seq)
        return stored is not None and stored.rests == (seq,)

    def read(self, seq: int) -> Stored | None:
        """What charge `seq` released; None where that is lost."""
        if seq not in self._stored:
            self._read([seq])
        return self._stored[seq]

    def _read(self, seqs: Iterable[int]) -> None:
        """Read those that were not, many at once."""
        missing = [seq for seq in seqs if seq not in self._stored]
        for start in range(0, len(missing), _TOGETHER):
            some = missing[start : start + _TOGETHER]
            found = self._releases.read(self.name, some, others=self._others)
            for seq, stored in zip(some, found, strict=True):
                self._take(seq, stored)

    def _take(self, seq: int, stored: Stored | None) -> None:
        self._stored[seq] = stored
        self._unread.pop(seq, None)
        if stored is None:
            return
        # which tables were chosen in rounds is itself what was released
        if not (self._others and stored.picked is not None):
            self._fit.add(seq)
        if is_whole(stored):
            self.whole.add(seq)
        for family in stored.families:
            self._by_key[family.key] = (*self._by_key.get(family.key, ()), seq)
        self._index.add(seq, stored.families)
        self._sets.update(dict.fromkeys(_sets(stored)))

    def measured(self, family: Family) -> list[int]:
        """The charges that released the queries of a family, in no order."""
        names = frozenset(family.classes)
        self._read([seq for seq, columns in self._unread.items() if names <= columns])
        return [seq for seq in self._by_key.get(family.key, ()) if seq in self.columns]

    def alike(self, family: Family) -> list[tuple[int, int]]:
        """The families, of which charges, that have queries with the fingerprints of a family's,
        of those that were read; none where one of its queries is in no family."""
        return [found for found in self._index.find(prints(family)) if found[0] in self.columns]

    def may_follow(self, family: Family) -> bool:
        """Whether nothing speaks against a family's queries being combinations of what was
        measured: where they change, some of those do as well, and where they link columns, some
        of those are about all of these.
        """
        if not self._links(frozenset(family.classes)) and interacts(family):
            return False  # first, for that is soon seen of most questions
        for name, classes in family.classes.items():
            told = self._told_apart(name)
            if told is None or not _coarser(classes, told):
                return False
        return not any(
            (changes(family, name) & ~self._changed(name)).any() for name in family.classes
        )

    def _links(self, names: Columns) -> bool:
        """Whether a release says anything of columns together, and not of each by itself."""
        self._read([seq for seq, columns in self._unread.items() if names <= columns])
        return any(names <= own for own in self._sets)

    def links(self, seq: int, names: Columns) -> bool:
        """Whether a release that may be looked at says anything of columns together."""
        return self.fits(seq) and any(names <= own for own in self.facts(seq).sets)

    def _told_apart(self, name: str) -> Classes | None:
        """The classes of a column that all releases together tell apart; None for nothing."""
        last, told = self._told.get(name, (0, None))
        if last == self._seen:
            return told
        for family in self._newer(name, last):
            classes = family.classes[name]
            if told is None:
                told = numbered(classes)
            elif not _coarser(classes, told):
                told = numbered(told.of * (int(classes.max()) + 1) + classes)
        self._told[name] = self._seen, told
        return told

    def _changed(self, name: str) -> NDArray[np.bool_]:
        """Where some release changes along the lines of a column."""
        last, found = self._changes.get(name, (0, np.zeros((1, 1), np.bool_)))
        if last < self._seen:
            for family in self._newer(name, last):
                found = found | changes(family, name)
            self._changes[name] = self._seen, found
        return found

    def _newer(self, name: str, last: int) -> Iterator[Family]:
        """The families that depend on a column, of releases after charge `last`."""
        newer = itertools.takewhile(lambda item: item[0] > last, reversed(self.columns.items()))
        seqs = [seq for seq, columns in newer if name in columns]
        self._read(seqs)
        for seq in seqs:
            stored = self.read(seq)
            if stored is not None:
                yield from (family for family in stored.families if name in family.classes)

    def linked(self, asked: Columns) -> Sequence[int]:
        """The releases that share columns with a question, directly or through others.

        What depends on no column, a total, is linked with everything.
        """
        if asked not in self._linked:
            self._linked[asked] = self._found(asked)
        return self._linked[asked]

    def _found(self, asked: Columns) -> Sequence[int]:
        sets: Mapping[Columns, None] = dict.fromkeys(self.columns.values())
        reached, left = set(asked), list(sets)
        if not asked or frozenset() in sets:
            met = set(left)
        else:
            met = set()
            while more := [columns for columns in left if columns & reached]:
                met.update(more)
                reached.update(*more)
                left = [columns for columns in left if columns not in met]
        found = [seq for seq, columns in self.columns.items() if columns in met]
        self._read(found)
        return tuple(filter(self.fits, found))

    def fits(self, seq: int) -> bool:
        """Whether a release is kept, and what it says may be looked at before it is paid for."""
        if seq not in self._stored:
            self._read([seq])
        return seq in self._fit

    def prices(self, seqs: Sequence[int]) -> list[Price]:
        """What each of some charges paid for, by itself."""
        return self._releases.prices(seqs)

    def facts(self, seq: int) -> Facts:
        """Of a release that is kept."""
        found = self._facts.get(seq)
        if found is None:
            stored = self.read(seq)
            assert stored is not None
            rows = sum(family.met for family in stored.families)
            found = self._facts[seq] = Facts(stddev_of(stored), rows, _sets(stored))
        return found

    def families(self, seq: int) -> tuple[Family, ...]:
        """Of a release that is kept."""
        stored = self.read(seq)
        assert stored is not None
        return stored.families

    def tabled(self, seq: int) -> bool:
        """Whether a release is kept of tables that can answer alone."""
        stored = self.read(seq)
        return stored is not None and stored.apart

    def mixed(self, seq: int) -> bool:
        """Whether a release is kept that was measured through a strategy, or in rounds."""
        stored = self.read(seq)
        return stored is not None and (bool(stored.mixes) or stored.apart)


def is_whole(stored: Stored) -> bool:
    """Whether every combination of the classes of its columns was counted apart from others."""
    if stored.mixes or stored.apart:
        return False
    if len(stored.families) != 1:
        return False
    (family,) = stored.families
    return family.met == len(family.groups)


def _sets(stored: Stored) -> frozenset[Columns]:
    """On which columns single queries of a release depend. What a strategy measured for some
    queries may be about the columns of all of them."""
    if stored.mixes or stored.grids:
        return frozenset({frozenset(stored.columns)})
    return frozenset(frozenset(family.classes) for family in stored.families)


def _coarser(merged: Ints, finer: Classes) -> bool:
    """Whether classes of a column are unions of finer ones."""
    return bool((merged[finer.first][finer.of] == merged).all())
