"""Arithmetic of the grids on which numbers and dates fall; exact, and about one column at a time.

A decimal grid has the points minimum + i * step; what a point *is*, is the DOUBLE nearest to that
exact decimal. A grid of dates counts days, weeks, months or years from its minimum; the months
after 31 January end on the last day of a shorter month, as DuckDB's intervals do.
"""

from __future__ import annotations

import calendar
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class DecimalGrid:
    """The points (start + i * stride) / unit, in integers."""

    start: int
    stride: int
    unit: int

    @classmethod
    def of(cls, minimum: Decimal, step: Decimal) -> DecimalGrid:
        """The grid from `minimum` in steps of `step`."""
        first, first_unit = minimum.as_integer_ratio()
        stride, stride_unit = step.as_integer_ratio()
        unit = first_unit * stride_unit
        return cls(first * stride_unit, stride * first_unit, unit)

    def point(self, index: int) -> float:
        """The DOUBLE nearest to the exact decimal."""
        return (self.start + index * self.stride) / self.unit

    def size(self, maximum: Decimal) -> int:
        """How many points lie at or below `maximum`."""
        top, top_unit = maximum.as_integer_ratio()
        return (top * self.unit - self.start * top_unit) // (self.stride * top_unit) + 1


def date_point(minimum: date, step: str, index: int) -> date:
    """The date `index` steps after `minimum`. Raises OverflowError or ValueError past year 9999."""
    match step:
        case "day":
            return minimum + timedelta(days=index)
        case "week":
            return minimum + timedelta(weeks=index)
        case "month":
            return _after(minimum, index)
        case "year":
            return _after(minimum, 12 * index)
    raise ValueError(step)


def date_size(minimum: date, maximum: date, step: str) -> int:
    """How many dates of the grid lie at or before `maximum`."""
    match step:
        case "day":
            return (maximum - minimum).days + 1
        case "week":
            return (maximum - minimum).days // 7 + 1
        case "month":
            return _months(minimum, maximum) + 1
        case "year":
            return _months(minimum, maximum) // 12 + 1
    raise ValueError(step)


def _after(start: date, months: int) -> date:
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    last = calendar.monthrange(year, month + 1)[1]
    return date(year, month + 1, min(start.day, last))


def _months(minimum: date, maximum: date) -> int:
    """The most whole months after `minimum` that do not pass `maximum`."""
    months = (maximum.year - minimum.year) * 12 + maximum.month - minimum.month
    return months if _after(minimum, months) <= maximum else months - 1
