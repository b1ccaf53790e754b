"""The exact maximum of a sum of factors: a table over the joint classes of the columns touched."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.footprint import Factor
from dpsql.accounting.runs import Ints, Runs

CELLS = 1 << 20  # of the largest table


class Dense:
    """The sum of the factors that were added, for every combination of classes.

    `high` is its maximum, 0 when nothing was added; `work` counts the entries that were written.
    Copies share their table until one is written.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.runs: list[Runs] = []
        self.table: Ints = np.zeros((), np.int64)
        self.high = self.work = 0
        self._shared = False

    def copy(self) -> Dense:
        other = Dense()
        other.names, other.runs = list(self.names), list(self.runs)
        other.table, other.high, other.work = self.table, self.high, self.work
        self._shared = other._shared = True
        return other

    def add(self, factor: Factor) -> bool:
        """Add a factor. False, and nothing changes, where more than CELLS would be needed."""
        axes = [Runs.of(axis) for axis in factor.axes]
        places = [self.names.index(a.name) if a.name in self.names else -1 for a in factor.axes]
        met = [
            (axis, np.zeros(axis.size, np.int64), np.arange(axis.size))
            if place < 0
            else self.runs[place].meet(axis)
            for axis, place in zip(axes, places, strict=True)
        ]
        grown = self.table.size
        for place, (runs, _, _) in zip(places, met, strict=True):
            grown = grown * runs.size // (1 if place < 0 else self.runs[place].size)
        if grown > CELLS:
            return False
        inner = {}
        for axis, place, (runs, here, there) in zip(factor.axes, places, met, strict=True):
            if place < 0:
                self.names.append(axis.name)
                self.runs.append(runs)
                self._own(np.repeat(self.table[..., None], runs.size, axis=-1))
            elif runs is not self.runs[place]:
                self.runs[place] = runs
                self._own(self.table.take(here, axis=place))
            inner[self.names.index(axis.name)] = there
        self._raise(factor, inner)
        return True

    def to_tree(self) -> dict[str, Any]:
        return {
            "columns": [
                [name, runs.starts, runs.classes]
                for name, runs in zip(self.names, self.runs, strict=True)
            ],
            "table": self.table,
            "high": self.high,
        }

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> Dense:
        found = cls()
        for name, starts, classes in tree["columns"]:
            found.names.append(name)
            found.runs.append(Runs(starts, classes, int(classes.max()) + 1))
        found.table, found.high = tree["table"], tree["high"]
        return found

    def _own(self, table: Ints) -> None:
        self.table, self._shared = table, False
        self.work += table.size

    def _raise(self, factor: Factor, inner: dict[int, Ints]) -> None:
        """Add the factor, whose class for each class of axis k is `inner[k]`, where it is not 0."""
        values = np.array(factor.table, np.int64).reshape(factor.shape)
        order = [self.names.index(axis.name) for axis in factor.axes]
        values = values.transpose(np.argsort(order))
        view: list[slice] = [slice(None)] * len(self.names)
        for k, place in enumerate(sorted(order)):
            rest = tuple(i for i in range(values.ndim) if i != k)
            lost = np.asarray(values.any(axis=rest))
            view[place] = _span(lost[inner[place]])
        picked = values[np.ix_(*(inner[place][view[place]] for place in sorted(order)))]
        shape = [1] * len(self.names)
        for place, size in zip(sorted(order), picked.shape, strict=True):
            shape[place] = size
        if self._shared:  # a copy is not counted as work: to do all again takes one
            self.table, self._shared = self.table.copy(), False
        block = self.table[tuple(view)]
        block += picked.reshape(shape)
        self.work += block.size
        self.high = max(self.high, int(block.max(initial=0)))


def _span(kept: NDArray[np.bool_]) -> slice:
    """The least slice that holds all that is kept."""
    found = np.flatnonzero(kept)
    return slice(int(found[0]), int(found[-1]) + 1) if len(found) else slice(0, 0)
