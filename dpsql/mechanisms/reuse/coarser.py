"""What follows from the tables of one release: the same groups, coarser ones, and some of them.

A query is looked for in the table of the fewest groups of which it is a combination: where every
group of the table counts in it with one weight, in one of its own groups. So whatever is asked is
made of tables that agree (`tables`), and is the same to the last digit in whatever way it is asked.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Law
from dpsql.accounting.kept.stored import Stored
from dpsql.accounting.kept.tabled import Tabled
from dpsql.mechanisms.intervals.law import stddev
from dpsql.mechanisms.intervals.spread import Fitted, Spread, Spreads
from dpsql.mechanisms.reuse.fit import by_grouping
from dpsql.mechanisms.reuse.precision import variance_of
from dpsql.mechanisms.strategies.mixed import Again
from dpsql.mechanisms.strategies.tables import Floats, Ints, Keys, Precisions, Rebuilt
from dpsql.query.canon import Family, families
from dpsql.query.linear import Block, Workload, alike

_TRIED = 8  # tables in which a query is looked for
_DENSE = 1 << 20  # groups that are asked times groups of a table


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """Queries as sums over a table of `keys`: which weight of it, and of each of its groups the
    query in which it counts (-1 for none) and `times` how much.
    """

    keys: Keys
    weight: int
    query: Ints
    times: Floats

    @property
    def even(self) -> float | None:
        """How much all groups count; None where they differ."""
        counted = self.times[self.query >= 0]
        return float(counted[0]) if len(counted) and (counted == counted[0]).all() else None


class Coarser:
    """The tables of one release, and what they say of any workload.

    A query is told by the kind of tables that has it, else by the first that it follows from. What
    was measured beside them through a strategy is said as it was then. All have noises of their
    own.
    """

    def __init__(self, stored: Stored) -> None:
        listed = stored.of_tables()
        keys = [frozenset(family.key for family in own) for own in listed]
        self._stored, self._each = stored, list[_Kind]()
        for kept, own, mine in zip(stored.kinds, listed, keys, strict=True):
            others = frozenset().union(*keys) - mine
            self._each.append(_Kind(kept, own, stored.law, others))

    def spreads(self, workload: Workload) -> tuple[Spread, ...]:
        """What is known of each SELECT of a workload."""
        if self._each[1:] or self._stored.mixes:
            every = [kind.spreads(workload) for kind in reversed(self._each)]
            if self._stored.mixes:
                every.append(Again.of(workload, self._stored).spreads())
            return tuple(functools.reduce(_beside, one) for one in zip(*every, strict=True))
        return self._each[0].spreads(workload)

    def answers(self, workload: Workload) -> tuple[Fitted, ...]:
        """The answers of each SELECT of a workload that are known."""
        every = [kind.answers(workload) for kind in reversed(self._each)]
        if self._stored.mixes:
            every.append(Again.of(workload, self._stored).fitted())
        found = []
        for one, spread in zip(zip(*every, strict=True), self.spreads(workload), strict=True):
            shown, centre = one[0].shown, one[0].centre
            for some in one[1:]:
                own = some.spread.known
                shown = np.where(own, some.shown, shown)
                centre = np.where(own, some.centre, centre)
            found.append(Fitted(shown, centre, spread))
        return tuple(found)


class _Kind:
    """Tables that count the same, and what they say of any workload but of `others`, by key."""

    def __init__(
        self, kept: Tabled, families_: Sequence[Family], law: Law, others: frozenset[str]
    ) -> None:
        self._others = others
        self._least = stddev(law)
        self._told = Precisions(kept.sizes, kept.sets, kept.factors, float(variance_of(law)))
        self._rebuilt = Rebuilt(kept)
        self._mixed = self._rebuilt.root @ self._rebuilt.root.T
        order = [(keys, weight) for keys in kept.sets for weight in range(len(kept.matrix))]
        self._listed = list(zip(families_, order, strict=True))
        self._by_key = {family.key: (family, place) for family, place in self._listed}
        self._spreads = Spreads()

    # -- which queries -------------------------------------------------------------------------

    def _find(self, family: Family) -> _Found | None:
        """The queries of a family in a table; None where they are in none."""
        known = self._by_key.get(family.key)
        if known is not None:
            own, (keys, weight) = known
            query = np.empty(len(own.origin), np.int64)
            query[own.origin] = family.origin
            times = float(Fraction(family.factor, own.factor))
            return _Found(keys, weight, query, np.full(len(query), times))
        if family.key in self._others:
            return None
        names = set(family.classes)
        holding = [item for item in self._listed if names <= set(item[0].classes)]
        holding.sort(key=lambda item: (len(item[0].classes), len(item[0].origin)))
        for own, (keys, weight) in holding[:_TRIED]:
            found = sums(own, family)
            if found is not None:
                return _Found(keys, weight, *found)
        return None

    # -- how well ------------------------------------------------------------------------------

    def spreads(self, workload: Workload) -> tuple[Spread, ...]:
        """What is known of each SELECT of a workload."""
        return self._spreads.of(workload, self._spread)

    def _spread(self, block: Block, listed: Sequence[Family | None]) -> Spread:
        width = len(block.weights)
        covariance = np.zeros((block.groups, width, width))
        known = np.zeros((block.groups, width), bool)
        rounded: list[tuple[int, int, _Found, int]] = []
        for start, size, some in by_grouping(block, listed):
            found = self._placed(some)
            if not found or not size:
                continue
            inner = self._covariance(list(found.values()), size)
            if inner is None:
                continue
            rows, columns = np.arange(start, start + size), np.array(list(found))
            covariance[np.ix_(rows, columns, columns)] = inner
            for column, each in found.items():
                known[start + np.unique(each.query[each.query >= 0]), column] = True
                rounded.append((start, column, each, size))

        @functools.cache
        def whole() -> Floats:
            errors = np.zeros((block.groups, width))
            for start, column, each, size in rounded:
                rows = slice(start, start + size)
                errors[rows, column] = self._whole(each, covariance[rows, column, column])
            return errors

        return Spread(covariance, known, self._least, whole=whole)

    def _whole(self, found: _Found, noise: Floats) -> Floats:
        """The mean squared errors of sums of whole numbers, by the variances of their estimates."""
        size, scale = len(noise), float(self._mixed[found.weight, found.weight])
        more, most = self._told.rounding(found.keys, scale, found.query, found.times, size)
        near = np.minimum(noise + more, most)
        whole = bool((found.times == np.rint(found.times)).all())
        return near if whole else near + 1.0 / 12.0

    def _placed(self, some: Sequence[tuple[int, Family | None]]) -> dict[int, _Found]:
        placed = {column: self._find(f) for column, f in some if f is not None}
        return {column: found for column, found in placed.items() if found is not None}

    def _covariance(self, found: Sequence[_Found], size: int) -> Floats | None:
        """(queries, weights, weights); None where that is too much work."""
        first = found[0]
        mixed = self._mixed[np.ix_([f.weight for f in found], [f.weight for f in found])]
        times = [each.even for each in found]
        alike_ = all(f.keys == first.keys and np.array_equal(f.query, first.query) for f in found)
        if alike_ and None not in times:
            each = self._product(first, size)
            if each is not None:
                scale = np.array(times, np.float64)
                return each[:, None, None] * (mixed * scale * scale[:, None])
        if any(size * len(f.query) > _DENSE for f in found):
            return None
        turned = [self._turned(f, size) for f in found]
        inner = np.zeros((size, len(found), len(found)))
        for i, one in enumerate(turned):
            for j, other in enumerate(turned):
                for keys in one.keys() & other.keys():
                    inner[:, i, j] += np.einsum("gc,gc->g", one[keys], other[keys])
        return inner * mixed

    def _product(self, found: _Found, size: int) -> Floats | None:
        """Variances of sums of all groups of some classes of each key; None for other sums."""
        shape = [self._told.sizes[key] for key in found.keys]
        query = found.query.reshape(shape)
        merged = []
        for axis in range(len(shape)):
            told = alike(np.moveaxis(query, axis, 0).reshape(query.shape[axis], -1))
            merged.append(np.bincount(told.of).astype(np.float64))
            query = query.take(told.first, axis=axis)
        inside = query[query >= 0]
        if len(np.unique(inside)) < len(inside):
            return None
        each = np.zeros(size)
        each[inside] = self._told.variances(found.keys, merged)[query >= 0]
        return each

    def _turned(self, found: _Found, size: int) -> Mapping[Keys, Floats]:
        weights = np.zeros((size, len(found.query)))
        inside = np.flatnonzero(found.query >= 0)
        weights[found.query[inside], inside] = found.times[inside]
        shape = [self._told.sizes[key] for key in found.keys]
        return self._told.turned(found.keys, weights.reshape(size, *shape))

    # -- what they are -------------------------------------------------------------------------

    def answers(self, workload: Workload) -> tuple[Fitted, ...]:
        """The answers of each SELECT of a workload that are known."""
        kept = zip(workload.blocks, families(workload), self.spreads(workload), strict=True)
        return tuple(Fitted(*self._block(b, listed), spread) for b, listed, spread in kept)

    def _block(self, block: Block, listed: Sequence[Family | None]) -> tuple[NDArray[Any], Floats]:
        shown = np.zeros((block.groups, len(block.weights)), np.int64)
        centre = np.zeros(shown.shape)
        for start, _, some in by_grouping(block, listed):
            for column, found in self._placed(some).items():
                inside = np.flatnonzero(found.query >= 0)
                rows, times = start + found.query[inside], found.times[inside]
                cells = self._rebuilt.cells(found.keys)[..., found.weight].reshape(-1)[inside]
                whole = self._rebuilt.whole(found.keys)[..., found.weight].reshape(-1)[inside]
                np.add.at(centre[:, column], rows, times * cells)
                if (times == np.rint(times)).all():
                    np.add.at(shown[:, column], rows, times.astype(np.int64) * whole)
                    continue
                sums = np.zeros(len(shown))
                np.add.at(sums, rows, times * whole)
                shown[:, column] += np.rint(sums).astype(np.int64)
        return shown, centre


def _beside(tabled: Spread, mixed: Spread) -> Spread:
    """What is known of a SELECT from tables, and what from a strategy or other tables beside them,
    before which what follows from the tables stands back; the noises are independent.
    """
    own = mixed.known
    rest = ~own[:, :, None] & ~own[:, None, :]
    covariance = np.where(rest, tabled.covariance, mixed.covariance)
    return Spread(
        covariance,
        own | tabled.known,
        tabled.least,
        whole=lambda: np.where(own, mixed.shown, tabled.shown),
    )


def sums(own: Family, asked: Family) -> tuple[Ints, Floats] | None:
    """Of each group of a table's family, in the order of its grouping, the query in which it counts
    (-1 for none), and how much; None where the queries are no such sums.
    """
    places = []
    for name, merged in own.classes.items():
        _, first = np.unique(merged, return_index=True)
        if name not in asked.classes:
            places.append(np.zeros(len(first), np.int64))
            continue
        coarse = asked.classes[name]
        if not np.array_equal(coarse, coarse[first][merged]):
            return None
        places.append(coarse[first])
    sizes = dict(zip(asked.classes, asked.shape, strict=True))
    shape = [sizes.get(name, 1) for name in own.classes]
    flat = np.ravel_multi_index(np.ix_(*places), shape).reshape(-1) if places else np.zeros(1, int)
    query, weights = asked.groups[flat], asked.weights[flat]
    inside = own.groups >= 0
    if (query[~inside] >= 0).any():
        return None
    met, first = np.unique(own.groups[inside], return_index=True)
    of_group, of_own, of_asked = (a[inside][first] for a in (query, own.weights, weights))
    at = own.groups[inside]
    if not np.array_equal(of_group[at], query[inside]):
        return None
    exact: Any = np.int64
    if int(np.abs(weights).max(initial=0)) * int(np.abs(own.weights).max(initial=0)) >> 62:
        exact = object
    one = weights[inside].astype(exact) * of_own[at].astype(exact)
    if not np.array_equal(one, of_asked[at].astype(exact) * own.weights[inside].astype(exact)):
        return None
    found = np.full(len(own.origin), -1, np.int64)
    times = np.zeros(len(own.origin))
    counted = of_group >= 0
    found[own.origin[met[counted]]] = asked.origin[of_group[counted]]
    scale = Fraction(asked.factor, own.factor)
    ratios = [*zip(of_asked[counted].tolist(), of_own[counted].tolist(), strict=True)]
    known = {(a, b): float(Fraction(a, b) * scale) for a, b in set(ratios)}  # mostly one
    times[own.origin[met[counted]]] = [known[ratio] for ratio in ratios]
    return found, times
