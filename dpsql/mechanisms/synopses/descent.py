"""The least value of a smooth convex function, by a limited-memory quasi-Newton descent.

Nocedal and Wright, "Numerical Optimization" (2006), algorithm 7.4, started at each step from a
metric that the function supplies, with Armijo's test on the step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

_PAIRS = 20  # of steps and changes of gradient that are remembered
_ARMIJO = 1e-4
_HALVINGS = 40


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """Where the function has `value` and `gradient`; `metric` is about the inverse of its Hessian,
    up to a factor, and `gap` bounds how far the value is above the least."""

    x: Floats
    value: float
    gradient: Floats
    metric: Callable[[Floats], Floats]
    gap: float


def least(
    at: Callable[[Floats], Point], start: Floats, *, first: float, gap: float, steps: int
) -> tuple[Point, int]:
    """A point within `gap` of the least value, or the last of so many steps, and their number.

    `first` is the factor of the metric before anything is known.
    """
    point = at(start)
    pairs: list[tuple[Floats, Floats, float]] = []
    for step in range(steps):
        if point.gap <= gap:
            return point, step
        found = _advanced(at, point, -_direction(point, pairs, first))
        if found is None:
            if len(pairs) < _PAIRS:  # as near as floats tell
                return point, step
            pairs = []  # of a curvature that is not that of here
            continue
        moved, turned = found.x - point.x, found.gradient - point.gradient
        inner = float(moved @ turned)
        if inner > 0:
            pairs = [*pairs[1 - _PAIRS :], (moved, turned, inner)]
        point = found
    return point, steps


def _direction(point: Point, pairs: list[tuple[Floats, Floats, float]], first: float) -> Floats:
    """The two-loop recursion: the inverse Hessian, as the pairs tell it, times the gradient."""
    found = point.gradient.copy()
    scratch = np.empty_like(found)
    parts = []
    for moved, turned, inner in reversed(pairs):
        part = float(moved @ found) / inner
        parts.append(part)
        found -= np.multiply(turned, part, out=scratch)
    scale = first
    if pairs:
        _, turned, inner = pairs[-1]
        scale = inner / float(turned @ point.metric(turned))
    found = scale * point.metric(found)
    for (moved, turned, inner), part in zip(pairs, reversed(parts), strict=True):
        found += np.multiply(moved, part - float(turned @ found) / inner, out=scratch)
    return found


def _advanced(at: Callable[[Floats], Point], point: Point, along: Floats) -> Point | None:
    """The first of the steps 1, 1/2, 1/4 ... that gains enough; None where none does."""
    slope = float(point.gradient @ along)
    length = 1.0
    for _ in range(_HALVINGS):
        found = at(point.x + length * along)
        if found.value <= point.value + _ARMIJO * length * slope:
            return found
        length /= 2
    return None
