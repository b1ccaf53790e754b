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

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.strategies.largest import smallest_largest
from dpsql.mechanisms.strategies.optimum import Optimum, optimum, svd_bound
from dpsql.mechanisms.strategies.rows import Listed as Given
from dpsql.mechanisms.strategies.separable import Rows
from dpsql.mechanisms.strategies.strategy_cache import StrategyCache, folder, key
from dpsql.query.axis import Axis, Haar, Listed, Toeplitz, haar_levels

Floats: TypeAlias = NDArray[np.float64]

BOUND = 1 << 10  # cells whose columns give a bound on every strategy
OPTIMAL = 1 << 10  # atoms for which the optimum is found in a second or few
FIRST = 1 << 11  # and its first step, which has no like for the largest error
_CACHED = 1 << 8  # atoms of strategies that are kept on disk
_GRID = 1 << 13  # of the largest entry of a matrix
_SCALES = 1 << 11  # of the largest scale of a column
_GAP, _WORST = 5e-4, 5e-3  # of the optimum, and of that for the largest error
_STEPS, _LONG = 400, 20  # eigendecompositions for the latter, and on long axes, where each is slow
_FULL = 1e-5  # of the largest diagonal entry, lent to directions that nobody asks about


@dataclass(frozen=True, slots=True, eq=False)
class Along:
    """A strategy of an axis: its name, its matrix, and the squared error of each row, of columns of
    length 1; and what no strategy's error is `below`, by the weights that it was made for."""

    name: str
    axis: Axis
    errors: Floats
    below: float

    @classmethod
    def of(cls, name: str, axis: Axis, rows: Rows, below: float) -> Along:
        return cls(name, axis, rows.norms(axis) * float(axis.norms.max()), below)

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
    if size <= (OPTIMAL if largest else FIRST):
        yield Along.of("numerical optimum", *_optimal(rows, weights, largest))
        return
    below = 0.0 if largest else bound(rows, weights)
    yield Along.of("identity", Toeplitz(_one(1), _one(size)), rows, below)
    yield Along.of("Haar", haar(rows, weights), rows, below)
    for kind, even in (("", False), (" of like columns", True)):
        name = f"square-root Toeplitz{kind}"
        yield Along.of(name, root(size, even), rows, below)


def bound(rows: Rows, weights: Floats) -> float:
    """A bound from below on the weighted squared error of every strategy.

    That of running counts alike has a closed form, the singular values of all prefixes; else the
    one at equal weights on some of the atoms, evenly spread.
    """
    count = rows.count
    running = count == len(rows.low) == int(rows.high.max()) and not rows.low.any()
    if running and np.allclose(weights, weights[0], rtol=1e-9) and (rows.weight == 1.0).all():
        angles = (2 * np.arange(count) + 1) * (math.pi / (4 * count + 2))
        return float(weights.min() * (0.5 / np.sin(angles)).sum() ** 2 / count)
    some = np.linspace(0, rows.atoms - 1, min(rows.atoms, BOUND)).astype(int)
    gram, step = np.zeros((len(some),) * 2), max((1 << 22) // rows.atoms, 1)
    for start in range(0, count, step):
        own = np.arange(start, min(start + step, count))
        each = rows.some(own).dense()[:, some]
        gram += (each.T * weights[own]) @ each
    return svd_bound(gram, 1.0) ** 2


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


def _optimal(rows: Rows, weights: Floats, largest: bool) -> tuple[Listed, Rows, float]:
    """The optimum in whole numbers, and what no error is below."""
    size = rows.atoms
    if size == 1:
        one, alone = Listed(np.ones((1, 1), np.int64)), rows.weight**2
        return one, rows, float(alone.max() if largest else weights @ alone)
    much, below = 1.0 if largest else float(weights.sum()), 0.0
    if largest:
        dense = rows.dense()
        name = key("largest error along an axis", gap=_WORST, rows=dense)
        steps = _STEPS if size <= _CACHED else _LONG
        found = _kept(name, size, lambda: smallest_largest(Given(dense), gap=_WORST, most=steps))
    else:
        gram = rows.gram(weights / much)
        lent = _FULL * float(np.diagonal(gram).max())
        if np.linalg.matrix_rank(gram, hermitian=True) < size:
            below = bound(rows, weights)  # that of the gram with more is another one
            gram.flat[:: size + 1] += lent
        gap = _GAP if size <= OPTIMAL // 2 else 1.0
        name = key("weighted error along an axis", gap=gap, gram=gram)
        found = _kept(name, size, lambda: optimum(gram, 1.0, gap=gap))
    return _whole(found.matrix), rows, below or much * found.lower**2


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
