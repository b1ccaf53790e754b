"""Intervals for a ratio of two linear answers: Fieller's theorem with discrete noise.

The interval is the set of r for which N - r D is within its own noise, |N - r D| <= z s(r), where
s(r)^2 = A - 2 B r + C r^2 for the variances A of N and C of D and their covariance B (Fieller
1954). z is such that the bound holds in *every* direction (`directions`), so it holds for the
true ratio whatever that is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ratio:
    """N and D with noise, and the second moments A, B, C of their noise.

    `signed`: whether the true D may be negative.
    """

    top: Floats
    bottom: Floats
    moments: tuple[float | Floats, float | Floats, float | Floats]
    signed: bool

    def doubtful(self, z: float | Floats) -> NDArray[np.bool_]:
        """Where D does not exceed z times its standard error: Fieller's set has no ends."""
        size = np.abs(self.bottom) if self.signed else self.bottom
        found: NDArray[np.bool_] = ~(size > z * np.sqrt(self.moments[2]))
        return found

    def bounds(self, z: float | Floats) -> tuple[Floats, Floats]:
        """The ends of Fieller's interval; infinite where it is doubtful.

        The discriminant is written so that large N and D do not cancel.
        """
        n, d, (a, b, c) = self.top, self.bottom, self.moments
        square = z * z
        with np.errstate(all="ignore"):
            lead, middle = d * d - square * c, n * d - square * b
            inner = (c * n * n - 2.0 * b * n * d) + a * d * d - square * (a * c - b * b)
            root = z * np.sqrt(np.maximum(inner, 0.0))
            value = n / d
            low = np.minimum((middle - root) / lead, value)
            high = np.maximum((middle + root) / lead, value)
        doubtful = self.doubtful(z) | ~(lead > 0)
        return np.where(doubtful, -np.inf, low), np.where(doubtful, np.inf, high)
