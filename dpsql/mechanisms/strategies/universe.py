"""The columns of a workload over a huge universe: listed, or found when they are asked for.

A universe is a callable: given P = S^-1 (queries, queries), positive semidefinite, it gives columns
w of W with large w' P w, among them the worst, and a bound from above on w' P w over every column.
Where the universe cannot be listed, such a callable may search it, as long as the bound is sound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import UsageError
from dpsql.mechanisms.strategies.spectrum import Floats

_BLOCK = 1 << 22  # entries of W that are held as floats
_KEPT = 8_000  # columns that one look gives, at most
_CLOSE = 5e-4  # error of a root w' P w <= 1 that single precision may make


@dataclass(frozen=True, slots=True)
class Found:
    """Columns (queries, some) of W, and what w' P w does not exceed for any column of W."""

    columns: Floats
    bound: float

    def __post_init__(self) -> None:
        if self.columns.ndim != 2 or not self.columns.shape[1] > 0:
            raise ValueError("a universe has a column")
        if not 0 <= self.bound < math.inf:
            raise ValueError("a bound is a finite number, not below 0")


Universe: TypeAlias = Callable[[Floats], Found]


@dataclass(frozen=True, slots=True)
class ListedColumns:
    """Every distinct column of W (queries, columns), of small integers.

    `squares` are those of their lengths, and at most `terms` entries of a column are not 0.
    """

    columns: NDArray[np.integer[Any]]
    squares: Floats = field(init=False)
    terms: int = field(init=False)

    def __post_init__(self) -> None:
        if self.columns.ndim != 2 or not self.columns.size > 0:
            raise UsageError("a workload has a query and a column")
        if not np.issubdtype(self.columns.dtype, np.integer):
            raise UsageError("columns are integers")
        squares, terms = np.empty(self.columns.shape[1]), 1
        for part in self._parts():
            terms = max(terms, int(np.count_nonzero(self.columns[:, part], axis=0).max()))
            some = self.columns[:, part].astype(np.float64)
            squares[part] = np.einsum("ij,ij->j", some, some)
        object.__setattr__(self, "squares", squares)
        object.__setattr__(self, "terms", terms)

    def _parts(self) -> list[slice]:
        """The columns, some at a time."""
        queries, many = self.columns.shape
        size = max(1, _BLOCK // queries)
        return [slice(low, low + size) for low in range(0, many, size)]

    def __call__(self, precision: Floats) -> Found:
        """Look at all columns; rounding errors are in the bound."""
        if np.array_equal(precision, np.eye(len(self.columns))):
            best = _chosen(self.squares)
            bound = float(self.squares.max()) * (1 + 1e-9)
            return Found(np.asarray(self.columns[:, best], np.float64), bound)
        values, vectors = np.linalg.eigh(precision)
        root = np.sqrt(np.clip(values, 0, None))[:, None] * vectors.T  # P = root' root
        norms, error = self._norms(root)
        bound = (math.sqrt(float(norms.max())) + error) ** 2
        best = _chosen(norms)
        return Found(np.asarray(self.columns[:, best], np.float64), bound * (1 + 1e-9))

    def _norms(self, root: Floats) -> tuple[NDArray[Any], float]:
        """|root w|^2 of every column, and by how much rounding may have lessened a norm.

        A sum of k products errs by at most k eps |root| |w| (Higham 2002, section 3.1); products
        with 0 are exact, as is adding 0.
        """
        reach = self.terms * math.sqrt(float(self.squares.max())) * float(np.linalg.norm(root))
        kind: type[np.float32] | type[np.float64] = np.float32
        if not 2 * reach * float(np.finfo(kind).eps) <= _CLOSE:
            kind = np.float64
        inner = root.astype(kind)
        found = np.empty(len(self.squares), kind)
        for part in self._parts():
            moved = inner @ self.columns[:, part].astype(kind)
            found[part] = np.einsum("ij,ij->j", moved, moved)
        return found, 2 * reach * float(np.finfo(kind).eps)


def _chosen(norms: NDArray[Any]) -> NDArray[np.int64]:
    """Columns for the next round: the largest, some of all that are above 1, and some of all.

    Columns that are nearly the same have nearly the same norm, so the largest alone would be alike.
    """
    if len(norms) <= _KEPT:
        return np.arange(len(norms))
    part = _KEPT // 3
    above = np.flatnonzero(norms > 1)
    return np.unique(
        np.concatenate(
            [
                np.argpartition(-norms, part)[:part],
                above[:: max(1, -(-len(above) // part))],
                np.arange(0, len(norms), -(-len(norms) // part)),
            ]
        )
    )
