"""Noise drawn ahead, so that the time of a draw does not tell what was drawn.

A small draw is cut from a block that was drawn earlier, whole, for the same law: it costs a few
microseconds and takes as long for a large value as for a small one. A block belongs to one caller
at a time: it is taken out of the pool before it is cut, and what is left of it is put back. An
exception in between loses noise and never gives it twice.

A forked child starts with an empty pool. What this cannot see is a machine resumed twice from one
snapshot of its memory: call `noise.forget()` after resuming.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Law: TypeAlias = tuple[str, int, int]

BLOCK = 256  # values drawn ahead of a small draw, in about 0.1 ms
LAWS = 16  # laws whose remainders are kept, latest used first


class Pool:
    """The unused remainders of blocks of noise, at most one a law, `LAWS` in all."""

    __slots__ = ("_lock", "_owner", "_spare")

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Drop all noise that was drawn ahead; the lock too, which a fork may have left closed."""
        self._lock = threading.Lock()
        self._spare: OrderedDict[Law, NDArray[np.int64]] = OrderedDict()
        self._owner = os.getpid()

    def take(
        self, law: Law, size: int, draw: Callable[[int], NDArray[np.int64]]
    ) -> NDArray[np.int64]:
        """`size` values of `law` that nobody else gets; `draw(n)` gives n fresh ones."""
        while True:
            if self._owner != os.getpid():  # forked behind Python's back
                self.forget()
            owner, spare, lock = self._owner, self._spare, self._lock
            with lock:
                block = spare.pop(law, None)
            if block is None or block.size < size:
                block = draw(size if size >= BLOCK else size + BLOCK)
            taken, rest = block[:size].copy(), block[size:]
            if rest.size:
                with lock:  # `spare` is not the pool any more if this process forked meanwhile
                    spare[law] = rest
                    if len(spare) > LAWS:
                        spare.popitem(last=False)
            if spare is self._spare and owner == os.getpid():
                return taken
