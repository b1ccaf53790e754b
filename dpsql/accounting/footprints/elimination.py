"""The largest sum of tables over sets of columns, column after column: max-sum elimination.

A column that is in some of the tables is done with by joining those, and keeping the maximum over
its classes as one table of the other columns they have (Dechter 1999, bucket elimination). The cost
is the size of the tables joined on the way, not the number of all combinations. Where the maximum
is reached is found backwards: the last column joined chooses first.

A set of columns is a whole number, its bits; a table's axes are in ascending order. No entry is
negative, and no sum of entries of one combination leaves 64 bits.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from dpsql.accounting.footprints.runs import Ints

CELLS = 1 << 20  # of a table that is joined
CALL = 1 << 10  # entries that are touched in the time that a call takes
SMALL = 1 << 15  # cells of a table that joins all there is, which saves calls

_ALL = slice(None)

Table: TypeAlias = "tuple[int, Ints]"


@dataclass(frozen=True, slots=True, eq=False)
class Greatest:
    """The largest sum, or a bound on it that is not above what was asked.

    `work` counts the entries that were touched, about.
    """

    high: int
    work: int
    trail: list[tuple[int, int, Ints]]  # columns done with, and of them and others a table

    @property
    def cell(self) -> dict[int, int]:
        """An index of each column where the sum is reached; others make no difference there."""
        chosen: dict[int, int] = {}
        for gone, union, joined in reversed(self.trail):  # what went last is chosen first
            inside = joined[tuple([chosen.get(at, slice(None)) for at in columns(union)])]
            found = np.unravel_index(int(inside.argmax()), inside.shape)
            chosen.update(zip(columns(gone), map(int, found), strict=True))
        return chosen


@functools.lru_cache(maxsize=1 << 14)
def columns(mask: int) -> tuple[int, ...]:
    """The columns of a set, ascending."""
    return tuple([at for at in range(mask.bit_length()) if mask >> at & 1])


def count(mask: int, sizes: Sequence[int]) -> int:
    """The number of cells of a table over a set of columns."""
    cells = 1
    for at in columns(mask):
        cells *= sizes[at]
    return cells


@functools.lru_cache(maxsize=1 << 14)
def _view(mask: int, within: int) -> tuple[slice | None, ...]:
    return tuple([_ALL if mask >> at & 1 else None for at in columns(within)])


def spread(table: Table, within: int) -> Ints:
    """A table as one that can be added to those of more columns."""
    mask, cells = table
    return cells if mask == within else cells[_view(mask, within)]


def greatest(
    tables: Sequence[Table], sizes: Sequence[int], floor: int, entries: int
) -> Greatest | None:
    """The largest sum of tables, or a bound that is at most `floor`.

    None where more than so many entries, or CELLS of one table, would be touched.
    """
    merged = _merged(tables)
    constant = int(merged.pop(0, 0))
    work = CALL * len(tables) + sum([cells.size for cells in merged.values()])
    left = _Left(merged, sizes)
    if left.cells > SMALL:
        tops = {mask: int(cells.max()) for mask, cells in merged.items()}
        if (bound := constant + sum(tops.values())) <= floor:
            return Greatest(bound, work, [])
        left = _Left({mask: merged[mask] for mask, top in tops.items() if top > 0}, sizes)
    trail: list[tuple[int, int, Ints]] = []
    while left.tables:
        gone, union = left.next()
        cells = count(union, sizes)
        bucket = left.pop(gone)
        work += CALL * len(bucket) + cells * min(1 + len(bucket), 5)  # see `_joined`
        if cells > CELLS or work > entries:
            return None
        joined = spread(_joined(bucket), union)
        trail.append((gone, union, joined))
        if union == gone:
            constant += int(joined.max())
        else:
            left.put(union & ~gone, joined.max(axis=columns(union).index(gone.bit_length() - 1)))
    return Greatest(constant, work, trail)


def _merged(tables: Sequence[Table]) -> dict[int, Ints]:
    """One table for each set of columns."""
    merged: dict[int, Ints] = {}
    for mask, cells in tables:
        known = merged.get(mask)
        merged[mask] = cells if known is None else known + cells
    return merged


class _Left:
    """Tables that are left. `near` has for each column the columns of all tables that it is in."""

    def __init__(self, tables: dict[int, Ints], sizes: Sequence[int]) -> None:
        self.tables = tables
        self._sizes = sizes
        self._all = 0
        for mask in tables:
            self._all |= mask
        self.cells = count(self._all, sizes)  # of a table that joins all
        self._near: dict[int, int] = {}
        self._cost: dict[int, tuple[int, int]] = {}
        if self.cells > SMALL:
            for mask in tables:
                for at in columns(mask):
                    self._near[at] = self._near.get(at, 0) | mask
            self._price(self._all)

    def _price(self, mask: int) -> None:
        """What it takes to join the tables of each column; of equals, a long one leaves less."""
        for at in columns(mask):
            self._cost[at] = count(self._near[at], self._sizes), -self._sizes[at]

    def next(self) -> tuple[int, int]:
        """The columns to be done with now, one or all, and those of the table that joins theirs."""
        if self.cells <= SMALL:
            return self._all, self._all
        at = min(self._cost, key=self._cost.__getitem__)
        return 1 << at, self._near[at]

    def pop(self, gone: int) -> list[Table]:
        """Take out the tables that have any of some columns, and these columns."""
        bucket = [(mask, cells) for mask, cells in self.tables.items() if mask & gone]
        for mask, _ in bucket:
            del self.tables[mask]
        if self._near:
            for at in columns(gone):
                del self._near[at], self._cost[at]
        self.cells //= count(gone, self._sizes)
        self._all &= ~gone
        return bucket

    def put(self, mask: int, cells: Ints) -> None:
        """Put the maximum over a column that is gone in the place of the tables that had it."""
        known = self.tables.get(mask)
        self.tables[mask] = cells if known is None else known + cells
        if self.cells > SMALL:
            for at in columns(mask):
                self._near[at] = (self._near[at] | mask) & self._all
            self._price(mask)


def _joined(parts: Sequence[Table]) -> Table:
    """The sum of tables, no two of the same columns, over the union of their columns.

    Those that have a certain column and those that do not are summed up apart. So most are added
    while the sum is short, and the number of those added to a long one is that of columns a table.
    """
    if len(parts) == 1:
        return parts[0]
    if len(parts) == 2:
        some = parts[0][0] | parts[1][0]
        return some, spread(parts[0], some) + spread(parts[1], some)
    some, every = 0, -1
    for mask, _ in parts:
        some |= mask
        every &= mask
    last = 1 << ((some & ~every).bit_length() - 1)
    having = [part for part in parts if part[0] & last]
    one = _joined(having)
    other = _joined([part for part in parts if not part[0] & last])
    if one[0] == some and len(having) > 1:  # a sum that nobody else has
        np.add(one[1], spread(other, some), out=one[1])
        return one
    return some, spread(one, some) + spread(other, some)
