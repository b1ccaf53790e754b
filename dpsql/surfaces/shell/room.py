"""The shell itself: what is typed becomes statements and commands, one after another."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dpsql.errors import Error, NoGrant, UsageError
from dpsql.surfaces import statements, terminal
from dpsql.surfaces.options import read
from dpsql.surfaces.run import Run
from dpsql.surfaces.shell import dots
from dpsql.surfaces.shell.outlet import Outlet

if TYPE_CHECKING:
    from dpsql.release import Release
    from dpsql.session import Session
    from dpsql.surfaces.shell.prompt import Reader

DEEPEST = 10  # files that read each other
HELLO = [
    "dpsql: answers are noisy and paid for", "; ends a statement", ".help lists commands",
    ".quit leaves",
]  # fmt: skip


class Room:
    """A session with an output mode, the statement that is being typed, and the last answer.

    `reader` is the person at the terminal; None where there is nobody.
    """

    def __init__(self, session: Session, run: Run, form: str) -> None:
        self.session, self.run, self.form = session, run, form
        self.outlet = Outlet(run)
        self.timing, self.asking = False, True
        self.last: Release | None = None  # of a SELECT
        self.last_sql = ""
        self.reader: Reader | None = None
        self._typed = ""
        self._dataset = ""  # that the last answer was about
        self._depth = 0  # of files that are read

    def close(self) -> None:
        """Close the files that answers went to."""
        self.outlet.close()

    # -- lines ---------------------------------------------------------------------------------

    def follow(self, lines: Iterator[str]) -> None:
        """Answer lines as they come; the first error ends it."""
        self.outlet.paging = False
        self._follow(lines)

    def _follow(self, lines: Iterator[str]) -> bool:
        for line in lines:
            if not self._take(line):
                return False
        left, self._typed = self._typed, ""
        if not statements.blank(left):
            self._answer(left)
        return True

    def talk(self, reader: Reader, warning: str = "") -> None:
        """Answer a person until they leave; errors are shown and forgotten."""
        self.reader = reader
        hello = terminal.joined(HELLO, terminal.width(sys.stdout), "; ")
        self.say([hello, *[f"note: {warning}"] * bool(warning)])
        while True:
            try:
                typed = reader.line(self._prompt())
            except EOFError:
                return
            except KeyboardInterrupt:
                self.run.interrupted, self._typed = False, ""
                continue
            try:
                if not all(self._take(line + "\n") for line in typed.split("\n")):
                    return
            except BrokenPipeError:
                raise
            except (Exception, KeyboardInterrupt) as error:
                self._failed(error)

    def _failed(self, error: BaseException) -> None:
        """Say what went wrong and what it charged; what was typed is forgotten."""
        from dpsql.surfaces import faults

        self._typed, self._depth = "", 0
        with self.run.leaving():
            found = KeyboardInterrupt() if self.run.interrupted else error
            charged = self.run.charged()
            aim = self.run.aim
            self.outlet.note([faults.text(found, charged, None, aim)])
            faults.report(found, as_json=self.form == "json", charged=charged, aim=aim)

    def _take(self, line: str) -> bool:
        """Add a line, or lines, to what was typed and answer what it ends; False to leave."""
        self.run.asking = False
        word = line.strip()
        if statements.blank(self._typed):
            if word.rstrip("; ") in dots.LEAVING:
                return False
            if word.rstrip("; ") in dots.BARE:
                word = f".{word}"
            if dots.is_dot(word):
                self._typed = ""
                return self._command(word)
        done, left = statements.split(self._typed + line)
        self._typed = "" if statements.blank(left) else left
        for sql in done:
            self._answer(sql)
        return True

    def _command(self, line: str) -> bool:
        from dpsql.surfaces.shell.acts import act

        name, argument = dots.cut(line)
        dot = dots.dot(name)
        if dot.name == ".quit":
            return False
        if dot.name == ".read":
            return self._read(argument)
        act(self, dot, argument)
        return True

    def _read(self, file: str) -> bool:
        """Answer the statements and commands in a file; False where it says to leave."""
        if not file:
            raise UsageError("which file? .read FILE")
        if self._depth >= DEEPEST:
            raise UsageError(f"{file} is read by itself: at most {DEEPEST} files read each other")
        lines = iter(read(Path(file).expanduser()).splitlines(keepends=True))
        self._depth += 1
        stays = self._follow(lines)
        self._depth -= 1
        return stays

    # -- statements ----------------------------------------------------------------------------

    def _answer(self, sql: str) -> None:
        from dpsql.surfaces.progress import Progress

        sql = sql.strip()
        self.outlet.asked(sql)
        if not self._agreed(sql):  # outside the statement, for which nothing can be charged yet
            words = ["not asked: nothing was charged"]
            self.outlet.note(words)
            self.say(words)
            return
        with self.run.statement():
            begun = time.monotonic()
            with Progress("counting"):
                release = self.session.answer(sql)
            seconds = time.monotonic() - begun
            if any(release.noisy):  # SET and SHOW come between an answer and its chart
                self.last, self.last_sql = release, sql
            self._dataset = release.dataset or self._dataset
            self.outlet.answer(release, self.form)
            if self.timing:
                sys.stdout.flush()
                terminal.say(f"{seconds:.3f} s", sys.stderr)

    def _agreed(self, sql: str) -> bool:
        """Whether a statement may be paid: a dear one only once the person said so."""
        if self.reader is None or not self.asking:
            return True
        from dpsql.surfaces.progress import Progress
        from dpsql.surfaces.shell.dear import question

        with Progress("planning"):
            words = question(self.session, sql)
        if not words:
            return True
        try:
            said = self.reader.question(terminal.signs(words, sys.stdout))
        except EOFError:
            return False
        return said.strip().lower() in ("y", "yes")

    # -- words ---------------------------------------------------------------------------------

    def say(self, lines: list[str]) -> None:
        """Write lines that are no answer, to the screen."""
        from dpsql.surfaces.output import write_lines

        write_lines(lines, sys.stdout)

    def _prompt(self) -> str:
        """Who asks, of what, and what is left; dots while a statement goes on.

        On a narrow terminal what is typed has a line of its own.
        """
        from dpsql.surfaces.figures import figure

        if self._typed:
            return "...> "
        datasets, user = list(self.session.datasets), terminal.visible(self.session.user)
        name = self._dataset or (datasets[0] if len(datasets) == 1 else "")
        if not name:
            return f"{user} > "
        try:
            purse = self.session.budget(name)
            left, granted = figure(purse.left.epsilon), figure(purse.granted.epsilon)
            words = f"ε left {left} of {granted}"
        except NoGrant:
            words = "no grant"
        except Error:
            words = "no ledger"
        before = terminal.signs(f"{user}@{terminal.visible(name)}  {words}", sys.stdout)
        columns = terminal.width(sys.stdout) or 80
        if terminal.cells(before) + 3 > columns * 6 // 10:
            return f"{terminal.cut(before, columns, '..')}\n> "
        return f"{before} > "
