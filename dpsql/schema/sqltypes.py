"""What DuckDB's types of columns can be declared as."""

from __future__ import annotations

import re
from typing import Final

from dpsql.schema.kinds import Kind

_KINDS: Final = {
    Kind.INTEGER: "TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT "
    "UHUGEINT INT",
    Kind.NUMBER: "FLOAT DOUBLE REAL DECIMAL NUMERIC",
    Kind.CATEGORY: "VARCHAR CHAR TEXT STRING ENUM",
    Kind.BOOLEAN: "BOOLEAN BOOL",
    Kind.DATE: "DATE",
}
_BY_NAME: Final = {name: kind for kind, names in _KINDS.items() for name in names.split()}


def kind_of(sql_type: str) -> Kind | None:
    """The kind of column that a SQL type is declared as; None for timestamps and others."""
    name = re.fullmatch(r"\s*([A-Za-z]+)\s*(\(.*\))?\s*", sql_type, re.DOTALL)
    return _BY_NAME.get(name[1].upper()) if name else None


def enum_values(sql_type: str) -> tuple[str, ...]:
    """The values of an ENUM type in their order; none for any other type."""
    listed = re.fullmatch(r"\s*ENUM\s*\((.*)\)\s*", sql_type, re.DOTALL | re.IGNORECASE)
    if listed is None:
        return ()
    found = re.findall(r"'((?:[^']|'')*)'", listed[1])
    return tuple(value.replace("''", "'") for value in found)


def numeric(kind: str) -> bool:
    """Whether values of a DuckDB type are numbers."""
    base = kind.split("(")[0]
    return base in ("DOUBLE", "FLOAT", "DECIMAL") or base.endswith("INT") or base == "INTEGER"
