"""Reads a schema file: every problem is found before any is reported."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from dpsql.errors import Problem, SchemaError
from dpsql.schema.columns import read_columns, read_synopses
from dpsql.schema.dataset import Dataset, Source, Unit
from dpsql.schema.faults import (
    Fault,
    append_only_faults,
    name_faults,
    neighbours_faults,
    same_names,
    source_faults,
    synopses_faults,
    unit_faults,
)
from dpsql.schema.kinds import Neighbours
from dpsql.schema.lines import key_lines, line_of
from dpsql.schema.table import Table
from dpsql.schema.write import key

TOP_KEYS = (
    "dataset",
    "description",
    "neighbours",
    "unit",
    "append_only",
    "public",
    "unsafe",
    "source",
    "columns",
    "synopses",
)
SOURCE_KEYS = ("table", "query", "file")
UNIT_KEYS = ("column", "max_rows")


def loads(text: str, file: str = "schema", folder: Path | None = None) -> Dataset:
    """The dataset that a schema file declares. Raises SchemaError with all problems.

    `file` is what messages call the file; `folder` is where relative paths of its source start.
    """
    table = _parse(text, file)
    faults: list[Fault] = []
    dataset = _dataset(Table(table, (), faults), folder)
    if faults or dataset is None:
        lines = key_lines(text.removeprefix("\ufeff"))
        ordered = sorted(faults, key=lambda fault: line_of(fault.path, lines) or 0)
        raise SchemaError(
            tuple(
                Problem(file, dotted(f.path), line_of(f.path, lines), f.found, f.fix)
                for f in ordered
            )
        )
    return dataset


def dotted(path: Sequence[str]) -> str:
    """A path of keys as TOML writes it."""
    return ".".join(key(part) for part in path)


def _parse(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.removeprefix("\ufeff"), parse_float=_decimal)
    except RecursionError:
        raise SchemaError((Problem(file, "", None, "lists nested too deeply", ""),)) from None
    except ValueError as error:
        raise SchemaError((_syntax(file, str(error), text),)) from None


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal("Infinity")


def _syntax(file: str, message: str, text: str) -> Problem:
    """What the reader of TOML says, and the line."""
    fix = "text stands in quotes, lists in [ ], and a date as 2025-12-31"
    place = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", message)
    if place is None:
        return Problem(file, "", None, f"not TOML: {message}", fix)
    line = int(place[1]) if place[1] else len(text.rstrip("\n").split("\n"))
    what = message[: place.start()]
    if what.startswith("Cannot overwrite a value") or what.startswith("Cannot declare"):
        return Problem(file, "", line, "a key or table is given twice", "keep one of the two")
    return Problem(file, "", line, f"not TOML: {what[:1].lower()}{what[1:]}", fix)


def _dataset(top: Table, folder: Path | None) -> Dataset | None:
    top.refuse_unknown(TOP_KEYS)
    name = top.text("dataset", required='dataset = "visits", the name that FROM has for it')
    if name is not None:
        top.add(name_faults(name, ("dataset",), "name of the dataset"))
    description = top.text("description") or ""
    neighbours = _neighbours(top)
    unit = _unit(top)
    append_only = top.flag("append_only")
    public = top.flag("public")
    unsafe = top.flag("unsafe")
    source = _source(top)
    columns, names = read_columns(top)
    synopses = read_synopses(top)
    if isinstance(top.fields.get("unit"), dict):
        person = top.fields["unit"].get("column", "a person")
        top.add(neighbours_faults(neighbours, person))
        top.add(append_only_faults(append_only, person))
    top.add(same_names(names))
    top.add(synopses_faults(synopses, names))
    if top.faults or name is None or unit is None or source is None:
        return None
    return Dataset(
        *(name, columns, neighbours, unit, source, description, synopses, unsafe, folder),
        append_only=append_only,
        public=public,
    )


def _neighbours(top: Table) -> Neighbours:
    options = tuple(relation.value for relation in Neighbours)
    word = top.text("neighbours", one_of=options)
    return Neighbours.ADD_REMOVE if word is None else Neighbours(word)


def _unit(top: Table) -> Unit | None:
    advice = 'unit = "row", or unit = {column = "patient_id", max_rows = 4} to protect a person'
    match top.fields.get("unit"):
        case None:
            top.fault(("unit",), "there is no unit", advice)
            return None
        case "row":
            return Unit()
        case dict():
            table = top.table("unit")
            table.refuse_unknown(UNIT_KEYS)
            column = table.text("column", required='column = "patient_id"')
            rows = table.integer("max_rows", required="max_rows = 4, the most rows kept for one")
            faults = list(
                unit_faults("x" if column is None else column, 1 if rows is None else rows)
            )
            table.add(faults)
            return None if faults or column is None or rows is None else Unit(column, rows)
        case other:
            top.fault(("unit",), f"unit is {other!r}", advice)
            return None


def _source(top: Table) -> Source | None:
    if "source" not in top.fields:
        top.fault(("source",), "there is no source", 'a section [source] with table = "visits"')
        return None
    table = top.table("source")
    table.refuse_unknown(SOURCE_KEYS)
    given = {key: table.text(key) for key in SOURCE_KEYS}
    wrong = not isinstance(top.fields["source"], dict) or any(k in table.fields for k in given)
    if wrong and all(value is None for value in given.values()):
        return None
    faults = list(source_faults(**given))
    table.add(faults)
    return None if faults else Source(**given)
