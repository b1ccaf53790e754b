"""The best noise for queries whose distinct columns are listed, and how much each query counts.

Of all linear estimates from Gaussian noise the total squared error over the queries is least for
the covariances of `querycov`; a strategy realises one by its integer entries.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.strategies.clusters import alone
from dpsql.mechanisms.strategies.querycov import NoiseCovariance, noise_covariance
from dpsql.mechanisms.strategies.strategy_cache import StrategyCache, folder, key
from dpsql.mechanisms.strategies.universe import ListedColumns
from dpsql.query.distinct import Distinct
from dpsql.query.linear import Workload

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

AWAY = 1 << 12  # times the largest weight in directions where nothing is
GAP, WIDE = 2e-3, 2e-2  # that the error may be above the least, relative: of few entries, of many
MANY = 1 << 19  # entries of all columns
MIXING = 1 << 6  # whole numbers for what a row may move, where the weights of a group are mixed


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


def covariance(columns: Distinct, wanted: Floats | None) -> NoiseCovariance:
    """The noise of least weighted error, without weights of the least largest one.

    Of many columns it is looked for in the cache on disk.
    """
    many = columns.size * columns.queries > MANY
    gap = WIDE if many else GAP
    name, cache = "", StrategyCache(folder())
    if many:
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


def square(root: Floats) -> Floats:
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


def mixing(workload: Workload) -> tuple[Ints, float]:
    """The integer matrix (weights, weights) of the best strategy for one group of a workload of
    one block, and the largest square of what it makes of a row's weights. Raises ValueError where
    there is none.
    """
    (block,) = workload.blocks
    width, heaviest = len(block.weights), max(weight.largest for weight in block.weights)
    if width == 1:
        return np.ones((1, 1), np.int64), float(heaviest) ** 2
    wanted = importance(workload)[0].reshape(-1, width).sum(axis=0)
    columns = alone(workload, 0).columns
    if columns is None:
        raise ValueError("the weights of a group tell too much apart")
    root = square(covariance(columns, wanted / wanted.sum()).root)
    matrix: Ints = np.rint(root * (MIXING * heaviest)).astype(np.int64)
    if np.linalg.matrix_rank(matrix.astype(np.float64)) < width:
        raise ValueError("weights that cannot be told apart")
    reduced: Ints = matrix // np.gcd.reduce(matrix, axis=None)
    moved = [((reduced @ some) ** 2).sum(axis=0).max() for some in columns.slices()]
    return reduced, float(max(moved))
