"""The Python interface: connections and cursors in the shape of PEP 249 (DB-API 2.0).

An answer is eager and frozen: one draw of noise, one charge, however often it is read. There are
no transactions: a charge is durable before the answer is seen, and cannot be rolled back.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from dpsql.errors import InternalError, Interrupted, UsageError
from dpsql.release import Budget, Plan, Release, ScriptPlan, Value, charged_words
from dpsql.surfaces import pep249
from dpsql.surfaces.pep249 import *  # noqa: F403 -- a module of PEP 249 has all of its names
from dpsql.surfaces.sheet import Sheet, sheet

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from dpsql.accounting.ledger import Ledger
    from dpsql.session import Session
    from dpsql.session.synopses.owned import Synopses

Column: TypeAlias = "tuple[str, str, None, None, None, None, None]"
Parameters: TypeAlias = "Sequence[Any] | Mapping[str, Any] | None"
Schemas: TypeAlias = "str | Path | Sequence[str | Path] | None"


def connect(
    database: str | Path | None = None,
    schema: Schemas = None,
    user: str | None = None,
    ledger: str | Path | Ledger | None = None,
    **settings: Any,
) -> Connection:
    """A connection to a DuckDB, Parquet or CSV file as `user`.

    What is not given comes from DPSQL_DB, DPSQL_SCHEMA, DPSQL_LEDGER and DPSQL_USER, else from
    beside the database. `settings` (epsilon, confidence, backend...) hold for every statement.
    """
    from dpsql.session import Session

    _check_arguments(database, schema, user, ledger)
    found = database or os.environ.get("DPSQL_DB")
    if not found:
        raise UsageError("no database: give its path, or set DPSQL_DB")
    if schema is None and (named := os.environ.get("DPSQL_SCHEMA")):
        schema = [Path(part) for part in named.split(os.pathsep) if part]
    return Connection(
        Session(
            found,
            schema=schema,
            user=os.environ.get("DPSQL_USER") or None if user is None else user,
            ledger=ledger or os.environ.get("DPSQL_LEDGER") or None,
            settings=settings,
        )
    )


def _check_arguments(database: object, schema: object, user: object, ledger: object) -> None:
    """Raise UsageError for an argument of `connect` of a type that it does not take."""
    from dpsql.accounting.ledger import Ledger

    path = (str, os.PathLike, type(None))
    listed = schema if isinstance(schema, list | tuple) else [schema]
    for name, given, types, wanted in (
        ("database", database, path, "a path"),
        *(("schema", part, path, "a path, or a list of paths") for part in listed),
        ("user", user, (str, type(None)), "text"),
        ("ledger", ledger, (*path, Ledger), "a path, an address, or a dpsql.Ledger"),
    ):
        if not isinstance(given, types):
            raise UsageError(f"{name} is {wanted}, not {type(given).__name__}")


class Connection:
    """A session with its cursors. Not to be shared by threads."""

    Warning = pep249.Warning
    Error = pep249.Error
    InterfaceError = pep249.InterfaceError
    DatabaseError = pep249.DatabaseError
    DataError = pep249.DataError
    OperationalError = pep249.OperationalError
    IntegrityError = pep249.IntegrityError
    InternalError = pep249.InternalError
    ProgrammingError = pep249.ProgrammingError
    NotSupportedError = pep249.NotSupportedError

    def __init__(self, session: Session) -> None:
        self._session: Session | None = session
        self._stopped = False  # by `interrupt`

    @property
    def session(self) -> Session:
        """The session; raises UsageError once the connection is closed."""
        if self._session is None:
            raise UsageError("the connection is closed")
        return self._session

    def __repr__(self) -> str:
        if self._session is None:
            return "<a closed connection of dpsql>"
        return f"<a connection of dpsql to {self.session.database} for {self.session.user!r}>"

    def cursor(self) -> Cursor:
        """A new cursor of this connection."""
        return Cursor(self)

    def execute(self, sql: str, parameters: Parameters = None, **settings: Any) -> Cursor:
        """A new cursor that holds the answer; `settings` hold for this statement alone."""
        return self.cursor().execute(sql, parameters, **settings)

    def explain(self, sql: str, parameters: Parameters = None, **settings: Any) -> Plan:
        """What the statement would do and cost: free, and reads no private data."""
        with self._stoppable(paying=False):
            return self.session.explain(sql, parameters, **settings)

    def run(
        self,
        script: str | Path,
        parameters: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> list[Release]:
        """The answers to a script (SQL, or the path of a file), planned and paid together.

        The price of each release is the whole script's: a tenth of the grant unless it is said.
        """
        with self._stoppable():
            return self.session.run(script, parameters, **settings)

    def explain_script(
        self,
        script: str | Path,
        parameters: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> ScriptPlan:
        """What `run` would do and cost: free, and reads no private data."""
        with self._stoppable(paying=False):
            return self.session.explain_script(script, parameters, **settings)

    def budget(self, dataset: str | None = None) -> Budget:
        """What was granted, spent and is left."""
        return self.session.budget(dataset)

    @property
    def synopses(self) -> Synopses:
        """Synopses: create, listed, shown, described, export, drop. Raises InterfaceError."""
        from dpsql.session.synopses.owned import Synopses

        return Synopses(self.session, self._stoppable)

    def interrupt(self) -> None:
        """Stop the running statement, from another thread; it raises Interrupted there.

        One that is being planned stops before it is charged. Nothing happens where none runs, or
        where its answer has only to be shown.
        """
        session = self.session
        self._stopped = True
        session.interrupt()

    @contextmanager
    def _stoppable(self, *, paying: bool = True) -> Iterator[None]:
        """What `interrupt` stops is an error of the statement: KeyboardInterrupt, which is raised
        for Ctrl-C, would end the event loop that waits for a thread."""
        self._stopped = False
        try:
            yield
        except KeyboardInterrupt as error:
            if not self._stopped:
                raise
            fault = Interrupted("the statement was stopped")
            told, session = "\n".join(getattr(error, "__notes__", ())), self._session
            last = session.last_charge if paying and session is not None else None
            fault.charged = told or charged_words(last)
            raise fault from None

    def commit(self) -> None:
        """Nothing to do: charges are durable before answers are seen."""
        self._check()

    def rollback(self) -> None:
        """Nothing to do: a charge cannot be taken back."""
        self._check()

    def _check(self) -> Session:
        return self.session

    def close(self) -> None:
        """Close the session; closing again does nothing."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def __enter__(self) -> Connection:
        self._check()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Cursor:
    """The answer to the last statement, read row by row or as a frame."""

    def __init__(self, connection: Connection) -> None:
        self.arraysize = 1
        self._connection: Connection | None = connection
        self._page: Sheet | None = None
        self._releases: tuple[Release, ...] = ()
        self._position = 0

    @property
    def connection(self) -> Connection:
        """The connection; raises UsageError once the cursor is closed."""
        if self._connection is None:
            raise UsageError("the cursor is closed")
        return self._connection

    def execute(self, sql: str, parameters: Parameters = None, **settings: Any) -> Cursor:
        """Answer one statement; `?` (or `$name`) in it stands for a parameter, a literal."""
        self._page, self._releases, self._position = None, (), 0
        self._answer(sql, parameters, settings)
        return self

    def executemany(
        self, sql: str, sets: Iterable[Sequence[Any] | Mapping[str, Any]], **settings: Any
    ) -> Cursor:
        """Answer the statement once for each set of parameters, each at its own price.

        The rows of all answers follow each other; `releases` has the answers apart. What is
        answered stays readable when a later set is refused.
        """
        self._page, self._releases, self._position = None, (), 0
        for parameters in sets:
            self._answer(sql, parameters, settings)
        return self

    def _answer(self, sql: str, parameters: Parameters, settings: Mapping[str, Any]) -> None:
        """Answer one statement and add its rows to the page."""
        session = self._check()
        with self.connection._stoppable():
            release = session.answer(sql, _literals(parameters), **settings)
        self._releases = (*self._releases, release)
        try:
            page = sheet(release)
            if self._page is not None:
                page = Sheet(page.columns, page.types, [*self._page.rows, *page.rows])
            self._page = page
            return
        except Exception as error:
            fault = InternalError(
                f"the rows could not be shown ({type(error).__name__}): a fault of dpsql; "
                "`release` has the answer"
            )
        fault.charged = charged_words(release.charged)
        raise fault

    @property
    def release(self) -> Release:
        """The last answer with intervals, standard errors, backend, price and what is left."""
        if not self._releases:
            raise UsageError("no statement was answered yet")
        return self._releases[-1]

    @property
    def releases(self) -> tuple[Release, ...]:
        """The answers to the last execute or executemany."""
        return self._releases

    @property
    def description(self) -> tuple[Column, ...] | None:
        """Name and DuckDB type of each column, seven fields as PEP 249 says; None before."""
        page = self._page
        if page is None:
            return None
        return tuple(
            (name, kind, None, None, None, None, None)
            for name, kind in zip(page.columns, page.types, strict=True)
        )

    @property
    def rowcount(self) -> int:
        """The number of rows of the answer, -1 before there is one."""
        return -1 if self._page is None else len(self._page.rows)

    def fetchone(self) -> tuple[Value, ...] | None:
        """The next row, None after the last."""
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[tuple[Value, ...]]:
        """The next `size` rows (`arraysize` by default), fewer at the end."""
        page = self._read()
        wanted = self.arraysize if size is None else size
        if wanted < 0:
            raise UsageError(f"cannot fetch {wanted} rows")
        rows = list(page.rows[self._position : self._position + wanted])
        self._position += len(rows)
        return rows

    def fetchall(self) -> list[tuple[Value, ...]]:
        """The rows that are left."""
        rows = list(self._read().rows[self._position :])
        self._position += len(rows)
        return rows

    def __repr__(self) -> str:
        return str(self._releases[-1]) if self._releases else "<a cursor of dpsql, not asked yet>"

    def _repr_html_(self) -> str | None:
        return self._releases[-1]._repr_html_() if self._releases else None

    def df(self) -> pandas.DataFrame:
        """All rows as a pandas data frame."""
        from dpsql.surfaces import frames

        return frames.df(self._read())

    def arrow(self) -> pyarrow.Table:
        """All rows as an Arrow table."""
        from dpsql.surfaces import frames

        return frames.arrow(self._read())

    def pl(self) -> polars.DataFrame:
        """All rows as a polars data frame."""
        from dpsql.surfaces import frames

        return frames.pl(self._read())

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Nothing to do; PEP 249 asks for it."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Nothing to do; PEP 249 asks for it."""

    def close(self) -> None:
        """Forget the answer; the cursor cannot be used afterwards."""
        self._connection = self._page = None
        self._releases = ()

    @property
    def rownumber(self) -> int | None:
        """The index of the row that is read next, None before there are rows."""
        return None if self._page is None else self._position

    def __iter__(self) -> Iterator[tuple[Value, ...]]:
        self._check()
        return self

    def __next__(self) -> tuple[Value, ...]:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def __enter__(self) -> Cursor:
        self._check()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _check(self) -> Session:
        """The session. Raises UsageError when the cursor or its connection is closed."""
        return self.connection.session

    def _read(self) -> Sheet:
        self._check()
        if self._page is None:
            raise UsageError("nothing to fetch: no statement was answered yet")
        return self._page


def _literals(parameters: Parameters) -> Parameters:
    """The parameters, unless they are a text taken for a list of letters."""
    if isinstance(parameters, str | bytes):
        raise UsageError("parameters are a list or tuple, one value for each ? in the statement")
    return parameters
