"""Laplace mechanism: every linear query with independent discrete Laplace noise.

Dwork, McSherry, Nissim, Smith 2006, with discrete noise (Ghosh, Roughgarden, Sundararajan 2009):
integers of L1 sensitivity D with P(z) ~ exp(-|z| / b) on each are D/b-private, delta = 0.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

from dpsql.accounting.events import PICO, Laplace
from dpsql.curator.noise import LARGEST_SCALE
from dpsql.curator.quote import LaplaceNoise
from dpsql.errors import UsageError


def noise(sensitivity: int, epsilon: int) -> LaplaceNoise:
    """The least noise that costs at most a pure `epsilon` (in 1e-12) at that L1 sensitivity."""
    if not epsilon > 0:
        raise UsageError("a price is above 0")
    return _checked(_short(Fraction(sensitivity * PICO, epsilon)))


@functools.lru_cache(1024)
def noise_at_rho(sensitivity: int, largest: int, rho: int) -> LaplaceNoise:
    """The least noise, within 2^-20 of it, whose zCDP price is at most `rho` (in 1e-12).

    The price falls as the scale grows; at scale b it is at most (D/b)^2 / 2.
    """
    if not rho > 0:
        raise UsageError("a price is above 0")
    high = _short(Fraction(sensitivity) * _root(Fraction(PICO, 2 * rho)))
    while Laplace(sensitivity, largest, high).rho > rho:  # prices round up
        high = _short(high * Fraction((1 << 20) + 1, 1 << 20))
    low = high / 1024
    while Laplace(sensitivity, largest, low).rho <= rho and low > Fraction(1, 1 << 40):
        high, low = low, low / 1024
    while high - low > high / (1 << 20):
        middle = _short((high + low) / 2)
        if not low < middle < high:
            break
        if Laplace(sensitivity, largest, middle).rho <= rho:
            high = middle
        else:
            low = middle
    return _checked(high)


def of_variance(variance: float) -> LaplaceNoise:
    """Noise of that variance 1 / (2 sinh^2(1 / (2b))), or just above; no more than can be drawn."""
    scale = _short(Fraction(0.5 / math.asinh(math.sqrt(0.5 / variance)) * (1.0 + 1e-12)))
    return LaplaceNoise(min(scale, Fraction(LARGEST_SCALE)))


def _short(scale: Fraction) -> Fraction:
    """A short binary fraction at or just above `scale`."""
    grid = 1 << (20 if scale >= 1 else 48)
    return Fraction(-(-scale.numerator * grid // scale.denominator), grid)


def _root(value: Fraction) -> Fraction:
    """A fraction at or just above the square root of `value`."""
    root = Fraction(float(value) ** 0.5)
    return root * Fraction((1 << 30) + 1, 1 << 30)


def _checked(scale: Fraction) -> LaplaceNoise:
    if scale > LARGEST_SCALE:
        raise UsageError("the price is too small: the noise would be larger than can be drawn")
    return LaplaceNoise(scale)
