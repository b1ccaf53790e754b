"""The marginals of the cliques of a junction tree: messages up to the roots, and down again.

Messages that are summed from factors are logarithms, so that no product of factors underflows
(Lauritzen and Spiegelhalter 1988; Koller and Friedman 2009, chapter 10). A factor more multiplies
the marginals themselves: what two cliques share tells one how the other has changed (Jensen,
Lauritzen and Olesen 1990).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpsql.mechanisms.synopses.junction import Floats, Names, Tree, aligned, summed, without
from dpsql.mechanisms.synopses.lattice import lattice

_FAINT = 1e-250  # less than that, and parts of a sum may be lost
_FAR = 200.0  # logarithm of how much more chance a cell may get until all are summed anew


class Calibration:
    """The marginals of each clique of a product, which may be multiplied by one factor after
    another.

    `factors` are logarithms over columns that a clique has. A factor more changes the cliques of
    the same root: the others stay.
    """

    def __init__(self, found: Tree, factors: Mapping[Names, Floats]) -> None:
        none = [np.zeros(())] * len(found.cliques)
        self.tree, self.factors = found, dict(factors)
        self.beliefs = list(none)  # the marginal probabilities of each clique
        self.shared = list(none)  # those of what it shares with its parent
        self._more = [0.0] * len(none)  # chance that a cell of it may have got since it was summed
        self._own: set[int] = set()  # beliefs that nothing else has
        self._changed = set(found.roots)
        self._sum(self._changed)

    def copied(self) -> Calibration:
        """The same, which may be multiplied while this one stays."""
        found = copy.copy(self)
        found.factors = dict(self.factors)
        found.beliefs, found.shared = list(self.beliefs), list(self.shared)
        found._more, found._own = list(self._more), set()
        found._changed = set(self.tree.roots)
        return found

    def renewed(self) -> list[int]:
        """The cliques that have changed since this was asked last."""
        changed = [at for at, root in enumerate(self.tree.roots) if root in self._changed]
        self._changed.clear()
        return changed

    def multiply(self, names: Names, table: Floats) -> None:
        """Take a factor more."""
        at = self.tree.home(names)
        assert at is not None
        before = self.factors.get(names)
        self.factors[names] = table if before is None else before + table
        root, by = self.tree.roots[at], np.exp(table - table.max())
        self._changed.add(root)
        mass = float(np.vdot(by, summed(self.beliefs[at], self.tree.cliques[at], names)))
        if mass > _FAINT:
            self._more[root] -= math.log(mass)
        if not mass > _FAINT or self._more[root] > _FAR:  # cells had no chance that could be told
            self._sum({root})
            return
        self._turn(at, aligned(by / mass, names, self.tree.cliques[at]))
        self._tell(at, -1)

    def _tell(self, at: int, but: int) -> None:
        """Tell all neighbours of a clique but one how it has changed, and these tell theirs."""
        tree, told = self.tree, [(at, but)]
        while told:
            at, but = told.pop()
            near = [(child, child, tree.ways[child].above) for child in tree.children[at]]
            if tree.parents[at] >= 0:
                near.append((tree.parents[at], at, tree.ways[at].own))
            for other, low, gone in near:
                if other == but:
                    continue
                shared, way = without(self.beliefs[at], gone), tree.ways[low]
                by = shared / np.maximum(self.shared[low], _FAINT)
                self.shared[low] = shared
                self._turn(other, by.reshape(way.here if other == low else way.there))
                told.append((other, at))

    def _turn(self, at: int, by: Floats) -> None:
        if at in self._own:
            self.beliefs[at] *= by
        else:
            self.beliefs[at] = self.beliefs[at] * by
            self._own.add(at)

    def _sum(self, roots: Collection[int]) -> None:
        """The beliefs of what hangs on some roots, from the product."""
        some = [at for at, root in enumerate(self.tree.roots) if root in roots]
        found = _swept(self.tree, multiplied(self.tree, self.factors, some))
        for at in some:
            self.beliefs[at], self.shared[at] = found.beliefs[at], found.shared[at]
            self._more[at] = 0.0
        self._own.update(some)


class _Swept(NamedTuple):
    """Of cliques their beliefs, what they share with their parents, and of roots the masses."""

    beliefs: dict[int, Floats]
    shared: dict[int, Floats]
    masses: dict[int, float]


def swept(found: Tree, logs: Sequence[Floats]) -> tuple[list[Floats], float]:
    """The marginals of all cliques, of which these are the logarithms of the product, and the
    logarithm of its sum."""
    told = _swept(found, dict(enumerate(logs)))
    return [told.beliefs[at] for at in range(len(logs))], sum(told.masses.values())


def _swept(tree: Tree, logs: Mapping[int, Floats]) -> _Swept:
    """Up to the roots, and down again."""
    found, sent = _Swept({}, {}, {}), dict[int, Floats]()
    for at in sorted(logs, reverse=True):
        table = logs[at]
        for child in tree.children[at]:
            table = table + sent[child].reshape(tree.ways[child].there)
        if tree.parents[at] >= 0:
            sent[at], found.beliefs[at] = _log_summed(table, tree.ways[at].own)
        else:
            found.beliefs[at], found.masses[at] = _normalised(table)
    for at in sorted(logs):
        parent, way = tree.parents[at], tree.ways[at]
        shared = np.ones(()) if parent < 0 else without(found.beliefs[parent], way.above)
        found.shared[at] = shared
        if parent >= 0:
            found.beliefs[at] *= shared.reshape(way.here)
    return found


def multiplied(
    found: Tree, factors: Mapping[Names, Floats], some: Collection[int]
) -> dict[int, Floats]:
    """The sum of factors in some cliques; those of no columns make no difference."""
    onto: dict[int, dict[Names, Floats]] = {at: {} for at in some}
    for names, table in factors.items():
        home = found.home(names)
        if home in onto:
            onto[home][names] = table
    logs = {}
    for at, functions in onto.items():
        clique = found.cliques[at]
        if functions.keys() == {clique}:
            logs[at] = functions[clique]
            continue
        logs[at] = np.zeros(found.shape(clique))
        lattice(clique, logs[at].shape, tuple(functions)).up(functions, logs[at])
    return logs


def _normalised(logs: Floats) -> tuple[Floats, float]:
    """exp, as shares of the sum; and the logarithm of that."""
    top = float(logs.max(initial=-math.inf))
    if not math.isfinite(top):
        raise ValueError("a product of factors is more than 0 somewhere")
    chances = np.subtract(logs, top)
    np.exp(chances, out=chances)
    mass = float(chances.sum())
    chances /= mass
    return chances, top + math.log(mass)


def _log_summed(logs: Floats, gone: tuple[int, ...]) -> tuple[Floats, Floats]:
    """log of the sum of exp along axes, which go; and what is summed as shares of the sum."""
    top: Any = logs.max(initial=-np.inf)  # of all: that of each sum takes as long as all the rest
    kept = [1 if axis in gone else n for axis, n in enumerate(logs.shape)]
    parts = np.subtract(logs, top) if top > -np.inf else np.full(logs.shape, -np.inf)
    np.exp(parts, out=parts)
    mass = without(parts, gone)
    if not mass.min(initial=1.0) > _FAINT:
        top = logs.max(axis=gone, keepdims=True)
        top[top == -np.inf] = 0.0
        parts = np.exp(logs - top)
        mass = without(parts, gone)
        top = top.reshape(mass.shape)
    with np.errstate(divide="ignore"):
        found: Floats = np.log(mass) + top
    parts /= np.where(mass > 0.0, mass, 1.0).reshape(kept)
    return found, parts
