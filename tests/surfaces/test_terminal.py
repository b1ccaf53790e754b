"""On a real terminal: widths, colours, the prompt."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pty
import re
import select
import struct
import sys
import termios
import time
from pathlib import Path

import pytest

from dpsql.surfaces.terminal import DRAWN, cells, signs

TESTS = Path(__file__).parent
SCRIPT = """
import sys, time
from types import ModuleType, SimpleNamespace
sys.path.insert(0, {tests!r})
from conftest import GRANT, released
from dpsql.errors import Refused
from dpsql.release import Cost

class Session:
    last_charge = None
    user, datasets = "alice", {{"adult": None}}
    def __init__(self, *a, **k): pass
    def __enter__(self): return self
    def __exit__(self, *e): pass
    def budget(self, dataset=None): return GRANT
    def answer(self, sql):
        self.last_charge = None
        if sql == "slow":
            self.last_charge = Cost(0.0008, 0.171, 1e-6)
            print("started", flush=True)
            time.sleep(30)
        if sql == "bad":
            raise Refused("no", sql="SELECT bad", start=7, end=10)
        return released(rows=(("x" * 60, 1234567),))

module = ModuleType("dpsql.session")
module.Session = Session
sys.modules["dpsql.session"] = module
from dpsql.surfaces.cli import main
sys.exit(main())
"""


class Typist:
    """A person at a terminal of `columns` columns."""

    def __init__(self, arguments: list[str], columns: int, home: Path, **environment: str) -> None:
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            os.environ.update({"TERM": "xterm", "HOME": str(home), **environment})
            os.environ.pop("XDG_STATE_HOME", None)
            code = SCRIPT.format(tests=str(TESTS))
            time.sleep(0.2)  # until the terminal has its size
            os.execv(sys.executable, [sys.executable, "-c", code, *arguments])
        size = struct.pack("HHHH", 24, columns, 0, 0)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, size)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def until(self, words: str, seconds: float = 20) -> str:
        """What appears until `words` do."""
        end = time.monotonic() + seconds
        start = len(self.seen)
        while words not in self.seen[start:]:
            assert time.monotonic() < end, f"{words!r} not in {self.seen[start:]!r}"
            self._read(0.2)
        return self.seen[start:]

    def leave(self) -> int:
        """Wait for the end; gives the exit code."""
        while self._read(20):
            pass
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self.terminal], [], [], seconds)
        if not ready:
            return False
        with contextlib.suppress(OSError):
            if content := os.read(self.terminal, 65536):
                self.seen += content.decode("utf-8", "replace")
                if "\x1b[6n" in content.decode("utf-8", "replace"):
                    os.write(self.terminal, b"\x1b[1;1R")  # where the cursor is, as asked
                return True
        return False


def test_our_own_signs_take_one_column_each() -> None:
    from wcwidth import wcswidth

    assert [wcswidth(sign) for sign in DRAWN] == [1] * len(DRAWN) == [cells(s) for s in DRAWN]
    assert cells(DRAWN + "汉") == len(DRAWN) + 2


def test_a_stream_without_our_signs_gets_them_in_ascii() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    words = "ε 2.00 at δ 1e-06 (ρ 0.0882) · ±47 … ≈ √2 █░"
    assert signs(words, stream) == "eps 2.00 at delta 1e-06 (rho 0.0882) | +/-47 ... ~ sqrt 2 #."


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
class TestOnATerminal:
    """Each starts a terminal of its own."""

    def test_an_answer_fits_forty_columns(self, tmp_path: Path) -> None:
        typist = Typist(["query", "a.duckdb", "x"], 40, tmp_path)
        assert typist.leave() == 0
        lines = typist.seen.splitlines()
        assert "1,234,567 ± 47" in typist.seen and "…" in typist.seen
        assert [line for line in lines if cells(line) > 40] == []

    def test_an_error_is_coloured_unless_asked_not_to(self, tmp_path: Path) -> None:
        for environment, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
            typist = Typist(["query", "a.duckdb", "bad"], 80, tmp_path, **environment)
            assert typist.leave() == 1
            assert ("\x1b[" in typist.seen) is coloured
            assert "refused:" in typist.seen

    def test_the_prompt_says_what_is_left_and_ctrl_c_what_was_charged(self, tmp_path: Path) -> None:
        typist = Typist(["shell", "a.duckdb"], 100, tmp_path)
        typist.until("alice@adult  ε left 1.95 of 2.00 >")
        typist.type("SELECT\r")
        typist.until("...>")
        typist.type("1;\r")
        typist.until("price ε 0.171")
        typist.until(" >")
        typist.type("bad;\r")
        typist.until("nothing was charged")
        typist.until(" >")
        typist.type("slow;\r")
        typist.until("started")
        typist.type("\x03")
        typist.until("charged ε 0.171")
        typist.until(" >")
        typist.type("SELECT half")
        typist.type("\x03")
        typist.until("2.00 >")
        typist.type(".budget\r")
        typist.until("default queries left")
        typist.until(" >")
        typist.type(".quit\r")
        assert typist.leave() == 0
        history = tmp_path / ".local" / "state" / "dpsql" / "history"
        assert re.search(r"^\+bad;$", history.read_text(), re.MULTILINE)
        assert history.stat().st_mode & 0o077 == 0
