"""Writes a dataset as a schema file, one column a line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from typing import Final

from dpsql.schema.column import Column
from dpsql.schema.dataset import Dataset

WIDTH: Final = 100

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


def dumps(dataset: Dataset, json_schema: str | None = "./dataset.schema.json") -> str:
    """The text of a schema file; `loads` reads the same dataset from it.

    `json_schema` is the path, from where the file will stand, of the JSON Schema for editors.
    """
    source = dataset.source
    fields = {"table": source.table, "query": source.query, "file": source.file}
    lines = [f"#:schema {json_schema}"] if json_schema else []
    lines.append(f"dataset = {literal(dataset.name)}")
    if dataset.description:
        lines.append(f"description = {literal(dataset.description)}")
    if dataset.unsafe:
        lines.append("unsafe = true")
    lines.append(f"neighbours = {literal(dataset.neighbours.value)}")
    lines.append(f"unit = {unit_literal(dataset.unit.column, dataset.unit.max_rows)}")
    if dataset.append_only:
        lines.append("append_only = true")
    if dataset.public:
        lines.append("public = true")
    lines += ["", "[source]"]
    lines += [f"{name} = {literal(value)}" for name, value in fields.items() if value is not None]
    lines += ["", "[columns]"]
    lines += [column_line(column) for column in dataset.columns]
    if dataset.synopses:
        lines += ["", "[synopses]"]
        lines += [f"{key(name)} = {literal(columns)}" for name, columns in dataset.synopses]
    return "\n".join(lines) + "\n"


def unit_literal(column: str | None, max_rows: int) -> str:
    """A privacy unit as the file has it."""
    if column is None:
        return '"row"'
    return f"{{column = {literal(column)}, max_rows = {max_rows}}}"


def column_line(column: Column) -> str:
    """The line of a column; a long list of values takes several."""
    fields: dict[str, object] = {"type": column.kind.value, **column.fields}
    if fields.get("step") == "day":
        del fields["step"]
    if column.nullable:
        fields["nullable"] = True
    if column.source is not None:
        fields["source"] = column.source
    if column.description:
        fields["description"] = column.description
    return f"{key(column.name)} = {{{', '.join(_pair(k, v) for k, v in fields.items())}}}"


def key(name: str) -> str:
    """A key as TOML writes it: bare where it can be, else in quotes."""
    return name if _BARE.fullmatch(name) else literal(name)


def literal(value: object) -> str:
    """A value as TOML writes it on one line."""
    match value:
        case bool():
            return "true" if value else "false"
        case Decimal() if value.is_finite() and value.adjusted() < 20 and value == int(value):
            return str(int(value))
        case int() | Decimal():
            return str(value)
        case date():
            return value.isoformat()
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case tuple() | list():
            return f"[{', '.join(literal(item) for item in value)}]"
        case _:
            raise TypeError(f"TOML has no {type(value).__name__}")


def _pair(name: str, value: object) -> str:
    text = literal(value)
    if isinstance(value, tuple) and len(text) > WIDTH - 40:
        text = f"[\n{''.join(f'    {line}{chr(10)}' for line in _wrapped(value))}]"
    return f"{name} = {text}"


def _wrapped(values: Iterable[object]) -> list[str]:
    """The items of a list, as many a line as fit."""
    lines = [""]
    for item in values:
        text = f"{literal(item)},"
        if lines[-1] and len(lines[-1]) + len(text) + 1 > WIDTH - 4:
            lines.append("")
        lines[-1] += f" {text}" if lines[-1] else text
    return lines
