"""A person at a pseudo-terminal, and the screen that they see."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time
import unicodedata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LINES = 24
_PART = re.compile(
    r"\x1b\[([0-9;?]*)([@-~])|\x1b[=>78]|\x1b[()][A-Z0-9]|\x1b\][^\x07]*\x07|(.)", re.S
)


class Screen:
    """What a terminal shows of what is written to it; `above` is what has scrolled away."""

    def __init__(self, columns: int, lines: int = LINES) -> None:
        self.columns, self.height = columns, lines
        self.above: list[str] = []
        self.coloured = False
        self._rows = [[" "] * columns for _ in range(lines)]
        self._row = self._column = 0
        self._left = ""  # of a sequence that is not whole yet

    def write(self, text: str) -> None:
        """Show more text."""
        text = self._left + text
        cut = text.rfind("\x1b", -20)
        self._left = ""
        if cut >= 0 and not re.match(r"\x1b(\[[0-9;?]*[@-~]|[=>78]|[()].)", text[cut:]):
            text, self._left = text[:cut], text[cut:]
        for found in _PART.finditer(text):
            if found[2]:
                self._control(found[1], found[2])
            elif found[3]:
                self._put(found[3])

    @property
    def place(self) -> tuple[int, int]:
        """Row and column of the cursor, from 1."""
        return self._row + 1, min(self._column, self.columns - 1) + 1

    @property
    def rows(self) -> list[str]:
        """The lines that are shown, without the blanks at their ends."""
        return ["".join(row).rstrip() for row in self._rows]

    @property
    def text(self) -> str:
        """All lines, those that have scrolled away first."""
        return "\n".join([*self.above, *self.rows]).rstrip()

    def _put(self, sign: str) -> None:
        if sign == "\r":
            self._column = 0
        elif sign == "\n":
            self._down()
        elif sign == "\b":
            self._column = max(self._column - 1, 0)
        elif sign == "\t":
            self._column = min(self._column // 8 * 8 + 8, self.columns - 1)
        elif sign >= " ":
            wide = 2 if unicodedata.east_asian_width(sign) in "WF" else 1
            if self._column + wide > self.columns:
                self._column = 0
                self._down()
            self._rows[self._row][self._column] = sign
            if wide == 2:
                self._rows[self._row][self._column + 1] = ""
            self._column += wide

    def _down(self) -> None:
        if self._row == self.height - 1:
            self.above.append("".join(self._rows.pop(0)).rstrip())
            self._rows.append([" "] * self.columns)
        else:
            self._row += 1

    def _control(self, given: str, name: str) -> None:
        if given.startswith("?"):
            return
        numbers = [int(part or 0) for part in given.split(";")]
        count = max(numbers[0], 1)
        match name:
            case "A":
                self._row = max(self._row - count, 0)
            case "B":
                self._row = min(self._row + count, self.height - 1)
            case "C":
                self._column = min(self._column + count, self.columns - 1)
            case "D":
                self._column = max(self._column - count, 0)
            case "G":
                self._column = count - 1
            case "H":
                self._row = min(count, self.height) - 1
                self._column = max(numbers[1] if len(numbers) > 1 else 1, 1) - 1
            case "K":
                row, column = self._rows[self._row], self._column
                first, last = {0: (column, self.columns), 1: (0, column + 1)}.get(
                    numbers[0], (0, self.columns)
                )
                row[first:last] = [" "] * (last - first)
            case "J":
                if numbers[0] == 0:
                    self._control("0", "K")
                    for row in self._rows[self._row + 1 :]:
                        row[:] = [" "] * self.columns
                else:
                    for row in self._rows:
                        row[:] = [" "] * self.columns
            case "m" if any(30 <= number <= 107 for number in numbers):
                self.coloured = True


class Typist:
    """A person at a terminal, where a command of Python's runs."""

    def __init__(
        self, words: list[str], folder: Path, columns: int = 100, **environment: str
    ) -> None:
        self.screen = Screen(columns)
        self.written = ""
        self.code: int | None = None  # once the command ended
        self._mark = 0
        ready, go = os.pipe()
        usual = {k: v for k, v in os.environ.items() if not k.startswith(("DPSQL_", "XDG_"))}
        for name in ("NO_COLOR", "PAGER", "LESS", "COLUMNS", "LINES"):
            usual.pop(name, None)
        home = folder / "home"
        home.mkdir(exist_ok=True)
        usual |= {
            "TERM": "xterm",
            "HOME": str(home),
            "PYTHONPATH": str(ROOT),
            "PYTHONIOENCODING": "utf-8",
            "PROMPT_TOOLKIT_COLOR_DEPTH": "DEPTH_4_BIT",
            "DPSQL_CACHE": os.environ["DPSQL_CACHE"],
        }
        if environment.get("NO_COLOR"):
            del usual["PROMPT_TOOLKIT_COLOR_DEPTH"]
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            os.close(go)
            os.read(ready, 1)  # until the terminal has its size
            os.chdir(folder)
            os.execve(sys.executable, [sys.executable, *words], usual | environment)
        size = struct.pack("HHHH", LINES, columns, 0, 0)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, size)
        os.close(ready)
        os.close(go)

    def type(self, text: str) -> None:
        """Press keys; from now on `until` looks at what appears after them."""
        self._mark = len(self.written)
        os.write(self.terminal, text.encode())

    def until(self, *words: str, seconds: float = 90) -> str:
        """What has appeared since the last keys, once each of the words is in it."""
        end = time.monotonic() + seconds
        while not all(word in self._since() for word in words):
            assert time.monotonic() < end, f"{words!r} not in {self._since()!r}"
            self._read(0.5)
        return self._since()

    def then(self, *words: str, seconds: float = 90) -> str:
        """As `until`, and then the prompt is back, with nothing typed at it.

        A key that is pressed before may be lost: the terminal changes its mode in between.
        """
        end = time.monotonic() + seconds
        self.until(*words, seconds=seconds)
        while not re.search(r"(^|[^.])>$", self.screen.rows[self.screen.place[0] - 1]):
            assert time.monotonic() < end, f"no prompt in {self._since()!r}"
            self._read(0.5)
        return self._since()

    def interrupt(self, words: str) -> None:
        """Press Ctrl-C until `words` appear: Python may lose one just before it reads a line."""
        end = time.monotonic() + 90
        self.type("\x03")
        while words not in self._since():
            assert time.monotonic() < end, f"{words!r} not in {self._since()!r}"
            if not self._read(5):
                os.write(self.terminal, b"\x03")
        self.then(words)

    def shows(self, *words: str, seconds: float = 90) -> list[str]:
        """The lines of the screen, once each of the words is on it."""
        end = time.monotonic() + seconds
        while not all(word in "\n".join(self.screen.rows) for word in words):
            assert time.monotonic() < end, f"{words!r} not in\n" + "\n".join(self.screen.rows)
            self._read(0.5)
        return self.screen.rows

    def leave(self) -> int:
        """Wait for the end; gives the exit code."""
        while self._read(90):
            pass
        os.close(self.terminal)
        self.code = os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])
        return self.code

    def _since(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[@-~]|\x1b[=>78]", "", self.written[self._mark :])

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self.terminal], [], [], seconds)
        if not ready:
            return False
        with contextlib.suppress(OSError):
            if content := os.read(self.terminal, 65536):
                shown = content.decode("utf-8", "replace")
                self.written += shown
                self.screen.write(shown)
                if "\x1b[6n" in shown:  # where is the cursor?
                    row, column = self.screen.place
                    os.write(self.terminal, f"\x1b[{row};{column}R".encode())
                return True
        return False
