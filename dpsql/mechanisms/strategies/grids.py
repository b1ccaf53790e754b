"""What was measured of tables through a matrix along each axis, and what it says of any workload.

A table x is measured as y = (M_1 x M_2 x ...) x + z (Kronecker); the matrices are square, so that
q x is estimated by (q_1 M_1^-1 x q_2 M_2^-1 x ...) y, and has the product of |q_i M_i^-1|^2 times
the variance of z. A query is a sum over the table of which it errs least.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Law
from dpsql.accounting.kept.gridded import Gridded
from dpsql.accounting.kept.stored import Stored
from dpsql.mechanisms.intervals.law import stddev
from dpsql.mechanisms.intervals.spread import Fitted, Spread, Spreads
from dpsql.mechanisms.reuse.fit import by_grouping
from dpsql.mechanisms.reuse.precision import variance_of
from dpsql.mechanisms.strategies.separable import Atoms, Bundle, Rows, Separable, separable
from dpsql.query.canon import Family, families
from dpsql.query.linear import Block, Workload, starts
from dpsql.query.renewed import Renewed

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

_CROSSED = 1 << 10  # rows along an axis whose inner products are all found
_ENTRIES = 1 << 23  # of covariances that are remembered
_TABLES = 8  # what strategies tell that is remembered
_KEPT = 1 << 14  # families that are remembered


_LOOKING = Renewed()
_TOLD: OrderedDict[object, Told] = OrderedDict()


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """Queries as sums over the table `grid`: of each its row along each axis, (axes, queries), in
    the table's register, and its place among the groups; all `times` as much. They are all
    combinations of the `sums` along each axis, the last one running fastest.
    """

    grid: int
    rows: Ints
    place: Ints
    times: float
    sums: tuple[Rows, ...]

    @property
    def counts(self) -> bool:
        """Whether they count rows: what is shown are then sums of whole numbers, which agree."""
        return all((rows.weight == 1.0).all() for rows in self.sums)

    def more(self, factor: int) -> Floats:
        """What rounding adds to the squared error of each query, at most; of a table of counts the
        sums below the corners of each run are rounded."""
        if not self.counts:
            return np.full(len(self.place), 1.0 / 12.0)
        found = np.ones((1,) * len(self.sums))
        for axis, rows in enumerate(self.sums):
            along = [1] * len(self.sums)
            along[axis] = rows.count
            corners = np.add.reduceat(1.0 + (rows.low > 0), rows.begins)
            found = found * corners.reshape(along)
        more: Floats = found.reshape(-1) * ((self.times * factor) ** 2 / 12.0)
        return more


class _Along:
    """The rows that were asked along an axis of a table, and how long q M^-1 is of each."""

    def __init__(self, grid: Gridded, name: str) -> None:
        merged = grid.classes[name]
        _, first = np.unique(merged, return_index=True)
        whole = len(starts(merged)) == len(first)
        self.axis = grid.axes[list(grid.classes).index(name)]
        self.atoms = Atoms(merged, first, whole)
        self.norms = np.zeros(0)
        self._known: dict[bytes, tuple[int, Rows]] = {}
        self._bundles: list[Bundle] = []
        self._new = self._count = 0

    def rows(self, bundle: Bundle) -> tuple[int, Rows] | None:
        """A bundle over the atoms, and the number of its first row; None where it tells values of
        an atom apart.
        """
        key = bundle.key
        if key not in self._known:
            over = self.atoms.bundle(bundle)
            if over is None:
                return None
            self._known[key] = self._count, Rows.of([over], self.atoms.count)
            self._bundles.append(over)
            self._count += bundle.rows
        return self._known[key]

    def every(self) -> Bundle:
        """The sum over the axis."""
        size = len(self.atoms.of)
        one = np.ones(1, np.int64)
        return Bundle(0 * one, size * one, 0 * one, np.ones(1), 1)

    def settle(self) -> None:
        """Find the norms of new rows."""
        if self._bundles[self._new :]:
            more = Rows.of(self._bundles[self._new :], self.atoms.count).norms(self.axis)
            self.norms = np.concatenate([self.norms, more])
            self._new = len(self._bundles)

    def inner(self, rows: Ints) -> Floats:
        """The inner products of q M^-1 of rows q by their numbers, (groups, n) as (groups, n, n)"""
        if (rows == rows[:, :1]).all():
            return self.norms[rows[:, :1]][:, :, None]
        some, at = np.unique(rows, return_inverse=True)
        at, every = at.reshape(rows.shape), Rows.of(self._bundles, self.atoms.count).some(some)
        if len(some) <= _CROSSED:
            gram = sum(each @ each.T for each in every.turned(self.axis))
            found: Floats = np.asarray(gram)[at[:, :, None], at[:, None, :]]
            return found
        listed = (each[at] for each in every.turned(self.axis))
        return np.asarray(sum(np.einsum("gic,gjc->gij", each, each) for each in listed))


class Told:
    """How well tables that are measured with noise of variance 1 tell the answers of workloads; as
    what is `shown` these spreads have what rounding adds."""

    def __init__(self, grids: Sequence[Gridded]) -> None:
        self.grids = grids
        self._along = [{name: _Along(grid, name) for name in grid.classes} for grid in grids]
        self._spreads = Spreads()
        self._split: dict[str, Separable | None] = {}
        self._found: dict[tuple[str, int], _Found | None] = {}
        self._covariances: dict[tuple[_Found, ...], Floats] = {}
        self._held = 0

    @property
    def least(self) -> float:
        """The standard error of a cell of the table that is known best, about."""
        found = []
        for grid, along in zip(self.grids, self._along, strict=True):
            each = [own.axis.turned(np.eye(1, own.axis.size))[0] for own in along.values()]
            found.append(math.prod(math.sqrt(row @ row) for row in each) / grid.factor)
        return min(found)

    def spreads(self, workload: Workload) -> tuple[Spread, ...]:
        """What is known of each SELECT of a workload."""
        with _LOOKING.held():
            self._look(workload)
            return self._spreads.of(workload, self._spread)

    def find(self, family: Family) -> _Found | None:
        """The queries of a family in the table that tells them best; None where none does."""
        with _LOOKING.held():
            return self._best(family)

    def _best(self, family: Family) -> _Found | None:
        name = (family.key, family.factor)
        if name not in self._found:
            listed = self._places(family)
            for along in (each for grid in self._along for each in grid.values()):
                along.settle()
            listed.sort(key=lambda found: float(self.variances(found).sum()))
            if len(self._found) >= _KEPT:
                self._found.clear()
            self._found[name] = listed[0] if listed else None
        return self._found[name]

    def _look(self, workload: Workload) -> None:
        """List all rows of a workload, whose norms are found together."""
        for family in (f for own in families(workload) for f in own if f is not None):
            if (family.key, family.factor) not in self._found:
                self._places(family)

    def _places(self, family: Family) -> list[_Found]:
        """The queries of a family in each table of which they are sums."""
        if family.key not in self._split:
            if len(self._split) >= _KEPT:
                self._split.clear()
            self._split[family.key] = separable(family)
        split, found = self._split[family.key], []
        if split is None:
            return []
        for at, along in enumerate(self._along):
            if not split.along.keys() <= along.keys():
                continue
            own = [
                each.rows(split.along[name] if name in split.along else each.every())
                for name, each in along.items()
            ]
            listed = [some for some in own if some is not None]
            if len(listed) < len(own):
                continue
            shape = [bundle.rows for bundle in split.along.values()]
            told = dict(zip(split.along, map(np.ravel, np.indices(shape)), strict=True))
            rows = np.zeros((len(along), len(split.place)), np.int64)
            for axis, (name, (start, _)) in enumerate(zip(along, listed, strict=True)):
                rows[axis] = told.get(name, 0) + start
            times = split.times * family.factor / self.grids[at].factor
            sums, place = tuple(each for _, each in listed), family.origin[split.place]
            found.append(_Found(at, rows, place, times, sums))
        return found

    def _spread(self, block: Block, listed: Sequence[Family | None]) -> Spread:
        width = len(block.weights)
        covariance = np.zeros((block.groups, width, width))
        known, more = np.zeros((block.groups, width), bool), np.zeros((block.groups, width))
        alike = True
        for start, size, some in by_grouping(block, listed):
            placed = [(column, self._best(f)) for column, f in some if f is not None]
            found = [(column, told) for column, told in placed if told is not None]
            for column, told in found:
                known[start : start + size, column] = True  # nobody is in groups that none meets
                more[start + told.place, column] = told.more(self.grids[told.grid].factor)
                alike = alike and told.counts
            for grid in {told.grid for _, told in found}:
                at = np.array([column for column, told in found if told.grid == grid])
                mine = tuple(told for _, told in found if told.grid == grid)
                rows = slice(start, start + size)
                covariance[rows, at[:, None], at] = self._inner(mine, size)
        return Spread(covariance, known, 1.0, whole=lambda: more, multiples=alike)

    def _inner(self, found: tuple[_Found, ...], size: int) -> Floats:
        """That of the same queries as before is not found again."""
        known = self._covariances.get(found)
        if known is None:
            known = self._covariance(found, size)
            if self._held + known.size <= _ENTRIES:
                self._covariances[found] = known
                self._held += known.size
        return known

    def _covariance(self, found: Sequence[_Found], size: int) -> Floats:
        """That of queries of one table, (groups, queries, queries)."""
        if len(found) == 1:  # of all groups, without those that nobody is in
            each = np.zeros((size, 1, 1))
            each[found[0].place, 0, 0] = self.variances(found[0])
            return each
        times = np.zeros((size, len(found)))
        along = self._along[found[0].grid].values()
        rows = np.zeros((len(along), size, len(found)), np.int64)
        for at, own in enumerate(found):
            times[own.place, at] = own.times
            rows[:, own.place, at] = own.rows
        inner = times[:, :, None] * times[:, None, :]
        for axis, some in zip(along, rows, strict=True):
            inner = inner * axis.inner(some)
        return inner

    def variances(self, found: _Found) -> Floats:
        """Those of some queries."""
        along = self._along[found.grid].values()
        each = [own.norms[rows] for own, rows in zip(along, found.rows, strict=True)]
        product: Floats = np.multiply.reduce([np.full(found.rows.shape[1], found.times**2), *each])
        return product


def scaled(unit: Spread, law: Law) -> Spread:
    """What tables tell that are measured with noise of a law, of what they tell at variance 1."""
    covariance = unit.covariance * float(variance_of(law))

    def shown() -> Floats:
        found: Floats = np.einsum("gii->gi", covariance) + unit.shown
        return found

    return Spread(covariance, unit.known, stddev(law), whole=shown, multiples=unit.multiples)


def told_by(grids: Sequence[Gridded]) -> Told:
    """What tables tell; found once for the same matrices and classes, whatever the values."""
    name = tuple(
        (grid.factor, *map(id, grid.axes), *grid.classes, *map(id, grid.classes.values()))
        for grid in grids
    )  # of what is held with it, so that it names nothing else
    with _LOOKING.held():
        if name not in _TOLD:
            _TOLD[name] = Told(grids)
        _TOLD.move_to_end(name)
        while len(_TOLD) > _TABLES:
            _TOLD.popitem(last=False)
        return _TOLD[name]


class Grids:
    """The tables of one release, and what they say of any workload."""

    def __init__(self, stored: Stored) -> None:
        self._law, self._told = stored.law, told_by(stored.grids)
        self._below = [_below(grid) for grid in stored.grids]
        self._whole = [
            np.rint(below / grid.factor)
            for below, grid in zip(self._below, stored.grids, strict=True)
        ]
        self._spreads = Spreads()

    def spreads(self, workload: Workload) -> tuple[Spread, ...]:
        """What is known of each SELECT of a workload."""
        return self._spreads.remembered(
            workload,
            lambda: tuple(scaled(unit, self._law) for unit in self._told.spreads(workload)),
        )

    def _factor(self, told: _Found) -> int:
        return self._told.grids[told.grid].factor

    def answers(self, workload: Workload) -> tuple[Fitted, ...]:
        """The answers of each SELECT of a workload that are known."""
        found = []
        listed = zip(workload.blocks, families(workload), self.spreads(workload), strict=True)
        for block, own, spread in listed:
            centre = np.zeros((block.groups, len(block.weights)))
            shown = np.zeros(centre.shape)
            for start, _, some in by_grouping(block, own):
                for column, family in some:
                    told = None if family is None else self._told.find(family)
                    if told is not None:
                        each = _summed(self._below[told.grid], told)
                        centre[start + told.place, column] = each * told.times
                        if told.counts:
                            each = _summed(self._whole[told.grid], told) * self._factor(told)
                        shown[start + told.place, column] = each * told.times
            found.append(Fitted(np.rint(shown).astype(np.int64), centre, spread))
        return tuple(found)


def _below(grid: Gridded) -> Floats:
    """Of the estimated table, times its factor, the sums of all cells below each, along each axis:
    one more than there are cells."""
    table = grid.values.astype(np.float64).reshape(grid.shape)
    for at, axis in enumerate(grid.axes):
        table = np.moveaxis(axis.solved(np.moveaxis(table, at, -1)), -1, at)
    found = np.zeros([size + 1 for size in grid.shape])
    for at in range(table.ndim):
        table = table.cumsum(axis=at)
    found[(slice(1, None),) * table.ndim] = table
    return found


def _summed(below: Floats, found: _Found) -> Floats:
    """The sums over a table of some queries, in their order."""
    axes = sorted(range(below.ndim), key=lambda at: len(found.sums[at].low))
    for at in axes:
        own = found.sums[at]
        along = [1] * below.ndim
        along[at] = len(own.low)
        runs = below.take(own.high, axis=at) - below.take(own.low, axis=at)
        below = np.add.reduceat(runs * own.weight.reshape(along), own.begins, axis=at)
    return below.reshape(-1)
