"""A lattice of marginals: many marginals of one table, each summed from the cheapest above it.

A set of columns takes its marginal from the smallest set with one column more, so that sums over
the whole table are few; read upwards, the same steps spread functions of marginals over the table
(the adjoint).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from dpsql.mechanisms.synopses.junction import Floats, Names, without

_KEPT = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """Steps from `top` down: (set, what it is summed from, the axis that goes), largest first."""

    top: Names
    steps: tuple[tuple[Names, Names, int], ...]

    def down(self, table: Floats) -> dict[Names, Floats]:
        """The marginals of a table over `top`, also those on the way."""
        found = {self.top: table}
        for names, above, axis in self.steps:
            found[names] = without(found[above], (axis,))
        return found

    def up(self, functions: Mapping[Names, Floats], onto: Floats) -> None:
        """Add their sum to a function of `top`."""
        found: dict[Names, Floats] = dict(functions)
        if self.top in found:
            onto += found[self.top]
        for names, above, axis in reversed(self.steps):
            if names in found:
                part = found.pop(names)
                part = part.reshape((*part.shape[:axis], 1, *part.shape[axis:]))
                if above == self.top:
                    onto += part
                else:
                    found[above] = found[above] + part if above in found else part


@lru_cache(_KEPT)
def lattice(top: Names, shape: tuple[int, ...], sets: tuple[Names, ...]) -> Lattice:
    """The lattice over some subsets of the columns of a table, in their order."""
    sizes = dict(zip(top, shape, strict=True))

    above: dict[Names, tuple[Names, int]] = {}
    left = list(sets)
    while left:
        names = left.pop()
        if names == top or names in above:
            continue
        missing = [name for name in top if name not in names]
        least = min(sizes[name] for name in missing)
        wider = [
            tuple([n for n in top if n in names or n == more])
            for more in missing
            if sizes[more] == least
        ]
        chosen = min(wider, key=lambda some: (some not in above, some))
        (axis,) = (at for at, name in enumerate(chosen) if name not in names)
        above[names] = (chosen, axis)
        left.append(chosen)
    order = sorted(above, key=lambda names: -len(names))
    return Lattice(top, tuple((names, *above[names]) for names in order))
