"""The book in an SQLite file: what it promises beyond the suite of all books."""

import contextlib
import dataclasses
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.accounting.book import Page
from dpsql.accounting.books.sqlite_book import CHECKPOINT, SqliteBook
from dpsql.accounting.books.sqlite_file import APPLICATION
from dpsql.accounting.events import Gaussian
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.seals.guard import TAIL
from dpsql.errors import BudgetExceeded, LedgerError, NoGrant

EVENT = Gaussian(1, Fraction(500))
VAST = Gaussian(2**62, Fraction(1))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.ledger"


@pytest.fixture
def book(path: Path) -> Iterator[SqliteBook]:
    opened = SqliteBook(path, create=True)
    with Ledger(opened) as ledger:
        ledger.grant("alice", dataset="adult", epsilon=1e6)
        yield opened


def pay(ledger: Ledger, user: str = "alice") -> int:
    return ledger.charge(user, "adult", EVENT, statement="SELECT COUNT(*) FROM adult").seq


def connection(book: SqliteBook) -> sqlite3.Connection:
    assert book._connection is not None
    return book._connection


def stranger(path: Path) -> contextlib.closing[sqlite3.Connection]:
    """A connection that is not the ledger's."""
    return contextlib.closing(sqlite3.connect(path, isolation_level=None))


def one(other: sqlite3.Connection, sql: str) -> object:
    return other.execute(sql).fetchall()[0][0]


def test_a_commit_is_on_the_disk_before_it_returns(book: SqliteBook) -> None:
    assert one(connection(book), "PRAGMA journal_mode") == "wal"
    assert one(connection(book), "PRAGMA synchronous") == 2  # FULL
    assert one(connection(book), "PRAGMA fullfsync") == 1


def test_a_charge_is_one_transaction(book: SqliteBook) -> None:
    heard: list[str] = []
    ledger = Ledger(book)
    connection(book).set_trace_callback(heard.append)
    pay(ledger)
    words = [statement.split()[0] for statement in heard]
    assert heard[0] == "BEGIN IMMEDIATE"
    assert words[0] == "BEGIN" and words[-1] == "COMMIT"
    assert words[1:-1] == ["SELECT"] * 3 + ["INSERT"] * 3  # of the purse, the cap, and the log


def test_reads_begin_no_write_transaction(book: SqliteBook, path: Path) -> None:
    ledger = Ledger(book)
    pay(ledger)
    size = os.stat(f"{path}-wal").st_size
    with stranger(path) as other:
        other.execute("BEGIN IMMEDIATE")  # a second writer would now have to wait
        for _ in range(3):
            ledger.balance("alice", "adult")
            ledger.purses()
            ledger.dump()
            with pytest.raises(NoGrant):
                ledger.balance("bob", "adult")
        with Ledger.open(path, create=False) as again:
            assert again.dump() == ledger.dump()
        other.execute("ROLLBACK")
    assert os.stat(f"{path}-wal").st_size == size


def test_a_refused_charge_writes_nothing(book: SqliteBook, path: Path) -> None:
    ledger = Ledger(book)
    pay(ledger)
    with stranger(path) as other:
        before = (one(other, "PRAGMA data_version"), list(other.iterdump()))
        with pytest.raises(BudgetExceeded):
            ledger.charge("alice", "adult", VAST, statement="")
        with pytest.raises(NoGrant):
            pay(ledger, "bob")
        assert (one(other, "PRAGMA data_version"), list(other.iterdump())) == before
        pay(ledger)
        assert one(other, "PRAGMA data_version") != before[0]


def test_the_file_bears_a_stamp(book: SqliteBook, path: Path) -> None:
    with stranger(path) as other:
        assert one(other, "PRAGMA application_id") == APPLICATION == int.from_bytes(b"DPSL")
        assert one(other, "PRAGMA user_version") == one(other, "SELECT format FROM meta") == 2
        assert len(str(one(other, "SELECT ledger FROM meta"))) == 32


def test_sums_are_kept_as_integers(book: SqliteBook, path: Path) -> None:
    pay(Ledger(book))
    with stranger(path) as other:
        assert one(other, "SELECT typeof(spent_rho) FROM purse") == "integer"
        assert one(other, "SELECT typeof(price_rho) FROM entry WHERE seq = 2") == "integer"
        for wrong in ("0.5", "'much'", "NULL", "-1", "9e999"):
            with pytest.raises(sqlite3.IntegrityError):
                other.execute(f"UPDATE purse SET spent_rho = {wrong}")


OLD = """
PRAGMA application_id = 1146114892;
PRAGMA user_version = 1;
PRAGMA journal_mode = WAL;
CREATE TABLE meta (one INTEGER PRIMARY KEY, format INTEGER, ledger TEXT);
INSERT INTO meta VALUES (1, 1, '5f0c');
CREATE TABLE purse (
  user TEXT, dataset TEXT, epsilon REAL, delta REAL, rho INTEGER, epsilon_pico INTEGER, at TEXT,
  spent_rho INTEGER, spent_epsilon INTEGER, PRIMARY KEY (user, dataset)
) WITHOUT ROWID;
INSERT INTO purse VALUES ('alice', 'adult', 2.0, 1e-06, 88152688216, 2000000000000,
  '2026-11-28T02:14:49.570+00:00', 1000000000, NULL);
INSERT INTO purse VALUES ('bob', 'adult', NULL, NULL, NULL, NULL, NULL, 7, 9);
CREATE TABLE entry (
  seq INTEGER PRIMARY KEY, at TEXT, kind TEXT, user TEXT, dataset TEXT,
  before_rho INTEGER, before_epsilon INTEGER, after_rho INTEGER, after_epsilon INTEGER,
  epsilon REAL, delta REAL, rho INTEGER, epsilon_pico INTEGER,
  statement TEXT, event TEXT, price_rho INTEGER, price_epsilon INTEGER
);
INSERT INTO entry VALUES (1, '2026-11-28T02:14:49.570+00:00', 'grant', 'alice', 'adult',
  0, 0, 0, 0, 2.0, 1e-06, 88152688216, 2000000000000, NULL, NULL, NULL, NULL);
INSERT INTO entry VALUES (2, '2026-11-28T02:14:50.000+00:00', 'charge', 'alice', 'adult',
  0, 0, 1000000000, NULL, NULL, NULL, NULL, NULL, 'SELECT 1',
  '{"event": "gaussian", "version": 1, "sensitivity_squared": 1, "variance": "500"}',
  1000000000, NULL);
"""


def test_a_ledger_of_the_first_format_is_read_for_ever(path: Path) -> None:
    with stranger(path) as other:
        other.executescript(OLD)
    with Ledger.open(path, create=False) as ledger:
        assert ledger.balance("alice", "adult").grant.rho == 88152688216
        pay(ledger)
        assert ledger.balance("alice", "adult").spent_rho == 2 * EVENT.rho
        assert [entry.kind for entry in ledger.log()] == ["grant", "charge", "accept", "charge"]
        old, new = (entry for entry in ledger.log() if entry.kind == "charge")
        assert (old.event, old.price) == (new.event, new.price) == (EVENT.to_dict(), new.price)
        with pytest.raises(NoGrant):
            ledger.balance("bob", "adult")
        ledger.grant("bob", dataset="adult", epsilon=1, delta=0)
        assert ledger.balance("bob", "adult").spent_epsilon == 9


def steps_of_a_charge(path: Path, entries: int) -> int:
    """How many instructions of SQLite a charge runs after a log of so many entries."""
    book = SqliteBook(path, create=True)
    with Ledger(book) as ledger:
        ledger.grant("alice", dataset="adult", epsilon=1e6)
        ledger.grant("bob", dataset="adult", epsilon=1e6)
        lengthened(ledger, book, entries)
        steps = 0

        def count() -> int:
            nonlocal steps
            steps += 1
            return 0

        connection(book).set_progress_handler(count, 1)
        assert pay(ledger, "bob") == entries + 1
        ledger.balance("alice", "adult")
    return steps


def lengthened(ledger: Ledger, book: SqliteBook, entries: int) -> None:
    """Let the log have so many entries, all but the newest ones without a seal."""
    tip = book.read(lambda page: page.tip())
    assert tip is not None
    with stranger(Path(book.path)) as other:
        other.execute(
            "WITH RECURSIVE n(i) AS (SELECT ? UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
            " INSERT INTO entry SELECT i, '2026', 'charge', 'alice', 'adult', 0, 0, 0, 0, NULL,"
            " NULL, NULL, NULL, 'SELECT COUNT(*) FROM adult', '{}', 1, 1, NULL, '', ?, '' FROM n"
            " WHERE i <= ?",
            (tip.seq + 1, entries - TAIL - 1, tip.state, entries - TAIL - 1),
        )
    connection(book).execute("PRAGMA synchronous = OFF").fetchall()  # for speed
    while book.read(lambda page: page.last()) < entries:
        pay(ledger)


def test_a_charge_costs_the_same_after_a_long_log(tmp_path: Path) -> None:
    short = steps_of_a_charge(tmp_path / "short", 3)
    long = steps_of_a_charge(tmp_path / "long", 50_000)
    assert 0 < long <= short + 5


def test_opening_writes_nothing_and_reads_the_newest_of_the_log(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = SqliteBook(path, create=True)
    with Ledger(book) as ledger:
        ledger.grant("alice", dataset="adult", epsilon=1e6)
        lengthened(ledger, book, 20_000)
    heard: list[str] = []

    class Heard(sqlite3.Connection):
        def __init__(self, *arguments: object, **options: object) -> None:
            super().__init__(*arguments, **options)
            self.set_trace_callback(heard.append)

    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *a, **options: connect(*a, factory=Heard, **options)
    )
    start = time.process_time()
    Ledger.open(path).close()
    assert time.process_time() - start < 0.2
    read = [statement for statement in heard if not statement.startswith("PRAGMA")]
    assert all(statement.startswith(("BEGIN", "COMMIT", "SELECT")) for statement in read)
    assert len(read) < 20


def test_the_log_on_the_side_stays_small(book: SqliteBook, path: Path) -> None:
    connection(book).execute("PRAGMA synchronous = OFF").fetchall()  # for speed; sizes are the same
    ledger = Ledger(book)
    sizes = []
    for _ in range(3):
        for _ in range(CHECKPOINT):
            pay(ledger)
        sizes.append(os.stat(f"{path}-wal").st_size)
    assert sizes[2] == sizes[1] < 8_000_000


def test_names_are_never_read_as_sql_or_urls(tmp_path: Path) -> None:
    for name in ("a?mode=memory", "a#b", "100%25", "ü ☃", "'; DROP TABLE purse; --", ":memory:"):
        with Ledger.open(tmp_path / name) as ledger:
            ledger.grant(name, dataset=name, epsilon=1)
            assert [purse.grant.user for purse in ledger.purses()] == [name]
        assert (tmp_path / name).is_file()
    odd = os.fsdecode(b"\xff.ledger")
    with Ledger.open(tmp_path / odd) as ledger:
        assert ledger.dump() == []


def test_a_ledger_is_found_again_after_the_folder_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Ledger.open("a.ledger") as ledger:
        ledger.grant("alice", dataset="adult", epsilon=1)
        monkeypatch.chdir("/")
        pay(ledger)
    os.symlink(tmp_path / "a.ledger", tmp_path / "link")
    with Ledger.open(tmp_path / "link", create=False) as ledger:
        assert len(ledger.dump()) == 4


def test_a_charge_in_the_midst_of_another_stands_and_the_other_does_not(book: SqliteBook) -> None:
    ledger = Ledger(book)

    def change(page: Page) -> None:
        purse = page.purse("alice", "adult")
        assert purse is not None
        page.put(dataclasses.replace(purse, grant=None))
        pay(ledger)  # as a signal's handler might

    with pytest.raises(LedgerError, match="was closed in the midst of this"):
        book.write(change)
    assert ledger.balance("alice", "adult").spent_rho == EVENT.rho
    assert len(ledger.dump()) == 4


def test_a_dump_is_lines_of_json(book: SqliteBook) -> None:
    ledger = Ledger(book)
    pay(ledger)
    cap, purse, granted, charged = map(json.loads, ledger.dump())
    assert cap["spent"] == purse["spent"]
    assert purse["spent"] == charged["after"] == {"rho": EVENT.rho, "epsilon": None}
    assert granted["grant"] == purse["grant"]


def test_the_ledger_is_light_to_import() -> None:
    script = "import sys, dpsql.accounting.ledger; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert not {"numpy", "duckdb", "click"} & set(done.stdout.split())
