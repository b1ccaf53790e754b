"""The tables of a ledger in PostgreSQL, and what one transaction reads and writes in them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from psycopg import Connection
from psycopg.rows import TupleRow

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

Link: TypeAlias = "Connection[TupleRow]"

SYNOPSIS = """
CREATE TABLE IF NOT EXISTS dpsql_synopsis (
  dataset TEXT COLLATE "C" NOT NULL,
  name TEXT COLLATE "C" NOT NULL,
  body TEXT NOT NULL,
  fit BYTEA,
  PRIMARY KEY (dataset, name)
)
"""
SCHEMA = """
CREATE TABLE dpsql_meta (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  format INTEGER NOT NULL,
  ledger TEXT NOT NULL
);
CREATE TABLE dpsql_purse (
  "user" TEXT COLLATE "C" NOT NULL,
  dataset TEXT COLLATE "C" NOT NULL,
  epsilon DOUBLE PRECISION, delta DOUBLE PRECISION, rho BIGINT, epsilon_pico BIGINT, at TEXT,
  spent_rho BIGINT NOT NULL CHECK (spent_rho >= 0),
  spent_epsilon BIGINT CHECK (spent_epsilon >= 0),
  more TEXT NOT NULL,
  PRIMARY KEY ("user", dataset)
);
CREATE TABLE dpsql_paid (
  "user" TEXT COLLATE "C" NOT NULL,
  dataset TEXT COLLATE "C" NOT NULL,
  seq BIGINT NOT NULL,
  PRIMARY KEY ("user", dataset, seq)
);
CREATE TABLE dpsql_state (
  "user" TEXT COLLATE "C" NOT NULL,
  dataset TEXT COLLATE "C" NOT NULL,
  seq BIGINT NOT NULL,
  joint BYTEA NOT NULL,
  PRIMARY KEY ("user", dataset)
);
CREATE TABLE dpsql_release (
  "user" TEXT COLLATE "C" NOT NULL,
  dataset TEXT COLLATE "C" NOT NULL,
  snapshot TEXT COLLATE "C" NOT NULL,
  seq BIGINT NOT NULL,
  columns TEXT NOT NULL,
  stored BYTEA NOT NULL,
  PRIMARY KEY ("user", dataset, snapshot, seq)
);
CREATE TABLE dpsql_entry (
  seq BIGINT PRIMARY KEY,
  at TEXT NOT NULL,
  kind TEXT NOT NULL,
  "user" TEXT COLLATE "C" NOT NULL,
  dataset TEXT COLLATE "C" NOT NULL,
  before_rho BIGINT NOT NULL, before_epsilon BIGINT,
  after_rho BIGINT NOT NULL, after_epsilon BIGINT,
  epsilon DOUBLE PRECISION, delta DOUBLE PRECISION, rho BIGINT, epsilon_pico BIGINT,
  statement BYTEA,                                  -- UTF-8, which may hold a NUL here
  event TEXT, price_rho BIGINT, price_epsilon BIGINT,
  more TEXT NOT NULL,
  seen TEXT NOT NULL, state TEXT NOT NULL, mac TEXT NOT NULL
);
"""
STATEMENT = ENTRY.index("statement")


def _columns(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _marks(names: Sequence[str]) -> str:
    return ", ".join(["%s"] * len(names))


PURSES = f"SELECT {_columns(PURSE)} FROM dpsql_purse"
ENTRIES = f"SELECT {_columns(ENTRY)} FROM dpsql_entry"
PUT = (
    f"INSERT INTO dpsql_purse ({_columns(PURSE)}) VALUES ({_marks(PURSE)})"
    ' ON CONFLICT ("user", dataset) DO UPDATE SET '
    + ", ".join(f'"{name}" = excluded."{name}"' for name in PURSE[2:])
)
APPEND = f"INSERT INTO dpsql_entry ({_columns(ENTRY)}) VALUES ({_marks(ENTRY)})"

_USERS = """ARRAY (
WITH RECURSIVE known (who) AS (
  SELECT min("user") FROM dpsql_release
  UNION ALL
  SELECT (SELECT min("user") FROM dpsql_release WHERE "user" > known.who) FROM known
  WHERE who IS NOT NULL
)
SELECT who FROM known WHERE who IS NOT NULL
)"""  # each found by the key, where DISTINCT would read all rows; and as an array looked for by it
PUT_STATE = (
    'INSERT INTO dpsql_state ("user", dataset, seq, joint) VALUES (%s, %s, %s, %s)'
    ' ON CONFLICT ("user", dataset) DO UPDATE SET seq = excluded.seq, joint = excluded.joint'
)


def damaged(name: str) -> LedgerError:
    """The error for tables that hold what no ledger writes."""
    return LedgerError(f"{name}: the ledger is damaged; restore it from a copy")


class PostgresPage:
    """A Page within an open transaction of `connection`."""

    def __init__(self, connection: Link, name: str) -> None:
        self._connection, self._name = connection, name
        self._unread = Unread(damaged(name))

    def purse(self, user: str, dataset: str) -> Purse | None:
        rows = self._rows(f'{PURSES} WHERE "user" = %s AND dataset = %s', (user, dataset))
        return next(iter(self._unread.purses_of(purse_of_row, rows)), None)

    def purses(self) -> Sequence[Purse]:
        return self._unread.purses_of(purse_of_row, self._rows(f"{PURSES} ORDER BY 1, 2", ()))

    def entries(
        self, after: int, most: int, user: str | None, dataset: str | None
    ) -> Sequence[Entry]:
        sql = f"{ENTRIES} WHERE seq > %s"
        values: list[object] = [after]
        if user is not None:
            sql += ' AND ("user" = %s OR strpos(more, %s) > 0 OR strpos(more, %s) > 0)'
            values += [user, *traces(user)]
        if dataset is not None:
            sql += " AND dataset = %s"
            values.append(dataset)
        rows = self._rows(f"{sql} ORDER BY seq LIMIT %s", (*values, most))
        found = self._unread.entries_of(_entry, rows)
        while rows and not found:  # all were left out
            values[0] = rows[-1][0]
            rows = self._rows(f"{sql} ORDER BY seq LIMIT %s", (*values, most))
            found = self._unread.entries_of(_entry, rows)
        return found

    def last(self) -> int:
        newest: int = self._rows("SELECT coalesce(max(seq), 0) FROM dpsql_entry", ())[0][0]
        return newest

    def tip(self) -> Tip | None:
        rows = self._rows(
            "SELECT seq, seen, state, mac FROM dpsql_entry ORDER BY seq DESC LIMIT 1", ()
        )
        return self._unread.one(lambda row: Tip(*row), rows[0]) if rows else None

    def footprints(self, user: str, dataset: str, after: int) -> Sequence[Entry]:
        return self._footprints(user, dataset, after, "", ())

    def noted(self, user: str, dataset: str, after: int, note: str) -> Sequence[Entry]:
        found = self._footprints(
            user, dataset, after, "AND strpos(e.more, %s) > 0", (json.dumps(note),)
        )
        return [entry for entry in found if entry.note == note]

    def _footprints(
        self, user: str, dataset: str, after: int, which: str, values: tuple[str, ...]
    ) -> Sequence[Entry]:
        columns = ", ".join(f'e."{name}"' for name in ENTRY)
        rows = self._rows(
            f"SELECT {columns} FROM dpsql_paid p JOIN dpsql_entry e USING (seq)"
            f' WHERE p."user" = %s AND p.dataset = %s AND p.seq > %s {which} ORDER BY p.seq',
            (user, dataset, after, *values),
        )
        return self._unread.entries_of(_entry, rows)

    def state(self, user: str, dataset: str) -> bytes | None:
        rows = self._rows(
            'SELECT joint FROM dpsql_state WHERE "user" = %s AND dataset = %s', (user, dataset)
        )
        return bytes(rows[0][0]) if rows else None

    def put_state(self, user: str, dataset: str, seq: int, state: bytes) -> None:
        self._connection.execute(PUT_STATE, (user, dataset, seq, state))

    def forgive(self) -> list[str]:
        self._unread.forgiving = True
        return self._unread.names

    def paid(self) -> Iterator[tuple[object, ...]]:
        yield from self._rows('SELECT "user", dataset, seq FROM dpsql_paid ORDER BY 1, 2, 3', ())

    def discard(self) -> None:
        for name in self._unread.purses:
            self._connection.execute(
                'DELETE FROM dpsql_purse WHERE "user" = %s AND dataset = %s', name
            )
        for seq in self._unread.entries:
            self._connection.execute("DELETE FROM dpsql_entry WHERE seq = %s", (seq,))

    def forget(self) -> None:
        for name in ("dpsql_paid", "dpsql_state"):
            self._connection.execute(f"DELETE FROM {name}")

    def seen(self) -> str:
        rows = self._rows("SELECT seen FROM dpsql_entry ORDER BY seq DESC LIMIT 1", ())
        return str(rows[0][0]) if rows else ""

    def put(self, purse: Purse) -> None:
        self._connection.execute(PUT, purse_row(purse))

    def append(self, entry: Entry) -> None:
        row = list(entry_row(entry))
        if row[STATEMENT] is not None:
            row[STATEMENT] = row[STATEMENT].encode()
        self._connection.execute(APPEND, row)
        for purse in paid(entry):
            self._connection.execute(
                "INSERT INTO dpsql_paid VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                (purse, entry.dataset, entry.seq),
            )

    def put_release(self, name: Name, seq: int, columns: str, stored: bytes) -> None:
        self._connection.execute(
            "INSERT INTO dpsql_release VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
            (*name, seq, columns, stored),
        )

    def releases(self, name: Name, after: int) -> Sequence[tuple[int, str]]:
        return self._kept('"user" = %s', name, after)

    def others(self, name: Name, after: int) -> Sequence[tuple[int, str]]:
        return self._kept(f'"user" = ANY ({_USERS}) AND "user" <> %s', name, after)

    def _kept(self, whose: str, name: Name, after: int) -> Sequence[tuple[int, str]]:
        rows = self._rows(
            f"SELECT seq, columns FROM dpsql_release WHERE {whose} AND dataset = %s"
            " AND snapshot = %s AND seq > %s ORDER BY seq",
            (*name, after),
        )
        return [(int(seq), str(columns)) for seq, columns in rows]

    def stored(self, name: Name, seqs: Sequence[int]) -> Mapping[int, bytes]:
        found = self._stored('"user" = %s', name, seqs)
        others = [seq for seq in seqs if seq not in found]
        return found | self._stored(f'"user" = ANY ({_USERS})', name[1:], others)

    def _stored(self, whose: str, place: tuple[str, ...], seqs: Sequence[int]) -> dict[int, bytes]:
        """What is kept under a part of a key, for whoever they are."""
        if not seqs:
            return {}
        rows = self._rows(
            f"SELECT seq, stored FROM dpsql_release WHERE {whose} AND dataset = %s"
            " AND snapshot = %s AND seq = ANY(%s)",
            (*place, list(seqs)),
        )
        return {int(seq): bytes(stored) for seq, stored in rows}

    def kept(self) -> Iterator[tuple[str, str, str, int, bytes]]:
        rows = self._rows('SELECT "user", dataset, snapshot, seq, stored FROM dpsql_release', ())
        for *place, seq, stored in rows:
            user, dataset, snapshot = map(str, place)
            if isinstance(seq, int) and isinstance(stored, bytes):
                yield user, dataset, snapshot, seq, stored

    def put_synopsis(self, dataset: str, name: str, body: str | None) -> None:
        self._connection.execute(SYNOPSIS)
        self._connection.execute(
            "DELETE FROM dpsql_synopsis WHERE dataset = %s AND name = %s", (dataset, name)
        )
        if body is not None:
            self._connection.execute(
                "INSERT INTO dpsql_synopsis VALUES (%s, %s, %s, NULL)", (dataset, name, body)
            )

    def synopses(self, dataset: str) -> Sequence[str]:
        if not self._has_synopses:
            return []
        rows = self._rows(
            "SELECT body FROM dpsql_synopsis WHERE dataset = %s ORDER BY name", (dataset,)
        )
        return [str(body) for (body,) in rows]

    def put_fit(self, dataset: str, name: str, fit: bytes) -> None:
        self._connection.execute(
            "UPDATE dpsql_synopsis SET fit = %s WHERE dataset = %s AND name = %s",
            (fit, dataset, name),
        )

    def fit(self, dataset: str, name: str) -> bytes | None:
        if not self._has_synopses:
            return None
        rows = self._rows(
            "SELECT fit FROM dpsql_synopsis WHERE dataset = %s AND name = %s", (dataset, name)
        )
        return None if not rows or rows[0][0] is None else bytes(rows[0][0])

    @property
    def _has_synopses(self) -> bool:
        return self._rows("SELECT to_regclass('dpsql_synopsis')", ())[0][0] is not None

    def _rows(self, sql: str, values: tuple[object, ...]) -> list[Any]:
        return self._connection.execute(sql, values).fetchall()


def _entry(row: Any) -> Entry:
    row = list(row)
    if row[STATEMENT] is not None:
        row[STATEMENT] = bytes(row[STATEMENT]).decode()
    return entry_of_row(row)
