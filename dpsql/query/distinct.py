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
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.query.canon import Family, families, parts
from dpsql.query.linear import Classes, Workload, alike, ranked

Ints = NDArray[np.int64]
States = NDArray[Any]  # of the smallest whole numbers that hold them: there are many
Sums = NDArray[np.uint64]

SAMPLE = 1 << 14  # cells that are looked at first
_STEP = 1 << 22  # rows that are made at a time
_WORK = 1 << 29  # rows that are made, times the families that change


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
    def size(self) -> int:
        """The number of columns."""
        return len(self.states[0]) if self.states else 1

    def slices(self, entries: int = 1 << 22) -> Iterator[NDArray[np.float64]]:
        """The columns, some at a time, (k, some)."""
        step = max(1, entries // max(self.queries, 1))
        for start in range(0, self.size, step):
            yield self.columns(slice(start, start + step))

    def small(self) -> NDArray[np.int8] | Ints:
        """All columns, (k, columns), of small integers where the weights are."""
        heaviest = max((int(np.abs(p.weight).max(initial=0)) for p in self.places), default=0)
        kind = np.int8 if heaviest < 1 << 7 else np.int64
        found = [columns.astype(kind) for columns in self.slices()]
        return np.concatenate(found, axis=1)

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

    def columns(self, some: slice | Ints) -> NDArray[np.float64]:
        """Some of the columns, (k, some)."""
        count = len(np.arange(self.size)[some])
        found = np.zeros((self.queries + 1, count))  # the last one for what is in no group
        for place, states in zip(self.places, self.states, strict=True):
            mine = states[some]
            found[place.query[mine], np.arange(count)] += place.weight[mine]
        return found[:-1]


def distinct(workload: Workload, most: int) -> Distinct | None:
    """The distinct columns of W, in the order of blocks, groups and weights; None above `most`,
    or where a family has too many cells.
    """
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
                met[name] = ranked(met[name] * (int(classes.max()) + 1) + classes).of
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
            first = ranked(order[name]).first  # a code of each class that all tell apart
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
    """The states of all families, (columns,) each, when every column of the dataset is fixed."""
    states: list[States] = [np.zeros(1, np.int64) for _ in walks]
    sums = np.zeros((2, 1), np.uint64)
    marks = [np.zeros((2, 1), np.uint64) for _ in walks]  # of each state what it adds to the sums
    work = 0
    for name, classes in order.items():
        moved = [at for at, walk in enumerate(walks) if name in walk.steps]
        size = int(classes.max()) + 1
        rows = len(states[0])
        work += rows * size * len(moved)
        if work > _WORK:
            return None
        changes: dict[int, Sums] = {}
        for at in moved:
            after = walks[at].steps[name]
            fresh = _random(int(after.max()) + 1)
            changes[at] = fresh[:, after] - marks[at][:, :, None]
            marks[at] = fresh
        made_sums, index = np.zeros((2, 0), np.uint64), np.zeros(0, np.int64)
        step = max(1, _STEP // size)
        for start in range(0, rows, step):
            some = slice(start, start + step)
            made = np.repeat(sums[:, some, None], size, axis=2)
            for at in moved:
                made += changes[at][:, states[at][some]]
            made = made.reshape(2, -1)
            first = _first(made)
            made_sums = np.concatenate([made_sums, made[:, first]], axis=1)
            index = np.concatenate([index, first + start * size])
            if (start and len(index) > most) or start + step >= rows:  # what is held is bounded
                first = _first(made_sums)
                made_sums, index = made_sums[:, first], index[first]
                if len(index) > most:
                    return None
        sums = made_sums
        before, chosen = np.divmod(index, size)
        states = [
            walk.steps[name][held[before], chosen] if name in walk.steps else held[before]
            for walk, held in zip(walks, states, strict=True)
        ]
    return states


def _random(count: int) -> Sums:
    """(2, count) random numbers of 64 bits."""
    return np.frombuffer(os.urandom(16 * count), np.uint64).reshape(2, count)


def _first(sums: Sums) -> Ints:
    """Where each pair of sums, (2, rows), is first, in this order: whatever was drawn, the same."""
    _, first, place = np.unique(sums[0], return_index=True, return_inverse=True)
    if not (sums[1] == sums[1][first][place]).all():  # once in a lifetime
        first = np.unique(sums, axis=1, return_index=True)[1]
    return np.sort(first).astype(np.int64)
