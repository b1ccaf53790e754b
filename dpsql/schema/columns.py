"""Reads the columns and the synopses of a schema file."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from dpsql.schema.column import Column
from dpsql.schema.dataset import Synopses
from dpsql.schema.faults import name_faults, name_of
from dpsql.schema.fields import column_faults
from dpsql.schema.kinds import COMMON_KEYS, KEYS, Kind
from dpsql.schema.table import Table

DOMAIN_KEYS = ("values", "min", "max", "step", "edges")

_SHAPE = 'name = {type = "integer", min = 0, max = 110}'


def read_columns(top: Table) -> tuple[tuple[Column, ...], list[str]]:
    """The columns that are right, and the names of all."""
    if "columns" not in top.fields:
        top.fault(("columns",), "there are no columns", f"a section [columns] with {_SHAPE}")
    columns = top.table("columns")
    if not columns.fields and isinstance(top.fields.get("columns"), dict):
        columns.fault((), "there are no columns", f"write {_SHAPE}")
    read: list[Column] = []
    for name, value in columns.fields.items():
        unnamed = [*name_faults(name, (name,), "name of the column")]
        columns.add(unnamed)
        if isinstance(value, dict):
            column = _column(columns.table(name), "x" if unnamed else name)
            if column is not None and not unnamed:
                read.append(column)
        else:
            columns.fault((name,), f"column {name!r} is {name_of(value)}", f"write {_SHAPE}")
    return tuple(read), list(columns.fields)


def _column(table: Table, name: str) -> Column | None:
    before = len(table.faults)
    kinds = tuple(kind.value for kind in Kind)
    word = table.text("type", required='type = "category"', one_of=kinds)
    known = (*COMMON_KEYS, *(KEYS[Kind(word)] if word else DOMAIN_KEYS))
    table.refuse_unknown([*known, *(key for key in DOMAIN_KEYS if key not in known)])
    nullable = table.flag("nullable")
    source = table.text("source")
    if source is not None:
        table.add(name_faults(source, ("source",), "name in the table"))
    description = table.text("description") or ""
    if word is None:
        return None
    kind = Kind(word)
    fields: dict[str, Any] = {
        k: _exact(kind, table.fields[k]) for k in DOMAIN_KEYS if k in table.fields
    }
    table.add(column_faults(kind, nullable, fields))
    if len(table.faults) > before:
        return None
    return Column(
        name,
        kind,
        nullable,
        source,
        values=fields.get("values", ()),
        minimum=fields.get("min"),
        maximum=fields.get("max"),
        step=fields.get("step"),
        edges=fields.get("edges", ()),
        description=description,
    )


def read_synopses(top: Table) -> Synopses:
    """The synopses that are lists of text."""
    table = top.table("synopses")
    read: list[tuple[str, tuple[str, ...]]] = []
    for name, columns in table.fields.items():
        if isinstance(columns, list) and all(isinstance(column, str) for column in columns):
            read.append((name, tuple(columns)))
        else:
            table.fault((name,), f"synopsis {name!r} is no list of columns", 'write ["sex", "age"]')
    return tuple(read)


def _exact(kind: Kind, value: object) -> object:
    """Numbers of a number column as decimals, and a list as a tuple."""
    if isinstance(value, list):
        return tuple(item if isinstance(item, list) else _exact(kind, item) for item in value)
    if kind is Kind.NUMBER and isinstance(value, int) and not isinstance(value, bool):
        return Decimal(value)
    return value
