"""Tells a person who waits how long work has run, and how much of it is done."""

from __future__ import annotations

import contextlib
import sys
import threading
import time

from dpsql.surfaces.terminal import cells, is_terminal, signs


class Progress:
    """One line on standard error, when a person watches it and the work takes its time.

    It shows the seconds, and of work in steps the part that is done; it is gone when the work is.
    """

    def __init__(self, words: str, after: float = 1.0) -> None:
        """`after` so many seconds the line is shown, and written anew."""
        self._words, self._after, self._part = words, after, ""
        self._shown = 0
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._since = 0.0

    def __call__(self, done: int, steps: int) -> None:
        """From now on, `done` of `steps` steps are done."""
        self._part = f" {100 * done // max(steps, 1)} % ·"

    def __enter__(self) -> Progress:
        self._since = time.monotonic()
        if is_terminal(sys.stderr):
            self._thread = threading.Thread(target=self._tick, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        if self._shown:
            self._write("\r" + " " * self._shown + "\r")

    def _tick(self) -> None:
        while not self._over.wait(self._after):
            seconds = int(time.monotonic() - self._since)
            text = signs(f"{self._words} …{self._part} {seconds} s", sys.stderr)
            self._write("\r" + text.ljust(self._shown))
            self._shown = cells(text)

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(text)
            sys.stderr.flush()
