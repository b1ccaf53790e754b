"""Generalised least squares on a design: what the measured rows say about other queries.

With rows A (each scaled by 1 / its noise's stddev) and N = A'A, the best linear unbiased estimate
of a query q that is a combination of the rows is q'x for any x with N x = A'y, and the covariance
of two such is p'N^- q for any generalised inverse (Gauss, Markov; Aitken 1935; Rao 1973, 4a).
Five ways, of which the first that applies is taken:

**Disjoint** rows, each atom in one: N is diagonal where a row is one atom.

**Marginals**: the atoms are the cells of a product and every row sums them over some columns. With
J_i the mean over column i, the projections E_T = prod_(i in T) (I - J_i) prod_(i not in T) J_i
diagonalise N; E_T has the eigenvalue sum over measured S containing T of u_S prod_(i not in S) n_i
(Xiao et al. 2023, arXiv:2305.08175; u_S the precision of the marginal on S).

**By atoms** or **by rows**, whichever are fewer: the spectral inverse of N, or that of AA'.

**Nested**, where these are too large: rows of which every two are nested or disjoint (`nested`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.reuse.design import Design
from dpsql.mechanisms.reuse.disjoint import Disjoint
from dpsql.mechanisms.reuse.nested import Nested

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Said: TypeAlias = tuple[Floats, Bools]

DENSE = 384  # atoms or rows of a spectral inverse, which takes some 10 ms
ENTRIES = 1 << 20  # of a dense matrix of rows by atoms
_RANK = 1e-11  # of the largest eigenvalue: less is nothing
_CHECKED = 1 << 33  # multiplications that tell whether queries are combinations of rows
_UNEVEN = 1e6  # of what two rows tell: then the lesser is lost in a sum of both
_FAR = 1e-8  # of a query's largest weight: a residual below it is rounding


class Inverse(Protocol):
    """N^- of a design; `rank` is the number of rows that do not follow from others."""

    @property
    def rank(self) -> int: ...

    def solve(self, seen: Floats) -> Floats:
        """An x with N x = `seen`, which is A'y; or several, along the last axis."""
        ...

    def even(self, at: Ints) -> bool:
        """Whether permutations of the atoms that permute the rows of each family take every group
        to every other.
        """
        ...

    def said(self, at: Ints, weights: Floats, groups: int) -> Said:
        """Of families that share groups, (weights, atoms) with the group of each atom:

        the covariances, (groups, weights, weights), and which queries are combinations of rows.
        """
        ...


def large(atoms: int, rows: int) -> bool:
    """Whether a dense matrix of rows over atoms is too large to be fitted."""
    return min(atoms, rows) > DENSE or atoms * rows > ENTRIES


def inverse(
    design: Design, precisions: Sequence[float], more: Sequence[Floats] = ()
) -> Inverse | None:
    """The inverse of a design whose families have these precisions; None where it is too large.

    A family of precision 0 tells nothing itself; `more` are rows over the atoms, scaled.
    """
    if more:
        plain = sum(f.met for f, p in zip(design.families, precisions, strict=True) if p > 0.0)
        count = plain + sum(map(len, more))
        if large(design.atoms, count):
            return None
        own = _rows(design, precisions)
        rows = np.concatenate([own[own.any(axis=1)], *(each[each.any(axis=1)] for each in more)])
        return _dense(rows)
    if all(
        len(np.unique(groups[groups >= 0])) == np.count_nonzero(groups >= 0)
        for groups in design.groups
    ):
        return Disjoint.of(design, precisions)
    marginals = _marginals(design, precisions)
    if marginals is not None:
        return marginals
    if large(design.atoms, design.rows):
        return Nested.of(design, precisions)
    return _dense(_rows(design, precisions))


# -- marginals -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Marginals:
    """Atoms in a product of `shape`, atom i at `order[i]`; eigenvalues of the sets of axes."""

    shape: tuple[int, ...]
    order: Ints
    values: dict[frozenset[int], float]

    @property
    def rank(self) -> int:
        return sum(math.prod(self.shape[axis] - 1 for axis in axes) for axes in self.values)

    def solve(self, seen: Floats) -> Floats:
        table = np.zeros((*seen.shape[:-1], math.prod(self.shape)))
        table[..., self.order] = seen
        table = table.reshape(*seen.shape[:-1], *self.shape)
        found = np.zeros(table.shape)
        for axes, value in self.values.items():
            found += self._projected(table, axes) / value
        flat: Floats = found.reshape(*seen.shape[:-1], -1)[..., self.order]
        return flat

    def even(self, at: Ints) -> bool:
        """Values of each axis may be exchanged."""
        return bool((at >= 0).all()) and _cells(at, self.shape, self.order) is not None

    def _projected(self, table: Floats, axes: frozenset[int]) -> Floats:
        for axis in range(-len(self.shape), 0):
            mean = table.mean(axis=axis, keepdims=True)
            table = table - mean if axis + len(self.shape) in axes else mean
        return table

    def said(self, at: Ints, weights: Floats, groups: int) -> Said:
        """Norms of E_T q from those of marginals: |A_S q|^2 is the sum of |E_T q|^2, T in S."""
        count = len(weights)
        found = np.zeros((groups, count, count))
        total = np.zeros((groups, count))
        seen: dict[frozenset[int], Floats] = {}
        for axes in sorted(self.values, key=len):
            norm = self._norms(axes, at, weights, groups)
            for below, known in seen.items():
                if below < axes:
                    norm = norm - known
            seen[axes] = norm
            found += norm / self.values[axes]
            total += np.einsum("gii->gi", norm)
        inside = at >= 0
        squares = np.stack([np.bincount(at[inside], (w * w)[inside], groups) for w in weights], 1)
        return found, np.abs(squares - total) <= _FAR * np.maximum(squares, 1.0)

    def _norms(self, axes: frozenset[int], at: Ints, weights: Floats, groups: int) -> Floats:
        """Inner products of the queries of each group after averaging over all other axes."""
        cell = np.zeros(self.shape, np.int64)
        size = 1
        for axis in sorted(axes):
            along = [1] * len(self.shape)
            along[axis] = self.shape[axis]
            cell = cell * self.shape[axis] + np.arange(self.shape[axis]).reshape(along)
            size *= self.shape[axis]
        inside = at >= 0
        ids = at[inside] * size + cell.reshape(-1)[self.order][inside]
        met, place = np.unique(ids, return_inverse=True)
        sums = [np.bincount(place.reshape(-1), w[inside], len(met)) for w in weights]
        each = float(math.prod(self.shape)) / size
        found = np.zeros((groups, len(weights), len(weights)))
        for i, j in itertools.combinations_with_replacement(range(len(weights)), 2):
            inner = np.bincount(met // size, sums[i] * sums[j], groups) / each
            found[:, i, j] = found[:, j, i] = inner
        return found


def _marginals(design: Design, precisions: Sequence[float]) -> _Marginals | None:
    """The spectral form of a design whose rows are the cells of marginals of one product."""
    codes = np.stack(np.unravel_index(design.first, design.shape)) if design.shape else None
    if codes is None:
        return None
    used = [np.unique(axis, return_inverse=True) for axis in codes]
    shape = tuple(len(met) for met, _ in used)
    if math.prod(shape) != design.atoms:
        return None
    order = np.ravel_multi_index([inner.reshape(-1) for _, inner in used], shape)
    measured: dict[frozenset[int], float] = {}
    for groups, weights, precision in zip(design.groups, design.weights, precisions, strict=True):
        weight = int(weights[0])
        if (groups < 0).any() or (weights != weight).any():
            return None
        axes = _cells(groups, shape, order)
        if axes is None:
            return None
        measured[axes] = measured.get(axes, 0.0) + precision * float(weight) ** 2
    values: dict[frozenset[int], float] = {}
    for top in measured:
        for size in range(len(top) + 1):
            for axes in map(frozenset, itertools.combinations(sorted(top), size)):
                values[axes] = sum(
                    precision * math.prod(n for i, n in enumerate(shape) if i not in above)
                    for above, precision in measured.items()
                    if axes <= above
                )
    return _Marginals(shape, order.astype(np.int64), values)


def _cells(groups: Ints, shape: tuple[int, ...], order: Ints) -> frozenset[int] | None:
    """The axes of which groups of the atoms of a product are the cells; None for other groups."""
    table = np.empty(len(groups), np.int64)
    table[order] = groups
    table = table.reshape(shape)
    axes = frozenset(
        axis for axis in range(len(shape)) if (table != table.take([0], axis=axis)).any()
    )
    found = len(np.unique(groups)) == math.prod(shape[axis] for axis in axes)
    return axes if found else None


# -- spectral inverses -----------------------------------------------------------------------------


def _rows(design: Design, precisions: Sequence[float]) -> Floats:
    """A, (rows, atoms)."""
    found = np.zeros((design.rows, design.atoms))
    start = 0
    for family, groups, weights, precision in zip(
        design.families, design.groups, design.weights, precisions, strict=True
    ):
        inside = np.flatnonzero(groups >= 0)
        found[start + groups[inside], inside] = weights[inside] * math.sqrt(precision)
        start += family.met
    return found


def _dense(rows: Floats) -> _ByAtoms | _ByRows:
    """By atoms or by rows, whichever are fewer; and by rows where some tell far more than others,
    for their decomposition does not add what they tell.
    """
    count, atoms = rows.shape
    told = np.einsum("ra,ra->r", rows, rows)
    if atoms > count or (count <= DENSE and told.max() > _UNEVEN * told.min()):
        return _ByRows.of(rows)
    return _ByAtoms.of(rows)


def _spectral(gram: Floats) -> tuple[Floats, Floats]:
    """Eigenvectors and eigenvalues of a Gram matrix, without those that are nothing."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > _RANK * values[-1]
    return vectors[:, kept], values[kept]


@dataclass(frozen=True, slots=True, eq=False)
class _ByAtoms:
    """`inner` is N^-, symmetric; `lost` projects on what no row sees, None for nothing."""

    inner: Floats
    lost: Floats | None
    rank: int

    @classmethod
    def of(cls, rows: Floats) -> _ByAtoms:
        gram = rows.T @ rows
        scale = 1.0 / np.sqrt(np.diag(gram))
        vectors, values = _spectral(gram * scale * scale[:, None])
        scaled = vectors * scale[:, None]
        lost = None
        if len(values) < len(gram):
            lost = (np.eye(len(gram)) - vectors @ vectors.T) * scale[:, None]
            lost = lost / scale[:, None].max()
        return cls((scaled / values) @ scaled.T, lost, len(values))

    def solve(self, seen: Floats) -> Floats:
        return seen @ self.inner

    def even(self, at: Ints) -> bool:
        return False

    def said(self, at: Ints, weights: Floats, groups: int) -> Said:
        count = len(weights)
        found = np.zeros((groups, count, count))
        known = np.ones((groups, count), bool)
        inside = np.flatnonzero(at >= 0)
        for i in range(count):
            summed = _summed(self.inner[inside], at[inside], weights[i][inside], groups)
            for j in range(i, count):
                each = summed[at[inside], inside] * weights[j][inside]
                found[:, i, j] = found[:, j, i] = np.bincount(at[inside], each, groups)
            if self.lost is not None:
                rest = _summed(self.lost[inside], at[inside], weights[i][inside], groups)
                most = float(np.abs(weights[i]).max(initial=1.0))
                known[:, i] = np.abs(rest).max(axis=1, initial=0.0) <= _FAR * most
        return found, known


@dataclass(frozen=True, slots=True, eq=False)
class _ByRows:
    """An orthogonal `basis` of the row space, its squared lengths, and the covariance there.

    With S A = V basis for rows of unit length, y = S^-1 V t + noise for the coordinates
    t = basis x, which are known with `covariance` (V' S^-2 V)^-1: V' S^2 V where no row depends on
    others, and by a QR decomposition where some do.
    """

    basis: Floats
    lengths: Floats
    covariance: Floats

    @property
    def rank(self) -> int:
        return len(self.lengths)

    @classmethod
    def of(cls, rows: Floats) -> _ByRows:
        size = np.sqrt(np.einsum("ra,ra->r", rows, rows))
        even = rows / size[:, None]
        vectors, values = _spectral(even @ even.T)
        if len(values) == len(rows):
            covariance = (vectors / size[:, None] ** 2).T @ vectors
        else:
            order = np.argsort(-size)  # rows of falling size keep the decomposition accurate
            upper = np.linalg.qr((vectors * size[:, None])[order], mode="r")
            half = np.linalg.inv(upper)
            covariance = half @ half.T
        return cls(vectors.T @ even, values, covariance)

    def solve(self, seen: Floats) -> Floats:
        found = (seen @ self.basis.T / self.lengths) @ self.covariance
        x: Floats = (found / self.lengths) @ self.basis
        return x

    def even(self, at: Ints) -> bool:
        return False

    def said(self, at: Ints, weights: Floats, groups: int) -> Said:
        count, atoms = len(weights), self.basis.shape[1]
        found = np.zeros((groups, count, count))
        known = np.zeros((groups, count), bool)
        inside = np.flatnonzero(at >= 0)
        parts = [
            _summed(self.basis.T[inside], at[inside], w[inside], groups) / self.lengths
            for w in weights
        ]
        for i, j in itertools.combinations_with_replacement(range(count), 2):
            each = np.einsum("gr,gr->g", parts[i] @ self.covariance, parts[j])
            found[:, i, j] = found[:, j, i] = each
        if groups * atoms * len(self.lengths) > _CHECKED:
            return found, known
        for i, (part, w) in enumerate(zip(parts, weights, strict=True)):
            most = _FAR * float(np.abs(w).max(initial=1.0))
            step = max(1, ENTRIES // atoms)
            for start in range(0, groups, step):
                rest = part[start : start + step] @ self.basis
                mine = inside[(at[inside] >= start) & (at[inside] < start + step)]
                rest[at[mine] - start, mine] -= w[mine]
                known[start : start + step, i] = np.abs(rest).max(axis=1) <= most
        return found, known


def _summed(matrix: Floats, at: Ints, weights: Floats, groups: int) -> Floats:
    """(groups, columns): the weighted sums of the rows of a matrix that are in each group."""
    order = np.argsort(at, kind="stable")
    found = np.zeros((groups, matrix.shape[1]))
    if len(order):
        starts = np.flatnonzero(np.diff(at[order], prepend=-1))
        parts = np.add.reduceat(matrix[order] * weights[order, None], starts, axis=0)
        found[at[order][starts]] = parts
    return found
