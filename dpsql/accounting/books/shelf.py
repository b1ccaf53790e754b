"""Where books stand: a file of SQLite, or a PostgreSQL server at `postgresql://...`."""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpsql.accounting.book import Book

SCHEMES = ("postgresql://", "postgres://")


def is_url(path: str | PathLike[str]) -> bool:
    """Whether this names a PostgreSQL server and no file."""
    return os.fspath(path).startswith(SCHEMES)


def book_at(path: str | PathLike[str], *, create: bool) -> Book:
    """The book at a path or address. Raises LedgerError, and MissingExtra without psycopg."""
    if is_url(path):
        from dpsql.accounting.books.postgres_book import PostgresBook

        return PostgresBook(os.fspath(path), create=create)
    from dpsql.accounting.books.sqlite_book import SqliteBook

    return SqliteBook(path, create=create)


def witness(database: Path, place: str | PathLike[str]) -> str | None:
    """The file beside which a second anchor stands: the data's, where the ledger is elsewhere."""
    if not is_url(place) and _folder(database) == _folder(place):
        return None
    return os.path.realpath(database)


def _folder(path: str | PathLike[str]) -> str:
    return os.path.dirname(os.path.realpath(path))
