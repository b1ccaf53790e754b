"""Random tables, residual strategies as dense matrices, and their measurement with seeded noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from dpsql.mechanisms.axes import Along, Identity, Prefix, Ranges, Rows
from dpsql.mechanisms.parts import Part, Strategy

Columns = tuple[int, ...]


def marginal(counts: np.ndarray, columns: Columns) -> np.ndarray:
    """The counts of some columns of a table with an axis for each column."""
    return counts.sum(axis=tuple(i for i in range(counts.ndim) if i not in columns))


def drawn(part: Part, noise: str, rng: np.random.Generator) -> np.ndarray:
    """Noise for the rows of a part: none, or a Gaussian's, continuous or discrete."""
    stddev = math.sqrt(part.variance)
    if noise == "none":
        return np.zeros(part.shape, np.int64)
    if noise == "gaussian":
        return rng.normal(0.0, stddev, part.shape)
    if stddev > 100:  # rounding adds 1/12 to the variance
        return np.rint(rng.normal(0.0, stddev, part.shape)).astype(np.int64)
    points = np.arange(-math.ceil(12 * stddev) - 1, math.ceil(12 * stddev) + 2)
    chances = np.exp(-(points**2) / (2 * float(part.variance)))
    return rng.choice(points, part.shape, p=chances / chances.sum())


def measured(
    strategy: Strategy, counts: np.ndarray, noise: str, rng: np.random.Generator
) -> Mapping[Columns, np.ndarray]:
    """The noisy rows of all parts."""
    return {
        part.columns: part.measured(marginal(counts, part.columns)) + drawn(part, noise, rng)
        for part in strategy.parts
    }


def matrix(along: Along) -> np.ndarray:
    """W of one axis, from its definition."""
    n = along.size
    match along:
        case Identity():
            return np.eye(n)
        case Prefix():
            return np.array([[float(j <= i) for j in range(n)] for i in range(n)])
        case Ranges():
            return np.array(
                [[float(a <= j <= b) for j in range(n)] for a in range(n) for b in range(a, n)]
            )
        case Rows():
            return np.array(along.rows, float)


def kron(axes: Sequence[Along], inside: Mapping[int, np.ndarray]) -> np.ndarray:
    """The product of matrices of some axes, and of sums over all others."""
    found = np.ones((1, 1))
    for i, along in enumerate(axes):
        found = np.kron(found, inside.get(i, np.ones((1, along.size))))
    return found


def workload(axes: Sequence[Along], columns: Columns) -> np.ndarray:
    """W_B on the cells of the whole table."""
    return kron(axes, {i: matrix(axes[i]) for i in columns})


def rows_of(part: Part, axes: Sequence[Along]) -> np.ndarray:
    """Q_A on the cells of the whole table, from what is measured of a row in each cell."""
    sizes = [along.size for along in axes]
    found = []
    for cell in np.ndindex(*sizes):
        one = np.zeros(sizes, np.int64)
        one[cell] = 1
        found.append(part.measured(marginal(one, part.columns)).reshape(-1))
    return np.stack(found, axis=1)


def least_squares(strategy: Strategy) -> tuple[np.ndarray, np.ndarray]:
    """Q of all parts and the inverse of Q' S^-1 Q, dense: the judge of what is rebuilt."""
    rows = [rows_of(part, strategy.axes) for part in strategy.parts]
    scaled = [r / math.sqrt(p.variance) for r, p in zip(rows, strategy.parts, strict=True)]
    stacked = np.concatenate(scaled)
    return np.concatenate(rows), np.linalg.pinv(stacked.T @ stacked, rcond=1e-12, hermitian=True)
