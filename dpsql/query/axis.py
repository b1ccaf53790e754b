"""Integer matrices along one axis of a table: how its values are measured, and that undone.

Each is square and invertible, so that R = W M^-1 is the only estimate without bias, and the one of
generalised least squares. `Listed` is any matrix. `Toeplitz` is T diag(d), T lower triangular with
equal diagonals (identity; the square root of all prefixes: Fichtenberger, Henzinger, Upadhyay 2023,
arXiv:2202.11205; its columns of one length: Denisov et al. 2022, arXiv:2202.08312). `Haar` has the
differences of halves on every level, and the total (Xiao, Wang, Gehrke 2010).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
_Number = TypeVar("_Number", np.int64, np.float64)

LONGEST = 1 << 17  # values of an axis
_SAFE = 1 << 62
_EXACT = 1 << 53  # sums of whole numbers below it are exact in floats


@dataclass(frozen=True, eq=False)
class Listed:
    """A matrix (size, size). Its inverse raises LinAlgError where it has none."""

    matrix: Ints

    def __post_init__(self) -> None:
        if self.matrix.ndim != 2 or self.matrix.shape[0] != self.matrix.shape[1]:
            raise ValueError("a matrix along an axis is square")
        if not int(np.abs(self.matrix).max(initial=0)) ** 2 * max(self.size, 1) < _EXACT:
            raise ValueError("the squares of a column are below 2^53")

    @property
    def size(self) -> int:
        return len(self.matrix)

    @property
    def norms(self) -> Ints:
        """The squared length of each column, (size,)."""
        found: Ints = (self.matrix**2).sum(axis=0)
        return found

    @property
    def inner(self) -> int:
        """No two columns have an inner product below it."""
        whole = self.matrix.astype(np.float64)  # sums of products are below 2^53
        return int((whole.T @ whole).min())

    @property
    def reach(self) -> int:
        """The largest sum of the sizes of a row's entries."""
        return int(np.abs(self.matrix).sum(axis=1).max())

    def measured(self, table: NDArray[Any]) -> NDArray[Any]:
        """M x of (..., size), exact."""
        found: NDArray[Any] = table @ self.matrix.T.astype(table.dtype, copy=False)
        return found

    def solved(self, values: Floats) -> Floats:
        """M^-1 y of (..., size)."""
        return values @ self._inverse.T

    def turned(self, rows: Floats) -> Floats:
        """q' M^-1 of (..., size)."""
        return rows @ self._inverse

    def columns(self, start: int, stop: int) -> Floats:
        """Some columns of M^-1, (size, stop - start)."""
        return self._inverse[:, start:stop]

    @functools.cached_property
    def _inverse(self) -> Floats:
        return np.linalg.inv(self.matrix.astype(np.float64))

    def to_list(self) -> list[Any]:
        return ["listed", self.matrix]


@dataclass(frozen=True, slots=True, eq=False)
class Toeplitz:
    """T diag(scales), where T has `steps` on and below its diagonal; all above 0 but later steps.

    One step of 1 is the identity.
    """

    steps: Ints
    scales: Ints

    def __post_init__(self) -> None:
        size = len(self.scales)
        if not 1 <= len(self.steps) <= size <= LONGEST:
            raise ValueError(f"an axis has 1 to {LONGEST} values, and no more steps than values")
        if not (self.steps[0] > 0 and (self.steps >= 0).all() and (self.scales > 0).all()):
            raise ValueError("steps and scales are not below 0")
        squares = sum(step * step for step in self.steps.tolist())
        if not squares * int(self.scales.max()) ** 2 < _SAFE:
            raise ValueError("the squares of a column are below 2^62")

    @property
    def size(self) -> int:
        return len(self.scales)

    @property
    def norms(self) -> Ints:
        """The squared length of each column, (size,)."""
        squares = np.zeros(self.size, np.int64)
        squares[: len(self.steps)] = self.steps**2
        found: Ints = squares.cumsum()[::-1] * self.scales**2
        return found

    @property
    def inner(self) -> int:
        """No two columns have an inner product below it."""
        return 0

    @property
    def reach(self) -> int:
        """No sum of the sizes of a row's entries is above it."""
        found: int = sum(self.steps.tolist()) * int(self.scales.max())
        return found

    def measured(self, table: NDArray[Any]) -> NDArray[Any]:
        """M x of (..., size), exact: in parts of so few bits that 64 hold their sums."""
        left: NDArray[Any] = table * self.scales.astype(table.dtype)
        found: NDArray[Any] = np.zeros_like(left)
        bits, shift = 62 - sum(self.steps.tolist()).bit_length(), 0
        while True:
            last = not left.size or int(np.abs(left).max()) < 1 << bits
            part = (left if last else left & ((1 << bits) - 1)).astype(np.int64)
            lines = [np.convolve(self.steps, line) for line in part.reshape(-1, self.size)]
            whole = np.array(lines)[:, : self.size].reshape(left.shape)
            found = found + (whole.astype(table.dtype) << shift)
            if last:
                return found
            left, shift = left >> bits, shift + bits

    def solved(self, values: Floats) -> Floats:
        """M^-1 y of (..., size)."""
        if len(self.steps) == 1:
            return values / (self.scales * float(self.steps[0]))
        found: Floats = _convolved(self._undone(), values) / self.scales
        return found

    def turned(self, rows: Floats) -> Floats:
        """q' M^-1 of (..., size)."""
        scaled = rows / self.scales
        if len(self.steps) == 1:
            return scaled / float(self.steps[0])
        return _convolved(self._undone(), scaled[..., ::-1])[..., ::-1]

    def columns(self, start: int, stop: int) -> Floats:
        """Some columns of M^-1, (size, stop - start)."""
        steps = np.concatenate([np.zeros(self.size), self._undone()])
        apart = np.arange(self.size)[:, None] - np.arange(start, stop)
        found: Floats = steps[apart + self.size] / self.scales[:, None]
        return found

    def _undone(self) -> Floats:
        return _inverse(self.steps.tobytes(), self.size)

    def to_list(self) -> list[Any]:
        return ["toeplitz", self.steps, self.scales]


@dataclass(frozen=True, slots=True, eq=False)
class Haar:
    """Differences of neighbouring blocks on each level, times its factor, and the total.

    Blocks are paired from the first on, and one without a partner is a block of the next level.
    The last factor is that of the total.
    """

    size: int
    factors: tuple[int, ...]

    def __post_init__(self) -> None:
        if not 1 <= self.size <= LONGEST or len(self.factors) != haar_levels(self.size):
            raise ValueError("there is a factor for each level, and for the total")
        if not (min(self.factors) >= 1 and sum(f * f for f in self.factors) < _SAFE):
            raise ValueError("factors are above 0, and their squares below 2^62")

    @property
    def norms(self) -> Ints:
        """The squared length of each column, (size,)."""
        block, found = np.arange(self.size), np.zeros(self.size, np.int64)
        size = self.size
        for factor in self.factors[:-1]:
            found[block < size - size % 2] += factor**2
            block, size = block >> 1, (size + 1) // 2
        return found + self.factors[-1] ** 2

    @property
    def inner(self) -> int:
        """No two columns have an inner product below it."""
        *levels, total = self.factors
        return total * total - max((factor * factor for factor in levels), default=0)

    @property
    def reach(self) -> int:
        """No sum of the sizes of a row's entries is above it."""
        return self.size * max(self.factors)

    def measured(self, table: NDArray[Any]) -> NDArray[Any]:
        """M x of (..., size), exact."""
        found = list(_halves(table))
        listed = [each * factor for each, factor in zip(found, self.factors, strict=True)]
        return np.concatenate(listed, axis=-1)

    def solved(self, values: Floats) -> Floats:
        """M^-1 y of (..., size)."""
        sizes, stop = self._rows(), self.size - 1
        found = values[..., stop:] / self.factors[-1]
        for size, factor in zip(reversed(sizes), self.factors[-2::-1], strict=True):
            pairs = size // 2
            apart = values[..., stop - pairs : stop] / factor
            stop -= pairs
            over, below = found[..., :pairs], np.empty((*values.shape[:-1], size))
            below[..., 0 : 2 * pairs : 2] = (over + apart) / 2
            below[..., 1 : 2 * pairs : 2] = (over - apart) / 2
            below[..., 2 * pairs :] = found[..., pairs:]
            found = below
        return found

    def turned(self, rows: Floats) -> Floats:
        """q' M^-1 of (..., size)."""
        found = list(_halves(rows, 0.5))
        listed = [each / factor for each, factor in zip(found, self.factors, strict=True)]
        return np.concatenate(listed, axis=-1)

    def columns(self, start: int, stop: int) -> Floats:
        """Some columns of M^-1, (size, stop - start)."""
        units = np.zeros((stop - start, self.size))
        units[np.arange(stop - start), np.arange(start, stop)] = 1.0
        return self.solved(units).T

    def _rows(self) -> list[int]:
        """The number of blocks of each level but the last."""
        sizes, size = list[int](), self.size
        while size > 1:
            sizes.append(size)
            size = (size + 1) // 2
        return sizes

    def to_list(self) -> list[Any]:
        return ["haar", self.size, list(self.factors)]


Axis: TypeAlias = Listed | Toeplitz | Haar


def axis_of(fields: Sequence[Any]) -> Axis:
    """The matrix that `to_list` wrote. Raises ValueError for anything else."""
    match fields:
        case ["listed", matrix]:
            return Listed(matrix)
        case ["toeplitz", steps, scales]:
            return Toeplitz(steps, scales)
        case ["haar", size, factors]:
            return Haar(size, tuple(factors))
        case _:
            raise ValueError("not a matrix along an axis")


def haar_levels(size: int) -> int:
    """The number of levels of an axis, with the total."""
    return (size - 1).bit_length() + 1


def _halves(table: NDArray[Any], share: float = 1) -> Iterator[NDArray[Any]]:
    """The differences of pairs on each level, and the total; with a `share` of each sum."""
    while (size := table.shape[-1]) > 1:
        one, other = table[..., 0 : size - 1 : 2], table[..., 1::2]
        yield (one - other) * share
        table = np.concatenate([(one + other) * share, table[..., size - size % 2 :]], axis=-1)
    yield table


def _convolved(steps: Floats, values: Floats) -> Floats:
    """T y of (..., size), T lower triangular with these steps, through transforms."""
    size = values.shape[-1]
    length = 1 << (size + len(steps) - 2).bit_length()
    both = np.fft.rfft(steps, length) * np.fft.rfft(values, length)
    found: Floats = np.fft.irfft(both, length)[..., :size]
    return found


@functools.lru_cache(8)
def _inverse(steps: bytes, size: int) -> Floats:
    """The steps of T^-1, which has equal diagonals as well."""
    known = np.zeros(size)
    given = np.frombuffer(steps, np.int64)
    known[: len(given)] = given
    found = np.array([1.0 / known[0]])
    while len(found) < size:  # Newton: twice as many are right after each
        length = min(2 * len(found), size)
        padded = np.zeros(length)
        padded[: len(found)] = found
        found = 2.0 * padded - _convolved(found, _convolved(known[:length], padded))
    return found
