"""A book in PostgreSQL: durable, and shared by proxies on any number of machines.

All writers take turns: the first statement of a transaction locks the one row of `dpsql_meta`, so
that what it reads next is what the transaction before it left, and the log has one order. A
transaction that the server breaks off before it is committed is tried again. Commits wait for the
disk (`synchronous_commit`), whatever the server's default; a server without fsync is refused.

Statements go without preparation and settings hold for one transaction, so that a pooler may stand
between. The tables lie in the first schema of the search path: `?options=-csearch_path%3Daudit` in
the address puts another ledger beside the first.

The key and the anchor of the ledger stand in a folder of each machine (`folder`). The machine that
makes the ledger makes the key; the others need a copy of it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from dpsql.accounting.book import Page
from dpsql.accounting.books import forks
from dpsql.accounting.books.rows import FORMAT, NAME
from dpsql.accounting.seals.secret import secret
from dpsql.errors import LedgerError, MissingExtra

try:
    import psycopg
    from psycopg import errors, pq
    from psycopg.conninfo import conninfo_to_dict

    from dpsql.accounting.books.postgres_page import SCHEMA, Link, PostgresPage, damaged
except ImportError:
    raise MissingExtra(
        "a ledger in PostgreSQL needs psycopg: pip install 'dpsql[postgres]'"
    ) from None

T = TypeVar("T")

PATIENCE = 30.0  # seconds that a busy ledger is waited for
PAUSE = 0.005  # seconds between two attempts
MAKING = 0x4450534C  # "DPSL": the advisory lock of whoever makes the tables
KEY = ".seal"
READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
WRITE = """
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL synchronous_commit = on;
SET LOCAL lock_timeout = {patience};
SET LOCAL idle_in_transaction_session_timeout = 60000;
"""
TURN = "SELECT format, ledger FROM dpsql_meta WHERE one = 1 FOR UPDATE"
AGAIN = (errors.SerializationFailure, errors.DeadlockDetected, errors.DuplicateTable)


class PostgresBook:
    """A Book at a `postgresql://` address. Raises LedgerError when it cannot be opened."""

    shared = True
    still = False

    def __init__(self, address: str, *, create: bool, patience: float = PATIENCE) -> None:
        self._address = address
        self.name = _name(address)
        self.ledger = ""
        self._patience = patience
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._connection: Link | None = None
        self._working = False
        self._closed = False
        forks.watch(self)
        try:
            with self._lock:
                self._find(create)
        except BaseException:
            self.close()
            raise

    @property
    def place(self) -> str | None:
        return str(folder() / self.ledger)

    def read(self, question: Callable[[Page], T]) -> T:
        return self._run(lambda connection: self._question(connection, question))

    def write(self, change: Callable[[Page], T]) -> T:
        return self._run(lambda connection: self._change(connection, change))

    note = write

    def version(self) -> object:
        return None

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._drop()

    # -- transactions --------------------------------------------------------------------------

    def _run(self, work: Callable[[Link], T]) -> T:
        deadline = time.monotonic() + self._patience
        fresh = False
        with self._lock:
            try:
                while True:
                    used = self._connection is not None
                    connection = self._ready()
                    self._working = True
                    try:
                        return work(connection)
                    except AGAIN:
                        if not time.monotonic() < deadline:
                            raise
                    except _Unsent:  # the connection was lost, and nothing was committed
                        if not used or fresh:
                            raise
                        fresh = True
                    finally:
                        self._working = False
                    self._settle()
                    time.sleep(PAUSE)
            except BaseException as error:
                self._settle()
                if isinstance(error, psycopg.Error):
                    raise LedgerError(_complaint(self.name, error)) from None
                raise

    def _question(self, connection: Link, question: Callable[[Page], T]) -> T:
        _sent(connection, READ)
        value = question(PostgresPage(connection, self.name))
        connection.execute("COMMIT")
        return value

    def _change(self, connection: Link, change: Callable[[Page], T]) -> T:
        patience = max(1, int(self._patience * 1000))
        _sent(connection, WRITE.format(patience=patience))
        self._check(connection.execute(TURN).fetchall())
        value = change(PostgresPage(connection, self.name))
        self._commit(connection)
        return value

    def _commit(self, connection: Link) -> None:
        try:
            done = connection.execute("COMMIT")
        except psycopg.OperationalError:
            raise LedgerError(
                f"{self.name}: the connection broke off during the commit; the charge may stand,"
                " and nothing is released"
            ) from None
        if done.statusmessage != "COMMIT":
            raise LedgerError(f"{self.name}: the server rolled the transaction back; try again")

    def _check(self, rows: list[tuple[int, str]]) -> None:
        """Raises LedgerError unless this is the ledger that was opened, of a known format."""
        if len(rows) != 1:
            raise damaged(self.name)
        form, ledger = rows[0]
        if form > FORMAT:
            raise LedgerError(
                f"{self.name}: the ledger has format {form}, and this dpsql reads up to {FORMAT}:"
                " it was written by a newer one; upgrade dpsql"
            )
        if NAME.fullmatch(ledger) is None:
            raise damaged(self.name)
        if self.ledger not in ("", ledger):
            raise LedgerError(f"{self.name} holds another ledger than the one that was opened")
        self.ledger = ledger

    # -- connections ---------------------------------------------------------------------------

    def _find(self, create: bool) -> None:
        """Learn the name of the ledger, which is made if it is missing and `create` is true."""

        def look(connection: Link) -> None:
            _sent(connection, READ)
            if _made(connection):
                rows = connection.execute("SELECT format, ledger FROM dpsql_meta").fetchall()
                connection.execute("COMMIT")
                self._check(rows)
                return
            connection.execute("COMMIT")
            if not create:
                raise LedgerError(
                    f"there is no ledger in {self.name}; a first grant makes one:"
                    " dpsql budget grant DB USER --epsilon E --ledger postgresql://..."
                )
            self._make(connection)

        self._run(look)

    def _make(self, connection: Link) -> None:
        """Make an empty ledger and its key, unless another process is quicker."""
        _sent(connection, WRITE.format(patience=max(1, int(self._patience * 1000))))
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (MAKING,))
        if not _made(connection):
            connection.execute(SCHEMA)
            ledger = os.urandom(16).hex()
            connection.execute("INSERT INTO dpsql_meta VALUES (1, %s, %s)", (FORMAT, ledger))
            room = folder()
            try:
                room.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError:
                raise LedgerError(f"the folder {room.name} for keys cannot be made") from None
            secret(room / f"{ledger}{KEY}", fail=LedgerError, remedy="remove it")
        rows = connection.execute("SELECT format, ledger FROM dpsql_meta").fetchall()
        self._commit(connection)
        self._check(rows)

    def _ready(self) -> Link:
        """The connection of this process, with no transaction open."""
        if self._closed:
            raise LedgerError(f"{self.name}: the ledger is closed")
        if os.getpid() != self._process:
            raise LedgerError(
                f"{self.name}: this process was forked, not by Python, while the ledger was open;"
                " open the ledger after the fork"
            )
        if self._connection is not None and (self._working or not _idle(self._connection)):
            self._drop()  # this call came in the midst of another one of this thread
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> Link:
        usual: dict[str, Any] = {"fallback_application_name": "dpsql"}
        if "connect_timeout" not in conninfo_to_dict(self._address):
            usual["connect_timeout"] = 10
        connection = psycopg.connect(
            self._address, autocommit=True, prepare_threshold=None, **usual
        )
        try:
            found = connection.execute(
                "SELECT current_setting('fsync'), current_setting('server_encoding')"
            ).fetchall()[0]
            if found[0] != "on":
                raise LedgerError(
                    f"{self.name}: the server runs with fsync = off, so a charge might not outlive"
                    " a power cut; turn it on"
                )
            if found[1] != "UTF8":
                raise LedgerError(f"{self.name}: the database has to be in UTF-8, not {found[1]}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _settle(self) -> None:
        """Leave no transaction open."""
        connection = self._connection
        if connection is not None and not _idle(connection):
            try:
                connection.execute("ROLLBACK")
            except psycopg.Error:
                self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # -- forks ---------------------------------------------------------------------------------

    def before_fork(self) -> None:
        self._lock.acquire()
        self._drop()

    def after_fork(self, process: int) -> None:
        self._process = process
        self._lock.release()


class _Unsent(psycopg.OperationalError):
    """A transaction could not begin: the connection had been lost before."""


def folder() -> Path:
    """Where a machine keeps the keys and anchors of ledgers that lie on a server."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(state) / "dpsql"


def _sent(connection: Link, begin: str) -> None:
    try:
        connection.execute(begin)
    except psycopg.OperationalError as error:
        if connection.broken:
            raise _Unsent(*error.args) from None
        raise


def _made(connection: Link) -> bool:
    """Whether there are tables of a ledger on the search path."""
    # to_regclass may answer from a cache, even under a lock that was waited for
    return bool(
        connection.execute(
            "SELECT FROM pg_catalog.pg_class"
            " WHERE relname = 'dpsql_meta' AND pg_catalog.pg_table_is_visible(oid)"
        ).fetchall()
    )


def _idle(connection: Link) -> bool:
    return connection.info.transaction_status == pq.TransactionStatus.IDLE


def _name(address: str) -> str:
    """The address without user and password. Raises LedgerError for one that is none."""
    try:
        parts = conninfo_to_dict(address)
    except psycopg.Error:
        raise LedgerError(
            "this is no address of a PostgreSQL server: write postgresql://user@host/database"
        ) from None
    host = str(parts.get("host") or "")
    if host.startswith("/"):
        host = ""
    port = f":{parts['port']}" if "port" in parts else ""
    return f"postgresql://{host}{port}/{parts.get('dbname') or ''}"


def _complaint(name: str, error: psycopg.Error) -> str:
    """What went wrong, in our words."""
    code = error.sqlstate or ""
    aside = f" ({code})" if code else ""
    match code[:2]:
        case "55" | "40":
            what = "the ledger is busy: another process holds it; try again"
        case "57" if code == "57014":
            what = "the server broke the statement off"
        case "25":
            what = "the ledger cannot be written: the server is read-only"
        case "42":
            what = "the ledger cannot be read or written: this user lacks the right, or a table"
        case "53":
            what = "the server is full: of data, or of connections"
        case "57" | "08" | "":
            what = "the server cannot be reached, or does not let this user in"
        case _:
            what = "the server refuses"
    return f"{name}: {what}{aside}"
