"""Books and forks: every book lets go of its connection before a fork, and opens it again later."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class Forked(Protocol):
    """Something whose lock and connection no fork may cut through."""

    def before_fork(self) -> None:
        """Take the lock, and let go of the connection."""
        ...

    def after_fork(self, process: int) -> None:
        """Release the lock, in the process of this id: parent or child."""
        ...


_watched: weakref.WeakSet[Forked] = weakref.WeakSet()
_forking = threading.RLock()
_held: list[Forked] = []


def watch(book: Forked) -> None:
    """See to it that `book` hears of forks as long as it lives."""
    with _forking:
        _watched.add(book)


def _before() -> None:
    _forking.acquire()
    for book in list(_watched):
        book.before_fork()
        _held.append(book)


def _after() -> None:
    process = os.getpid()
    while _held:
        _held.pop().after_fork(process)
    _forking.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
