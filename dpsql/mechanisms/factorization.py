"""Factorization: a workload W answered through a strategy A, W h estimated as R (A W h + z).

The matrix mechanism (Li et al. 2010; Edmonds, Nikolov, Ullman 2020). Of all linear estimates from
Gaussian noise the total squared error over the queries is least for the strategies of `querycov`.
The strategy that is measured has integer entries, and R is made of these, so R A W = W and what is
released has no bias.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Gaussian
from dpsql.accounting.stored import Stored
from dpsql.mechanisms.cells import Cells, cells_of
from dpsql.mechanisms.clusters import Cluster, clusters, part_of
from dpsql.mechanisms.found import Answered
from dpsql.mechanisms.largest import smallest_largest
from dpsql.mechanisms.law import stddev
from dpsql.mechanisms.noises import Joint, Noise
from dpsql.mechanisms.optimum import Optimum, optimum, weighted_gram
from dpsql.mechanisms.querycov import NoiseCovariance, noise_covariance
from dpsql.mechanisms.rows import Listed
from dpsql.mechanisms.spread import Fitted, Spread
from dpsql.mechanisms.strategy_cache import StrategyCache, folder, key
from dpsql.mechanisms.universe import ListedColumns
from dpsql.query.distinct import Distinct
from dpsql.query.linear import Workload
from dpsql.query.strategy import Mixed, Strategy

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

GRIDS = (1 << 20, 1 << 16, 1 << 12)  # of a strategy's largest entry; less for large weights
AWAY = 1 << 12  # times the largest weight in directions where nothing is
GAP, WIDE = 2e-3, 2e-2  # that the error may be above the least, relative: of few columns, of many
CLOSE = 5e-4  # the same of a strategy on cells
MANY = 1 << 14  # columns


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

    def answers(self, values: NDArray[np.generic]) -> list[Floats]:
        """The estimates of each block, (groups, weights), from the noisy values (groups, rows)."""
        flat = (values.astype(np.float64) @ self.inverse.T).reshape(-1)
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
            rows = self.inverse[start:stop].reshape(block.groups, width, -1)
            found.append(rows @ rows.swapaxes(1, 2))
            start = stop
        return found


def _part(cluster: Cluster, matrix: Ints) -> Mixed:
    """What is measured of a cluster. Raises ValueError for a matrix that is too large."""
    if cluster.cells is None:
        return Mixed(cluster.workload, matrix)
    return Mixed(cluster.cells.workload, cluster.cells.measured(matrix))


@dataclass(frozen=True, slots=True, eq=False)
class Factored:
    """A strategy for a workload, and how answers are made of its values.

    `lower` is a bound from below on the root of the mean squared error of any strategy, and `rmse`
    this one's, at noise that costs rho = 1/2; both as `importance` weighs the queries. With
    `largest` they are of the largest squared error.
    """

    workload: Workload
    strategy: Strategy
    solved: tuple[Solved, ...]
    rmse: float
    lower: float
    largest: bool

    @property
    def ratio(self) -> float | None:
        """The error to the bound on that of any strategy, at least 1; None without a bound."""
        return max(1.0, self.rmse / self.lower) if self.lower else None

    def made_for(self, workload: Workload) -> Factored:
        """The same for another workload of the same queries in the same order."""
        if workload is self.workload:
            return self
        solved = tuple(each.made_for(workload) for each in self.solved)
        strategy = Strategy(tuple(each.part for each in solved))
        return dataclasses.replace(self, workload=workload, strategy=strategy, solved=solved)

    def spreads(self, law: Gaussian) -> tuple[Spread, ...]:
        """What will be known of each SELECT's answers, before anything is measured."""
        variance = float(law.variance)
        least = stddev(law)
        found: list[Spread | None] = [None] * len(self.workload.blocks)
        for solved in self.solved:
            for place, inner in zip(solved.places, solved.covariances(), strict=True):
                known = np.ones(inner.shape[:2], bool)
                found[place] = Spread(inner * variance, known, least)
        return tuple(spread for spread in found if spread is not None)

    def stored(
        self, values: Sequence[NDArray[Any]], law: Gaussian, shown: Sequence[NDArray[Any]]
    ) -> Stored | None:
        """What a ledger keeps of it, with the answers that were shown; None where it cannot."""
        measured = []
        for each, noisy in zip(self.solved, values, strict=True):
            cluster, cells = each.cluster, each.cluster.cells
            rows = None if cells is None else cells.rows
            measured.append((cluster.workload, each.matrix, noisy, rows))
        answers = [[shown[place] for place in each.places] for each in self.solved]
        return Stored.mixed(measured, law, answers)

    def unmeasured(self, law: Gaussian) -> Stored | None:
        """What a ledger would keep if all values were 0."""
        values = [
            np.zeros((part.size // len(part.matrix), len(part.matrix)), np.int64)
            for part in self.strategy.parts
        ]
        return self.stored(values, law, self.answered(values, law).answers)

    def noises(self, law: Gaussian) -> tuple[Noise, ...]:
        """The noise of each SELECT's answers, whatever they are."""
        zeros = [np.zeros((b.groups, len(b.weights))) for b in self.workload.blocks]
        return _joint(zeros, self.spreads(law))

    def answered(self, values: Sequence[NDArray[np.generic]], law: Gaussian) -> Answered:
        """The answers of each SELECT from the noisy values of each part."""
        estimates = [np.zeros((b.groups, len(b.weights))) for b in self.workload.blocks]
        for solved, noisy in zip(self.solved, values, strict=True):
            for place, some in zip(solved.places, solved.answers(noisy), strict=True):
                estimates[place] = some
        noises = _joint(estimates, self.spreads(law))
        return Answered(tuple(noise.fitted.shown for noise in noises), noises, 1)


def _joint(estimates: Sequence[Floats], spreads: Sequence[Spread]) -> tuple[Joint, ...]:
    return tuple(
        Joint(Fitted(np.rint(some).astype(np.int64), some, spread))
        for some, spread in zip(estimates, spreads, strict=True)
    )


def factored(workload: Workload, *, largest: bool = False) -> Factored:
    """The strategy of least weighted squared error, or least `largest` one, that is found.

    Clusters of SELECTs that cannot be planned together have a part each; at rho_c they err by
    e_c / rho_c, so that rho_c is in proportion to sqrt(e_c) for the least sum, to e_c for the least
    of the largest. Nothing depends on how fast the machine is: a plan that is made again is the
    same.
    """
    wanted = importance(workload, largest=largest)
    drafts = []
    for cluster in clusters(workload):
        mine = np.concatenate([wanted[at].reshape(-1) for at in cluster.places])
        drafts.append(_draft(cluster, mine, largest))
    parts = [draft.error if largest else math.sqrt(draft.error) for draft in drafts]
    solved = _solved(drafts, [math.sqrt(part / sum(parts)) for part in parts])
    lower = [draft.lower for draft in drafts]
    return Factored(
        workload,
        Strategy(tuple(each.part for each in solved)),
        solved,
        math.sqrt(sum(parts)) if largest else sum(parts),
        math.sqrt(max(lower) if largest else sum(lower)),
        largest,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Draft:
    """A cluster with T (rows, width) of sensitivity 1, the error of its answers and a bound on it.

    The error is the weighted sum of squares, or the largest, at a variance of 1.
    """

    cluster: Cluster
    root: Floats
    error: float
    lower: float

    def solved(self, scale: float) -> Solved:
        """The part in whole numbers, at this scale. Raises ValueError where they are too large."""
        root = _square(self.root) * scale
        return Solved.of(self.cluster, np.rint(root).astype(np.int64))


def _solved(drafts: Sequence[_Draft], scales: Sequence[float]) -> tuple[Solved, ...]:
    """All parts on the finest grid that holds them. Raises ValueError where none does."""
    top = max(float(np.abs(d.root).max()) * s for d, s in zip(drafts, scales, strict=True))
    for grid in GRIDS:
        try:
            return tuple(d.solved(s * grid / top) for d, s in zip(drafts, scales, strict=True))
        except ValueError:
            if grid == GRIDS[-1]:
                raise
    raise AssertionError("there is a grid")


def _square(root: Floats) -> Floats:
    """T with as many rows as columns, so that it has an inverse.

    Where queries depend on others no column of W has a share in some directions. There a value
    moves by what rounding leaves, and it is given so much weight that its noise does not matter.
    """
    rows, width = root.shape
    if rows == width:
        return root
    _, sizes, directions = np.linalg.svd(root)
    rest: Floats = directions[rows:] * (sizes[0] * AWAY)
    return np.concatenate([root, rest])


def _draft(cluster: Cluster, wanted: Floats, largest: bool) -> _Draft:
    """The best noise for one cluster; of a SELECT that is too large, for the weights of a group.

    Where these cannot be listed they are measured as they are: at most their largest sizes come
    together in a row, and as `importance` weighs them equal noise is the best for that.
    """
    columns, times = cluster.columns, 1
    if not cluster.whole:
        (block,) = cluster.workload.blocks
        times = len(block.groupings)
        wanted = wanted.reshape(-1, len(block.weights)).sum(axis=0)
    size = (1.0 if largest else float(wanted.sum())) * times
    if cluster.cells is not None:
        best = _on_cells(cluster.cells, None if largest else wanted)
        return _Draft(cluster, best.matrix, size * best.rmse**2, size * best.lower**2)
    if columns is None:
        squared = sum(float(w.largest) ** 2 for b in cluster.workload.blocks for w in b.weights)
        plain = np.eye(len(wanted)) / math.sqrt(squared * times)
        return _Draft(cluster, plain, size * squared, 0.0)
    found = _covariance(columns, None if largest else wanted)
    return _Draft(
        cluster, found.root / math.sqrt(times), size * found.rmse**2, size * found.lower**2
    )


def _on_cells(cells: Cells, wanted: Floats | None) -> Optimum:
    """The strategy on the cells of least weighted error; without weights of the least largest."""
    if wanted is None:
        return smallest_largest(Listed(cells.rows.astype(np.float64)), gap=GAP)
    return optimum(weighted_gram(cells.rows, wanted), float(wanted.sum()), gap=CLOSE)


def _covariance(columns: Distinct, wanted: Floats | None) -> NoiseCovariance:
    """The noise of least weighted error, without weights of the least largest one.

    Of many columns it is looked for in the cache on disk.
    """
    gap = GAP if columns.size <= MANY else WIDE
    name, cache = "", StrategyCache(folder())
    if columns.size > MANY:
        parts: dict[str, NDArray[Any]] = {} if wanted is None else {"wanted": wanted}
        for at, (place, states) in enumerate(zip(columns.places, columns.states, strict=True)):
            named = {"states": states, "query": place.query, "weight": place.weight}
            parts |= {f"{part} {at}": array for part, array in named.items()}
        objective = "largest error" if wanted is None else "weighted error"
        name = key(objective, gap=gap, queries=columns.queries, **parts)
        known = cache.covariance(name)
        if known is not None:
            return known
    listed = ListedColumns(columns.small())
    found = noise_covariance(
        listed, columns.queries, weights=wanted, largest=wanted is None, gap=gap
    )
    if name:
        cache.keep_covariance(name, found)
    return found


def importance(workload: Workload, *, largest: bool = False) -> list[Floats]:
    """Of each block the weight of its queries' squared errors, (groups, weights).

    All queries of a workload are on one scale, in units of their largest weight; one on a larger
    scale is to have less noise, and its error counts as much more: of independent queries one that
    is twice as large has half the stddev. Each grouping has the same weight, which its groups have
    in equal parts: else a table of many cells would leave none of the price to a total beside it.
    For the `largest` error all are alike: on one scale, all are to have the same noise.
    """
    if largest:
        return [np.ones((block.groups, len(block.weights))) for block in workload.blocks]
    found = []
    heaviest = max((w.largest for block in workload.blocks for w in block.weights), default=1)
    for block in workload.blocks:
        units = (
            np.array([max(w.largest, 1) ** 2.0 for w in block.weights]) / max(heaviest, 1) ** 4.0
        )
        sizes = np.concatenate([np.full(g.size, g.size) for g in block.groupings])
        found.append(units / sizes[:, None])
    total = sum(
        len(block.weights) * len([g for g in block.groupings if g.size])
        for block in workload.blocks
    )
    return [each / total for each in found]
