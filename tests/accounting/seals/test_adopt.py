"""Ledgers of an older format are sealed as they stand."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.accounting.events import Gaussian
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.seals.anchor import Anchor, Mark
from dpsql.accounting.seals.seal import Seal
from dpsql.accounting.seals.verify import verify
from dpsql.errors import LedgerError

EVENT = Gaussian(1, Fraction(500))
SUFFIXES = ("", ".seal", ".anchor")


def pay(ledger: Ledger) -> int:
    return ledger.charge("alice", "adult", EVENT, statement="SELECT COUNT(*) FROM adult").seq


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "a.ledger"
    with Ledger.open(place) as ledger:
        ledger.grant("alice", dataset="adult", epsilon=10)
        for _ in range(3):
            pay(ledger)
    return place


def complaint(path: Path, *, create: bool = False, witness: Path | None = None) -> str:
    with pytest.raises(LedgerError) as refusal:
        Ledger.open(path, create=create, witness=witness)
    assert str(path.parent) not in str(refusal.value)
    return str(refusal.value)


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def copied(path: Path, name: str) -> Path:
    """A copy of the ledger, its key and its anchor in a folder of their own."""
    folder = path.parent / name
    folder.mkdir()
    for suffix in SUFFIXES:
        shutil.copy(beside(path, suffix), folder)
    return folder / path.name


OLD = """
PRAGMA application_id = 1146114892;
PRAGMA user_version = 1;
PRAGMA journal_mode = WAL;
CREATE TABLE meta (
  one INTEGER PRIMARY KEY CHECK (one = 1), format INTEGER NOT NULL, ledger TEXT NOT NULL
);
INSERT INTO meta VALUES (1, 1, '5f0c5f0c5f0c5f0c');
CREATE TABLE purse (
  user TEXT NOT NULL, dataset TEXT NOT NULL,
  epsilon REAL, delta REAL, rho INTEGER, epsilon_pico INTEGER, at TEXT,
  spent_rho INTEGER NOT NULL CHECK (typeof(spent_rho) = 'integer' AND spent_rho >= 0),
  spent_epsilon INTEGER CHECK (typeof(spent_epsilon) IN ('integer', 'null')),
  PRIMARY KEY (user, dataset)
) WITHOUT ROWID;
INSERT INTO purse VALUES ('alice', 'adult', 2.0, 1e-06, 88152688216, 2000000000000,
  '2026-11-28T02:14:49.570+00:00', 1000000000, NULL);
INSERT INTO purse VALUES ('bob', 'adult', 1.0, 1e-06, 24355970359, 1000000000000,
  '2026-11-28T02:14:49.570+00:00', 2000000000, NULL);
INSERT INTO purse VALUES ('bob', 'cps', NULL, NULL, NULL, NULL, NULL, 7, 9);
CREATE TABLE entry (
  seq INTEGER PRIMARY KEY, at TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('grant', 'revoke', 'charge')),
  user TEXT NOT NULL, dataset TEXT NOT NULL,
  before_rho INTEGER NOT NULL, before_epsilon INTEGER,
  after_rho INTEGER NOT NULL, after_epsilon INTEGER,
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


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old.ledger"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.executescript(OLD)
    return path


def test_a_ledger_of_the_first_format_is_sealed_as_it_stands(old: Path) -> None:
    with Ledger.open(old, create=False) as ledger:
        kinds = [entry.kind for entry in ledger.log()]
        assert kinds == ["grant", "charge", "accept"]
        taken = list(ledger.log())[-1]
        assert taken.note == "the log before was kept by an earlier version, without a seal"
        (cap,) = ledger.caps()  # of adult: nobody has a grant on cps
        assert cap.grant.rho == 88152688216 and cap.spent_rho == 3 * EVENT.rho
        assert pay(ledger) == 4
        assert ledger.balance("alice", "adult").spent_rho == 2 * EVENT.rho
    assert verify(old).problems == ()
    with contextlib.closing(sqlite3.connect(old, isolation_level=None)) as other:
        other.execute("UPDATE entry SET statement = 'SELECT 2' WHERE seq = 2")
    assert "the log before entry 3, which took it as it stood, was" in verify(old).problems[0]


def test_verifying_an_older_ledger_seals_it_first(old: Path) -> None:
    verdict = verify(old)
    assert (verdict.problems, verdict.entries) == ((), 3)


def test_the_name_of_a_ledger_leads_out_of_no_folder(old: Path) -> None:
    for name in ("../../x", "", "5f0c/", "5F0C", "x" * 65):
        with contextlib.closing(sqlite3.connect(old, isolation_level=None)) as other:
            other.execute("UPDATE meta SET ledger = ?", (name,))
        assert "the ledger is damaged" in complaint(old)


def test_it_is_sealed_once_whoever_comes_first(old: Path) -> None:
    code = (
        "import sys; from dpsql.accounting.ledger import Ledger; sys.stdin.read(1);"
        "Ledger.open(sys.argv[1]).close()"
    )
    racers = [
        subprocess.Popen([sys.executable, "-c", code, str(old)], stdin=subprocess.PIPE)
        for _ in range(6)
    ]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write(b"g")
        racer.stdin.flush()
    assert [racer.wait(60) for racer in racers] == [0] * 6
    for racer in racers:
        racer.communicate()
    with Ledger.open(old) as ledger:
        assert [entry.kind for entry in ledger.log()] == ["grant", "charge", "accept"]


@pytest.fixture
def unsealed(old: Path, path: Path) -> Iterator[Path]:
    """A sealed ledger whose file somebody replaced by one of the first format."""
    with contextlib.closing(sqlite3.connect(old, isolation_level=None)) as other:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as sealed:
            (name,) = sealed.execute("SELECT ledger FROM meta").fetchone()
        other.execute("UPDATE meta SET ledger = ?", (name,))
    shutil.copy(old, path)
    yield path


def test_a_sealed_ledger_is_not_sealed_again(unsealed: Path) -> None:
    assert "its newest entry has no seal, though the ledger has its key" in complaint(unsealed)
    beside(unsealed, ".seal").unlink()
    assert "its key (.seal) is missing" in complaint(unsealed)


def test_an_adoption_that_a_crash_cut_short_is_done_again(old: Path) -> None:
    """The key and the anchor are made before the log is sealed."""
    first = copied_old(old, "first")
    Ledger.open(first).close()
    seal = Seal(beside(first, ".seal").read_bytes(), "5f0c5f0c5f0c5f0c")
    shutil.copy(beside(first, ".seal"), beside(old, ".seal"))
    Anchor(str(beside(old, ".anchor")), seal, "old.ledger").make(Mark(0, seal.origin))
    with Ledger.open(old) as ledger:
        pay(ledger)
    assert verify(old).problems == ()


def copied_old(old: Path, name: str) -> Path:
    (old.parent / name).mkdir()
    return Path(shutil.copy(old, old.parent / name))
