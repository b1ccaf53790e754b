"""Whatever else than dpsql writes to a ledger becomes evident, in both durable books."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dpsql.accounting.books.shelf import is_url
from dpsql.accounting.events import Gaussian
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.seals.guard import TAIL
from dpsql.accounting.seals.verify import accept, verify
from dpsql.errors import BudgetError, LedgerError, UsageError

EVENT = Gaussian(1, Fraction(500))


def pay(ledger: Ledger, user: str = "alice") -> int:
    return ledger.charge(user, "adult", EVENT, statement="SELECT COUNT(*) FROM adult").seq


@contextlib.contextmanager
def stranger(place: str) -> Iterator[Callable[..., list[Any]]]:
    """Somebody who has SQL on the ledger, and no key; tables are {entry} and {purse}."""
    if is_url(place):
        names = {"entry": "dpsql_entry", "purse": "dpsql_purse"}
        with psycopg.connect(place, autocommit=True) as server:

            def run(sql: str, *values: object) -> list[Any]:
                done = server.execute(sql.format(**names).replace("?", "%s"), values or None)
                return done.fetchall() if done.description else []

            yield run
        return
    with contextlib.closing(sqlite3.connect(place, isolation_level=None)) as file:

        def execute(sql: str, *values: object) -> list[Any]:
            return file.execute(sql.format(entry="entry", purse="purse"), values).fetchall()

        yield execute


def edit(place: str, *statements: str) -> None:
    with stranger(place) as run:
        for statement in statements:
            run(statement)


@pytest.fixture
def filled(place: str) -> str:
    """A ledger of eight entries, of all kinds."""
    with Ledger.open(place) as ledger:
        ledger.grant("alice", dataset="adult", epsilon=2, until="2999-12-31")
        ledger.grant("team", dataset="adult", epsilon=1)
        ledger.join("bob", "team", dataset="adult")
        pay(ledger)
        pay(ledger, "bob")
        ledger.cap("adult", epsilon=5)
        pay(ledger)
        pay(ledger, "bob")
    assert verify(place).problems == ()
    return place


def problems(place: str) -> str:
    return "\n".join(verify(place).problems)


EDITS = {
    "a lowered sum": (
        """UPDATE {purse} SET spent_rho = 0 WHERE "user" = 'alice'""",
        "the purse of alice on adult was changed: spent ρ 0 in the purse and ρ 0.002 in the log",
    ),
    "a raised grant": (
        """UPDATE {purse} SET epsilon = 20, rho = 1000000000000 WHERE "user" = 'alice'""",
        "grant ε 20 at δ 1e-06 (ρ 1) until 2999-12-31 in the purse and ε 2",
    ),
    "a raised cap": (
        """UPDATE {purse} SET rho = 1000000000000 WHERE "user" = ''""",
        "the purse of all users of adult (its cap) was changed: grant",
    ),
    "another user's purse": (
        """UPDATE {purse} SET "user" = 'mallory' WHERE "user" = 'alice'""",
        "the purse of alice on adult is missing",
    ),
    "a purse taken away": (
        """DELETE FROM {purse} WHERE "user" = 'team'""",
        "the purse of team on adult is missing",
    ),
    "a purse of a stranger": (
        """INSERT INTO {purse} SELECT 'mallory', dataset, epsilon, delta, rho, epsilon_pico, at, 0,
           0, more FROM {purse} WHERE "user" = 'alice'""",
        "the purse of mallory on adult was changed: grant ε 2 at δ 1e-06",
    ),
    "a member taken out": (
        """UPDATE {purse} SET more = '{{}}' WHERE "user" = 'bob'""",
        "the purse of bob on adult was changed: groups  in the purse and team in the log",
    ),
    "a later end": (
        """UPDATE {purse} SET more = replace(more, '3000', '3999') WHERE "user" = 'alice'""",
        "until 3998-12-31 in the purse",
    ),
    "another user in the log": (
        """UPDATE {entry} SET "user" = 'bob' WHERE seq = 4""",
        "entry 4 was changed or forged",
    ),
    "another price in the log": (
        "UPDATE {entry} SET price_rho = 1 WHERE seq = 7",
        "entry 7 was changed or forged",
    ),
    "another noise in the log": (
        "UPDATE {entry} SET event = replace(event, '500', '5000') WHERE seq = 4",
        "entry 4 was changed or forged\nentry 4 has another price than its noise",
    ),
    "other payments in the log": (
        "UPDATE {entry} SET more = '{{}}' WHERE seq = 8",
        "entry 8 was changed or forged",
    ),
    "another time in the log": (
        "UPDATE {entry} SET at = '2020-01-01T00:00:00.000+00:00' WHERE seq = 8",
        "entry 8 was changed or forged",
    ),
    "a time that was not seen": (
        "UPDATE {entry} SET seen = '2020-01-01T00:00:00.000+00:00' WHERE seq = 8",
        "entry 8 was changed or forged",
    ),
    "a raised grant in the log": (
        "UPDATE {entry} SET rho = 1000000000000 WHERE seq = 1",
        "entry 1 was changed or forged",
    ),
    "an entry taken out": ("DELETE FROM {entry} WHERE seq = 4", "entry 4 is missing"),
    "the first entry taken out": ("DELETE FROM {entry} WHERE seq = 1", "entry 1 is missing"),
    "several entries taken out": (
        "DELETE FROM {entry} WHERE seq IN (3, 4, 5)",
        "entries 3 to 5 are missing",
    ),
    "the newest entry taken out": (
        "DELETE FROM {entry} WHERE seq = 8",
        "the log ends at entry 7, and the anchor has seen entry 8",
    ),
    "all entries taken out": (
        "DELETE FROM {entry}",
        "the log ends at entry 0, and the anchor has seen entry 8",
    ),
    "an entry with another's link": (
        "UPDATE {entry} SET mac = (SELECT mac FROM {entry} AS other WHERE other.seq = 4)"
        " WHERE seq = 7",
        "entry 7 was changed or forged\nentry 8 was changed or forged",
    ),
    "an entry of a stranger": (
        """INSERT INTO {entry} SELECT 9, at, kind, 'mallory', dataset, before_rho, before_epsilon,
           after_rho, after_epsilon, epsilon, delta, rho, epsilon_pico, statement, event,
           price_rho, price_epsilon, more, seen, state, mac FROM {entry} WHERE seq = 1""",
        "entry 9 was changed or forged",
    ),
    "an order to take all as it stands": (
        """UPDATE {entry} SET kind = 'accept' WHERE seq = 8""",
        "entry 8 was changed or forged",
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_evident_and_nothing_is_answered(filled: str, name: str) -> None:
    statement, said = EDITS[name]
    edit(filled, statement)
    for create in (True, False):
        with pytest.raises(LedgerError):
            Ledger.open(filled, create=create)
    assert said in problems(filled)


@pytest.mark.parametrize("name", EDITS)
def test_who_has_the_ledger_open_charges_nothing_after_the_newest_was_edited(
    filled: str, name: str
) -> None:
    """Purses and older entries are read when a ledger is opened; the anchor, at each charge."""
    with Ledger.open(filled) as ledger:
        edit(filled, EDITS[name][0])
        if "newest" in name or "all entries" in name:
            with pytest.raises(LedgerError, match="its anchor has seen entry 8"):
                pay(ledger)
        else:
            with contextlib.suppress(BudgetError):
                pay(ledger)
    with pytest.raises(LedgerError):
        Ledger.open(filled)


def test_two_entries_that_change_places_are_evident(filled: str) -> None:
    edit(
        filled,
        "UPDATE {entry} SET seq = 99 WHERE seq = 5",
        "UPDATE {entry} SET seq = 5 WHERE seq = 4",
        "UPDATE {entry} SET seq = 4 WHERE seq = 99",
    )
    assert "entry 4 was changed or forged\nentry 5 was changed" in problems(filled)


def test_a_purse_as_it_once_was_is_evident(place: str) -> None:
    """Each of its rows was right once: what is kept is the sum over all purses as they are now."""
    with Ledger.open(place) as ledger:
        ledger.grant("alice", dataset="adult", epsilon=1)
        pay(ledger)
    with stranger(place) as run:
        (row,) = run("""SELECT * FROM {purse} WHERE "user" = 'alice'""")
    with Ledger.open(place) as ledger:
        pay(ledger)
    with stranger(place) as run:
        run("""DELETE FROM {purse} WHERE "user" = 'alice'""")
        run(f"INSERT INTO {{purse}} VALUES ({', '.join('?' * len(row))})", *row)
    with pytest.raises(LedgerError, match=r"its purses .* were changed"):
        Ledger.open(place)
    assert "spent ρ 0.001 in the purse and ρ 0.002 in the log" in problems(place)


def test_an_old_entry_is_verified_and_the_newest_are_whenever_it_is_opened(place: str) -> None:
    with Ledger.open(place) as ledger:
        ledger.grant("alice", dataset="adult", epsilon=10)
        for _ in range(TAIL + 5):
            last = pay(ledger)
    edit(place, "UPDATE {entry} SET statement = NULL WHERE seq = 3")
    with Ledger.open(place) as ledger:
        pay(ledger)
    assert problems(place) == "entry 3 was changed or forged"
    edit(place, f"DELETE FROM {{entry}} WHERE seq = {last - 2}")
    with pytest.raises(LedgerError, match=f"entry {last - 2} is missing: something else than"):
        Ledger.open(place)


@pytest.fixture
def saved(place: str) -> Iterator[tuple[Callable[[], None], Callable[[], None]]]:
    """Functions that keep a copy of the ledger, and put it back."""
    if not is_url(place):
        copy = place + ".copy"
        yield lambda: shutil.copy(place, copy), lambda: shutil.copy(copy, place)
        return

    def keep() -> None:
        edit(place, *(f"CREATE TABLE copy_{t} AS TABLE {{{t}}}" for t in ("entry", "purse")))

    def put_back() -> None:
        for table in ("entry", "purse"):
            edit(
                place,
                f"TRUNCATE {{{table}}}",
                f"INSERT INTO {{{table}}} SELECT * FROM copy_{table}",
            )

    yield keep, put_back


def test_an_older_copy_put_back_is_evident(
    filled: str, saved: tuple[Callable[[], None], Callable[[], None]]
) -> None:
    keep, put_back = saved
    keep()
    with Ledger.open(filled) as ledger:
        pay(ledger)
        pay(ledger)
    put_back()
    for _ in range(2):
        with pytest.raises(LedgerError) as refusal:
            Ledger.open(filled)
        assert (
            "the ledger ends at entry 8, and its anchor has seen entry 10: it was truncated, or"
            " replaced by an older copy, and what was charged since is unknown; restore the newest"
            " copy (dpsql budget verify DB says more, and what to do)"
        ) in str(refusal.value)
    assert problems(filled) == (
        "the log ends at entry 8, and the anchor has seen entry 10: what was charged since is"
        " missing; restore the newest copy"
    )


def test_a_copy_that_went_its_own_way_is_evident(
    filled: str, saved: tuple[Callable[[], None], Callable[[], None]], tmp_path: Path
) -> None:
    keep, put_back = saved
    keep()
    anchors = [path for path in tmp_path.rglob("*.anchor")]
    with Ledger.open(filled) as ledger:
        for anchor in anchors:
            shutil.copy(anchor, f"{anchor}.kept")
        pay(ledger)
        pay(ledger, "bob")
    newest = [(anchor, anchor.read_bytes()) for anchor in anchors]
    for anchor in anchors:
        shutil.copy(f"{anchor}.kept", anchor)
    put_back()
    with Ledger.open(filled) as ledger:
        for _ in range(3):
            pay(ledger, "bob")
    for anchor, content in newest:
        anchor.write_bytes(content)
    with pytest.raises(LedgerError, match="entry 10 is not the one that the anchor has seen"):
        Ledger.open(filled)
    assert problems(filled) == "entry 10 is not the one that the anchor has seen"


def test_an_owner_can_go_on_with_an_older_copy_and_the_log_says_so(
    filled: str, saved: tuple[Callable[[], None], Callable[[], None]]
) -> None:
    keep, put_back = saved
    keep()
    with Ledger.open(filled) as ledger:
        pay(ledger)
        pay(ledger)
    put_back()
    with pytest.raises(UsageError, match="in a few words why"):
        accept(filled, " ")
    assert len(accept(filled, "the disk was lost").problems) == 1
    assert verify(filled).problems == ()
    with Ledger.open(filled) as ledger:
        taken = list(ledger.log())[-1]
        assert (taken.seq, taken.kind, taken.note) == (11, "accept", "the disk was lost")
        assert pay(ledger) == 12
        assert ledger.balance("alice", "adult").spent_rho == 3 * EVENT.rho
    assert verify(filled).problems == ()
    edit(filled, "UPDATE {entry} SET price_rho = 1 WHERE seq = 4")
    assert "the log before entry 11, which took it as it stood, was changed" in problems(filled)


@pytest.mark.parametrize("name", EDITS)
def test_what_an_owner_takes_as_it_stands_is_what_the_log_says(filled: str, name: str) -> None:
    edit(filled, EDITS[name][0])
    accept(filled, "trials")
    assert verify(filled).problems == ()
    with Ledger.open(filled) as ledger:
        told = {b.grant.user: b for b in (*ledger.purses(), *ledger.caps())}
        for holder, most in [("alice", 2), ("team", 1), ("", 5)]:
            assert holder not in told or told[holder].grant.epsilon <= most
            assert holder not in told or told[holder].grant.rho < 10**12
        assert "mallory" not in told
        if "entr" not in name:  # else what was charged in it is lost
            assert told["alice"].spent_rho == told["team"].spent_rho == 2 * EVENT.rho
            assert told[""].spent_rho == 4 * EVENT.rho
        ledger.grant("alice", dataset="adult", epsilon=2, cap=5)
        pay(ledger)
    assert verify(filled).problems == ()


def test_ledgers_with_the_same_key_do_not_lend_each_other_entries(tmp_path: Path) -> None:
    one, other = tmp_path / "one.ledger", tmp_path / "other.ledger"
    for path in (one, other):
        with Ledger.open(path) as ledger:
            ledger.grant("alice", dataset="adult", epsilon=1)
        shutil.copy(f"{one}.seal", f"{other}.seal")
    for suffix in ("", ".anchor"):
        (tmp_path / f"other.ledger{suffix}").unlink()
    with Ledger.open(other) as ledger:
        ledger.grant("alice", dataset="adult", epsilon=9)
    with stranger(str(other)) as run:
        run("ATTACH ? AS one", str(one))
        run("DELETE FROM {entry}")
        run("INSERT INTO main.{entry} SELECT * FROM one.{entry}")
    assert "entry 1 was changed or forged" in problems(str(other))
