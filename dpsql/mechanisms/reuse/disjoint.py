"""Generalised least squares where every measured row is one atom (`inverse`)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.reuse.design import Design

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Said: TypeAlias = tuple[Floats, NDArray[np.bool_]]


@dataclass(frozen=True, slots=True, eq=False)
class Disjoint:
    """Every row is one atom; `diagonal` has the information on each."""

    diagonal: Floats

    @classmethod
    def of(cls, design: Design, precisions: Sequence[float]) -> Disjoint:
        """The information of all rows of a design."""
        found = np.zeros(design.atoms)
        for groups, weights, precision in zip(
            design.groups, design.weights, precisions, strict=True
        ):
            found += np.where(groups >= 0, precision * weights.astype(np.float64) ** 2, 0.0)
        return cls(found)

    @property
    def rank(self) -> int:
        return len(self.diagonal)

    def solve(self, seen: Floats) -> Floats:
        return seen / self.diagonal

    def even(self, at: Ints) -> bool:
        return False

    def said(self, at: Ints, weights: Floats, groups: int) -> Said:
        count = len(weights)
        found = np.zeros((groups, count, count))
        inside = at >= 0
        for i, j in itertools.combinations_with_replacement(range(count), 2):
            each = (weights[i] * weights[j] / self.diagonal)[inside]
            found[:, i, j] = found[:, j, i] = np.bincount(at[inside], each, groups)
        return found, np.ones((groups, count), bool)
