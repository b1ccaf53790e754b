"""Generalised least squares where every two measured rows are nested or disjoint: on a tree.

ROLLUP over a calendar, whole tables and coarser ones, running counts, the levels of a hierarchy.
The rows are the nodes of a forest whose leaves are the atoms; x minimises 1/2 x'N x - b'x. Given
the sum s of the atoms below a node the least of its part is 1/2 alpha s^2 - beta s - kappa, with

    alpha = u + A, beta = A sum_c beta_c / alpha_c, 1 / A = sum_c 1 / alpha_c over the children c

for the node's own information u (at a leaf alpha = u, beta = b). The way up gives these, the way
down the sums: s_c = (beta_c + lambda) / alpha_c with lambda = A (s - sum beta_c / alpha_c) (Hay,
Rastogi, Miklau, Suciu 2010, for regular trees). With b = q the least is -q'N^-1 q / 2, so that all
covariances come from the way up,

    q'N^-1 q = sum over roots beta^2 / alpha
             + sum over inner nodes [sum_c beta_c^2 / alpha_c - A (sum_c beta_c / alpha_c)^2].

An atom without a row of its own is the rest of its parent, which has one such child at most: then
A = 0, beta is that child's, and the inner sum is sum_c (beta_c - beta)^2 / alpha_c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.reuse.design import Design
from dpsql.query.canon import Family

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

VISITED = 1 << 22  # atoms in nodes, all together


@dataclass(frozen=True, slots=True, eq=False)
class Nested:
    """A forest. Nodes are numbered from the leaves on, which are the atoms.

    `parent` is -1 for roots. `levels` has the nodes by their depth, the deepest first. `alpha`,
    and of the children of each node the sum of 1 / alpha, `known`; `rest` is the child without a
    row, -1 for none.
    """

    atoms: int
    parent: Ints
    levels: tuple[Ints, ...]
    alpha: Floats
    known: Floats
    rest: Ints

    @classmethod
    def of(cls, design: Design, precisions: Sequence[float]) -> Nested | None:
        """The forest of a design's rows; None where two of them cross, or are too many."""
        found = _sets(design, precisions)
        if found is None:
            return None
        parent, own = _forest(*found, design.atoms)
        if parent is None:
            return None
        levels = _levels(parent)
        alpha, known = own.copy(), np.zeros(len(own))
        rest = np.full(len(own), -1, np.int64)
        for level in levels[:-1]:  # all but roots have parents
            told = level[alpha[level] > 0]
            np.add.at(known, parent[told], 1.0 / alpha[told])
            left = level[alpha[level] == 0]
            rest[parent[left]] = left
            above = np.unique(parent[level])
            sure = above[rest[above] < 0]
            alpha[sure] += 1.0 / known[sure]
        return cls(design.atoms, parent, levels, alpha, known, rest)

    @property
    def rank(self) -> int:
        return self.atoms

    def even(self, at: Ints) -> bool:
        return False

    def solve(self, seen: Floats) -> Floats:
        shape = (*seen.shape[:-1], len(self.parent))
        beta, summed, sums = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        beta[..., : self.atoms] = seen
        for level in self.levels[:-1]:
            told = level[self.alpha[level] > 0]
            for row in np.ndindex(shape[:-1]):
                np.add.at(summed[row], self.parent[told], beta[row][told] / self.alpha[told])
            above = np.unique(self.parent[level])
            beta[..., above] = self._up(above, beta, summed)
        roots = self.levels[-1]
        sums[..., roots] = beta[..., roots] / self.alpha[roots]
        for level in reversed(self.levels[:-1]):
            over = self.parent[level]
            free = self.rest[over]
            scale = np.where(free < 0, self.known[over], 1.0)
            share = (sums[..., over] - summed[..., over]) / scale
            push = np.where(free < 0, share, -beta[..., free])
            sure = self.alpha[level] > 0
            own, left = level[sure], level[~sure]
            sums[..., own] = (beta[..., own] + push[..., sure]) / self.alpha[own]
            if len(left):
                node = self.parent[left]
                others = summed[..., node] - beta[..., left] * self.known[node]
                sums[..., left] = sums[..., node] - others
        found: Floats = sums[..., : self.atoms]
        return found

    def _up(self, above: Ints, beta: Floats, summed: Floats) -> Floats:
        free = self.rest[above]
        scale = np.divide(1.0, self.known[above], out=np.ones(len(above)), where=free < 0)
        return np.where(free < 0, summed[..., above] * scale, beta[..., free])

    def said(self, at: Ints, weights: Floats, groups: int) -> tuple[Floats, Bools]:
        found = np.zeros((groups, len(weights), len(weights)))
        nodes, of, beta = np.zeros(0, np.int64), np.zeros(0, np.int64), weights[:, :0]
        for level in self.levels:
            leaves = level[level < self.atoms]
            leaves = leaves[at[leaves] >= 0]
            nodes, of = np.concatenate([nodes, leaves]), np.concatenate([of, at[leaves]])
            beta = np.concatenate([beta, weights[:, leaves]], axis=1)
            if level is not self.levels[-1]:
                nodes, of, beta = self._said(found, nodes, of, beta)
        _add(found, of, beta, beta / self.alpha[nodes])
        return found, np.ones(found.shape[:2], bool)

    def _said(
        self, found: Floats, nodes: Ints, of: Ints, beta: Floats
    ) -> tuple[Ints, Ints, Floats]:
        """What the children at one level add, and their parents: nodes, groups and beta."""
        told = self.alpha[nodes] > 0
        share = np.divide(beta, self.alpha[nodes], out=np.zeros(beta.shape), where=told)
        _add(found, of, beta, share)
        pairs, place = np.unique(self.parent[nodes] * len(found) + of, return_inverse=True)
        above, group, place = pairs // len(found), pairs % len(found), place.reshape(-1)
        summed: Floats = np.stack([np.bincount(place, each, len(pairs)) for each in share])
        free, known = self.rest[above] >= 0, self.known[above]
        lent = np.zeros(summed.shape)  # beta of the child without a row
        lent[:, place[~told]] = beta[:, ~told]
        up: Floats = np.where(free, lent, summed / np.where(free, 1.0, known))
        _add(found, group, -up, summed - known * lent)
        _add(found, group, -summed, lent)
        return above, group, up


def _add(found: Floats, of: Ints, one: Floats, other: Floats) -> None:
    """Add the products of two sets of rows to the covariances of the groups that they are of."""
    if len(found) == 1:
        found[0] += one @ other.T
        return
    for i in range(len(one)):
        for j in range(len(other)):
            found[:, i, j] += np.bincount(of, one[i] * other[j], len(found))


def nested_part(families: Sequence[Family]) -> list[int]:
    """Those of some families, by their places, of which all rows are nested or disjoint: those of
    the most rows first, and each that fits.
    """
    kept: list[int] = []
    for at in sorted(range(len(families)), key=lambda at: (-families[at].met, at)):
        design = Design.of([families[at], *(families[other] for other in kept)])
        if design is not None and all(_fit(design.groups[0], g) for g in design.groups[1:]):
            kept.append(at)
    return sorted(kept)


def _fit(one: Ints, other: Ints) -> bool:
    """Whether every group of one family is nested in one of another, around it, or beside it."""
    pairs = np.unique(np.stack([one, other]), axis=1)
    wide = np.bincount(pairs[0] + 1) > 1  # of which groups of the other, or none, it has atoms
    broad = np.bincount(pairs[1] + 1) > 1
    both = (pairs >= 0).all(axis=0)
    return not bool((wide[pairs[0] + 1] & broad[pairs[1] + 1] & both).any())


def _sets(
    design: Design, precisions: Sequence[float]
) -> tuple[list[tuple[Ints, float]], Floats] | None:
    """The atoms of each row of several, with the information of it, and that on each atom alone;
    None where a row has atoms of different weights.
    """
    alone, found, visited = np.zeros(design.atoms), list[tuple[Ints, float]](), 0
    for groups, weights, precision in zip(design.groups, design.weights, precisions, strict=True):
        inside = np.flatnonzero(groups >= 0)
        order = inside[np.argsort(groups[inside], kind="stable")]
        _, first, sizes = np.unique(groups[order], return_index=True, return_counts=True)
        heavy = weights[order].astype(np.float64)
        if (heavy != np.repeat(heavy[first], sizes)).any() or not precision > 0:
            return None
        each = precision * heavy[first] ** 2
        single = first[sizes == 1]
        alone[order[single]] += each[sizes == 1]
        visited += len(order) - len(single)
        if visited > VISITED:
            return None
        for start, size, own in zip(first, sizes, each, strict=True):
            if size > 1:
                found.append((order[start : start + size], float(own)))
    return found, alone


def _forest(
    sets: list[tuple[Ints, float]], alone: Floats, atoms: int
) -> tuple[Ints | None, Floats]:
    """The parent of each node, and the information that it has of its own; None where sets cross.

    Large sets come first, and each is within one of those before it, or beside all of them.
    """
    owner = np.full(atoms, -1, np.int64)
    parent, own, size = [-1] * atoms, alone.tolist(), [1] * atoms
    for some, information in sorted(sets, key=lambda item: -len(item[0])):
        over = int(owner[some[0]])
        if not (owner[some] == over).all():
            return None, alone
        if over >= 0 and size[over] == len(some):  # the same again
            own[over] += information
            continue
        owner[some] = len(parent)
        parent.append(over)
        own.append(information)
        size.append(len(some))
    found = np.array(parent, np.int64)
    found[:atoms] = owner
    return found, np.array(own)


def _levels(parent: Ints) -> tuple[Ints, ...]:
    """The nodes by depth, the deepest first."""
    depth = np.zeros(len(parent), np.int64)
    at = parent.copy()
    while (at >= 0).any():
        depth += at >= 0
        at = np.where(at >= 0, parent[at], -1)
    order = np.argsort(-depth, kind="stable")
    cuts = np.flatnonzero(np.diff(depth[order])) + 1
    return tuple(np.split(order, cuts))
