"""Gaussian mechanism: every linear query with independent discrete Gaussian noise.

Canonne, Kamath, Steinke 2020 (arXiv:2004.00010), Theorem 14: integers of L2 sensitivity D with
noise N_Z(0, s^2) on each are D^2 / (2 s^2)-zCDP.
"""

from __future__ import annotations

import functools
from fractions import Fraction

from dpsql.accounting.events import PICO
from dpsql.curator.noise import LARGEST_VARIANCE
from dpsql.curator.quote import GaussianNoise
from dpsql.errors import UsageError


@functools.lru_cache(256)
def noise(sensitivity_squared: int, rho: int) -> GaussianNoise:
    """The least noise that costs at most `rho` (in 1e-12) for integers of that L2 sensitivity.

    The variance is D^2 / (2 rho), rounded up to a short binary fraction. Raises UsageError when
    the price is so small that the noise would exceed what can be drawn.
    """
    if not rho > 0:
        raise UsageError("a price is above 0")
    exact = Fraction(sensitivity_squared * PICO, 2 * rho)
    if exact > LARGEST_VARIANCE:
        raise UsageError("the price is too small: the noise would be larger than can be drawn")
    return short(exact)


def short(variance: Fraction) -> GaussianNoise:
    """Noise of a variance that is a short binary fraction, at or just above the one given.

    At most the largest that can be drawn.
    """
    grid = 1 << (20 if variance >= 1 else 48)
    rounded = Fraction(-(-variance.numerator * grid // variance.denominator), grid)
    return GaussianNoise(min(rounded, Fraction(LARGEST_VARIANCE)))
