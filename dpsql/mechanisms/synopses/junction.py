"""Junction trees: cliques of columns, in which a product of small factors is summed.

Columns are eliminated one by one, always the one whose clique is smallest; the cliques form a
forest with the running intersection property (Koller and Friedman 2009, chapter 10).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Names: TypeAlias = tuple[str, ...]

_SHORT, _LONG, _WIDE = 11, 4096, 64  # numbers that lie beside each other
_KEPT = 4096
CELLS = 1 << 22  # of all cliques together, or of one table: 32 MiB


class Entangled(OverflowError):
    """What is asked needs a table of more cells than may be held."""


class Way(NamedTuple):
    """A clique and its parent: the axes of each that the other has not, and what they share as a
    table that is spread along these."""

    own: tuple[int, ...]
    above: tuple[int, ...]
    here: tuple[int, ...]
    there: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Tree:
    """Cliques of columns, parents before children; a root's parent is -1.

    `sizes` has the number of atoms of each column, in the order of axes in every clique.
    """

    sizes: Mapping[str, int]
    cliques: tuple[Names, ...]
    parents: tuple[int, ...]

    def shape(self, names: Iterable[str]) -> tuple[int, ...]:
        return tuple(self.sizes[name] for name in names)

    @cached_property
    def separators(self) -> tuple[Names, ...]:
        """What each clique shares with its parent; nothing for a root."""
        found = []
        for names, parent in zip(self.cliques, self.parents, strict=True):
            above = set(self.cliques[parent]) if parent >= 0 else set()
            found.append(tuple(name for name in names if name in above))
        return tuple(found)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """The cliques below each, the last first."""
        found: list[list[int]] = [[] for _ in self.cliques]
        for at in reversed(range(len(self.cliques))):
            if self.parents[at] >= 0:
                found[self.parents[at]].append(at)
        return tuple(map(tuple, found))

    @cached_property
    def roots(self) -> tuple[int, ...]:
        """The root of each clique."""
        found: list[int] = []
        for at, parent in enumerate(self.parents):
            found.append(found[parent] if parent >= 0 else at)
        return tuple(found)

    @cached_property
    def ways(self) -> tuple[Way, ...]:
        """How each clique meets its parent."""
        return tuple(map(self._way, range(len(self.cliques))))

    def _way(self, at: int) -> Way:
        own, shared = self.cliques[at], self.separators[at]
        above = self.cliques[self.parents[at]] if self.parents[at] >= 0 else ()

        def gone(names: Names) -> tuple[int, ...]:
            return tuple(axis for axis, name in enumerate(names) if name not in shared)

        def shape(names: Names) -> tuple[int, ...]:
            return tuple(self.sizes[name] if name in shared else 1 for name in names)

        return Way(gone(own), gone(above), shape(own), shape(above))

    @cached_property
    def cells(self) -> tuple[int, ...]:
        """The number of cells of each clique."""
        return tuple(math.prod(self.shape(names)) for names in self.cliques)

    @cached_property
    def _homes(self) -> dict[Names, int | None]:
        return {}

    def home(self, names: Names) -> int | None:
        """The smallest clique that has all of some columns; None where there is none."""
        if names not in self._homes:
            wanted = set(names)
            inside = [at for at, clique in enumerate(self.cliques) if wanted.issubset(clique)]
            self._homes[names] = min(inside, key=self.cells.__getitem__, default=None)
        return self._homes[names]

    def top(self, names: Names) -> int:
        """The clique nearest to its root that has all of some columns, which one has."""
        at = self.home(names)
        assert at is not None
        while set(names).issubset(self.separators[at]):
            at = self.parents[at]
        return at

    def within(self, names: Iterable[str]) -> list[int]:
        """The cliques of the smallest subtrees that have these columns, ascending."""
        wanted = set(names)
        kept = set(range(len(self.cliques)))
        children = [0] * len(self.cliques)
        for parent in self.parents:
            if parent >= 0:
                children[parent] += 1
        for at in reversed(range(len(self.cliques))):  # leaves that tell nothing of their own go
            if not children[at] and not wanted.intersection(self._own(at)):
                kept.discard(at)
                if self.parents[at] >= 0:
                    children[self.parents[at]] -= 1
        for at in sorted(kept):  # roots above a single child that has all that is wanted of them
            below = [child for child in kept if self.parents[child] == at]
            shared = set(self.separators[below[0]]) if len(below) == 1 else set()
            top = self.parents[at] not in kept
            if top and len(below) == 1 and wanted.intersection(self.cliques[at]) <= shared:
                kept.discard(at)
        return sorted(kept)

    def _own(self, at: int) -> set[str]:
        """The columns of a clique that its parent has not."""
        return set(self.cliques[at]) - set(self.separators[at])


def tree(sizes: Mapping[str, int], scopes: Iterable[Iterable[str]], most: int = CELLS) -> Tree:
    """A tree in whose cliques each scope has a place. Raises Entangled beyond `most` cells."""
    near: dict[str, set[str]] = {name: set() for name in sizes}
    for scope in scopes:
        each = set(scope)
        for name in each:
            near[name] |= each - {name}
    found: list[set[str]] = []
    cost = {name: _cells(sizes, name, some) for name, some in near.items()}
    cells = 0
    while cost:
        name = min(cost, key=cost.__getitem__)
        beside = near.pop(name)
        clique = {name} | beside
        if not any(clique <= other for other in found):
            found.append(clique)
            cells += cost[name]
            if cells > most:
                raise Entangled(f"the cliques have more than {most:,} cells")
        del cost[name]
        for other in beside:
            near[other] |= beside
            near[other] -= {name, other}
            cost[other] = _cells(sizes, other, near[other])
    return _joined(sizes, found)


def _cells(sizes: Mapping[str, int], name: str, beside: Iterable[str]) -> int:
    return sizes[name] * math.prod(sizes[other] for other in beside)


def _joined(sizes: Mapping[str, int], found: Sequence[set[str]]) -> Tree:
    """The cliques as a forest: one of most shared columns in all has the running intersection
    property, as the cliques of an elimination are those of a chordal graph (Prim's algorithm)."""
    left = dict(enumerate(found))
    best = dict.fromkeys(left, (0, -1))  # of each: how much it shares, and with which of `order`
    order: list[set[str]] = []
    parents = []
    while left:
        at = max(left, key=lambda k: (best[k][0], -k))
        clique = left.pop(at)
        parents.append(best[at][1])
        for other, columns in left.items():
            shared = len(clique & columns)
            if shared > best[other][0]:
                best[other] = (shared, len(order))
        order.append(clique)
    ordered = tuple(tuple(name for name in sizes if name in clique) for clique in order)
    return Tree(sizes, ordered, tuple(parents))


def aligned(table: Floats, names: Sequence[str], onto: Sequence[str]) -> Floats:
    """A table over some of the columns of `onto`, all in the same order, with axes of length 1."""
    shape = iter(table.shape)
    kept = set(names)
    return table.reshape([next(shape) if name in kept else 1 for name in onto])


def summed(table: Floats, names: Sequence[str], onto: Iterable[str]) -> Floats:
    """The marginal of a table, as an array of its own axes."""
    kept = set(onto)
    return without(table, tuple([axis for axis, name in enumerate(names) if name not in kept]))


def without(table: Floats, gone: tuple[int, ...]) -> Floats:
    """The sums of a table along some axes, ascending, which go; the table itself for no axis."""
    runs, shape = _runs(table.shape, gone)
    for run in runs:
        table = _flat(table.reshape(run))
    return table.reshape(shape)


@lru_cache(_KEPT)
def _runs(
    shape: tuple[int, ...], gone: tuple[int, ...]
) -> tuple[tuple[tuple[int, int, int], ...], tuple[int, ...]]:
    """Axes that go and lie beside each other, as one of three, the last first; what stays."""
    found, at, left = [], len(gone), list(shape)
    while at:
        stop = gone[at - 1] + 1
        while at > 1 and gone[at - 2] == gone[at - 1] - 1:
            at -= 1
        at -= 1
        start = gone[at]
        before, many, after = left[:start], left[start:stop], left[stop:]
        found.append((math.prod(before), math.prod(many), math.prod(after)))
        left = before + after
    return tuple(found), tuple(left)


def _flat(table: Floats) -> Floats:
    """The sums along the second of three axes.

    NumPy's own sums go through the last axis one by one, and where that is short they take up to
    thirty times as long as a product of matrices.
    """
    _, many, after = table.shape
    if many == 1:
        return table[:, 0].copy()  # the table may be changed in place
    if after <= _SHORT and many * after <= _LONG:
        found: Floats = table.reshape(-1, many * after) @ _gathering(many, after)
        return found
    wide: Floats = np.einsum("ijk->ik", table) if after < _WIDE else table.sum(axis=1)
    return wide


@lru_cache(64)
def _gathering(many: int, after: int) -> Floats:
    """The matrix that sums `many` runs of `after` numbers."""
    return np.tile(np.eye(after), (many, 1))
