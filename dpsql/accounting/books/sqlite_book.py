"""A book in an SQLite file: durable, and shared by the threads and processes of one machine.

Write-ahead logging with full synchronisation: a transaction is on the disk before `write` returns.
What is only noted (`note`) gets there with the next one that is not.
The file must lie on a local disk, since the log's index is memory that processes share. It is made
with mode 0600, like the key beside it that seals it: one account of the machine charges, and other
accounts ask a server of that one, or share a ledger in PostgreSQL. The folder holds `-wal` and
`-shm` beside the file while anybody has the ledger open. Those two are part of the ledger: a copy
of the file alone may lack the newest charges.

What is taken care of here:
- One connection a process, under a lock: SQLite has one writer at a time anyway.
- No connection crosses a fork. SQLite remembers for the whole process which locks it holds, and a
  child has none of them: its own new connections would run without locks, and a file that others
  then remove loses charges. All books close before a fork and open again at their next use.
- For the same reason nothing opens the file but SQLite: closing any other descriptor of it would
  drop the locks.
- A file that is moved, replaced or deleted under an open connection is noticed, not written to.
- A new ledger appears whole: it is made under another name, then linked to its own.
- Checkpoints are kept apart: SQLite before 3.51.3 can lose transactions when a second one follows
  at once while a writer starts the log anew (sqlite.org/wal.html, "the WAL-reset bug").
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from os import PathLike
from typing import TypeVar

from dpsql.accounting.book import Page
from dpsql.accounting.books import forks
from dpsql.accounting.books.rows import FORMAT, NAME
from dpsql.accounting.books.sqlite_file import (
    check_stamp,
    connect,
    fill,
    is_still,
    pragma,
    set_up,
    upgrade,
)
from dpsql.accounting.books.sqlite_page import SqlitePage, damaged, stamp
from dpsql.accounting.seals.guard import ANCHOR
from dpsql.accounting.seals.secret import settle
from dpsql.errors import LedgerError

T = TypeVar("T")

PATIENCE = 30.0  # seconds that a busy ledger is waited for
PAUSE = 0.001  # seconds between two attempts
CHECKPOINT = 256  # entries between checkpoints of the write-ahead log


class SqliteBook:
    """A Book in the file `path`. Raises LedgerError when it cannot be opened."""

    shared = False
    still = False

    def __init__(
        self, path: str | PathLike[str], *, create: bool, patience: float = PATIENCE
    ) -> None:
        text = os.fspath(path)
        if not text or "\0" in text:
            raise LedgerError(f"{text!r} is not the name of a ledger file")
        self.path = os.path.realpath(text)
        self.name = os.path.basename(self.path)
        self.place: str | None = self.path
        self.ledger = ""
        self._patience = patience
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._connection: sqlite3.Connection | None = None
        self._files: tuple[tuple[int, int] | None, ...] = ()
        self._durable = False  # whether the connection is known to synchronise each transaction
        self._opened = 0  # connections so far
        self._closed = False
        forks.watch(self)
        try:
            with self._lock:
                if not os.path.lexists(self.path):
                    self._miss()
                    if create:
                        self._make()
            self.read(lambda page: None)
        except BaseException:
            self.close()
            raise

    def read(self, question: Callable[[Page], T]) -> T:
        return self._run("BEGIN", question)

    def write(self, change: Callable[[Page], T]) -> T:
        return self._run("BEGIN IMMEDIATE", change)

    def note(self, change: Callable[[Page], T]) -> T:
        return self._run("BEGIN IMMEDIATE", change, durable=False)

    def version(self) -> object:
        with self._lock:
            try:
                connection = self._ready()
                return self._opened, pragma(connection, "data_version")
            except (sqlite3.Error, LedgerError):
                return None

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._drop()

    def _run(self, begin: str, work: Callable[[Page], T], *, durable: bool = True) -> T:
        deadline = time.monotonic() + self._patience
        with self._lock:
            try:
                while True:
                    try:
                        return self._attempt(begin, work, durable)
                    except sqlite3.Error as error:
                        if not _busy(error) or not time.monotonic() < deadline:
                            raise LedgerError(_complaint(self.name, error)) from None
                    except (UnicodeDecodeError, OverflowError):
                        raise damaged(self.name) from None
                    time.sleep(PAUSE)
            except BaseException:
                self._settle()  # again: an interrupt may have cut the first short
                raise

    def _attempt(self, begin: str, work: Callable[[Page], T], durable: bool) -> T:
        connection = self._ready()
        try:
            self._synchronise(connection, durable)
            connection.execute(begin)
            self._check_files()
            page = SqlitePage(connection, self.name)
            value = work(page)
            connection.execute("COMMIT")
        except BaseException:
            self._settle()
            raise
        if page.appended and page.appended % CHECKPOINT == 0:
            with contextlib.suppress(sqlite3.Error):  # the charge stands in the log already
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        return value

    def _synchronise(self, connection: sqlite3.Connection, durable: bool) -> None:
        """Have the next transaction on the disk before it counts as done, or not."""
        if durable and not self._durable:
            connection.execute("PRAGMA synchronous = FULL")
            self._durable = True
        elif not durable and self._durable:
            self._durable = False  # first: whatever happens now, the next one asks for it again
            connection.execute("PRAGMA synchronous = NORMAL")

    def _ready(self) -> sqlite3.Connection:
        """The connection of this process, with no transaction open."""
        if self._closed:
            raise LedgerError(f"{self.name}: the ledger is closed")
        if os.getpid() != self._process:
            raise LedgerError(
                f"{self.name}: this process was forked, not by Python, while the ledger was open;"
                " open the ledger after the fork"
            )
        if self._connection is not None and self._connection.in_transaction:
            self._drop()  # this call came in the midst of another one of this thread
        if self._connection is None:
            connection = self._connect()
            self._durable = False
            self._opened += 1
            files = self._identity()
            self._files = (*self._files[:1], *files[len(self._files[:1]) :])
            self._connection = connection
        return self._connection

    def _settle(self) -> None:
        """Roll back what is still open."""
        try:
            if self._connection is not None and self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._drop()

    # -- forks ---------------------------------------------------------------------------------

    def before_fork(self) -> None:
        self._lock.acquire()
        self._drop()

    def after_fork(self, process: int) -> None:
        self._process = process
        self._lock.release()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connect(self) -> sqlite3.Connection:
        if os.path.isdir(self.path):
            raise LedgerError(f"{self.name} is a folder, not a ledger")
        if not os.path.lexists(self.path):
            raise LedgerError(
                f"there is no ledger {self.name}; a first grant makes one:"
                " dpsql budget grant DB USER --epsilon E"
            )
        self.still = still = is_still(self.path)
        connection = connect(self.path, "mode=ro&immutable=1" if still else "mode=rw")
        try:
            form = check_stamp(connection, self.path)
            if not still:
                set_up(connection, self.name)
            if form < FORMAT and still:
                raise LedgerError(
                    f"{self.name} is of an earlier format, and this user may not write to it: open"
                    " it once as its owner (dpsql budget show DB)"
                )
            if form < FORMAT:
                upgrade(connection)
            ledger = stamp(connection)[1]
            if NAME.fullmatch(ledger) is None:
                raise damaged(self.name)
            if self.ledger not in ("", ledger):
                raise LedgerError(f"{self.name} is another ledger than the one that was opened")
            self.ledger = ledger
        except BaseException:
            connection.close()
            raise
        return connection

    def _identity(self) -> tuple[tuple[int, int] | None, ...]:
        """Which files bear the ledger's three names now."""
        found: list[tuple[int, int] | None] = []
        for suffix in ("", "-wal", "-shm"):
            try:
                status = os.stat(self.path + suffix)
            except OSError:
                found.append(None)
            else:
                found.append((status.st_dev, status.st_ino))
        return tuple(found)

    def _check_files(self) -> None:
        """Raises LedgerError if SQLite writes to files that others do not see."""
        if self._identity() != self._files:
            raise LedgerError(
                f"{self.name}: the ledger, its -wal or its -shm was moved, replaced or deleted"
                " while it was open; nothing is answered until it is opened again"
            )

    def _miss(self) -> None:
        """Raises LedgerError where an anchor tells of a ledger that is gone."""
        if os.path.lexists(self.path + ANCHOR) and not os.path.lexists(self.path):
            raise LedgerError(
                f"there is no ledger {self.name}, but its anchor {self.name}{ANCHOR} is there:"
                " restore the ledger, or move its .anchor and .seal away to begin another one,"
                " which does not know what was spent"
            )

    def _make(self) -> None:
        """Make an empty ledger, unless another process is quicker."""
        draft = f"{self.path}.{os.urandom(8).hex()}.new"
        try:
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            try:
                fill(draft)
                settle(draft, self.path)
            finally:
                for suffix in ("", "-wal", "-shm"):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(draft + suffix)
        except OSError as error:
            raise LedgerError(f"{self.name}: the ledger cannot be made: {error.strerror}") from None
        except sqlite3.Error as error:
            raise LedgerError(_complaint(self.name, error)) from None


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary result code, 0 for an error of the Python module itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _busy(error: sqlite3.Error) -> bool:
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _complaint(name: str, error: sqlite3.Error) -> str:
    """What went wrong, in our words."""
    symbol = getattr(error, "sqlite_errorname", "")
    aside = f" ({symbol})" if symbol else ""
    if isinstance(error, sqlite3.ProgrammingError):
        return f"{name}: the ledger was closed in the midst of this"
    match _code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            what = "the ledger is busy: another process holds it; try again"
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            what = "the ledger cannot be written: the file or its folder is read-only"
        case sqlite3.SQLITE_FULL:
            what = "the ledger cannot be written: the disk is full"
        case sqlite3.SQLITE_IOERR:
            what = "the ledger cannot be read or written: the disk is full or fails"
        case sqlite3.SQLITE_CANTOPEN:
            what = "the ledger cannot be opened: check the rights on the file and its folder"
        case sqlite3.SQLITE_NOTADB:
            what = "this file is not a ledger"
        case _:
            return f"{damaged(name)}{aside}"
    return f"{name}: {what}{aside}"
