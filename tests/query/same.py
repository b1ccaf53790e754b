"""When two answers are the same: values of one kind that are equal, or nearly so as DOUBLEs."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Sequence
from typing import Any

Row = tuple[Any, ...]


def plain(value: Any) -> Any:
    """A value as it is compared: every number as a float, and one zero."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float | decimal.Decimal):
        return float(value) + 0.0  # the sum is 0.0 for -0.0, which DuckDB groups with it
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return value.date()
    return value


def same(left: Any, right: Any) -> bool:
    """Whether two values are the same."""
    left, right = plain(left), plain(right)
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-5)
    return type(left) is type(right) and bool(left == right)


def same_row(left: Row, right: Row) -> bool:
    return len(left) == len(right) and all(map(same, left, right))


def extra(found: Sequence[Row], expected: Sequence[Row], *, ordered: bool) -> list[Row] | None:
    """The rows that were found beside the expected ones, or None where one of those is missing.

    Where they are ordered, the expected rows must come in their order.
    """
    rest = list(found)
    beside: list[Row] = []
    for row in expected:
        at = next((i for i, other in enumerate(rest) if same_row(row, other)), None)
        if at is None:
            return None
        if ordered:
            beside += rest[:at]
            rest = rest[at + 1 :]
        else:
            rest.pop(at)
    return beside + rest
