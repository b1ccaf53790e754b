"""SQL that finds the grid point or the bin of a value which is known to lie within the domain."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from math import gcd
from typing import Final

from dpsql.curator.engines import quote
from dpsql.schema import Column

_EXACT: Final = 2**53  # integers up to this are DOUBLEs


MAX_TREE: Final = 4096
"""The most points of a grid that is compared point by point."""


def bin_code(value: str, edges: Sequence[float]) -> str:
    """The half-open bin of a DOUBLE between the first and the last edge: comparisons in a tree."""
    return _tree(value, edges, 0, len(edges) - 1)


def _tree(value: str, edges: Sequence[float], low: int, high: int) -> str:
    """The bin among those from `low` to before `high`."""
    if high - low == 1:
        return f"CAST({low} AS BIGINT)"
    middle = (low + high) // 2
    edge = quote.cast(repr(edges[middle]), "DOUBLE")
    below, above = _tree(value, edges, low, middle), _tree(value, edges, middle, high)
    return f"CASE WHEN {value} < {edge} THEN {below} ELSE {above} END"


def grid_code(value: str, column: Column) -> str:
    """The last point of a decimal grid that is at or below a DOUBLE, where a point is a DOUBLE too.

    The grid is no finer than DOUBLEs are (the schema sees to that) and has at most 10^7 points, so
    the floor of (value - minimum) / step is less than two points off: the points next to it decide
    (the code is the point before it, and one more for each of three that the value reaches). The
    point i is (start + i * stride) / unit: integers below 2^53 and one division, which rounds to
    the nearest DOUBLE. Grids with larger integers are compared point by point, in a tree.
    """
    if not simple(column):
        edges = [point for point in column.points() if isinstance(point, float)]
        return bin_code(value, [*edges, edges[-1]])
    minimum, step = column.minimum, column.step
    assert isinstance(minimum, Decimal) and isinstance(step, Decimal)
    start, stride, unit = _integers(minimum, step)

    def point(shift: int) -> str:
        numerator = f"({start}) + (({nearby}) + ({shift})) * {stride}"
        return f"CAST({numerator} AS DOUBLE) / {quote.cast(repr(float(unit)), 'DOUBLE')}"

    first, width = (quote.cast(repr(float(bound)), "DOUBLE") for bound in (minimum, step))
    nearby = f"CAST(floor(({value} - {first}) / {width}) AS BIGINT)"
    reached = (f"CAST({value} >= {point(shift)} AS BIGINT)" for shift in (0, 1, 2))
    return f"greatest(0, least({column.size - 1}, {nearby} - 1 + {' + '.join(reached)}))"


def simple(column: Column) -> bool:
    """Whether all points of a decimal grid are quotients of two integers that are DOUBLEs."""
    assert isinstance(column.minimum, Decimal) and isinstance(column.step, Decimal)
    start, stride, unit = _integers(column.minimum, column.step)
    last = start + (column.size + 2) * stride
    return max(abs(start), abs(last)) <= _EXACT and unit < 10**300 and int(float(unit)) == unit


def _integers(minimum: Decimal, step: Decimal) -> tuple[int, int, int]:
    """The grid as (start + i * stride) / unit in lowest terms."""
    first, first_unit = minimum.as_integer_ratio()
    stride, stride_unit = step.as_integer_ratio()
    start, stride, unit = first * stride_unit, stride * first_unit, first_unit * stride_unit
    common = gcd(start, stride, unit)
    return start // common, stride // common, unit // common


def month_code(value: str, minimum: date) -> str:
    """The whole months from `minimum` to a DATE, where a day that a month lacks is its last."""
    months = f"year({value}) * 12 + month({value}) - {minimum.year * 12 + minimum.month}"
    early = f"day({value}) < least({minimum.day}, day(last_day({value})))"
    return f"{months} - CASE WHEN {early} THEN 1 ELSE 0 END"
