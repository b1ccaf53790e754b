"""What a bare column may be compared with: its declared values, or the edges of its bins."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import TypeAlias

from dpsql.errors import Refused
from dpsql.query.expr import Call, Cast, Column, Const, Expr, Span, written
from dpsql.schema import Column as Declared
from dpsql.schema import Kind

Refuse: TypeAlias = "Callable[[str, Span | None, str], Refused]"
Literal: TypeAlias = "str | int | float | decimal.Decimal | bool | datetime.date"


def value(expr: Expr) -> Literal | None:
    """The Python value of a literal, or None when it is NULL or no literal."""
    match expr:
        case Const(kind="text", text=text):
            return text
        case Const(kind="integer", text=text):
            return int(text)
        case Const(kind="decimal", text=text):
            return decimal.Decimal(text)
        case Const(kind="double", text=text):
            return float(text)
        case Const(kind="boolean", text=text):
            return text == "TRUE"
        case Call(name="+", args=(Const() as arg,)):
            return value(arg)
        case Cast(arg=Const(kind="text", text=text), type="DATE"):
            try:
                return datetime.date.fromisoformat(text)
            except ValueError:
                return None  # DuckDB decides, on the public grid
        case _:
            return None


def require_value(column: Column, declared: Declared, literal: Expr, refuse: Refuse) -> None:
    """Refuse a literal that the column is never equal to."""
    found = value(literal)
    if found is None or declared.kind is Kind.BOOLEAN:
        return
    if declared.kind is Kind.DATE and isinstance(found, str):
        found = datetime.datetime.fromisoformat(found)  # `require_date` has seen it
    if declared.code(found) is not None:
        return
    nearest = ", ".join(sql(point) for point in declared.nearest(found))
    raise refuse(
        f"{written(column.name)} has no value {sql(found)}",
        literal.span,
        f"a declared value; the nearest are {nearest}",
    )


def require_date(expr: Expr, refuse: Refuse) -> None:
    """Refuse a quoted text among dates that is neither a date nor a time of one."""
    if isinstance(expr, Const) and expr.kind == "text":
        try:
            datetime.datetime.fromisoformat(expr.text)
        except ValueError:
            raise refuse(
                f"{sql(expr.text)} is no date", expr.span, "a date as in '2025-01-31'"
            ) from None


def require_edge(
    column: Column, declared: Declared, op: str, other: Expr, span: Span | None, refuse: Refuse
) -> None:
    """Refuse any comparison of a column in bins but `column < edge` and `column >= edge`."""
    found = value(other)
    number = isinstance(found, int | decimal.Decimal | float) and not isinstance(found, bool)
    if op not in ("<", ">=") or not number or decimal.Decimal(str(found)) not in declared.edges:
        raise binned(column, declared, span or column.span, refuse)


def binned(column: Column, declared: Declared, span: Span | None, refuse: Refuse) -> Refused:
    """The refusal of what a column in bins cannot tell."""
    name = written(column.name)
    edges = ", ".join(str(edge) for edge in declared.edges)
    return refuse(
        f"{name} is declared in bins, so only its edges can be compared",
        span,
        f"{name} < edge, {name} >= edge, IS NULL or GROUP BY {name}; edges: {edges}",
    )


def sql(found: object) -> str:
    """A value as SQL writes it."""
    match found:
        case None:
            return "NULL"
        case bool():
            return str(found).upper()
        case str():
            return "'" + found.replace("'", "''") + "'"
        case datetime.date():
            return f"DATE '{found.isoformat()}'"
        case _:
            return str(found)
