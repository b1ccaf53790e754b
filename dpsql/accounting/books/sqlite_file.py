"""An SQLite file as a ledger: opened, stamped, set up, brought up to date, made."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import urllib.parse

from dpsql.accounting.books.rows import FORMAT
from dpsql.accounting.books.sqlite_page import REMEDY, SCHEMA, UPGRADE, damaged, stamp
from dpsql.errors import LedgerError

APPLICATION = 0x4450534C  # "DPSL"
PAGE = 4096  # bytes of a page of the file
STEP = 0.1  # seconds that SQLite itself waits, deaf to Ctrl-C


def is_still(path: str) -> bool:
    """Whether a ledger is to be read as a file that nobody writes to.

    SQLite makes a -shm file beside a ledger that it opens, so a ledger in a folder where this user
    may not is read on its own. Others must not write to it meanwhile: its log, the -wal that is
    there while somebody has it open, must be missing or empty.
    """
    real = os.access in os.supports_effective_ids
    places = (path, os.path.dirname(path))
    if all(os.access(place, os.W_OK, effective_ids=real) for place in places):
        return False
    with contextlib.suppress(OSError):
        if os.path.getsize(path + "-wal"):
            raise LedgerError(
                f"{os.path.basename(path)}: the ledger is open elsewhere, or was not closed, and "
                "this user may not write beside it: read it as its owner, or once it is closed"
            )
    return True


def connect(path: str, mode: str = "mode=rw") -> sqlite3.Connection:
    """A connection to the existing file `path`, which it never makes."""
    return sqlite3.connect(
        f"file:{urllib.parse.quote(os.fsencode(path))}?{mode}",
        uri=True,
        timeout=STEP,
        isolation_level=None,
        check_same_thread=False,
    )


def check_stamp(connection: sqlite3.Connection, path: str) -> int:
    """The format of the file. Raises LedgerError unless it is a ledger of one that is known."""
    name = os.path.basename(path)
    application = pragma(connection, "application_id")
    form = pragma(connection, "user_version")
    if application == 0 and pragma(connection, "page_count") == 0:
        raise LedgerError(f"{name} is empty, not a ledger: was it truncated? {REMEDY}")
    if application != APPLICATION:
        raise LedgerError(f"{name} is a database of something else, not a ledger")
    if not isinstance(form, int) or form < 1:
        raise damaged(name)
    if form > FORMAT:
        raise LedgerError(
            f"{name}: the ledger has format {form}, and this dpsql reads up to {FORMAT}:"
            " it was written by a newer one; upgrade dpsql"
        )
    whole_pages = os.stat(path).st_size % PAGE == 0
    if not whole_pages or stamp(connection)[0] != form:
        raise damaged(name)
    return form


def upgrade(connection: sqlite3.Connection) -> None:
    """Bring a ledger of the first format to this one, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        if pragma(connection, "user_version") == 1:  # no other process was first
            for statement in UPGRADE:
                connection.execute(statement)
            connection.execute("UPDATE meta SET format = 2")
            connection.execute("PRAGMA user_version = 2")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def set_up(connection: sqlite3.Connection, name: str) -> None:
    if pragma(connection, "journal_mode") != "wal" and (
        pragma(connection, "journal_mode = WAL") != "wal"
    ):
        raise LedgerError(
            f"{name}: the ledger must lie on a local disk; this file system cannot share memory"
        )
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")  # macOS: through the disk's own cache
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute("PRAGMA trusted_schema = OFF")


def pragma(connection: sqlite3.Connection, text: str) -> object:
    return connection.execute(f"PRAGMA {text}").fetchall()[0][0]


def fill(path: str) -> None:
    """Write the empty ledger into the empty file `path`, down to the disk."""
    connection = connect(path)
    try:
        connection.execute(f"PRAGMA page_size = {PAGE}")
        set_up(connection, path)
        connection.executescript(
            f"BEGIN; PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {FORMAT};{SCHEMA}"
        )
        connection.execute(
            "INSERT INTO meta (one, format, ledger) VALUES (1, ?, ?)",
            (FORMAT, os.urandom(16).hex()),
        )
        connection.execute("COMMIT")
        pragma(connection, "wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()
