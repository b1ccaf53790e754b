"""How far integer columns reach: products, largest norms and farthest pairs, exactly.

float64 holds every integer below 2^53, so sums and products of integers are exact in it as long as
no partial sum can reach that; fused or reordered sums of a library are then exact as well. Where a
bound on the partial sums says no, Python's integers do the work.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]

_EXACT = 1 << 53
_WORD = 1 << 62
_BLOCK = 1 << 22  # entries that are held as floats
_COMPARED = 6_000  # columns of which all pairs are looked at


@dataclass(frozen=True, slots=True)
class Moved:
    """The columns of A W (rows, columns), or of A, some at a time: what one row may add.

    Raises OverflowError when an entry might not fit 62 bits.
    """

    matrix: Ints
    columns: NDArray[np.integer[Any]] | None = None
    _floats: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        widest = max((sum(abs(int(x)) for x in row) for row in self.matrix), default=0)
        if self.columns is not None:
            widest *= max(abs(int(self.columns.max())), abs(int(self.columns.min())))
        if widest >= _WORD:
            raise OverflowError("a product of integers does not fit 62 bits")
        object.__setattr__(self, "_floats", widest < _EXACT)

    @property
    def count(self) -> int:
        return int((self.matrix if self.columns is None else self.columns).shape[1])

    def __iter__(self) -> Iterator[Ints]:
        size = max(1, _BLOCK // max(1, len(self.matrix)))
        for low in range(0, self.count, size):
            yield self.part(slice(low, low + size))

    def part(self, part: slice) -> Ints:
        """Some of the columns."""
        if self.columns is None:
            return self.matrix[:, part]
        if self._floats:
            found = self.matrix.astype(np.float64) @ self.columns[:, part].astype(np.float64)
            return found.astype(np.int64)
        return np.asarray(self.matrix @ self.columns[:, part].astype(np.int64), np.int64)

    def all(self) -> Ints:
        """All of the columns."""
        return self.part(slice(0, self.count))


def squares(columns: Ints) -> NDArray[Any]:
    """The squared norm of each column: int64, or Python's integers where that is too small."""
    most = int(np.abs(columns).max(initial=0))
    if len(columns) * most * most < _WORD:
        return np.asarray(np.einsum("ij,ij->j", columns, columns))
    return np.asarray((columns.astype(object) ** 2).sum(0))


def largest(moved: Moved) -> int:
    """The largest squared norm of a column: how far one row moves what is measured, squared."""
    return max(int(squares(part).max()) for part in moved)


def farthest(moved: Moved) -> tuple[int, bool]:
    """The largest squared distance of two columns, or of one and nothing; whether it is exact.

    Columns near the centre of a ball around all of them are no end of a farthest pair. Where too
    many are left, the diameter of the ball is a bound.
    """
    norm = largest(moved)
    far = 4 * norm  # a ball around nothing
    if far >= _EXACT:
        return _by_python(moved, far)
    if moved.count <= _COMPARED:
        return _pairs(_with_nothing(moved.all())), True
    centre = _centre(moved)
    away = np.concatenate([squares(part - centre[:, None]) for part in moved])
    radius = max(int(away.max()), int(squares(centre[:, None])[0]))  # nothing is in the ball
    at = int(np.argmax(away))
    end = moved.part(slice(at, at + 1))
    reached = max(norm, *(int(squares(part - end).max()) for part in moved))
    least = max(0, math.isqrt(reached) - math.isqrt(radius) - 1)
    left = np.flatnonzero(away >= least * least)
    if len(left) <= _COMPARED:
        kept = np.hstack([moved.part(slice(int(i), int(i) + 1)) for i in left])
        return max(reached, _pairs(_with_nothing(kept))), True
    return max(reached, min(far, 4 * radius)), False


def _with_nothing(columns: Ints) -> Ints:
    return np.hstack([columns, np.zeros((len(columns), 1), np.int64)])


def _pairs(columns: Ints) -> int:
    """The largest squared distance of two columns; squares are below 2^51."""
    floats = columns.astype(np.float64)
    norms = np.einsum("ij,ij->j", floats, floats)
    best = 0
    size = max(1, _BLOCK // max(1, columns.shape[1]))
    for low in range(0, columns.shape[1], size):
        part = slice(low, low + size)
        inner = floats[:, part].T @ floats  # below 2^51 by Cauchy and Schwarz, partial sums too
        best = max(best, int((norms[part, None] + norms - 2 * inner).max()))
    return best


def _by_python(moved: Moved, far: int) -> tuple[int, bool]:
    """The same for entries beyond float64: all pairs of a few columns, a bound for more."""
    if moved.count > 200:
        return far, False
    exact = _with_nothing(moved.all()).astype(object)
    best = 0
    for at in range(exact.shape[1]):
        best = max(best, int(((exact - exact[:, [at]]) ** 2).sum(0).max()))
    return best, True


def _centre(moved: Moved) -> Ints:
    """A point not far from the centre of a ball around some columns (Badoiu, Clarkson 2003).

    Any point will do for a bound.
    """
    some = moved.matrix if moved.columns is None else moved.columns
    strided = some[:, :: max(1, moved.count // 2000)]
    if moved.columns is None:
        sample = strided.astype(np.float64)
    else:
        sample = moved.matrix.astype(np.float64) @ strided.astype(np.float64)
    centre = sample.mean(1)
    norms = np.einsum("ij,ij->j", sample, sample)
    for step in range(1, 60):
        worst = sample[:, int(np.argmax(norms - 2 * (centre @ sample)))]
        centre = centre + (worst - centre) / (step + 1)
    return np.asarray(np.rint(centre), np.int64)
