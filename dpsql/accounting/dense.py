"""The exact maximum of a sum of factors: a table over the joint classes of the columns touched."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.footprint import Factor
from dpsql.accounting.runs import Ints, Runs

CELLS = 1 << 20  # of the largest table
PENDING = 64  # factors that wait


class Dense:
    """The sum of the factors that were added, for every combination of classes.

    `high` is its maximum, 0 when nothing was added, and `cell` has a code of each column where it
    is reached; `work` counts the entries that were written. A factor that is largest in that cell
    raises the maximum by as much, whatever the table holds elsewhere: it waits in `pending` until
    another one needs the table. Copies share their table until one is written.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.runs: list[Runs] = []
        self.table: Ints = np.zeros((), np.int64)
        self.cell: dict[str, int] = {}
        self.pending: dict[Factor, int] = {}  # how often each came
        self.high = self.work = 0
        self._shared = False

    def copy(self) -> Dense:
        other = Dense()
        other.names, other.runs = list(self.names), list(self.runs)
        other.cell, other.pending = dict(self.cell), dict(self.pending)
        other.table, other.high, other.work = self.table, self.high, self.work
        self._shared = other._shared = True
        return other

    def add(self, factor: Factor) -> bool:
        """Add a factor. False, and of no more use, where more than CELLS would be needed."""
        cell, lost = factor.best(self.cell)
        if lost == factor.largest:
            self.cell.update(cell)
            self.high += lost
            self.pending[factor] = self.pending.get(factor, 0) + 1
            return len(self.pending) <= PENDING or self._settle()
        if not self._settle(factor):
            return False
        self._raise(factor, 1)
        return True

    def _settle(self, *more: Factor) -> bool:
        """Write down what waits, and make room for more. False where the table cannot hold it."""
        if not self._fit([*self.pending, *more]):
            return False
        for factor, times in self.pending.items():
            self._write(factor, times)
        self.pending = {}
        return True

    def _fit(self, factors: Sequence[Factor]) -> bool:
        """Tell apart in the table what factors do. False, where that needs too many cells."""
        names, runs = list(self.names), list(self.runs)
        index: dict[int, Ints] = {}  # of each class told apart anew, the class it was
        for axis in (axis for factor in factors for axis in factor.axes):
            if axis.name not in names:
                names.append(axis.name)
                runs.append(Runs.of(axis))
                index[len(names) - 1] = np.zeros(axis.size, np.int64)
                continue
            place = names.index(axis.name)
            met, here, _ = runs[place].meet(axis)
            if met is not runs[place]:
                runs[place] = met
                index[place] = index[place][here] if place in index else here
        if math.prod(of.size for of in runs) > CELLS:
            return False
        if index:
            table = self.table.reshape(self.table.shape + (1,) * (len(names) - len(self.names)))
            for place, was in index.items():
                table = table.take(was, axis=place)
            self.names, self.runs, self.table, self._shared = names, runs, table, False
            self.work += table.size
        return True

    def to_tree(self) -> dict[str, Any]:
        return {
            "columns": [
                [name, runs.starts, runs.classes]
                for name, runs in zip(self.names, self.runs, strict=True)
            ],
            "table": self.table,
            "cell": dict(self.cell),
            "pending": [[*factor.to_list(), times] for factor, times in self.pending.items()],
            "high": self.high,
        }

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> Dense:
        found = cls()
        for name, starts, classes in tree["columns"]:
            found.names.append(name)
            found.runs.append(Runs(starts, classes, int(classes.max()) + 1))
        found.table, found.high = tree["table"], tree["high"]
        found.cell = dict(tree["cell"])
        found.pending = {Factor.from_list(kept[:2]): kept[2] for kept in tree["pending"]}
        return found

    def _raise(self, factor: Factor, times: int) -> None:
        """Add a factor, and find the new maximum."""
        block, view = self._write(factor, times)
        if block.size and (most := int(block.max())) > self.high:
            self.high = most
            inside = np.unravel_index(int(block.argmax()), block.shape)
            for name, runs, cut, at in zip(self.names, self.runs, view, inside, strict=True):
                self.cell[name] = runs.code((cut.start or 0) + int(at))

    def _write(self, factor: Factor, times: int) -> tuple[Ints, list[slice]]:
        """Add a factor so many times; the part of the table that it touches, and where that is."""
        values = times * np.array(factor.table, np.int64).reshape(factor.shape)
        order = [self.names.index(axis.name) for axis in factor.axes]
        inner = {
            place: self.runs[place].meet(axis)[2]
            for axis, place in zip(factor.axes, order, strict=True)
        }
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
        return block, view


def _span(kept: NDArray[np.bool_]) -> slice:
    """The least slice that holds all that is kept."""
    found = np.flatnonzero(kept)
    return slice(int(found[0]), int(found[-1]) + 1) if len(found) else slice(0, 0)
