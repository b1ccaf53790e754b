"""A quick look at whether a query can be a combination of others at all.

What is a combination of measured queries is the same in two cells that no measured query tells
apart. That is looked at along lines, on which one column takes all of its values and the others
stay: between which neighbours on a line does some measured query change? A query that changes
elsewhere follows from nothing. And where it links all of its columns, which no sum of functions of
fewer of them does, so does some measured query. One that passes may still not follow; least squares
then tells.
"""

from __future__ import annotations

import functools
import hashlib
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.query.canon import Family
from dpsql.query.linear import starts

Bools: TypeAlias = NDArray[np.bool_]
Ints: TypeAlias = NDArray[np.int64]

MOST, LEAST = 64, 4  # lines of a column
CELLS = 1 << 13  # of all lines of a column, about


def changes(family: Family, name: str) -> Bools:
    """(lines, codes - 1) of the column `name`: where the family changes from a code to the next."""
    own = family.classes[name]
    count = max(LEAST, min(MOST, CELLS // len(own)))
    at = starts(own)[1:]  # within a run of one class nothing changes
    ends = np.array([own[at - 1], own[at]])[:, None]
    place: Ints = np.zeros((1, count, 1), np.int64)
    for other, of, classes in zip(
        family.classes, family.shape, family.classes.values(), strict=True
    ):
        here = ends if other == name else classes[stay(other, len(classes), count)][:, None]
        place = place * of + here
    groups, weights = family.groups.take(place), family.weights.take(place)
    found: Bools = np.zeros((count, len(own) - 1), np.bool_)
    found[:, at - 1] = (groups[0] != groups[1]) | (weights[0] != weights[1])
    return found


def interacts(family: Family) -> bool:
    """Whether a lone query is no sum of functions of all but one of its columns each.

    Such a sum has no differences along all columns at once. Averaged over the columns that the
    query has not, what was measured of no superset of its columns is such a sum.
    """
    if len(family.origin) != 1:
        return False  # not looked at
    if np.count_nonzero(family.weights) == 1:
        return True  # what is 0 but in one cell changes along all columns there
    found = family.weights.reshape(family.shape)  # 0 where nobody is counted
    for axis in range(found.ndim):
        found = np.diff(found, axis=axis)
    return bool(found.any())


@functools.lru_cache(256)  # the same for all queries of a column
def stay(name: str, size: int, count: int) -> Ints:
    """The code of a column on each line of another: spread evenly, each column by another step."""
    step = int.from_bytes(hashlib.sha256(name.encode()).digest()[:6], "big") | 1
    turns = np.arange(1, count + 1) * step % (1 << 48)
    return turns * size >> 48 if size < 1 << 15 else (turns / (1 << 48) * size).astype(np.int64)
