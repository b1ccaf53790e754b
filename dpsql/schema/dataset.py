"""What the owner of a table declares about it as a whole: rows, units, neighbours, columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import cached_property
from pathlib import Path

from dpsql.schema.column import Column
from dpsql.schema.faults import (
    Fault,
    append_only_faults,
    name_faults,
    neighbours_faults,
    refuse,
    same_names,
    source_faults,
    synopses_faults,
    unit_faults,
)
from dpsql.schema.kinds import Neighbours


@dataclass(frozen=True, slots=True)
class Source:
    """Where the rows are, exactly one of the three: a table, the owner's own query, or a file."""

    table: str | None = None
    query: str | None = None
    file: str | None = None

    def __post_init__(self) -> None:
        refuse("source", source_faults(self.table, self.query, self.file))


@dataclass(frozen=True, slots=True)
class Unit:
    """Whose presence is hidden: one row, or all rows that have one value in `column`.

    At most `max_rows` rows of a unit are in the dataset.
    """

    column: str | None = None
    max_rows: int = 1

    def __post_init__(self) -> None:
        refuse("unit", unit_faults(self.column, self.max_rows))


Synopses = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Dataset:
    """A declared table. Everything but `source` may be shown to an analyst.

    `synopses` names sets of columns that a synopsis may learn together. `unsafe` says that values
    were read off the data. `folder` is where the file stood, for a relative path of its source.
    `append_only` says that rows are only ever added, never changed: what the rows of one state of
    the table lost, those that come later did not. Only where the unit is a row. `public` says that
    its rows are no secret: it is no dataset to ask, but one that a synopsis may be made of.
    """

    name: str
    columns: tuple[Column, ...]
    neighbours: Neighbours
    unit: Unit
    source: Source
    description: str = ""
    synopses: Synopses = ()
    unsafe: bool = False
    folder: Path | None = field(default=None, compare=False)
    append_only: bool = False
    public: bool = False

    def __post_init__(self) -> None:
        refuse(f"dataset {self.name!r}", self._faults())

    def _faults(self) -> Iterator[Fault]:
        names = [column.name for column in self.columns]
        yield from name_faults(self.name, ("dataset",), "name of the dataset")
        if not names:
            yield Fault(("columns",), "the dataset has no columns", "declare one or more")
        yield from same_names(names)
        yield from neighbours_faults(self.neighbours, self.unit.column)
        yield from append_only_faults(self.append_only, self.unit.column)
        yield from synopses_faults(self.synopses, names)

    def column(self, name: str) -> Column:
        """The column of this name, in any case. Raises KeyError when there is none."""
        return self._by_name[name.casefold()]

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name.casefold(): column for column in self.columns}

    @cached_property
    def digest(self) -> str:
        """SHA-256, in hex, of what decides the meaning of a count.

        That is the name, the domains, the unit, the neighbours, the source and whether rows are
        only added, or public: not descriptions, synopses or `unsafe`.
        """
        import hashlib
        import json

        meaning = [
            "dpsql schema 1",
            self.name,
            self.neighbours.value,
            [self.unit.column, self.unit.max_rows],
            [self.source.table, self.source.query, self.source.file],
            [
                [c.name, c.kind.value, c.nullable, c.table_name, sorted(c.fields.items())]
                for c in self.columns
            ],
            *(["append-only"] if self.append_only else []),
            *(["public"] if self.public else []),
        ]
        text = json.dumps(meaning, default=_exact)
        return hashlib.sha256(text.encode()).hexdigest()


def _exact(value: object) -> list[str] | str:
    """A decimal number or a date as JSON can hold it; equal numbers are written equally."""
    if isinstance(value, Decimal):
        return [str(part) for part in value.as_integer_ratio()]
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(type(value).__name__)
