"""Opens what a dataset is read from: read-only, on its own, and with the door locked behind it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dpsql.curator.engines import quote
from dpsql.curator.engines.catalog import attach, tables
from dpsql.curator.engines.connection import Connection, Fault, Trouble
from dpsql.curator.engines.files import Files, Stamp, format_of, require
from dpsql.curator.engines.reader import read_csv, read_parquet
from dpsql.errors import SourceError
from dpsql.schema import Dataset

_VIEW = quote.name("temp", "main", "__dpsql_source")


@dataclass(frozen=True, slots=True)
class Source:
    """An open source: `relation` is what SQL reads from, `types` the SQL type of each column.

    `costly` says that reading it is slow, or may not give the same rows twice; `fallible` that a
    row may be one that cannot be read, as no row that a table of DuckDB stores is; `varies` that it
    is a view, a query or a table with generated columns, which may give other rows each time.
    `close` lets go of the file and removes what was spilled. `stamp` was taken before the file was
    opened.
    """

    connection: Connection
    files: Files
    relation: str
    types: Mapping[str, str]
    stamp: Stamp
    costly: bool
    fallible: bool
    varies: bool
    close: Callable[[], None]


def open_source(database: Path, dataset: Dataset) -> Source:
    """What the dataset is read from, given the database that somebody named.

    A .parquet or .csv file is itself the source, whatever the schema says of tables; a query
    runs over it under the names of the file and of the dataset. Raises SourceError.
    """
    files, form = place(database, dataset)
    require(files.path, files.what)
    stamp = files.stamp()
    with contextlib.ExitStack() as undo:
        connection = connect(undo)
        query = dataset.source.query
        relation, costly = "", query is not None
        match form:
            case "parquet":
                relation = read_parquet(connection, files)
            case "csv":
                relation, costly = read_csv(connection, files, dataset), True
            case _:
                catalog = attach(connection, files)
                if query is None:
                    relation, costly = _table(connection, catalog, dataset)
        if query is not None:
            if relation:
                for name in {files.path.name.split(".")[0], dataset.name}:
                    view = quote.name("memory", "main", name)
                    connection.execute(f"CREATE VIEW {view} AS SELECT * FROM {relation}")
            relation = _query(connection, query, form)
        types = describe(connection, relation, files.what)
        close = undo.pop_all().close
    fallible = costly or form == "parquet"
    varies = costly and (query is not None or form != "csv")
    return Source(connection, files, relation, types, stamp, costly, fallible, varies, close)


def place(database: Path, dataset: Dataset) -> tuple[Files, str]:
    """The file to open, and its format. A file that was named has to be the schema's, by name."""
    form, declared = format_of(database), dataset.source.file
    if declared is None:
        return named(database), form
    if form != "duckdb":
        if Path(declared).name != database.name:
            raise SourceError(
                f"{database.name} is not the file that the schema of {dataset.name} names as its"
                " source: name that one, or correct file under [source]"
            )
        return named(database), form
    path = Path(os.path.abspath((dataset.folder or database.parent) / declared))
    if format_of(path) == "duckdb":
        found = "the file that the schema names as its source is neither .parquet nor .csv"
        raise SourceError(f"{found}; a DuckDB database is named on the command line instead")
    return Files(path, "the file that the schema names as its source"), format_of(path)


def named(database: Path) -> Files:
    """The file of a database as somebody named it; a message has its name without folders."""
    return Files(Path(os.path.abspath(database)), database.name or str(database))


def connect(undo: contextlib.ExitStack) -> Connection:
    """A connection with nothing attached; `undo` closes it and removes its temporary folder."""
    process = os.getpid()

    def remove() -> None:
        if os.getpid() == process:  # a fork leaves them to its parent
            shutil.rmtree(temporary, ignore_errors=True)

    try:
        temporary = tempfile.mkdtemp(prefix="dpsql-")
    except OSError:
        raise SourceError("there is no folder for temporary files: set TMPDIR to one") from None
    undo.callback(remove)
    try:
        connection = Connection(temporary)
    except Fault:
        raise SourceError("DuckDB does not start: check the memory that is free") from None
    undo.callback(connection.close)
    return connection


def _table(connection: Connection, catalog: str, dataset: Dataset) -> tuple[str, bool]:
    """The table that the schema names; whether its rows are computed."""
    try:
        return lookup(connection, catalog, dataset.source.table or "")
    except KeyError:
        found = "the database lacks the table that dataset"
        found = f"{found} {dataset.name} is declared to be read from"
        raise SourceError(
            f"{found}: correct table under [source], or name another database"
        ) from None


def lookup(connection: Connection, catalog: str, asked: str) -> tuple[str, bool]:
    """A table by its name (schema.table when not in main); whether its rows are computed.

    Raises KeyError where there is none.
    """
    candidates = [("main", asked)]
    if "." in asked:
        schema, _, table = asked.partition(".")
        candidates.append((schema, table))
    there = tables(connection, catalog)
    for fold in (str, str.casefold):
        by_name = {(fold(schema), fold(table)): (schema, table) for schema, table in there}
        for schema, table in candidates:
            if there_is := by_name.get((fold(schema), fold(table))):
                return quote.name(catalog, *there_is), there[there_is]
    raise KeyError(asked)


def _query(connection: Connection, query: str, form: str) -> str:
    """A view of the owner's query over a file of this format."""
    try:
        select = connection.query(query)
        if select is None:
            raise SourceError("the query under [source] must be one SELECT statement")
        connection.execute(f"CREATE TEMP VIEW {_VIEW} AS {select}")
    except Fault as fault:
        error = str(query_error(fault))
        if form == "csv":
            error += "; a field of a CSV file is text unless a declared column has its name: "
            error += "write TRY_CAST"
        raise SourceError(error) from None
    return _VIEW


def query_error(fault: Fault) -> SourceError:
    """What to say when the owner's query does not run."""
    match fault.trouble:
        case Trouble.DENIED:
            found = "reads a file, the network or a setting, and it may read the database alone"
        case Trouble.ABSENT:
            found = "names a table, column or function that the database lacks"
        case Trouble.MEMORY:
            found = "needs more memory or disk space than there is"
        case _:
            found = "fails"
    return SourceError(f"the query under [source] {found}: try it with DuckDB on the database")


def unreadable(files: Files) -> SourceError:
    """What to say when a row cannot be read: the same for every row, column and fault."""
    found = f"{files.what} has rows that cannot be read, so nothing is answered from it"
    return SourceError(f"{found}: the owner of the data finds the column by dpsql schema check")


def describe(connection: Connection, relation: str, what: str) -> dict[str, str]:
    """The columns of a relation and their types. Raises SourceError when it cannot be read."""
    try:
        rows = connection.rows(f"DESCRIBE SELECT * FROM {relation}")
    except Fault as fault:
        if relation == _VIEW:
            raise query_error(fault) from None
        found = f"{what} has the source of the dataset, but it cannot be read"
        raise SourceError(f"{found}: a view may use tables of its own database only") from None
    return {str(row[0]): str(row[1]) for row in rows}
