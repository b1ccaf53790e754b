"""An empty, locked DuckDB: it parses SQL and evaluates expressions on public values.

It is opened in memory, holds no private data, sees no path, and can reach no file, no network
and no extension. Its error texts stay here: callers learn that something failed, not why.
"""

from __future__ import annotations

import contextlib
import json
import threading
import weakref
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import duckdb
from numpy.typing import NDArray

from dpsql.query.expr import text_literal

Arrays: TypeAlias = Mapping[str, NDArray[Any]]

SCHEMA = "dpsql"  # of tables of our own; a dataset stands in `main`, under any name
MAX_DEPTH = 200  # nested expressions that DuckDB's parser accepts
_LOCKED: Final[dict[str, Any]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "threads": "1",
    "memory_limit": "2GB",
    "temp_directory": "",
    "max_expression_depth": str(MAX_DEPTH),
    "python_enable_replacements": "false",
}

_OPTIMIZERS = {"in_clause", "top_n", "unused_columns"}  # the rest takes longer than it saves here
_PARSE = (
    "PREPARE parse AS SELECT json_serialize_sql($1::VARCHAR, skip_null := true, "
    "skip_empty := false, skip_default := true)"
)


class EmptyError(Exception):
    """The empty database refused; `position` is a byte offset when the parser gave one."""

    def __init__(self, kind: str, position: int | None = None) -> None:
        super().__init__(kind)
        self.kind, self.position = kind, position


class Empty:
    """One empty database, with a connection for each thread that uses it."""

    def __init__(self) -> None:
        self._root = duckdb.connect(":memory:", config=_LOCKED)
        self._root.execute(f"CREATE SCHEMA {SCHEMA}")
        known = {name for (name,) in self._root.execute("FROM duckdb_optimizers()").fetchall()}
        unused = ",".join(sorted(known - _OPTIMIZERS))
        self._root.execute(f"SET GLOBAL disabled_optimizers = '{unused}'")
        self._root.execute("SET enable_external_access = false")
        self._root.execute("SET lock_configuration = true")
        self._local = threading.local()  # connections for a thread's queries and for its parsing
        self._open: weakref.WeakSet[duckdb.DuckDBPyConnection] = weakref.WeakSet()
        self._made: set[str] = set()
        self._holders: Counter[str] = Counter()
        self._let_go: deque[str] = deque()
        self._making = threading.Lock()

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        found: duckdb.DuckDBPyConnection | None = getattr(self._local, "connection", None)
        if found is None:
            found = self._local.connection = self._cursor()
        return found

    def _cursor(self) -> duckdb.DuckDBPyConnection:
        cursor = self._root.cursor()
        self._open.add(cursor)
        return cursor

    def interrupt(self) -> None:
        """Stop the queries that any thread runs here; they raise KeyboardInterrupt there."""
        for connection in list(self._open):
            connection.interrupt()

    # -- parsing -------------------------------------------------------------------------------

    def parse(self, sql: str) -> list[dict[str, Any]]:
        """DuckDB's own syntax trees of the SELECT statements in `sql`. Raises EmptyError."""
        parser: duckdb.DuckDBPyConnection | None = getattr(self._local, "parser", None)
        if parser is None:  # not among those that `interrupt` stops: any session may parse here
            parser = self._local.parser = self._root.cursor()
            parser.execute(_PARSE)
        try:
            found = parser.execute(f"EXECUTE parse({text_literal(sql)})").fetchone()
        except duckdb.Error as error:
            raise _own(error) from None
        assert found is not None
        if not found[0]:  # DuckDB 2 on B'é', whose tree it cannot write
            raise EmptyError("unwritable")
        tree = json.loads(found[0])
        if tree["error"]:
            position = tree.get("position")
            raise EmptyError(tree["error_type"], None if position is None else int(position))
        return [statement["node"] for statement in tree["statements"]]

    # -- tables of public values ---------------------------------------------------------------

    def has(self, name: str) -> bool:
        """Whether the table `name` is made."""
        return name in self._made

    def make(self, name: str, query: str, arrays: Arrays | None = None) -> None:
        """Make the table `name` of a query, unless it is there already. Raises EmptyError.

        The query can read `arrays` as `temp.given`.
        """
        with self._making:
            self._make(name, query, arrays)

    def _make(self, name: str, query: str, arrays: Arrays | None = None) -> None:
        self._sweep()
        if name in self._made:
            return
        given = {} if arrays is None else {"given": arrays}
        with _own_errors(), self._reading(given) as connection:
            connection.execute(f"CREATE OR REPLACE TABLE {name} AS {query}")
        self._made.add(name)

    @contextlib.contextmanager
    def made(self, name: str, query: str) -> Iterator[None]:
        """The table `name`, made of a query unless it is there; nobody drops it meanwhile.

        Raises EmptyError.
        """
        with self._making:
            self._make(name, query)
            self._holders[name] += 1  # at once: its other holders may be gone before it is read
        try:
            yield
        finally:
            self._let_go.append(name)

    def declare(self, name: str, fields: str) -> None:
        """Make the empty table `name` with these columns. Raises EmptyError."""
        with self._making, _own_errors():
            self._connection.execute(f"CREATE TABLE {name} ({fields})")

    def hold(self, owner: object, name: str) -> None:
        """Keep the table `name` as long as `owner` lives, or another that holds it."""
        with self._making:
            self._holders[name] += 1
        weakref.finalize(owner, self._let_go.append, name)

    def _sweep(self) -> None:
        """Drop the tables that nobody holds any more."""
        while self._let_go:
            name = self._let_go.popleft()
            self._holders[name] -= 1
            if self._holders[name] <= 0:
                del self._holders[name]
                self._made.discard(name)
                with contextlib.suppress(duckdb.Error):
                    self._connection.execute(f"DROP TABLE IF EXISTS {name}")

    @contextlib.contextmanager
    def _reading(self, tables: Mapping[str, Arrays]) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection that sees tables of arrays in `temp`."""
        if not tables:
            yield self._connection
            return
        cursor = self._cursor()
        try:
            for name, arrays in tables.items():
                cursor.register(name, dict(arrays))
            yield cursor
        finally:
            cursor.close()

    # -- queries over public values ------------------------------------------------------------

    def arrays(self, sql: str) -> list[NDArray[Any]]:
        """The columns of a query, masked where they are NULL. Raises EmptyError."""
        with _own_errors():
            return list(self._connection.execute(sql).fetchnumpy().values())

    def rows(
        self,
        sql: str,
        params: Sequence[Any] | Mapping[str, Any] = (),
        tables: Mapping[str, Arrays] | None = None,
    ) -> list[tuple[Any, ...]]:
        """The rows of a query, also over arrays, by name in `temp`. Raises EmptyError."""
        with _own_errors(), self._reading(tables or {}) as connection:
            return connection.execute(sql, params or None).fetchall()

    def describe(
        self, sql: str, params: Sequence[Any] | Mapping[str, Any] = ()
    ) -> tuple[list[str], list[str]]:
        """Names and types of the columns that a query would have; it is not run.

        Raises EmptyError.
        """
        listed = self.rows(f"DESCRIBE {sql}", params)
        return [row[0] for row in listed], [row[1] for row in listed]


@contextlib.contextmanager
def _own_errors() -> Iterator[None]:
    """Errors of DuckDB without their texts."""
    try:
        yield
    except duckdb.Error as error:
        raise _own(error) from None


def _own(error: duckdb.Error) -> BaseException:
    """What to raise for an error of DuckDB, whose text stays here."""
    if isinstance(error, duckdb.InterruptException):
        return KeyboardInterrupt()
    return EmptyError(type(error).__name__)


_OPENING = threading.Lock()
_UNTAKEN: list[Empty] = []
_PARSES: list[weakref.ref[Empty]] = []


def parsing() -> Empty:
    """An empty database to parse in, and for nothing else: others may have tables there."""
    with _OPENING:
        found = _PARSES[0]() if _PARSES else None
        if found is None:
            found = Empty()
            _UNTAKEN[:], _PARSES[:] = [found], [weakref.ref(found)]
        return found


def taken() -> Empty:
    """An empty database for the caller's tables alone; it may parse for everybody.

    Whoever asks first after a text was parsed is given the one that parsed it, for to open
    another takes longer than most answers.
    """
    with _OPENING:
        return _UNTAKEN.pop() if _UNTAKEN else Empty()


def tokens(sql: str) -> list[tuple[int, str]]:
    """DuckDB's tokens of a text: the offset and kind (keyword, string_const, ...) of each."""
    return [(start, kind.name) for start, kind in duckdb.tokenize(sql)]
