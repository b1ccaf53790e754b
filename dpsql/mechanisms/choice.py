"""The largest of many counts, by a selection: how it is tuned, and how far it may be off.

In rho the exponential mechanism costs a quarter of what its pure epsilon would, and is taken; in
pure epsilon the noisy maximum (permute-and-flip), which is never worse there (McKenna, Sheldon
2020, arXiv:2010.12603). What is chosen is g below the largest with probability at most exp(-g / b):
of the exponential mechanism P(i) = exp(-g_i / b) / sum <= exp(-g_i / b), the largest being in the
sum; of permute-and-flip i has to toss a head. So with probability 1 - beta what is chosen of k is
less than j below the largest, j the least with (k - 1) exp(-j / b) <= beta.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpsql.accounting.events import PICO, Exponential, NoisyMax, Selection
from dpsql.curator.noise import LARGEST_SCALE
from dpsql.errors import UsageError

_GRID = 1 << 20
_UPWARDS = 1 + 1e-12  # outweighs the roundings of a root


def at_rho(sensitivity: int, monotone: bool, rho: int) -> Exponential:
    """The selection of least noise, to a millionth of a row, at a zCDP price in 1e-12.

    (m D / b)^2 / 8 = rho, m = 1 for scores that all move the same way, else 2.
    """
    each = 1 if monotone else 2
    scale = _up(each * sensitivity * math.sqrt(PICO / (8 * max(rho, 1))))
    while Exponential(sensitivity, scale, monotone).rho > rho:
        scale += Fraction(1, _GRID)
    return Exponential(sensitivity, _checked(scale), monotone)


def at_epsilon(sensitivity: int, monotone: bool, epsilon: int) -> NoisyMax:
    """The noisy maximum of least noise at a pure epsilon in 1e-12: m D / b = epsilon."""
    each = 1 if monotone else 2
    scale = Fraction(-(-each * sensitivity * PICO * _GRID // max(epsilon, 1)), _GRID)
    return NoisyMax(sensitivity, _checked(scale), monotone)


def behind(event: Selection, candidates: int, level: float) -> int:
    """How many rows at most what is chosen is below the largest, at a level."""
    if candidates < 2:
        return 0
    far = float(event.scale) * math.log((candidates - 1) / (1.0 - level)) * _UPWARDS
    return max(math.ceil(far) - 1, 0)


def _up(scale: float) -> Fraction:
    return Fraction(max(math.ceil(scale * _UPWARDS * _GRID), 1), _GRID)


def _checked(scale: Fraction) -> Fraction:
    if scale > LARGEST_SCALE:
        raise UsageError("the price is too small: the noise would be larger than can be drawn")
    return scale
