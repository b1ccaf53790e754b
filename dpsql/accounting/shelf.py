"""Where books stand: a file of SQLite, or a PostgreSQL server at `postgresql://...`."""

from __future__ import annotations

import os
from os import PathLike

from dpsql.accounting.book import Book

SCHEMES = ("postgresql://", "postgres://")


def is_url(path: str | PathLike[str]) -> bool:
    """Whether this names a PostgreSQL server and no file."""
    return os.fspath(path).startswith(SCHEMES)


def book_at(path: str | PathLike[str], *, create: bool) -> Book:
    """The book at a path or address. Raises LedgerError, and MissingExtra without psycopg."""
    if is_url(path):
        from dpsql.accounting.postgres_book import PostgresBook

        return PostgresBook(os.fspath(path), create=create)
    from dpsql.accounting.sqlite_book import SqliteBook

    return SqliteBook(path, create=create)
