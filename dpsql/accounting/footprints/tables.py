"""The exact maximum of a sum of factors: tables over the sets of columns that they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpsql.accounting.footprints.elimination import Table, columns, count, greatest, spread
from dpsql.accounting.footprints.footprint import Factor
from dpsql.accounting.footprints.runs import Ints, Runs
from dpsql.accounting.footprints.tops import Tops

CELLS = 1 << 20  # of all tables
ENTRIES = 1 << 22  # that are touched to find a maximum
FEW = 1 << 18  # that are touched to know better next time
LUCK = 4  # times that is tried for each time that it helps, at most
PENDING = 64  # factors that wait

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
        self.tops = Tops(np.zeros(0, np.int64), [])
        self.luck = LUCK
        self._own: set[int] = set()  # the tables that no copy has

    def copy(self) -> Tables:
        other = Tables()
        other.names, other.runs = list(self.names), list(self.runs)
        other.tables = dict(self.tables)
        other.cell, other.pending = dict(self.cell), dict(self.pending)
        other.high, other.work = self.high, self.work
        other.tops, other.luck = self.tops, self.luck
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
        most = self.tops.least(box.classes) + largest
        if most <= self.high:
            self.luck = min(self.luck + 1, LUCK)
        else:
            found = self._search(box)
            if found is None:
                return False
            most = found
        self.tops = self.tops.added(box.classes, largest, most)
        return True

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
            "tops": self.tops.bounds,
            "luck": self.luck,
        }

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> Tables:
        found = cls()
        for name, starts, classes in tree["columns"]:
            found.names.append(name)
            found.runs.append(Runs(starts, classes, int(classes.max()) + 1))
        found.tables = {sum(1 << at for at in held): cells for held, cells in tree["tables"]}
        found.tops = Tops(tree["tops"], [runs.size for runs in found.runs])
        found.cell, found.high, found.luck = dict(tree["cell"]), tree["high"], tree["luck"]
        found.pending = {Factor.from_list(kept[:2]): kept[2] for kept in tree["pending"]}
        return found

    # -- tables --------------------------------------------------------------------------------

    def _settle(self, *more: Factor) -> bool:
        """Write down what waits, and make room for more. False where the tables cannot hold it."""
        most = self.high - sum(times * factor.largest for factor, times in self.pending.items())
        if not self._tell_apart([*self.pending, *more], most):
            return False
        for factor, times in self.pending.items():
            box, lost = self._box(factor), times * factor.largest
            self._write(box, times)
            most += lost
            self.tops = self.tops.added(box.classes, lost, most)
        self.pending = {}
        return True

    def _tell_apart(self, factors: Sequence[Factor], most: int) -> bool:
        """Tell apart what factors do, and have tables for them. False where that is too much.

        `most` is the largest sum of the tables.
        """
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
            if mask not in self.tables and all(mask & ~one for one in held):
                held = [one for one in held if one & ~mask] + [mask]
        sizes = [of.size for of in runs]
        if index or held != list(self.tables):
            if sum(count(mask, sizes) for mask in held) > CELLS:
                return False
            self.names, self.runs = names, runs
            self.tops = self.tops.refined(index, sizes, most)
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
        for mask in held:
            if mask not in self.tables:
                shape = [self.runs[at].size for at in columns(mask)]
                self._put(mask, np.zeros(shape, np.int64))
        for mask in self.tables.keys() - set(held):
            wider = next(one for one in held if not mask & ~one)
            self.tables[wider] += spread((mask, self.tables.pop(mask)), wider)

    def _put(self, mask: int, cells: Ints) -> None:
        self.tables[mask] = cells
        self._own.add(mask)
        self.work += cells.size

    def _write(self, box: Box, times: int = 1) -> None:
        """Add a factor so many times to a table that has its columns."""
        mask = sum(1 << at for at in box.classes)
        held = mask if mask in self.tables else next(m for m in self.tables if not mask & ~m)
        if held not in self._own:  # a copy is not counted as work: to do all again takes one
            self.tables[held] = self.tables[held].copy()
            self._own.add(held)
        spans = {at: slice(int(found[0]), int(found[-1]) + 1) for at, found in box.classes.items()}
        block = self.tables[held][tuple([spans.get(at, _ALL) for at in columns(held)])]
        block += spread((mask, times * box.losses), held)
        self.work += block.size

    # -- maximum -------------------------------------------------------------------------------

    def _box(self, factor: Factor) -> Box:
        """Where a factor is not 0, in the classes of the columns."""
        order = sorted((self.names.index(axis.name), i) for i, axis in enumerate(factor.axes))
        losses: Ints = np.array(factor.table, np.int64).reshape(factor.shape)
        losses = losses.transpose([i for _, i in order])
        box = dict[int, Ints]()
        for axis, ((at, i), hit) in enumerate(zip(order, losses.nonzero(), strict=True)):
            inner = self.runs[at].inside(factor.axes[i])
            lost = np.zeros(factor.axes[i].size, bool)
            lost[hit] = True
            box[at] = found = lost[inner].nonzero()[0]
            losses = losses.take(inner[found[0] : found[-1] + 1], axis=axis)
        return Box(box, losses)

    def _search(self, box: Box) -> int | None:
        """The most in a box where a factor was written. None where that takes too much.

        Losses are not negative, so no cell has less than before, and those outside the box have
        what they had: at most `high`. So if more is found inside, that is the maximum. Otherwise
        the maximum is `high` still, and where it was, in `cell`: outside the box that has what it
        had, inside no less, and no more than what was found. Nor does a column matter that `cell`
        leaves out: whatever its code, the cell had `high` before, so it has no less now.
        """
        found = greatest(*self._inside(box.classes), self.high, ENTRIES)
        if found is None:
            return None
        self.work += found.work
        if found.high <= self.high:
            if self.luck:
                self.luck -= 1
                self._lower(box)
            return found.high
        self.high, cell = found.high, found.cell
        for at in cell.keys() | box.classes.keys():
            one = cell.get(at, 0)
            if at in box.classes:
                one = int(box.classes[at][one])
            self.cell[self.names[at]] = self.runs[at].code(one)
        return found.high

    def _lower(self, box: Box) -> None:
        """Find the most in the classes of one column, if that is little work."""
        apart = [at for at, classes in box.classes.items() if self._best(at) not in classes]
        if apart:
            at = min(apart, key=lambda at: self.tops.most(at, box.classes[at]))
            found = greatest(*self._inside({at: box.classes[at]}), 0, FEW)
            if found is not None:
                self.work += found.work
                self.tops = self.tops.lowered(at, box.classes[at], found.high)

    def _best(self, at: int) -> int:
        """The class of a column in `cell`, the first where any will do."""
        return int(self.runs[at].at(np.array(self.cell.get(self.names[at], 0))))

    def _inside(self, box: Mapping[int, Ints]) -> tuple[list[Table], list[int]]:
        """The tables where a factor is not 0, and how many classes each column has there.

        Columns that have one are left out.
        """
        sizes = [runs.size for runs in self.runs]
        view: list[int | slice] = [_ALL if size > 1 else 0 for size in sizes]
        picked = dict[int, Ints]()
        for at, found in box.items():
            first, last, sizes[at] = int(found[0]), int(found[-1]), len(found)
            view[at] = slice(first, last + 1) if last > first else first
            if last - first + 1 > len(found):
                picked[at] = found - first
        single = sum(1 << at for at, size in enumerate(sizes) if size == 1)
        inside = []
        for mask, cells in self.tables.items():
            rest = mask & ~single
            part = cells[tuple([view[at] for at in columns(mask)])]
            for at, classes in picked.items():
                if mask >> at & 1:
                    part = part.take(classes, axis=columns(rest).index(at))
            inside.append((rest, part))
        return inside, sizes
