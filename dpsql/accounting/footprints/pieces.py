"""A factor as a few weighted boxes that exclude each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.footprints.footprint import Factor

MOST = 4  # boxes of a factor; beyond, some axes are flattened: a bound from above

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """`weight` pico where the class on each axis is in its mask; None where all classes are."""

    masks: tuple[Mask | None, ...]
    weight: int


@dataclass(frozen=True, slots=True, eq=False)
class Slim:
    """A table that is at least the factor, and makes at most MOST boxes or has a single axis.

    Flattened axes have one class, the largest of their entries; `exact` says that there is none.
    """

    table: Ints
    exact: bool

    @classmethod
    def of(cls, factor: Factor) -> Slim:
        table: Ints = np.array(factor.table, np.int64).reshape(factor.shape)
        exact = True
        while _count(table) > MOST and sum(size > 1 for size in table.shape) > 1:
            wide = [axis for axis, size in enumerate(table.shape) if size > 1]
            least = min(wide, key=lambda axis: _count(table.max(axis=axis, keepdims=True)))
            table, exact = table.max(axis=least, keepdims=True), False
        return cls(table, exact)

    @property
    def pieces(self) -> list[Piece]:
        """A box for each value in each row along the longest axis."""
        rows, inner = _rows(self.table)
        outer = [size for axis, size in enumerate(self.table.shape) if axis != inner]
        found = []
        for index in np.flatnonzero(rows.any(axis=1)):
            at = list(np.unravel_index(index, outer)) if outer else []
            row = rows[index]
            for weight in np.unique(row[row > 0]):
                masks: list[Mask | None] = []
                rest = iter(at)
                for axis, size in enumerate(self.table.shape):
                    mask = row == weight if axis == inner else np.arange(size) == next(rest)
                    masks.append(None if size == 1 or mask.all() else mask)
                found.append(Piece(tuple(masks), int(weight)))
        return found


def _rows(table: Ints) -> tuple[Ints, int]:
    """The table as rows along its longest axis, and that axis."""
    inner = int(np.argmax(table.shape))
    moved = np.moveaxis(table, inner, -1)
    return moved.reshape(-1, moved.shape[-1]), inner


def _count(table: Ints) -> int:
    """The number of boxes that the table makes."""
    rows = np.sort(_rows(table)[0], axis=1)
    return int(np.count_nonzero(np.diff(rows, axis=1, prepend=0)))
