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
from dpsql.mechanisms.clusters import Cluster, clusters, part_of
from dpsql.mechanisms.found import Answered
from dpsql.mechanisms.law import stddev
from dpsql.mechanisms.noises import Joint, Noise
from dpsql.mechanisms.querycov import NoiseCovariance, noise_covariance
from dpsql.mechanisms.spread import Fitted, Spread
from dpsql.mechanisms.strategy_cache import StrategyCache, folder, key
from dpsql.mechanisms.universe import ListedColumns
from dpsql.query.distinct import Distinct
from dpsql.query.linear import Workload
from dpsql.query.strategy import Mixed, Strategy

Floats = NDArray[np.float64]

GRIDS = (1 << 20, 1 << 16, 1 << 12)  # whole numbers for a strategy's 1; fewer for large weights
AWAY = 1 << 12  # times the largest weight in directions where nothing is
GAP, WIDE = 5e-3, 2e-2  # that the error may be above the least, relative: of few columns, of many
MANY = 1 << 14  # columns


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """A part of a strategy: the places of its blocks in the workload, and R (width, rows)."""

    part: Mixed
    places: tuple[int, ...]
    inverse: Floats

    @property
    def covariance(self) -> Floats:
        """That of the answers which are mixed together, (width, width), at a variance of 1."""
        found: Floats = self.inverse @ self.inverse.T
        return found

    def answers(self, values: NDArray[np.generic]) -> list[Floats]:
        """The estimates of each block, (groups, weights), from the noisy values (groups, rows)."""
        flat = (values.astype(np.float64) @ self.inverse.T).reshape(-1)
        found, start = [], 0
        for block in self.part.workload.blocks:
            stop = start + block.groups * len(block.weights)
            found.append(flat[start:stop].reshape(block.groups, len(block.weights)))
            start = stop
        return found

    def covariances(self) -> list[Floats]:
        """Of each block, (groups, weights, weights), at a variance of 1."""
        inner, found, start = self.covariance, [], 0
        for block in self.part.workload.blocks:
            width = len(block.weights)
            if not self.part.whole:
                found.append(np.broadcast_to(inner, (block.groups, width, width)))
                continue
            at = start + np.arange(block.groups)[:, None] * width + np.arange(width)
            found.append(inner[at[:, :, None], at[:, None, :]])
            start += block.groups * width
        return found


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
    def ratio(self) -> float:
        """The error to the bound on that of any strategy, at least 1."""
        return max(1.0, self.rmse / self.lower)

    def made_for(self, workload: Workload) -> Factored:
        """The same for another workload of the same queries in the same order."""
        solved = tuple(
            Solved(
                Mixed(part_of(workload, each.places), each.part.matrix), each.places, each.inverse
            )
            for each in self.solved
        )
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
        measured = [(each.part, noisy) for each, noisy in zip(self.solved, values, strict=True)]
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
        matrix = np.rint(root).astype(np.int64)
        inverse = np.linalg.inv(matrix.astype(np.float64))
        return Solved(Mixed(self.cluster.workload, matrix), self.cluster.places, inverse)


def _solved(drafts: Sequence[_Draft], scales: Sequence[float]) -> tuple[Solved, ...]:
    """All parts on the finest grid that holds them. Raises ValueError where none does."""
    for grid in GRIDS:
        try:
            return tuple(d.solved(s * grid) for d, s in zip(drafts, scales, strict=True))
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
    """The best noise for one cluster; of a SELECT that is too large, for the weights of a group."""
    columns, times = cluster.columns, 1
    if not cluster.whole:
        (block,) = cluster.workload.blocks
        times = len(block.groupings)
        wanted = wanted.reshape(-1, columns.queries).sum(axis=0)
    found = _covariance(columns, None if largest else wanted)
    size = (1.0 if largest else float(wanted.sum())) * times
    return _Draft(
        cluster, found.root / math.sqrt(times), size * found.rmse**2, size * found.lower**2
    )


def _covariance(columns: Distinct, wanted: Floats | None) -> NoiseCovariance:
    """The noise of least weighted error, without weights of the least largest one.

    Of many columns it is looked for in the cache on disk.
    """
    listed = columns.small()
    gap = GAP if columns.size <= MANY else WIDE
    name, cache = "", StrategyCache(folder())
    if columns.size > MANY:
        if wanted is None:
            name = key("largest error", columns=listed, gap=gap)
        else:
            name = key("weighted error", columns=listed, weights=wanted, gap=gap)
        known = cache.covariance(name)
        if known is not None:
            return known
    found = noise_covariance(
        ListedColumns(listed), columns.queries, weights=wanted, largest=wanted is None, gap=gap
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
