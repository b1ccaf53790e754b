"""The tables of an SQLite ledger, and what one transaction reads and writes in them.

A purse's sums are kept in its row, never added up from the log; `entry` is the log. Numbers of
pico are INTEGER. The tables of a format never change their meaning.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from dpsql.accounting.purse import Entry, Grant, Price, Purse
from dpsql.errors import LedgerError

T = TypeVar("T")

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
  PRIMARY KEY (user, dataset)
) WITHOUT ROWID;
CREATE TABLE entry (
  seq INTEGER PRIMARY KEY,
  at TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('grant', 'revoke', 'charge')),
  user TEXT NOT NULL,
  dataset TEXT NOT NULL,
  before_rho INTEGER NOT NULL, before_epsilon INTEGER,                  -- spent, in pico
  after_rho INTEGER NOT NULL, after_epsilon INTEGER,
  epsilon REAL, delta REAL, rho INTEGER, epsilon_pico INTEGER,          -- of a grant
  statement TEXT, event TEXT, price_rho INTEGER, price_epsilon INTEGER  -- of a charge
);
"""

FORMAT = 2
UPGRADES = {
    1: """
CREATE TABLE footprint (
  seq INTEGER PRIMARY KEY,                          -- of a charge
  user TEXT NOT NULL,
  dataset TEXT NOT NULL,
  snapshot TEXT NOT NULL,                           -- the state of the data that it is about
  loss TEXT NOT NULL,
  exact INTEGER NOT NULL                            -- whether the sum charged is no bound
);
CREATE INDEX footprint_purse ON footprint (user, dataset, seq);
CREATE TABLE state (                                -- of a purse, made again from footprints
  user TEXT NOT NULL,
  dataset TEXT NOT NULL,
  seq INTEGER NOT NULL,                             -- after this entry
  joint BLOB NOT NULL,
  UNIQUE (user, dataset)
);
"""
}  # what makes a ledger of a format one of the next

REMEDY = "restore it from a copy, or move it away and grant anew"

TERMS = "epsilon, delta, rho, epsilon_pico"
PURSE = f"SELECT user, dataset, {TERMS}, at, spent_rho, spent_epsilon FROM purse"
PAID = (
    "SELECT entry.seq, at, kind, entry.user, entry.dataset, before_rho, before_epsilon,"
    f" after_rho, after_epsilon, {TERMS}, statement, event, price_rho, price_epsilon"
)
BARE = f"{PAID}, NULL, '', NULL FROM entry"
ENTRY = f"{PAID}, loss, coalesce(snapshot, ''), exact FROM entry LEFT JOIN footprint USING (seq)"


def damaged(name: str) -> LedgerError:
    """The error for a file that holds what no ledger writes."""
    return LedgerError(f"{name}: the ledger is damaged; {REMEDY}")


def stamp(connection: sqlite3.Connection) -> object:
    """The format that the ledger's own table names."""
    rows = connection.execute("SELECT format FROM meta").fetchall()
    return rows[0][0] if len(rows) == 1 else None


class SqlitePage:
    """A Page within an open transaction of `connection`."""

    def __init__(self, connection: sqlite3.Connection, name: str, form: int) -> None:
        self._connection = connection
        self._name = name
        self._form = form
        self.appended = 0

    def purse(self, user: str, dataset: str) -> Purse | None:
        rows = self._rows(f"{PURSE} WHERE user = ? AND dataset = ?", (user, dataset))
        return self._read(_purse, rows[0]) if rows else None

    def purses(self) -> Sequence[Purse]:
        return [self._read(_purse, row) for row in self._rows(f"{PURSE} ORDER BY 1, 2", ())]

    def entries(
        self, after: int, most: int, user: str | None, dataset: str | None
    ) -> Sequence[Entry]:
        rows = self._rows(
            f"{BARE if self._form < FORMAT else ENTRY} WHERE entry.seq > ? AND"
            " entry.user = coalesce(?, entry.user) AND entry.dataset = coalesce(?, entry.dataset)"
            " ORDER BY entry.seq LIMIT ?",
            (after, user, dataset, most),
        )
        return self._ascending(rows, after)

    def footprints(self, user: str, dataset: str, after: int) -> Sequence[Entry]:
        if self._form < FORMAT:
            return ()
        rows = self._rows(
            f"{PAID}, loss, snapshot, exact FROM footprint JOIN entry USING (seq)"
            " WHERE footprint.user = ? AND footprint.dataset = ? AND footprint.seq > ?"
            " ORDER BY footprint.seq",
            (user, dataset, after),
        )
        return self._ascending(rows, after)

    def _ascending(self, rows: list[Any], after: int) -> list[Entry]:
        found = [self._read(_entry, row) for row in rows]
        for entry in found:  # in a damaged tree the order may lie, and a reader go in circles
            if not entry.seq > after:
                raise damaged(self._name)
            after = entry.seq
        return found

    def state(self, user: str, dataset: str) -> bytes | None:
        if self._form < FORMAT:
            return None
        rows = self._rows("SELECT joint FROM state WHERE user = ? AND dataset = ?", (user, dataset))
        return rows[0][0] if rows else None

    def put_state(self, user: str, dataset: str, seq: int, state: bytes) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO state VALUES (?, ?, ?, ?)", (user, dataset, seq, state)
        )

    def last(self) -> int:
        newest: int = self._rows("SELECT coalesce(max(seq), 0) FROM entry", ())[0][0]
        return newest

    def put(self, purse: Purse) -> None:
        terms = _terms(purse.grant)
        at = None if purse.grant is None else purse.grant.at
        self._connection.execute(
            "INSERT OR REPLACE INTO purse VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (purse.user, purse.dataset, *terms, at, purse.spent.rho, purse.spent.epsilon),
        )

    def append(self, entry: Entry) -> None:
        price = entry.price
        row = (
            entry.seq,
            entry.at,
            entry.kind,
            entry.user,
            entry.dataset,
            entry.before.rho,
            entry.before.epsilon,
            entry.after.rho,
            entry.after.epsilon,
            *_terms(entry.grant),
            None if price is None else entry.statement,
            None if entry.event is None else json.dumps(entry.event),
            None if price is None else price.rho,
            None if price is None else price.epsilon,
        )
        self._connection.execute(f"INSERT INTO entry VALUES ({', '.join('?' * 17)})", row)
        if entry.footprint is not None:
            self._connection.execute(
                "INSERT INTO footprint VALUES (?, ?, ?, ?, ?, ?)",
                (
                    entry.seq,
                    entry.user,
                    entry.dataset,
                    entry.snapshot,
                    entry.footprint,
                    bool(entry.exact),
                ),
            )
        self.appended = entry.seq

    def _rows(self, sql: str, values: tuple[object, ...]) -> list[Any]:
        return self._connection.execute(sql, values).fetchall()

    def _read(self, reader: Callable[[Any], T], row: Any) -> T:
        try:
            return reader(row)
        except (TypeError, ValueError):
            raise damaged(self._name) from None


def _terms(grant: Grant | None) -> tuple[float | int | None, ...]:
    if grant is None:
        return (None, None, None, None)
    return (grant.epsilon, grant.delta, grant.rho, grant.epsilon_pico)


def _purse(row: Any) -> Purse:
    user, dataset, epsilon, delta, rho, pico, at, spent_rho, spent_epsilon = row
    grant = None if at is None else Grant(user, dataset, epsilon, delta, rho, pico, at)
    return Purse(user, dataset, grant, Price(spent_rho, spent_epsilon))


def _entry(row: Any) -> Entry:
    seq, at, kind, user, dataset = row[:5]
    before, after = Price(*row[5:7]), Price(*row[7:9])
    epsilon, delta, rho, pico, statement, event = row[9:15]
    grant = None if epsilon is None else Grant(user, dataset, epsilon, delta, rho, pico, at)
    price = None if event is None else Price(*row[15:17])
    written = None if event is None else json.loads(event)
    footprint, snapshot, exact = row[17:20]
    return Entry(
        *(seq, at, kind, user, dataset, before, after, grant, statement or "", written, price),
        footprint,
        snapshot,
        None if exact is None else bool(exact),
    )
