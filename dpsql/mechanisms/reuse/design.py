"""What was measured, on common atoms: classes of cells that no measured query tells apart.

The columns' classes of all families are met, their combinations visited, and those that stand in
the same groups with the same weights are one atom. A measured query is then a row over the atoms;
each atom is in at most one row of a family. Cells in no row are in no atom: nothing is known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.query.canon import Family

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

CELLS = 1 << 14  # combinations of classes where several families are met
ALONE = 1 << 20  # and of a single one, however often it was measured
_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """Families met on `atoms` atoms.

    `classes` are those of each column's codes, `shape` how many there are of each; `label` is the
    atom of each combination (-1 for none), `first` a combination of each atom. Of each family
    `groups` has the row of each atom (-1 for none) and `weights` its weight there.
    """

    classes: Mapping[str, Ints]
    shape: tuple[int, ...]
    label: Ints
    first: Ints
    families: tuple[Family, ...]
    groups: tuple[Ints, ...]
    weights: tuple[Ints, ...]

    @property
    def atoms(self) -> int:
        return len(self.first)

    @property
    def rows(self) -> int:
        """The number of measured queries."""
        return sum(family.met for family in self.families)

    @classmethod
    def of(cls, families: Sequence[Family]) -> Design | None:
        """The design of some measured families; None for too many combinations."""
        most = ALONE if len({family.key for family in families}) == 1 else CELLS
        classes = meet(families, most)
        if classes is None:
            return None
        shape = sizes(classes)
        cells = firsts(classes)
        placed = [place(f.classes, f.shape, cells, shape) for f in families]
        found = [(f.groups[at], f.weights[at]) for f, at in zip(families, placed, strict=True)]
        label, first = _atoms(found, math.prod(shape))
        return cls(
            classes,
            shape,
            label,
            first,
            tuple(families),
            tuple(groups[first] for groups, _ in found),
            tuple(weights[first] for _, weights in found),
        )

    def on_atoms(self, family: Family) -> tuple[Ints, Ints, NDArray[np.bool_]] | None:
        """The group (-1 for none) and weight that a family gives each atom, and which groups fail.

        A group fails when it tells cells of an atom apart, or counts cells of which nothing is
        known: it is no combination of the rows. None for a family of too many cells.
        """
        finer = self._finer(family)
        if finer is None:
            return None
        label, first, at = finer
        groups, weights = family.groups[at], family.weights[at]
        failed = np.zeros(len(family.origin) + 1, bool)  # the last one stands for no group
        failed[groups[label < 0]] = True
        known = label >= 0
        mine, values = groups[first], weights[first]
        apart = known & ((mine[label] != groups) | (values[label] != weights))
        failed[groups[apart]] = failed[mine[label[apart]]] = True
        return mine, values, failed[:-1]

    def _finer(self, family: Family) -> tuple[Ints, Ints, Ints] | None:
        """Cells that this design and a family tell apart: atoms, a cell of each, entries there."""
        merged = self.classes
        if any(not _coarser(family.classes[n], merged.get(n)) for n in family.classes):
            met = meet([family], ALONE, merged)
            if met is None:
                return None
            merged = met
        shape = tuple(int(of.max()) + 1 for of in merged.values())
        cells = firsts(merged)
        at = place(family.classes, family.shape, cells, shape)
        if merged is self.classes:
            return self.label, self.first, at
        label = self.label[place(self.classes, self.shape, cells, shape)]
        first = np.zeros(self.atoms, np.int64)
        inside = np.flatnonzero(label >= 0)
        first[label[inside]] = inside
        return label, first, at


def _coarser(merged: Ints, finer: Ints | None) -> bool:
    """Whether classes of a column are unions of finer ones."""
    if finer is None:
        return False
    return bool((merged[_first(finer)][finer] == merged).all())


def _first(merged: Ints) -> Ints:
    """A code of each class, which are numbered from 0 on."""
    found = np.empty(int(merged.max()) + 1, np.int64)
    found[merged[::-1]] = np.arange(len(merged))[::-1]
    return found


def meet(
    families: Sequence[Family], most: int, given: Mapping[str, Ints] = MappingProxyType({})
) -> dict[str, Ints] | None:
    """The classes of each column that the families tell apart together; None above `most`."""
    found: dict[str, Ints] = dict(given)
    numbers = dict(zip(found, sizes(found), strict=True))
    for family in families:
        for (name, merged), number in zip(family.classes.items(), family.shape, strict=True):
            if name not in found:
                found[name], numbers[name] = merged, number
            elif numbers[name] < len(merged):  # else all codes are told apart already
                found[name] = _ranks(found[name] * number + merged)
                numbers[name] = int(found[name].max()) + 1
        if math.prod(numbers.values()) > most:
            return None
    return {name: found[name] for name in sorted(found)}


def _ranks(values: Ints) -> Ints:
    """Whole numbers from 0 on, numbered in their order without gaps."""
    span = int(values.max()) + 1
    if span > 4 * len(values) + 1024:  # a table of them would be mostly empty
        return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)
    occurs = np.zeros(span, np.int64)
    occurs[values] = 1
    found: Ints = (occurs.cumsum() - 1)[values]
    return found


def sizes(classes: Mapping[str, Ints]) -> tuple[int, ...]:
    """The number of classes of each column."""
    return tuple(int(merged.max()) + 1 for merged in classes.values())


def size(classes: Mapping[str, Ints]) -> int:
    """The number of combinations of classes."""
    return math.prod(sizes(classes))


def firsts(classes: Mapping[str, Ints]) -> dict[str, Ints]:
    """A code of each class of each column."""
    return {name: _first(merged) for name, merged in classes.items()}


def place(
    coarse: Mapping[str, Ints],
    sizes: tuple[int, ...],
    cells: Mapping[str, Ints],
    shape: tuple[int, ...],
) -> Ints:
    """Which combination of coarse classes each combination of finer ones is in, of which a code
    each is given."""
    found: Ints = np.zeros((1,) * len(shape), np.int64)
    of = dict(zip(coarse, sizes, strict=True))
    for axis, (name, codes) in enumerate(cells.items()):
        if name not in coarse:
            continue
        along = [1] * len(shape)
        along[axis] = shape[axis]
        found = found * of[name] + coarse[name][codes].reshape(along)
    return np.ascontiguousarray(np.broadcast_to(found, shape)).reshape(-1)


def _atoms(found: Sequence[tuple[Ints, Ints]], cells: int) -> tuple[Ints, Ints]:
    """The atom of each combination, and the first combination of each atom.

    Combinations are told apart by a hash of 64 bits, and then compared.
    """
    mixed = np.zeros(cells, np.uint64)
    known = np.zeros(cells, bool)
    with np.errstate(over="ignore"):
        for groups, weights in found:
            for part in (groups, weights):
                mixed = (mixed ^ part.astype(np.uint64)) * _MIX
                mixed ^= mixed >> np.uint64(29)
            known |= groups >= 0
    _, first, label = np.unique(mixed, return_index=True, return_inverse=True)
    label = label.reshape(-1)
    for groups, weights in found:
        same = (groups[first][label] == groups) & (weights[first][label] == weights)
        if not same.all():  # once in 2^30 designs or so: every combination is an atom
            first = label = np.arange(cells)
            break
    kept = known[first]
    number = np.where(kept, np.cumsum(kept) - 1, -1)
    return number[label].astype(np.int64), first[kept].astype(np.int64)
