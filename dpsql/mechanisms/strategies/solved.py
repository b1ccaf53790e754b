"""Parts of a strategy in whole numbers: what is measured, and how answers are made of it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Gaussian
from dpsql.mechanisms.intervals.law import stddev
from dpsql.mechanisms.intervals.spread import Fitted, Spread
from dpsql.mechanisms.strategies.cells import cells_of
from dpsql.mechanisms.strategies.clusters import Cluster, part_of
from dpsql.mechanisms.strategies.marginals import Marginals
from dpsql.mechanisms.strategies.margins import Margins, margins
from dpsql.mechanisms.strategies.tabled import OneTable, one_table
from dpsql.query.canon import families, placed
from dpsql.query.linear import Workload
from dpsql.query.strategy import Mixed, Residuals

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Number = TypeVar("Number", np.float64, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """A part of a strategy: the cluster that it answers, what is measured, and R (answers, rows)
    of an integer `matrix` (rows, width) on the answers, or on the cells.
    """

    cluster: Cluster
    part: Mixed
    matrix: Ints
    inverse: Floats

    @classmethod
    def of(cls, cluster: Cluster, matrix: Ints) -> Solved:
        """Raises ValueError for a matrix that is too large, LinAlgError where it has no inverse."""
        inverse, cells = np.linalg.inv(matrix.astype(np.float64)), cluster.cells
        inverse = inverse if cells is None else cells.rows @ inverse
        return cls(cluster, _part(cluster, matrix), matrix, inverse)

    @property
    def places(self) -> tuple[int, ...]:
        """Where the blocks are in the workload."""
        return self.cluster.places

    def made_for(self, workload: Workload) -> Solved:
        """The same for another workload of the same queries in the same order."""
        own, cells = part_of(workload, self.places), None
        if self.cluster.cells is not None:
            cells = cells_of(own)
            assert cells is not None and np.array_equal(cells.rows, self.cluster.cells.rows)
        cluster = dataclasses.replace(self.cluster, workload=own, cells=cells)
        return Solved(cluster, _part(cluster, self.matrix), self.matrix, self.inverse)

    def spreads(self, law: Gaussian) -> list[Spread]:
        """What will be known of each block's answers."""
        variance, least = float(law.variance), stddev(law)
        groups = self._margins()
        if groups is not None:
            inner = self.inverse @ self.inverse.T * variance
            whole = functools.cache(lambda: groups.shown(*self._scales(variance)))
            known = np.ones((len(groups.share), len(inner)), bool)
            covariance = groups.share[:, None, None] * inner
            return [Spread(covariance, known, least, whole=whole, multiples=True)]
        each = [inner * variance for inner in self.covariances()]
        found = [Spread(inner, np.ones(inner.shape[:2], bool), least) for inner in each]
        table = self._table()
        if table is None:
            return found

        @functools.cache
        def errors() -> list[Floats]:
            flat = np.concatenate([spread.variances.reshape(-1) for spread in found])
            return self._split(table.errors(flat))

        def of_block(at: int) -> Callable[[], Floats]:
            return lambda: errors()[at]

        return [
            dataclasses.replace(spread, whole=of_block(at), multiples=True)
            for at, spread in enumerate(found)
        ]

    def _table(self) -> OneTable | None:
        """Of a strategy on cells."""
        if self.cluster.cells is None:
            return None
        listed = [(f, place) for f, place in placed(self.cluster.workload) if f is not None]
        return one_table([f for f, _ in listed], [place for _, place in listed])

    def _margins(self) -> Margins | None:
        """Of the groups of a SELECT whose aggregates are mixed group by group."""
        if self.cluster.whole:
            return None
        (listed,) = families(self.cluster.workload)
        return margins(listed, len(self.inverse))

    def _scales(self, variance: float) -> tuple[list[float], list[int]]:
        """The variance of each aggregate of a group, and of what it is a multiple."""
        (listed,) = families(self.cluster.workload)
        inner = np.einsum("wr,wr->w", self.inverse, self.inverse) * variance
        return inner.tolist(), [f.factor for f in listed[: len(inner)] if f is not None]

    def fitted(self, values: NDArray[np.generic], law: Gaussian) -> list[Fitted]:
        """The answers of each block from the noisy values."""
        groups = self._margins()
        if groups is not None:
            ((measured,), (spread,)) = self.answers(values), self.spreads(law)
            scales = self._scales(float(law.variance))
            return [Fitted(*groups.fitted(measured, *scales), spread)]
        spreads, estimates, table = self.spreads(law), self.answers(values), self._table()
        if table is not None:
            cells = np.linalg.solve(self.matrix.astype(np.float64), values[0].astype(np.float64))
            answers = np.concatenate([some.reshape(-1) for some in estimates])
            variances = np.concatenate([spread.variances.reshape(-1) for spread in spreads])
            shown = self._split(table.shown(cells, answers, variances))
            return [Fitted(*each) for each in zip(shown, estimates, spreads, strict=True)]
        listed = zip(estimates, spreads, strict=True)
        return [Fitted(np.rint(some).astype(np.int64), some, spread) for some, spread in listed]

    def answers(self, values: NDArray[np.generic]) -> list[Floats]:
        """The estimates of each block, (groups, weights), from the noisy values (groups, rows)."""
        return self._split((values.astype(np.float64) @ self.inverse.T).reshape(-1))

    def _split(self, flat: NDArray[Number]) -> list[NDArray[Number]]:
        """All answers one after another, by block, (groups, weights)."""
        found, start = [], 0
        for block in self.cluster.workload.blocks:
            stop = start + block.groups * len(block.weights)
            found.append(flat[start:stop].reshape(block.groups, len(block.weights)))
            start = stop
        return found

    def covariances(self) -> list[Floats]:
        """Of each block, (groups, weights, weights), at a variance of 1."""
        found, start = [], 0
        for block in self.cluster.workload.blocks:
            width = len(block.weights)
            if not self.cluster.whole:
                inner = self.inverse @ self.inverse.T
                found.append(np.broadcast_to(inner, (block.groups, width, width)))
                continue
            stop = start + block.groups * width
            rows = self.inverse[start:stop].reshape(block.groups, width, self.inverse.shape[1])
            found.append(rows @ rows.swapaxes(1, 2))
            start = stop
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """A part of a strategy that is measured in residual tables: of the blocks at these places."""

    places: tuple[int, ...]
    made: Marginals

    @property
    def part(self) -> Residuals:
        """What is measured."""
        return self.made.part

    def made_for(self, workload: Workload) -> Tables:
        """The same for another workload of the same queries in the same order. Raises ValueError
        where they are no tables of the same keys there.
        """
        return Tables(self.places, self.made.made_for(part_of(workload, self.places)))

    def spreads(self, law: Gaussian) -> list[Spread]:
        """What will be known of each block's answers."""
        return list(self.made.spreads(law))

    def fitted(self, values: NDArray[Any], law: Gaussian) -> list[Fitted]:
        """The answers of each block from the noisy values."""
        return self.made.fitted(values, law)


def _part(cluster: Cluster, matrix: Ints) -> Mixed:
    """What is measured of a cluster. Raises ValueError for a matrix that is too large."""
    if cluster.cells is None:
        return Mixed(cluster.workload, matrix)
    return Mixed(cluster.cells.workload, cluster.cells.measured(matrix))
