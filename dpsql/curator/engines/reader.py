"""Reads a Parquet or a CSV file, and no other file from then on."""

from __future__ import annotations

from dpsql.curator.engines import quote
from dpsql.curator.engines.connection import Connection, Fault, Trouble
from dpsql.curator.engines.files import Files
from dpsql.errors import SourceError
from dpsql.schema import Dataset


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
    """The relation of a CSV file with a header, whose types are those of all its rows.

    What is declared as text is read as text (01 stays 01), and so is the id of a unit. A column
    without any value has the type that is declared. Raises SourceError.
    """
    _only(connection, files)
    try:
        texts = _csv(files, "all_varchar = true")
        names = {row[0]: "" for row in connection.rows(f"DESCRIBE SELECT * FROM {texts}")}
        types = {name: "VARCHAR" for name in names if name in _texts(dataset, list(names))}
        sniffed = _csv(files, f"sample_size = -1{_types(types)}")
        rows = connection.rows(f"DESCRIBE SELECT * FROM {sniffed}")
        types = {str(name): str(sql_type) for name, sql_type, *_ in rows}
        if dataset is not None:
            types |= _of_empty(connection, sniffed, types, dataset)
    except Fault:
        found = "cannot be read as CSV with a header and the same fields in each row"
        raise SourceError(f"{files.what} {found}: correct it, or name another file") from None
    return _csv(files, f"sample_size = 1{_types(types)}")


def _only(connection: Connection, files: Files) -> None:
    connection.lock(sorted({str(files.path), _glob(files)}))


def _pattern(files: Files) -> str:
    return quote.text(_glob(files))


def _glob(files: Files) -> str:
    """The path as a pattern that it alone matches."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in str(files.path))


def _csv(files: Files, options: str) -> str:
    return f"read_csv({_pattern(files)}, header = true, {options})"


def _types(types: dict[str, str]) -> str:
    """The option that fixes types of columns."""
    fields = (f"{quote.text(name)}: {quote.text(sql_type)}" for name, sql_type in types.items())
    return f", types = {{{', '.join(fields)}}}" if types else ""


def _texts(dataset: Dataset | None, names: list[str]) -> set[str]:
    """The names of the file's columns that are to stay text."""
    if dataset is None:
        return set()
    others = {c.table_name.casefold() for c in dataset.columns if c.sql_type != "VARCHAR"}
    asked = {c.table_name.casefold() for c in dataset.columns if c.sql_type == "VARCHAR"}
    unit = (dataset.unit.column or "").casefold()
    asked |= {unit} - others
    return {name for name in names if name.casefold() in asked}


def _of_empty(
    connection: Connection, relation: str, types: dict[str, str], dataset: Dataset
) -> dict[str, str]:
    """The declared types of those columns that hold no value."""
    declared = {column.table_name.casefold(): column.sql_type for column in dataset.columns}
    wanted = {
        name: declared[name.casefold()]
        for name, sql_type in types.items()
        if sql_type == "VARCHAR" and declared.get(name.casefold(), "VARCHAR") != "VARCHAR"
    }
    if not wanted:
        return {}
    filled = ", ".join(f"count({quote.name(name)}) > 0" for name in wanted)
    [row] = connection.rows(f"SELECT {filled} FROM {relation}")
    return {name: wanted[name] for name, some in zip(wanted, row, strict=True) if not some}
