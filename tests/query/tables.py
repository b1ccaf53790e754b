"""Random schemas with their tables, and values as SQL writes them."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from typing import Any

from dpsql.schema import Column, Dataset, Kind, Neighbours, Source, Unit

NAMES = (
    "a", "b", "c", "D", "Age", "été", "two words", 'quo"te', "select", "order", "group", "k0", "a0",
    "v", "i", "row#", "#", "count", "x.y", "null", "Ärger", "ärger",
)  # fmt: skip
ALIASES = (*NAMES, "n", "m", "x", "y")
TEXTS = ("a", "B", "b", "", "10", "2", "x y", "it's", "é", "Z%", "_", "NULL", "true", 'q"', "\\")


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


@dataclass(frozen=True)
class Table:
    """A declared dataset and rows that lie in its domain."""

    dataset: Dataset
    rows: list[tuple[Any, ...]]
    full: bool  # every cell of the domain is there

    @property
    def fields(self) -> str:
        return ", ".join(f"{quoted(c.name)} {c.sql_type}" for c in self.dataset.columns)


def table(rng: Random) -> Table:
    """A random schema of up to five columns, and a few rows of it."""
    names: list[str] = []
    for name in rng.sample(NAMES, rng.randint(1, 5)):
        if name.casefold() not in {n.casefold() for n in names}:
            names.append(name)
    columns = tuple(_column(rng, name) for name in names)
    name = rng.choice(["t", "T two", "select", 'd"x', "données", columns[0].name])
    dataset = Dataset(name, columns, Neighbours.ADD_REMOVE, Unit(), Source(table="t"))
    cells = 1
    for column in columns:
        cells *= column.cells
    full = cells <= 300 and rng.random() < 0.6
    rows = _all_cells(columns) if full else []
    for _ in range(rng.choice([0, 1, 5, 30])):
        rows.append(tuple(column.point(rng.randrange(column.cells)) for column in columns))
    return Table(dataset, rows, full)


def _all_cells(columns: Sequence[Column]) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = [()]
    for column in columns:
        rows = [(*row, column.point(code)) for row in rows for code in range(column.cells)]
    return rows


def _column(rng: Random, name: str) -> Column:
    nullable = rng.random() < 0.4
    match rng.randrange(8):
        case 0 | 1:
            values = tuple(rng.sample(TEXTS, rng.randint(2, 5)))
            return Column(name, Kind.CATEGORY, nullable, values=values)
        case 2:
            numbers = tuple(rng.sample([-7, -1, 0, 1, 2, 3, 10, 200], rng.randint(2, 4)))
            return Column(name, Kind.CATEGORY, nullable, values=numbers)
        case 3 | 4:
            low = rng.choice([-3, -1, 0, 1, 20])
            return Column(
                name, Kind.INTEGER, nullable, minimum=low, maximum=low + rng.randint(1, 6)
            )
        case 5:
            low, step = rng.choice(
                [("0", "0.5"), ("-1", "0.25"), ("0.1", "0.1"), ("10", "5"), ("-0.3", "0.2")]
            )
            top = Decimal(low) + rng.randint(1, 5) * Decimal(step)
            return Column(
                name, Kind.NUMBER, nullable, minimum=Decimal(low), maximum=top, step=Decimal(step)
            )
        case 6:
            start = datetime.date(2024, rng.choice([1, 2, 12]), rng.choice([1, 28, 31 - 2]))
            step = rng.choice(["day", "week", "month", "year"])
            days = {"day": 1, "week": 7, "month": 31, "year": 366}[step] * rng.randint(1, 4)
            return Column(
                name, Kind.DATE, nullable, minimum=start,
                maximum=start + datetime.timedelta(days=days), step=step,
            )  # fmt: skip
        case _:
            if rng.random() < 0.3:
                edges = tuple(Decimal(e) for e in ("-10", "0", "2.5", "100")[: rng.randint(3, 4)])
                return Column(name, Kind.NUMBER, nullable, edges=edges)
            return Column(name, Kind.BOOLEAN, nullable)


@dataclass
class Source_:
    """What FROM gives: the text of a column by kind, as the analyst may write it."""

    columns: dict[str, list[tuple[str, Column]]] = field(default_factory=dict)

    def add(self, written: str, column: Column) -> None:
        self.columns.setdefault(kind_of(column), []).append((written, column))


def kind_of(column: Column) -> str:
    if column.edges:
        return "bins"
    if column.kind is Kind.CATEGORY:
        return "number" if isinstance(column.values[0], int) else "text"
    return {
        Kind.INTEGER: "number", Kind.NUMBER: "number", Kind.DATE: "date", Kind.BOOLEAN: "boolean",
    }[column.kind]  # fmt: skip


def literal(column: Column, code: int) -> str:
    """A declared value as SQL writes it."""
    return sql_literal(column.point(code))


def sql_literal(value: Any) -> str:
    """A value as SQL writes it."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return text(value)
        case datetime.date():
            return f"DATE '{value.isoformat()}'"
        case _:
            return repr(value)
