"""Runs: the codes of a column in classes, and their common refinement; numpy's side of an Axis."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.footprints.footprint import Axis

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
        known = {axis: (np.arange(len(pairs)), there)}
        return Runs(np.array(starts), np.array(classes), len(pairs), known), here, there

    def _pairs(self, axis: Axis) -> tuple[list[int], list[int], list[tuple[int, int]]]:
        """The runs of both: where each begins, its class, and the classes here and there of each.

        Classes are numbered by their least code, so that a range is a slice of classes. Lists, for
        there are few runs, and numpy takes longer to begin than they take to be walked through.
        """
        own = dict(zip(self.starts.tolist(), self.classes.tolist(), strict=True))
        others = dict(zip(axis.starts, axis.classes, strict=True))
        starts = sorted(own.keys() | others.keys())
        here = there = 0
        pairs = []
        for start in starts:  # where a run does not begin the one before goes on
            if start in own:
                here = own[start]
            if start in others:
                there = others[start]
            pairs.append((here, there))
        rank = {pair: number for number, pair in enumerate(dict.fromkeys(pairs))}
        return starts, [rank[pair] for pair in pairs], list(rank)

    def inside(self, axis: Axis) -> Ints:
        """The class of an axis that each class here is in, where all of its are told apart."""
        if axis not in self.known:
            runs = zip(self.classes.tolist()[::-1], self.starts.tolist()[::-1], strict=True)
            least = dict(runs)  # the least code of each class, as it comes last
            first = np.array([least[one] for one in range(self.size)], np.int64)
            there = Runs.of(axis).at(first)
            if len(self.known) >= _REMEMBERED:
                return there
            self.known[axis] = np.arange(self.size), there
        return self.known[axis][1]
