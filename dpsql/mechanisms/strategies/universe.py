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
from dpsql.mechanisms.strategies.spectrum import EPS, Floats

_BLOCK = 1 << 22  # entries of W that are held as floats
_KEPT = 4_000  # columns that one look gives, at most
_CLOSE = 8e-3  # error of a root w' P w <= 1 that a first look may make
_SINGLE = float(np.finfo(np.float32).eps)
_NARROW = 32  # rows of a part of a triangle, at least,
_CUTS = 8  # and parts, each of which leaves out the zeros before it


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


Singles: TypeAlias = NDArray[np.float32]
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
        norms, bound = self._norms(root)
        best = _chosen(norms)
        return Found(np.asarray(self.columns[:, best], np.float64), bound * (1 + 1e-9))

    def _norms(self, root: Floats) -> tuple[Floats, float]:
        """|root w|^2 of every column, and a bound on all; the rows are in the order of their
        lengths.

        A sum of k products errs by at most k eps |root| |w| (Higham 2002, section 3.1); products
        with 0 are exact, as is adding 0. A first look is in single precision, but for the longest
        rows, where there is next to no noise; all others may be turned to be upper triangular.
        Columns that may be the worst are looked at again.
        """
        reach = 2 * self.terms * math.sqrt(float(self.squares.max()))
        errors = np.sqrt(np.cumsum((root**2).sum(axis=1))) * reach
        rough = int(np.searchsorted(errors * _SINGLE, _CLOSE, "right"))
        single = triangle(root[:rough])
        found = np.zeros(len(self.squares))
        for part in self._parts():
            found[part] = lengths(single, self.columns[:, part].astype(np.float32))
            if rough < len(root):
                found[part] += _squares(root[rough:], self.columns[:, part])
        doubt = 2 * float(errors[rough - 1]) * _SINGLE if rough else 0.0
        most = float(found.max())
        least = max(math.sqrt(most) - doubt, 0.0) ** 2
        worst = np.flatnonzero(found >= min(least, most))  # without doubt its root may round up
        for some in np.array_split(worst, -(-len(worst) * len(root) // _BLOCK)):
            found[some] = _squares(root, self.columns[:, some])
        return found, (math.sqrt(float(found[worst].max())) + float(errors[-1]) * EPS) ** 2


def _squares(root: Floats, columns: NDArray[np.integer[Any]]) -> Floats:
    """|root w|^2 of columns w, in double precision."""
    moved = root @ columns.astype(np.float64)
    return np.asarray(np.einsum("ij,ij->j", moved, moved), np.float64)


def triangle(root: Floats) -> Singles:
    """An upper triangular R (rows, k) with |R w| = |root w| for all w."""
    return np.asarray(np.linalg.qr(root, mode="r"), np.float32)


def lengths(single: Singles, columns: Singles) -> Singles:
    """|R w|^2 of columns w (k, some), for a triangular R."""
    step = max(_NARROW, -(-len(single) // _CUTS))
    found = np.zeros(columns.shape[1], np.float32)
    for start in range(0, len(single), step):
        moved = single[start : start + step, start:] @ columns[start:]
        found += np.einsum("ij,ij->j", moved, moved)
    return found


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
