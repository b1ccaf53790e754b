"""The exact maximum of a sum of factors: tables over the sets of columns that they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from dpsql.accounting.elimination import columns, count, greatest, shape
from dpsql.accounting.footprint import Factor
from dpsql.accounting.runs import Ints, Runs

CELLS = 1 << 20  # of all tables
PENDING = 64  # factors that wait

Part: TypeAlias = "int | slice | Ints"  # of the classes of a column

_ALL = slice(None)


@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """Where a factor is not 0: of each column classes, and the losses from the first to the last.

    The columns are in ascending order.
    """

    classes: dict[int, Ints]
    losses: Ints


class Tables:
    """The sum of the factors that were added, as tables whose sum it is.

    `high` is its maximum, 0 when nothing was added, and `cell` has a code of each column where it
    is reached; of a column that it leaves out, any code will do. `work` counts the entries that
    were touched. A factor that is largest in that cell raises the maximum by as much, whatever the
    tables hold elsewhere: it waits in `pending` until another one needs them.

    Columns are numbered as they come, and tables are known by the set of their columns as bits.
    The classes of a column are those of every table that has it. Copies share a table until one
    writes on it.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.runs: list[Runs] = []
        self.tables: dict[int, Ints] = {}
        self.cell: dict[str, int] = {}
        self.pending: dict[Factor, int] = {}  # how often each came
        self.high = self.work = 0
        self._own: set[int] = set()  # the tables that no copy has

    def copy(self) -> Tables:
        other = Tables()
        other.names, other.runs = list(self.names), list(self.runs)
        other.tables = dict(self.tables)
        other.cell, other.pending = dict(self.cell), dict(self.pending)
        other.high, other.work = self.high, self.work
        self._own = set()
        return other

    def add(self, factor: Factor) -> bool:
        """Add a factor. False, and of no more use, where that would take too much."""
        largest = factor.largest
        if not largest:
            return True
        cell, lost = factor.best(self.cell)
        if lost == largest:
            self.cell.update(cell)
            self.high += lost
            self.pending[factor] = self.pending.get(factor, 0) + 1
            return len(self.pending) <= PENDING or self._settle()
        if not self._settle(factor):
            return False
        box = self._box(factor)
        self._write(box)
        return self._search(box)

    def to_tree(self) -> dict[str, Any]:
        return {
            "columns": [
                [name, runs.starts, runs.classes]
                for name, runs in zip(self.names, self.runs, strict=True)
            ],
            "tables": [[list(columns(mask)), cells] for mask, cells in self.tables.items()],
            "cell": dict(self.cell),
            "pending": [[*factor.to_list(), times] for factor, times in self.pending.items()],
            "high": self.high,
        }

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> Tables:
        found = cls()
        for name, starts, classes in tree["columns"]:
            found.names.append(name)
            found.runs.append(Runs(starts, classes, int(classes.max()) + 1))
        found.tables = {sum(1 << at for at in held): cells for held, cells in tree["tables"]}
        found.cell, found.high = dict(tree["cell"]), tree["high"]
        found.pending = {Factor.from_list(kept[:2]): kept[2] for kept in tree["pending"]}
        return found

    # -- tables --------------------------------------------------------------------------------

    def _settle(self, *more: Factor) -> bool:
        """Write down what waits, and make room for more. False where the tables cannot hold it."""
        if not self._tell_apart([*self.pending, *more]):
            return False
        for factor, times in self.pending.items():
            self._write(self._box(factor), times)
        self.pending = {}
        return True

    def _tell_apart(self, factors: Sequence[Factor]) -> bool:
        """Tell apart what factors do, and have tables for them. False where that is too much."""
        names, runs = list(self.names), list(self.runs)
        index: dict[int, Ints] = {}  # of each class told apart anew, the class it was
        held = list(self.tables)
        for factor in factors:
            mask = 0
            for axis in factor.axes:
                if axis.name not in names:
                    names.append(axis.name)
                    runs.append(Runs.of(axis))
                at = names.index(axis.name)
                met, here, _ = runs[at].meet(axis)
                if met is not runs[at]:
                    runs[at] = met
                    index[at] = index[at][here] if at in index else here
                mask |= 1 << at
            if mask not in held and all(mask & ~one for one in held):
                held = [one for one in held if one & ~mask] + [mask]
        sizes = {at: of.size for at, of in enumerate(runs)}
        if index or held != list(self.tables):
            if sum(count(mask, sizes) for mask in held) > CELLS:
                return False
            self.names, self.runs = names, runs
            self._refine(index)
            self._hold(held)
        return True

    def _refine(self, index: Mapping[int, Ints]) -> None:
        """Make the tables of some columns longer: of each class, `index` has the one it was."""
        for mask, cells in self.tables.items():
            found = cells
            for axis, at in enumerate(columns(mask)):
                if at in index:
                    found = found.take(index[at], axis=axis)
            if found is not cells:
                self._put(mask, found)

    def _hold(self, held: Sequence[int]) -> None:
        """Have tables of these sets of columns, into which those of parts of them go."""
        sizes = self._sizes
        for mask in held:
            if mask not in self.tables:
                self._put(mask, np.zeros(shape(mask, mask, sizes), np.int64))
        for mask in self.tables.keys() - set(held):
            wider = next(one for one in held if not mask & ~one)
            self.tables[wider] += self.tables.pop(mask).reshape(shape(mask, wider, sizes))

    def _put(self, mask: int, cells: Ints) -> None:
        self.tables[mask] = cells
        self._own.add(mask)
        self.work += cells.size

    @property
    def _sizes(self) -> dict[int, int]:
        return {at: runs.size for at, runs in enumerate(self.runs)}

    def _write(self, box: Box, times: int = 1) -> None:
        """Add a factor so many times to a table that has its columns."""
        mask = sum(1 << at for at in box.classes)
        held = mask if mask in self.tables else next(m for m in self.tables if not mask & ~m)
        if held not in self._own:  # a copy is not counted as work: to do all again takes one
            self.tables[held] = self.tables[held].copy()
            self._own.add(held)
        spans = {at: slice(int(found[0]), int(found[-1]) + 1) for at, found in box.classes.items()}
        block = self.tables[held][tuple([spans.get(at, _ALL) for at in columns(held)])]
        sizes = dict(zip(spans, box.losses.shape, strict=True))
        block += times * box.losses.reshape(shape(mask, held, sizes))
        self.work += block.size

    # -- maximum -------------------------------------------------------------------------------

    def _box(self, factor: Factor) -> Box:
        """Where a factor is not 0, in the classes of the columns."""
        order = sorted((self.names.index(axis.name), i) for i, axis in enumerate(factor.axes))
        losses: Ints = np.array(factor.table, np.int64).reshape(factor.shape)
        losses = losses.transpose([i for _, i in order])
        box, spans = dict[int, Ints](), list[Ints]()
        for (at, i), hit in zip(order, losses.nonzero(), strict=True):
            inner = self.runs[at].inside(factor.axes[i])
            lost = np.zeros(factor.axes[i].size, bool)
            lost[hit] = True
            found = lost[inner].nonzero()[0]
            box[at] = found
            spans.append(inner[found[0] : found[-1] + 1])
        return Box(box, losses[np.ix_(*spans)])

    def _search(self, box: Box) -> bool:
        """Find the new maximum after a factor was written. False where that takes too much.

        Losses are not negative, so no cell has less than before, and those where the factor is 0
        have what they had: at most `high`. If more is found where it is not 0, that is the maximum.
        Otherwise it is `high` still, and reached where it was, in `cell`: it has no less than before
        inside the box, and no more than what was found there. A column that `cell` leaves out makes
        no difference: whatever its code, the cell had `high` before the factor came.
        """
        sizes = self._sizes
        for at, found in box.classes.items():
            sizes[at] = len(found)
        parts: dict[int, Part] = {at: 0 for at, size in sizes.items() if size == 1}
        parts |= {at: _part(found) for at, found in box.classes.items()}
        inside = (_inside(mask, cells, parts) for mask, cells in self.tables.items())
        most = greatest(inside, sizes, self.high)
        if most is None:
            return False
        self.work += most.work
        if most.high > self.high:
            self.high = most.high
            for at in most.cell.keys() | box.classes.keys():
                one = most.cell.get(at, 0)
                if at in box.classes:
                    one = int(box.classes[at][one])
                self.cell[self.names[at]] = self.runs[at].code(one)
        return True


def _part(classes: Ints) -> Part:
    """Some classes as an index, a slice if that will do."""
    first, last = int(classes[0]), int(classes[-1])
    if last - first + 1 != len(classes):
        return classes
    return slice(first, last + 1) if last > first else first


def _inside(mask: int, cells: Ints, parts: Mapping[int, Part]) -> tuple[int, Ints]:
    """A table where columns are in some of their classes; those in a single one are left out."""
    view: list[int | slice] = []
    taken: list[tuple[int, Ints]] = []
    axis = 0
    for at in columns(mask):
        part = parts.get(at, _ALL)
        match part:
            case int():
                mask &= ~(1 << at)
                view.append(part)
                continue
            case slice():
                view.append(part)
            case _:
                taken.append((axis, part))
                view.append(_ALL)
        axis += 1
    cells = cells[tuple(view)]
    for axis, classes in taken:
        cells = cells.take(classes, axis=axis)
    return mask, cells
