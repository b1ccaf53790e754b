"""What was typed is kept for its user alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from prompt_toolkit.history import InMemoryHistory

from dpsql.surfaces.shell.history import Kept, kept, place


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("DPSQL_HISTORY", raising=False)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_kept_comes_back_newest_first(tmp_path: Path) -> None:
    history, warning = kept("alice", tmp_path / "a.ledger")
    assert warning == "" and isinstance(history, Kept)
    for typed in ("SELECT 1;", "SELECT\n 'é';"):
        history.append_string(typed)
    again, _ = kept("alice", tmp_path / "a.ledger")
    assert list(again.load_history_strings()) == ["SELECT\n 'é';", "SELECT 1;"]


def test_users_and_ledgers_have_files_of_their_own(tmp_path: Path) -> None:
    places = [
        place(user, ledger)
        for user in ("alice", "bob", "../b/c\n", "é" * 300)
        for ledger in (tmp_path / "a.ledger", tmp_path / "b.ledger", "postgresql://u@h/d")
    ]
    assert len(set(places)) == 12
    assert {found.parent for found in places if found} == {tmp_path / "state/dpsql/histories"}
    assert all(kept(user, "postgresql://h")[1] == "" for user in ("../b/c\n", "é" * 300))


def test_a_file_that_others_could_read_is_closed_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "typed"
    file.touch()
    os.chmod(file, 0o644)
    monkeypatch.setenv("DPSQL_HISTORY", str(file))
    _, warning = kept("alice", "a")
    assert warning == "" and mode(file) == 0o600
    mask = os.umask(0)
    try:
        monkeypatch.setenv("DPSQL_HISTORY", str(tmp_path / "new"))
        kept("alice", "a")
    finally:
        os.umask(mask)
    assert mode(tmp_path / "new") == 0o600


@pytest.mark.parametrize("given", ["", os.devnull])
def test_it_can_be_switched_off(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = mode(Path(os.devnull))
    monkeypatch.setenv("DPSQL_HISTORY", given)
    history, warning = kept("alice", "a")
    assert (
        isinstance(history, InMemoryHistory) and warning == "" and mode(Path(os.devnull)) == before
    )


@pytest.mark.parametrize("given", ["/proc/nowhere/x", "{folder}", "{folder}/pipe", "/dev/full"])
def test_where_it_cannot_be_kept_that_is_said(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setenv("DPSQL_HISTORY", given.format(folder=tmp_path))
    history, warning = kept("alice", "a")
    assert isinstance(history, InMemoryHistory) and "is not kept" in warning
    history.append_string("SELECT 1;")


def test_a_file_that_goes_away_costs_no_statement(tmp_path: Path) -> None:
    history, _ = kept("alice", "a")
    file = place("alice", "a")
    assert file is not None
    file.unlink()
    file.parent.rmdir()
    history.append_string("SELECT 1;")
    assert list(history.load_history_strings()) == []
