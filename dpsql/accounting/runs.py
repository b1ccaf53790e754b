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
        pairs, classes = np.unique(here * other.size + there, return_inverse=True)
        if len(pairs) == self.size:
            found = pairs // other.size, pairs % other.size
            if len(self.known) < _REMEMBERED:
                self.known[axis] = found
            return self, *found
        return Runs(starts, classes, len(pairs)), pairs // other.size, pairs % other.size
