"""Integer strategies of one axis: matrices Q with Q 1 = 0 that see all an axis asks but the total.

Measured with independent noise they realise a residual plan: y = Q x + noise on whole numbers, and
W C = (W Q^+) Q holds for the integers themselves, so rounding costs accuracy, never truth.

**Every value.** Q'Q must be a multiple of C = I - 11'/n. Q = n I - 11' gives n^2 C and is never
formed; +-1 rows of a Hadamard matrix (Sylvester 1867) give n C with one row less. Both are exactly
optimal and cost all values the same.

**Prefixes, ranges, given rows.** X = Q'Q is the optimum of `centred`, from rows sqrt(l_k) v_k' of
its eigenvectors, scaled and rounded so that each row sums to nothing. Where W C has fewer than
n - 1 independent rows, rounding would add directions of its own: there a small matrix is rounded
and multiplied with independent rows of n W C, which are whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias, TypeVar

import numpy as np

from dpsql.mechanisms.axes import Along, Floats, Identity, Ints, Rows, quadratic
from dpsql.mechanisms.centred import Optimum, optimum, spectrum

Numbers = TypeVar("Numbers", Floats, Ints)

_HADAMARD = 16  # values of an axis, at most
_FACTORS = 33  # by which a strategy is multiplied before it is rounded
_SMALLEST = 0.75  # of the largest factor
_COARSE = 8  # the least largest entry of a rounded strategy


@dataclass(frozen=True, slots=True)
class Centred:
    """Q = n I - 11', by its products: n x - sum x."""

    size: int

    @property
    def rows(self) -> int:
        return self.size

    @property
    def largest(self) -> int:
        """The largest entry, in size."""
        return self.size - 1

    @property
    def norm(self) -> int:
        """The largest squared norm of a column."""
        return self.size * (self.size - 1)

    @property
    def norms(self) -> Ints:
        """The squared norm of each column, (size,)."""
        return np.full(self.size, self.norm, np.int64)

    @property
    def even(self) -> int:
        """The product of any two different columns."""
        return -self.size

    def measured(self, counts: Numbers, axis: int) -> Numbers:
        """Q applied along an axis of counts."""
        found: Numbers = self.size * counts - counts.sum(axis=axis, keepdims=True)
        return found

    def undone(self, seen: Floats, axis: int) -> Floats:
        """Q^+ applied along an axis: Q^+ = C / n."""
        found: Floats = (seen - seen.mean(axis=axis, keepdims=True)) / self.size
        return found

    def turned(self, weights: Floats, axis: int) -> Floats:
        """The transpose of Q^+ applied along an axis."""
        return self.undone(weights, axis)

    def spread(self, along: Along) -> Floats:
        """The diagonal of W Q^+ (W Q^+)', (answers,)."""
        n = self.size
        if isinstance(along, Identity):
            return np.full(n, (n - 1) / n**3)
        return quadratic(along, (np.eye(n) - 1.0 / n) / n**2)


@dataclass(frozen=True, eq=False)
class Dense:
    """A matrix of whole numbers, (rows, size), of full row rank; `even` as in `Centred`, or None
    where the columns differ in their products."""

    matrix: Ints
    even: int | None = None

    def __post_init__(self) -> None:
        if self.matrix.sum(axis=1).any():
            raise ValueError("a row does not sum to 0")
        if self.largest >= 1 << 24:
            raise OverflowError("entries beyond 24 bits")

    @property
    def size(self) -> int:
        return int(self.matrix.shape[1])

    @property
    def rows(self) -> int:
        return len(self.matrix)

    @cached_property
    def largest(self) -> int:
        """The largest entry, in size."""
        return int(np.abs(self.matrix).max())

    @cached_property
    def norm(self) -> int:
        """The largest squared norm of a column."""
        return int(self.norms.max())

    @cached_property
    def norms(self) -> Ints:
        """The squared norm of each column, (size,); exact: at most 2^48 x rows."""
        found: Ints = (self.matrix**2).sum(axis=0)
        return found

    @cached_property
    def inverse(self) -> Floats:
        """Q^+, (size, rows)."""
        return np.linalg.pinv(self.matrix.astype(np.float64))

    def measured(self, counts: Numbers, axis: int) -> Numbers:
        """Q applied along an axis of counts."""
        matrix = self.matrix.astype(counts.dtype)
        return np.moveaxis(np.tensordot(matrix, counts, axes=(1, axis)), 0, axis)

    def undone(self, seen: Floats, axis: int) -> Floats:
        """Q^+ applied along an axis."""
        return np.moveaxis(np.tensordot(self.inverse, seen, axes=(1, axis)), 0, axis)

    def turned(self, weights: Floats, axis: int) -> Floats:
        """The transpose of Q^+ applied along an axis."""
        return np.moveaxis(np.tensordot(self.inverse, weights, axes=(0, axis)), 0, axis)

    def spread(self, along: Along) -> Floats:
        """The diagonal of W Q^+ (W Q^+)', (answers,)."""
        return quadratic(along, self.inverse @ self.inverse.T)


Basis: TypeAlias = Centred | Dense


def exact(along: Along) -> Centred | Dense | None:
    """The strategy of an axis that needs no rounding, or None.

    Such are axes whose every value is asked, and those of two values, which differ in one way.
    """
    plain = isinstance(along, Identity) or along.size == 2
    return _identity(along.size) if plain else None


@lru_cache(maxsize=256)
def _identity(size: int) -> Basis:
    if size < 2:
        raise ValueError("an axis of one value has nothing beyond the total")
    if size > _HADAMARD or size & (size - 1):
        return Centred(size)
    signs = np.ones((1, 1), np.int64)
    while len(signs) < size:
        signs = np.block([[signs, signs], [signs, -signs]])
    return Dense(signs[1:], -1)


@lru_cache(maxsize=256)
def basis(along: Along, largest: int, best: Optimum = optimum) -> Basis:
    """The strategy of an axis with entries of at most `largest` in size.

    Raises ValueError where that is too coarse for what is asked.
    """
    made = exact(along)
    if made is None:
        roots = _roots(along, best)
        if isinstance(along, Rows) and len(roots) < along.size - 1:
            made = Dense(_spanned(along, roots, largest))
        else:
            made = Dense(_rounded(roots, largest))
        if np.linalg.matrix_rank(made.matrix) < len(roots):
            raise ValueError(_too_coarse(largest))
    if made.largest > largest:
        raise ValueError(_too_coarse(largest))
    return made


def _too_coarse(largest: int) -> str:
    return f"an axis cannot be measured with whole numbers of at most {largest}"


@lru_cache(maxsize=64)
def _roots(along: Along, best: Optimum) -> Floats:
    """M with M'M = X, (rank, size), its rows by falling norm."""
    values, vectors = spectrum(along, best)
    found: Floats = (vectors * np.sqrt(values)).T[::-1]
    return found


def _rounded(roots: Floats, largest: int) -> Ints:
    """The rows times a factor, rounded; of many factors the one that evens the columns best."""
    if largest < _COARSE:
        raise ValueError(_too_coarse(largest))
    most = (largest - 1) / float(np.abs(roots).max())
    least, found = np.inf, None
    for factor in (most * np.linspace(1.0, _SMALLEST, _FACTORS)).tolist():
        whole = _near(roots * factor)
        even = float((whole**2).sum(axis=0).max()) / factor**2
        if even < least:
            least, found = even, whole
    if found is None:
        raise ValueError(_too_coarse(largest))
    return found


def _near(scaled: Floats) -> Ints:
    """Whole numbers that sum to nothing in each row, as the given ones do.

    All are rounded down, then those with the largest remainders up, as many as are wanting.
    """
    whole = np.floor(scaled)
    order = np.argsort(whole - scaled, axis=1, kind="stable")
    wanting = -whole.sum(axis=1).astype(np.int64)
    raised = np.arange(scaled.shape[1]) < wanting[:, None]
    np.put_along_axis(whole, order, np.take_along_axis(whole, order, axis=1) + raised, axis=1)
    found: Ints = whole.astype(np.int64)
    return found


def _spanned(along: Rows, roots: Floats, largest: int) -> Ints:
    """T K for independent rows K of n W C and a rounded T, so that T K is like the roots; of many
    factors of T the one with the least error."""
    centred = along.matrix * along.size - along.matrix.sum(axis=1, keepdims=True)
    whole = centred // np.gcd.reduce(centred, axis=1).clip(min=1)[:, None]
    rows: Ints = whole[_independent(whole.astype(np.float64), len(roots))]
    if len(rows) == 1:
        return rows
    turn = roots @ np.linalg.pinv(rows.astype(np.float64))
    most = largest / float(np.abs(roots).max())
    least, found = np.inf, None
    for factor in (most * np.linspace(1.0, 1 - _SMALLEST, _FACTORS)).tolist():
        made: Ints = np.rint(turn * factor).astype(np.int64) @ rows
        if int(np.abs(made).max()) <= largest and np.linalg.matrix_rank(made) == len(roots):
            squares = (centred @ np.linalg.pinv(made.astype(np.float64))) ** 2
            error = float(squares.sum()) * float((made**2).sum(axis=0).max())
            if error < least:
                least, found = error, made
    if found is None:
        raise ValueError(_too_coarse(largest))
    return found


def _independent(rows: Floats, rank: int) -> list[int]:
    """Places of so many independent rows, the farthest from those before them first."""
    left, chosen = rows / np.sqrt((rows**2).sum(axis=1, keepdims=True)).clip(min=1e-300), []
    for _ in range(rank):
        at = int((left**2).sum(axis=1).argmax())
        chosen.append(at)
        unit = left[at] / math.sqrt(float(left[at] @ left[at]))
        left = left - np.outer(left @ unit, unit)
    return chosen
