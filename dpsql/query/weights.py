"""Numbers to integers: the unit in which the values of an expression are whole.

Noise is drawn on integers, so a sum is measured in a unit of which every value is a multiple; the
unit is public. Values that no reasonable unit divides are rounded to 2^-30 of their range.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

_MAX_EXACT = float(1 << 53)


def whole(
    parts: Sequence[NDArray[np.float64]], origin: Fraction, limit: int
) -> tuple[Fraction, list[NDArray[np.int64]]]:
    """A unit and the integers (value - origin) / unit of several arrays, at most `limit` each.

    Exact when all values are multiples of 10^-k or 2^-k for a small k and fit in 53 bits; else
    rounded to the nearest unit. Raises OverflowError for values beyond 53 bits.
    """
    values = np.concatenate([np.ravel(p) for p in parts]) if parts else np.zeros(0)
    if not np.abs(values).max(initial=0) < _MAX_EXACT:
        raise OverflowError("values beyond 53 bits")
    step = _step(values)
    shift = origin / step
    if shift.denominator != 1:
        step, shift = step / shift.denominator, Fraction(shift.numerator)
    scaled = [np.rint(p * float(1 / step)).astype(np.int64) - int(shift) for p in parts]
    common = int(np.gcd.reduce(np.concatenate([np.ravel(s) for s in scaled]))) if scaled else 1
    common = max(common, 1)
    unit = step * common
    found = [s // common for s in scaled]
    largest = max((int(np.abs(f).max(initial=0)) for f in found), default=0)
    if largest > limit:
        coarse = -(-largest // limit)
        unit *= coarse
        found = [np.rint(f / coarse).astype(np.int64) for f in found]
    return unit, found


def _step(values: NDArray[np.float64]) -> Fraction:
    """A number of which every value is a multiple, or nearly so."""
    largest = float(np.abs(values).max(initial=0))
    for power in range(7):
        scale = 10.0**power
        if largest * scale < _MAX_EXACT and (np.rint(values * scale) / scale == values).all():
            return Fraction(1, 10**power)
    for bits in range(1, 21):
        scale = float(1 << bits)
        if largest * scale < _MAX_EXACT and (np.rint(values * scale) == values * scale).all():
            return Fraction(1, 1 << bits)
    return Fraction(2) ** (int(np.ceil(np.log2(largest))) - 30)
