"""A value that is not known exactly, in each group, and arithmetic on such values.

Each carries its interval as a function of the level, and the level is shared by the union bound
among the intervals that an expression rests on, so what is computed from several covers at least
as often. Standard errors of what is not linear are first-order (delta method).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Gradient: TypeAlias = "Mapping[int, float | Floats]"  # one for all groups, or one a group
Bounds: TypeAlias = "Callable[[float], tuple[Floats, Floats]]"
Doubt: TypeAlias = "Callable[[float], Bools]"
Form: TypeAlias = "Mapping[int, Fraction]"  # coefficients of answers; -1 is the constant
Map: TypeAlias = "Callable[[Floats], Floats]"

CONSTANT = -1


@dataclass(frozen=True, slots=True)
class Uncertain:
    """A value in each group, its gradient over the answers, and its bounds at a level.

    `parts` names the intervals among which the level is shared. `linear` and `ratio` are set while
    the value is such a form, and `clip` is where a ratio surely lies. `doubtful` tells, at a
    level, where a denominator may be 0, so that the value says nothing.
    """

    value: Floats
    gradient: Gradient
    bounds: Bounds
    parts: frozenset[object]
    linear: Form | None = None
    ratio: tuple[Form, Form] | None = None
    clip: tuple[float, float] = (-math.inf, math.inf)
    doubtful: Doubt | None = None

    @property
    def constant(self) -> Fraction | None:
        """The number that it is in every group, or None."""
        if self.linear is None or any(weight != CONSTANT for weight in self.linear):
            return None
        return self.linear.get(CONSTANT, Fraction(0))


# -- forms -------------------------------------------------------------------------------------


def added(a: Form, b: Form) -> Form:
    """The sum of two linear forms."""
    return {w: a.get(w, Fraction(0)) + b.get(w, Fraction(0)) for w in {**a, **b}}


def scaled(a: Form, by: Fraction) -> Form:
    """A multiple of a linear form."""
    return {w: c * by for w, c in a.items()}


# -- arithmetic --------------------------------------------------------------------------------


def multiple(a: Uncertain, by: float) -> Uncertain:
    """`by` times a value."""

    def bounds(level: float) -> tuple[Floats, Floats]:
        low, high = a.bounds(level)
        return (low * by, high * by) if by >= 0 else (high * by, low * by)

    gradient = {w: g * by for w, g in a.gradient.items()}
    return Uncertain(a.value * by, gradient, bounds, a.parts, doubtful=a.doubtful)


def total(a: Uncertain, b: Uncertain) -> Uncertain:
    """The sum of two values."""

    def bounds(level: float) -> tuple[Floats, Floats]:
        (low_a, high_a), (low_b, high_b) = a.bounds(level), b.bounds(level)
        return low_a + low_b, high_a + high_b

    ones = np.ones_like(a.value)
    gradient = _gradient([(a, ones), (b, ones)])
    return _both(a, b, a.value + b.value, gradient, bounds, _either(a, b))


def product(a: Uncertain, b: Uncertain) -> Uncertain:
    """The product of two values."""

    def bounds(level: float) -> tuple[Floats, Floats]:
        (low_a, high_a), (low_b, high_b) = a.bounds(level), b.bounds(level)
        with np.errstate(all="ignore"):
            ends = np.stack([low_a * low_b, low_a * high_b, high_a * low_b, high_a * high_b])
        ends = np.where(np.isnan(ends), 0.0, ends)  # 0 times an infinite end
        return ends.min(axis=0), ends.max(axis=0)

    gradient = _gradient([(a, b.value), (b, a.value)])
    return _both(a, b, a.value * b.value, gradient, bounds, _either(a, b))


def quotient(a: Uncertain, b: Uncertain) -> Uncertain:
    """A quotient; doubtful where the interval of the divisor holds 0."""

    def bounds(level: float) -> tuple[Floats, Floats]:
        (low_a, high_a), (low_b, high_b) = a.bounds(level), b.bounds(level)
        apart = (low_b > 0) | (high_b < 0)
        with np.errstate(all="ignore"):
            ends = np.stack([low_a / low_b, low_a / high_b, high_a / low_b, high_a / high_b])
        ends = np.where(np.isnan(ends), 0.0, ends)  # an infinite end by another
        return (
            np.where(apart, ends.min(axis=0), -np.inf),
            np.where(apart, ends.max(axis=0), np.inf),
        )

    def doubtful(level: float) -> Bools:
        low, high = b.bounds(level)
        found: Bools = ~((low > 0) | (high < 0))
        either = _either(a, b)
        return found if either is None else found | either(level)

    with np.errstate(all="ignore"):
        value = a.value / b.value
        gradient = _gradient([(a, 1 / b.value), (b, -value / b.value)])
    return _both(a, b, value, gradient, bounds, doubtful)


def extreme(a: Uncertain, b: Uncertain, *, greatest: bool) -> Uncertain:
    """The greater, or the less, of two values."""
    pick = np.maximum if greatest else np.minimum

    def bounds(level: float) -> tuple[Floats, Floats]:
        (low_a, high_a), (low_b, high_b) = a.bounds(level), b.bounds(level)
        return pick(low_a, low_b), pick(high_a, high_b)

    first = (a.value >= b.value) if greatest else (a.value <= b.value)
    gradient = _gradient([(a, np.where(first, 1.0, 0.0)), (b, np.where(first, 0.0, 1.0))])
    return _both(a, b, pick(a.value, b.value), gradient, bounds, _either(a, b))


def absolute(a: Uncertain) -> Uncertain:
    """A value without its sign."""

    def bounds(level: float) -> tuple[Floats, Floats]:
        low, high = a.bounds(level)
        crosses = (low <= 0) & (high >= 0)
        least = np.where(crosses, 0.0, np.minimum(np.abs(low), np.abs(high)))
        return least, np.maximum(np.abs(low), np.abs(high))

    return Uncertain(np.abs(a.value), a.gradient, bounds, a.parts, doubtful=a.doubtful)


def monotone(
    a: Uncertain, up: Map, slope: Map | None = None, *, outward: Map | None = None
) -> Uncertain:
    """A function of a value that keeps order; `outward` is used for the low end where given.

    Without a slope the standard error stays what it was: a rounding.
    """

    def bounds(level: float) -> tuple[Floats, Floats]:
        low, high = a.bounds(level)
        with np.errstate(all="ignore"):
            return (outward or up)(low), up(high)

    if slope is None:
        return Uncertain(a.value, a.gradient, bounds, a.parts, doubtful=a.doubtful)
    with np.errstate(all="ignore"):
        value, by = up(a.value), slope(a.value)
        gradient = {w: g * by for w, g in a.gradient.items()}
    return Uncertain(value, gradient, bounds, a.parts, doubtful=a.doubtful)


def rounded(a: Uncertain, digits: int) -> Uncertain:
    """A value rounded to some digits after the point, in whatever direction."""
    unit = 10.0 ** min(max(digits, -300), 300)
    return monotone(
        a, lambda x: np.ceil(x * unit) / unit, outward=lambda x: np.floor(x * unit) / unit
    )


def otherwise(a: Uncertain, instead: Fraction) -> Uncertain:
    """A value that is replaced by a number where it is doubtful."""
    doubt = a.doubtful
    if doubt is None:
        return a

    def bounds(level: float) -> tuple[Floats, Floats]:
        low, high = a.bounds(level)
        unsure = doubt(level)
        return (
            np.where(unsure, np.minimum(low, float(instead)), low),
            np.where(unsure, np.maximum(high, float(instead)), high),
        )

    return dataclasses.replace(a, bounds=bounds, linear=None, ratio=None, doubtful=None)


def _both(
    a: Uncertain,
    b: Uncertain,
    value: Floats,
    gradient: Gradient,
    bounds: Bounds,
    doubtful: Doubt | None,
) -> Uncertain:
    return Uncertain(value, gradient, bounds, a.parts | b.parts, doubtful=doubtful)


def _gradient(parts: list[tuple[Uncertain, Floats]]) -> Gradient:
    found: dict[int, Floats] = {}
    for part, slope in parts:
        for weight, inner in part.gradient.items():
            found[weight] = found.get(weight, np.zeros_like(slope)) + inner * slope
    return found


def _either(a: Uncertain, b: Uncertain) -> Doubt | None:
    """Where one of two values is doubtful."""
    tests = [x.doubtful for x in (a, b) if x.doubtful is not None]
    if not tests:
        return None
    return lambda level: np.logical_or.reduce([test(level) for test in tests])
