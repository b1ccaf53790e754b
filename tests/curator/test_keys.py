"""The key of a unit is made once, by whoever comes first, and read by the owner alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dpsql.curator.keys import key_name, unit_key
from dpsql.errors import SourceError


def test_the_key_is_made_once_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "adult.key"
    first = unit_key(path)
    assert len(first) == 32 and unit_key(path) == first == path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_two_keys_differ(tmp_path: Path) -> None:
    assert unit_key(tmp_path / "a") != unit_key(tmp_path / "b")


def test_the_umask_does_not_matter(tmp_path: Path) -> None:
    before = os.umask(0o777)
    try:
        assert len(unit_key(tmp_path / "key")) == 32
    finally:
        os.umask(before)


def test_processes_that_race_get_one_key(tmp_path: Path) -> None:
    ask = (
        "import sys; from pathlib import Path; from dpsql.curator.keys import unit_key;"
        "sys.stdin.read(1); print(unit_key(Path(sys.argv[1])).hex())"
    )
    command = [sys.executable, "-c", ask, str(tmp_path / "key")]
    racers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("g")
        racer.stdin.flush()
    assert len({racer.communicate()[0] for racer in racers}) == 1
    assert all(racer.returncode == 0 for racer in racers)


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33])
def test_a_file_that_is_no_key_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(SourceError, match="not a key"):
        unit_key(path)
    assert path.read_bytes() == content


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    unit_key(path)
    path.chmod(0o640)
    with pytest.raises(SourceError, match="chmod 600"):
        unit_key(path)


def test_a_folder_that_is_not_there_is_a_source_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be made or read"):
        unit_key(tmp_path / "none" / "key")


def test_the_name_of_a_key_does_not_hold_it(tmp_path: Path) -> None:
    key = unit_key(tmp_path / "key")
    assert key_name(key) == key_name(key) != key_name(bytes(32))
    assert key.hex()[:8] not in key_name(key)
