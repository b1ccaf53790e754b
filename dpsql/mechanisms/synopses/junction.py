"""Junction trees: a product of small factors summed over its universe, clique by clique.

Columns are eliminated one by one, always the one whose clique is smallest; the cliques form a
forest with the running intersection property, and two passes of messages give the marginal of each
(Lauritzen and Spiegelhalter 1988; Koller and Friedman 2009, chapter 10). Messages are logarithms,
so that no product of factors underflows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Names: TypeAlias = tuple[str, ...]

_FAINT = 1e-250  # less than that, and parts of a sum may be lost
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


def summed(table: Floats, names: Sequence[str], onto: Sequence[str]) -> Floats:
    """The marginal of a table, as an array of its own axes."""
    kept = set(onto)
    gone = tuple(axis for axis, name in enumerate(names) if name not in kept)
    found: Floats = table.sum(axis=gone) if gone else table
    return found


def multiplied(found: Tree, factors: Iterable[tuple[Names, Floats]]) -> list[Floats]:
    """The sum of factors, which are logarithms, in each clique; those of no columns make no
    difference."""
    logs = [np.zeros(found.shape(names)) for names in found.cliques]
    for names, table in factors:
        at = found.home(names)
        if at is None:
            assert not names  # every other factor has a clique
            continue
        logs[at] += aligned(table, names, found.cliques[at])
    return logs


class Calibration:
    """The marginals of each clique of a product, which may change in one clique after another.

    `logs` has the logarithm of the product of the factors in each clique, of its shape. A change
    is told along the way to the root, and to the cliques of the same root: the others stay. What is
    calibrated `once` takes no changes, and less memory.
    """

    def __init__(self, found: Tree, logs: Sequence[Floats], *, once: bool = False) -> None:
        self.tree, self.logs, self._once = found, list(logs), once
        none = [np.zeros(())] * len(self.logs)
        self._sent = list(none)  # to the parent
        self._given = list(none)  # chances in a clique, given what it shares with the parent
        self._masses = [0.0] * len(self.logs)  # of what hangs on a root, as logarithms
        self._beliefs = list(none)
        self._changed = set(found.roots)
        for at in reversed(range(len(self.logs))):
            self._send(at)

    @property
    def mass(self) -> float:
        """The logarithm of the sum of the product."""
        return sum(self._masses)

    def multiply(self, names: Names, table: Floats) -> None:
        """Take a factor more, a logarithm; where no message from below tells of it."""
        at = self.tree.top(names)
        self.logs[at] = self.logs[at] + aligned(table, names, self.tree.cliques[at])
        self._changed.add(self.tree.roots[at])
        while at >= 0:
            self._send(at)
            at = self.tree.parents[at]

    @property
    def beliefs(self) -> list[Floats]:
        """The marginal probabilities of each clique."""
        self.renewed()
        return self._beliefs

    def renewed(self) -> dict[int, Floats]:
        """The beliefs that have changed since they were asked for last, by clique."""
        tree, found = self.tree, {}
        for at, root in enumerate(tree.roots):
            if root not in self._changed:
                continue
            table, parent = self._given[at], tree.parents[at]
            if parent >= 0:
                way = tree.ways[at]
                shared = self._beliefs[parent].sum(axis=way.above).reshape(way.here)
                table = np.multiply(table, shared, out=table if self._once else None)
            found[at] = self._beliefs[at] = table
        self._changed.clear()
        return found

    def _send(self, at: int) -> None:
        tree, table = self.tree, self.logs[at]
        for child in tree.children[at]:
            table = table + self._sent[child].reshape(tree.ways[child].there)
        if tree.parents[at] >= 0:
            self._sent[at], self._given[at] = _log_summed(table, tree.ways[at].own)
            return
        top = float(table.max(initial=-math.inf))
        if not math.isfinite(top):
            raise ValueError("a product of factors is more than 0 somewhere")
        chances = np.exp(table - top)
        mass = float(chances.sum())
        chances /= mass
        self._given[at], self._masses[at] = chances, top + math.log(mass)


def _log_summed(logs: Floats, gone: tuple[int, ...]) -> tuple[Floats, Floats]:
    """log of the sum of exp along axes, which stay; and what is summed as shares of the sum."""
    top: Any = logs.max(initial=-np.inf)  # of all: that of each sum takes as long as all the rest
    parts = np.exp(logs - top) if top > -np.inf else np.zeros_like(logs)
    mass = parts.sum(axis=gone, keepdims=True)
    if not mass.min(initial=1.0) > _FAINT:
        top = logs.max(axis=gone, keepdims=True)
        top[top == -np.inf] = 0.0
        parts = np.exp(logs - top)
        mass = parts.sum(axis=gone, keepdims=True)
    with np.errstate(divide="ignore"):
        found: Floats = np.log(mass) + top
    parts /= np.where(mass > 0.0, mass, 1.0)
    return found, parts
