"""The best weights on cells: Newton's ascent of the dual, with a bound from either side.

Formulas and source are in `spectrum.py`. A step that lowers the dual is taken back and damped, as
Levenberg and Marquardt do. From equal weights, two or three steps do for prefixes and ranges.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from dpsql.mechanisms.strategies.spectrum import Floats, Spectrum

SpectrumOf: TypeAlias = Callable[[Floats], Spectrum]
Reached: TypeAlias = tuple[float, Floats]  # tr(G X^-1), and what divides each column of X^1/2

_FIRST = 1e-4  # damping
_LEAST = 1e-5
_HOPELESS = 1e5  # damping at which steps are too short to gain
_ALIKE = 1e-12  # relative: a dual that falls by less has not fallen


@dataclass(frozen=True, slots=True)
class Ascent:
    """Where an ascent ended.

    `lower` and `upper` bound the least tr(G X^-1). `best` and `divisors` give the X that reaches
    `upper`: V^-1/2 R V^-1/2, each row and column divided by the cell's divisor. `last` is the
    spectrum of the highest dual, from where another ascent may go on.
    """

    lower: float
    upper: float
    best: Spectrum
    divisors: Floats
    last: Spectrum
    iterations: int

    @property
    def gap(self) -> float:
        """By how much the root of `upper` exceeds that of `lower`, relative: an error's gap."""
        return max(0.0, math.sqrt(self.upper / self.lower) - 1)


def by_largest(spectrum: Spectrum) -> Reached:
    """All columns divided by the largest norm; it keeps what X can answer, of any rank."""
    largest = float(spectrum.excess.max())
    return spectrum.total * largest, np.full(len(spectrum.weights), math.sqrt(largest))


def ascend(
    spectrum_of: SpectrumOf,
    start: Floats,
    *,
    gap: float,
    until: float = math.inf,
    most: int = 100,
    reached: Callable[[Spectrum], Reached] = by_largest,
) -> Ascent:
    """Ascend from weights until the gap, a time of `time.monotonic` or `most` iterations.

    `reached` gives a feasible X at a spectrum. One spectrum is always computed.
    """
    last = best = spectrum_of(start)
    lower = last.lower
    upper, divisors = reached(last)
    damping, iterations = _FIRST, 1
    curvature = None
    while iterations < most and damping < _HOPELESS and time.monotonic() < until:
        if math.sqrt(max(upper / lower, 1)) - 1 <= gap:
            break
        if curvature is None:
            curvature = last.curvature()
        tried = spectrum_of(last.stepped(curvature, damping))
        iterations += 1
        value, parts = reached(tried)
        if value < upper:
            best, upper, divisors = tried, value, parts
        if tried.lower >= lower * (1 - _ALIKE):
            last, curvature = tried, None
            damping = max(damping / 10, _LEAST)
        else:
            damping *= 30
        lower = max(lower, tried.lower)
    return Ascent(lower, upper, best, np.asarray(divisors, np.float64), last, iterations)
