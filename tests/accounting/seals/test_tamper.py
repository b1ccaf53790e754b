"""Whatever is changed in a ledger's file is found, or changes nothing that anybody pays."""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from dpsql.accounting.footprints import joint
from dpsql.accounting.ledger import Ledger, Rise
from dpsql.accounting.seals.verify import accept, verify
from dpsql.errors import LedgerError, NoGrant
from tests.accounting.people import about, gaussian

USERS = ("alice", "bob", "carol")
TABLES = ("purse", "entry", "paid", "state")
RUNS = 150


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger of three users, one in a group, after charges with footprints and without."""
    folder = tmp_path_factory.mktemp("made")
    draw = random.Random(5)
    with pytest.MonkeyPatch.context() as patch, Ledger.open(folder / "a.ledger") as ledger:
        patch.setattr(joint, "BATCH", 3)
        for user in (*USERS, "team"):
            ledger.grant(user, dataset="adult", epsilon=2)
        ledger.join("carol", "team", dataset="adult")
        for number in range(26):
            event = gaussian(draw.randrange(1, 30))
            footprint = None if number % 6 == 5 else about(event, "sex", draw.randrange(3))
            ledger.charge(
                draw.choice(USERS), "adult", event, statement="", footprint=footprint,
                snapshot=draw.choice(["march", "march", "april"]),
            )  # fmt: skip
    return folder


def asked(ledger: Ledger) -> list[Rise]:
    """What a panel of questions would cost everybody now."""
    return [
        ledger.rise(user, "adult", gaussian(7), footprint=about(gaussian(7), "sex", code),
                    snapshot=when)
        for user in USERS
        for code in range(4)
        for when in ("march", "april", "may")
    ]  # fmt: skip


def spent(ledger: Ledger) -> dict[str, int]:
    held = (*ledger.purses(), *ledger.caps())
    return {balance.grant.user: balance.spent_rho for balance in held}


def edit(path: Path, draw: random.Random) -> str:
    """Change one row of one table; in words."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA ignore_check_constraints = ON")
        table = draw.choice(TABLES)
        columns = [row[1] for row in other.execute(f"PRAGMA table_info({table})")]
        order = ", ".join(columns)
        rows = other.execute(f"SELECT {order} FROM {table} ORDER BY {order}").fetchall()
        row = list(draw.choice(rows))
        keys = " AND ".join(f"{name} IS ?" for name in columns)
        other.execute(f"DELETE FROM {table} WHERE {keys}", row)
        what = f"a row of {table} was deleted"
        if draw.random() < 0.7:
            place = draw.randrange(len(columns))
            values = [found[place] for found in rows if found[place] != row[place]]
            if values and draw.random() < 0.6:
                row[place] = draw.choice(values)
            elif isinstance(row[place], int):
                row[place] = max(0, row[place] + draw.choice([-1, 1, -10, 10**6]))
            what = f"{columns[place]} in a row of {table} was changed"
            marks = ", ".join("?" * len(row))
            other.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", row)
    return what


def test_an_edit_is_found_or_changes_nothing(made: Path, tmp_path: Path) -> None:
    with Ledger.open(made / "a.ledger", create=False) as ledger:
        prices, sums, dump = asked(ledger), spent(ledger), ledger.dump()
    draw = random.Random(11)
    found = 0
    for run in range(RUNS):
        place = tmp_path / str(run)
        shutil.copytree(made, place)
        path = place / "a.ledger"
        what = edit(path, draw)
        try:
            with Ledger.open(path, create=False) as ledger:
                now = asked(ledger), spent(ledger)
                log = ledger.dump()
            assert now == (prices, sums), what
            if log != dump:  # an older entry: not looked at until somebody verifies
                assert verify(path).problems, what
        except LedgerError as error:
            found += 1
            assert str(place) not in str(error)
            with contextlib.suppress(LedgerError):  # of a file that cannot be read at all
                assert verify(path).problems, what
        shutil.rmtree(place)
    assert found > RUNS // 3


DAMAGE = {
    "a purse's JSON": "UPDATE purse SET more = '{' WHERE user = 'alice'",
    "a purse's grant": "UPDATE purse SET epsilon = 'much' WHERE user = 'carol'",
    "a purse's text": "UPDATE purse SET more = CAST(x'ff' AS TEXT) WHERE user = 'bob'",
    "a purse's name": "UPDATE purse SET user = x'00' WHERE user = 'alice'",
    "the cap": "UPDATE purse SET more = '7' WHERE user = ''",
    "an entry's JSON": "UPDATE entry SET more = '[' WHERE seq = 12",
    "an entry's kind": "UPDATE entry SET kind = 'gift' WHERE seq = 9",
    "the newest entry": "UPDATE entry SET mac = x'00' WHERE seq = (SELECT max(seq) FROM entry)",
    "a footprint": "UPDATE entry SET more = replace(more, 'footprint', 'foot') WHERE seq = 14",
    "both": "UPDATE purse SET more = '{'; UPDATE entry SET more = '{' WHERE seq > 10",
    "all charges": "UPDATE entry SET event = '[1]' WHERE kind = 'charge'",
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_row_that_cannot_be_read_bars_no_owner(made: Path, tmp_path: Path, what: str) -> None:
    with Ledger.open(made / "a.ledger", create=False) as ledger:
        sums = spent(ledger)
    path = tmp_path / "b" / "a.ledger"
    shutil.copytree(made, path.parent)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA ignore_check_constraints = ON")
        other.executescript(DAMAGE[what])
    assert verify(path).problems
    problems = accept(path, "a disk was damaged").problems
    assert what == "a footprint" or "cannot be read" in " ".join(problems)
    assert verify(path).problems == ()
    with Ledger.open(path, create=False) as ledger:
        left = spent(ledger)
        for user in {*USERS, "team"} - left.keys():
            told = [
                p for p in problems if p.startswith(f"the purse of {user} on adult has no grant")
            ]
            assert what == "both" and "grant anew; it has spent at least" in told[0]
            ledger.grant(user, dataset="adult", epsilon=2)
        for user, least in spent(ledger).items():
            assert what == "both" or least >= sums[user], user
        for user in USERS:
            ledger.charge(user, "adult", gaussian(7), statement="")


def test_an_edit_of_who_paid_is_told(made: Path, tmp_path: Path) -> None:
    for what, words in (
        ("DELETE FROM paid WHERE seq = (SELECT max(seq) FROM paid)", "lacks"),
        ("INSERT INTO paid VALUES ('dave', 'adult', 2)", "has dave on adult for entry 2"),
        ("UPDATE paid SET user = 'alic' WHERE user = 'alice'", "lacks alice on adult for entries"),
    ):
        path = tmp_path / words / "a.ledger"
        shutil.copytree(made, path.parent)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute(what)
        found = [p for p in verify(path).problems if "who paid for which footprints" in p]
        assert words in " ".join(found)
        accept(path, "who paid was changed")
        assert verify(path).problems == ()


def test_an_owner_gets_over_an_edit_and_no_purse_gains_by_it(made: Path, tmp_path: Path) -> None:
    with Ledger.open(made / "a.ledger", create=False) as ledger:
        sums = spent(ledger)
    draw = random.Random(12)
    for run in range(RUNS // 6):
        place = tmp_path / str(run)
        shutil.copytree(made, place)
        path = place / "a.ledger"
        what = edit(path, draw)
        with contextlib.suppress(LedgerError):
            if not verify(path).problems:
                continue
        try:
            accept(path, "a disk was damaged")
        except LedgerError:
            continue  # it cannot be read at all
        assert verify(path).problems == (), what
        with Ledger.open(path, create=False) as ledger:
            for user, least in spent(ledger).items():
                assert "entry" in what or least >= sums[user], (what, user)
            with contextlib.suppress(NoGrant):  # of whoever lost the grant by the edit
                for rise in asked(ledger):
                    assert rise.after.spent_rho >= rise.before.spent_rho
