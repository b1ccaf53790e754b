"""Tops: how much anybody in each class of each column can have lost, from above.

A new factor of at most w in some box can only raise the maximum `high` of the sum if a cell of the
box has more than `high` - w, so it does not where some column's tops say less for the whole box.
Afterwards the cells of the box have at most some `most`, and the others what they had; hence a
class with top t has at most max(t, min(t + w, most)), and a class that is not in the box at most t.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

import numpy as np

from dpsql.accounting.footprints.runs import Ints


class Tops:
    """A bound for each class of each column, all in one array that is replaced, never changed."""

    def __init__(self, bounds: Ints, sizes: list[int]) -> None:
        self.bounds, self._sizes = bounds, sizes
        self._first = list(accumulate(sizes, initial=0))

    def refined(self, index: Mapping[int, Ints], sizes: list[int], most: int) -> Tops:
        """The tops of more classes: of each, `index` has the one it was. New columns get `most`."""
        parts = []
        for at, size in enumerate(sizes):
            if at >= len(self._sizes):
                parts.append(np.full(size, most, np.int64))
                continue
            part = self.bounds[self._first[at] : self._first[at + 1]]
            parts.append(part[index[at]] if at in index else part)
        return Tops(np.concatenate(parts), sizes)

    def most(self, at: int, classes: Ints) -> int:
        """A bound for some classes of a column."""
        if len(classes) == 1:
            return int(self.bounds[self._first[at] + int(classes[0])])
        return int(self.bounds[self._first[at] + classes].max())

    def least(self, box: Mapping[int, Ints]) -> int:
        """A bound for a box: some classes of some columns."""
        return min([self.most(at, classes) for at, classes in box.items()])

    def added(self, box: Mapping[int, Ints], largest: int, most: int) -> Tops:
        """The tops after a factor of at most `largest` in a box, which then has at most `most`."""
        inside = np.minimum(self.bounds, most - largest) + largest  # no sum leaves 64 bits
        raised = np.maximum(self.bounds, inside)
        for at, classes in box.items():
            first, after = self._first[at], self._first[at + 1]
            kept = raised[first + classes]
            raised[first:after] = self.bounds[first:after]
            raised[first + classes] = kept
        return self._with(raised)

    def lowered(self, at: int, classes: Ints, most: int) -> Tops:
        """The tops if some classes of a column are known not to exceed `most`."""
        bounds = self.bounds.copy()
        inside = self._first[at] + classes
        bounds[inside] = np.minimum(bounds[inside], most)
        return self._with(bounds)

    def _with(self, bounds: Ints) -> Tops:
        found = Tops.__new__(Tops)
        found.bounds, found._sizes, found._first = bounds, self._sizes, self._first
        return found
