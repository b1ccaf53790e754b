"""Running counts and ranges over more values of a column than an optimum is found for: a tree.

The values that are told apart are halved again and again; of each level of such blocks, of 2^l
values each, all counts are measured, and the answers are made of all of them by least squares
(Hay, Rastogi, Miklau, Suciu 2010; `nested`), or cut into more than two at a time, where that errs
less. With P_l the projection onto what is constant on
blocks of level l and sums to 0 over each of level l + 1 (all of it at the top), G = W'W weighted
and g_l = tr(G P_l), a strategy with X = sum_l mu_l P_l errs by sum_l g_l / mu_l and moves by
sum_l a_l mu_l, a_l = 2^-l - 2^-(l + 1), at the top 2^-l: the best is mu_l in proportion to
(g_l / a_l)^1/2. Levels are measured with the differences of mu, so where it would fall levels are
pooled. Exact for a power of 2; else as if the missing values were there and nobody asked for them.

The least of all strategies has some 20 % less error for running counts, 25 % for all ranges. What
is measured are counts as in any statement: their sensitivity, ledger entry and reuse are theirs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Gaussian, Law
from dpsql.accounting.kept.stored import Stored
from dpsql.domain import Domain
from dpsql.mechanisms.intervals.noises import Joint, Noise
from dpsql.mechanisms.intervals.spread import Fitted, Spread
from dpsql.mechanisms.reuse.design import CELLS as MOST
from dpsql.mechanisms.reuse.fit import Fit, Model
from dpsql.mechanisms.reuse.found import Answered
from dpsql.mechanisms.strategies.cells import ANSWERS, CELLS
from dpsql.mechanisms.strategies.mixing import importance
from dpsql.mechanisms.strategies.plans import MANY
from dpsql.query.canon import Family, families, placed
from dpsql.query.linear import Block, Grouping, Term, Weight, Workload
from dpsql.query.predicate import ALWAYS

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

BRANCHINGS = (2, 3, 4, 8, 16)
FINE = 1 << 6  # of a level's factor: weights are realised within 1 / 64


@dataclass(frozen=True, slots=True, eq=False)
class Leveled:
    """Levels that are measured in place of a workload of intervals, and its answers from them.

    `rmse` is the root of the mean squared error at noise that costs rho = 1/2, as `importance`
    weighs the queries, and `priced` has that of trees of other branchings, by name; `ratio` is it
    to a bound on that of any strategy, None where none is known.
    """

    workload: Workload
    strategy: Workload
    rmse: float
    largest: bool
    priced: tuple[tuple[str, float], ...]
    ratio: float | None = None

    @property
    def lone(self) -> bool:
        """Whether it is about one column."""
        return True

    def spreads(self, law: Gaussian) -> tuple[Spread, ...]:
        """What will be known of each SELECT's answers, before anything is measured."""
        return _told(self, law).spreads(self.workload)

    def noises(self, law: Gaussian, asked: Workload | None = None) -> tuple[Noise, ...]:
        """The noise of each SELECT's answers, whatever they are; or of a part, as it is `asked`."""
        found = []
        for spread in _told(self, law).spreads(asked or self.workload):
            shape = spread.known.shape
            found.append(Joint(Fitted(np.zeros(shape, np.int64), np.zeros(shape), spread)))
        return tuple(found)

    def stored(
        self, values: Sequence[NDArray[Any]], law: Gaussian, shown: Sequence[NDArray[Any]]
    ) -> Stored | None:
        """What a ledger keeps of it; None where it cannot. What is `shown` follows from that."""
        return Stored.of(self.strategy, law, values)

    def unmeasured(self, law: Gaussian) -> Stored | None:
        """What a ledger would keep if all values were 0."""
        return self.stored(
            [np.zeros((b.groups, 1), np.int64) for b in self.strategy.blocks], law, []
        )

    def answered(self, values: Sequence[NDArray[Any]], law: Gaussian) -> Answered:
        """The answers of each SELECT from the noisy values of each level."""
        stored = self.stored(values, law, [])
        assert stored is not None  # counts of one column
        return Levels(stored).answers(self.workload)


class Levels:
    """The levels of one release, and what they say of any workload."""

    def __init__(self, stored: Stored) -> None:
        self._fit = Fit(_model(stored.families, stored.law), stored.values)

    def answers(self, workload: Workload) -> Answered:
        """The answers of each SELECT of a workload."""
        found = self._fit.answers(workload)
        return Answered(tuple(some.shown for some in found), tuple(map(Joint, found)), 1)


@functools.lru_cache(8)
def _told(plan: Leveled, law: Gaussian) -> Model:
    """What the levels will tell, before anything is measured."""
    return _model((f for own in families(plan.strategy) for f in own), law)


def _model(listed: Iterable[Family | None], law: Law) -> Model:
    found = Model.of([(family, law) for family in listed if family is not None])
    assert found is not None  # of nested rows
    return found


def leveled(workload: Workload, moved: int, *, largest: bool = False) -> Leveled | None:
    """The levels for a workload of intervals of one column's values, which a row moves by the root
    of `moved`.

    None where it has others, where they are few, or tell so few values apart that the best strategy
    on these is found; and where the questions themselves err less, as those of a ROLLUP do.
    """
    if workload.size <= MANY:
        return None
    named = _column(workload)
    if named is None:
        return None
    name, size = named
    wanted = importance(workload, largest=largest)
    found = _intervals(workload, name, size, wanted)
    if found is None:
        return None
    low, high, worth = found
    cuts = np.unique(np.concatenate([low, high, [0, size]]))
    atoms = len(cuts) - 1
    if atoms > MOST or (atoms <= CELLS and workload.size <= ANSWERS):
        return None
    low, high = np.searchsorted(cuts, low), np.searchsorted(cuts, high)
    most = sum(float(own.sum()) for own in wanted)
    tried = [_tree(low, high, worth, atoms, branching) for branching in BRANCHINGS]
    at = min(range(len(tried)), key=lambda at: tried[at][0])
    (squared, rates), branching = tried[at], BRANCHINGS[at]
    if not squared < moved * most:
        return None
    weights = np.diff(rates, prepend=0.0) / float(branching) ** np.arange(len(rates))
    factors = np.rint(np.sqrt(weights / weights.max()) * FINE * len(weights)).astype(np.int64)
    factors[0] = max(factors[0], 1)  # else single values do not follow
    measured = _measured(name, cuts, factors, branching)
    total = most if largest else 1.0  # of weights, which are all 1 then
    errors = [math.sqrt(each / total) for each, _ in tried]
    names = [f"tree of {many} on {name}" for many in BRANCHINGS]
    priced = tuple(zip(names, errors, strict=True))
    return Leveled(workload, measured, errors[at], largest, priced)


def _tree(low: Ints, high: Ints, worth: Floats, atoms: int, branching: int) -> tuple[float, Floats]:
    """The squared error of the best weights on the levels of a tree, and mu of each."""
    top = 0
    while branching**top < atoms:
        top += 1
    sizes = level_sizes(low, high, worth, top, branching)
    rates = level_rates(sizes, branching)
    return float((sizes / rates).sum()), rates


def _column(workload: Workload) -> tuple[str, int] | None:
    """The one column that a workload is about, and how many codes it has."""
    found: dict[str, int] = {}
    for family in (f for own in families(workload) for f in own):
        if family is None:
            return None
        found |= {name: len(merged) for name, merged in family.classes.items()}
        if len(found) > 1:
            return None
    return next(iter(found.items()), None)


def _intervals(
    workload: Workload, name: str, size: int, wanted: Sequence[Floats]
) -> tuple[Ints, Ints, Floats] | None:
    """The first code of each query and the one after its last, and what its squared error counts
    in counts of rows; None where one is no count of an interval of codes.
    """
    flat = np.concatenate([own.reshape(-1) for own in wanted])
    found: list[tuple[Ints, Ints, Floats]] = []
    for family, place in placed(workload):
        assert family is not None
        spans = _spans(family, name, size)
        if spans is None:
            return None
        worth = flat[place[: family.met]] * float(family.factor) ** 2
        found.append((*spans, worth))
    low, high, worth_ = zip(*found, strict=True)
    return np.concatenate(low), np.concatenate(high), np.concatenate(worth_)


def _spans(family: Family, name: str, size: int) -> tuple[Ints, Ints] | None:
    """The codes of each group of a family: the first, and the one after the last."""
    at = family.classes.get(name, np.zeros(size, np.int64))
    groups, weights = family.groups[at], family.weights[at]
    if (weights[groups >= 0] != 1).any():
        return None
    begins = np.flatnonzero(np.diff(groups, prepend=-2))
    ends = np.append(begins[1:], size)
    inside = groups[begins] >= 0
    begins, ends = begins[inside], ends[inside]
    if len(begins) != family.met:
        return None  # of a group in pieces
    order = np.argsort(groups[begins])
    return begins[order], ends[order]


def level_sizes(low: Ints, high: Ints, worth: Floats, top: int, branching: int = 2) -> Floats:
    """g_l = tr(G P_l) of each level up to the `top`, for the weighted intervals [low, high)."""
    means = list(_means(low, high, worth, top, branching))  # tr(G Q_l), means Q_l of blocks
    return -np.diff(np.array([*means, 0.0]))


def _means(low: Ints, high: Ints, worth: Floats, top: int, branching: int) -> Iterator[float]:
    for size in (branching**level for level in range(top + 1)):
        first, last = low // size, (high - 1) // size
        head = (first + 1) * size - low
        tail = high - last * size
        apart = head**2.0 + tail**2.0 + (last - first - 1) * float(size) ** 2
        squares = np.where(first == last, (high - low) ** 2.0, apart)
        yield float((worth * squares).sum()) / size


def level_rates(sizes: Floats, branching: int = 2) -> Floats:
    """mu_l of the best weights on the levels, not falling, for columns of length 1."""
    powers = float(branching) ** -np.arange(len(sizes))
    shares = powers - np.append(powers[1:], 0.0)
    pools: list[tuple[float, float, int]] = []  # of g, of a, and how many levels
    for size, share in zip(np.maximum(sizes, 0.0).tolist(), shares.tolist(), strict=True):
        pools.append((size, share, 1))
        while len(pools) > 1 and pools[-1][0] * pools[-2][1] < pools[-2][0] * pools[-1][1]:
            one, other = pools.pop(), pools.pop()
            pools.append((one[0] + other[0], one[1] + other[1], one[2] + other[2]))
    rates = np.concatenate([np.full(many, math.sqrt(g / a)) for g, a, many in pools])
    found: Floats = rates / float(shares @ rates)
    return found


def _measured(name: str, cuts: Ints, factors: Ints, branching: int) -> Workload:
    """Counts of the blocks of each level, each level with its factor."""
    domain, atoms = Domain((name,), (int(cuts[-1]),)), len(cuts) - 1
    atom = np.repeat(np.arange(atoms), np.diff(cuts))
    blocks = []
    for level, factor in enumerate(factors.tolist()):
        if not factor:
            continue
        merged = atom // branching**level
        many = int(merged[-1]) + 1
        grouping = Grouping(((domain, merged, 1),), np.arange(many))
        if many == 1:
            grouping = Grouping((), np.zeros(1, np.int64))
        blocks.append(Block(ALWAYS, (Weight((Term(ALWAYS),), factor),), (grouping,)))
    return Workload(domain, tuple(blocks))
