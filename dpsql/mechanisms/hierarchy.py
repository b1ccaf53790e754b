"""Strategies with a formula: identity, total, the workload itself, trees, Haar, Toeplitz roots.

A tree of branching b has a query for every block of b^l cells, l = 0 .. h (Hay, Rastogi, Miklau,
Suciu 2010); Haar has a difference of halves for every block (Xiao, Wang, Gehrke 2011). Over b^h
cells both have M'M = sum_l mu_l P_l with the same projections P_l, onto what is constant on blocks
of level l and sums to 0 over each of level l + 1. So the squared error is sum_l g_l / mu_l with
g_l = tr(G P_l), and column norms are sum_l a_l mu_l = 1 with a_l = b^-l - b^-(l+1), a_h = b^-h:
the best is mu_l in proportion to (g_l / a_l)^1/2. A tree needs mu not to fall with l, as its
weights are differences of mu, so neighbours that would fall are pooled; Haar, b = 2, does not.

The square-root Toeplitz matrix has M = C / column norms for C with C C = prefix sums, of the
coefficients c_k = c_{k-1} (2k - 1) / (2k) (Fichtenberger, Henzinger, Upadhyay 2022; Henzinger,
Upadhyay 2023); `toeplitz.py` has it for many cells, without a matrix.

Every strategy is a matrix M (rows, cells) with column norms of at most 1; errors are the RMSE for
noise of variance 1, exact up to floating point.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import UsageError
from dpsql.mechanisms.optimum import checked
from dpsql.mechanisms.spectrum import Floats

_LOST = (
    1e-8  # of a workload's squared size: what a strategy leaves unanswered above that, it cannot
)
_BRANCHINGS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)


def rmse(strategy: Floats, gram: NDArray[np.generic], queries: float) -> float:
    """The root of the mean squared error of a workload from a strategy, or infinity.

    sqrt(tr(G X^+) max diag X / queries) for X = M'M; infinite when W is not in M's row space.
    """
    whole = checked(gram)
    inner = strategy.T @ strategy
    values, vectors = np.linalg.eigh(inner)
    keep = values > 1e-12 * values[-1]
    seen = np.einsum("ij,ij->j", vectors, whole @ vectors)  # G in the eigenvectors of X
    if not float(np.abs(seen[~keep]).sum()) <= _LOST * float(np.trace(whole)):
        return math.inf
    largest = float(np.diagonal(inner).max())
    return math.sqrt(float((seen[keep] / values[keep]).sum()) * largest / queries)


# -- strategies --------------------------------------------------------------------------------


def identity(cells: int) -> Floats:
    """Each cell alone."""
    return np.eye(cells)


def total(cells: int) -> Floats:
    """All cells together, and nothing else."""
    return np.ones((1, cells))


def itself(workload: NDArray[np.generic]) -> Floats:
    """The queries themselves, divided by the largest column norm."""
    return scaled(np.asarray(workload, np.float64))


def tree(cells: int, branching: int = 2) -> Floats:
    """All blocks of a tree, every level at the same weight."""
    levels = _levels(cells, branching)
    return scaled(np.vstack([_blocks(cells, branching**level) for level in range(levels + 1)]))


def weighted_tree(gram: NDArray[np.generic], branching: int = 2) -> Floats:
    """A tree at the best weights on its levels.

    Exactly the best for a power of the branching; else the best if the cells that are missing
    were there and no query counted them.
    """
    whole = checked(gram)
    levels = _levels(len(whole), branching)
    rates = tree_rates(level_sizes(whole, branching), branching)
    weights = np.diff(rates, prepend=0.0) / float(branching) ** np.arange(levels + 1)
    parts = [
        _blocks(len(whole), branching**level) * math.sqrt(weight)
        for level, weight in enumerate(weights)
        if weight > 0
    ]
    return scaled(np.vstack(parts))


def best_tree(gram: NDArray[np.generic], queries: float) -> tuple[int, Floats]:
    """The branching whose tree at its best weights has the least error, and that tree."""
    cells = len(gram)
    tried = [branching for branching in _BRANCHINGS if branching < max(cells, 3)]
    trees = {branching: weighted_tree(gram, branching) for branching in tried}
    errors = {branching: rmse(matrix, gram, queries) for branching, matrix in trees.items()}
    best = min(errors, key=lambda branching: errors[branching])
    return best, trees[best]


def haar(cells: int) -> Floats:
    """Haar wavelets of entries -1, 0 and 1, every scale at the same weight."""
    return scaled(np.vstack(_wavelets(cells)))


def weighted_haar(gram: NDArray[np.generic]) -> Floats:
    """Haar wavelets at the best weights on their scales, for a power of 2 of cells."""
    whole = checked(gram)
    scales = _wavelets(len(whole))
    sizes = np.maximum(level_sizes(whole, 2), 0)
    rates = np.sqrt(sizes / _shares(2, len(sizes) - 1))
    norms = [float((scale**2).sum(1)[0]) for scale in scales]
    return scaled(
        np.vstack(
            [
                scale * math.sqrt(rate / norm)
                for scale, rate, norm in zip(scales, rates, norms, strict=True)
                if rate > 0
            ]
        )
    )


def root_toeplitz(cells: int) -> Floats:
    """The square root of prefix sums, columns normalised."""
    first = coefficients(cells)
    at = np.arange(cells)
    lag = at[:, None] - at
    found: Floats = np.where(lag >= 0, first[np.maximum(lag, 0)], 0.0)
    normalised: Floats = found / np.sqrt((found**2).sum(0))
    return normalised


def coefficients(cells: int) -> Floats:
    """1, 1/2, 3/8, ...: those of (1 - x)^(-1/2)."""
    at = np.arange(1, cells, dtype=np.float64)
    return np.concatenate([[1.0], np.cumprod((2 * at - 1) / (2 * at))])


def scaled(matrix: Floats) -> Floats:
    """The matrix divided by its largest column norm."""
    largest = math.sqrt(float((matrix**2).sum(0).max(initial=0.0)))
    if not largest > 0:
        raise UsageError("a strategy counts some cell")
    return matrix / largest


# -- levels of a tree ------------------------------------------------------------------------


def level_sizes(gram: Floats, branching: int) -> Floats:
    """g_l = tr(G P_l), one a level from the leaves up; missing cells count as empty."""
    cells = len(gram)
    sums = gram
    means = [float(np.trace(gram))]  # tr(G Q_l) for the averages Q_l over blocks of level l
    for level in range(1, _levels(cells, branching) + 1):
        starts = np.arange(0, len(sums), branching)
        sums = np.add.reduceat(np.add.reduceat(sums, starts, axis=0), starts, axis=1)
        means.append(float(np.trace(sums)) / float(branching) ** level)
    return -np.diff(np.array([*means, 0.0]))


def tree_rates(sizes: Floats, branching: int) -> Floats:
    """mu_l of the best weights on a tree's levels, at column norms of 1."""
    shares = _shares(branching, len(sizes) - 1)
    pools: list[tuple[float, float, int]] = []  # of g, of a, and how many levels
    for size, share in zip(np.maximum(sizes, 0), shares, strict=True):
        pools.append((float(size), float(share), 1))
        while len(pools) > 1 and pools[-1][0] * pools[-2][1] < pools[-2][0] * pools[-1][1]:
            one, other = pools.pop(), pools.pop()
            pools.append((one[0] + other[0], one[1] + other[1], one[2] + other[2]))
    rates = np.concatenate([np.full(many, math.sqrt(g / a)) for g, a, many in pools])
    found: Floats = rates / float(shares @ rates)
    return found


def _shares(branching: int, levels: int) -> Floats:
    """a_l: what a unit of mu_l adds to a squared column norm."""
    powers = float(branching) ** -np.arange(levels + 1)
    found: Floats = powers - np.append(powers[1:], 0.0)
    return found


def _levels(cells: int, branching: int) -> int:
    """The height of a tree over so many cells."""
    if not branching > 1 or not cells > 0:
        raise UsageError("a tree has at least two branches and one cell")
    levels = 0
    while branching**levels < cells:
        levels += 1
    return levels


def _blocks(cells: int, size: int) -> Floats:
    """Blocks of so many cells, the last perhaps shorter, as rows of 0 and 1."""
    at = np.arange(cells) // size
    return np.asarray(at == np.arange(int(at[-1]) + 1)[:, None], np.float64)


def _wavelets(cells: int) -> list[Floats]:
    """Haar's rows by scale, from pairs of cells to halves of all, and the total."""
    if not cells > 0 or cells & (cells - 1):
        raise UsageError("Haar wavelets are for a power of 2 of cells")
    scales = []
    size = 2
    while size <= cells:
        sign = np.where(np.arange(cells) % size < size // 2, 1.0, -1.0)
        scales.append(_blocks(cells, size) * sign)
        size *= 2
    return [*scales, np.ones((1, cells))]
