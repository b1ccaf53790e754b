"""Releases are found by their key: looking for one does not read all that are kept."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from dpsql.accounting.ledger import Ledger
from dpsql.accounting.sqlite_page import SqlitePage


def test_no_look_for_a_release_scans_all_that_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    Ledger.open(path).close()
    asked: list[str] = []
    with sqlite3.connect(path) as connection:
        page = SqlitePage(connection, "a")
        for user, seq in (("alice", 1), ("bob", 2), ("carol", 3), ("bob", 4)):
            page.put_release((user, "town", "now"), seq, f'["{user}"]', user.encode())
        page.put_release(("dora", "other", "now"), 5, "[]", b"dora")
        connection.set_trace_callback(asked.append)
        name = ("bob", "town", "now")
        assert [page.release(name, seq) for seq in (2, 3, 4, 5, 6)] == [
            b"bob", b"carol", b"bob", None, None
        ]  # fmt: skip
        assert page.releases(name, 2) == [(4, '["bob"]')]
        assert page.others(name, 0) == [(1, '["alice"]'), (3, '["carol"]')]
        assert page.others(name, 1) == [(3, '["carol"]')]
        connection.set_trace_callback(None)
        assert len(asked) > 6
        for sql in asked:
            for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {sql}"):
                assert not step.startswith("SCAN release"), (sql, step)
