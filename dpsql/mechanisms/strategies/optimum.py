"""The optimal strategy of the matrix mechanism for a workload known by its Gram matrix.

Li, Hay, Rastogi, Miklau, McGregor 2010 (matrix mechanism); Denisov et al. 2022 (arXiv:2202.08312).
Answers W h are R (M h + z) with W = R M and independent noise z. When all columns of M have norm
at most 1 and z has unit variance, the total squared error is tr(G X^-1) for G = W'W, X = M'M: the
least over diag X <= 1 is a convex problem in X, solved in `ascent.py`.

Cells that no query counts have a zero column in M. Cells that no query tells apart share one. So
a workload is of full rank here whenever it is so over its atoms, and then columns of M are scaled
to norm 1 each; else by the largest, which keeps the row space.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import UsageError
from dpsql.mechanisms.strategies.ascent import Ascent, Reached, ascend, by_largest
from dpsql.mechanisms.strategies.spectrum import EPS, Floats, Spectrum, of_gram

LARGEST = 4096  # cells; an eigendecomposition of so many takes some 20 s


@dataclass(frozen=True, slots=True)
class Optimum:
    """A strategy and how good it is; errors are for noise of variance 1 and column norms of 1.

    `matrix` is M (rows, cells), its column norms at most 1. `rmse` is the root of the mean squared
    error over the queries, or of the largest one where that was asked for, and no strategy has
    less than `lower`. `iterations` counts eigendecompositions.
    """

    matrix: Floats
    lower: float
    rmse: float
    iterations: int

    def __post_init__(self) -> None:
        if self.matrix.ndim != 2 or not bool(np.isfinite(self.matrix).all()):
            raise ValueError("a strategy is a finite matrix")
        if not float((self.matrix**2).sum(0).max(initial=0.0)) <= 1 + 1e-9:
            raise ValueError("columns of a strategy have norms of at most 1")
        if not 0 < self.lower <= self.rmse * (1 + 1e-9):
            raise ValueError("an error is above 0 and not below its bound")

    @property
    def gap(self) -> float:
        """How far the error may be above the least possible, relative."""
        return max(0.0, self.rmse / self.lower - 1)


def optimum(
    gram: NDArray[np.generic], queries: float, *, gap: float = 1e-3, seconds: float = math.inf
) -> Optimum:
    """The strategy of least mean squared error for G = W'W (cells, cells), of so many queries.

    It stops at the relative gap of the RMSE, or at the first step after `seconds`: with 0 it takes
    the one eigendecomposition at equal weights. With weights on queries, G = W' diag(w) W and
    `queries` is the sum of weights. Raises UsageError when G is no Gram matrix of any query.
    """
    whole = checked(gram)
    if not queries > 0:
        raise UsageError("a workload has queries, or weights above 0")
    if not gap >= 0:
        raise UsageError("a gap is not below 0")
    until = time.monotonic() + seconds
    cells, column = atoms(whole)
    small = whole[np.ix_(cells, cells)]
    found = ascend(
        lambda weights: of_gram(small, weights),
        np.ones(len(cells)),
        gap=gap,
        until=until,
        reached=lambda spectrum: feasible(small, spectrum),
    )
    return Optimum(
        spread(strategy(found), column),
        math.sqrt(found.lower / queries),
        math.sqrt(found.upper / queries),
        found.iterations,
    )


def weighted_gram(workload: NDArray[np.generic], weights: NDArray[np.generic]) -> Floats:
    """W' diag(w) W of W (queries, cells) and weights (queries,) that are not below 0."""
    rows = np.asarray(workload, np.float64)
    shares = np.asarray(weights, np.float64)
    if shares.shape != (len(rows),) or not bool((shares >= 0).all() and np.isfinite(shares).all()):
        raise UsageError("every query has a weight, not below 0")
    half = rows * np.sqrt(shares)[:, None]
    return half.T @ half


def svd_bound(gram: NDArray[np.generic], queries: float) -> float:
    """A bound from below on every strategy's RMSE: ||W||_* / sqrt(queries x cells).

    Li and Miklau 2013 (arXiv:1202.3339): the dual at equal weights on all cells that are counted.
    """
    whole = checked(gram)
    counted = int((np.diagonal(whole) > 0).sum())
    values = np.linalg.eigvalsh(whole)
    kept = values[values > 4 * len(values) * EPS * values[-1]]  # the root of an error is no bound
    return float(np.sqrt(kept).sum()) / math.sqrt(queries * counted)


# -- what strategies share ---------------------------------------------------------------------


def checked(gram: NDArray[np.generic]) -> Floats:
    """G as floats. Raises UsageError unless it is finite, symmetric, and some cell is counted."""
    whole = np.array(gram, np.float64)
    if whole.ndim != 2 or whole.shape[0] != whole.shape[1]:
        raise UsageError("a Gram matrix is square")
    if len(whole) > LARGEST:
        raise UsageError(f"an optimum is found for at most {LARGEST} cells, there are {len(whole)}")
    if not bool(np.isfinite(whole).all()):
        raise UsageError("a Gram matrix is finite")
    largest = float(np.abs(whole).max(initial=0.0))
    if not float(np.abs(whole - whole.T).max(initial=0.0)) <= 1e-9 * largest:
        raise UsageError("a Gram matrix is symmetric")
    if not largest > 0:
        raise UsageError("some query counts some cell")
    if not bool((np.diagonal(whole) >= 0).all()):
        raise UsageError("a Gram matrix has no negative diagonal")
    return (whole + whole.T) / 2


def atoms(gram: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first cell of each atom, and for every cell the place of its atom; -1 is not counted.

    Two cells have the same column in W exactly if their rows of G are the same.
    """
    counted = np.flatnonzero(np.diagonal(gram) > 0)
    rows = np.ascontiguousarray(gram[counted] + 0.0)  # no -0.0
    keys = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    column = np.full(len(gram), -1, np.int64)
    column[counted] = place[inverse.ravel()]
    return counted[first[order]], column


def feasible(gram: Floats, spectrum: Spectrum) -> Reached:
    """The best X at hand: columns scaled by the largest, or each to norm 1, or those above 1."""
    best = by_largest(spectrum)
    if len(spectrum.roots) < len(gram):
        return best
    root = np.sqrt(spectrum.weights)
    inverse = (spectrum.vectors / spectrum.roots) @ spectrum.vectors.T
    parts = gram * root[:, None] * root * inverse  # entries of G times those of X^-1
    norms = np.sqrt(spectrum.excess)
    for divisors in (norms, np.maximum(norms, 1.0)):
        value = float(divisors @ parts @ divisors)
        if 0 < value < best[0]:
            best = value, divisors
    return best


def strategy(found: Ascent) -> Floats:
    """M (rank, cells) with M'M = X of the best weights found."""
    spectrum = found.best
    columns = np.sqrt(spectrum.weights) * found.divisors
    matrix: Floats = np.sqrt(spectrum.roots)[:, None] * spectrum.vectors.T / columns
    return matrix / max(1.0, math.sqrt(float((matrix**2).sum(0).max())))


def spread(matrix: Floats, column: NDArray[np.int64]) -> Floats:
    """The columns of atoms at all their cells, zero where nothing is counted."""
    padded = np.hstack([matrix, np.zeros((len(matrix), 1))])
    return np.ascontiguousarray(padded[:, column])
