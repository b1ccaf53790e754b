"""Fingerprints of linear queries: equal for equal ones, however they were grouped and written.

A query is a function of a cell. Its fingerprint is the mean of that over all cells, where each code
of each column counts by a fixed number of its own; so columns on which the query does not depend
make no difference, and neither do its scale and sign, which are taken out. Others have equal
fingerprints by chance alone: whoever finds one looks at the queries themselves.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.query.canon import Family

_CLOSE = 1e-9  # of a fingerprint: what adding in another order may change

Floats: TypeAlias = NDArray[np.float64]


def prints(family: Family) -> Floats:
    """The fingerprints of a family's queries, of those groups that somebody may be in."""
    cells = np.ones(1)
    for name, classes in family.classes.items():
        counts = _counts(name, len(classes))
        cells = np.multiply.outer(cells, np.bincount(classes, counts)).reshape(-1)
    inside = family.groups >= 0
    groups, weights = family.groups[inside], family.weights[inside].astype(np.float64)
    largest = np.zeros(family.met)
    np.maximum.at(largest, groups, np.abs(weights))
    found: Floats = np.bincount(groups, weights * cells[inside], family.met) / largest
    return np.abs(found)


@functools.lru_cache(256)
def _counts(name: str, size: int) -> Floats:
    """How much each code of a column counts: fractions of a square polynomial, 1 together."""
    step = np.frombuffer(hashlib.sha256(name.encode()).digest()[:8], "<u8")[0] | np.uint64(1)
    codes = np.arange(1, size + 1, dtype=np.uint64)
    found: Floats = 0.5 + (codes * codes * step) / 2.0**64  # modulo 2^64
    found /= found.sum()
    return found


class Index:
    """The queries of many releases by their fingerprints, which are found when they are needed."""

    def __init__(self) -> None:
        self._owners: list[tuple[int, int]] = []  # charge, and number of the family
        self._new: list[Family] = []
        self._prints, self._of = np.zeros(0), np.zeros(0, np.int64)

    def copy(self) -> Index:
        """The same, to which others can be added."""
        other = Index()
        other._owners, other._new = self._owners.copy(), self._new.copy()
        other._prints, other._of = self._prints, self._of
        return other

    def add(self, seq: int, families: Sequence[Family]) -> None:
        """The queries of a release."""
        self._owners += [(seq, number) for number in range(len(families))]
        self._new += families

    def find(self, asked: Floats) -> list[tuple[int, int]]:
        """The charge and the number of each family with queries of these fingerprints; none where
        one of them is nowhere."""
        self._order()
        away = np.abs(asked) * _CLOSE
        first = np.searchsorted(self._prints, asked - away)
        last = np.searchsorted(self._prints, asked + away, "right")
        if not (first < last).all():
            return []
        places = [self._of[a:b] for a, b in zip(first, last, strict=True)]
        owners = np.unique(np.concatenate(places)) if places else np.zeros(0, np.int64)
        return [self._owners[owner] for owner in owners.tolist()]

    def _order(self) -> None:
        if not self._new:
            return
        start = len(self._owners) - len(self._new)
        found = [prints(family) for family in self._new]
        of = np.repeat(np.arange(start, len(self._owners)), [len(some) for some in found])
        more = np.concatenate(found)
        order = np.argsort(more)
        at = np.searchsorted(self._prints, more[order])
        self._prints = np.insert(self._prints, at, more[order])
        self._of = np.insert(self._of, at, of[order])
        self._new = []
