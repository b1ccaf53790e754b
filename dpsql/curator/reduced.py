"""A table of losses, with no more classes than it must have to be kept in a ledger."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.footprints.footprint import Axis, Factor
from dpsql.query.linear import alike, starts

RUNS = 1 << 12  # of a column's classes; a column of more is left out
ENTRIES = 1 << 12  # of a table

Ints = NDArray[np.int64]


def reduced(columns: Mapping[str, Ints], table: Ints, apart: bool) -> tuple[int, Factor | None]:
    """A table as its least entry and a factor of the rest, with no more classes than it must.

    `columns` are the classes of each column's codes.

    If all classes are told `apart`, none are joined. Where they are too many, those that lose about
    as much are: a bound from above, whose largest entry stays.
    """
    axes: list[Axis] = []
    for name, codes in columns.items():
        place = len(axes)
        number = table.shape[place]
        if not apart:
            told, first = alike(table.swapaxes(place, 0))
            codes, number = told[codes], len(first)
        begins = starts(codes).tolist()
        if len(begins) > RUNS:
            table, apart = table.max(axis=place), False
        elif number == 1:
            table = np.asarray(table.take(0, axis=place))
        else:
            table = table if apart else table.take(first, axis=place)
            axes.append(Axis(name, tuple(begins), tuple(codes[begins].tolist())))
    axes, table = _joined(axes, table)
    least = int(table.min())
    rest = (table - least).reshape(-1)
    return least, Factor(tuple(axes), tuple(rest.tolist())) if rest.any() else None


def _joined(axes: list[Axis], table: Ints) -> tuple[list[Axis], Ints]:
    """A table of fewer entries: on the longest axis every two classes of like losses are one."""
    while table.size > ENTRIES:
        place = int(np.argmax(table.shape))
        size = table.shape[place]
        order = np.argsort(np.moveaxis(table, place, 0).reshape(size, -1).max(axis=1))
        pairs = np.arange(0, size, 2)
        table = np.maximum.reduceat(table.take(order, axis=place), pairs, axis=place)
        rank = np.empty(size, np.int64)
        rank[order] = np.arange(size) // 2
        axis = axes[place]
        codes = rank[list(axis.classes)]
        fresh = np.flatnonzero(np.diff(codes, prepend=-1)).tolist()
        begins = tuple(axis.starts[run] for run in fresh)
        axes[place] = Axis(axis.name, begins, tuple(codes[fresh].tolist()))
    return axes, table
