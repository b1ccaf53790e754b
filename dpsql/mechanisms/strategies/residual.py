"""Residual plans: tables that share what they have in common, at the least total squared error.

A table on the axes B splits into residual tables, one for each A within B: what the A-marginal
tells beyond its own margins (Xiao et al. 2023, arXiv:2305.08175, for identity workloads). With
u_i and g_i of each axis (`centred.Split`), and a weight w_B on the squared error of each answer,

    c_A = sum over B that contain A of w_B prod_(j in B, not in A) u_j,
    e_A = c_A prod_(i in A) g_i.

Measuring the residual table of A at rho_A leaves the weighted error e_A / (2 rho_A); by Cauchy and
Schwarz the least sum at rho = sum rho_A is (sum sqrt(e_A))^2 / (2 rho), at rho_A proportional to
sqrt(e_A). That is the optimum of all unbiased plans for identity workloads, and of residual plans
for others. All rho here are zCDP for one row that comes or goes, at sensitivity 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from dpsql.mechanisms.strategies.axes import Along, Floats, Identity, Ints
from dpsql.mechanisms.strategies.centred import Optimum, Split, optimum, split

Columns: TypeAlias = tuple[int, ...]

_ENTRIES = 1 << 25  # pairs of a table and a set within it
_KEYS = 62  # bits of a number that stands for a set of columns
_STEPS = 20_000
_GAP = 1e-3
_FLOOR = 1e-12  # of a weight, where all sum to 1


# -- the closure -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Closure:
    """All sets of columns within some tables, and which table needs which.

    `sets[r]` has the sets of r columns, (number, r), ascending; they are numbered by size, then by
    row. Entry j says that set `inner[j]` is within table `outer[j]`, and the product of u over the
    table's other columns, `share[j]`; `power` has the product of g over the columns of each set.
    """

    sets: tuple[Ints, ...]
    outer: Ints
    inner: Ints
    share: Floats
    power: Floats

    def __len__(self) -> int:
        return len(self.power)

    @cached_property
    def columns(self) -> tuple[Columns, ...]:
        """The sets in their order, the empty one first."""
        return tuple(itertools.chain.from_iterable(map(tuple, some.tolist()) for some in self.sets))


def closure(splits: Sequence[Split], tables: Sequence[Columns]) -> Closure:
    """The downward closure of some tables' columns, with the products that error is made of.

    Raises ValueError for columns that are none or stand in no ascending order, or a table that is
    asked twice, and OverflowError beyond 2^25 pairs of a table and a set within it: no fewer cells
    than that have tables over columns of two values or more.
    """
    _check(len(splits), tables)
    if sum(1 << len(table) for table in tables) > _ENTRIES:
        raise OverflowError(f"the tables have more than {_ENTRIES} sets of columns within them")
    u = np.array([s.u for s in splits])
    g = np.array([s.g for s in splits])
    sizes = np.array([len(table) for table in tables])
    deepest = int(sizes.max())
    found: list[list[tuple[Ints, Ints, Floats]]] = [[] for _ in range(deepest + 1)]
    for size in np.unique(sizes).tolist():
        at = np.flatnonzero(sizes == size)
        rows = np.array([tables[place] for place in at.tolist()], np.int64).reshape(len(at), size)
        each = u[rows]
        for r in range(size + 1):
            for kept in itertools.combinations(range(size), r):
                gone = [place for place in range(size) if place not in kept]
                found[r].append((at, rows[:, list(kept)], each[:, gone].prod(axis=1)))
    sets, outer, inner, share, start = [], [], [], [], 0
    for some in found:
        unique, place = _unique(np.concatenate([rows for _, rows, _ in some]), len(splits))
        sets.append(unique)
        outer += [at for at, _, _ in some]
        share += [products for _, _, products in some]
        inner.append(place + start)
        start += len(unique)
    power = np.concatenate([g[some].prod(axis=1) for some in sets])
    joined = np.concatenate
    return Closure(tuple(sets), joined(outer), joined(inner), joined(share), power)


def _check(axes: int, tables: Sequence[Columns]) -> None:
    if not tables:
        raise ValueError("a plan needs a table")
    for table in tables:
        if not all(0 <= column < axes for column in table):
            raise ValueError(f"{table} has a column that is not among {axes}")
        if any(first >= second for first, second in itertools.pairwise(table)):
            raise ValueError(f"{table} is not in ascending order")
    if len(set(tables)) < len(tables):
        raise ValueError("a table is asked twice")


def _unique(rows: Ints, axes: int) -> tuple[Ints, Ints]:
    """The distinct rows in order, and the place of each row among them."""
    width = rows.shape[1]
    if width * math.log2(max(axes, 2)) > _KEYS:
        unique, place = np.unique(rows, axis=0, return_inverse=True)
        return unique, place.reshape(-1).astype(np.int64)
    keys = np.zeros(len(rows), np.int64)
    for at in range(width):
        keys = keys * axes + rows[:, at]
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    return rows[first], place.reshape(-1).astype(np.int64)


# -- the plan --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Plan:
    """How much of rho each set of columns gets, for any rho.

    `errors` has e_A of each set of the closure; sets with none are not measured. Variances are of
    an ideal strategy with Gaussian noise, in rows squared.
    """

    axes: tuple[Along, ...]
    tables: tuple[Columns, ...]
    weights: Floats
    closure: Closure
    splits: tuple[Split, ...]
    errors: Floats

    @cached_property
    def roots(self) -> Floats:
        """sqrt(e_A) of each set: its part of rho, up to a factor."""
        return np.sqrt(self.errors)

    @cached_property
    def shares(self) -> Floats:
        """rho_A / rho of each set; they sum to 1."""
        return self.roots / math.fsum(self.roots)

    @cached_property
    def answers(self) -> Floats:
        """The number of answers of each table, (tables,)."""
        return _answers(self.axes, self.tables)

    def total(self, rho: float) -> float:
        """The sum over all answers of weight x variance: (sum sqrt(e_A))^2 / (2 rho)."""
        return float(math.fsum(self.roots) ** 2 / (2 * rho))

    def average(self, rho: float) -> Floats:
        """The variance of each table's answers, averaged over the table, (tables,)."""
        c = self.closure
        each = c.share * (self._noise * c.power)[c.inner]
        return np.bincount(c.outer, each, len(self.tables)) / (2 * rho * self.answers)

    def largest(self, rho: float) -> Floats:
        """The variance of each table's worst answer, (tables,)."""
        found = self.average(rho)
        plain = [isinstance(along, Identity) for along in self.axes]
        uneven = [k for k, table in enumerate(self.tables) if not all(plain[i] for i in table)]
        if uneven:
            peaks = [_peaks(s) for s in self.splits]
            number = {columns: at for at, columns in enumerate(self.closure.columns)}
            for k in uneven:
                found[k] = self._worst(self.tables[k], peaks, number) / (2 * rho)
        return found

    @cached_property
    def _noise(self) -> Floats:
        """1 / shares, and 0 for what is not measured."""
        shares = self.shares
        return np.divide(1.0, shares, out=np.zeros(len(shares)), where=shares > 0)

    def _worst(self, table: Columns, peaks: Sequence[Floats], number: dict[Columns, int]) -> float:
        within = np.zeros((2,) * len(table))
        for kept in itertools.product((0, 1), repeat=len(table)):
            some = tuple(i for i, k in zip(table, kept, strict=True) if k)
            within[kept] = self._noise[number[some]]
        for i in table:  # the first axis goes, its answers come last
            within = np.tensordot(within, peaks[i], axes=(0, 0))
        return float(within.max())


def _peaks(some: Split) -> Floats:
    """(2, answers): mean and rest of the answers that can be the worst ones.

    A variance is linear in (mean, rest) of an axis with coefficients that are not negative, so the
    worst answer is among those that no other exceeds in both.
    """
    order = np.lexsort((-some.rest, -some.mean))
    rest = some.rest[order]
    above = np.concatenate([[-1.0], np.maximum.accumulate(rest)[:-1]])
    kept = order[rest > above]
    return np.stack([some.mean[kept], some.rest[kept]])


def plan(
    axes: Sequence[Along],
    tables: Sequence[Columns],
    weights: Floats | None = None,
    *,
    best: Optimum = optimum,
) -> Plan:
    """The plan of least total weighted squared error; all tables count alike by default.

    `weights` are those of an answer's squared error in each table; see `by_query`.
    """
    splits = tuple(split(along, best) for along in axes)
    found = closure(splits, tables)
    if weights is None:
        weights = by_query(axes, tables)
    if not (weights.shape == (len(tables),) and (weights > 0).all() and np.isfinite(weights).all()):
        raise ValueError("each table has one weight, more than 0")
    return _plan(tuple(axes), tuple(tables), weights, found, splits)


def _plan(
    axes: tuple[Along, ...],
    tables: tuple[Columns, ...],
    weights: Floats,
    found: Closure,
    splits: tuple[Split, ...],
) -> Plan:
    needed = np.bincount(found.inner, weights[found.outer] * found.share, len(found))
    errors = needed * found.power
    if not errors.max() > 0:
        raise ValueError("the tables ask for nothing")
    return Plan(axes, tables, weights, found, splits, errors)


def by_query(
    axes: Sequence[Along], tables: Sequence[Columns], expected: Sequence[float] | None = None
) -> Floats:
    """Weights when so many questions are expected on each table (by default one): their number
    divided by the table's answers, each of which is as likely to be asked as any other."""
    counts = np.ones(len(tables)) if expected is None else np.array(expected, np.float64)
    found: Floats = counts / _answers(axes, tables)
    return found


def _answers(axes: Sequence[Along], tables: Sequence[Columns]) -> Floats:
    return np.array([math.prod([axes[i].answers for i in table]) for table in tables], np.float64)


# -- the plan whose worst table is best ------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Even:
    """A plan whose worst table, in its average variance divided by its target, is about the best.

    At rho = 1/2 that is `worst`, and no residual plan goes below `bound`.
    """

    plan: Plan
    worst: float
    bound: float


def even(
    axes: Sequence[Along],
    tables: Sequence[Columns],
    targets: Floats | None = None,
    *,
    gap: float = _GAP,
    best: Optimum = optimum,
) -> Even:
    """Minimise max_B var_B / c_B for `targets` c: w_B <- w_B var_B / c_B on the dual.

    For weights w that sum to 1, the least sum of w_B var_B / c_B is below the least maximum, which
    gives the bound. Ends at `gap` between both, or after 20,000 steps.
    """
    goals = np.ones(len(tables)) if targets is None else targets
    if not (goals.shape == (len(tables),) and (goals > 0).all() and np.isfinite(goals).all()):
        raise ValueError("each table has one target, more than 0")
    splits = tuple(split(along, best) for along in axes)
    found = closure(splits, tables)
    scale = goals * _answers(axes, tables)
    weights = np.full(len(tables), 1.0 / len(tables))
    power, spread = np.sqrt(found.power), found.share
    least, bound, chosen = np.inf, 0.0, weights
    for _ in range(_STEPS):
        needed = np.sqrt(np.bincount(found.inner, (weights / scale)[found.outer] * spread))
        total = float(needed @ power)
        noise = np.divide(power, needed, out=np.zeros(len(power)), where=needed > 0)
        ratios = np.bincount(found.outer, spread * noise[found.inner]) * (total / scale)
        bound = max(bound, float(weights @ ratios))
        if ratios.max() < least:
            least, chosen = float(ratios.max()), weights
        if least <= bound * (1 + gap):
            break
        weights = weights * ratios
        weights = np.maximum(weights / weights.sum(), _FLOOR)
        weights = weights / weights.sum()
    return Even(_plan(tuple(axes), tuple(tables), chosen / scale, found, splits), least, bound)
