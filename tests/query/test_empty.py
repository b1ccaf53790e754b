"""Empty databases: one to parse in, and one for each dataset's tables."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

from dpsql.query import empty
from dpsql.query.empty import EmptyError, parsing, taken


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No database is open as yet."""
    monkeypatch.setattr(empty, "_UNTAKEN", [])
    monkeypatch.setattr(empty, "_PARSES", [])


def test_the_database_that_parsed_is_given_once() -> None:
    first = parsing()
    assert taken() is first
    second = taken()
    assert second is not first
    assert parsing() is first
    assert taken() not in (first, second)


def test_tables_of_one_owner_are_not_seen_by_another() -> None:
    parsing()
    first, second = taken(), taken()
    first.make("given", "SELECT 1 AS x")
    assert first.rows("FROM given") == [(1,)]
    with pytest.raises(EmptyError):
        second.rows("FROM given")


def test_parsing_keeps_nothing_of_an_owner_who_is_gone() -> None:
    parsing()
    owned = taken()
    owned.make("given", "SELECT 1 AS x")
    gone = weakref.ref(owned)
    del owned
    gc.collect()
    assert gone() is None
    with pytest.raises(EmptyError):
        parsing().rows("FROM given")
    assert len(parsing().parse("SELECT 1")) == 1


def test_parsing_is_not_stopped_with_the_queries_of_the_owner() -> None:
    parsing()
    owned, failures, done = taken(), list[BaseException](), threading.Event()

    def parse() -> None:
        try:
            for _ in range(300):
                parsing().parse("SELECT " + ", ".join(f"a + {i}" for i in range(100)))
        except BaseException as error:
            failures.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=parse)
    thread.start()
    while not done.wait(0.0001):
        owned.interrupt()
    thread.join()
    assert failures == []


def test_every_empty_database_is_locked() -> None:
    for database in (parsing(), taken(), taken()):
        for sql in (
            "SET threads = 2",
            "SET enable_external_access = true",
            "FROM read_csv('/etc/passwd')",
            "ATTACH 'other.duckdb'",
            "INSTALL spatial",
        ):
            with pytest.raises(EmptyError):
                database.rows(sql)


def test_a_table_that_another_holder_lets_go_stays_until_it_is_read() -> None:
    class Owner:
        """Somebody who holds a table."""

    database = empty.Empty()
    first: Owner | None = Owner()
    with database.made("t", "SELECT 1 AS v"):
        database.hold(first, "t")
    database.make("other", "SELECT 2 AS v")  # sweeps
    assert database.rows("FROM t") == [(1,)]
    second = Owner()
    with database.made("t", "SELECT 1 AS v"):
        first = None
        gc.collect()
        database.make("another", "SELECT 3 AS v")
        assert database.rows("FROM t") == [(1,)]
        database.hold(second, "t")
    database.make("more", "SELECT 4 AS v")
    assert database.rows("FROM t") == [(1,)]
    del second, first
    gc.collect()
    database.make("last_one", "SELECT 5 AS v")
    with pytest.raises(EmptyError):
        database.rows("FROM t")
