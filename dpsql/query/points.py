"""The declared points of a column as a table of the empty database: codes i and values v."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import numpy as np

from dpsql.query.empty import Arrays
from dpsql.schema import Column, Kind

_EXACT = 1 << 53  # integers up to here are DOUBLEs, and the quotient of two is rounded once


def points(column: Column) -> tuple[str, Arrays | None]:
    """A query of the points, codes ascending, and the arrays that it reads, if any."""
    query, arrays = _points(column)
    if column.nullable:
        query += f" UNION ALL SELECT {column.size}::BIGINT, NULL::{column.sql_type}"
    return f"SELECT i, v FROM ({query}) ORDER BY i", arrays


def _points(column: Column) -> tuple[str, Arrays | None]:
    codes = f"range({column.size}) AS r(i)"
    match column.kind, column.minimum, column.step:
        case Kind.BOOLEAN, _, _:
            return f"SELECT i, i = 1 AS v FROM {codes}", None
        case Kind.INTEGER, int() as low, _:
            return f"SELECT i, ({low} + i)::BIGINT AS v FROM {codes}", None
        case Kind.DATE, date() as low, str() as step:
            added = {
                "day": "i::INTEGER",
                "week": "(i * 7)::INTEGER",
                "month": "to_months(i::INTEGER)",
                "year": "to_months((i * 12)::INTEGER)",
            }[step]
            value = f"(DATE '{low.isoformat()}' + {added})::DATE"
            return f"SELECT i, {value} AS v FROM {codes}", None
        case Kind.NUMBER, Decimal() as low, Decimal() as step:
            first, first_unit = low.as_integer_ratio()
            stride, stride_unit = step.as_integer_ratio()
            unit = first_unit * stride_unit
            start, stride = first * stride_unit, stride * first_unit
            if max(abs(start), abs(start + stride * column.size), unit) < _EXACT:
                value = f"({start} + i * {stride})::DOUBLE / {unit}::DOUBLE"
                return f"SELECT i, {value} AS v FROM {codes}", None
    values = column.points()
    kept = np.array(values, object if isinstance(values[0], str) else None)
    arrays = {"i": np.arange(column.size, dtype=np.int64), "v": kept}
    return f"SELECT i, v::{column.sql_type} AS v FROM temp.given", arrays
