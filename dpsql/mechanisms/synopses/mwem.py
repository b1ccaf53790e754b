"""MWEM: the worst query is found and measured, round after round (Hardt, Ligett, McSherry 2012).

`textbook` is the algorithm of the paper: each round the exponential mechanism picks the query on
which p errs most, it is measured, and p takes one multiplicative step towards it. The mean of all
iterates p_0 ... p_(T-1) errs on no query by more than

    2 n sqrt(ln N / T) + 10 T ln k / epsilon

for k queries with values in [-1, 1] on n rows, N cells and an epsilon for all T rounds, with
probability 1 - 2 T / k (theorem 2.2).

`learnt` is what is used: tables of single columns first; then the whole table of the columns of
the query that was picked is measured (the query alone where that has too many cells), and p is
fitted anew to all that was measured, by maximum entropy: the last iterate, with all measurements
replayed until nothing changes. A query that a table tells is not picked again, so nothing is
measured twice because of what its noise looked like. Scores are not lowered by the noise that the
table would have (McKenna, Mullins, Sheldon, Miklau 2022, arXiv:2201.12677): on workloads of 600 and
1,000 queries of adult that changed mean errors by less than runs differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import PICO, Exponential, Gaussian, Rounds
from dpsql.accounting.kept.stored import Stored
from dpsql.domain import Domain
from dpsql.errors import UsageError
from dpsql.mechanisms import gaussian
from dpsql.mechanisms.synopses.entropy import STEPS, Fit, fitted
from dpsql.mechanisms.synopses.expectation import answers
from dpsql.mechanisms.synopses.factors import Factored
from dpsql.mechanisms.synopses.guesses import queries
from dpsql.mechanisms.synopses.junction import CELLS as MOST
from dpsql.mechanisms.synopses.junction import Entangled, Floats, Names
from dpsql.mechanisms.synopses.layout import layout
from dpsql.mechanisms.synopses.learnt import of_family
from dpsql.mechanisms.synopses.multiplicative import Question, exponential
from dpsql.mechanisms.synopses.noisy import NoisyTable, total
from dpsql.mechanisms.synopses.purchase import counted
from dpsql.query.canon import Family, placed
from dpsql.query.linear import Workload

WARM = 0.15  # of the price is for tables of single columns
PICK = 0.2  # of a round's price is for the choice
FINE = 64  # factor of the tables: those of single columns are then within 2 % of their share
_GRID = 1 << 20

Ints: TypeAlias = NDArray[np.int64]


class Buys(Protocol):
    """Rounds that were paid for (`curator.chooser.Chooser`)."""

    def first(self, asked: Workload) -> tuple[NDArray[Any], ...]: ...
    def pick(self, guesses: Ints, among: Ints) -> int: ...
    def measure(self, asked: Workload) -> tuple[NDArray[Any], ...]: ...


# -- what is asked ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    """The queries of a workload: the columns of each, and whether the table of these is `small`
    enough to be measured; else the query is measured alone."""

    workload: Workload
    names: tuple[frozenset[str], ...]
    small: NDArray[np.bool_]

    @classmethod
    def of(cls, workload: Workload, cells: int) -> Listed:
        """Tables have so many `cells` at most. Raises ValueError for queries that depend on too
        many to be kept."""
        names: list[frozenset[str]] = [frozenset()] * workload.size
        small = np.ones(workload.size, np.bool_)
        for family, places in placed(workload):
            if family is None:
                raise ValueError("a query depends on too many cells")
            own = frozenset(family.classes)
            small[places] = math.prod(len(of) for of in family.classes.values()) <= cells
            for place in places.tolist():
                names[place] = own
        return cls(workload, tuple(names), small)

    @property
    def rounds(self) -> int:
        """So many rounds there are at least before nothing is left to pick.

        Sets of columns within no other one each take a round; so does each query without a table.
        """
        sets = {own for own, small in zip(self.names, self.small, strict=True) if small}
        widest = [own for own in sets if len(own) > 1 and not any(own < other for other in sets)]
        return len(widest) + int((~self.small).sum())


# -- what is bought --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What is bought: factors of what is measured first, and in each round; all has one noise."""

    listed: Listed
    domain: Domain
    event: Rounds
    first: int
    each: int

    @property
    def singles(self) -> Workload:
        """The tables of single columns."""
        return counted(self.domain, [(name,) for name in self.domain.names], self.first)

    @property
    def stddevs(self) -> tuple[float, float]:
        """The standard error of a cell of the first tables, and of the later ones, in rows."""
        noise = math.sqrt(self.event.each.variance)
        return noise / self.first, noise / self.each


def planned(
    listed: Listed,
    domain: Domain,
    rho: int,
    times: int,
    unit: int,
    squared: Callable[[Workload], int],
) -> Plan:
    """The rounds that a price (in pico) affords: 15 % for the tables of single columns, and of the
    rest of each round a fifth for the choice.

    `unit` is how far a count moves between neighbours, `squared` tells the squared L2 sensitivity
    of a workload. Raises UsageError where the price is too small.
    """
    names = domain.names
    warm = int(WARM * rho)
    pick = max(int((rho - warm) * PICK) // times, 1)
    each = (rho - warm) // times - pick
    if not (warm > 0 and each > 0):
        raise UsageError(f"the price is too small for {times} rounds")
    of_table, of_singles = (squared(counted(domain, sets)) for sets in ([names[:1]], _all(names)))
    fine = FINE
    while True:
        noise = gaussian.noise(fine**2 * of_table, each)
        first = math.isqrt(int(2 * noise.variance * warm / (of_singles * PICO)))
        if first >= FINE // 4 or fine >= FINE << 20:
            break
        fine *= 2
    if not first:
        raise UsageError("the price is too small for the tables of so many columns")
    event = Rounds(
        Gaussian(first**2 * of_singles, noise.variance),
        Exponential(unit, scale_of(unit, pick)),
        Gaussian(fine**2 * of_table, noise.variance),
        times,
    )
    return Plan(listed, domain, event, first, fine)


def _all(names: Names) -> list[Names]:
    return [(name,) for name in names]


def scale_of(unit: int, rho: int) -> Fraction:
    """That of an exponential mechanism at a price: (2 D / b)^2 / 8 = rho, b rounded up."""
    exact = unit * math.sqrt(PICO / (2 * rho)) * (1 + 1e-12)
    return Fraction(math.ceil(exact * _GRID), _GRID)


# -- rounds ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Learner:
    """What was measured so far, and the distribution that is fitted to it."""

    plan: Plan
    families: list[Family] = field(default_factory=list)
    values: list[Ints] = field(default_factory=list)
    tables: list[NoisyTable] = field(default_factory=list)
    every: list[NoisyTable] = field(default_factory=list)  # those left out of the fit, too
    fit: Fit | None = None

    def take(self, asked: Workload, noisy: Sequence[NDArray[Any]]) -> None:
        """Learn what was measured of a workload."""
        law = self.plan.event.each
        found = Stored.of(asked, law, noisy)
        assert found is not None  # counts of few cells
        for family, values in zip(found.families, found.values, strict=True):
            self.families.append(family)
            self.values.append(values)
            told = values.astype(np.float64) / family.factor
            table = of_family(self.plan.domain, family, told, float(law.variance))
            if table is None:
                continue
            self.every.append(table)
            if table.names and self._fits(table):
                self.tables.append(table)
        rows = total(self.every)
        self.fit = fitted(self.plan.domain, rows, self.tables, before=self.fit, steps=STEPS)

    def _fits(self, table: NoisyTable) -> bool:
        try:
            layout(self.plan.domain, [*self.tables, table], MOST)
        except Entangled:
            return False
        return True

    def guesses(self, before: Ints | None) -> Ints:
        """What the distribution answers; where it is too entangled, what was guessed before."""
        assert self.fit is not None
        found, state = [], self.fit.state
        listed, start = self.plan.listed.workload, 0
        for block in listed.blocks:
            stop = start + block.groups * len(block.weights)
            try:
                (own,) = answers(state, Workload(listed.domain, (block,)))
                found.append(np.rint(own.reshape(-1)).astype(np.int64))
            except Entangled:
                found.append(
                    np.zeros(stop - start, np.int64) if before is None else before[start:stop]
                )
            start = stop
        return np.concatenate(found)


def learnt(plan: Plan, buys: Buys) -> Stored:
    """What all rounds measured, with the places of the queries that were picked for it."""
    listed, learner = plan.listed, _Learner(plan)
    single = list(queries(listed.workload))
    learner.take(plan.singles, buys.first(plan.singles))
    open_ = np.array([len(own) > 1 or not small for own, small in _both(listed)], np.bool_)
    picked: list[int] = []
    guesses: Ints | None = None
    for _ in range(plan.event.times):
        guesses = learner.guesses(guesses)
        place = buys.pick(guesses, np.flatnonzero(open_))
        picked.append(place)
        if listed.small[place]:
            own = listed.names[place]
            names = tuple(name for name in plan.domain.names if name in own)
            asked = counted(plan.domain.project(names), [names], plan.each)
            open_ &= np.array([not (one <= own and small) for one, small in _both(listed)])
        else:
            asked = _times(single[place], plan.each)
            open_[place] = False
        learner.take(asked, buys.measure(asked))
    return Stored(
        tuple(learner.families), plan.event.each, tuple(learner.values), picked=tuple(picked)
    )


def _both(listed: Listed) -> list[tuple[frozenset[str], bool]]:
    return list(zip(listed.names, listed.small.tolist(), strict=True))


def _times(query: Workload, factor: int) -> Workload:
    """A lone query whose weight has this factor."""
    (block,) = query.blocks
    (weight,) = block.weights
    return Workload(query.domain, (replace(block, weights=(replace(weight, factor=factor),)),))


# -- as in the paper -------------------------------------------------------------------------------


def textbook(
    domain: Domain,
    rows: float,
    asked: Sequence[Question],
    pick: Callable[[Floats], int],
    measure: Callable[[int], float],
    times: int,
) -> list[Factored]:
    """The iterates p_0 ... p_(T-1), whose mean (`multiplicative.averaged`) the theorem is about.

    `pick` is given what p answers to each query, in rows, and tells which one errs most, or nearly;
    `measure` gives its noisy answer. Queries have values in [-1, 1].
    """
    states = [Factored(domain, rows)]
    for _ in range(times):
        state = states[-1]
        guesses = rows * np.array([one.share(state) for one in asked])
        place = pick(guesses)
        step = (measure(place) - guesses[place]) / (2 * rows)
        states.append(exponential(state, asked[place], step))
    return states[:-1]


def bound(cells: int, rows: float, queries: int, times: int, epsilon: float) -> float:
    """How far the mean of the iterates errs at most, in rows (theorem 2.2)."""
    noise = 10 * times * math.log(queries) / epsilon if epsilon < math.inf else 0.0
    return 2 * rows * math.sqrt(math.log(cells) / times) + noise
