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
_DECIMALS = 6  # digits after the point that are kept exactly
_BITS = 20  # binary digits after the point that are kept exactly
_ROUNDED = 30  # binary digits of the largest value that are kept of all others


def whole(
    parts: Sequence[NDArray[np.float64]], limit: int, *, from_least: bool
) -> tuple[Fraction, Fraction, list[NDArray[np.int64]]]:
    """An origin, a unit, and the integers (value - origin) / unit, at most `limit` each.

    The origin is 0, or the least value. Exact when all values are multiples of 10^-k or 2^-k for
    a small k, up to the last digits of a DOUBLE; else rounded to the nearest unit. Raises
    OverflowError for values beyond 53 bits.
    """
    values = np.concatenate([np.zeros(0), *parts])
    if not np.abs(values).max(initial=0) < _MAX_EXACT:
        raise OverflowError("values beyond 53 bits")
    step, multiples = _multiples(values)
    least = int(multiples.min()) if from_least and len(multiples) else 0
    found = multiples - least
    common = max(int(np.gcd.reduce(found)) if len(found) else 1, 1)
    unit, found = step * common, found // common
    largest = int(np.abs(found).max(initial=0))
    if largest > limit:
        coarse = -(-largest // limit)
        unit *= coarse
        found = np.rint(found / coarse).astype(np.int64)
    ends = np.cumsum([len(part) for part in parts])[:-1]
    return step * least, unit, list(np.split(found, ends)) if parts else []


def _multiples(values: NDArray[np.float64]) -> tuple[Fraction, NDArray[np.int64]]:
    """A number, and the multiples of it that the values are, or nearly so."""
    near = 4 * np.spacing(np.abs(values))
    largest = float(np.abs(values).max(initial=0))
    steps = [Fraction(1, 10**power) for power in range(_DECIMALS + 1)]
    steps += [Fraction(1, 1 << bits) for bits in range(1, _BITS + 1)]
    for step in steps:
        scale = float(step.denominator)
        if largest * scale >= _MAX_EXACT:
            continue
        multiples = np.rint(values * scale)
        if (np.abs(multiples / scale - values) <= near).all():
            return step, multiples.astype(np.int64)
    exponent = int(np.frexp(largest)[1]) - _ROUNDED
    return Fraction(2) ** exponent, np.rint(np.ldexp(values, -exponent)).astype(np.int64)
