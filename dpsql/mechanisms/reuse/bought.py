"""Which releases measured the queries of a question, in whatever statements, and at what price.

What a price buys of a single query depends on what else is bought with it: a CUBE gives a coarser
GROUP BY more noise than the same price alone. But the query was asked, paid for and answered, and
what is asked to be paid again for it at no higher a price has been paid: it is said again, free.
Less error costs a higher price, or is asked for by an accuracy.

Several releases of one query count together as the price at which one is as accurate: rho adds up,
and of pure epsilons the squares. So what was topped up counts as what was asked for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.purse import Price
from dpsql.mechanisms.reuse.kept import Kept
from dpsql.query.canon import MOST_CELLS, Family, families
from dpsql.query.linear import Workload, numbered

_CLOSE = 1e-6  # of a price: noise is rounded up to what it costs a little less for
_WHOLE = 2  # in pico: prices are whole numbers of it, rounded up

Bools: TypeAlias = NDArray[np.bool_]
Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Due:
    """What a question would cost, and in which currency that is to have been paid already.

    A pure grant's purse adds epsilons. In others rho tells; a pure price will do there too, where
    what is asked has one.
    """

    price: Price
    pure: bool

    def paid(self, prices: Sequence[Price], asked: Bools) -> bool:
        """Whether each query, a column of `asked`, was paid for by those releases, rows, that
        measured it."""
        rho = np.array([0 if self.pure else price.rho for price in prices], np.float64)
        pure = np.array([price.epsilon or 0 for price in prices], np.float64)
        least = float("inf") if self.price.epsilon is None else _least(self.price.epsilon)
        enough = np.sqrt(pure**2 @ asked) >= least
        if not self.pure:
            enough |= rho @ asked >= _least(self.price.rho)
        return bool(enough.all())


def _least(pico: int) -> float:
    return pico * (1.0 - _CLOSE) - _WHOLE


def bought(kept: Kept, workload: Workload, due: Due) -> list[int] | None:
    """The charges that measured all queries of a workload, newest first, where each of these was
    bought for what is due; None where one was not. None of them may have measured all."""
    every: set[int] | None = None
    for family in dict.fromkeys(f for listed in families(workload) for f in listed):
        found = None if family is None else _measured(kept, family)
        if not found:
            return None
        seqs = list(found)
        if not due.paid(kept.prices(seqs), np.array([found[seq] for seq in seqs])):
            return None
        full = {seq for seq, asked in found.items() if asked.all()}
        every = full if every is None else every & full
    return sorted(every or (), reverse=True)


def _measured(kept: Kept, family: Family) -> Mapping[int, Bools]:
    """The charges that measured queries of a family, and which of its groups; nothing where there
    is a query that none did."""
    found = {seq: np.ones(max(family.met, 1), np.bool_) for seq in kept.measured(family)}
    for seq, number in kept.alike(family):
        if seq not in found or not found[seq].all():
            own = _same(kept.families(seq)[number], family)
            found[seq] = own | found.get(seq, False)
    found = {seq: asked for seq, asked in found.items() if asked.any() and _counts(kept, seq)}
    return found if found and np.logical_or.reduce([*found.values()]).all() else {}


def _counts(kept: Kept, seq: int) -> bool:
    """Whether all of what a release cost was for its queries, and not for choosing among some."""
    stored = kept.read(seq)
    return stored is not None and stored.picked is None and stored.chosen is None


def _same(own: Family, asked: Family) -> Bools:
    """Which groups of a family, of those that somebody may be in, are a group of another one: of
    the same people, whose weights are as many times as large."""
    names = dict.fromkeys([*own.classes, *asked.classes])
    mine, theirs, cells = list[Ints](), list[Ints](), 1
    for name in names:
        both = [f.classes[name] for f in (own, asked) if name in f.classes]
        told = both[0] if len(both) == 1 else both[0] * (int(both[1].max()) + 1) + both[1]
        first = numbered(told).first
        cells *= len(first)
        if cells > MOST_CELLS:
            return np.zeros(asked.met, np.bool_)
        for family, places in ((own, mine), (asked, theirs)):
            classes = family.classes.get(name)
            places.append(np.zeros(len(first), np.int64) if classes is None else classes[first])
    groups, weights = _on(own, names, mine)
    queries, times = _on(asked, names, theirs)
    size = np.bincount(groups[groups >= 0], minlength=1)
    inside = queries >= 0
    groups, weights, queries, times = (a[inside] for a in (groups, weights, queries, times))
    _, first = np.unique(queries, return_index=True)
    which = groups[first]  # the only group that may be that of each query
    same: Bools = (which >= 0) & (size[which] == np.bincount(queries))
    if int(np.abs(times).max(initial=0)) * int(np.abs(weights).max(initial=0)) >> 62:
        times, weights = times.astype(object), weights.astype(object)
    ratio = times * weights[first][queries] == times[first][queries] * weights
    differs = (groups != which[queries]) | ~ratio.astype(np.bool_)
    same &= np.bincount(queries[differs], minlength=asked.met) == 0
    return same


def _on(family: Family, names: Iterable[str], places: Sequence[Ints]) -> tuple[Ints, Ints]:
    """The groups and weights of a family on all combinations of classes of these columns."""
    strides, stride = dict[str, int](), 1
    for name, size in reversed([*zip(family.classes, family.shape, strict=True)]):
        strides[name] = stride
        stride *= size
    at: Ints = np.zeros(1, np.int64)
    for name, place in zip(names, places, strict=True):
        at = np.add.outer(at, place * strides.get(name, 0)).reshape(-1)
    return family.groups[at], family.weights[at]
