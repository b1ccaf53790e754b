"""FOR THE OWNER OF THE DATA ALONE: what a schema can be drafted from.

Types, comments and constraints come from the catalogue and tell nothing about rows. Asked to,
`facts` reads true values off the data: those must never reach an analyst.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from dpsql.curator.engines import quote
from dpsql.curator.engines.catalog import attach, tables
from dpsql.curator.engines.connection import Connection
from dpsql.curator.engines.files import format_of, require
from dpsql.curator.engines.reader import read_csv, read_parquet
from dpsql.curator.engines.source import connect, describe, named
from dpsql.curator.engines.types import INTEGERS, family
from dpsql.curator.owner import Progress, told
from dpsql.errors import SourceError
from dpsql.schema import Fact, Source

_MOST_VALUES: Final = 1000  # a text column with more is no category
_POINTS: Final = 100  # of the grid that is proposed for a number


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known about the columns of one table, and the source that a schema names it by."""

    source: Source
    columns: tuple[Fact, ...]


def facts(
    database: Path,
    table: str | None = None,
    *,
    from_data: bool = False,
    progress: Progress | None = None,
) -> Facts:
    """The facts for a draft of a schema, FOR THE OWNER ALONE.

    `table` may be left out where there is one; a Parquet or CSV file is a table itself. With
    `from_data` the facts have values and bounds that were read off the rows, and say so. Raises
    SourceError; when the table is not clear, the message lists those that there are.
    """
    files, form = named(database), format_of(database)
    require(files.path, files.what)
    with contextlib.ExitStack() as undo:
        connection = connect(undo)
        match form:
            case "parquet":
                relation, source = read_parquet(connection, files), Source(file=files.path.name)
                known: tuple[Fact, ...] = ()
            case "csv":
                relation, source = read_csv(connection, files, None), Source(file=files.path.name)
                known = ()
            case _:
                catalog = attach(connection, files)
                found = _choose(tables(connection, catalog), table, files.what)
                name = found[1] if found[0] == "main" else ".".join(found)
                relation, source = quote.name(catalog, *found), Source(table=name)
                known = _catalogued(connection, catalog, *found)
        types = describe(connection, relation, files.what)
        columns = known or tuple(Fact(column, sql_type) for column, sql_type in types.items())
        if from_data:
            with told(files.what):
                columns = _read(connection, relation, columns, progress)
    return Facts(source, columns)


def _choose(there: Iterable[tuple[str, str]], asked: str | None, what: str) -> tuple[str, str]:
    """The schema and name of the table that is meant."""
    names = {
        (name if schema == "main" else f"{schema}.{name}"): (schema, name) for schema, name in there
    }
    if asked is None and len(names) == 1:
        return next(iter(names.values()))
    folded = {name.casefold(): place for name, place in names.items()}
    if asked is not None and (found := folded.get(asked.casefold())):
        return found
    if not names:
        raise SourceError(f"{what} has no tables")
    listed = ", ".join(sorted(names))
    problem = "has several tables" if asked is None else f"has no table {asked}"
    raise SourceError(f"{what} {problem}: name one of {listed}")


def _catalogued(connection: Connection, catalog: str, schema: str, table: str) -> tuple[Fact, ...]:
    """What the catalogue says about the columns of a table or view."""
    place = [catalog, schema, table]
    where = "WHERE database_name = $1 AND schema_name = $2 AND table_name = $3"
    columns = connection.rows(
        f"SELECT column_name, data_type, is_nullable, comment FROM duckdb_columns() {where} "
        "ORDER BY column_index",
        place,
    )
    checks: dict[str, list[str]] = {}
    listed = connection.rows(
        "SELECT constraint_text, constraint_column_names FROM duckdb_constraints() "
        f"{where} AND constraint_type = 'CHECK'",
        place,
    )
    for text, names in listed:
        for name in names:
            checks.setdefault(name, []).append(text)
    return tuple(
        Fact(
            name,
            sql_type,
            nullable=bool(nullable),
            comment=comment or "",
            checks=tuple(checks.get(name, ())),
        )
        for name, sql_type, nullable, comment in columns
    )


def _read(
    connection: Connection, relation: str, columns: Sequence[Fact], progress: Progress | None
) -> tuple[Fact, ...]:
    """The facts with what the rows add: whether NULL occurs, and values or bounds."""
    read: list[Fact] = []
    for number, fact in enumerate(columns):
        if progress is not None:
            progress(number, len(columns))
        column = quote.name(fact.name)
        [(nulls,)] = connection.rows(f"SELECT count(*) > count({column}) FROM {relation}")
        added = _values(connection, relation, column, fact.sql_type)
        read.append(replace(fact, nullable=bool(nulls), from_data=True, **added))
    if progress is not None:
        progress(len(columns), len(columns))
    return tuple(read)


def _values(connection: Connection, relation: str, column: str, sql_type: str) -> Mapping[str, Any]:
    """Distinct texts, or the bounds, of a column; nothing of a type that cannot be declared."""
    kind = family(sql_type)
    if kind == "VARCHAR":
        distinct = f"SELECT DISTINCT encode(CAST({column} AS VARCHAR)) AS v FROM {relation}"
        listed = f"SELECT decode(v) FROM ({distinct}) WHERE v IS NOT NULL"
        texts = connection.rows(f"{listed} LIMIT {_MOST_VALUES + 1}")
        few = len(texts) <= _MOST_VALUES
        return {"values": tuple(sorted(text for (text,) in texts))} if few else {}
    if kind in INTEGERS or kind == "DATE":
        where = f"isfinite({column})" if kind == "DATE" else "true"
        bounds = f"SELECT min({column}), max({column}) FROM {relation} WHERE {where}"
        [(low, high)] = connection.rows(bounds)
        return {} if low is None else {"minimum": low, "maximum": high}
    if kind in ("FLOAT", "DOUBLE", "DECIMAL"):
        number = f"CAST({column} AS DOUBLE)"
        bounds = f"SELECT min({number}), max({number}) FROM {relation} WHERE isfinite({number})"
        [(low, high)] = connection.rows(bounds)
        return {} if low is None else _grid(low, high)
    return {}


def _grid(low: float, high: float) -> dict[str, Decimal]:
    """A grid of about a hundred round numbers that reaches over both bounds."""
    width = Decimal((high - low) / _POINTS or max(abs(high), 1.0) / _POINTS)
    unit = Decimal(1).scaleb(width.adjusted())
    step = next((times * unit for times in (1, 2, 5) if times * unit >= width), unit.scaleb(1))
    first = (Decimal(low) / step).to_integral_value("ROUND_FLOOR") * step
    last = (Decimal(high) / step).to_integral_value("ROUND_CEILING") * step
    return {"minimum": first, "maximum": last if last > first else first + step, "step": step}
