"""Where an answer goes: standard output, or a file that is whole or not there."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TextIO

from dpsql.errors import UsageError
from dpsql.surfaces import terminal


def write_lines(made: Iterable[str], stream: TextIO) -> None:
    """Write lines to a stream, our own signs spelt in ASCII where it lacks them."""
    plain = terminal.draws(stream)
    for line in made:
        stream.write((line if plain else terminal.signs(line, stream)) + "\n")
    stream.flush()


class Target:
    """A file to be written, opened beside its place before anything is charged.

    `place` puts the whole content there at once; until then the old file stays. Raises
    UsageError when the folder is missing or not writable.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        real = Path(os.path.realpath(path))
        self._special = path.exists() and not path.is_file()  # a pipe has no real path
        if real.is_dir():
            raise UsageError(f"cannot write {path}: it is a folder")
        self._real = real
        if self._special:
            self._draft = path
            return
        try:
            handle, draft = tempfile.mkstemp(prefix=f".{real.name}.", dir=real.parent)
        except OSError as error:
            raise UsageError(f"cannot write {path}: {words_of(error)}") from None
        os.close(handle)
        self._draft = Path(draft)

    def place(self, write: Callable[[Path], None]) -> None:
        """Let `write` fill the draft, then move it into place. Raises OSError."""
        write(self._draft)
        if self._special:
            return
        with open(self._draft, "rb+") as file:
            os.fsync(file.fileno())
        os.chmod(self._draft, _mode(self._real))
        os.replace(self._draft, self._real)

    def discard(self) -> None:
        """Remove the draft if it is still there."""
        if not self._special:
            with contextlib.suppress(OSError):
                self._draft.unlink(missing_ok=True)


def text_writer(made: Iterable[str]) -> Callable[[Path], None]:
    """A writer of lines as UTF-8 text."""

    def write(path: Path) -> None:
        with open(path, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.writelines(line + "\n" for line in made)

    return write


def words_of(error: OSError) -> str:
    """What the operating system said."""
    return (error.strerror or "input or output failed").lower()


def _mode(path: Path) -> int:
    """The file's permissions as they are, or those of a new file."""
    with contextlib.suppress(OSError):
        return stat.S_IMODE(path.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def aside(text: str) -> None:
    """A remark beside an answer that goes elsewhere: to standard error, when a person watches."""
    if terminal.is_terminal(sys.stderr):
        terminal.say(text, sys.stderr)
