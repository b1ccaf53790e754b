"""Locks that a fork cannot leave locked."""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import AbstractContextManager


class Renewed:
    """A lock that a forked child has anew, for the thread that held it is not in the child.

    The thread that holds it may take it again.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _all.add(self)

    def held(self) -> AbstractContextManager[object]:
        """Within it no other thread holds the lock."""
        return self._lock

    def renew(self) -> None:
        """Let go of it, whoever holds it."""
        self._lock = threading.RLock()


_all: weakref.WeakSet[Renewed] = weakref.WeakSet()


def _renew() -> None:
    for lock in list(_all):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
