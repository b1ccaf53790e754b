"""Runs: the codes of a column in classes, and their common refinement; numpy's side of an Axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.footprint import Axis

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Run i begins at code `starts[i]` and is in class `classes[i]`, one of `size`."""

    starts: Ints
    classes: Ints
    size: int

    @classmethod
    def of(cls, axis: Axis) -> Runs:
        return cls(np.array(axis.starts, np.int64), np.array(axis.classes, np.int64), axis.size)

    def at(self, codes: Ints) -> Ints:
        """The class of each code."""
        found: Ints = self.classes[np.searchsorted(self.starts, codes, "right") - 1]
        return found

    def meet(self, other: Runs) -> tuple[Runs, Ints, Ints]:
        """The classes that both tell apart: of each, the class here and the class there.

        Where `other` tells nothing new apart, these runs come back as they are.
        """
        starts = np.union1d(self.starts, other.starts)
        here, there = self.at(starts), other.at(starts)
        pairs, classes = np.unique(here * other.size + there, return_inverse=True)
        if len(pairs) == self.size:
            return self, pairs // other.size, pairs % other.size
        return Runs(starts, classes, len(pairs)), pairs // other.size, pairs % other.size
