"""Files that are missing, foreign, damaged, read-only or full: no answer, and words to act on."""

import contextlib
import os
import random
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.accounting.books.sqlite_book import SqliteBook
from dpsql.accounting.events import Gaussian
from dpsql.accounting.ledger import Ledger
from dpsql.errors import Error, LedgerError
from tests.faults import ledger_trials as trials

EVENT = Gaussian(1, Fraction(500))
FILES = ["a.ledger", "a.ledger.anchor", "a.ledger.seal"]  # of a ledger that nobody has open
TRIALS = Path(str(trials.__file__))


def pay(ledger: Ledger, statement: str = "SELECT 1") -> int:
    return ledger.charge("alice", "adult", EVENT, statement=statement).seq


def filled(path: Path, charges: int = 3) -> Path:
    with Ledger.open(path) as ledger:
        ledger.grant("alice", dataset="adult", epsilon=100)
        for _ in range(charges):
            pay(ledger)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return filled(tmp_path / "a.ledger")


def complaint(path: Path, *, create: bool = False) -> str:
    """What is said when the file cannot be opened."""
    with pytest.raises(LedgerError) as refusal:
        Ledger.open(path, create=create)
    text = str(refusal.value)
    assert path.name in text and str(path.parent) not in text
    return text


def edited(path: Path, *statements: str) -> Path:
    """The ledger after somebody else's SQL."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        for statement in statements:
            other.execute(statement).fetchall()
    return path


def test_a_missing_ledger_names_the_command_that_makes_one(tmp_path: Path) -> None:
    text = complaint(tmp_path / "no.ledger")
    assert text.endswith("a first grant makes one: dpsql budget grant DB USER --epsilon E")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_no_ledger(tmp_path: Path) -> None:
    for create in (False, True):
        assert complaint(tmp_path, create=create).endswith("is a folder, not a ledger")


def test_a_folder_that_is_missing_is_said(tmp_path: Path) -> None:
    text = complaint(tmp_path / "none" / "a.ledger", create=True)
    assert text.endswith("cannot be made: No such file or directory")


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_a_name_that_is_no_files_is_refused(name: str) -> None:
    with pytest.raises(LedgerError, match="not the name of a ledger file"):
        Ledger.open(name)


def test_an_empty_file_is_said_to_be_empty_and_left_alone(path: Path) -> None:
    os.truncate(path, 0)
    for create in (False, True):
        assert "is empty, not a ledger: was it truncated?" in complaint(path, create=create)
    assert path.stat().st_size == 0


@pytest.mark.parametrize(
    "content",
    [b"hello\n" * 1000, bytes(8192), b"SQLite format 3\0", b"SQLite format 3\0" + bytes(8000)],
    ids=["text", "zeros", "magic", "magic and zeros"],
)
def test_garbage_is_no_ledger(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.ledger"
    path.write_bytes(content)
    for create in (False, True):
        text = complaint(path, create=create)
        assert "not a ledger" in text or "damaged" in text
    assert path.read_bytes() == content


def test_another_database_is_no_ledger_and_is_left_alone(tmp_path: Path) -> None:
    path = edited(tmp_path / "app.db", "CREATE TABLE purse (user)")
    before = path.read_bytes()
    assert complaint(path, create=True).endswith("is a database of something else, not a ledger")
    assert path.read_bytes() == before


def test_a_newer_ledger_asks_for_a_newer_dpsql(path: Path) -> None:
    edited(path, "PRAGMA user_version = 7")
    assert complaint(path).endswith(
        "the ledger has format 7, and this dpsql reads up to 2: it was written by a newer one;"
        " upgrade dpsql"
    )


@pytest.mark.parametrize(
    "statement",
    [
        "PRAGMA user_version = 0",
        "PRAGMA user_version = -1",
        "UPDATE meta SET format = 9",
        "DELETE FROM meta",
        "DROP TABLE meta",
    ],
)
def test_stamps_that_disagree_are_damage(path: Path, statement: str) -> None:
    assert "the ledger is damaged; restore it from a copy" in complaint(edited(path, statement))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE purse SET spent_epsilon = -1",
        "UPDATE purse SET rho = 1e300",
        "UPDATE purse SET rho = -5",
        "UPDATE purse SET rho = 'much'",
        "UPDATE purse SET epsilon = NULL",
        "UPDATE purse SET epsilon = 9e999",
        "UPDATE purse SET delta = 1",
        "DROP TABLE purse",
        "DROP TABLE entry",
        "INSERT INTO entry SELECT 9223372036854775807, at, kind, user, dataset, 0, 0, 0, 0,"
        " NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', '', '' FROM entry LIMIT 1",
    ],
)
def test_a_line_that_none_writes_is_damage(path: Path, statement: str) -> None:
    text = complaint(edited(path, statement))
    assert "the ledger is damaged" in text or "something else than dpsql wrote" in text


@pytest.mark.parametrize("cut", [1, 15, 16, 99, 100, 512, 4095, 4096, 8191, 8192, -4096, -1])
def test_a_truncated_ledger_is_said_to_be_damaged(path: Path, cut: int) -> None:
    os.truncate(path, cut % path.stat().st_size)
    text = complaint(path, create=True)
    assert "is damaged" in text or "is not a ledger" in text or "not a ledger: was it trunc" in text


def test_flipped_bits_raise_nothing_but_our_own_errors(tmp_path: Path) -> None:
    sound = filled(tmp_path / "sound", 30).read_bytes()
    draw = random.Random(20261128)
    path = tmp_path / "a.ledger"
    said = 0
    for _ in range(150):
        broken = bytearray(sound)
        for _ in range(draw.choice((1, 1, 8))):
            broken[draw.randrange(len(broken))] ^= 1 << draw.randrange(8)
        path.write_bytes(broken)
        try:
            with Ledger.open(path, create=False) as ledger:
                ledger.dump()
                pay(ledger)
        except Error as error:
            said += isinstance(error, LedgerError)
    assert said > 5


def test_another_file_in_its_place_is_noticed(path: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(path, tmp_path / "copy"))
    with Ledger.open(path) as ledger:
        pay(ledger)
        os.replace(copy, path)
        for _ in range(2):
            with pytest.raises(LedgerError, match="was moved, replaced or deleted while it was"):
                pay(ledger)
            with pytest.raises(LedgerError, match="was moved, replaced or deleted while it was"):
                ledger.balance("alice", "adult")


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_a_file_deleted_while_open_gives_no_answer(path: Path, suffix: str) -> None:
    with Ledger.open(path) as ledger:
        pay(ledger)
        os.unlink(f"{path}{suffix}")
        for _ in range(2):
            with pytest.raises(LedgerError, match="was moved, replaced or deleted while it was"):
                pay(ledger)


def crashed(path: Path) -> list[str]:
    """What a process that was killed in the midst of charging had answered."""
    answered: list[str] = []
    while not answered:  # on a busy machine it may be killed before its first charge
        done = subprocess.run(
            [sys.executable, str(TRIALS), "kill_at_instants", str(path), "3"],
            capture_output=True,
            text=True,
            check=True,
        )
        answered = done.stdout.splitlines()
    assert Path(f"{path}-wal").stat().st_size > 0
    return answered


def test_a_lost_shm_loses_nothing(path: Path) -> None:
    answered = crashed(path)
    os.unlink(f"{path}-shm")
    with Ledger.open(path, create=False) as ledger:
        assert set(answered) <= {entry.statement for entry in ledger.log()}
        pay(ledger)


def test_a_lost_wal_is_noticed(path: Path) -> None:
    """What was charged in it is unknown, and nothing is answered."""
    crashed(path)
    os.unlink(f"{path}-wal")
    assert "truncated, or replaced by an older copy" in complaint(path)


def test_the_writers_lock_is_waited_for_and_then_said(path: Path) -> None:
    ledger = Ledger(SqliteBook(path, create=False, patience=0.3))
    with ledger, contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        start = time.monotonic()
        with pytest.raises(LedgerError, match="the ledger is busy: another process holds it"):
            pay(ledger)
        assert 0.3 <= time.monotonic() - start < 5
        before = ledger.dump()  # readers wait for nobody
        assert len(before) == 6
        other.execute("ROLLBACK")
        assert ledger.dump() == before
        pay(ledger)


def test_a_full_file_gives_no_answer_and_no_damage(path: Path) -> None:
    book = SqliteBook(path, create=False)
    with Ledger(book) as ledger:
        assert book._connection is not None
        book._connection.execute("PRAGMA max_page_count = 1").fetchall()  # no page more than now
        before = ledger.dump()
        with pytest.raises(LedgerError, match="the disk is full"):
            pay(ledger, "long" * 5000)
        assert ledger.dump() == before
        book._connection.execute("PRAGMA max_page_count = 1000000").fetchall()
        pay(ledger, "long" * 5000)


@contextlib.contextmanager
def powerless() -> Iterator[None]:
    """Without root's right to write everywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that any user of the machine can reach."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder
        folder.chmod(0o777)


@pytest.mark.parametrize(("file", "folder"), [(0o444, 0o777), (0o666, 0o555), (0o444, 0o555)])
def test_a_read_only_ledger_gives_no_answer(open_folder: Path, file: int, folder: int) -> None:
    with powerless():
        path = filled(open_folder / "a.ledger")
    before = path.read_bytes()
    path.chmod(file)
    open_folder.chmod(folder)
    with (
        powerless(),
        pytest.raises(LedgerError, match=r"read-only|check the rights"),
        Ledger.open(path) as ledger,
    ):
        pay(ledger)
    assert path.read_bytes() == before


@pytest.mark.parametrize(("file", "folder"), [(0o444, 0o777), (0o644, 0o555), (0o444, 0o555)])
def test_a_read_only_ledger_can_be_read(open_folder: Path, file: int, folder: int) -> None:
    with powerless():
        path = filled(open_folder / "a.ledger")
        with Ledger.open(path) as ledger:
            before = ledger.dump()
    for name in FILES:
        (open_folder / name).chmod(0o400)
    path.chmod(file)
    open_folder.chmod(folder)
    with powerless(), Ledger.open(path, create=False) as ledger:
        assert ledger.dump() == before and len(list(ledger.log())) == 4
        with pytest.raises(LedgerError):
            pay(ledger)
    assert sorted(os.listdir(open_folder)) == FILES


def test_a_ledger_whose_key_is_another_users_is_not_read(open_folder: Path) -> None:
    path = filled(open_folder / "a.ledger")
    for name in FILES:
        if not name.endswith(".seal"):
            (open_folder / name).chmod(0o666)
    with powerless():
        if os.geteuid() == 65534:
            assert "the key file a.ledger.seal cannot be made or read" in complaint(path)


def test_a_read_only_ledger_that_others_write_to_is_not_read(open_folder: Path) -> None:
    path = filled(open_folder / "a.ledger")
    with Ledger.open(path) as ledger:
        pay(ledger)
        for name in os.listdir(open_folder):
            (open_folder / name).chmod(0o644)
        open_folder.chmod(0o555)
        with powerless():
            assert "open elsewhere" in complaint(path)


def test_a_ledger_that_may_not_be_read_is_said(open_folder: Path) -> None:
    path = filled(open_folder / "a.ledger")
    path.chmod(0)
    with powerless():
        assert "check the rights on the file and its folder" in complaint(path)


def test_no_ledger_is_made_in_a_read_only_folder(open_folder: Path) -> None:
    open_folder.chmod(0o555)
    with powerless():
        text = complaint(open_folder / "a.ledger", create=True)
    assert text.endswith("the ledger cannot be made: Permission denied")


def test_a_new_ledger_is_its_owners_alone(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        with Ledger.open(tmp_path / "a.ledger") as ledger:
            ledger.grant("alice", dataset="adult", epsilon=1)
            files = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    finally:
        os.umask(mask)
    suffixes = ("", "-wal", "-shm", ".seal", ".anchor")
    assert files == {f"a.ledger{suffix}": 0o600 for suffix in suffixes}


def test_a_maker_that_is_late_opens_what_it_finds(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    with Ledger.open(path) as first:
        first.grant("alice", dataset="adult", epsilon=1)
        SqliteBook._make(_Late(path))
        assert len(first.dump()) == 3
    assert sorted(file.name for file in tmp_path.iterdir()) == FILES


class _Late:
    def __init__(self, path: Path) -> None:
        self.path = str(path)


def test_where_links_are_unknown_a_ledger_is_made_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", unknown)
    filled(tmp_path / "a.ledger")
    assert sorted(file.name for file in tmp_path.iterdir()) == FILES
