"""A file is whole or not there, and a paid answer is never lost."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dpsql.errors import UsageError
from dpsql.surfaces.output import Target, text_writer


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


def test_a_pipe_is_written() -> None:
    """As `-o /dev/stdout` is, where another program reads it."""
    reads, writes = os.pipe()
    target = Target(Path(f"/dev/fd/{writes}"))
    target.place(text_writer(["x"]))
    target.discard()
    os.close(writes)
    with os.fdopen(reads) as read:
        assert read.read() == "x\n"


def test_a_missing_folder_is_found_before_anything_is_asked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot write .*no such file"):
        Target(tmp_path / "missing" / "a.csv")
    with pytest.raises(UsageError, match="it is a folder"):
        Target(tmp_path)
