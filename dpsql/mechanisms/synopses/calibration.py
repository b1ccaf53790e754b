"""The marginals of the cliques of a junction tree: messages up to the roots, and down again.

Messages that are summed from factors are logarithms, so that no product of factors underflows
(Lauritzen and Spiegelhalter 1988; Koller and Friedman 2009, chapter 10). A factor more multiplies
the marginals themselves: what two cliques share tells one how the other has changed (Jensen,
Lauritzen and Olesen 1990).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dpsql.mechanisms.synopses.junction import Floats, Names, Tree, aligned, summed, without
from dpsql.mechanisms.synopses.lattice import lattice

_FAINT = 1e-250  # less than that, and parts of a sum may be lost
_FAR = 200.0  # how far chances may be turned, as logarithms, until they are summed anew


def multiplied(found: Tree, factors: Iterable[tuple[Names, Floats]]) -> list[Floats]:
    """The sum of factors, which are logarithms, in each clique; those of no columns make no
    difference."""
    onto: list[dict[Names, Floats]] = [{} for _ in found.cliques]
    for names, table in factors:
        at = found.home(names)
        if at is None:
            assert not names  # every other factor has a clique
            continue
        onto[at][names] = onto[at][names] + table if names in onto[at] else table
    logs = []
    for clique, functions in zip(found.cliques, onto, strict=True):
        whole = np.zeros(found.shape(clique))
        lattice(clique, whole.shape, tuple(functions)).up(functions, whole)
        logs.append(whole)
    return logs


class Calibration:
    """The marginals of each clique of a product, which may be multiplied by one factor after
    another.

    `logs` has the logarithm of the product of the factors in each clique, of its shape. A factor
    more changes the cliques of the same root: the others stay.
    """

    def __init__(self, found: Tree, logs: Sequence[Floats]) -> None:
        none = [np.zeros(())] * len(logs)
        self.tree, self._logs = found, list(logs)
        self._later: list[list[tuple[Names, Floats]]] = [[] for _ in logs]  # not in `_logs` yet
        self._sent, self._shared, self._beliefs = list(none), list(none), list(none)
        self._masses = [0.0] * len(logs)  # of what hangs on a root, as logarithms
        self._turned = [0.0] * len(logs)  # how far what hangs on a root was, since it was summed
        self._changed = set(found.roots)
        self._sum(self._changed)

    @property
    def mass(self) -> float:
        """The logarithm of the sum of the product."""
        return sum(self._masses)

    @property
    def beliefs(self) -> list[Floats]:
        """The marginal probabilities of each clique, which change with the next factor."""
        return self._beliefs

    @property
    def logs(self) -> list[Floats]:
        """The logarithm of the product of the factors in each clique."""
        for at, later in enumerate(self._later):
            names = self.tree.cliques[at]
            for some, table in later:
                self._logs[at] = self._logs[at] + aligned(table, some, names)
            later.clear()
        return self._logs

    def renewed(self) -> dict[int, Floats]:
        """The beliefs that have changed since they were asked for last, by clique."""
        changed = [at for at, root in enumerate(self.tree.roots) if root in self._changed]
        self._changed.clear()
        return {at: self._beliefs[at] for at in changed}

    def multiply(self, names: Names, table: Floats) -> None:
        """Take a factor more, a logarithm, whose columns a clique has."""
        at = self.tree.home(names)
        assert at is not None
        self._later[at].append((names, table))
        root, most = self.tree.roots[at], float(table.max())
        self._changed.add(root)
        self._turned[root] += most - float(table.min())
        by = np.exp(table - most)
        mass = float(np.vdot(by, summed(self._beliefs[at], self.tree.cliques[at], names)))
        if self._turned[root] > _FAR or not mass > _FAINT:  # cells had no chance that could be told
            self._sum({root})
            return
        self._masses[root] += most + math.log(mass)
        self._beliefs[at] *= aligned(by / mass, names, self.tree.cliques[at])
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
                before, shared = self._shared[low], without(self._beliefs[at], gone)
                by = shared / np.maximum(before, _FAINT)
                way = tree.ways[low]
                self._shared[low] = shared
                self._beliefs[other] *= by.reshape(way.here if other == low else way.there)
                told.append((other, at))

    def _sum(self, roots: set[int]) -> None:
        """The beliefs of what hangs on some roots, from the product."""
        tree, logs = self.tree, self.logs
        some = [at for at, root in enumerate(tree.roots) if root in roots]
        for at in reversed(some):
            self._send(at, logs[at])
        for at in some:
            if tree.parents[at] < 0:
                self._turned[at] = 0.0
                continue
            way = tree.ways[at]
            self._shared[at] = without(self._beliefs[tree.parents[at]], way.above)
            self._beliefs[at] *= self._shared[at].reshape(way.here)

    def _send(self, at: int, table: Floats) -> None:
        """Sum a clique with what those below it sent. Its belief is given its parent's, till that
        is known."""
        tree = self.tree
        for child in tree.children[at]:
            table = table + self._sent[child].reshape(tree.ways[child].there)
        if tree.parents[at] >= 0:
            self._sent[at], self._beliefs[at] = _log_summed(table, tree.ways[at].own)
            return
        top = float(table.max(initial=-math.inf))
        if not math.isfinite(top):
            raise ValueError("a product of factors is more than 0 somewhere")
        chances = np.subtract(table, top)
        np.exp(chances, out=chances)
        mass = float(chances.sum())
        chances /= mass
        self._beliefs[at], self._masses[at] = chances, top + math.log(mass)


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
