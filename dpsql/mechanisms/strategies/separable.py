"""Families of queries that are products: of each column on its own, which rows each group counts.

A family is separable where its groups are all combinations of groups of each column, and its
weights products of weights of each: GROUP BY, AND of conditions on single columns, intervals. Along
a column a row is a sum of weighted runs of codes, and of runs of atoms, which no row tells apart:
running counts of 10,000 values are as many runs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.query.axis import Axis
from dpsql.query.canon import Family
from dpsql.query.linear import alike

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

_MERGED = 1 << 22  # bundles times runs between their ends, of which like ones are joined
_FEW = 32  # rows, or an eighth of the atoms, for which no columns of an inverse are made
_STEP = 1 << 22  # entries at a time


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """Rows along a column of `size` codes: runs [low, high) in order, each in the row `of`."""

    low: Ints
    high: Ints
    of: Ints
    weight: Floats
    rows: int

    @property
    def key(self) -> bytes:
        parts = (self.low, self.high, self.of, self.weight)
        return b"".join([part.tobytes() for part in parts])

    @classmethod
    def at(cls, labels: Ints, weights: Floats, rows: int) -> Bundle:
        """The row of each code, -1 for none, and its weight there."""
        changes = (labels[1:] != labels[:-1]) | (weights[1:] != weights[:-1])
        begins = np.concatenate([[0], np.flatnonzero(changes) + 1])
        ends = np.append(begins[1:], len(labels))
        kept = labels[begins] >= 0
        begins, ends = begins[kept], ends[kept]
        return cls(begins, ends, labels[begins], weights[begins], rows)

    def read(self, codes: Ints) -> tuple[Ints, Floats]:
        """The row of some codes, -1 for none, and their weights."""
        run = np.searchsorted(self.low, codes, "right") - 1
        inside = (run >= 0) & (codes < self.high[run])
        return np.where(inside, self.of[run], -1), np.where(inside, self.weight[run], 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Separable:
    """A family by its columns; `place` is the group of each combination of their rows, the last
    column running fastest. Its weights are multiplied by `times`."""

    along: Mapping[str, Bundle]
    place: Ints
    times: float


def separable(family: Family) -> Separable | None:
    """A family by its columns; None where it is no product. One that counts nobody has no rows."""
    groups, weights = (a.reshape(family.shape) for a in (family.groups, family.weights))
    inside = groups >= 0
    axes = range(groups.ndim)
    kept = [
        np.flatnonzero(inside.any(axis=tuple(other for other in axes if other != axis)))
        for axis in axes
    ]
    if not inside.any():
        return Separable({}, np.zeros(0, np.int64), 0.0)
    if int(inside.sum()) != math.prod(map(len, kept)):
        return None
    where = np.ix_(*kept) if kept else ()
    groups, weights = groups[where], weights[where]
    told = [alike(np.moveaxis(groups, axis, 0)) for axis in axes]
    place = groups[np.ix_(*(each.first for each in told))] if told else groups
    if len(np.unique(place)) < place.size:
        return None
    lines = _lines(weights)
    if lines is None:
        return None
    along = {}
    for (name, merged), classes, each, line in zip(
        family.classes.items(), kept, told, lines, strict=True
    ):
        labels = np.full(int(merged.max()) + 1, -1, np.int64)
        sizes = np.zeros(len(labels))
        labels[classes], sizes[classes] = each.of, line
        along[name] = Bundle.at(labels[merged], sizes[merged], each.number)
    return Separable(along, place.reshape(-1), float(weights.reshape(-1)[0]))


def _lines(weights: Ints) -> list[Floats] | None:
    """Weights as a product of some along each axis, the first of which is 1, and the first weight;
    None where they are no product."""
    first = int(weights.reshape(-1)[0])
    listed = [
        np.moveaxis(weights, axis, 0).reshape(weights.shape[axis], -1)[:, 0]
        for axis in range(weights.ndim)
    ]
    if weights.ndim > 1 and not (weights == first).all():
        whole = functools.reduce(np.multiply.outer, [line.astype(object) for line in listed])
        if (whole != weights.astype(object) * first ** (weights.ndim - 1)).any():
            return None
    return [line / first for line in listed]


@dataclass(frozen=True, slots=True, eq=False)
class Atoms:
    """Codes of a column in classes, numbered as they are met: the class `of` each, and where each
    is `first`. They are `whole` where each is a run of codes."""

    of: Ints
    first: Ints
    whole: bool

    @classmethod
    def told_by(cls, bundles: Sequence[Bundle], size: int) -> Atoms:
        """The classes of codes that no row tells apart."""
        ends = [part for bundle in bundles for part in (bundle.low, bundle.high)]
        first = np.unique(np.concatenate([[0], *ends]))
        first = first[first < size]
        lengths = np.diff(np.append(first, size))
        if len(bundles) * len(first) <= _MERGED:
            read = np.array([part for bundle in bundles for part in bundle.read(first)])
            found = alike(np.ascontiguousarray(read.T))
            if found.number < len(first):
                return cls(np.repeat(found.of, lengths), first[found.first], False)
        return cls(np.repeat(np.arange(len(first)), lengths), first, True)

    @property
    def count(self) -> int:
        return len(self.first)

    def bundle(self, given: Bundle) -> Bundle | None:
        """Rows over the atoms; None where they tell codes of an atom apart."""
        if self.whole:
            low, high = (
                np.searchsorted(self.first, given.low),
                np.searchsorted(self.first, given.high),
            )
            ends = np.append(self.first, len(self.of))
            if (ends[low] != given.low).any() or (ends[high] != given.high).any():
                return None
            return Bundle(low, high, given.of, given.weight, given.rows)
        labels, weights = given.read(self.first)
        every, sizes = given.read(np.arange(len(self.of)))
        if (labels[self.of] != every).any() or (weights[self.of] != sizes).any():
            return None
        return Bundle.at(labels, weights, given.rows)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows over `atoms` atoms: runs [low, high) of each, one row's after another's."""

    low: Ints
    high: Ints
    weight: Floats
    begins: Ints
    atoms: int

    @classmethod
    def of(cls, bundles: Iterable[Bundle], atoms: int) -> Rows:
        """The rows of some bundles, one bundle's after another's."""
        listed, start = list(bundles), 0
        numbers = []
        for bundle in listed:
            numbers.append(bundle.of + start)
            start += bundle.rows
        of = np.concatenate(numbers)
        order = np.argsort(of, kind="stable")
        low, high, weight = (
            np.concatenate([getattr(bundle, part) for bundle in listed])[order]
            for part in ("low", "high", "weight")
        )
        return cls(low, high, weight, np.searchsorted(of[order], np.arange(start)), atoms)

    @property
    def count(self) -> int:
        return len(self.begins)

    def dense(self) -> Floats:
        """The matrix, (rows, atoms)."""
        found = np.zeros((self.count, self.atoms + 1))
        row = np.repeat(np.arange(self.count), np.diff(np.append(self.begins, len(self.low))))
        np.add.at(found, (row, self.low), self.weight)
        np.subtract.at(found, (row, self.high), self.weight)
        return found.cumsum(axis=1)[:, :-1]

    def some(self, rows: Ints) -> Rows:
        """Some of the rows."""
        lengths = (np.append(self.begins[1:], len(self.low)) - self.begins)[rows]
        begins = np.cumsum(lengths) - lengths
        run = np.repeat(self.begins[rows] - begins, lengths) + np.arange(int(lengths.sum()))
        return Rows(self.low[run], self.high[run], self.weight[run], begins, self.atoms)

    def turned(self, axis: Axis) -> Iterator[Floats]:
        """q'M^-1 of all rows q, some columns at a time, (rows, columns)."""
        if self.count <= max(_FEW, self.atoms // 8):
            yield axis.turned(self.dense())
            return
        step = max(_STEP // (self.atoms + len(self.low)), 1)
        alone = self.count == len(self.low)
        for start in range(0, self.atoms, step):
            columns = axis.columns(start, min(start + step, self.atoms))
            below = np.zeros((self.atoms + 1, columns.shape[1]))
            np.cumsum(columns, axis=0, out=below[1:])
            each = (below[self.high] - below[self.low]) * self.weight[:, None]
            yield each if alone else np.add.reduceat(each, self.begins, axis=0)

    def norms(self, axis: Axis) -> Floats:
        """q' (M'M)^-1 q of all rows q."""
        found = np.zeros(self.count)
        for each in self.turned(axis):
            found += np.einsum("rc,rc->r", each, each)
        return found

    def gram(self, weights: Floats) -> Floats:
        """W' diag(weights) W, (atoms, atoms)."""
        found, step = np.zeros((self.atoms, self.atoms)), max(_STEP // self.atoms, 1)
        for start in range(0, self.count, step):
            some = np.arange(start, min(start + step, self.count))
            each = self.some(some).dense()
            found += (each.T * weights[some]) @ each
        return found
