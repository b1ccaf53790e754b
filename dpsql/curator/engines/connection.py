"""The only door to DuckDB: statements in, rows out, and never a word of its own messages.

DuckDB's messages quote values of the rows, so they end here: what is raised is a Fault, which says
one of a few things, made after the engine's own exception is gone.
"""

from __future__ import annotations

import contextlib
import enum
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import duckdb
import numpy as np
from numpy.typing import NDArray

from dpsql.curator.engines import quote
from dpsql.curator.sealed import Sealed

T = TypeVar("T")


class Trouble(enum.Enum):
    """What kept a statement from running."""

    INTERRUPTED = "interrupted"
    LOCKED = "another process writes to the file"
    IN_USE = "this process has the file open with other settings"
    VERSION = "the file was written by another version of DuckDB"
    FOREIGN = "the file is not a DuckDB database"
    ENCRYPTED = "the file is encrypted"
    TORN = "the file is damaged"
    LOG = "the write-ahead log does not belong to the file"
    DENIED = "the operating system or our own lock does not permit it"
    ABSENT = "a name or a file does not exist"
    MEMORY = "memory or disk space ran out"
    FAILED = "anything else"


class Fault(Exception):
    """A statement did not run; `trouble` is all that is said of why."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.value)
        self.trouble = trouble


# Words of DuckDB 1.5 and 2.0, in lower case, from the particular to the general.
_WORDS: Final = (
    ("could not set lock", Trouble.LOCKED),
    ("conflicting lock", Trouble.LOCKED),
    ("unique file handle conflict", Trouble.IN_USE),
    ("already attached", Trouble.IN_USE),
    ("different configuration", Trouble.IN_USE),
    ("version number", Trouble.VERSION),
    ("newer version of duckdb", Trouble.VERSION),
    ("replaying wal", Trouble.LOG),
    ("wal does not match", Trouble.LOG),
    ("not a valid duckdb database", Trouble.FOREIGN),
    ("encrypt", Trouble.ENCRYPTED),
    ("corrupt", Trouble.TORN),
    ("checksum", Trouble.TORN),
    ("could not read enough bytes", Trouble.TORN),
    ("no space left", Trouble.MEMORY),
    ("permission denied", Trouble.DENIED),
    ("does not exist", Trouble.ABSENT),
    ("no such file", Trouble.ABSENT),
)


def _trouble(error: BaseException) -> Trouble:
    match error:
        case duckdb.InterruptException():
            return Trouble.INTERRUPTED
        case duckdb.OutOfMemoryException() | MemoryError():
            return Trouble.MEMORY
        case duckdb.PermissionException():
            return Trouble.DENIED
        case duckdb.CatalogException():
            return Trouble.ABSENT
        case duckdb.DataError():  # casts and the like, whose messages quote values
            return Trouble.FAILED
        case duckdb.InvalidInputException():  # so may this, of a text or of error(...)
            return Trouble.ENCRYPTED if "encrypt" in str(error).lower() else Trouble.FAILED
    said = str(error).lower()
    return next((trouble for words, trouble in _WORDS if words in said), Trouble.FAILED)


_SETTINGS: Final = {
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "preserve_insertion_order": "false",
}


class Connection:
    """An in-memory DuckDB with no extensions to load, to which one database may be attached.

    Statements run in a thread of their own when the main thread asks, so that Ctrl-C reaches us
    and not the engine; it stops the statement, and KeyboardInterrupt is raised once it stopped.
    """

    def __init__(self, temporary: str) -> None:
        """`temporary` is a folder that rows may spill to; at most half of the memory is used."""
        config: dict[str, str | bool | int | float | list[str]] = {
            **_SETTINGS,
            "temp_directory": temporary,
        }
        self._process = os.getpid()
        self._duckdb = self._run(lambda: duckdb.connect(":memory:", config=config), None)
        self.execute("SET python_enable_replacements = false")
        self.execute("SET TimeZone = 'UTC'")
        [(limit,)] = self.rows("SELECT current_setting('memory_limit')")
        self.memory = _bytes(limit) * 5 // 8  # DuckDB would take four fifths of what there is
        self.execute(f"SET memory_limit = '{self.memory // 2**20}MiB'")

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> None:
        """Run a statement for its effect."""
        self._run(lambda: self._duckdb.execute(sql, list(parameters)).fetchall(), self._duckdb)

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """The rows of a statement whose result is public, or an owner's."""
        return self._run(
            lambda: self._duckdb.execute(sql, list(parameters)).fetchall(), self._duckdb
        )

    def arrays(self, sql: str) -> Sealed[dict[str, NDArray[Any]]]:
        """The columns of a result without NULLs: integers as int64, all else as objects."""

        def columns() -> Sealed[dict[str, NDArray[Any]]]:
            fetched = self._duckdb.execute(sql).fetchnumpy()
            return Sealed({name: _plain(array) for name, array in fetched.items()})

        return self._run(columns, self._duckdb)

    def query(self, sql: str) -> str | None:
        """The text of the one SELECT that `sql` is, without its semicolon; None for all else."""

        def split() -> str | None:
            match self._duckdb.extract_statements(sql):
                case [one] if one.type == duckdb.StatementType.SELECT:
                    return str(one.query).strip().rstrip(";")
            return None

        return self._run(split, self._duckdb)

    def lock(self, files: Sequence[str] = ()) -> None:
        """From now on, no file but these, no network, no change of a setting."""
        if files:
            self.execute(f"SET allowed_paths = [{quote.listed(files)}]")
        self.execute("SET enable_external_access = false")
        self.execute("SET lock_configuration = true")

    @property
    def forked(self) -> bool:
        """Whether this process is a fork of the one that opened it, and cannot use it."""
        return os.getpid() != self._process

    def interrupt(self) -> None:
        """Stop the running statement, from another thread; it raises a Fault there."""
        self._duckdb.interrupt()

    def close(self) -> None:
        """Let go of all files."""
        if not self.forked:
            self._duckdb.close()

    def _run(self, work: Callable[[], T], running: duckdb.DuckDBPyConnection | None) -> T:
        if self.forked:
            raise Fault(Trouble.IN_USE)
        outcome: list[T | Trouble] = []
        done = threading.Event()
        turn, begun, stopped = threading.Lock(), [False], [False]

        def attempt() -> None:
            with turn:  # a thread that begins after Ctrl-C does nothing
                if stopped[0]:
                    return
                begun[0] = True
            try:
                outcome.append(work())
            except BaseException as error:
                outcome.append(_trouble(error))
            finally:
                done.set()

        if threading.current_thread() is threading.main_thread():
            thread = threading.Thread(target=attempt, daemon=True)
            try:
                thread.start()
                done.wait()
            except BaseException:
                with turn:
                    stopped[0] = True
                while begun[0] and not done.wait(0.02):
                    if running is not None:
                        with contextlib.suppress(Exception):
                            running.interrupt()
                raise
        else:
            attempt()
        if isinstance(outcome[0], Trouble):
            raise Fault(outcome[0])
        return outcome[0]


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    data = np.ma.getdata(array)
    return data.astype(np.int64) if data.dtype.kind in "iu" else data


def _bytes(size: str) -> int:
    """A size in DuckDB's words, such as 18.8 GiB, in bytes."""
    number, unit = size.split()
    power = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB").index(unit)
    return int(float(number) * 1024**power)
