"""A line for a person who waits, which is gone when the work is done."""

from __future__ import annotations

import io
import sys
import time

import pytest

from dpsql.surfaces.progress import Progress


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_a_wait_is_shown_and_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Progress("counting", after=0.01) as progress:
        progress(1, 4)
        time.sleep(0.2)
    written = sys.stderr.getvalue()
    line = "counting … 25 % · 0 s"
    assert line in written and written.endswith("\r" + " " * len(line) + "\r")


def test_short_work_and_what_nobody_watches_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, after, pause in ((Terminal(), 1.0, 0.0), (io.StringIO(), 0.01, 0.1)):
        monkeypatch.setattr(sys, "stderr", stream)
        with Progress("counting", after=after):
            time.sleep(pause)
        assert stream.getvalue() == ""
