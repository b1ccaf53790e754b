"""Keeps at most so many rows of each privacy unit, by a rule that looks at that unit alone.

The rows of a unit are ranked by HMAC-SHA-256 under a secret key, over the unit's id, the codes of
all declared columns and the number of earlier rows equal to this one. So what is kept of one unit
does not depend on the other units, on the order of the file, on threads or on the engine.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Iterator
from heapq import nsmallest
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpsql.curator.sealed import Sealed, unseal


def kept(
    key: bytes,
    max_rows: int,
    units: Sealed[NDArray[np.object_]],
    codes: Sealed[NDArray[np.int64]],
    counts: Sealed[NDArray[np.int64]],
) -> Sealed[NDArray[np.int64]]:
    """Which rows stay of the units given: an index into `codes` for each row that is kept.

    Line i says that unit `units[i]` has `counts[i]` rows of `codes[i]`; the lines of a unit are
    different and follow each other.
    """
    ids, times = unseal(units), unseal(counts).tolist()
    table = unseal(codes).astype("<i8").tobytes()
    width = len(table) // max(len(ids), 1)
    chosen: list[int] = []
    for first, last in _runs(ids):
        ranked = (
            (digest, line)
            for line in range(first, last)
            for digest in _digests(
                key, ids[line], table[line * width : (line + 1) * width], times[line]
            )
        )
        chosen.extend(line for _, line in nsmallest(max_rows, ranked))
    return Sealed(np.array(chosen, np.int64))


def _runs(ids: NDArray[np.object_]) -> Iterator[tuple[int, int]]:
    """Where the lines of each unit begin and end."""
    edges = np.flatnonzero(ids[1:] != ids[:-1]) + 1
    bounds = [0, *edges.tolist(), len(ids)]
    yield from pairwise(bounds)


def _digests(key: bytes, unit: bytes, row: bytes, times: int) -> Iterator[bytes]:
    """The ranks of equal rows: each part of the message has a fixed length but the last."""
    message = row + bytes(unit)
    for twin in range(times):
        yield hmac.digest(key, struct.pack("<q", twin) + message, "sha256")
