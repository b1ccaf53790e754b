"""The tables of an SQLite ledger, and what one transaction reads and writes in them.

A purse's sums are kept in its row, never added up from the log; `entry` is the log. Numbers of
pico are INTEGER. The tables of a format never change their meaning.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dpsql.accounting.book import Name, Tip
from dpsql.accounting.books.rows import (
    ENTRY,
    PURSE,
    entry_of_row,
    entry_row,
    paid,
    purse_of_row,
    purse_row,
)
from dpsql.accounting.purse import Entry, Purse
from dpsql.accounting.seals.fields import traces
from dpsql.accounting.seals.unread import Unread
from dpsql.errors import LedgerError

SCHEMA = """
CREATE TABLE meta (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  format INTEGER NOT NULL,
  ledger TEXT NOT NULL                              -- this ledger's own name, random
);
CREATE TABLE purse (
  user TEXT NOT NULL,
  dataset TEXT NOT NULL,
  epsilon REAL, delta REAL, rho INTEGER, epsilon_pico INTEGER, at TEXT,  -- grant in force, or NULL
  spent_rho INTEGER NOT NULL CHECK (typeof(spent_rho) = 'integer' AND spent_rho >= 0),
  spent_epsilon INTEGER CHECK (typeof(spent_epsilon) IN ('integer', 'null')),
  more TEXT,                                        -- JSON: what few have
  PRIMARY KEY (user, dataset)
) WITHOUT ROWID;
CREATE TABLE paid (                                 -- who paid for which footprints
  user TEXT NOT NULL,
  dataset TEXT NOT NULL,
  seq INTEGER NOT NULL,                             -- of the charge
  PRIMARY KEY (user, dataset, seq)
) WITHOUT ROWID;
CREATE TABLE state (                                -- of a purse: the sum of its footprints
  user TEXT NOT NULL,
  dataset TEXT NOT NULL,
  seq INTEGER NOT NULL,                             -- after this entry
  joint BLOB NOT NULL,
  UNIQUE (user, dataset)
);
CREATE TABLE release (                              -- what was released, to be used again
  user TEXT NOT NULL,
  dataset TEXT NOT NULL,
  snapshot TEXT NOT NULL,
  seq INTEGER NOT NULL,                             -- of the charge
  columns TEXT NOT NULL,                            -- JSON: on which it depends
  stored BLOB NOT NULL,
  PRIMARY KEY (user, dataset, snapshot, seq)
);
CREATE TABLE entry (
  seq INTEGER PRIMARY KEY,
  at TEXT NOT NULL,
  kind TEXT NOT NULL,
  user TEXT NOT NULL,
  dataset TEXT NOT NULL,
  before_rho INTEGER NOT NULL, before_epsilon INTEGER,                  -- spent, in pico
  after_rho INTEGER NOT NULL, after_epsilon INTEGER,
  epsilon REAL, delta REAL, rho INTEGER, epsilon_pico INTEGER,          -- of a grant
  statement TEXT, event TEXT, price_rho INTEGER, price_epsilon INTEGER, -- of a charge
  more TEXT,                                                            -- JSON: what few have
  seen TEXT NOT NULL, state TEXT NOT NULL, mac TEXT NOT NULL            -- the seal
);
"""

SYNOPSIS = """
CREATE TABLE IF NOT EXISTS synopsis (               -- made with the first one
  dataset TEXT NOT NULL,
  name TEXT NOT NULL,
  body TEXT NOT NULL,                               -- JSON
  fit BLOB,                                         -- what was fitted to it
  PRIMARY KEY (dataset, name)
)
"""

UPGRADE = (  # from the first format: the log gets its seal when it is opened
    "ALTER TABLE purse ADD COLUMN more TEXT",
    "ALTER TABLE entry RENAME TO entry1",
    *(f"CREATE TABLE {table}" for table in SCHEMA.split("CREATE TABLE ")[3:]),
    f"INSERT INTO entry SELECT {', '.join(ENTRY[:17])}, NULL, '', '', '' FROM entry1",
    "DROP TABLE entry1",
)

REMEDY = "restore it from a copy, or move it away, with its .seal and .anchor, and grant anew"

PURSES = f"SELECT {', '.join(PURSE)} FROM purse"
ENTRIES = f"SELECT {', '.join(ENTRY)} FROM entry"


def damaged(name: str) -> LedgerError:
    """The error for a file that holds what no ledger writes."""
    return LedgerError(f"{name}: the ledger is damaged; {REMEDY}")


def stamp(connection: sqlite3.Connection) -> tuple[object, str]:
    """The format that the ledger's own table names, and the ledger's name."""
    rows = connection.execute("SELECT format, ledger FROM meta").fetchall()
    return (rows[0][0], str(rows[0][1])) if len(rows) == 1 else (None, "")


def _text(content: bytes) -> str | bytes:
    """A text; what is none is left as it is, which no row has where a text belongs."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


def _insert(into: str, columns: int) -> str:
    return f"{into} VALUES ({', '.join('?' * columns)})"


_PUT_PURSE = _insert("INSERT OR REPLACE INTO purse", len(PURSE))
_PUT_STATE = _insert("INSERT OR REPLACE INTO state", 4)
_APPEND = _insert("INSERT INTO entry", len(ENTRY))
_PUT_RELEASE = _insert("INSERT OR IGNORE INTO release", 6)
_USERS = """
WITH RECURSIVE known (user) AS (
  SELECT MIN(user) FROM release
  UNION ALL
  SELECT (SELECT MIN(user) FROM release WHERE user > known.user) FROM known WHERE user IS NOT NULL
)
SELECT user FROM known WHERE user IS NOT NULL
"""  # each found by the key, where DISTINCT would read all rows


class SqlitePage:
    """A Page within an open transaction of `connection`."""

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self._connection = connection
        self._name = name
        self._unread = Unread(damaged(name))
        self.appended = 0

    def purse(self, user: str, dataset: str) -> Purse | None:
        rows = self._rows(f"{PURSES} WHERE user = ? AND dataset = ?", (user, dataset))
        return next(iter(self._unread.purses_of(purse_of_row, rows)), None)

    def purses(self) -> Sequence[Purse]:
        return self._unread.purses_of(purse_of_row, self._rows(f"{PURSES} ORDER BY 1, 2", ()))

    def entries(
        self, after: int, most: int, user: str | None, dataset: str | None
    ) -> Sequence[Entry]:
        sql = f"{ENTRIES} WHERE seq > ?"
        values: list[object] = [after]
        if user is not None:
            sql += " AND (user = ? OR instr(more, ?) OR instr(more, ?))"
            values += [user, *traces(user)]
        if dataset is not None:
            sql += " AND dataset = ?"
            values.append(dataset)
        rows = self._rows(f"{sql} ORDER BY seq LIMIT ?", (*values, most))
        found = self._unread.entries_of(entry_of_row, rows)
        while rows and not found and rows[-1][0] > values[0]:  # all were left out
            values[0] = rows[-1][0]
            rows = self._rows(f"{sql} ORDER BY seq LIMIT ?", (*values, most))
            found = self._unread.entries_of(entry_of_row, rows)
        for entry in found:  # in a damaged tree the order may lie, and a reader go in circles
            if not entry.seq > after:
                raise damaged(self._name)
            after = entry.seq
        return found

    def last(self) -> int:
        newest: int = self._rows("SELECT coalesce(max(seq), 0) FROM entry", ())[0][0]
        return newest

    def tip(self) -> Tip | None:
        rows = self._rows("SELECT seq, seen, state, mac FROM entry ORDER BY seq DESC LIMIT 1", ())
        return self._unread.one(lambda row: Tip(*row), rows[0]) if rows else None

    def footprints(self, user: str, dataset: str, after: int) -> Sequence[Entry]:
        return self._footprints(user, dataset, after, "", ())

    def noted(self, user: str, dataset: str, after: int, note: str) -> Sequence[Entry]:
        found = self._footprints(
            user, dataset, after, "AND instr(entry.more, ?)", (json.dumps(note),)
        )
        return [entry for entry in found if entry.note == note]

    def _footprints(
        self, user: str, dataset: str, after: int, which: str, values: tuple[str, ...]
    ) -> Sequence[Entry]:
        columns = ", ".join(f"entry.{name}" for name in ENTRY)
        rows = self._rows(
            f"SELECT {columns} FROM paid JOIN entry USING (seq)"
            f" WHERE paid.user = ? AND paid.dataset = ? AND paid.seq > ? {which} ORDER BY paid.seq",
            (user, dataset, after, *values),
        )
        return self._unread.entries_of(entry_of_row, rows)

    def state(self, user: str, dataset: str) -> bytes | None:
        rows = self._rows("SELECT joint FROM state WHERE user = ? AND dataset = ?", (user, dataset))
        return bytes(rows[0][0]) if rows and isinstance(rows[0][0], bytes) else None

    def put_state(self, user: str, dataset: str, seq: int, state: bytes) -> None:
        self._connection.execute(_PUT_STATE, (user, dataset, seq, state))

    def forgive(self) -> list[str]:
        self._unread.forgiving = True
        self._connection.text_factory = _text
        return self._unread.names

    def paid(self) -> Iterator[tuple[object, ...]]:
        yield from self._connection.execute("SELECT user, dataset, seq FROM paid ORDER BY 1, 2, 3")

    def discard(self) -> None:
        same = " AND ".join(f"({name} IS ? OR {name} IS CAST(? AS TEXT))" for name in PURSE[:2])
        for user, dataset in self._unread.purses:
            self._connection.execute(
                f"DELETE FROM purse WHERE {same}", (user, user, dataset, dataset)
            )
        for seq in self._unread.entries:
            self._connection.execute("DELETE FROM entry WHERE seq = ?", (seq,))

    def forget(self) -> None:
        for name in ("paid", "state"):
            self._connection.execute(f"DELETE FROM {name}")

    def seen(self) -> str:
        rows = self._rows("SELECT seen FROM entry ORDER BY seq DESC LIMIT 1", ())
        return str(rows[0][0]) if rows else ""

    def put(self, purse: Purse) -> None:
        self._connection.execute(_PUT_PURSE, purse_row(purse))

    def append(self, entry: Entry) -> None:
        self._connection.execute(_APPEND, entry_row(entry))
        self._connection.executemany(
            "INSERT OR REPLACE INTO paid VALUES (?, ?, ?)",
            [(purse, entry.dataset, entry.seq) for purse in paid(entry)],
        )
        self.appended = entry.seq

    def put_release(self, name: Name, seq: int, columns: str, stored: bytes) -> None:
        self._connection.execute(_PUT_RELEASE, (*name, seq, columns, stored))

    def releases(self, name: Name, after: int) -> Sequence[tuple[int, str]]:
        return self._kept("user = ?", name, after)

    def others(self, name: Name, after: int) -> Sequence[tuple[int, str]]:
        return self._kept(f"user IN ({_USERS}) AND user <> ?", name, after)

    def _kept(self, whose: str, name: Name, after: int) -> Sequence[tuple[int, str]]:
        rows = self._rows(
            f"SELECT seq, columns FROM release WHERE {whose} AND dataset = ? AND snapshot = ?"
            " AND seq > ? ORDER BY seq",
            (*name, after),
        )
        return [(int(seq), str(columns)) for seq, columns in rows]

    def stored(self, name: Name, seqs: Sequence[int]) -> Mapping[int, bytes]:
        at, found = "dataset = ? AND snapshot = ? AND seq = ?", {}
        for seq in seqs:
            rows = self._rows(f"SELECT stored FROM release WHERE user = ? AND {at}", (*name, seq))
            rows = rows or self._rows(
                f"SELECT stored FROM release WHERE user IN ({_USERS}) AND {at} LIMIT 1",
                (*name[1:], seq),
            )
            if rows and isinstance(rows[0][0], bytes):
                found[seq] = rows[0][0]
        return found

    def kept(self) -> Iterator[tuple[str, str, str, int, bytes]]:
        rows = self._connection.execute("SELECT user, dataset, snapshot, seq, stored FROM release")
        for *place, seq, stored in rows:
            user, dataset, snapshot = map(str, place)
            if isinstance(seq, int) and isinstance(stored, bytes):
                yield user, dataset, snapshot, seq, stored

    def put_synopsis(self, dataset: str, name: str, body: str | None) -> None:
        self._connection.execute(SYNOPSIS)
        name_of = "WHERE dataset = ? AND name = ?"
        self._connection.execute(f"DELETE FROM synopsis {name_of}", (dataset, name))
        if body is not None:
            row = (dataset, name, body, None)
            self._connection.execute(_insert("INSERT INTO synopsis", 4), row)

    def synopses(self, dataset: str) -> Sequence[str]:
        if not self._has_synopses:
            return []
        rows = self._rows("SELECT body FROM synopsis WHERE dataset = ? ORDER BY name", (dataset,))
        return [str(body) for (body,) in rows]

    def put_fit(self, dataset: str, name: str, fit: bytes) -> None:
        self._connection.execute(
            "UPDATE synopsis SET fit = ? WHERE dataset = ? AND name = ?", (fit, dataset, name)
        )

    def fit(self, dataset: str, name: str) -> bytes | None:
        if not self._has_synopses:
            return None
        rows = self._rows(
            "SELECT fit FROM synopsis WHERE dataset = ? AND name = ?", (dataset, name)
        )
        return bytes(rows[0][0]) if rows and isinstance(rows[0][0], bytes) else None

    @property
    def _has_synopses(self) -> bool:
        return bool(self._rows("SELECT 1 FROM sqlite_master WHERE name = 'synopsis'", ()))

    def _rows(self, sql: str, values: tuple[object, ...]) -> list[Any]:
        return self._connection.execute(sql, values).fetchall()
