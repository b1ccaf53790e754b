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
        starts, classes, pairs = self._pairs(axis)
        if len(pairs) == self.size:
            pairs.sort()
        here = np.array([own for own, _ in pairs], np.int64)
        there = np.array([other for _, other in pairs], np.int64)
        if len(pairs) == self.size:
            if len(self.known) < _REMEMBERED:
                self.known[axis] = here, there
            return self, here, there
        return Runs(np.array(starts), np.array(classes), len(pairs)), here, there

    def _pairs(self, axis: Axis) -> tuple[list[int], list[int], list[tuple[int, int]]]:
        """The runs of both: where each begins, its class, and the classes here and there of each.

        Classes are numbered by their least code, so that a range is a slice of classes. Lists, for
        there are few runs, and numpy takes longer to begin than they take to be walked through.
        """
        own, others = self.starts.tolist(), axis.starts
        here, there = self.classes.tolist(), axis.classes
        starts = sorted({*own, *others})
        rank: dict[tuple[int, int], int] = {}
        classes = []
        i = j = 0
        for start in starts:
            while i + 1 < len(own) and own[i + 1] <= start:
                i += 1
            while j + 1 < len(others) and others[j + 1] <= start:
                j += 1
            classes.append(rank.setdefault((here[i], there[j]), len(rank)))
        return starts, classes, list(rank)

    def inside(self, axis: Axis) -> Ints:
        """The class of an axis that each class here is in, where all of its are told apart."""
        if axis not in self.known:
            first = self.starts[np.unique(self.classes, return_index=True)[1]]
            there = Runs.of(axis).at(first)
            if len(self.known) >= _REMEMBERED:
                return there
            self.known[axis] = np.arange(self.size), there
        return self.known[axis][1]
