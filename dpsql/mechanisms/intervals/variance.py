"""Variances and deviations from the three parts of a quadratic partition of unity.

With t = (value - lo) / (hi - lo), N rows, S and Q the sums of t and t^2, the answers are, up to
known factors, A = N - 2S + Q, B = S - Q, C = Q. The variance of t is V = (AC - B^2) / N^2, and for
the true mean m it is F(m) / N with F(m) = Q - 2 m S + m^2 N, linear in the answers:

    F(m) - V N = (m^2 - V) A - 2 (m (1 - m) + V) B + ((1 - m)^2 - V) C = 0.

So the noisy F(m) - V N is within z times the norm of these coefficients' noise, in whatever
direction (`directions`). The mean is in Fieller's interval M at a level of its own; over M, F is
between its vertex (or the nearer end) and the farther end, and each coefficient is largest at an
end. That gives a range of V; within it the coefficients are smaller, which gives a better one:
the same event, so nothing is paid for the repetition. As F is flat at its vertex, the interval is
nearly as short as if the mean were known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.intervals.ratio import Ratio

Floats = NDArray[np.float64]

_MEAN, _ROWS = 0.04, 0.04  # shares of what may fail: of the mean's interval, of the rows'
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Parts:
    """A, B, C with noise of these second moments (i <= j); `sample` divides by N - 1.

    `reach` gives the z of a level for the three answers in any direction.
    """

    a: Floats
    b: Floats
    c: Floats
    moments: Mapping[tuple[int, int], float | Floats]
    sample: bool
    reach: Callable[[float], float | Floats]

    @property
    def rows(self) -> Floats:
        return self.a + 2 * self.b + self.c

    def value(self) -> Floats:
        """The noisy variance of t, at least 0; NaN where there are not enough rows."""
        n = self.rows
        with np.errstate(all="ignore"):
            found = np.minimum(np.maximum(self.a * self.c - self.b**2, 0.0) / n**2, 0.25)
            if self.sample:
                found = found * (n / (n - 1))
            return np.where(n > (1.0 if self.sample else 0.0), found, np.nan)

    def slopes(self) -> tuple[Floats, Floats, Floats]:
        """The derivatives of the variance by A, B and C."""
        n = self.rows
        with np.errstate(all="ignore"):
            ratio = (self.a * self.c - self.b**2) / n**2
            times = n / (n - 1) if self.sample else np.ones_like(n)
            return (
                (self.c / n - 2 * ratio) / n * times,
                (-2 * self.b / n - 4 * ratio) / n * times,
                (self.a / n - 2 * ratio) / n * times,
            )

    def doubtful(self, level: float) -> NDArray[np.bool_]:
        """Where there may be no row (or, for a sample, one row alone)."""
        least = self.reach(level) * self._rows_error + (1.0 if self.sample else 0.0)
        found: NDArray[np.bool_] = ~(self.rows > least)
        return found

    def bounds(self, level: float) -> tuple[Floats, Floats]:
        """An interval of the variance of t."""
        missed = 1.0 - level
        shares = _MEAN + (_ROWS if self.sample else 0.0)
        mean = self._mean(1.0 - _MEAN * missed)
        low, high = self._range(mean, self.reach(1.0 - (1.0 - shares) * missed))
        if not self.sample:
            return low, high
        around = self.reach(1.0 - _ROWS * missed) * self._rows_error
        fewest, most = (np.maximum(self.rows + d, 2.0) for d in (-around, around))
        return low * most / (most - 1), high * fewest / (fewest - 1)

    @property
    def _rows_error(self) -> float | Floats:
        """The standard error of N = A + 2B + C."""
        m = self.moments
        found = m[0, 0] + 4 * m[1, 1] + m[2, 2] + 4 * (m[0, 1] + m[1, 2]) + 2 * m[0, 2]
        return _root(found)

    def _mean(self, level: float) -> tuple[Floats, Floats]:
        """Fieller's interval of the mean of t."""
        m = self.moments
        top = m[1, 1] + 2 * m[1, 2] + m[2, 2]  # of B + C
        both = m[0, 1] + m[0, 2] + 2 * m[1, 1] + 3 * m[1, 2] + m[2, 2]
        moments = (top, both, self._rows_error**2)
        ratio = Ratio(self.b + self.c, self.rows, moments, signed=False)
        low, high = ratio.bounds(self.reach(level))
        return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)

    def _range(self, mean: tuple[Floats, Floats], z: float | Floats) -> tuple[Floats, Floats]:
        """The variances that are consistent with the answers for some mean in the interval."""
        first, last = mean
        n = np.where(self.rows > 0, self.rows, np.nan)
        vertex = np.clip((self.b + self.c) / n, first, last)
        least = self._about(vertex)
        most = np.maximum(self._about(first), self._about(last))
        middle = np.clip(0.5, first, last)
        low, high = np.zeros_like(n), np.full_like(n, 0.25)
        for _ in range(_ROUNDS):
            a = np.maximum(np.abs(last**2 - low), np.abs(first**2 - high))
            b = 2 * (middle * (1 - middle) + high)
            c = np.maximum(np.abs((1 - first) ** 2 - low), np.abs((1 - last) ** 2 - high))
            around = z * self._farthest((a, b, c))
            low = np.fmax(low, (least - around) / n)
            high = np.fmin(high, (most + around) / n)
            high = np.maximum(low, high)
        return np.minimum(low, high), high

    def _farthest(self, most: tuple[Floats, Floats, Floats]) -> Floats:
        """The largest standard error of a sum with coefficients of at most these sizes."""
        found: Floats = np.zeros_like(most[0])
        for (i, j), moment in self.moments.items():
            found = found + (1 if i == j else 2) * most[i] * most[j] * np.abs(moment)
        return np.sqrt(found)

    def _about(self, m: Floats) -> Floats:
        """F(m), the sum of squares about m."""
        found: Floats = m**2 * self.a - 2 * m * (1 - m) * self.b + (1 - m) ** 2 * self.c
        return found


def _root(found: float | Floats) -> float | Floats:
    root: float | Floats = np.sqrt(np.maximum(found, 0.0))
    return root
