"""Whole tables taken apart: what each tells beyond its margins, and what all tell of that together.

Tables that share columns tell of the same margins. A whole table y with noise of variance v is as
good as residual tables, one for each set s of its columns: y_s, summed over the g cells of all the
others and centred, with noise of variance v g. Several tables that tell of the same s are as good
as their mean, weighted by precision. A potential of a whole table is a sum of one for each s: where
theta is that for a mean Y of variance V, the one for y_s is (tau V theta + y_s - Y) / (tau v g).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from dpsql.mechanisms.synopses.ascent import centred
from dpsql.mechanisms.synopses.junction import Floats, Names
from dpsql.mechanisms.synopses.noisy import NoisyTable

MOST = 4  # columns of a table that is taken apart, into 16 parts
_Key: TypeAlias = "tuple[Names, tuple[bytes, ...]]"
_Part: TypeAlias = "tuple[_Key, tuple[int, ...], NoisyTable]"


class Parts:
    """Parts of some tables; those of which single cells were measured stay as they are."""

    def __init__(self, given: Sequence[NoisyTable]) -> None:
        self._of = {table: _parts(table) for table in given}
        told: dict[_Key, list[NoisyTable]] = {}
        for parts in self._of.values():
            for key, _, part in parts:
                told.setdefault(key, []).append(part)
        self._known = {key: _mean(some) for key, some in told.items()}
        self._rest = [table for table, parts in self._of.items() if not parts]
        self.tables = [*self._known.values(), *self._rest]

    def apart(self, potentials: Mapping[NoisyTable, Floats]) -> dict[NoisyTable, Floats]:
        """The potentials of the parts that add up to the same function, but for a constant."""
        found: dict[NoisyTable, Floats] = {}
        for table, theta in potentials.items():
            if not self._of[table]:
                found[table] = theta
            for key, kept, _ in self._of[table]:
                gone = tuple(axis for axis in range(theta.ndim) if axis not in kept)
                own, part = centred(theta.mean(axis=gone)), self._known[key]
                found[part] = found[part] + own if part in found else own
        return found

    def together(
        self, potentials: Mapping[NoisyTable, Floats], total: float, tau: float
    ) -> dict[NoisyTable, Floats]:
        """The potentials of the tables by those of their parts, of so many rows."""
        found = {}
        for table, parts in self._of.items():
            if not parts:
                found[table] = potentials[table]
                continue
            shape, pull = table.values.shape, tau * table.variance
            theta: Floats = np.zeros(())
            if not table.centred:
                constant = float(table.values.sum()) - total
                theta = theta + constant / (pull * table.values.size)
            for key, kept, own in parts:
                part = self._known[key]
                best = tau * part.variance * potentials[part] + own.values - part.values
                spread = [n if axis in kept else 1 for axis, n in enumerate(shape)]
                theta = theta + (best / (tau * own.variance)).reshape(spread)
            # laid out as what is read from a ledger: sums are the same to the last bit
            found[table] = np.ascontiguousarray(theta)
        return found


def _parts(table: NoisyTable) -> list[_Part]:
    """What a table tells of each set of its columns; nothing where it is not taken apart."""
    axes = tuple(range(len(table.names)))
    if table.seen is not None or len(axes) > MOST:
        return []
    if table.centred:
        return [(_key(table), axes, table)]
    found = []
    for size in range(1, len(axes) + 1):
        for kept in itertools.combinations(axes, size):
            gone = tuple(axis for axis in axes if axis not in kept)
            many = math.prod(table.values.shape[axis] for axis in gone)
            names = tuple(table.names[axis] for axis in kept)
            classes = tuple(table.classes[axis] for axis in kept)
            values = centred(table.values.sum(axis=gone))
            part = NoisyTable(names, classes, values, table.variance * many, centred=True)
            found.append((_key(part), kept, part))
    return found


def _key(part: NoisyTable) -> _Key:
    return part.names, tuple(classes.tobytes() for classes in part.classes)


def _mean(some: Sequence[NoisyTable]) -> NoisyTable:
    """What tables of the same cells tell of them together."""
    first = some[0]
    if len(some) == 1:
        return first
    variance = 1 / math.fsum(1 / own.variance for own in some)
    values = sum((own.values * (variance / own.variance) for own in some), np.zeros(()))
    return replace(first, values=values, variance=variance)
