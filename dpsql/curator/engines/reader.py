"""Reads a Parquet or a CSV file, and no other file from then on."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Final

from dpsql.curator.engines import quote
from dpsql.curator.engines.connection import Connection, Fault, Trouble
from dpsql.curator.engines.files import Files
from dpsql.errors import SourceError
from dpsql.schema import Column, Dataset


def read_parquet(connection: Connection, files: Files) -> str:
    """The relation of a Parquet file. Raises SourceError."""
    _only(connection, files)
    relation = f"read_parquet({_pattern(files)}, hive_partitioning = false)"
    try:
        connection.rows(f"DESCRIBE SELECT * FROM {relation}")
    except Fault as fault:
        found = "is encrypted" if fault.trouble is Trouble.ENCRYPTED else "is not a Parquet file"
        raise SourceError(f"{files.what} {found}, or is damaged: name another copy") from None
    return relation


def read_csv(connection: Connection, files: Files, dataset: Dataset | None) -> str:
    """The relation of a CSV file with a header. Raises SourceError.

    Every field is text that is read as the type of the declared column of its name; a field that is
    none of it lies outside the domain, or is NULL to an owner's query. Lines that cannot be read
    are left out, and what a line has beyond the header's fields is dropped. Nothing is sniffed but
    the header, so that no row decides what is refused. Only the draft of a schema, which is the
    owner's, sees the types that DuckDB finds.
    """
    _only(connection, files)
    _require_text_unit(files, dataset)
    try:
        if dataset is None:
            return _sniffed(connection, files)
        relation, names = csv_text(files)
        connection.rows(f"DESCRIBE SELECT * FROM {relation}")
    except (Fault, OSError, EOFError, UnicodeDecodeError, csv.Error, ValueError):
        found = "cannot be read as CSV in UTF-8 with a header of different names"
        raise SourceError(f"{files.what} {found}: correct it, or name another file") from None
    declared = {column.table_name.casefold(): column for column in dataset.columns}
    fields = [_typed(name, declared.get(name.casefold())) for name in names]
    return f"(SELECT {', '.join(fields)} FROM {relation})"


def csv_text(files: Files) -> tuple[str, list[str]]:
    """The relation of a CSV file whose fields are all text, and their names.

    Raises what a file that cannot be read or has no header raises.
    """
    names, delimiter = _header(files.path)
    read = ", ".join(f"{quote.text(name)}: 'VARCHAR'" for name in names)
    relation = (
        f"read_csv({_pattern(files)}, header = true, auto_detect = false, "
        f"delim = {quote.text(delimiter)}, quote = '\"', escape = '\"', columns = {{{read}}}, "
        "ignore_errors = true, null_padding = false, strict_mode = false)"
    )
    return relation, names


def _require_text_unit(files: Files, dataset: Dataset | None) -> None:
    """Raise SourceError when the ids of units would be read as something else than text.

    A field that is no number would be NULL then, and a NULL id is a unit of its own: the rows of
    that person would not be bounded.
    """
    if dataset is None or dataset.unit.column is None:
        return
    unit = dataset.unit.column.casefold()
    for column in dataset.columns:
        if column.table_name.casefold() == unit and column.sql_type != "VARCHAR":
            raise SourceError(
                f"{files.what}: the unit column {dataset.unit.column} of a CSV file is read as "
                "text: leave it out of [columns], or declare it as a category of text"
            )


_DELIMITERS: Final = (",", ";", "\t", "|")
_LONGEST: Final = 1 << 20  # bytes of a header


def _header(path: Path) -> tuple[list[str], str]:
    """The names in the first line, and the delimiter that parts it into the most of them."""
    opened = gzip.open if path.name.lower().endswith(".gz") else open
    with opened(path, "rb") as file:
        line = file.readline(_LONGEST).decode("utf-8-sig").rstrip("\r\n")
    parted = {d: next(csv.reader([line], delimiter=d, strict=True), []) for d in _DELIMITERS}
    delimiter = max(_DELIMITERS, key=lambda d: len(parted[d]))
    names = parted[delimiter]
    if not names or len({name.casefold() for name in names}) < len(names) or "" in names:
        raise ValueError("no header")
    return names, delimiter


def _typed(name: str, column: Column | None) -> str:
    """A field of text as the declared type, NULL where it is none; other fields stay text."""
    field = quote.name(name)
    match None if column is None else column.sql_type:
        case "BIGINT":
            whole = f"regexp_full_match(trim({field}), '[+-]?[0-9]{{1,38}}')"
            return f"CASE WHEN {whole} THEN TRY_CAST(trim({field}) AS HUGEINT) END AS {field}"
        case "DOUBLE" | "DATE" | "BOOLEAN" as sql_type:
            return f"TRY_CAST(trim({field}) AS {sql_type}) AS {field}"
        case _:
            return field


def _sniffed(connection: Connection, files: Files) -> str:
    """A CSV file as DuckDB finds it, with the types of all its rows."""
    sniffed = f"read_csv({_pattern(files)}, header = true, sample_size = -1)"
    rows = connection.rows(f"DESCRIBE SELECT * FROM {sniffed}")
    types = ", ".join(f"{quote.text(str(row[0]))}: {quote.text(str(row[1]))}" for row in rows)
    return f"read_csv({_pattern(files)}, header = true, sample_size = 1, types = {{{types}}})"


def _only(connection: Connection, files: Files) -> None:
    connection.lock(sorted({str(files.path), _glob(files)}))


def _pattern(files: Files) -> str:
    return quote.text(_glob(files))


def _glob(files: Files) -> str:
    """The path as a pattern that it alone matches."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in str(files.path))
