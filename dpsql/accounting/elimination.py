"""The largest sum of tables over sets of columns, column after column: max-sum elimination.

A column that is in some of the tables is done with by joining those, and keeping the maximum over
its classes as one table of the other columns they have (Dechter 1999, bucket elimination). The cost
is the size of the tables joined on the way, not the number of all combinations. Where the maximum
is reached is found backwards: the last column joined chooses first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from dpsql.accounting.runs import Ints

CELLS = 1 << 20  # of a table that is joined
ENTRIES = 1 << 23  # that are added or compared
SMALL = 1 << 11  # cells of a table that joins all there is, which saves calls


@dataclass(frozen=True, slots=True)
class Greatest:
    """The largest sum, and an index of each column where it is; `cell` is empty if not sought.

    Columns that are not in `cell` make no difference there. `work` counts entries touched.
    """

    high: int
    cell: dict[int, int]
    work: int


def columns(mask: int) -> Iterator[int]:
    """The columns of a set that is given as bits, ascending."""
    while mask:
        least = mask & -mask
        yield least.bit_length() - 1
        mask ^= least


def shape(mask: int, within: int, sizes: Mapping[int, int]) -> tuple[int, ...]:
    """The shape that lets a table of the columns `mask` be added to one of `within`."""
    return tuple([sizes[at] if mask >> at & 1 else 1 for at in columns(within)])


def count(mask: int, sizes: Mapping[int, int]) -> int:
    """The number of cells of a table over a set of columns."""
    cells = 1
    for at in columns(mask):
        cells *= sizes[at]
    return cells


def greatest(
    tables: Iterable[tuple[int, Ints]], sizes: Mapping[int, int], floor: int
) -> Greatest | None:
    """The largest sum of tables, or `floor` if it is not above; None if that is too much work.

    A table comes with the set of its columns as bits; its axes are in ascending order.
    """
    constant, merged = _merged(tables)
    tops = {mask: int(cells.max()) for mask, cells in merged.items()}
    work = sum(cells.size for cells in merged.values())
    if constant + sum(tops.values()) <= floor:
        return Greatest(floor, {}, work)
    left = _Left({mask: cells for mask, cells in merged.items() if tops[mask] > 0}, sizes)
    trail: list[tuple[int, int, Ints]] = []
    while left.tables:
        gone, union = left.next()
        if count(union, sizes) > CELLS:
            return None
        bucket = left.pop(gone)
        work += (1 + len(bucket)) * count(union, sizes)
        if work > ENTRIES:
            return None
        joined = _joined(bucket, union, sizes)
        trail.append((gone, union, joined))
        if union == gone:
            constant += int(joined.max())
        else:
            axes = tuple([i for i, at in enumerate(columns(union)) if gone >> at & 1])
            left.put(union & ~gone, joined.max(axis=axes))
    if constant <= floor:
        return Greatest(floor, {}, work)
    return Greatest(constant, _cell(trail), work)


def _merged(tables: Iterable[tuple[int, Ints]]) -> tuple[int, dict[int, Ints]]:
    """One table for each set of columns; those without a column are a constant."""
    constant, merged = 0, dict[int, Ints]()
    for mask, cells in tables:
        if not mask:
            constant += int(cells)
        elif mask in merged:
            merged[mask] = merged[mask] + cells
        else:
            merged[mask] = cells
    return constant, merged


class _Left:
    """Tables that are left; `near` has the columns of all tables that a column is in."""

    def __init__(self, tables: dict[int, Ints], sizes: Mapping[int, int]) -> None:
        self.tables = tables
        self._sizes = sizes
        self.near: dict[int, int] = {}
        for mask in tables:
            for at in columns(mask):
                self.near[at] = self.near.get(at, 0) | mask
        self._cost = {at: self._price(at) for at in self.near}
        self._all = sum(1 << at for at in self.near)
        self._cells = count(self._all, sizes)  # of a table that joins all

    def _price(self, at: int) -> tuple[int, int]:
        """What it takes to join the tables of a column; of equals, a long one leaves less."""
        return count(self.near[at], self._sizes), -self._sizes[at]

    def next(self) -> tuple[int, int]:
        """The columns to be done with now, and those of the table that joins theirs."""
        if self._cells <= SMALL:
            return self._all, self._all
        at = min(self._cost, key=self._cost.__getitem__)
        return 1 << at, self.near[at]

    def pop(self, gone: int) -> list[tuple[int, Ints]]:
        """Take out the tables that have any of some columns, and these columns."""
        bucket = [(mask, cells) for mask, cells in self.tables.items() if mask & gone]
        for mask, _ in bucket:
            del self.tables[mask]
        for at in columns(gone):
            del self.near[at], self._cost[at]
            self._cells //= self._sizes[at]
        self._all &= ~gone
        return bucket

    def put(self, mask: int, cells: Ints) -> None:
        """Put the maximum over columns that are gone in the place of their tables."""
        known = self.tables.get(mask)
        self.tables[mask] = cells if known is None else known + cells
        for at in columns(mask):
            self.near[at] = (self.near[at] | mask) & self._all
            self._cost[at] = self._price(at)


def _joined(bucket: list[tuple[int, Ints]], union: int, sizes: Mapping[int, int]) -> Ints:
    """The sum of tables, over the union of their columns.

    Those whose columns another one has are added to that, since it is smaller than the sum.
    """
    parts = sorted(bucket, key=lambda part: part[1].size)
    kept: list[tuple[int, Ints]] = []
    for i, (mask, cells) in enumerate(parts):
        for j in range(i + 1, len(parts)):
            wider, there = parts[j]
            if not mask & ~wider:
                parts[j] = wider, there + cells.reshape(shape(mask, wider, sizes))
                break
        else:
            kept.append((mask, cells))
    total: Ints = kept[0][1].reshape(shape(kept[0][0], union, sizes))
    whole = shape(union, union, sizes)
    for k, (mask, cells) in enumerate(kept[1:]):
        more = cells.reshape(shape(mask, union, sizes))
        if k and total.shape == whole:
            total += more
        else:
            total = total + more
    return total


def _cell(trail: list[tuple[int, int, Ints]]) -> dict[int, int]:
    """Where the maximum is, from the tables joined: what went last is chosen first."""
    chosen: dict[int, int] = {}
    for gone, union, joined in reversed(trail):
        inside = joined[tuple([chosen.get(at, slice(None)) for at in columns(union)])]
        found = np.unravel_index(int(inside.argmax()), inside.shape)
        chosen.update(zip(columns(gone), map(int, found), strict=True))
    return chosen
