"""What Laplace noise there is in answers that were fitted by least squares.

An answer q x is the sum of the measured values with the weights q N^- A' U (`inverse`). A Laplace
noise's share of the variance of a sum t of a group's answers, (t c)^2 / (t C t') for its weights c
in stddevs and the covariance C, is at most c' C^- c whatever t (Cauchy and Schwarz); and whatever
the question, at most the leverage u a N^- a' of the measured query a, for the same reason.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.intervals.spread import Heavy
from dpsql.mechanisms.reuse.design import Design
from dpsql.mechanisms.reuse.disjoint import Disjoint
from dpsql.mechanisms.reuse.inverse import Inverse
from dpsql.mechanisms.threads import one_thread
from dpsql.query.canon import Family

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_ENTRIES = 1 << 21  # of weights of answers, by atom or by noise
_RANK = 1e-9  # of a group's largest variance: less is nothing


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """A family on the atoms: its column, the group and weight of each, which of its groups fail."""

    column: int
    family: Family
    at: Ints
    weights: Ints
    failed: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Measured:
    """Families with Laplace noise, by number: the `scales`, and the design and its inverse."""

    design: Design
    solved: Inverse
    precisions: Sequence[float]
    scales: Mapping[int, float]

    @functools.cached_property
    def leverage(self) -> float:
        """The most that one of the noises has of the variance of anything that is said."""
        most = 0.0
        for number in self.scales:
            family, weights = self.design.families[number], self.design.weights[number]
            heavy = weights[None].astype(np.float64)
            inner, _ = self.solved.said(self.design.groups[number], heavy, family.met)
            most = max(most, self.precisions[number] * float(inner.max(initial=0.0)))
        return min(most * (1.0 + 1e-9), 1.0)

    def heavy(
        self,
        parts: Sequence[tuple[int, int, Sequence[Placed]]],
        covariance: Floats,
    ) -> Heavy:
        """What is in answers with this covariance (groups, weights, weights), by grouping: the
        first row, the size, the families.
        """
        groups, width = covariance.shape[:2]
        scales = np.repeat(
            list(self.scales.values()), [self.design.families[n].met for n in self.scales]
        )
        most = _ENTRIES // max(self.design.atoms, width * len(scales))
        kind, share, kinds = np.full(groups, -1), np.zeros(groups), 0
        listed = [np.zeros((0, width, len(scales)))]
        with one_thread():
            roots = _roots(covariance)
            for start, size, placed in parts:
                rows = slice(start, start + size)
                count = 1 if size and self._even(placed) else size
                if kinds + count > most:
                    share[rows] = self._most(placed, roots[rows])
                    continue
                weights = np.zeros((count, width, len(scales)))
                for part in placed:
                    weights[:, part.column] = self._weights(part, count)
                share[rows] = _shares(weights, scales, roots[start : start + count])
                kind[rows] = kinds + np.arange(count)
                listed.append(weights)
                kinds += count
        return Heavy(scales, np.concatenate(listed), kind, share)

    def _even(self, placed: Sequence[Placed]) -> bool:
        """Whether all groups of some families are alike: no value of a column is any other's."""
        return all(
            np.array_equal(part.at, placed[0].at)
            and bool((part.weights == part.weights[0]).all())
            and self.solved.even(part.at)
            for part in placed
        )

    def _most(self, placed: Sequence[Placed], roots: Floats) -> Floats:
        """The share of one noise in a sum of answers, at most."""
        found = np.full(len(roots), self.leverage)
        inside = [part.at >= 0 for part in placed]
        if not (placed and isinstance(self.solved, Disjoint)):
            return found
        at = np.max([part.at for part in placed], axis=0)
        met = np.flatnonzero(np.any(inside, axis=0))
        heavy = np.zeros((len(met), roots.shape[1]))
        for part in placed:
            heavy[:, part.column] = part.weights[met] * float(part.family.factor)
        turned = np.einsum("awk,aw->ak", roots[at[met]], heavy)
        each = (turned**2).sum(axis=1) / self.solved.diagonal[met]
        found = np.zeros(len(roots))
        np.maximum.at(found, at[met], each)
        return np.minimum(found * (1.0 + 1e-6), 1.0)

    def _weights(self, part: Placed, count: int) -> Floats:
        """Of the first queries of a family the weights of the Laplace noises."""
        asked = np.zeros((count, self.design.atoms))
        inside = np.flatnonzero((part.at >= 0) & (part.at < count))
        asked[part.at[inside], inside] = part.weights[inside] * float(part.family.factor)
        solved = self.solved.solve(asked)
        found = []
        for number in self.scales:
            groups, weights = self.design.groups[number], self.design.weights[number]
            family = self.design.families[number]
            rows = np.zeros((self.design.atoms, family.met))
            inside = np.flatnonzero(groups >= 0)
            rows[inside, groups[inside]] = weights[inside]
            found.append(solved @ rows * (self.precisions[number] / family.factor))
        return np.concatenate(found, axis=1)


def _roots(covariance: Floats) -> Floats:
    """Of each group a root of the inverse of the covariance (groups, weights, kept)."""
    values, vectors = np.linalg.eigh(covariance)
    kept = values > _RANK * values[:, -1:]
    root = np.where(kept, 1.0 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
    found: Floats = vectors * root[:, None, :]
    return found


def _shares(weights: Floats, scales: Floats, roots: Floats) -> Floats:
    """The most that one noise has of the variance of any sum of a group's answers, (groups,)."""
    stddevs = np.sqrt(0.5) / np.sinh(0.5 / scales)
    turned = np.einsum("gwr,gwk->gkr", weights * stddevs, roots)
    found: Floats = np.einsum("gkr,gkr->gr", turned, turned).max(axis=1, initial=0.0)
    return np.minimum(found * (1.0 + 1e-6), 1.0)
