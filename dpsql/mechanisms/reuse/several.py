"""What follows from the tables that were measured in rounds: each query from one of them alone.

What was measured later was decided on by the noise of what was measured before, so they are not
averaged: a query is answered by the table of least variance of which it is a sum, as each group of
that counts in it with one weight, and its interval is that of this table's noise. What is shown are
sums of one table of whole numbers, so that answers from one table agree to the last digit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.kept.stored import Stored
from dpsql.mechanisms.intervals.law import stddev
from dpsql.mechanisms.intervals.noises import Noise
from dpsql.mechanisms.intervals.rounded import rounded
from dpsql.mechanisms.intervals.spread import Fitted, Spread, Spreads
from dpsql.mechanisms.reuse.coarser import sums
from dpsql.mechanisms.reuse.fit import by_grouping
from dpsql.mechanisms.reuse.linked import columns
from dpsql.mechanisms.reuse.precision import variance_of
from dpsql.mechanisms.synopses.marginal import marginal
from dpsql.mechanisms.synopses.purchase import CELLS
from dpsql.query.canon import Family, families
from dpsql.query.linear import Block, Workload

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """Queries as sums over the groups of a table: of each group the query in which it counts (-1
    for none), and how many `times`."""

    table: int
    query: Ints
    times: Floats

    def added(self, each: Floats, size: int) -> Floats:
        """The sums of some numbers of the groups, by query."""
        found = np.zeros(size)
        inside = self.query >= 0
        np.add.at(found, self.query[inside], each[inside])
        return found


class Several:
    """The tables of one release, and what they say of any workload."""

    def __init__(self, stored: Stored) -> None:
        assert stored.picked is not None
        self._stored = stored
        self._least = stddev(stored.law)
        law = float(variance_of(stored.law))
        self._variances = [law / family.factor**2 for family in stored.families]
        self._spreads = Spreads()

    def _find(self, family: Family, size: int) -> _Found | None:
        """The queries of a family in the table that tells them best; None where they are in none.

        The sum of the variances decides, and the first of those that are equal.
        """
        best: _Found | None = None
        least = math.inf
        for at, own in enumerate(self._stored.families):
            if not family.classes.keys() <= own.classes.keys():
                continue
            told = sums(own, family)
            if told is None:
                continue
            query, times = told
            order = own.origin  # in which values are kept
            found = _Found(at, query[order], times[order] * own.factor)
            total = float(found.added(found.times**2, size).sum()) * self._variances[at]
            if total < least:  # there may be no group of which to take the mean
                best, least = found, total
        return best

    def spreads(self, workload: Workload) -> tuple[Spread, ...]:
        """What is known of each SELECT of a workload."""
        return self._spreads.of(workload, self._spread)

    def _placed(self, some: Sequence[tuple[int, Family | None]], size: int) -> dict[int, _Found]:
        placed = {column: self._find(f, size) for column, f in some if f is not None}
        return {column: found for column, found in placed.items() if found is not None}

    def _spread(self, block: Block, listed: Sequence[Family | None]) -> Spread:
        width = len(block.weights)
        covariance = np.zeros((block.groups, width, width))
        known = np.zeros((block.groups, width), np.bool_)
        shown = np.zeros((block.groups, width))
        for start, size, some in by_grouping(block, listed):
            found = self._placed(some, size)
            rows = slice(start, start + size)
            for column, one in found.items():
                known[start + np.unique(one.query[one.query >= 0]), column] = True
                cell = self._variances[one.table]
                whole = float(rounded(np.array([cell]))[0])
                shown[rows, column] = one.added(one.times**2, size) * whole
                for column_, other in found.items():
                    if one.table == other.table:
                        both = np.where(one.query == other.query, one.times * other.times, 0.0)
                        covariance[rows, column, column_] = one.added(both, size) * cell
        return Spread(covariance, known, self._least, whole=lambda: shown)

    def answers(self, workload: Workload) -> tuple[Fitted, ...]:
        """The answers of each SELECT of a workload that are known."""
        spreads = self.spreads(workload)
        kept = zip(workload.blocks, families(workload), spreads, strict=True)
        return tuple(Fitted(*self._block(b, listed), spread) for b, listed, spread in kept)

    def _block(self, block: Block, listed: Sequence[Family | None]) -> tuple[NDArray[Any], Floats]:
        shown = np.zeros((block.groups, len(block.weights)), np.int64)
        centre = np.zeros(shown.shape)
        for start, size, some in by_grouping(block, listed):
            rows = slice(start, start + size)
            for column, found in self._placed(some, size).items():
                factor = self._stored.families[found.table].factor
                cells = self._stored.values[found.table] / factor
                centre[rows, column] = found.added(found.times * cells, size)
                shown[rows, column] = np.rint(found.added(found.times * np.rint(cells), size))
        return shown, centre


def at_best(workload: Workload, stored: Stored, singles: int) -> tuple[Noise, ...] | None:
    """The noise of answers by the tables of their own columns, whether these were measured or not;
    None for tables that are too large.

    What it rests on are the noise and factors of a release of so many tables of `singles` and of
    the others, which are known before anybody has paid for what it says.
    """
    law = variance_of(stored.law)
    factor = {family.factor for family in stored.families[singles:]}
    names = tuple(sorted(columns(workload)))
    if len(names) < 2:
        factor = {family.factor for family in stored.families[:singles]}
    domain = workload.domain.project(names)
    if domain.cells > CELLS or not names:
        return None
    return marginal(domain).noises(workload, law / max(factor) ** 2)
