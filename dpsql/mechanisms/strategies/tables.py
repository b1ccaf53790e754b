"""Tables from noisy residual tables: estimates, their variances, and whole numbers that agree.

With z_A = Q_A^+ y_A the residual table of A, the table of B is the sum over A within B of z_A,
spread evenly over the keys that are in B alone (Xiao et al. 2023, arXiv:2305.08175, sec. 5): its
margins are the other tables, exactly. With Q_i'Q_i = s_i C for a key of n_i groups, the sum over
m_i groups of each key of B has the variance

    sum_A variance_A prod_(i in A) (m_i - m_i^2 / n_i) / s_i prod_(i in B, not A) (m_i / n_i)^2.

What is shown is rounded where it is summed up: N_B(x), the sum of all groups up to x along each
key, to the nearest whole number. As the N of margins are those of the last groups, whole tables
have whole margins that are the other tables, to the last digit; of a table of d keys a number is
off by at most 2^d / 2, and by sqrt(2^d / 12) in the mean.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.kept.tabled import Tabled
from dpsql.mechanisms.intervals.rounded import rounded
from dpsql.query.contrasts import Contrast

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Keys = tuple[int, ...]

_PAIRED = 1 << 24  # pairs of corners, times groups


class Precisions:
    """Of residual tables with noise of some variance: how precise sums of groups are."""

    def __init__(
        self, sizes: Sequence[int], sets: Sequence[Keys], factors: Sequence[int], variance: float
    ) -> None:
        self.sizes = tuple(sizes)
        self.of = {
            keys: variance / factor**2 for keys, factor in zip(sets, factors, strict=True)
        }  # the variance of the values of a residual table, as if its factor were 1

    def variances(self, keys: Keys, merged: Sequence[Floats]) -> Floats:
        """Those of sums over `merged` groups of each key, an axis for each key."""
        found = np.zeros((2,) * len(keys))
        for inside in itertools.product((0, 1), repeat=len(keys)):
            found[inside] = self.of[tuple(itertools.compress(keys, inside))]
        for key, m in zip(keys, merged, strict=True):
            size = self.sizes[key]
            rest = (m - m**2 / size) / Contrast(size).multiple
            each = np.stack([(m / size) ** 2, np.maximum(rest, 0.0)])
            found = np.tensordot(found, each, axes=(0, 0))  # the first axis goes, groups come last
        return found

    def variance(self, keys: Keys) -> float:
        """That of each number of a table."""
        return float(self.variances(keys, [np.ones(1)] * len(keys)).reshape(()))

    def rounding(
        self, keys: Keys, scale: float, query: Ints, times: Floats, size: int
    ) -> tuple[Floats, Floats]:
        """Of sums of a table's whole numbers, how much rounding adds to their variances, and what
        these come to where all that is rounded is independent; at `scale` times the variances.

        Each group counts in one of `size` sums, or in none (-1), so many times.
        """
        noise = self.variances(keys, [np.arange(1.0, self.sizes[key] + 1) for key in keys]) * scale
        near = rounded(noise)
        more = np.maximum(near - noise, 0.0)
        corners = []  # of each sum up to a group that was rounded: where it counts, and how much
        for ahead in itertools.product((0, 1), repeat=len(keys)):
            inside = tuple(slice(step, None) for step in ahead)
            room = tuple(slice(0, n - step) for n, step in zip(noise.shape, ahead, strict=True))
            where, much = np.full(noise.shape, -1), np.zeros(noise.shape)
            where[room] = query.reshape(noise.shape)[inside]
            much[room] = times.reshape(noise.shape)[inside] * (-1.0) ** sum(ahead)
            corners.append((where, much))
        found = np.zeros((2, size))
        pairs = [(each, each) for each in corners]
        if len(corners) ** 2 * noise.size <= _PAIRED:  # else without what cancels
            pairs = [(one, other) for one in corners for other in corners]
        for (at, one), (beside, other) in pairs:
            both = (at >= 0) & (at == beside)
            for own, values in zip(found, (more, near), strict=True):
                own += np.bincount(at[both], (values * one * other)[both], size)
        return found[0], found[1]

    def whole(self, keys: Keys, scale: float) -> Floats:
        """The mean squared error of each of a table's whole numbers, of variances times `scale`."""
        cells = math.prod(self.sizes[key] for key in keys)
        alone = np.arange(cells), np.ones(cells)
        more, most = self.rounding(keys, scale, *alone, cells)
        return np.minimum(self.variance(keys) * scale + more, most)

    def turned(self, keys: Keys, weights: Floats) -> dict[Keys, Floats]:
        """Rows of weights (rows, groups...) on a table, on each residual table: such that inner
        products, summed over residual tables, are covariances.
        """
        means = {keys: weights}
        for key in keys:
            for some, each in list(means.items()):
                rest = tuple(other for other in some if other != key)
                means[rest] = each.mean(axis=1 + some.index(key))
        found = {}
        for some, each in means.items():
            size = self.of[some]
            for axis, key in enumerate(some):
                each = each - each.mean(axis=1 + axis, keepdims=True)
                size /= Contrast(self.sizes[key]).multiple
            found[some] = each.reshape(len(each), -1) * math.sqrt(size)
        return found


class Rebuilt:
    """All tables of what was measured, (groups of each key..., weights)."""

    def __init__(self, kept: Tabled) -> None:
        self.kept = kept
        self._cells: dict[Keys, Floats] = {}
        self._summed: dict[Keys, Ints] = {}

    @cached_property
    def root(self) -> Floats:
        """R (weights, rows): what undoes the matrix."""
        found: Floats = np.linalg.inv(self.kept.matrix.astype(np.float64))
        return found

    @cached_property
    def residuals(self) -> dict[Keys, Floats]:
        """z_A of each table, of its shape."""
        kept, found, start = self.kept, {}, 0
        width = len(kept.matrix)
        for keys, shape, factor in zip(kept.sets, kept.measured, kept.factors, strict=True):
            stop = start + math.prod(shape)
            seen: Floats = kept.values[start:stop].astype(np.float64).reshape(*shape, width)
            for axis, key in enumerate(keys):
                seen = Contrast(kept.sizes[key]).undone(seen, axis)
            found[keys] = (seen / factor) @ self.root.T
            start = stop
        return found

    def cells(self, keys: Keys) -> Floats:
        """The estimates of a table."""
        if keys not in self._cells:
            shape = [self.kept.sizes[key] for key in keys]
            found = np.zeros((*shape, len(self.kept.matrix)))
            for r in range(len(keys) + 1):
                for some in itertools.combinations(keys, r):
                    inside = [n if k in some else 1 for k, n in zip(keys, shape, strict=True)]
                    spread = math.prod(shape) // math.prod(self.kept.sizes[k] for k in some)
                    found += self.residuals[some].reshape(*inside, -1) / spread
            self._cells[keys] = found
        return self._cells[keys]

    def whole(self, keys: Keys) -> Ints:
        """A table of whole numbers."""
        found = self._sums(keys)
        for axis in range(len(keys)):
            found = np.diff(found, axis=axis, prepend=0)
        return found

    def _sums(self, keys: Keys) -> Ints:
        """The whole sums of all groups up to each one."""
        if keys not in self._summed:
            sums = self.cells(keys)
            for axis in range(len(keys)):
                sums = sums.cumsum(axis=axis)
            found: Ints = np.rint(sums).astype(np.int64)
            for axis, key in enumerate(keys):  # as the same sum is rounded elsewhere
                rest = tuple(other for other in keys if other != key)
                np.moveaxis(found, axis, 0)[-1] = self._sums(rest)
            self._summed[keys] = found
        return self._summed[keys]
