"""Queries on cells as a matrix that need not be written out: listed, prefixes, ranges.

All of them take weights on queries and give their Gram matrix W' diag(u) W, and take a symmetric
(cells, cells) matrix S and give w S w' for each query w. A range of n cells is a difference of two
of n + 1 prefixes, which is why neither needs more than n^2 numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import UsageError
from dpsql.mechanisms.strategies.spectrum import Floats


class Rows(Protocol):
    """A workload of `count` queries on `cells` cells."""

    @property
    def count(self) -> int: ...

    @property
    def cells(self) -> int: ...

    def gram(self, weights: Floats | None = None) -> Floats:
        """W' diag(u) W (cells, cells) for weights u (count,), all 1 by default."""
        ...

    def variances(self, covariance: Floats) -> Floats:
        """w S w' (count,) for S (cells, cells)."""
        ...


@dataclass(frozen=True, slots=True)
class Listed:
    """The rows of a matrix W (queries, cells)."""

    matrix: Floats

    def __post_init__(self) -> None:
        if self.matrix.ndim != 2 or not bool(np.isfinite(self.matrix).all()):
            raise UsageError("queries are the rows of a finite matrix")

    @property
    def count(self) -> int:
        return len(self.matrix)

    @property
    def cells(self) -> int:
        return int(self.matrix.shape[1])

    def gram(self, weights: Floats | None = None) -> Floats:
        if weights is None:
            return self.matrix.T @ self.matrix
        half = self.matrix * np.sqrt(weights)[:, None]
        return half.T @ half

    def variances(self, covariance: Floats) -> Floats:
        found: Floats = ((self.matrix @ covariance) * self.matrix).sum(1)
        return found


@dataclass(frozen=True, slots=True)
class Prefixes:
    """The n running totals of n cells: query i counts cells 0 .. i."""

    cells: int

    def __post_init__(self) -> None:
        if not self.cells > 0:
            raise UsageError("prefixes are of one cell at least")

    @property
    def count(self) -> int:
        return self.cells

    def gram(self, weights: Floats | None = None) -> Floats:
        shares = np.ones(self.cells) if weights is None else weights
        left = np.cumsum(shares[::-1])[::-1]  # the queries that count cell i
        at = np.arange(self.cells)
        return np.asarray(left[np.maximum.outer(at, at)], np.float64)

    def variances(self, covariance: Floats) -> Floats:
        return np.diagonal(covariance.cumsum(0).cumsum(1)).copy()


@dataclass(frozen=True, slots=True)
class Ranges:
    """The n (n + 1) / 2 ranges of n cells, ordered by their first cell and then their last."""

    cells: int

    def __post_init__(self) -> None:
        if not self.cells > 0:
            raise UsageError("ranges are of one cell at least")

    @property
    def count(self) -> int:
        return self.cells * (self.cells + 1) // 2

    def gram(self, weights: Floats | None = None) -> Floats:
        at = np.arange(self.cells)
        low, high = np.minimum.outer(at, at), np.maximum.outer(at, at)
        if weights is None:
            return np.asarray((low + 1.0) * (self.cells - high), np.float64)
        square = np.zeros((self.cells, self.cells))
        square[np.triu_indices(self.cells)] = weights
        over = square.cumsum(0)[:, ::-1].cumsum(1)[:, ::-1]  # from at most i to at least j
        return np.asarray(over[low, high], np.float64)

    def variances(self, covariance: Floats) -> Floats:
        total = np.zeros((self.cells + 1, self.cells + 1))
        total[1:, 1:] = covariance.cumsum(0).cumsum(1)
        own = np.diagonal(total)
        pairs = own[None, 1:] + own[:-1, None] - 2 * total[:-1, 1:]
        return np.asarray(pairs[np.triu_indices(self.cells)], np.float64)


def matrix(rows: Rows) -> NDArray[np.int64]:
    """Prefixes or ranges written out, as a 0/1 matrix (count, cells)."""
    at = np.arange(rows.cells)
    match rows:
        case Prefixes():
            return np.asarray(at <= at[:, None], np.int64)
        case Ranges():
            first, last = np.triu_indices(rows.cells)
            return np.asarray((at >= first[:, None]) & (at <= last[:, None]), np.int64)
        case _:
            raise UsageError("prefixes and ranges are written out, other queries are so already")
