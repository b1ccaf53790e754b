"""A factor as a few weighted boxes that exclude each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.footprint import Factor

MOST = 64  # boxes of a factor; beyond, it is bounded from above by fewer
LEVELS = 8  # to which losses are rounded up before that

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """`weight` pico where the class on each axis is in its mask; None where all classes are."""

    masks: tuple[Mask | None, ...]
    weight: int


def pieces(factor: Factor) -> tuple[list[Piece], bool]:
    """Boxes whose sum is the factor, or (False) at least the factor."""
    table = np.array(factor.table, np.int64).reshape(factor.shape)
    exact = True
    if _count(table) > MOST:
        exact = False
        step = -(-int(table.max()) // LEVELS)
        table = np.minimum(-(-table // step) * step, table.max())
        while _count(table) > MOST:
            widest = int(np.argmin([_count(_flat(table, axis)) for axis in range(table.ndim)]))
            table = _flat(table, widest)
    return _boxes(table, factor.shape), exact


def _flat(table: NDArray[np.int64], axis: int) -> NDArray[np.int64]:
    """The table with an axis of one class, the largest of its entries."""
    found: NDArray[np.int64] = table.max(axis=axis, keepdims=True)
    return found


def _rows(table: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """The table as rows along its longest axis, and that axis."""
    inner = int(np.argmax(table.shape))
    moved = np.moveaxis(table, inner, -1)
    return moved.reshape(-1, moved.shape[-1]), inner


def _count(table: NDArray[np.int64]) -> int:
    """The number of boxes that `_boxes` makes."""
    rows = np.sort(_rows(table)[0], axis=1)
    fresh = np.diff(rows, axis=1, prepend=0) != 0
    return int(np.count_nonzero(fresh))


def _boxes(table: NDArray[np.int64], shape: tuple[int, ...]) -> list[Piece]:
    """A box for each value in each row along the longest axis."""
    rows, inner = _rows(table)
    outer = [size for axis, size in enumerate(table.shape) if axis != inner]
    found = []
    for index in np.flatnonzero(rows.any(axis=1)):
        at = list(np.unravel_index(index, outer)) if outer else []
        row = rows[index]
        for weight in np.unique(row[row > 0]):
            masks: list[Mask | None] = []
            rest = iter(at)
            for axis, size in enumerate(table.shape):
                mask = row == weight if axis == inner else np.arange(size) == next(rest)
                masks.append(None if mask.all() else mask)
            if not any(mask is not None for mask in masks):
                masks[0] = np.ones(shape[0], bool)  # a box of everybody still is a set somewhere
            found.append(Piece(tuple(masks), int(weight)))
    return found
