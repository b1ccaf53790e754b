"""The square-root Toeplitz strategy for very many cells: no matrix, products by FFT.

M = C / s for the lower triangular Toeplitz C of c_k = c_{k-1} (2k - 1) / (2k) and its column norms
s (Fichtenberger, Henzinger, Upadhyay 2022; normalised as in arXiv:2202.08312). C C is the matrix of
prefix sums, and C^-1 is Toeplitz of the coefficients of (1 - x)^(1/2). Answers are read off
h = s C^-1 y.

Errors are exact up to floating point, in time that is quadratic in the cells: column j of the
prefixes' reconstruction has entries sum_{l=j}^{i} s_l d_{l-j} for the coefficients d of C^-1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from dpsql.errors import UsageError
from dpsql.mechanisms.hierarchy import coefficients
from dpsql.mechanisms.spectrum import Floats

_BLOCK = 1 << 22  # entries of the reconstruction that are held at a time


@dataclass(frozen=True, slots=True)
class RootToeplitz:
    """M over so many cells; its columns have norm 1."""

    cells: int
    _first: Floats = field(init=False, repr=False, compare=False)
    _inverse: Floats = field(init=False, repr=False, compare=False)
    _norms: Floats = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.cells > 0:
            raise UsageError("a strategy has one cell at least")
        first = coefficients(self.cells)
        at = np.arange(1, self.cells, dtype=np.float64)
        inverse = np.concatenate([[1.0], np.cumprod((2 * at - 3) / (2 * at))])
        object.__setattr__(self, "_first", first)
        object.__setattr__(self, "_inverse", inverse)
        object.__setattr__(self, "_norms", np.sqrt(np.cumsum(first**2))[::-1].copy())

    def measured(self, histogram: Floats) -> Floats:
        """M h (cells,)."""
        return _convolved(self._first, histogram / self._norms)

    def estimate(self, measured: Floats) -> Floats:
        """M^-1 y (cells,): the histogram, whose running sums and ranges are the answers."""
        return self._norms * _convolved(self._inverse, measured)

    def prefix_rmse(self) -> float:
        """The root of the mean squared error of all prefixes."""
        return math.sqrt(self._errors()[0] / self.cells)

    def range_rmse(self) -> float:
        """The root of the mean squared error of all ranges."""
        return math.sqrt(self._errors()[1] / (self.cells * (self.cells + 1) / 2))

    def _errors(self) -> tuple[float, float]:
        """The total squared error of prefixes, and of ranges: differences of n + 1 prefixes.

        sum_{a<b} (p_b - p_a)^2 = (n + 1) sum p^2 - (sum p)^2 over n + 1 prefixes, p_0 = 0.
        """
        cells, prefixes, ranges = self.cells, 0.0, 0.0
        width = max(1, _BLOCK // cells)
        padded = np.concatenate([self._inverse, np.zeros(width)])
        for low in range(0, cells, width):
            columns = np.arange(low, min(low + width, cells))
            lag = np.arange(low, cells) - columns[:, None]  # rows above column `low` are 0
            column = np.where(lag >= 0, padded[np.maximum(lag, 0)], 0.0)
            sums = np.cumsum(column * self._norms[low:], axis=1)
            squares = float((sums**2).sum())
            prefixes += squares
            ranges += (cells + 1) * squares - float((sums.sum(1) ** 2).sum())
        return prefixes, ranges


def _convolved(one: Floats, other: Floats) -> Floats:
    """The first entries of a convolution, as many as either has."""
    size = 1 << (2 * len(one) - 1).bit_length()
    found = np.fft.irfft(np.fft.rfft(one, size) * np.fft.rfft(other, size), size)[: len(one)]
    return np.asarray(found, np.float64)
