"""On a real terminal: widths and colours. The shell's own are in `shell/`."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pty
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
import sys
from types import ModuleType
sys.path.insert(0, {tests!r})
from conftest import released
from dpsql.errors import Refused

class Session:
    last_charge = None
    def __init__(self, *a, **k): pass
    def __enter__(self): return self
    def __exit__(self, *e): pass
    def answer(self, sql):
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
