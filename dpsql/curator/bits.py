"""Random bits, from the operating system alone.

Nothing is kept between calls, so a forked child, a second thread or a call that failed halfway
can never meet a bit that was used before.
"""

from __future__ import annotations

import os
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

BLOCK = 1 << 13  # bytes a request to the system: larger ones are no faster


class Bits(Protocol):
    """A source of independent, uniform 64-bit words."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """`count` fresh words."""
        ...


class SystemBits:
    """The operating system's generator. There is no seed."""

    __slots__ = ()

    def words(self, count: int) -> NDArray[np.uint64]:
        wanted = 8 * count
        if wanted <= BLOCK:
            return np.frombuffer(os.urandom(wanted), np.uint64)
        blocks = (os.urandom(min(BLOCK, wanted - at)) for at in range(0, wanted, BLOCK))
        return np.frombuffer(b"".join(blocks), np.uint64)


SYSTEM: Bits = SystemBits()
