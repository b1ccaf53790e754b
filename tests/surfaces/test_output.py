"""A file is whole or not there, and a paid answer is never lost."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dpsql.errors import UsageError
from dpsql.surfaces.output import Target, text_writer, writable


def test_a_file_appears_whole(tmp_path: Path) -> None:
    target = Target(tmp_path / "a.csv")
    assert not (tmp_path / "a.csv").exists()
    target.place(text_writer(["é", "b"]))
    target.discard()
    assert (tmp_path / "a.csv").read_text("utf-8") == "é\nb\n"
    assert os.listdir(tmp_path) == ["a.csv"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    old = tmp_path / "a.csv"
    old.write_text("old")

    def failing(path: Path) -> None:
        path.write_text("half")
        raise OSError(28, "No space left on device")

    target = Target(old)
    with pytest.raises(OSError):
        target.place(failing)
    target.discard()
    assert old.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.csv"]


def test_a_link_is_followed_and_permissions_are_kept(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.write_text("old")
    real.chmod(0o640)
    (tmp_path / "link").symlink_to(real)
    target = Target(tmp_path / "link")
    target.place(text_writer(["new"]))
    assert (tmp_path / "link").is_symlink()
    assert real.read_text() == "new\n"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_a_device_is_written_and_not_replaced() -> None:
    target = Target(Path("/dev/null"))
    target.place(text_writer(["x"]))
    target.discard()
    assert not Path("/dev/null").is_file()


def test_a_missing_folder_is_found_before_anything_is_asked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot write .*no such file"):
        Target(tmp_path / "missing" / "a.csv")
    with pytest.raises(UsageError, match="it is a folder"):
        Target(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "a.duckdb", "A.TOML", "a.ledger", "a.ledger-wal", "a.ledger.key", "a.ledger.seal",
        "a.ledger.anchor", "table.csv", "purse.csv", "purse.csv.seal", "link.csv", "other.csv",
    ],
)  # fmt: skip
def test_what_only_owners_write_is_never_written_over(name: str, tmp_path: Path) -> None:
    """Whatever the ledger is called: without its key or its anchor it answers nothing."""
    (tmp_path / "link.csv").symlink_to(tmp_path / "x.ledger.seal")
    (tmp_path / "other.csv").symlink_to(tmp_path / "table.csv")
    with pytest.raises(UsageError, match=f"cannot write .*{name}: a database, ledger, key or"):
        writable(tmp_path / name, tmp_path / "table.csv", tmp_path / "purse.csv")


def test_all_else_may_be_written_over(tmp_path: Path) -> None:
    for name in ("answer.csv", "seal", "ledger.txt", "purse.csv.txt"):
        writable(tmp_path / name, tmp_path / "table.csv", tmp_path / "purse.csv")
        writable(tmp_path / name, tmp_path / "table.csv", "postgresql://ann@localhost/town")
