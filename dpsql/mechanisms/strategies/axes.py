"""What is asked along one axis: every value, all prefixes, all ranges, or the rows of a matrix.

A table over several axes asks W_1 x W_2 x ... of its cells (Kronecker). W itself is formed for
given rows alone. With n the size of the axis and 1 its ones, a
workload splits into W 1 1'/n, which needs the total, and W C with C = I - 11'/n, which does not
(Xiao et al. 2023, arXiv:2305.08175, for W = I).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

WEIGHT = 1 << 20  # of a cell in a given row, at most


@dataclass(frozen=True, slots=True)
class _Sized:
    """What follows from the number of values."""

    size: int

    def __post_init__(self) -> None:
        _check(self.size)

    @property
    def answers(self) -> int:
        return self.size


@dataclass(frozen=True, slots=True)
class Identity(_Sized):
    """Every value: W = I."""


@dataclass(frozen=True, slots=True)
class Prefix(_Sized):
    """Each value and all before it: W is lower triangular, its last row the total."""


@dataclass(frozen=True, slots=True)
class Ranges(_Sized):
    """All n(n+1)/2 ranges first..last, ordered by first, then by last."""

    @property
    def answers(self) -> int:
        return self.size * (self.size + 1) // 2

    @property
    def ends(self) -> tuple[Ints, Ints]:
        """First and last value of each range, (answers,) both."""
        first, last = np.triu_indices(self.size)
        return first.astype(np.int64), last.astype(np.int64)


@dataclass(frozen=True)
class Rows:
    """Given rows of whole weights, (answers, size); at most 2^20 each."""

    rows: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if not self.rows or len({len(row) for row in self.rows}) != 1:
            raise ValueError("rows of weights must be at least one, and of one length")
        _check(len(self.rows[0]))
        if any(type(weight) is not int for row in self.rows for weight in row):
            raise TypeError("weights must be whole numbers")
        if not max(abs(weight) for row in self.rows for weight in row) <= WEIGHT:
            raise ValueError(f"weights must be at most {WEIGHT}")

    @property
    def size(self) -> int:
        return len(self.rows[0])

    @property
    def answers(self) -> int:
        return len(self.rows)

    @cached_property
    def matrix(self) -> Ints:
        return np.array(self.rows, np.int64)


Along: TypeAlias = Identity | Prefix | Ranges | Rows


def _check(size: int) -> None:
    if not (type(size) is int and size >= 1):
        raise ValueError(f"an axis has at least one value, not {size!r}")


def means(along: Along) -> Floats:
    """W 1/n, (answers,): what each answer is when all values have the mean 1/n."""
    n = along.size
    match along:
        case Identity():
            return np.full(n, 1.0 / n)
        case Prefix():
            return np.arange(1, n + 1) / n
        case Ranges():
            first, last = along.ends
            lengths: Floats = (last - first + 1) / n
            return lengths
        case Rows():
            found: Floats = along.matrix.sum(axis=1) / n
            return found


def centred_gram(along: Along) -> Floats:
    """C W'W C, (size, size); its rows sum to nothing."""
    n = along.size
    at = np.arange(n)
    match along:
        case Identity():
            gram = np.eye(n)
        case Prefix():
            gram = (n - np.maximum.outer(at, at)).astype(np.float64)
        case Ranges():
            gram = (np.minimum.outer(at, at) + 1.0) * (n - np.maximum.outer(at, at))
        case Rows():
            rest = along.matrix - means(along)[:, None]
            gram = rest.T @ rest
    return centred(gram)


def quadratic(along: Along, inner: Floats) -> Floats:
    """The diagonal of W S W', (answers,), for a symmetric S, (size, size)."""
    match along:
        case Identity():
            return np.diag(inner).copy()
        case Prefix():
            return np.diag(inner.cumsum(axis=0).cumsum(axis=1)).copy()
        case Ranges():
            below = np.zeros((along.size + 1, along.size + 1))
            below[1:, 1:] = inner.cumsum(axis=0).cumsum(axis=1)
            first, last = along.ends
            alone = np.diag(below)
            found: Floats = alone[last + 1] + alone[first] - 2 * below[first, last + 1]
            return found
        case Rows():
            each: Floats = np.einsum(
                "ki,ij,kj->k", along.matrix, inner, along.matrix, optimize=True
            )
            return each


def centred(gram: Floats) -> Floats:
    """C S C for a matrix S: rows and columns sum to nothing."""
    found = gram - gram.mean(axis=0)
    both: Floats = found - found.mean(axis=1, keepdims=True)
    return both
