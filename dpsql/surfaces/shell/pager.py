"""Long answers on a terminal: through a pager, from which one can leave at any line."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterable
from itertools import chain, islice
from typing import TextIO

from dpsql.surfaces import terminal
from dpsql.surfaces.output import write_lines
from dpsql.surfaces.run import Run

LESS = "FRSX"  # leave what fits, colours, no wrapping, and do not wipe the screen


def command() -> list[str]:
    """The words of the pager: $PAGER, or less; none where there is none, or $PAGER is empty."""
    given = os.environ.get("PAGER", "less")
    try:
        words = shlex.split(given)
    except ValueError:
        return []
    return words if words and shutil.which(words[0]) else []


def height(stream: TextIO) -> int | None:
    """Lines of the terminal behind the stream; None where there is none that tells."""
    if not terminal.is_terminal(stream) or os.environ.get("TERM") == "dumb":
        return None
    try:
        return os.get_terminal_size(stream.fileno()).lines or None
    except OSError:
        return None


def page(made: Iterable[str], stream: TextIO, run: Run) -> bool:
    """Write the lines, through the pager where they are more than the terminal has; whether so.

    Ctrl-C is the pager's own while it runs. What it does not take, since the person left, is done.
    """
    rows, lines = height(stream), iter(made)
    head = [] if rows is None else list(islice(lines, rows))
    taller = rows is not None and sum(line.count("\n") + 1 for line in head) >= rows
    words = command() if taller else []
    if not words:
        write_lines(chain(head, lines), stream)
        return False
    environment = {"LESS": LESS, "LESSCHARSET": "utf-8", **os.environ}
    if not terminal.draws(stream):
        del environment["LESSCHARSET"]
    stream.flush()
    with run.leaving():
        try:
            child = subprocess.Popen(words, stdin=subprocess.PIPE, env=environment)
        except OSError:
            write_lines(chain(head, lines), stream)
            return False
        assert child.stdin is not None
        encoding = getattr(stream, "encoding", None) or "utf-8"
        with contextlib.suppress(BrokenPipeError):
            for line in chain(head, lines):
                shown = terminal.signs(line, stream) + "\n"
                child.stdin.write(shown.encode(encoding, "backslashreplace"))
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()
        child.wait()
    return True
