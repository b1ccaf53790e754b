"""A release as plain columns and rows, with its intervals as columns when asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dpsql.release import EACH, PURSE, SYNOPSES, Release, Row
from dpsql.schema.sqltypes import numeric

__all__ = ["Sheet", "bare", "costs", "distinct", "numeric", "sheet"]


@dataclass(frozen=True, slots=True)
class Sheet:
    """Names, DuckDB types and rows of plain values, as scripts read them."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: Sequence[Row]


def sheet(release: Release) -> Sheet:
    """The release's values; where intervals were asked for as columns, `<name>_low` and
    `<name>_high` follow each noisy column, as DOUBLE."""
    bounded = [i for i, noisy in enumerate(release.noisy) if noisy and release.intervals]
    if not bounded:
        return Sheet(release.columns, release.types, release.rows)
    columns: list[str] = []
    types: list[str] = []
    for index, (name, kind) in enumerate(zip(release.columns, release.types, strict=True)):
        columns.append(name)
        types.append(kind)
        if index in bounded:
            columns += [f"{name}_low", f"{name}_high"]
            types += ["DOUBLE", "DOUBLE"]
    rows = [
        tuple(
            item
            for index, value in enumerate(row)
            for item in ((value, low[index], high[index]) if index in bounded else (value,))
        )
        for row, low, high in zip(release.rows, release.low, release.high, strict=True)
    ]
    return Sheet(tuple(columns), tuple(types), rows)


def distinct(names: Iterable[str]) -> tuple[str, ...]:
    """The names, a repeated one numbered as DuckDB does (`n`, `n_1`), letter case aside."""
    taken: set[str] = set()
    chosen: list[str] = []
    for name in names:
        unique, number = name, 0
        while unique.lower() in taken:
            number += 1
            unique = f"{name}_{number}"
        taken.add(unique.lower())
        chosen.append(unique)
    return tuple(chosen)


def costs(release: Release, column: int) -> bool:
    """Whether a column holds costs, of a list of ours."""
    name, kind = release.columns[column], release.types[column]
    listed = release.columns == PURSE or (name in EACH and not release.noisy)
    return listed and kind == "DOUBLE"


def bare(release: Release) -> bool:
    """Whether this is a list of ours that is empty: its notes say so, in place of a table."""
    return not release.rows and release.columns in (PURSE, SYNOPSES)
