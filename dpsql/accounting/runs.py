"""Runs: the codes of a column in classes, and their common refinement; numpy's side of an Axis."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.footprint import Axis

Ints = NDArray[np.int64]
_REMEMBERED = 64  # axes of a column


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Run i begins at code `starts[i]` and is in class `classes[i]`, one of `size`."""

    starts: Ints
    classes: Ints
    size: int
    known: dict[Axis, tuple[Ints, Ints]] = field(default_factory=dict)  # told apart here already

    @classmethod
    def of(cls, axis: Axis) -> Runs:
        return cls(np.array(axis.starts, np.int64), np.array(axis.classes, np.int64), axis.size)

    def code(self, wanted: int) -> int:
        """A code of a class."""
        return int(self.starts[int(np.argmax(self.classes == wanted))])

    def at(self, codes: Ints) -> Ints:
        """The class of each code."""
        found: Ints = self.classes[np.searchsorted(self.starts, codes, "right") - 1]
        return found

    def meet(self, axis: Axis) -> tuple[Runs, Ints, Ints]:
        """The classes that both tell apart: of each, the class here and the class there.

        Where the axis tells nothing new apart, these runs come back as they are.
        """
        if found := self.known.get(axis):
            return self, *found
        other = Runs.of(axis)
        starts = np.union1d(self.starts, other.starts)
        here, there = self.at(starts), other.at(starts)
        pairs, first, classes = np.unique(
            here * other.size + there, return_index=True, return_inverse=True
        )
        if len(pairs) == self.size:
            found = pairs // other.size, pairs % other.size
            if len(self.known) < _REMEMBERED:
                self.known[axis] = found
            return self, *found
        order = np.argsort(first)  # of the least code, so that a range is a slice of classes
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        pairs = pairs[order]
        return Runs(starts, rank[classes], len(pairs)), pairs // other.size, pairs % other.size

    def inside(self, axis: Axis) -> Ints:
        """The class of an axis that each class here is in, where all of its are told apart."""
        if axis not in self.known:
            first = self.starts[np.unique(self.classes, return_index=True)[1]]
            there = Runs.of(axis).at(first)
            if len(self.known) >= _REMEMBERED:
                return there
            self.known[axis] = np.arange(self.size), there
        return self.known[axis][1]
