"""What was typed before, by one user about one ledger, in a file that only its owner can read."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

VARIABLE = "DPSQL_HISTORY"
_BEGUN = b"\n# "  # the first bytes of a history


class Kept(History):
    """A file of what was typed, newest last; what cannot be written is forgotten."""

    def __init__(self, path: Path) -> None:
        History.__init__(self)
        self._file = FileHistory(str(path))

    def load_history_strings(self) -> Iterable[str]:
        """What was typed, newest first."""
        try:
            return list(self._file.load_history_strings())
        except OSError:
            return []

    def store_string(self, string: str) -> None:
        """Add what was typed."""
        try:
            self._file.store_string(string)
        except OSError:
            return


def place(user: str, ledger: Path | str) -> Path | None:
    """The file for a user and a ledger; None where DPSQL_HISTORY is empty or /dev/null."""
    given = os.environ.get(VARIABLE)
    if given is not None:
        return None if given in ("", os.devnull) else Path(given).expanduser()
    known = str(ledger) if isinstance(ledger, str) else str(ledger.resolve())
    digest = hashlib.sha256(known.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    base = os.environ.get("XDG_STATE_HOME")
    folder = Path(base) if base else Path.home() / ".local" / "state"
    who = quote(user, safe="", errors="replace")[:100]
    return folder / "dpsql" / "histories" / f"{who}-{digest}"


def kept(user: str, ledger: Path | str) -> tuple[History, str]:
    """The history of a user, and a warning where it is kept for this session alone."""
    try:
        path = place(user, ledger)
        if path is None:
            return InMemoryHistory(), ""
        if VARIABLE not in os.environ:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _begun(path)
    except (OSError, RuntimeError, ValueError) as error:
        why = (getattr(error, "strerror", None) or "there is no such place").lower()
        return InMemoryHistory(), (
            f"what you type is not kept after this session: its file cannot be written ({why}); "
            f"{VARIABLE} names another"
        )
    return Kept(path), ""


def _begun(path: Path) -> None:
    """Make the file, readable and writable by its owner alone. Raises OSError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NONBLOCK", 0)
    handle = os.open(path, flags, 0o600)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(0, "it is no file")
        if os.read(handle, len(_BEGUN)) not in (b"", _BEGUN):
            raise OSError(0, "it holds something else")
        if found.st_mode & 0o177:
            os.fchmod(handle, 0o600)
    finally:
        os.close(handle)
