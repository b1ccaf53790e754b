"""A strategy on a grid of integers: what is measured, how far it moves, how answers are read off.

Noise is drawn on integers, so M becomes A = round(2^b M). The reconstruction R comes from A, not
from M: W = R A up to floating point, so answers are unbiased and the grid costs next to nothing.
Sensitivity is computed from A as it is measured, in integers: float64 products of integers are
exact as long as no partial sum reaches 2^53, which is checked first, and Python's integers serve
where that fails.

Where W has less than full rank, rounding M would leave its row space. Then, and for noise designed
on the answers (`querycov.py`), the rounded matrix is on the side of the queries: A = round(2^b T),
and A W is measured, which no rounding takes out of the row space.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import UsageError
from dpsql.mechanisms.reach import Moved, farthest, largest
from dpsql.mechanisms.spectrum import Floats

Ints: TypeAlias = NDArray[np.int64]

MOST_BITS = 20
LEAST_BITS = 12
ROWS = 1 << 40  # of a table, at most
_HELD = 1 << 62  # no measured sum reaches that
_CLOSE = 1e-8  # of the largest weight: the residual of W = R A
_KEPT = 1e-10  # a singular value, relative to the largest, that counts as one


@dataclass(frozen=True, slots=True)
class IntegerStrategy:
    """What is measured, and how answers follow from it.

    `matrix` is A: of shape (rows, cells), measured as A h; or, where `of_answers`, of shape
    (rows, queries), measured as A W h. `squared` is the squared L2 sensitivity when a row comes or
    goes, `replaced` when one is replaced or leaves the domain: exact, or a bound from above where
    `exact` is false. `reconstruction` is R (queries, rows).
    """

    matrix: Ints
    of_answers: bool
    bits: int
    squared: int
    replaced: int
    exact: bool
    reconstruction: Floats

    def __post_init__(self) -> None:
        if self.matrix.dtype != np.int64 or self.matrix.ndim != 2:
            raise ValueError("an integer strategy is a matrix of int64")
        if not 0 < self.squared <= self.replaced <= 4 * self.squared:
            raise ValueError("replacing a row moves at least as far as a row, at most twice")
        if self.reconstruction.shape[1:] != self.matrix.shape[:1]:
            raise ValueError("a reconstruction has a column for every measured row")

    def covariance(self, variance: float) -> Floats:
        """The covariance of the answers (queries, queries) for noise of a variance on each row."""
        return self.reconstruction @ self.reconstruction.T * variance

    def stddevs(self, variance: float) -> Floats:
        """The standard error of each answer, in rows of the table."""
        found: Floats = np.sqrt((self.reconstruction**2).sum(1) * variance)
        return found

    def stddev(self, combined: Floats, variance: float) -> float:
        """The standard error of a combination (queries,) of the answers, such as a difference."""
        return float(np.linalg.norm(combined @ self.reconstruction)) * float(np.sqrt(variance))


def of_cells(strategy: Floats, workload: NDArray[np.generic]) -> IntegerStrategy:
    """M (rows, cells) on the grid, for W (queries, cells).

    Raises UsageError when W is not in the row space of M.
    """
    wanted = np.asarray(workload, np.float64)
    if strategy.ndim != 2 or wanted.ndim != 2 or wanted.shape[1] != strategy.shape[1]:
        raise UsageError("a strategy and a workload are on the same cells")
    moved, bits = _rounded(strategy, None)
    matrix = moved.matrix
    back = _reconstruction(wanted, matrix)
    if back is None:
        matrix, bits, back = _through_answers(strategy, wanted)
        moved = Moved(matrix)
    replaced, exact = farthest(moved)
    return IntegerStrategy(matrix, False, bits, largest(moved), replaced, exact, back)


def of_answers(root: Floats, columns: NDArray[np.integer[Any]]) -> IntegerStrategy:
    """T (rows, queries) on the grid, for every distinct column (queries, columns) of W.

    T'T is the inverse of the noise's covariance on the span of the columns. Raises UsageError when
    some column is not read off from what T measures.
    """
    if root.ndim != 2 or columns.ndim != 2 or columns.shape[0] != root.shape[1]:
        raise UsageError("a root has a column for every query")
    if not np.issubdtype(columns.dtype, np.integer):
        raise UsageError("columns are integers")
    moved, bits = _rounded(root, columns)
    matrix = moved.matrix
    if root.shape[0] == root.shape[1]:
        back = np.linalg.pinv(matrix.astype(np.float64), rcond=1e-15)
    else:
        _, _, span = np.linalg.svd(root, full_matrices=False)
        back = span.T @ np.linalg.pinv(matrix.astype(np.float64) @ span.T)
    low = 0
    for part in moved:
        high = low + part.shape[1]
        if not _close(back @ part.astype(np.float64), columns[:, low:high]):
            raise UsageError("some column of the workload is not in the span of the strategy")
        low = high
    replaced, exact = farthest(moved)
    return IntegerStrategy(matrix, True, bits, largest(moved), replaced, exact, back)


# -- the grid ------------------------------------------------------------------------------------


def _rounded(matrix: Floats, columns: NDArray[np.integer[Any]] | None) -> tuple[Moved, int]:
    """round(2^b M) on its columns, at the most bits b whose sums over a table cannot overflow."""
    if not bool(np.isfinite(matrix).all()):
        raise UsageError("a strategy is finite")
    for bits in range(MOST_BITS, LEAST_BITS - 1, -1):
        if not float(np.abs(matrix).max(initial=0.0)) * 2.0**bits < 2.0**40:
            continue
        moved = Moved(np.rint(matrix * 2.0**bits).astype(np.int64), columns)
        most = max(int(np.abs(part).max(initial=0)) for part in moved)
        if not most > 0:
            raise UsageError("a strategy measures something")
        if most * ROWS < _HELD:
            return moved, bits
    raise UsageError("a strategy's entries are too large for a grid of integers")


def _reconstruction(wanted: Floats, matrix: Ints) -> Floats | None:
    """R with W = R A, of the least norm; None when there is none."""
    values = matrix.astype(np.float64)
    distinct = np.unique(values, axis=1)
    distinct = distinct[:, distinct.any(0)]
    try:
        if distinct.shape[0] == distinct.shape[1] == values.shape[1]:
            found = np.linalg.solve(values.T, wanted.T).T
        else:
            found = wanted @ np.linalg.pinv(values, rcond=_KEPT)
    except np.linalg.LinAlgError:
        return None
    return np.ascontiguousarray(found) if _close(found @ values, wanted) else None


def _close(found: Floats, wanted: NDArray[np.generic]) -> bool:
    """Whether a product is what it should be."""
    target = np.asarray(wanted, np.float64)
    far = float(np.abs(found - target).max(initial=0.0))
    return far <= _CLOSE * max(float(np.abs(target).max(initial=0.0)), 1e-300)


def _through_answers(strategy: Floats, wanted: Floats) -> tuple[Ints, int, Floats]:
    """A = round(2^b T) W with T W as good as M, for integer W in M's row space."""
    if not bool((wanted == np.rint(wanted)).all()):
        raise UsageError("a workload of less than full rank has integer weights")
    answers = wanted @ np.linalg.pinv(strategy, rcond=_KEPT)
    if not _close(answers @ strategy, wanted):
        raise UsageError("the workload is not in the row space of the strategy")
    left, sizes, _ = np.linalg.svd(answers, full_matrices=False)
    keep = sizes > _KEPT * sizes[0]
    root = left[:, keep].T / sizes[keep][:, None]
    moved, bits = _rounded(root, wanted.astype(np.int64))
    matrix = moved.all()
    back = _reconstruction(wanted, matrix)
    if back is None:
        raise UsageError("the workload is not in the row space of the strategy")
    return matrix, bits, back
