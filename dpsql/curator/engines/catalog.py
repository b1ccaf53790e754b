"""Attaches a DuckDB file read-only, and lists its tables."""

from __future__ import annotations

from dpsql.curator.engines import quote
from dpsql.curator.engines.connection import Connection, Fault, Trouble
from dpsql.curator.engines.files import Files
from dpsql.errors import SourceError

_TAKEN = ("memory", "system", "temp", "main", "")


def attach(connection: Connection, files: Files) -> str:
    """The catalog under which the file is attached; nothing else can be opened from then on.

    It has the name that DuckDB gives it by itself, for views and queries that use that name.
    Raises SourceError.
    """
    stem = files.path.name.split(".")[0]
    catalog = stem if stem.casefold() not in _TAKEN else "source"
    options = "(READ_ONLY, TYPE duckdb)"
    try:
        path = quote.text(str(files.path))
        connection.execute(f"ATTACH {path} AS {quote.name(catalog)} {options}")
        connection.execute(f"USE {quote.name(catalog, 'main')}")
        connection.lock()
    except Fault as fault:
        raise SourceError(_unopened(files.what, fault.trouble)) from None
    return catalog


def _unopened(what: str, trouble: Trouble) -> str:
    match trouble:
        case Trouble.LOCKED:
            return f"{what} is locked: another process is writing to it; wait until it is closed"
        case Trouble.IN_USE:
            found = f"this process already has {what} open with other settings"
            return f"{found}: close that connection first, or ask from another process"
        case Trouble.VERSION:
            found = f"{what} was written by another version of DuckDB, probably a newer one"
            return f"{found}: pip install --upgrade duckdb"
        case Trouble.FOREIGN:
            return f"{what} is not a DuckDB database, and its name does not end in .parquet or .csv"
        case Trouble.ENCRYPTED:
            return f"{what} is encrypted: name a copy that is not"
        case Trouble.TORN:
            return f"{what} is damaged or cut short: restore it from a copy"
        case Trouble.LOG:
            found = f"{what}.wal, the log beside {what}, is damaged or belongs to another file"
            return f"{found}: restore both from one copy, or open the database once with DuckDB"
        case Trouble.DENIED:
            return f"{what} may not be read by this user: ask its owner for permission"
        case Trouble.ABSENT:
            return f"{what} does not exist any more: check its name and folder"
        case Trouble.MEMORY:
            return f"{what} cannot be opened: memory or disk space ran out"
        case Trouble.INTERRUPTED | Trouble.FAILED:
            return f"{what} cannot be opened: try it with DuckDB, and restore it if that fails too"


def tables(connection: Connection, catalog: str) -> dict[tuple[str, str], bool]:
    """The schema and name of each table and view, and whether its rows are computed as it is read.

    Those of a view are, and those of a table with generated columns: DuckDB computes these anew
    each time, and an UPDATE may have left a row on which they fail. Where other words of its
    definition look like one, a table only counts as such.
    """
    listed = (
        "SELECT schema_name, table_name, coalesce(sql ILIKE '%generated%always%as%', true) "
        "FROM duckdb_tables() WHERE database_name = $1 AND NOT internal UNION ALL "
        "SELECT schema_name, view_name, true FROM duckdb_views() "
        "WHERE database_name = $1 AND NOT internal"
    )
    rows = connection.rows(listed, [catalog])
    return {(str(schema), str(name)): bool(computed) for schema, name, computed in rows}
