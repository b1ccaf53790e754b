"""An empty, locked DuckDB: it parses SQL and evaluates expressions on public values.

It is opened in memory, holds no private data, sees no path, and can reach no file, no network
and no extension. Its error texts stay here: callers learn that something failed, not why.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

MAX_DEPTH = 200  # nested expressions that DuckDB's parser accepts


class EmptyError(Exception):
    """The empty database refused; `position` is a character offset when the parser gave one."""

    def __init__(self, kind: str, position: int | None = None) -> None:
        super().__init__(kind)
        self.kind, self.position = kind, position


class Empty:
    """One empty database, with a connection for each thread that uses it."""

    def __init__(self) -> None:
        self._root = duckdb.connect(
            ":memory:",
            config={
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "threads": "1",
                "memory_limit": "2GB",
                "temp_directory": "",
                "max_expression_depth": str(MAX_DEPTH),
            },
        )
        self._root.execute("SET enable_external_access = false")
        self._root.execute("SET lock_configuration = true")
        self._local = threading.local()
        self._made: set[str] = set()
        self._making = threading.Lock()

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        found: duckdb.DuckDBPyConnection | None = getattr(self._local, "connection", None)
        if found is None:
            found = self._local.connection = self._root.cursor()
        return found

    def parse(self, sql: str) -> list[dict[str, Any]]:
        """DuckDB's own syntax trees of the SELECT statements in `sql`. Raises EmptyError."""
        try:
            found = self._connection.execute(
                "SELECT json_serialize_sql(?, skip_null := true, skip_empty := false, "
                "skip_default := true)",
                [sql],
            ).fetchone()
        except duckdb.Error:
            raise EmptyError("parser") from None
        assert found is not None
        tree = json.loads(found[0])
        if tree["error"]:
            position = tree.get("position")
            raise EmptyError(tree["error_type"], None if position is None else int(position))
        return [statement["node"] for statement in tree["statements"]]

    def make(self, name: str, statements: Sequence[tuple[str, list[Any]]]) -> None:
        """Run `statements`, which make the table `name`, once in the life of this database."""
        if name in self._made:
            return
        with self._making:
            if name in self._made:
                return
            for sql, params in statements:
                self._connection.execute(sql, params)
            self._made.add(name)

    def arrays(self, sql: str) -> tuple[list[NDArray[Any]], list[str]]:
        """The columns of a query over public values, and DuckDB's types. Raises EmptyError."""
        try:
            cursor = self._connection.execute(sql)
            types = [str(column[1]) for column in cursor.description or ()]
            found = cursor.fetchnumpy()
        except duckdb.Error as error:
            raise EmptyError(type(error).__name__) from None
        return [np.ma.filled(column) for column in found.values()], types

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query over public values. Raises EmptyError."""
        try:
            return self._connection.execute(sql, list(params)).fetchall()
        except duckdb.Error as error:
            raise EmptyError(type(error).__name__) from None

    def describe(self, sql: str, params: Sequence[Any] = ()) -> tuple[list[str], list[str]]:
        """Names and types of the columns that a query would have. Raises EmptyError."""
        try:
            cursor = self._connection.execute(sql, list(params))
        except duckdb.Error as error:
            raise EmptyError(type(error).__name__) from None
        described = cursor.description or ()
        return [column[0] for column in described], [str(column[1]) for column in described]

    def rows_over(
        self, tables: dict[str, dict[str, NDArray[Any]]], sql: str
    ) -> list[tuple[Any, ...]]:
        """The rows of a query over released values, given as named tables of columns."""
        connection = self._root.cursor()
        try:
            for name, table in tables.items():
                connection.register(name, table)
            return connection.execute(sql).fetchall()
        except duckdb.Error as error:
            raise EmptyError(type(error).__name__) from None
        finally:
            for name in tables:
                connection.unregister(name)
            connection.close()

    def interrupt(self) -> None:
        """Stop what the calling thread's connection runs."""
        self._connection.interrupt()


_SHARED: list[Empty] = []
_OPENING = threading.Lock()


def shared() -> Empty:
    """The one empty database of this process, opened at first use."""
    if not _SHARED:
        with _OPENING:
            if not _SHARED:
                _SHARED.append(Empty())
    return _SHARED[0]


def tokens(sql: str) -> list[tuple[int, str]]:
    """DuckDB's tokens of a text: the offset and kind (keyword, string_const, ...) of each."""
    return [(start, kind.name) for start, kind in duckdb.tokenize(sql)]
