"""Locks that a fork cannot leave locked."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator


class Renewed:
    """A lock that a forked child has anew, for the thread that held it is not in the child."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Within it no other thread holds the lock."""
        with self._lock:
            yield

    def _renew(self) -> None:
        self._lock = threading.Lock()
