"""SQL that gives the code of a column's value: NULL where the value lies outside the domain.

Everything here is text made from the public schema and from the types of the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from itertools import pairwise
from math import ceil, floor

from dpsql.curator.engines import quote
from dpsql.curator.engines.grids import bin_code, grid_code, month_code
from dpsql.curator.engines.types import INTEGERS, family
from dpsql.schema import Column, Kind


@dataclass(frozen=True, slots=True)
class Encoding:
    """How one column is read: `value` and `code` are SQL over the table.

    `enum` holds the texts of the ENUM type that `code` needs, named `enum_name`; it is empty when
    none is needed.
    """

    column: Column
    value: str
    code: str
    enum_name: str = ""
    enum: tuple[str, ...] = ()

    @property
    def complete(self) -> str:
        """The code, where an outside value of a nullable column is NULL's."""
        return f"coalesce({self.code}, {self.column.size})" if self.column.nullable else self.code

    @property
    def width(self) -> str:
        """The narrowest type that holds all codes."""
        last = self.column.cells - 1
        return "UTINYINT" if last < 2**8 else "USMALLINT" if last < 2**16 else "UINTEGER"

    @property
    def create(self) -> str:
        """The statement that makes the ENUM type; empty if none is needed."""
        return (
            f"CREATE TYPE {self.enum_name} AS ENUM ({quote.listed(self.enum)})" if self.enum else ""
        )


def encode(column: Column, sql_type: str, value: str, number: int) -> Encoding:
    """How to read a column, called `value` in SQL, of a type that fits.

    `number` is its place in the schema.
    """
    match column.kind:
        case Kind.CATEGORY:
            return _category(column, value, sql_type, number)
        case Kind.INTEGER:
            return Encoding(column, value, _integer(column, value, sql_type))
        case Kind.NUMBER:
            return Encoding(column, value, _number(column, value, sql_type))
        case Kind.DATE:
            return Encoding(column, value, _date(column, value))
        case Kind.BOOLEAN:
            return Encoding(column, value, f"CAST({value} AS BIGINT)")


def _category(column: Column, value: str, sql_type: str, number: int) -> Encoding:
    """Texts through an ENUM of their own; integers likewise, unless they are a range."""
    integers = [point for point in column.values if isinstance(point, int)]
    if integers and integers == list(range(integers[0], integers[-1] + 1)):
        return Encoding(column, value, _offset(value, sql_type, integers[0], integers[-1]))
    enum = quote.name("memory", "main", f"__dpsql_{number}")
    shown = f"CAST({value} AS VARCHAR)" if integers else value
    code = f"CAST(enum_code(TRY_CAST({shown} AS {enum})) AS BIGINT)"
    return Encoding(column, value, code, enum, tuple(str(point) for point in column.values))


def _integer(column: Column, value: str, sql_type: str) -> str:
    assert isinstance(column.minimum, int) and isinstance(column.maximum, int)
    return _offset(value, sql_type, column.minimum, column.maximum)


def _offset(value: str, sql_type: str, low: int, high: int) -> str:
    """How far an integer lies above `low`, compared in its own type before any cast."""
    within = _within(value, sql_type, low, high)
    return f"CASE WHEN {within} THEN CAST({value} AS BIGINT) - {quote.cast(low, 'BIGINT')} END"


def _within(value: str, sql_type: str, low: int, high: int) -> str:
    least, most = INTEGERS[sql_type]
    if low > most or high < least or low > high:
        return "false"
    bounds = (quote.cast(bound, sql_type) for bound in (max(low, least), min(high, most)))
    return f"{value} BETWEEN {' AND '.join(bounds)}"


def _number(column: Column, value: str, sql_type: str) -> str:
    """The grid point or bin of the decimal that a number stands for.

    A FLOAT is the shortest decimal that it prints as: 0.7 is not 0.699999988. A FLOAT or DOUBLE a
    few units in the last place below a point, as 3 * 0.7 is below 2.1, counts as that point.
    """
    double = value if sql_type == "DOUBLE" else f"CAST({value} AS DOUBLE)"
    if sql_type == "FLOAT":
        double = f"CAST(CAST({value} AS VARCHAR) AS DOUBLE)"
    low, high = _bounds(column)
    slack = _slack(column) if sql_type in ("FLOAT", "DOUBLE") else 0.0
    near = f"({double} + {quote.cast(repr(slack), 'DOUBLE')})" if slack else double
    if column.edges:
        inside = f"{near} >= {_double(low)} AND {near} < {_double(high)}"
        code = bin_code(near, [float(edge) for edge in column.edges])
        top = ceil(high) - 1  # the last edge is outside
    else:
        most = quote.cast(repr(float(high) + slack), "DOUBLE")
        inside = f"{near} >= {_double(low)} AND {double} <= {most}"
        code = grid_code(near, column)
        top = floor(high)
    if family(sql_type) in INTEGERS:
        inside = _within(value, sql_type, ceil(low), top)
    return f"CASE WHEN {inside} THEN {code} END"


def _bounds(column: Column) -> tuple[Decimal, Decimal]:
    if column.edges:
        return column.edges[0], column.edges[-1]
    assert isinstance(column.minimum, Decimal) and isinstance(column.maximum, Decimal)
    return column.minimum, column.maximum


def _slack(column: Column) -> float:
    """Four units in the last place of the largest number; far less than from point to point."""
    apart = [high - low for low, high in pairwise(column.edges)]
    if isinstance(column.step, Decimal):
        apart.append(column.step)
    return min(float(max(map(abs, _bounds(column)))) * 2.0**-51, float(min(apart)) / 1024)


def _double(value: Decimal) -> str:
    return quote.cast(repr(float(value)), "DOUBLE")


def _date(column: Column, value: str) -> str:
    low, high = column.minimum, column.maximum
    assert isinstance(low, date) and isinstance(high, date)
    first = quote.cast(low, "DATE")
    inside = f"{value} BETWEEN {first} AND {quote.cast(high, 'DATE')}"
    match column.step:
        case "week":
            code = f"({value} - {first}) // 7"
        case "month":
            code = month_code(value, low)
        case "year":
            code = f"({month_code(value, low)}) // 12"
        case _:
            code = f"{value} - {first}"
    return f"CASE WHEN {inside} THEN {code} END"
