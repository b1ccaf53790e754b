"""Where the shell's answers go: the screen, a pager, a file; and a log of all."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, TextIO

from dpsql.errors import UsageError
from dpsql.release import Release
from dpsql.surfaces import terminal
from dpsql.surfaces.output import words_of, write_lines
from dpsql.surfaces.run import Run
from dpsql.surfaces.shell import pager


class Outlet:
    """The screen or a file (`.output`), and a copy of all in a second one (`.log`)."""

    def __init__(self, run: Run) -> None:
        self.paging = True
        self._run, self._paged = run, False
        self._file: TextIO | None = None
        self._log: TextIO | None = None

    @property
    def file(self) -> str:
        """The file that answers go to, or nothing for the screen."""
        return "" if self._file is None else self._file.name

    @property
    def log(self) -> str:
        """The file that a copy of all goes to, or nothing."""
        return "" if self._log is None else self._log.name

    def close(self) -> None:
        """Close the files."""
        self.to_screen()
        self.stop_log()

    def to_file(self, path: Path) -> None:
        """From now on, answers go to a new file. Raises UsageError."""
        opened = _opened(path, "w")
        self.to_screen()
        self._file = opened

    def to_screen(self) -> None:
        """From now on, answers are shown."""
        _close(self._file)
        self._file = None

    def log_to(self, path: Path) -> None:
        """From now on, statements and answers are added to a file. Raises UsageError."""
        opened = _opened(path, "a")
        self.stop_log()
        self._log = opened

    def stop_log(self) -> None:
        """Copy no more."""
        _close(self._log)
        self._log = None

    # -- writing -------------------------------------------------------------------------------

    def answer(self, release: Release, form: str) -> None:
        """Show an answer. A paid one is never lost: what a file does not take is shown."""
        from dpsql.surfaces.formats import lines, summary
        from dpsql.surfaces.query import show

        self.note(lines(release, "table"))
        if self._file is not None and self._filed(lines(release, form)):
            return
        self._paged = False
        show(release, form, None, self._run, write=self._page)
        if self._paged and form == "table":  # whoever left at once has not seen what it cost
            write_lines([terminal.joined(summary(release), terminal.width(sys.stdout))], sys.stdout)

    def write(self, made: Iterable[str]) -> None:
        """Show lines that are an answer, too: a plan, a schema, a chart."""
        listed = list(made)
        self.note(listed)
        if self._file is None or not self._filed(listed):
            self._page(listed, sys.stdout)

    def asked(self, sql: str) -> None:
        """Note a statement in the log, which is a script that can be run again."""
        self._logged([f"{sql.strip()};"])

    def note(self, made: Iterable[str]) -> None:
        """Note in the log, as comments, what was shown."""
        if self._log is not None:
            self._logged(f"-- {line}".rstrip() for text in made for line in text.splitlines())

    def _page(self, made: Iterable[str], stream: TextIO) -> None:
        if self.paging:
            self._paged = pager.page(made, stream, self._run)
        else:
            write_lines(made, stream)

    def _filed(self, made: Iterable[str]) -> bool:
        """Write to the file; False, and no file any more, where it does not take it."""
        assert self._file is not None
        try:
            _put(made, self._file)
        except OSError as error:
            words = f"cannot write {self.file}: {words_of(error)}; answers are shown again"
            terminal.say(words, sys.stderr)
            self._run.code = 2
            self.to_screen()
            return False
        return True

    def _logged(self, made: Iterable[str]) -> None:
        if self._log is None:
            return
        try:
            _put(made, self._log)
        except OSError as error:
            terminal.say(
                f"cannot write {self.log}: {words_of(error)}; it is written no more", sys.stderr
            )
            self.stop_log()


def _opened(path: Path, mode: Literal["w", "a"]) -> TextIO:
    try:
        return open(path, mode, encoding="utf-8", errors="backslashreplace", newline="\n")
    except (OSError, ValueError) as error:
        why = words_of(error) if isinstance(error, OSError) else "it is no name of a file"
        raise UsageError(f"cannot write {path}: {why}") from None


def _put(made: Iterable[str] | Iterator[str], file: TextIO) -> None:
    file.writelines(line + "\n" for line in made)
    file.flush()


def _close(file: TextIO | None) -> None:
    if file is not None:
        with contextlib.suppress(OSError):
            file.close()
