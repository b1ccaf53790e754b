"""Intervals for a ratio of two linear answers: Fieller's theorem with discrete noise.

The interval is the set of r for which N - r D is within its own noise, |N - r D| <= z s(r), where
s(r)^2 = v (A - 2 B r + C r^2) for noise of variance v on each answer (Fieller 1954). z is such
that the bound holds in *every* direction: a combination a of k discrete noises has
|sum a_i Z_i| <= z sqrt(v) ||a|| with the level's probability.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Event, Gaussian, Laplace
from dpsql.mechanisms.law import stddev
from dpsql.mechanisms.quantile import half_width, simultaneous, sum_half_width

_NEARLY_NORMAL = 10.0  # a stddev from which rounding to integers is a small correction
_ANGLES = 9
_MARGIN = 1.015  # between two of the angles looked at

Floats = NDArray[np.float64]


def spread(law: Event) -> float:
    """The noise's standard deviation parameter; 0 where the noise has all but vanished."""
    return stddev(law)


@functools.lru_cache(1024)
def factor(law: Event, confidence: float, terms: int) -> float:
    """z: with this level, |sum a_i Z_i| <= z s ||a|| for any weights of `terms` noises.

    Gaussian noise of a large s: Z_i plus a uniform rounding error U_i is nearly normal with
    variance s^2 + 1/12, and |sum a_i U_i| <= ||a|| sqrt(terms) / 2. Else the largest of several
    directions, or the union bound.
    """
    s = spread(law)
    if s == 0.0:
        return 0.0
    if isinstance(law, Gaussian) and s >= _NEARLY_NORMAL:
        z = -NormalDist().inv_cdf((1.0 - confidence) / 2.0)
        return z * math.sqrt(1.0 + 1.0 / (12.0 * s * s)) + math.sqrt(terms) / (2.0 * s)
    if terms <= 2:
        widest = 0.0
        for step in range(_ANGLES):
            angle = math.pi / 4.0 * step / (_ANGLES - 1)
            weights = [Fraction(f(angle)).limit_denominator(64) for f in (math.cos, math.sin)]
            norm = math.hypot(*(float(w) for w in weights))
            found = float(sum_half_width([(w, law) for w in weights], confidence)) / norm
            widest = max(widest, found)
        return widest * _MARGIN / s
    each = half_width(law, simultaneous(confidence, terms))
    return math.sqrt(terms) * each / s


def fieller(
    numerator: Floats,
    denominator: Floats,
    moments: tuple[float, float, float],
    zs: float,
) -> tuple[Floats, Floats]:
    """The ends of Fieller's interval, elementwise; infinite where it is unbounded.

    `moments` are (A, B, C), the sums of n_i^2, n_i d_i and d_i^2 over the answers; `zs` is z s.
    """
    a, b, c = moments
    lead = denominator**2 - zs * zs * c
    middle = numerator * denominator - zs * zs * b
    last = numerator**2 - zs * zs * a
    bounded = (lead > 0) & (denominator > 0)
    with np.errstate(all="ignore"):
        root = np.sqrt(np.maximum(middle**2 - lead * last, 0.0))
        low = np.where(bounded, (middle - root) / lead, -np.inf)
        high = np.where(bounded, (middle + root) / lead, np.inf)
    return low, high


__all__ = ["Laplace", "factor", "fieller", "spread"]
