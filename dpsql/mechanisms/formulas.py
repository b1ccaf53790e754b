"""Strategies along one axis: the optimum where it is soon found, else the best by formula.

All are square integer matrices M, measured with noise of variance 1 and judged by what they really
are: a row q errs by |q M^-1|^2, times the largest squared length of a column of M. Priced are

    identity; Haar's rows with the best factor on each level, which is the binary tree's strategy
    (of squared factors in proportion to the root of what the level's noise adds to the error);
    and for axes that are longer the square root of all prefixes, a lower triangular matrix with
    c_k = c_(k-1) (2k - 1) / (2k) below its diagonal, as it is and with columns of one length.

The optimum is the fixed point of `optimum`, on long axes its first step, which is within 0.2 % of
it for prefixes and ranges; where it is found no formula errs less, and none is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.largest import smallest_largest
from dpsql.mechanisms.optimum import Optimum, optimum
from dpsql.mechanisms.rows import Listed as Given
from dpsql.mechanisms.separable import Rows
from dpsql.mechanisms.strategy_cache import StrategyCache, folder, key
from dpsql.query.axis import Axis, Haar, Listed, Toeplitz, haar_levels

Floats: TypeAlias = NDArray[np.float64]

OPTIMAL = 1 << 9  # atoms for which the optimum is found in a second
FIRST = 1 << 11  # and its first step in seconds
_CACHED = 1 << 8  # atoms of strategies that are kept on disk
_GRID = 1 << 13  # of the largest entry of a matrix
_SCALES = 1 << 8  # of the largest scale of a column
_GAP, _WORST = 5e-4, 5e-3  # of the optimum, and of that for the largest error
_STEPS, _LONG = 400, 12  # eigendecompositions for the latter, and on long axes, where each is slow
_FULL = 1e-5  # of the largest diagonal entry, lent to directions that nobody asks about


@dataclass(frozen=True, slots=True, eq=False)
class Along:
    """A strategy of an axis: its name, its matrix, and the squared error of each row, of columns of
    length 1."""

    name: str
    axis: Axis
    errors: Floats

    @classmethod
    def of(cls, name: str, axis: Axis, rows: Rows) -> Along:
        return cls(name, axis, rows.norms(axis) * float(axis.norms.max()))

    def error(self, weights: Floats, largest: bool) -> float:
        """The sum of weighted squared errors, or the largest of those with a weight."""
        if largest:
            return float(self.errors[weights > 0].max())
        return float(weights @ self.errors)


def along(rows: Rows, weights: Floats, largest: bool) -> list[Along]:
    """The strategies for some rows, that of least weighted (or least largest) error first."""
    found = list(_tried(rows, weights, largest))
    return sorted(found, key=lambda each: each.error(weights, largest))


def _tried(rows: Rows, weights: Floats, largest: bool) -> Iterator[Along]:
    size = rows.atoms
    if size <= FIRST:
        yield Along.of("optimum", _optimal(rows, weights, largest), rows)
        return
    yield Along.of("identity", Toeplitz(_one(1), _one(size)), rows)
    yield Along.of("Haar", haar(rows, weights), rows)
    for name, even in (("square root", False), ("square root, normalised", True)):
        yield Along.of(name, root(size, even), rows)


def _one(size: int) -> NDArray[np.int64]:
    return np.ones(size, np.int64)


def root(size: int, even: bool) -> Toeplitz:
    """The square root of all prefixes, its columns of one length if `even`."""
    at = np.arange(1.0, size)
    steps = np.concatenate([[1.0], np.cumprod((2 * at - 1) / (2 * at))])
    scales = np.ones(size)
    if even:
        scales = 1.0 / np.sqrt((steps**2).cumsum()[::-1])
        scales = np.rint(scales / scales.max() * _SCALES)
    return Toeplitz(np.rint(steps * _GRID).astype(np.int64), scales.astype(np.int64))


def haar(rows: Rows, weights: Floats) -> Haar:
    """Haar's rows with the best factors for rows of these weights."""
    levels = haar_levels(rows.atoms)
    added = np.zeros(rows.atoms)
    step = max((1 << 22) // rows.atoms, 1)
    plain = Haar(rows.atoms, (1,) * levels)
    for start in range(0, rows.count, step):
        some = np.arange(start, min(start + step, rows.count))
        added += weights[some] @ plain.turned(rows.some(some).dense()) ** 2
    sizes, size = [], rows.atoms
    while size > 1:
        sizes.append(size // 2)
        size = (size + 1) // 2
    ends = np.cumsum([*sizes, 1])
    errors = np.add.reduceat(added, ends - [*sizes, 1])
    factors = np.sqrt(np.sqrt(np.maximum(errors, 1e-12 * errors.max())))
    return Haar(rows.atoms, tuple(np.rint(factors / factors.min() * 64).astype(int).tolist()))


def _optimal(rows: Rows, weights: Floats, largest: bool) -> Listed:
    """The optimum in whole numbers."""
    size = rows.atoms
    if size == 1:
        return Listed(np.ones((1, 1), np.int64))
    if largest:
        dense = rows.dense()
        name = key("largest error along an axis", gap=_WORST, rows=dense)
        found = _kept(
            name, size, lambda: smallest_largest(Given(dense), gap=_WORST, most=_most(size))
        )
    else:
        gram = rows.gram(weights / weights.sum())
        gram.flat[:: size + 1] += _FULL * float(np.diagonal(gram).max())
        gap = _GAP if size <= OPTIMAL else 1.0
        name = key("weighted error along an axis", gap=gap, gram=gram)
        found = _kept(name, size, lambda: optimum(gram, 1.0, gap=gap))
    return _whole(found.matrix)


def _whole(matrix: Floats) -> Listed:
    """M'M = X and next to nothing more, so that it has an inverse, as an M in whole numbers."""
    inner = matrix.T @ matrix
    inner.flat[:: len(inner) + 1] += _FULL * float(np.diagonal(inner).max())
    root = np.linalg.cholesky(inner).T
    return Listed(np.rint(root * (_GRID / float(np.abs(root).max()))).astype(np.int64))


def _kept(name: str, size: int, find: Callable[[], Optimum]) -> Optimum:
    """What was found before, or is found and kept, of long axes."""
    if size < _CACHED:
        return find()
    cache = StrategyCache(folder())
    known = cache.optimum(name)
    if known is None:
        known = find()
        cache.keep_optimum(name, known)
    return known
