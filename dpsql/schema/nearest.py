"""The declared values nearest to one that is not declared, for a message."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
from fractions import Fraction
from numbers import Rational
from typing import Any, TypeAlias

Place: TypeAlias = "Fraction | float"
"""Where a number or a date lies on a line: exact, or an infinity."""

MOST_COMPARED = 5_000
"""Of a longer list of texts, only so many are compared: a message must not take a second."""


def nearest_texts(value: str, values: Sequence[str], n: int) -> tuple[str, ...]:
    """The `n` texts most like `value`, whatever the case; the more alike, the earlier."""
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(value.casefold())

    def likeness(text: str) -> float:
        matcher.set_seq1(text.casefold())
        return matcher.ratio()

    return tuple(heapq.nlargest(n, values[:MOST_COMPARED], key=likeness))


def nearest_points(
    value: object, size: int, point: Callable[[int], Any], n: int
) -> tuple[Any, ...]:
    """The `n` of `size` ascending points nearest to `value`, the nearest first.

    The first `n` where `value` is not of the points' kind, or is NaN.
    """
    at = place(value)
    if at is None or isinstance(value, date) != isinstance(point(0), date):
        return tuple(point(code) for code in range(min(n, size)))
    middle = bisect_right(range(size), at, key=lambda code: place(point(code)) or 0)
    around = range(max(0, middle - n), min(size, middle + n))
    if isinstance(at, float):
        ranked = sorted(around, reverse=at > 0)
    else:
        ranked = sorted(around, key=lambda code: (abs((place(point(code)) or 0) - at), code))
    return tuple(point(code) for code in ranked[:n])


def place(value: object) -> Place | None:
    """The place of a number or a date; None for NaN and for anything else."""
    match value:
        case bool():
            return None
        case date():
            return Fraction(value.toordinal())
        case float() if math.isfinite(value):
            return Fraction(value)
        case Decimal() if value.is_finite() and -400 < value.adjusted() < 400:
            return Fraction(value)
        case Decimal() if value.is_nan():
            return None
        case Decimal():
            return Fraction(0) if value.adjusted() < 0 else math.copysign(math.inf, value)
        case float():
            return None if math.isnan(value) else value
        case Rational():  # an integer of numpy is one, too
            return Fraction(int(value.numerator), int(value.denominator))
        case _:
            return None
