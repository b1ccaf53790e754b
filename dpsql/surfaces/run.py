"""One run of the command: what it knows when it ends, and when Ctrl-C may end it."""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpsql.release import Cost
    from dpsql.session import Session
    from dpsql.surfaces.aim import Aim


@dataclass(slots=True)
class Run:
    """What one run of the command knows when it ends.

    `aim` is what its options named. `asking` from a statement's beginning until something else is
    begun; `interrupted` once Ctrl-C was pressed, whatever error a library made of it; `holding`
    while Ctrl-C waits. `alone` where the process does nothing else. `as_json` is how errors are
    told, where something else than the options says so.
    """

    session: Session | None = None
    aim: Aim | None = None
    as_json: bool | None = None
    owner: bool = False
    code: int = 0
    asking: bool = False
    interrupted: bool = False
    holding: bool = True
    alone: bool = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take note of Ctrl-C. It waits until `open`, and again once that ends."""
        usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if not usual or threading.current_thread() is not threading.main_thread():
            yield
            return
        signal.signal(signal.SIGINT, self._press)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _press(self, number: int, frame: FrameType | None) -> None:
        self.interrupted = True
        if not self.holding:
            raise KeyboardInterrupt

    @contextmanager
    def open(self) -> Iterator[None]:
        """While Ctrl-C interrupts. Raises KeyboardInterrupt if it waited already."""
        self.holding = False
        try:
            self._wake()
            yield
        finally:
            self.holding = True

    @contextmanager
    def importing(self) -> Iterator[None]:
        """Let Ctrl-C wait: DuckDB and NumPy abort when their import is interrupted."""
        self.holding = True
        if self.alone:
            gc.disable()  # modules stay, so none of their parts is garbage
        try:
            yield
        finally:
            self.holding = False
            if self.alone:
                gc.freeze()
                gc.enable()
        self._wake()

    @contextmanager
    def leaving(self) -> Iterator[None]:
        """While another program has the terminal, Ctrl-C is its own, and forgotten here."""
        before, self.holding = self.holding, True
        try:
            yield
        finally:
            self.interrupted, self.holding = False, before

    @contextmanager
    def statement(self) -> Iterator[None]:
        """While a statement is answered and shown, and until the run turns to something else.

        Ctrl-C may come while what it used is closed: what it charged is told then, too.
        """
        self.asking = True
        yield

    def charged(self) -> Cost | None:
        """What the statement that went wrong took from the purse."""
        return self.session.last_charge if self.session and self.asking else None

    def _wake(self) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
