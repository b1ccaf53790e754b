"""The book in PostgreSQL: what it promises beyond the suite of all books."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors

from dpsql.accounting.book import Page
from dpsql.accounting.books.postgres_book import PostgresBook
from dpsql.accounting.events import Gaussian
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.seals.verify import accept, verify
from dpsql.errors import LedgerError

EVENT = Gaussian(1, Fraction(500))


def pay(ledger: Ledger, user: str = "alice") -> int:
    return ledger.charge(user, "adult", EVENT, statement="SELECT COUNT(*) FROM adult").seq


@pytest.fixture
def book(address: str) -> Iterator[PostgresBook]:
    opened = PostgresBook(address, create=True)
    with Ledger(opened) as ledger:
        ledger.grant("alice", dataset="adult", epsilon=1e6)
        yield opened


def complaint(address: str, *, create: bool = False) -> str:
    with pytest.raises(LedgerError) as refusal:
        Ledger.open(address, create=create)
    return str(refusal.value)


def asked(page: Page, sql: str) -> Any:
    """What the connection of a page answers."""
    return page._connection.execute(sql).fetchall()[0][0]


def test_a_commit_waits_for_the_disk_whatever_the_server_usually_does(
    book: PostgresBook, postgres: Any
) -> None:
    with psycopg.connect(postgres.address(), autocommit=True) as owner:
        owner.execute("ALTER ROLE dpsql SET synchronous_commit = off")
        try:
            again = PostgresBook(book._address, create=False)
            assert again.read(lambda page: asked(page, "SHOW synchronous_commit")) == "off"
            assert again.write(lambda page: asked(page, "SHOW synchronous_commit")) == "on"
            again.close()
        finally:
            owner.execute("ALTER ROLE dpsql RESET synchronous_commit")


def test_a_server_that_does_not_wait_for_the_disk_is_refused(address: str, postgres: Any) -> None:
    def settle(word: str) -> None:
        with psycopg.connect(postgres.address(), autocommit=True) as owner:
            owner.execute(f"ALTER SYSTEM SET fsync = {word}")
            owner.execute("SELECT pg_reload_conf()")
            deadline = time.monotonic() + 10
            while owner.execute("SHOW fsync").fetchone() != (word,):
                assert time.monotonic() < deadline
                time.sleep(0.01)

    settle("off")
    try:
        assert "the server runs with fsync = off" in complaint(address, create=True)
    finally:
        settle("on")


def test_nobody_is_told_users_or_passwords(tmp_path: Path) -> None:
    for address in (
        f"postgresql://eve:hunter2@/postgres?host={tmp_path}",
        "postgresql://eve:hunter2@127.0.0.1:1/ledgers?connect_timeout=2",
        "postgresql://eve:hunter2@host/a?nonsense=1",
        "postgres://[eve:hunter2",
    ):
        text = complaint(address, create=True)
        assert "hunter2" not in text and "eve" not in text
    assert complaint("postgresql://eve:hunter2@127.0.0.1:1/ledgers?connect_timeout=2") == (
        "postgresql://127.0.0.1:1/ledgers: the server cannot be reached, or does not let this"
        " user in"
    )


def test_no_ledger_is_made_unless_asked(address: str, tmp_path: Path) -> None:
    text = complaint(address)
    assert text.startswith("there is no ledger in postgresql:///postgres; a first grant makes one")
    with psycopg.connect(address) as other:
        assert other.execute("SELECT to_regclass('dpsql_meta')").fetchone() == (None,)
    assert not (tmp_path / "state").exists()


def test_each_schema_holds_a_ledger_of_its_own(address: str, postgres: Any) -> None:
    other = postgres.fresh()
    for place, epsilon in ((address, 1), (other, 2)):
        with Ledger.open(place) as ledger:
            ledger.grant("alice", dataset="adult", epsilon=epsilon)
    for place, epsilon in ((address, 1), (other, 2)):
        with Ledger.open(place, create=False) as ledger:
            assert [balance.grant.epsilon for balance in ledger.purses()] == [epsilon]


def test_many_at_once_make_one_ledger(address: str) -> None:
    gate, names = threading.Barrier(8), []

    def make() -> None:
        gate.wait()
        book = PostgresBook(address, create=True)
        names.append(book.ledger)
        book.close()

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(names) == 8 and len(set(names)) == 1


def test_a_machine_needs_the_key_and_has_an_anchor_of_its_own(
    book: PostgresBook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pay(Ledger(book))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    text = complaint(book._address)
    assert text.startswith("postgresql:///postgres: this machine lacks the key of the ledger, ")
    assert f"{book.ledger}.seal; copy it from a machine that has it" in text
    there = tmp_path / "other" / "dpsql"
    there.mkdir(parents=True)
    shutil.copy(tmp_path / "state" / "dpsql" / f"{book.ledger}.seal", there)
    with Ledger.open(book._address) as ledger:
        assert pay(ledger) == 3
    assert sorted(file.suffix for file in there.iterdir()) == [".anchor", ".seal"]
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert verify(book._address).problems == ()
    assert pay(Ledger(book)) == 4


def test_each_machine_notices_what_it_has_seen_vanish(
    book: PostgresBook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(book)
    pay(ledger)
    shutil.copytree(tmp_path / "state", tmp_path / "other")
    pay(ledger)
    with psycopg.connect(book._address, autocommit=True) as owner:
        owner.execute("DELETE FROM dpsql_entry WHERE seq = 3")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    with pytest.raises(LedgerError, match="its purses"):  # it had seen entry 2, and no more
        Ledger.open(book._address)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with pytest.raises(LedgerError, match="its anchor has seen entry 3"):
        pay(ledger)
    accept(book._address, "an accident")
    with Ledger.open(book._address) as again:
        assert pay(again) == 5


def test_a_transaction_that_the_server_breaks_off_is_tried_again(book: PostgresBook) -> None:
    for failure in (errors.SerializationFailure, errors.DeadlockDetected):
        left = [failure("no"), failure("no again")]

        def change(page: Page, left: list[psycopg.Error] = left) -> int:
            if left:
                raise left.pop()
            return page.last()

        assert book.write(change) == 1
        assert book.read(lambda page: page.last()) == 1


def test_it_is_not_tried_for_ever(book: PostgresBook) -> None:
    def change(page: Page) -> None:
        raise errors.SerializationFailure("no")

    book._patience = 0.1
    with pytest.raises(LedgerError, match="the ledger is busy: another process holds it"):
        book.write(change)


def test_the_writers_turn_is_waited_for_and_then_said(book: PostgresBook) -> None:
    ledger = Ledger(PostgresBook(book._address, create=False, patience=0.3))
    with ledger, psycopg.connect(book._address) as other:
        other.execute("SELECT * FROM dpsql_meta FOR UPDATE")
        start = time.monotonic()
        with pytest.raises(LedgerError, match="the ledger is busy: another process holds it"):
            pay(ledger)
        assert 0.3 <= time.monotonic() - start < 5
        assert ledger.balance("alice", "adult").spent_rho == 0  # readers wait for nobody
        other.rollback()
        pay(ledger)


def ended(book: PostgresBook) -> None:
    """End the connection of the book, as a server that starts anew does."""
    connection = book._connection
    assert connection is not None
    with psycopg.connect(book._address, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", (connection.info.backend_pid,))
        deadline = time.monotonic() + 10
        while other.execute(
            "SELECT 1 FROM pg_stat_activity WHERE pid = %s", (connection.info.backend_pid,)
        ).fetchall():
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_connection_that_was_lost_is_made_again(book: PostgresBook) -> None:
    ledger = Ledger(book)
    ended(book)
    pay(ledger)
    ended(book)
    assert ledger.balance("alice", "adult").spent_rho == EVENT.rho


def test_a_connection_that_is_lost_on_the_way_charges_nothing(book: PostgresBook) -> None:
    ledger = Ledger(book)
    before = ledger.dump()

    def change(page: Page) -> None:
        purse = page.purse("alice", "adult")
        assert purse is not None
        page.put(purse)
        ended(book)
        page.last()

    with pytest.raises(LedgerError, match=r"cannot be reached"):
        book.write(change)
    assert ledger.dump() == before
    pay(ledger)


def test_a_connection_that_is_lost_in_the_commit_may_have_charged(book: PostgresBook) -> None:
    ledger = Ledger(book)
    with pytest.raises(LedgerError, match="broke off during the commit; the charge may stand"):
        book.write(lambda page: ended(book))
    pay(ledger)


def test_a_server_may_be_read_only(book: PostgresBook, postgres: Any) -> None:
    with psycopg.connect(postgres.address(), autocommit=True) as owner:
        owner.execute("DROP ROLE IF EXISTS reader")
        owner.execute("CREATE ROLE reader LOGIN")
        with psycopg.connect(book._address) as other:
            (schema,) = other.execute("SELECT current_schema").fetchone() or ()
        owner.execute(f"GRANT USAGE ON SCHEMA {schema} TO reader")
        owner.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO reader")
        reader = book._address.replace("dpsql@", "reader@")
        with Ledger.open(reader, create=False) as ledger:
            assert ledger.balance("alice", "adult").spent_rho == 0
            with pytest.raises(LedgerError, match="this user lacks the right"):
                pay(ledger)
        owner.execute("DROP OWNED BY reader; DROP ROLE reader")


def test_a_newer_ledger_asks_for_a_newer_dpsql(book: PostgresBook) -> None:
    with psycopg.connect(book._address, autocommit=True) as owner:
        owner.execute("UPDATE dpsql_meta SET format = 7")
    assert "has format 7, and this dpsql reads up to 2" in complaint(book._address)
    with pytest.raises(LedgerError, match="it was written by a newer one; upgrade dpsql"):
        pay(Ledger(book))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE dpsql_purse SET rho = -5",
        "UPDATE dpsql_purse SET epsilon = NULL",
        "UPDATE dpsql_purse SET epsilon = 'NaN'",
        "UPDATE dpsql_purse SET more = 'x'",
        "UPDATE dpsql_entry SET more = '[]'",
        "DROP TABLE dpsql_purse",
        "DROP TABLE dpsql_entry",
        "DELETE FROM dpsql_meta",
        "UPDATE dpsql_meta SET ledger = 'another'",
    ],
)
def test_tables_that_hold_what_none_writes_give_no_answer(
    book: PostgresBook, statement: str
) -> None:
    with psycopg.connect(book._address, autocommit=True) as owner:
        owner.execute(statement)
    complaint(book._address)


def test_a_charge_in_the_midst_of_another_stands_and_the_other_does_not(book: PostgresBook) -> None:
    ledger = Ledger(book)

    def change(page: Page) -> None:
        purse = page.purse("alice", "adult")
        assert purse is not None
        page.put(purse)
        pay(ledger)  # as a signal's handler might
        page.put(purse)

    with pytest.raises(LedgerError):
        book.write(change)
    assert ledger.balance("alice", "adult").spent_rho == EVENT.rho
    assert verify(book._address).problems == ()


def test_without_psycopg_the_command_that_brings_it_is_named() -> None:
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from dpsql.surfaces.cli import main\n"
        "sys.exit(main(['budget', 'verify', 'a.duckdb', '--ledger', 'postgresql://localhost/a']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=os.environ
    )
    assert done.returncode == 2
    assert "needs psycopg: pip install 'dpsql[postgres]'" in done.stderr


def test_a_ledger_in_a_file_does_not_load_psycopg() -> None:
    code = (
        "import sys; from dpsql.accounting.ledger import Ledger; Ledger.memory();"
        "import dpsql.accounting.books.sqlite_book; assert 'psycopg' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
