"""The key and the anchor beside a ledger, the second anchor beside the data, and both."""

from __future__ import annotations

import os
import shutil
import threading
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.accounting.events import Gaussian
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.seals.anchor import SLOT, Anchor, Mark
from dpsql.accounting.seals.seal import Seal
from dpsql.accounting.seals.verify import accept, verify
from dpsql.errors import LedgerError, NoGrant

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


# -- the key -----------------------------------------------------------------------------------


def test_without_its_key_a_ledger_answers_nothing(path: Path) -> None:
    beside(path, ".seal").unlink()
    for create in (False, True):
        assert "its key (.seal) is missing; restore it" in complaint(path, create=create)
    assert not beside(path, ".seal").exists()
    first, second = verify(path).problems
    assert "its key (.seal) is missing" in first and "cannot be checked without" in second


def test_another_key_is_not_taken(path: Path) -> None:
    beside(path, ".seal").write_bytes(os.urandom(32))
    text = "its key is not the one that it was sealed with"
    assert text in complaint(path)
    assert text in verify(path).problems[0]


def test_a_key_that_others_may_read_is_refused(path: Path) -> None:
    beside(path, ".seal").chmod(0o640)
    assert "may be read by others" in complaint(path)


@pytest.mark.parametrize("content", [b"", b"short", bytes(33)])
def test_a_file_that_is_no_key_is_refused(path: Path, content: bytes) -> None:
    beside(path, ".seal").write_bytes(content)
    assert "is not a key of 32 bytes; restore it" in complaint(path)


def test_a_lost_key_can_be_replaced_on_the_owners_word(path: Path) -> None:
    beside(path, ".seal").unlink()
    accept(path, "the key was lost")
    with Ledger.open(path) as ledger:
        pay(ledger)
        assert ledger.balance("alice", "adult").spent_rho == 4 * EVENT.rho
    assert verify(path).problems == ()


# -- the anchor --------------------------------------------------------------------------------


def test_the_anchor_follows_each_entry(path: Path) -> None:
    with Ledger.open(path) as ledger:
        for _ in range(5):
            seq = pay(ledger)
            newest = list(ledger.log())[-1]
            slots = beside(path, ".anchor").read_text().split("\n")
            marks = {int(slot.split()[3]): slot.split()[4] for slot in slots if slot.strip()}
            assert marks[seq] == newest.mac and set(marks) == {seq, seq - 1}


def test_the_anchor_never_grows_and_is_its_owners_alone(path: Path) -> None:
    assert beside(path, ".anchor").stat().st_size == 2 * SLOT
    assert beside(path, ".anchor").stat().st_mode & 0o777 == 0o600


def test_without_its_anchor_a_ledger_answers_nothing(path: Path) -> None:
    beside(path, ".anchor").unlink()
    assert "its anchor (.anchor) is missing; restore it" in complaint(path)
    assert "its anchor (.anchor) is missing" in verify(path).problems[0]
    accept(path, "the anchor was lost")
    assert verify(path).problems == ()


def test_an_anchor_that_goes_while_the_ledger_is_open_stops_it(path: Path) -> None:
    with Ledger.open(path) as ledger:
        beside(path, ".anchor").unlink()
        with pytest.raises(LedgerError, match=r"its anchor \(.anchor\) is gone"):
            pay(ledger)


@pytest.mark.parametrize("content", [b"", b"x" * 1024, bytes(1024), b" " * 1023, b" " * 1025])
def test_an_anchor_of_something_else_is_said(path: Path, content: bytes) -> None:
    beside(path, ".anchor").write_bytes(content)
    assert "its anchor a.ledger.anchor is damaged, or was written by something" in complaint(path)


def test_an_anchor_cannot_be_forged_without_the_key(path: Path) -> None:
    text = beside(path, ".anchor").read_text()
    beside(path, ".anchor").write_text(text.replace(" 4 ", " 1 ").replace(" 3 ", " 2 "))
    assert "damaged, or was written by something else" in complaint(path)


def test_a_slot_that_a_power_cut_tore_leaves_the_other(path: Path) -> None:
    whole = beside(path, ".anchor").read_bytes()
    for slot in (0, 1):
        for cut in (1, 100, 250, SLOT - 1):
            torn = bytearray(whole)
            torn[slot * SLOT + cut : (slot + 1) * SLOT] = bytes(SLOT - cut)
            beside(path, ".anchor").write_bytes(torn)
            with Ledger.open(path) as ledger:
                assert len(list(ledger.log())) == 4
    with Ledger.open(path) as ledger:
        pay(ledger)
    assert verify(path).anchor == 5


def test_an_anchor_that_is_behind_is_brought_forward(path: Path) -> None:
    """As after a crash between the commit and the anchor."""
    older = beside(path, ".anchor").read_bytes()
    with Ledger.open(path) as ledger:
        pay(ledger)
        pay(ledger)
    beside(path, ".anchor").write_bytes(older)
    assert verify(path).problems == ()
    Ledger.open(path).close()
    assert verify(path).anchor == 6


def test_a_slower_writer_does_not_set_the_anchor_back(tmp_path: Path) -> None:
    seal = Seal(bytes(32), "a")
    anchor = Anchor(str(tmp_path / "anchor"), seal, "a.ledger")
    anchor.make(Mark(0, seal.origin))
    marks = [Mark(seq, f"{seq:064x}") for seq in range(1, 101)]

    def write(part: list[Mark]) -> None:
        for mark in part:
            anchor.advance(mark)

    threads = [threading.Thread(target=write, args=(marks[i::4],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert anchor.read() == marks[-1]
    before = (tmp_path / "anchor").read_bytes()
    anchor.advance(marks[0])
    assert (tmp_path / "anchor").read_bytes() == before


def test_a_writer_that_hangs_holds_nobody_up(path: Path) -> None:
    import fcntl

    with open(beside(path, ".anchor"), "rb+") as file, Ledger.open(path) as ledger:
        fcntl.flock(file, fcntl.LOCK_EX)
        seq = pay(ledger)
    assert verify(path).anchor == seq


def test_the_anchor_of_another_ledger_is_not_taken(path: Path, tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "b.ledger") as ledger:
        ledger.grant("alice", dataset="adult", epsilon=1)
    shutil.copy(tmp_path / "b.ledger", path)
    assert "its anchor a.ledger.anchor is that of another ledger" in complaint(path)


def test_a_new_ledger_does_not_take_the_place_of_one_that_is_gone(path: Path) -> None:
    path.unlink()
    for create in (False, True):
        text = complaint(path, create=create)
        assert "there is no ledger a.ledger, but its anchor a.ledger.anchor is there" in text
    assert not path.exists()
    for suffix in SUFFIXES[1:]:
        beside(path, suffix).unlink()
    with Ledger.open(path) as ledger, pytest.raises(NoGrant):
        pay(ledger)


def test_a_ledger_moves_with_its_key_and_its_anchor(path: Path) -> None:
    moved = copied(path, "elsewhere")
    with Ledger.open(moved) as ledger:
        assert pay(ledger) == 5


def test_a_read_only_anchor_is_noticed_before_anything_is_charged(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    with Ledger.open(path) as ledger:
        ledger.grant("alice", dataset="adult", epsilon=10)
        beside(path, ".anchor").unlink()
        beside(path, ".anchor").mkdir()
        with pytest.raises(LedgerError, match=r"its anchor a\.ledger\.anchor cannot be read and"):
            pay(ledger)
        assert ledger.balance("alice", "adult").spent_rho == 0


# -- the second anchor, beside the data ---------------------------------------------------------


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "adult.duckdb").touch()
    return folder / "adult.duckdb"


def test_an_anchor_beside_the_data_sees_a_folder_put_back_as_a_whole(
    path: Path, data: Path
) -> None:
    with Ledger.open(path, witness=data) as ledger:
        pay(ledger)
    copy = copied(path, "copy")
    with Ledger.open(path, witness=data) as ledger:
        pay(ledger)
    for suffix in SUFFIXES:
        shutil.copy(beside(copy, suffix), beside(path, suffix))
    assert "ends at entry 5, and its anchor has seen entry 6" in complaint(path, witness=data)
    Ledger.open(path).close()  # which nothing can see from the folder alone
    assert "anchor has seen entry 6" in verify(path, witness=str(data)).problems[0]
    assert verify(path).problems == ()
    accept(path, "put back on purpose", witness=str(data))
    with Ledger.open(path, witness=data) as ledger:
        assert pay(ledger) == 8


def test_each_ledger_has_its_own_anchor_beside_the_data(
    path: Path, data: Path, tmp_path: Path
) -> None:
    for place in (path, tmp_path / "b.ledger", path):
        with Ledger.open(place, witness=data) as ledger:
            ledger.grant("alice", dataset="adult", epsilon=10)
            pay(ledger)
    names = sorted(file.name for file in data.parent.iterdir())
    assert len(names) == 3 and all(name.startswith("adult.duckdb") for name in names)


def test_where_the_datas_folder_allows_no_anchor_there_is_none(path: Path, tmp_path: Path) -> None:
    with Ledger.open(path, witness=tmp_path / "missing" / "adult.duckdb") as ledger:
        pay(ledger)
    assert not (tmp_path / "missing").exists()
