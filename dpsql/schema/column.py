"""A column and the finite list of points that its values fall on."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from numbers import Real
from typing import Any, TypeAlias

from dpsql.schema.faults import Fault, name_faults, refuse
from dpsql.schema.fields import column_faults
from dpsql.schema.grids import DecimalGrid, date_point, date_size
from dpsql.schema.kinds import Kind
from dpsql.schema.nearest import nearest_points, nearest_texts

Point: TypeAlias = "str | int | float | date | bool"
"""A value of a domain, as SQL gives it."""


@dataclass(frozen=True)
class Column:
    """A column and its domain: the finite list of points that its values fall on.

    Codes count the points from 0 in declared order; integers, dates, numbers and booleans ascend.
    A nullable column has one more cell, NULL, whose code is `size`. The point of a number is the
    DOUBLE nearest to the exact decimal of its grid, or the lower edge of its bin. `source` is the
    name in the table, where it is another. Raises SchemaError with all that is wrong.
    """

    name: str
    kind: Kind
    nullable: bool = False
    source: str | None = None
    values: tuple[str, ...] | tuple[int, ...] = ()
    minimum: int | Decimal | date | None = None
    maximum: int | Decimal | date | None = None
    step: Decimal | str | None = None
    edges: tuple[Decimal, ...] = ()
    description: str = ""

    def __post_init__(self) -> None:
        if self.kind is Kind.DATE and self.step is None:
            object.__setattr__(self, "step", "day")
        refuse(f"column {self.name!r}", self._faults())

    def _faults(self) -> Iterator[Fault]:
        yield from name_faults(self.name, (), "name of the column")
        if self.source is not None:
            yield from name_faults(self.source, ("source",), "name in the table")
        yield from column_faults(self.kind, self.nullable, self.fields)

    @property
    def fields(self) -> dict[str, object]:
        """The keys that declare the domain, by the names that the schema file has for them."""
        given = {
            "values": self.values or None,
            "min": self.minimum,
            "max": self.maximum,
            "step": self.step,
            "edges": self.edges or None,
        }
        return {key: value for key, value in given.items() if value is not None}

    @property
    def table_name(self) -> str:
        """The name of the column in the table."""
        return self.name if self.source is None else self.source

    @cached_property
    def size(self) -> int:
        """The number of points, NULL not among them."""
        match self.kind, self.minimum, self.maximum, self.step:
            case Kind.CATEGORY, _, _, _:
                return len(self.values)
            case Kind.INTEGER, int() as low, int() as high, _:
                return high - low + 1
            case Kind.NUMBER, None, None, None:
                return len(self.edges) - 1
            case Kind.NUMBER, _, Decimal() as high, _:
                return self._grid.size(high)
            case Kind.DATE, date() as low, date() as high, str() as step:
                return date_size(low, high, step)
            case _:
                return 2

    @property
    def cells(self) -> int:
        """The number of points, and one more for NULL where the column is nullable."""
        return self.size + self.nullable

    @property
    def sql_type(self) -> str:
        """The type that the column has for an analyst."""
        match self.kind:
            case Kind.CATEGORY:
                return "VARCHAR" if isinstance(self.values[0], str) else "BIGINT"
            case Kind.INTEGER:
                return "BIGINT"
            case Kind.NUMBER:
                return "DOUBLE"
            case Kind.DATE:
                return "DATE"
            case Kind.BOOLEAN:
                return "BOOLEAN"

    def point(self, code: int) -> Point | None:
        """The value that a code stands for; None for NULL. Raises IndexError for no code."""
        if code == self.size and self.nullable:
            return None
        if not 0 <= code < self.size:
            raise IndexError(f"column {self.name!r} has no code {code}")
        match self.kind, self.minimum, self.step:
            case Kind.CATEGORY, _, _:
                return self.values[code]
            case Kind.INTEGER, int() as low, _:
                return low + code
            case Kind.NUMBER, None, _:
                return float(self.edges[code])
            case Kind.NUMBER, _, _:
                return self._grid.point(code)
            case Kind.DATE, date() as low, str() as step:
                return date_point(low, step, code)
            case _:
                return code == 1

    def points(self) -> list[Point]:
        """All points in the order of their codes, without NULL."""
        if self.kind is Kind.CATEGORY:
            return list(self.values)
        return [point for code in range(self.size) if (point := self.point(code)) is not None]

    def code(self, value: object) -> int | None:
        """The code of the point that `value` equals, as SQL compares; None when there is none.

        Numbers equal across their types, 30 = 30.0; a number column compares as DOUBLE. Text, a
        number, a boolean and a date never equal each other; a date equals its own midnight.
        """
        match self.kind, value:
            case Kind.BOOLEAN, bool():
                return int(value)
            case _, bool() | None:
                return None
            case _, Decimal() if value.is_nan():
                return None
            case Kind.CATEGORY, str() | Real() | Decimal():
                return self._codes.get(value)
            case Kind.INTEGER, int() | Real() | Decimal():  # the abstract Real takes long to ask
                return self._integer_code(value)
            case Kind.NUMBER, Real() | Decimal():
                return self._double_code(value)
            case Kind.DATE, datetime():
                midnight = value == datetime(value.year, value.month, value.day)
                return self._find(value.date()) if midnight else None
            case Kind.DATE, date():
                return self._find(value)
            case _:
                return None

    def nearest(self, value: object, n: int = 3) -> tuple[Point, ...]:
        """The `n` declared values nearest to `value`, for a message; the nearest first."""
        match self.kind, value:
            case Kind.CATEGORY, str() if isinstance(self.values[0], str):
                return nearest_texts(value, [str(text) for text in self.values], n)
            case Kind.CATEGORY, _ if isinstance(self.values[0], int) and value is not None:
                ordered = sorted(int(number) for number in self.values)
                return nearest_points(value, self.size, ordered.__getitem__, n)
            case _:
                return nearest_points(value, self.size, self.point, n)

    @cached_property
    def _codes(self) -> dict[object, int]:
        return {value: code for code, value in enumerate(self.values)}

    @cached_property
    def _grid(self) -> DecimalGrid:
        if isinstance(self.minimum, Decimal) and isinstance(self.step, Decimal):
            return DecimalGrid.of(self.minimum, self.step)
        raise AttributeError(f"column {self.name!r} has no decimal grid")

    def _integer_code(self, value: Any) -> int | None:
        low, high = self.minimum, self.maximum
        if not (isinstance(low, int) and isinstance(high, int) and low <= value <= high):
            return None
        whole = int(value)
        return whole - low if whole == value else None

    def _double_code(self, value: Any) -> int | None:
        try:
            return self._find(float(value))
        except OverflowError:
            return None

    def _find(self, value: float | date) -> int | None:
        """The code of a point, where points ascend."""
        code = bisect_left(range(self.size), value, key=self._ascending)
        return code if code < self.size and self.point(code) == value else None

    def _ascending(self, code: int) -> Any:
        return self.point(code)
