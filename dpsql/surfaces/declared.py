"""A dataset in words: what an analyst may know of it. Its source is never shown."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from dpsql.schema import Column, Dataset, Kind, Neighbours
from dpsql.surfaces.figures import plain
from dpsql.surfaces.table import table
from dpsql.surfaces.terminal import visible

LONGEST = 60  # characters of a list of values; JSON has them all


def dataset_lines(
    dataset: Dataset, *, width: int | None = None, drawn: bool = True
) -> Iterator[str]:
    """The dataset, what it hides, and a table of its columns."""
    yield f"dataset {visible(dataset.name)}" + (" (unsafe)" if dataset.unsafe else "")
    if dataset.description:
        yield visible(dataset.description)
    yield protected(dataset)
    if dataset.append_only:
        yield "rows are only ever added: later rows do not pay for answers about earlier ones"
    if dataset.public:
        yield "public: its rows are no secret; a synopsis may guess by it, and nothing else asks it"
    if dataset.unsafe:
        yield "unsafe: values were read off the data; nothing is answered until the owner confirms"
    rows = [
        [visible(c.name), c.sql_type, visible(domain(c)), f"{c.cells:,}", visible(c.description)]
        for c in dataset.columns
    ]
    names = ["column", "type", "domain", "size", "description"]
    right = [False, False, False, True, False]
    if not any(column.description for column in dataset.columns):
        rows, names, right = [row[:4] for row in rows], names[:4], right[:4]
    yield from table(names, rows, right, width=width, drawn=drawn)
    yield f"{counted(dataset)} · {universe(dataset)} possible records"


def well_formed(dataset: Dataset) -> str:
    """That a schema file has no fault of its own."""
    return (
        f"{dataset.name} is well formed: {counted(dataset)}, "
        f"{universe(dataset)} possible records; give the database to compare it with the data"
    )


def protected(dataset: Dataset) -> str:
    """Whose presence the answers hide, and how."""
    unit = dataset.unit
    if unit.column is not None:
        return (
            f"hides all rows of any one {visible(unit.column)}; "
            f"at most {unit.max_rows:,} rows of each are counted"
        )
    if dataset.neighbours is Neighbours.REPLACE_ONE:
        return "hides what any one row says; the number of rows in the table is public"
    return "hides whether any one row is in the table, and what it says"


def counted(dataset: Dataset) -> str:
    """How many columns there are, in words."""
    count = len(dataset.columns)
    return f"{count:,} column" + "s" * (count != 1)


def universe(dataset: Dataset) -> str:
    """The number of possible records."""
    size = math.prod(column.cells for column in dataset.columns)
    if size < 10**6:
        return f"{size:,}"
    figures, exponent = f"{Decimal(size):.1e}".split("e+")
    return f"{figures} x 10^{exponent}"


def domain(column: Column) -> str:
    """The declared values of a column."""
    words = _values(column)
    return f"NULL or {words}" if column.nullable else words  # a cut leaves it


def _values(column: Column) -> str:
    match column.kind:
        case Kind.BOOLEAN:
            return "false, true"
        case Kind.CATEGORY:
            return _listed([_literal(value) for value in column.values])
        case Kind.INTEGER:
            return f"{column.minimum} to {column.maximum}"
        case Kind.DATE:
            return f"{column.minimum} to {column.maximum}, each {column.step or 'day'}"
        case Kind.NUMBER:
            if column.edges:
                return "bins from " + _listed([str(edge) for edge in column.edges])
            return f"{column.minimum} to {column.maximum}, in steps of {column.step}"


def _literal(value: str | int) -> str:
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def _listed(values: list[str]) -> str:
    shown: list[str] = []
    for value in values:
        if shown and len(", ".join([*shown, value])) > LONGEST:
            return f"{', '.join(shown)}, … ({len(values):,})"
        shown.append(value)
    return ", ".join(shown)


def dataset_fields(dataset: Dataset) -> dict[str, Any]:
    """The dataset as plain values, for JSON."""
    return {
        "dataset": dataset.name,
        "description": dataset.description,
        "neighbours": dataset.neighbours.value,
        "unit": {"column": dataset.unit.column, "max_rows": dataset.unit.max_rows},
        "append_only": dataset.append_only,
        "public": dataset.public,
        "unsafe": dataset.unsafe,
        "universe": str(math.prod(column.cells for column in dataset.columns)),
        "columns": [_column_fields(column) for column in dataset.columns],
    }


def _column_fields(column: Column) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "name": column.name,
        "kind": column.kind.value,
        "type": column.sql_type,
        "nullable": column.nullable,
        "size": column.size,
        "cells": column.cells,
        "description": column.description,
    }
    if column.values:
        fields["values"] = list(column.values)
    if column.edges:
        fields["edges"] = [float(edge) for edge in column.edges]
    if column.minimum is not None:
        number = column.kind is Kind.INTEGER
        fields["min"] = column.minimum if number else plain(column.minimum)
        fields["max"] = column.maximum if number else plain(column.maximum)
    if column.step is not None:
        fields["step"] = str(column.step)
    return fields
