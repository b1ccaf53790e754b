"""Residual plans of statements: CUBE, ROLLUP and GROUPING SETS measured by what their tables share.

Every grouping of a SELECT that lists all combinations of its keys' groups is a table; a plan of
least weighted squared error (`residual`) says how much of the price each residual table gets, and
whole factors realise it with noise of one law (Xiao et al. 2023, arXiv:2305.08175). Each grouping
weighs the same, not each group. Several aggregates of a group are mixed as the best strategy for
one group alone mixes them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Gaussian
from dpsql.accounting.stored import Stored
from dpsql.accounting.tabled import Tabled
from dpsql.mechanisms.axes import Identity
from dpsql.mechanisms.clusters import part_of
from dpsql.mechanisms.factorization import mixing
from dpsql.mechanisms.found import Answered
from dpsql.mechanisms.law import stddev
from dpsql.mechanisms.noises import Joint, Noise
from dpsql.mechanisms.residual import even, plan
from dpsql.mechanisms.spread import Fitted, Spread
from dpsql.mechanisms.tables import Ints, Keys, Precisions, Rebuilt
from dpsql.query.canon import families
from dpsql.query.contrasts import Contrast
from dpsql.query.linear import Block, Grouping, Workload
from dpsql.query.strategy import Residuals, Strategy

_LEAST = 1 << 6  # factor of a residual table: the plan is realised within 1 / 128
_SCALE = 1 << 88  # of the square of what a row moves: noise for it can be drawn at any price
_HEAVIEST = 1 << 22  # weight: sums of 2^40 rows have 62 bits
_GAP = 1e-2  # that the largest error may be above the least
_SETS = 1 << 10  # of keys, all subsets of the groupings
_KEYS = 12  # of a grouping


@dataclass(frozen=True, slots=True, eq=False)
class Marginals:
    """A residual plan for a workload of one block, and how answers are made of its values.

    Of each grouping `places` has its table's keys, and where in the table each group is. `ratio` is
    the error to that of the best strategy; None where not everybody counts alike in all tables.
    """

    workload: Workload
    part: Residuals
    places: tuple[tuple[Keys, Ints], ...]
    strategy: Strategy
    ratio: float | None

    def spreads(self, law: Gaussian) -> tuple[Spread, ...]:
        """What will be known of the answers, before anything is measured."""
        part, width = self.part, self.part.width
        told = Precisions(part.sizes, part.sets, part.factors, float(law.variance))
        inverse = np.linalg.inv(part.matrix.astype(np.float64))
        inner = inverse @ inverse.T
        each = [np.full(len(at), told.variance(keys)) for keys, at in self.places]
        covariance = np.concatenate(each)[:, None, None] * inner
        return (Spread(covariance, np.ones((len(covariance), width), bool), stddev(law)),)

    def noises(self, law: Gaussian) -> tuple[Noise, ...]:
        """The noise of the answers, whatever they are."""
        (spread,) = self.spreads(law)
        shape = spread.known.shape
        return (Joint(Fitted(np.zeros(shape, np.int64), np.zeros(shape), spread)),)

    def answered(self, values: Sequence[NDArray[Any]], law: Gaussian) -> Answered:
        """The answers from the noisy values."""
        (noisy,) = values
        rebuilt, width = Rebuilt(self._tabled(noisy)), self.part.width
        centre = [rebuilt.cells(keys).reshape(-1, width)[at] for keys, at in self.places]
        shown = [rebuilt.whole(keys).reshape(-1, width)[at] for keys, at in self.places]
        (spread,) = self.spreads(law)
        fitted = Fitted(np.concatenate(shown), np.concatenate(centre), spread)
        return Answered((fitted.shown,), (Joint(fitted),), 1)

    def stored(
        self, values: Sequence[NDArray[Any]], law: Gaussian, shown: Sequence[NDArray[Any]]
    ) -> Stored | None:
        """What a ledger keeps of it; None where it cannot. What is `shown` follows from that."""
        (noisy,) = values
        rebuilt, width = Rebuilt(self._tabled(noisy)), self.part.width
        tables = [rebuilt.whole(keys).reshape(-1, width) for keys in self.part.sets]
        return Stored.residuals(self.part, noisy, law, np.concatenate(tables))

    def unmeasured(self, law: Gaussian) -> Stored | None:
        """What a ledger would keep if all values were 0."""
        rows = len(self.part.matrix)
        zeros = np.zeros((self.part.size // rows, rows), np.int64)
        return self.stored([zeros], law, [])

    def _tabled(self, noisy: NDArray[Any]) -> Tabled:
        part = self.part
        return Tabled(part.sizes, part.sets, part.factors, part.matrix, noisy)


def marginals(workload: Workload, *, largest: bool = False) -> Marginals | None:
    """The residual plan for a workload of one block with several sets of keys: that of least total
    squared error, or of the least `largest` one.

    None where its groupings are no full tables, where these are too large, or where the weights of
    a group cannot be mixed.
    """
    if len(workload.blocks) != 1:
        return None
    (block,) = workload.blocks
    read = _read(block)
    if read is None:
        return None
    sizes, axes, places = read
    heaviest = max(weight.largest for weight in block.weights)
    weights: dict[Keys, float] = {}
    for keys, at in places:
        weights[keys] = weights.get(keys, 0.0) + 1.0 / len(at)
    if len(weights) < 2 or max(map(len, weights)) > _KEYS or heaviest > _HEAVIEST:
        return None
    tables = list(weights)
    each = [Identity(n) for n in sizes]
    if largest:
        best = even(each, tables, gap=_GAP)
        found, least = best.plan, best.bound
    else:
        found = plan(each, tables, np.array(list(weights.values())))
        least = found.total(0.5)
    sets = found.closure.columns
    if len(sets) > _SETS:
        return None
    groupings = tuple(_grouping(keys, sizes, axes) for keys in sets)
    made = part_of(Workload(workload.domain, (Block(block.where, block.weights, groupings),)), [0])
    (listed,) = families(made)
    if None in listed:
        return None
    norms = [math.prod(Contrast(sizes[key]).norm for key in keys) for keys in sets]
    ideal = [
        math.sqrt(share / norm) for share, norm in zip(found.shares.tolist(), norms, strict=True)
    ]
    factors = tuple(max(round(x * _LEAST / min(ideal)), 1) for x in ideal)
    try:
        matrix = mixing(made)
        part = Residuals(made, sizes, sets, factors, matrix)
    except ValueError:  # weights too large to be mixed, or that cannot be told apart
        return None
    moved = sum((heaviest * int(row)) ** 2 for row in np.abs(matrix).sum(axis=1))
    if part.scale * moved > _SCALE:
        return None
    ratio = None
    if matrix.size == 1 and listed[0] is not None and not listed[0].classes:  # the total
        told = Precisions(sizes, sets, factors, float(part.scale))  # at rho = 1/2
        errors = [told.variance(keys) for keys, _ in places]
        ratio = max(1.0, math.sqrt((max(errors) if largest else sum(errors)) / least))
    return Marginals(workload, part, tuple(places), Strategy((part,)), ratio)


_Axis = tuple[Any, Ints]  # a domain, and the group of each of its cells
_Read = tuple[tuple[int, ...], list[_Axis], list[tuple[Keys, Ints]]]


def _read(block: Block) -> _Read | None:
    """The keys of a block as axes: their sizes, their groups, and of each grouping its keys and
    where in their table its groups are; None unless all groupings are full tables."""
    number: dict[int, int] = {}
    listed: list[Ints] = []  # the codes of each key that are answered
    owned: list[_Axis] = []
    found: list[list[tuple[int, Ints]]] = []  # of each grouping: key, and rank of each group
    for grouping in block.groupings:
        own, size = [], 1
        if not grouping.size:
            return None
        strides = [stride for _, _, stride in grouping.keys]
        for at, (domain, table, stride) in enumerate(grouping.keys):
            codes = grouping.listed // stride
            codes = codes % (strides[at - 1] // stride) if at else codes
            values, ranks = np.unique(codes, return_inverse=True)
            key = number.setdefault(id(table), len(number))
            if key == len(listed):
                listed.append(values)
                ranked = np.searchsorted(values, table).clip(max=len(values) - 1)
                owned.append((domain, ranked.astype(np.int64)))
            elif not np.array_equal(listed[key], values):
                return None
            own.append((key, ranks.reshape(-1)))
            size *= len(values)
        if size != grouping.size or len({key for key, _ in own}) < len(own):
            return None
        found.append(own)
    kept = [key for key, values in enumerate(listed) if len(values) > 1]  # others tell nothing
    sizes = tuple(len(listed[key]) for key in kept)
    places = []
    for own, grouping in zip(found, block.groupings, strict=True):
        ranks_of = dict(own)
        keys = tuple(at for at, key in enumerate(kept) if key in ranks_of)
        place = np.zeros(grouping.size, np.int64)
        for axis in keys:
            place = place * sizes[axis] + ranks_of[kept[axis]]
        places.append((keys, place))
    return sizes, [owned[key] for key in kept], places


def _grouping(keys: Keys, sizes: Sequence[int], axes: Sequence[_Axis]) -> Grouping:
    """All combinations of the groups of some keys, the last key running fastest."""
    shape = [sizes[key] for key in keys]
    strides = [math.prod(shape[at + 1 :]) for at in range(len(shape))]
    own = tuple((*axes[key], stride) for key, stride in zip(keys, strides, strict=True))
    return Grouping(own, np.arange(math.prod(shape)))
