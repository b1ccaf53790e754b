"""Releases are found by their key: looking for one does not read all that are kept."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from dpsql.accounting.book import Page
from dpsql.accounting.books.postgres_page import PostgresPage
from dpsql.accounting.books.sqlite_page import SqlitePage
from dpsql.accounting.ledger import Ledger

NAME = ("bob", "town", "now")


def fill(page: Page) -> None:
    for user, seq in (("alice", 1), ("bob", 2), ("carol", 3), ("bob", 4)):
        page.put_release((user, "town", "now"), seq, f'["{user}"]', user.encode())
    page.put_release(("dora", "other", "now"), 5, "[]", b"dora")


def look(page: Page) -> None:
    assert page.stored(NAME, (2, 3, 4, 5, 6)) == {2: b"bob", 3: b"carol", 4: b"bob"}
    assert page.releases(NAME, 2) == [(4, '["bob"]')]
    assert page.others(NAME, 0) == [(1, '["alice"]'), (3, '["carol"]')]
    assert page.others(NAME, 1) == [(3, '["carol"]')]


class Heard:
    """A connection, and the plans of what it is asked, tables being read by no other way."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection, self.plans = connection, list[str]()
        connection.execute("SET enable_seqscan = off")

    def execute(self, sql: str, values: Sequence[object] = ()) -> Any:
        if sql.lstrip().startswith("SELECT"):
            plan = self._connection.execute(f"EXPLAIN {sql}", values).fetchall()
            self.plans.append("\n".join(line for (line,) in plan))
        return self._connection.execute(sql, values)


def test_nor_does_one_in_a_server(address: str) -> None:
    """Each is by the user, who comes first in the key."""
    Ledger.open(address).close()
    with psycopg.connect(address) as connection:
        heard = Heard(connection)
        page = PostgresPage(heard, "a")
        fill(page)
        look(page)
    assert len(heard.plans) > 4
    for plan in heard.plans:
        for scan in plan.split("->")[1:] if "->" in plan else [plan]:
            if "on dpsql_release" in scan and "Only" not in scan:  # else users are listed
                assert 'Index Cond: (("user" = ' in scan, plan


def test_no_look_for_a_release_scans_all_that_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    Ledger.open(path).close()
    asked: list[str] = []
    with sqlite3.connect(path) as connection:
        page = SqlitePage(connection, "a")
        fill(page)
        connection.set_trace_callback(asked.append)
        look(page)
        connection.set_trace_callback(None)
        assert len(asked) > 6
        for sql in asked:
            for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {sql}"):
                assert not step.startswith("SCAN release"), (sql, step)
