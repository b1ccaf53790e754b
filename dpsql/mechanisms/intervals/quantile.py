"""Half widths of intervals: the least h for which the noise stays within +-h often enough.

For one coordinate the half width is exact: level <= coverage <= level + the atoms at +-h. For a
weighted sum it is exact, or nearly so and never too small, by `sums`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from fractions import Fraction
from statistics import NormalDist

from dpsql.accounting.events import Gaussian, Laplace, Law
from dpsql.mechanisms.intervals import sums
from dpsql.mechanisms.intervals.law import tail

HIGHEST = 1.0 - 1e-12  # the highest level that floats can tell from certainty with care


def half_width(law: Law, confidence: float) -> int:
    """The least integer h with P(|Z| <= h) >= confidence, for one coordinate.

    Beyond 2^46, where floats no longer tell neighbours apart, a little more than the least.
    """
    _check(confidence)
    match law:
        case Gaussian(variance=variance):
            return _half_width(Gaussian(1, variance), confidence)
        case Laplace(scale=scale):
            return _half_width(Laplace(1, 1, scale), confidence)


def sum_half_width(terms: Iterable[tuple[Fraction | int, Law]], confidence: float) -> Fraction:
    """An h with P(|sum of weight_j Z_j| <= h) >= confidence, the Z_j independent.

    The least one when the sum has few different terms on a lattice that is not too fine; else an
    upper bound, with Gaussian noise usually within a few per cent of it.
    """
    _check(confidence)
    counted: dict[tuple[Fraction, Law], int] = {}
    for weight, law in terms:
        if weight == 0:
            continue
        match law:
            case Gaussian(variance=variance):
                key: tuple[Fraction, Law] = (abs(Fraction(weight)), Gaussian(1, variance))
            case Laplace(scale=scale):
                key = (abs(Fraction(weight)), Laplace(1, 1, scale))
        counted[key] = counted.get(key, 0) + 1
    groups = tuple(sums.Group(weight, law, count) for (weight, law), count in counted.items())
    if not groups:
        return Fraction(0)
    if len(groups) == 1 and groups[0].count == 1:
        return groups[0].weight * half_width(groups[0].law, confidence)
    return _sum_half_width(frozenset(groups), confidence)


def simultaneous(confidence: float, intervals: int) -> float:
    """The level that each of `intervals` intervals needs for all to hold together.

    The union bound: it holds however the intervals depend on each other.
    """
    _check(confidence)
    if intervals < 1:
        raise ValueError(f"at least one interval, not {intervals}")
    return min(math.nextafter(1.0 - (1.0 - confidence) / intervals, 1.0), HIGHEST)


def _check(confidence: float) -> None:
    if not 0.0 < confidence <= HIGHEST:
        raise ValueError(f"a confidence is above 0 and below 1 by 1e-12, not {confidence}")


@functools.lru_cache(4096)
def _half_width(law: Law, confidence: float) -> int:
    missed = 1.0 - confidence
    match law:
        case Gaussian(variance=variance):
            guess = -math.sqrt(variance) * NormalDist().inv_cdf(missed / 2.0) - 0.5
        case Laplace(scale=scale):
            y = float(1 / scale)
            guess = -math.log(missed * (1.0 + math.exp(-y)) / 2.0) / y - 1.0
    h = max(math.ceil(guess), 0)
    step = 1 + (h >> 46)
    while tail(law, h) > missed:
        h += step
    while step == 1 and h > 0 and tail(law, h - 1) <= missed:
        h -= 1
    return h


@functools.lru_cache(1024)
def _sum_half_width(groups: frozenset[sums.Group], confidence: float) -> Fraction:
    ordered = tuple(sorted(groups, key=lambda group: (group.weight, repr(group.law))))
    return sums.half_width(ordered, 1.0 - confidence)
