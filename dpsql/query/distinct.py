"""The distinct columns of W, over a universe of any size: one for each way to be counted.

What each family of queries says of a cell is a table over a few columns (`canon`). The columns of
the dataset are fixed one after another: of a family, two choices so far are the same if they leave
the same table on the columns that are still free. So a cell, as far as it is fixed, is a row of
such states, a family each, and equal rows go on alike. Rows are told apart by two random sums of 64
bits each, drawn when the columns are listed: that two of a million rows are taken for one has a
probability below 2^-80, whatever was asked.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import os
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.query.canon import Family, families, parts
from dpsql.query.linear import Classes, Workload, alike, numbered
from dpsql.query.renewed import Renewed

Ints = NDArray[np.int64]
States = NDArray[Any]  # of the smallest whole numbers that hold them: there are many
Sums = NDArray[np.uint64]

_KINDS = (np.int8, np.int16, np.int32, np.int64)
SAMPLE = 1 << 14  # cells that are looked at first
_STEP = 1 << 20  # rows that are made at a time
_WAYS = 1 << 22  # in which all tuples of states go on
_KEPT = 1 << 27  # bytes of lists that are remembered, and
_MOST_KEPT = 64  # lists
_WORK = 1 << 28  # rows and ways that are made, times the families that change


def integers(largest: int) -> np.dtype[np.signedinteger[Any]]:
    """The smallest integers that hold all of this size."""
    return next(np.dtype(kind) for kind in _KINDS if largest <= np.iinfo(kind).max)


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Where the queries of a family stand among all: of each state the query and its weight.

    The query is -1 where the state is in no group.
    """

    query: Ints
    weight: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Distinct:
    """The distinct columns of W (k, columns): the `states` of each family in each of them."""

    queries: int
    places: tuple[Place, ...]
    states: tuple[States, ...]

    @property
    def bytes(self) -> int:
        """The memory that it takes, but for what is as small as the workload."""
        return sum(states.nbytes for states in self.states)

    @property
    def size(self) -> int:
        """The number of columns."""
        return len(self.states[0]) if self.states else 1

    def slices(self, entries: int = 1 << 22) -> Iterator[NDArray[np.float64]]:
        """The columns, some at a time, (k, some)."""
        for some in self._parts(entries):
            yield self._columns(some, np.zeros((self.queries, some.stop - some.start)))

    def small(self) -> NDArray[np.integer[Any]]:
        """All columns, (k, columns), of the smallest integers that hold them."""
        kind = integers(max((int(abs(p.weight).max(initial=0)) for p in self.places), default=0))
        found = np.zeros((self.queries, self.size), kind)
        for some in self._parts(1 << 22):
            self._columns(some, found[:, some])
        return found

    def _parts(self, entries: int) -> Iterator[slice]:
        step = max(1, entries // max(self.queries, 1))
        return (slice(at, min(at + step, self.size)) for at in range(0, self.size, step))

    def products(
        self, vector: NDArray[np.float64], *, squared: bool = False
    ) -> NDArray[np.float64]:
        """The product of each column with a vector, (columns,); of its entries' squares if so."""
        found = np.zeros(self.size)
        each = np.append(vector, 0.0)
        for place, states in zip(self.places, self.states, strict=True):
            weight = place.weight.astype(np.float64)
            found += (each[place.query] * (weight**2 if squared else weight))[states]
        return found

    def columns(self, picked: Ints) -> NDArray[np.float64]:
        """Some of the columns, (k, some), by their numbers."""
        found = np.zeros((self.queries + 1, len(picked)))  # the last one for what is in no group
        for place, states in zip(self.places, self.states, strict=True):
            mine = states[picked].astype(np.intp)
            found[place.query[mine], np.arange(len(picked))] = place.weight[mine]
        return found[:-1]

    def _columns(self, some: slice, found: NDArray[Any]) -> NDArray[Any]:
        """Some of the columns, put into zeros (k, some). Each query is one family's."""
        for place, states in zip(self.places, self.states, strict=True):
            mine = states[some].astype(np.intp)
            for query in np.unique(place.query[place.query >= 0]):
                told = np.where(place.query == query, place.weight, 0)
                found[query] = told.astype(found.dtype)[mine]
        return found


_LISTING = Renewed()
_LISTED: OrderedDict[Workload, Distinct] = OrderedDict()


def distinct(workload: Workload, most: int) -> Distinct | None:
    """The distinct columns of W, in the order of blocks, groups and weights; None above `most`,
    or where a family has too many cells. Of one workload they are listed once, as long as they are
    remembered: whoever plans and whoever computes a sensitivity look at the same ones.
    """
    with _LISTING.held():
        found = _LISTED.get(workload)
        if found is not None:
            _LISTED.move_to_end(workload)
    if found is not None:
        return found if found.size <= most else None
    found = _listed(workload, most)
    if found is not None:
        with _LISTING.held():
            _LISTED[workload] = found
            while sum(each.bytes for each in _LISTED.values()) > _KEPT or len(_LISTED) > _MOST_KEPT:
                _LISTED.popitem(last=False)
    return found


def _listed(workload: Workload, most: int) -> Distinct | None:
    kept: list[tuple[Family, Place]] = []
    start = 0
    for block, listed in zip(workload.blocks, families(workload), strict=True):
        width = len(block.weights)
        for (row, _, column, _), family in zip(parts(block), listed, strict=True):
            if family is None:
                return None
            kept.append((family, _place(family, start + row * width + column, width)))
        start += block.groups * width
    if most < 1:
        return None
    order = _order([family for family, _ in kept])
    walks = [_Walk.of(family, order) for family, _ in kept]
    if _surely_more(walks, order, most):
        return None
    found = _visited(walks, order, most)
    if found is None:
        return None
    return Distinct(start, tuple(place for _, place in kept), tuple(found))


def _place(family: Family, start: int, width: int) -> Place:
    labels = _labels(family)
    groups, weights = family.groups[labels.first], family.weights[labels.first]
    origin = np.append(family.origin, 0)[groups]
    query = np.where(groups < 0, -1, start + origin * width)
    return Place(query, weights * family.factor)


def _labels(family: Family) -> Classes:
    return alike(np.stack([family.groups, family.weights], axis=1))


def _order(listed: Sequence[Family]) -> dict[str, Ints]:
    """The classes of each column that all families tell apart, those of few first."""
    met: dict[str, Ints] = {}
    for family in listed:
        for name, classes in family.classes.items():
            if name not in met:
                met[name] = classes
            elif met[name] is not classes:
                met[name] = numbered(met[name] * (int(classes.max()) + 1) + classes).of
    return dict(sorted(met.items(), key=lambda item: (int(item[1].max()), item[0])))


@dataclass(frozen=True, slots=True, eq=False)
class _Walk:
    """How a family's state changes: of each of its columns (states before, classes of all) the
    state after. The last states are those of `Place`.
    """

    steps: dict[str, States]

    @classmethod
    def of(cls, family: Family, order: dict[str, Ints]) -> _Walk:
        names = [name for name in order if name in family.classes]
        axes = [list(family.classes).index(name) for name in names]
        table = _labels(family).of.reshape(family.shape).transpose(axes)
        steps: dict[str, States] = {}
        for name in reversed(names):
            rows = table.reshape(-1, table.shape[-1])
            told = alike(rows)
            first = numbered(order[name]).first  # a code of each class that all tell apart
            after = rows[told.first][:, family.classes[name][first]]
            steps[name] = after.astype(np.min_scalar_type(int(after.max())))
            table = told.of.reshape(table.shape[:-1])
        return cls(dict(reversed(steps.items())))


def _surely_more(walks: Sequence[_Walk], order: dict[str, Ints], most: int) -> bool:
    """Whether there are surely more than so many columns: a look at a few cells is soon done.

    Of SAMPLE cells, spread evenly, SAMPLE^2 / (2 most) pairs at least would be alike on average,
    however the columns are spread, if there were no more. That is no proof, and need not be: what
    is told apart needlessly is planned in parts. The cells are the same whenever this is asked.
    """
    alike_least = SAMPLE**2 / (2 * most)
    if alike_least < 100 or math.prod(int(of.max()) + 1 for of in order.values()) <= most:
        return False
    sums = np.zeros((2, SAMPLE), np.uint64)
    codes = {name: _spread(name, int(of.max()) + 1) for name, of in order.items()}
    for walk in walks:
        state: States = np.zeros(SAMPLE, np.int64)
        for name, steps in walk.steps.items():
            state = steps[state, codes[name]]
        sums += _random(int(state.max()) + 1)[:, state]
    counts = np.unique(sums[0], return_counts=True)[1]
    return float((counts * (counts - 1) / 2).sum()) < alike_least / 2


def _spread(name: str, size: int) -> Ints:
    """Classes of a column, each about as often, in an order of its own."""
    step = int.from_bytes(hashlib.sha256(name.encode()).digest()[:5], "big") | 1
    turns: Ints = np.arange(1, SAMPLE + 1) * step % (1 << 40) * size >> 40
    return turns


def _visited(walks: Sequence[_Walk], order: dict[str, Ints], most: int) -> list[States] | None:
    """The states of all families, (columns,) each, when every column of the dataset is fixed.

    What a column of the dataset changes are the states of the families that mention it, of which
    few tuples are met: each tuple is followed once, and its rows go on as it does.
    """
    states: list[States] = [np.zeros(1, np.int64) for _ in walks]
    sums = np.zeros((2, 1), np.uint64)
    marks = [np.zeros((2, 1), np.uint64) for _ in walks]  # of each state what it adds to the sums
    work = 0
    for name, classes in order.items():
        moved = [at for at, walk in enumerate(walks) if name in walk.steps]
        size, rows = int(classes.max()) + 1, len(states[0])
        own = np.zeros((2, rows), np.uint64)
        for at in moved:
            own += marks[at][:, states[at]]
        first, of = _alike(own)
        work += (rows + len(first) * size) * len(moved)
        if work > _WORK:
            return None
        changes: list[tuple[States, Sums]] = []
        for at in moved:
            step = walks[at].steps[name]
            marks[at] = _random(int(step.max()) + 1)
            changes.append((states[at][first], marks[at][:, step]))
        ways = _Ways.of(changes, np.bincount(of), size)
        if ways is None or ways.least > most:
            return None
        work += ways.most
        made = None if work > _WORK else ways.followed(sums - own, of, most)
        if made is None:
            return None
        before, chosen, sums = made
        states = [
            walk.steps[name][held[before], chosen] if name in walk.steps else held[before]
            for walk, held in zip(walks, states, strict=True)
        ]
    return states


@dataclass(frozen=True, slots=True, eq=False)
class _Ways:
    """How tuples of states go on when a class is chosen: tuple t by `starts[t]` to `starts[t + 1]`.

    Of each way there is the first class that leads there, and what the tuple then adds to the sums,
    (2, ways). `most` rows are made; no two ways of one tuple are alike, nor are rows of one tuple
    before, so that at the `least` so many of them differ.
    """

    starts: Ints
    chosen: Ints
    sums: Sums
    least: int
    most: int

    @classmethod
    def of(cls, changes: Sequence[tuple[States, Sums]], rows: Ints, size: int) -> _Ways | None:
        """Those of tuples that so many `rows` have; None if they are too many.

        `changes` has of each family the states of all tuples, and what those add by class.
        """
        step = max(1, _STEP // size)
        found, sums = [np.zeros(0, np.int64)], [np.zeros((2, 0), np.uint64)]
        for start in range(0, len(rows), step):
            count = min(step, len(rows) - start)
            after = np.zeros((2, count, size), np.uint64)
            for states, adds in changes:
                after += adds[:, states[start : start + count]]
            first, _ = _alike((after + _random(count)[:, :, None]).reshape(2, -1))
            found.append(first + start * size)
            sums.append(after.reshape(2, -1)[:, first])
            if sum(map(len, found)) > _WAYS:
                return None
        first, all_sums = np.concatenate(found), np.concatenate(sums, axis=1)
        tuples = first // size
        _, end = _alike(all_sums)
        largest = np.zeros(int(end.max()) + 1, np.int64)
        np.maximum.at(largest, end, rows[tuples])
        return cls(
            np.searchsorted(tuples, np.arange(len(rows) + 1)), first % size, all_sums,
            int(largest.sum()), int(rows[tuples].sum()),
        )  # fmt: skip

    def followed(self, sums: Sums, of: Ints, most: int) -> tuple[Ints, Ints, Sums] | None:
        """The different rows that come of some, told by the row before, the class and the sums;
        None above `most`. `sums` are those of what stays, and `of` the tuple of each row.
        """
        number = np.diff(self.starts)[of]
        ends = np.cumsum(number)
        before, way, made = np.zeros(0, np.int64), np.zeros(0, np.int64), sums[:, :0]
        start = 0
        while start < len(of):  # some at a time, so that what is held is bounded
            stop = max(start + 1, int(np.searchsorted(ends, ends[start] + _STEP)))
            some = np.repeat(np.arange(start, stop), number[start:stop])
            turn = np.arange(len(some)) - (ends - number - ends[start] + number[start])[some]
            ways = self.starts[of[some]] + turn
            new = sums[:, some] + self.sums[:, ways]
            first, _ = _alike(new)
            before, way = np.append(before, some[first]), np.append(way, ways[first])
            made = np.concatenate([made, new[:, first]], axis=1)
            if start and (len(before) > most or stop == len(of)):
                first, _ = _alike(made)
                before, way, made = before[first], way[first], made[:, first]
            if len(before) > most:
                return None
            start = stop
        return before, self.chosen[way], made


def _random(count: int) -> Sums:
    """(2, count) random numbers of 64 bits."""
    return np.frombuffer(os.urandom(16 * count), np.uint64).reshape(2, count)


def _alike(sums: Sums) -> tuple[Ints, Ints]:
    """Where each pair of sums, (2, rows), is first, in this order, and of each row which it is.

    A table has a place for some bits of a sum, and whoever is first at a place is compared with all
    that come there; the others meet again at other bits. Whatever was drawn, the same is found.
    """
    count = sums.shape[1]
    lead, rest = np.arange(count), np.arange(count)
    bits = max(count.bit_length(), 1)
    table = np.empty(1 << bits, np.int64)
    for turn in itertools.count():
        if not len(rest):
            break
        mine = sums[:, rest]
        shift = np.uint64((64 - bits) * (turn % 7) // 7)
        places = (mine[turn % 2] >> shift & np.uint64((1 << bits) - 1)).astype(np.int64)
        table[places[::-1]] = rest[::-1]
        heads = table[places]
        same = (sums[:, heads] == mine).all(axis=0)
        lead[rest[same]] = heads[same]
        rest = rest[~same]
    first = np.flatnonzero(lead == np.arange(count))
    rank = np.empty(count, np.int64)
    rank[first] = np.arange(len(first))
    return first, rank[lead]
