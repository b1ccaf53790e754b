"""Which columns of a table can be read as they are declared, without losing anything."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from dpsql.curator.engines.grids import MAX_TREE, simple
from dpsql.schema import Column, Kind

INTEGERS: Final = {
    "TINYINT": (-(2**7), 2**7 - 1),
    "SMALLINT": (-(2**15), 2**15 - 1),
    "INTEGER": (-(2**31), 2**31 - 1),
    "BIGINT": (-(2**63), 2**63 - 1),
    "HUGEINT": (-(2**127), 2**127 - 1),
    "UTINYINT": (0, 2**8 - 1),
    "USMALLINT": (0, 2**16 - 1),
    "UINTEGER": (0, 2**32 - 1),
    "UBIGINT": (0, 2**64 - 1),
    "UHUGEINT": (0, 2**128 - 1),
}
"""The integer types and their ranges."""

_EXACT: Final = 2**53  # integers below this are DOUBLEs


def family(sql_type: str) -> str:
    """A type without its parameters: DECIMAL(18,3) is DECIMAL; nested types keep all they have."""
    found = re.fullmatch(r"(ENUM|DECIMAL)\(.*\)", sql_type, re.DOTALL)
    return found[1] if found else sql_type


def short(sql_type: str) -> str:
    """A type for a message; an ENUM without its values."""
    return "ENUM" if family(sql_type) == "ENUM" else sql_type


def decimal_scale(sql_type: str) -> int:
    """The digits after the point of a DECIMAL type."""
    return int(sql_type.rstrip(")").rpartition(",")[2])


def mismatch(column: Column, sql_type: str) -> str | None:
    """Why values of this type cannot be read as the column declares, and what would do."""
    kind = family(sql_type)
    if kind in _ACCEPTED[column.sql_type]:
        return _precision(column, sql_type) if column.kind is Kind.NUMBER else None
    found = f"column {column.name} is declared as {_declared(column)}, and the table"
    if column.table_name != column.name:
        found += f"'s {column.table_name}"
    return f"{found} has {short(sql_type)}: {_remedy(column, kind)}"


_ACCEPTED: Final = {
    "VARCHAR": ("VARCHAR", "ENUM"),
    "BIGINT": tuple(INTEGERS),
    "DOUBLE": ("FLOAT", "DOUBLE", "DECIMAL", *INTEGERS),
    "DATE": ("DATE",),
    "BOOLEAN": ("BOOLEAN",),
}


def _declared(column: Column) -> str:
    if column.kind is Kind.CATEGORY:
        return "a category of text" if column.sql_type == "VARCHAR" else "a category of integers"
    return f"{'an' if column.kind is Kind.INTEGER else 'a'} {column.kind.value}"


def _remedy(column: Column, kind: str) -> str:
    cast = f'a query source that casts it, [source] query = "SELECT ... {_cast(column)} ..."'
    match column.kind, kind:
        case Kind.CATEGORY, _ if kind in INTEGERS:
            return 'write its values without quotes, or declare type = "integer"'
        case Kind.CATEGORY, "VARCHAR" | "ENUM":
            return "write its values in quotes"
        case _, "BOOLEAN":
            return 'declare type = "boolean"'
        case _, "DATE":
            return 'declare type = "date" with min and max'
        case _, "VARCHAR" | "ENUM":
            return f'declare type = "category" with its values, or {cast}'
        case Kind.BOOLEAN, _ if kind in INTEGERS:
            return 'declare type = "category" with values = [0, 1]'
        case _, _ if kind in INTEGERS:
            return 'declare type = "integer" with min and max'
        case _, "FLOAT" | "DOUBLE" | "DECIMAL":
            return f'declare type = "number" with min, max and step, or {cast}'
        case _:
            return f"use {cast}"


def _cast(column: Column) -> str:
    quoted = column.table_name.replace('"', '\\"')
    return f"CAST({quoted} AS {column.sql_type}) AS {quoted}"


def _precision(column: Column, sql_type: str) -> str | None:
    """Why numbers of this type, or the points of the grid, are not told apart as DOUBLEs."""
    if column.edges:
        largest = max(abs(edge) for edge in (column.edges[0], column.edges[-1]))
    else:
        assert isinstance(column.minimum, Decimal) and isinstance(column.maximum, Decimal)
        largest = max(abs(column.minimum), abs(column.maximum))
        if column.size > MAX_TREE and not simple(column):
            found = f"column {column.name} has {column.size:,} points of more than 15 digits"
            return f"{found}: fewer digits in min and step, or at most {MAX_TREE:,} points"
    match family(sql_type):
        case "DECIMAL":
            scale = decimal_scale(sql_type)
            fits = scale <= 22 and largest * 10**scale < _EXACT
        case "FLOAT" | "DOUBLE":
            fits = True
        case _:
            fits = largest < _EXACT
    if fits:
        return None
    found = f"column {column.name} is {sql_type} in the table, which has more digits than a DOUBLE"
    return f"{found} up to {largest}: cast it to DOUBLE or round it in a query source"
