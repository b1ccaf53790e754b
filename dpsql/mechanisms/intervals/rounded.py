"""How far whole numbers that are shown are off: their estimates' noise, and rounding.

For N normal with mean 0 and variance v, by the Fourier series of x - round(x) and of its square,

    E round(N)^2 = v + 1/12 + sum_(k >= 1) (-1)^k exp(-2 pi^2 k^2 v) (4 v + 1 / (pi k)^2):

nothing for small v, where what is right is found again, and v + 1/12 from v = 1/2 on.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Law
from dpsql.mechanisms.intervals.law import atoms, stddev
from dpsql.query.estimators import Count, Estimator, Sum
from dpsql.query.expr import Expr, Slot, walk

Floats: TypeAlias = NDArray[np.float64]
Steps: TypeAlias = Mapping[int, int]  # of an answer that is shown in so many units, these

# of a variance: below 1e-9 is off by 1; 1/12 more, but for 1e-8
SURE, _MOST = 0.006, 1.0
_TERMS = 12
_SAFE = 1 << 62
_SUMMED, _REACH = 512.0, 40.0  # stddev up to which atoms are summed, and stddevs that are


def nearest(noisy: NDArray[Any], factor: int) -> NDArray[Any]:
    """noisy / factor, rounded to the nearest whole number, exactly."""
    return (noisy + factor // 2) // factor if factor != 1 else noisy


def over(whole: NDArray[Any], below: int) -> Floats:
    """Integers over a denominator, each rounded once while both fit 53 bits."""
    found: Floats = whole.astype(np.float64)
    return found if below == 1 else found / float(below)


def units(found: NDArray[Any], unit: Fraction) -> Floats:
    """So many units each: of integers as `over` has it."""
    if found.dtype.kind == "f":
        return over(found * float(unit.numerator), unit.denominator)
    most = int(np.abs(found).max(initial=0)) * unit.numerator
    exact = found if most < _SAFE else found.astype(object)
    return over(exact * unit.numerator, unit.denominator)


def rounded(variance: Floats) -> Floats:
    """The mean squared error of an estimate of a whole number that is rounded to one."""
    found: Floats = np.where(variance < SURE, 0.0, variance + 1.0 / 12.0)
    some = (variance >= SURE) & (variance < _MOST)
    if some.any():
        v = variance[some]
        for k in range(1, _TERMS + 1):
            each = np.exp(-2.0 * (math.pi * k) ** 2 * v) * (4.0 * v + 1.0 / (math.pi * k) ** 2)
            found[some] += each if k % 2 == 0 else -each
    return found


def to_multiples(variance: Floats, step: int) -> Floats:
    """The same where it is rounded to a multiple of `step`, which it is of."""
    return variance if step == 1 else rounded(variance / step**2) * float(step) ** 2


@functools.lru_cache(256)
def in_multiples(law: Law, step: int) -> float:
    """The same of noise of a law, of its atoms while these are few."""
    sigma = stddev(law)
    if step == 1 or sigma > _SUMMED:
        return float(to_multiples(np.array(sigma**2), step))
    radius = math.ceil(_REACH * sigma) + 2
    points = np.arange(-radius, radius + 1)
    shown = nearest(points, step) * float(step)
    return float(atoms(law, radius) @ shown**2)


def steps(expr: Expr, estimators: tuple[Estimator, ...], factors: tuple[int, ...]) -> Steps:
    """Of the answers whose counts and sums are shown as whole numbers, by weight, their factors."""
    shown = [
        estimators[int(part.name[1:])]
        for part in walk(expr)
        if isinstance(part, Slot) and part.name[0] == "a"
    ]
    return {
        each.weight: factors[each.weight]
        for each in shown
        if isinstance(each, Count) or (isinstance(each, Sum) and each.exact)
    }


def unit_of(expr: Expr, estimators: tuple[Estimator, ...]) -> Fraction | None:
    """The unit of which an output is a whole number, as a count or a sum by itself is."""
    match estimators[int(expr.name[1:])] if isinstance(expr, Slot) else None:
        case Count():
            return Fraction(1)
        case Sum(unit=unit) as found if found.exact:
            return unit
        case _:
            return None
