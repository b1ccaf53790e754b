"""Counts the rows of a DuckDB database, or of a Parquet or CSV file through DuckDB."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from dpsql.curator.cells import Cells
from dpsql.curator.engines.catalog import attach
from dpsql.curator.engines.connection import Fault, Trouble
from dpsql.curator.engines.files import Files, Stamp, require
from dpsql.curator.engines.layout import layout
from dpsql.curator.engines.pack import Packing, packing
from dpsql.curator.engines.source import connect, lookup, open_source, place, unreadable
from dpsql.curator.engines.store import STORED, store, store_bounded
from dpsql.curator.keys import key_name
from dpsql.curator.sealed import Sealed, unseal
from dpsql.errors import InternalError, SourceError
from dpsql.schema import Dataset

T = TypeVar("T")


class DuckDBEngine:
    """The engine of a DuckDB, Parquet or CSV file, held open read-only until `close`.

    The first count scans the columns that it needs. The second stores the codes of all rows, if
    they fit in a quarter of the memory that the engine may use; the rest of it is for grouping.
    Where units are bounded or rows are computed (a view, a query, CSV), the first count stores them
    already, if need be in a temporary folder: such rows are read once. Of a source that can fail on
    a row, `ready` reads or stores all rows, so that no count fails on one later. Threads wait for
    each other; a forked process must open its own engine.
    """

    def __init__(self, database: Path, dataset: Dataset, *, unit_key: bytes | None = None) -> None:
        """Raises SourceError; ValueError when units are bounded and there is no key."""
        if dataset.unit.column is not None and unit_key is None:
            raise ValueError("the rows of a unit are ranked under a key")
        self._dataset, self._key = dataset, unit_key
        self._turn, self._stopped = threading.Lock(), False
        self._database = Path(os.path.abspath(database))
        self._open()
        try:
            self._guard(self._prepare)
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        dataset = self._dataset
        self._source = source = open_source(self._database, dataset)
        self._release = weakref.finalize(self, source.close)
        self._eager = source.costly or dataset.unit.column is not None
        self._stored = self._worth_storing = False
        self._read = not source.fallible
        once = os.urandom(16).hex() if source.varies else ""  # no other engine has these rows
        self._name = _snapshot(source.files, source.stamp, dataset, self._key, once)
        try:
            self._layout = layout(dataset, source.types)
        except BaseException:
            self.close()
            raise

    @property
    def dataset(self) -> Dataset:
        """What is declared."""
        return self._dataset

    def counts(self, columns: tuple[str, ...]) -> Sealed[Cells]:
        """The non-empty cells of these columns; of none, the number of rows in one cell.

        Raises SourceError, KeyError for a column that is not declared, and KeyboardInterrupt when
        it is stopped.
        """
        packed = packing(self._dataset, columns)
        return self._guard(lambda: self._counts(packed))

    def ready(self) -> None:
        """See to it that all rows can be read, once; the rows tell nothing else. Ask before paying.

        Raises SourceError in the same words for every row, column and fault, or because the file
        has changed or memory ran out; and KeyboardInterrupt when it is stopped.
        """
        if not self._read:
            self._guard(self._read_all)

    def snapshot(self) -> str:
        """A public name of the data: another one for other files, schemas and keys.

        A file that was touched is opened anew first. Raises SourceError once the file has changed,
        as `counts` does: ask before paying.
        """
        if self._require_same():
            self._guard(lambda: None)
        return self._name

    def interrupt(self) -> None:
        """Stop the running count from another thread; it raises KeyboardInterrupt there."""
        self._stopped = True
        self._source.connection.interrupt()

    def close(self) -> None:
        """Let go of the database; a count after that is a SourceError."""
        self._release()

    def _prepare(self) -> None:
        for encoding in self._layout.encodings:
            if encoding.enum:
                self._source.connection.execute(encoding.create)

    def _read_all(self) -> None:
        """Read all declared columns of all rows, whatever is asked of them."""
        if self._read:
            return
        try:
            if self._eager:
                self._relation()
            else:
                self._source.connection.execute(self._layout.read(self._source.relation))
        except Fault as fault:
            if fault.trouble in (Trouble.INTERRUPTED, Trouble.MEMORY):
                raise
            raise unreadable(self._source.files) from None
        self._read = True

    def _counts(self, packed: Packing) -> Sealed[Cells]:
        self._read_all()
        connection = self._source.connection
        relation = self._relation()
        cells = packed.cells(connection.arrays(packed.sql(relation)))
        if not self._stored:  # a whole table in a quarter of the memory pays from the next time on
            size = int(unseal(cells).counts.sum()) * self._layout.bytes_per_row
            self._worth_storing = size < connection.memory // 4
        return cells

    def _relation(self) -> str:
        """What to count from: the stored codes, or the source itself."""
        source, unit = self._source, self._dataset.unit
        if not self._stored and (self._eager or self._worth_storing):
            if unit.column is not None and self._key is not None:
                rows, key = self._layout, self._key
                store_bounded(source.connection, rows, source.relation, key, unit.max_rows)
            else:
                store(source.connection, self._layout, source.relation)
            self._stored = True
        return STORED if self._stored else f"({self._layout.rows(source.relation)})"

    def _guard(self, work: Callable[[], T]) -> T:
        """Do work on rows, if the file is still the one that was opened.

        What goes wrong inside is told anew outside, so that no traceback reaches into the rows.
        """
        failure: BaseException
        try:
            with self._turn:
                self._stopped = False
                if self._require_same():
                    self._renew()
                answer = work()
                if self._require_same():
                    raise SourceError(
                        f"{self._source.files.what} was touched while it was read: ask again"
                    )
                if self._stopped:
                    raise KeyboardInterrupt
                return answer
        except Fault as fault:
            failure = self._failure(fault)
        except SourceError as error:
            failure = SourceError(str(error))
        except KeyboardInterrupt:
            failure = KeyboardInterrupt()
        except MemoryError:
            failure = self._failure(Fault(Trouble.MEMORY))
        except Exception:
            failure = InternalError("counting failed by a fault of dpsql; no number was released")
        raise failure

    def _renew(self) -> None:
        """Open a file that was touched anew: its rows may have been edited in place.

        It is another snapshot then, also where it was only given another name and its own back, or
        other permissions: that may cost more, and never adds up the losses of other people.
        """
        self._release()
        self._open()
        self._prepare()

    def _require_same(self) -> bool:
        """Whether the file was touched. Raises SourceError where it is another or written to."""
        what = self._source.files.what
        if not self._release.alive:
            raise SourceError(f"{what} was closed: open it again")
        if self._source.connection.forked:
            raise SourceError(f"{what} was opened before a fork: open it again after it")
        stamp = self._source.files.stamp()
        if stamp == self._source.stamp:
            return False
        if not stamp.same_file(self._source.stamp):
            raise SourceError(f"{what} changed after it was opened: open it again")
        return True

    def _failure(self, fault: Fault) -> BaseException:
        what = self._source.files.what
        match fault.trouble:
            case Trouble.INTERRUPTED:
                return KeyboardInterrupt()
            case Trouble.MEMORY:
                return SourceError(f"{what} needs more memory or disk space than there is")
            case Trouble.IN_USE:
                return SourceError(f"{what} was opened before a fork: open it again after it")
            case Trouble.TORN:
                return SourceError(f"{what} is damaged: restore it from a copy")
            case _:
                return SourceError(f"{what} cannot be read any more: open it again")


def snapshot_of(
    database: Path, dataset: Dataset, unit_key: bytes | None, *, look: bool = False
) -> str:
    """The snapshot that an engine opened now would tell; reads no row.

    That of a query is a new one each time, as that of a view or of generated columns is, which are
    told from a plain table only where `look` has the catalogue looked at, and no row.
    Raises SourceError for a file that is not there.
    """
    files, form = place(database, dataset)
    require(files.path, files.what)
    stamp = files.stamp()
    varies = dataset.source.query is not None
    if look and not varies and form == "duckdb":
        varies = _is_computed(files, stamp, dataset.source.table or "")
    return _snapshot(files, stamp, dataset, unit_key, os.urandom(16).hex() if varies else "")


@functools.lru_cache(64)
def _is_computed(files: Files, stamp: Stamp, table: str) -> bool:
    """Whether the rows of a table are computed, or it cannot be looked up now, as by a lock.

    Whoever locks a file is about to change it, and then it is a new snapshot as well.
    """
    try:
        with contextlib.ExitStack() as undo:
            connection = connect(undo)
            return lookup(connection, attach(connection, files), table)[1]
    except (SourceError, Fault, KeyError):
        return True


def _snapshot(
    files: Files, stamp: Stamp, dataset: Dataset, unit_key: bytes | None, once: str
) -> str:
    key = key_name(unit_key) if unit_key is not None else ""
    state = (stamp.content, stamp.touched)  # devices get other numbers when they are mounted
    parts = ("dpsql 3", str(files.path), state, dataset.digest, key, once)
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogateescape")).hexdigest()
