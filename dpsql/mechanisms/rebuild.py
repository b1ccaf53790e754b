"""Tables from noisy residual tables: what is rebuilt is unbiased, and all tables agree.

With z_A = Q_A^+ y_A the residual table of A, (n_i for i in A), the table of B is

    sum over A within B of z_A / prod_(j in B, not in A) n_j, spread evenly over the columns j,

and its answers are W_B of it, axis by axis (Xiao et al. 2023, arXiv:2305.08175, sec. 5). z_A is
made once for all tables, so margins that two tables have in common are the same sums. As parts are
independent, answers p, q of any tables have the covariance

    sum over A of variance_A <Q_A^+' p_A, Q_A^+' q_A>, p_A = p along A, its mean along other axes.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from dpsql.mechanisms.axes import Along, Floats, Ints, answered, means, weighted
from dpsql.mechanisms.bases import Basis
from dpsql.mechanisms.parts import Part, Strategy
from dpsql.mechanisms.residual import Columns


@dataclass(frozen=True, slots=True, eq=False)
class Combination:
    """A linear combination of the answers of one table: weights, an axis for each column."""

    columns: Columns
    weights: Floats


@dataclass(frozen=True)
class Rebuilt:
    """The tables that follow from noisy rows of a strategy's parts.

    `rows` has y_A of every part, of its shape. A table can be had of any columns whose subsets are
    all measured, or ask for nothing. A strategy alone, without rows, tells variances.
    """

    strategy: Strategy
    rows: Mapping[Columns, Ints]

    def __post_init__(self) -> None:
        for part in self.strategy.parts:
            seen = self.rows.get(part.columns)
            if seen is None or seen.shape != part.shape:
                raise ValueError(f"{part.columns}: rows of shape {part.shape} are missing")

    @cached_property
    def residuals(self) -> dict[Columns, Floats]:
        """z_A of each part."""
        return {p.columns: _undone(p, self.rows[p.columns]) for p in self.strategy.parts}

    def cells(self, columns: Columns) -> Floats:
        """The table of some columns, an axis for each."""
        axes = [self.strategy.axes[i] for i in columns]
        found: dict[Columns, Floats] = {}
        for some in _subsets(columns):
            if some in self.residuals:
                inside = tuple(
                    [a.size if i in some else 1 for i, a in zip(columns, axes, strict=True)]
                )
                found[some] = self.residuals[some].reshape(inside)
        for i, along in zip(columns, axes, strict=True):
            joined: dict[Columns, Floats] = {}
            for some, each in found.items():
                rest = tuple([j for j in some if j != i])
                part = each if i in some else each / along.size
                joined[rest] = joined[rest] + part if rest in joined else part
            found = joined
        whole = found.get((), np.zeros(()))
        return np.broadcast_to(whole, tuple([a.size for a in axes])).copy()

    def answers(self, columns: Columns) -> Floats:
        """W of the table of some columns, an axis for each."""
        found = self.cells(columns)
        for axis, i in enumerate(columns):
            found = answered(self.strategy.axes[i], found, axis)
        return found


def _undone(part: Part, seen: Ints) -> Floats:
    found: Floats = seen.astype(np.float64)
    for axis, each in enumerate(part.bases):
        found = each.undone(found, axis)
    return found


def _subsets(columns: Columns) -> list[Columns]:
    return [some for r in range(len(columns) + 1) for some in itertools.combinations(columns, r)]


# -- variances -------------------------------------------------------------------------------------


def variances(strategy: Strategy, columns: Columns) -> Floats:
    """The variance of each answer of a table, an axis for each column.

    The sum over A of variance_A and, for each axis, either (W 1/n)^2 or the diagonal of
    (W Q^+)(W Q^+)': a small tensor of parts with those vectors applied along its axes.
    """
    axes = [strategy.axes[i] for i in columns]
    made: list[list[Basis]] = [[] for _ in columns]
    place: list[tuple[tuple[int, ...], float]] = []
    for some in _subsets(columns):
        part = strategy.of.get(some)
        if part is not None:
            used = dict(zip(part.columns, part.bases, strict=True))
            at = tuple([_found(m, used.get(i)) for i, m in zip(columns, made, strict=True)])
            place.append((at, float(part.variance)))
    found: Floats = np.zeros(tuple([1 + len(m) for m in made]))
    for at, variance in place:
        found[at] = variance
    for along, used_here in zip(axes, made, strict=True):
        each = np.stack([means(along) ** 2, *[_spread(b, along) for b in used_here]])
        if (each == each[:, :1]).all():
            each = each[:, :1]
        found = np.tensordot(found, each, axes=(0, 0))  # the first axis goes, answers come last
    return np.broadcast_to(found, tuple([a.answers for a in axes])).copy()


def _found(some: list[Basis], used: Basis | None) -> int:
    """1 + the place of a strategy among some, where it is put if need be; 0 for none."""
    if used is None:
        return 0
    for at, each in enumerate(some):
        if each is used:
            return 1 + at
    some.append(used)
    return len(some)


@lru_cache(maxsize=256)
def _spread(used: Basis, along: Along) -> Floats:
    return used.spread(along)


def covariance(strategy: Strategy, combinations: Sequence[Combination]) -> Floats:
    """The covariances of some combinations of answers, (combinations, combinations)."""
    turned = [_turned(strategy, each) for each in combinations]
    found = np.zeros((len(turned), len(turned)))
    for part in strategy.parts:
        holding = [k for k, each in enumerate(turned) if part.columns in each]
        if holding:
            rows = np.stack([turned[k][part.columns].reshape(-1) for k in holding])
            found[np.ix_(holding, holding)] += float(part.variance) * (rows @ rows.T)
    return found


def _turned(strategy: Strategy, combination: Combination) -> dict[Columns, Floats]:
    """Q_A^+' p_A of each part within the combination's columns."""
    columns = combination.columns
    axes = [strategy.axes[i] for i in columns]
    if combination.weights.shape != tuple([a.answers for a in axes]):
        raise ValueError(f"{columns}: weights of another shape, {combination.weights.shape}")
    cells = combination.weights
    for axis, along in enumerate(axes):
        cells = weighted(along, cells, axis)
    found = {columns: cells}
    for i in columns:
        for some, each in list(found.items()):
            found[tuple([j for j in some if j != i])] = each.mean(axis=some.index(i))
    turned = {}
    for some in found:
        part = strategy.of.get(some)
        if part is not None:
            each = found[some]
            for axis, used in enumerate(part.bases):
                each = used.turned(each, axis)
            turned[some] = each
    return turned
