"""Releases on a table and on its neighbour cannot be told apart by more than was paid for.

The auditor sees whole vectors of released integers from the curator, forms the statistic that
tells the two tables apart best, and looks for a half line with P(E) > e^epsilon Q(E) + delta. Half
of the releases choose it, on the other half both chances are bounded by Clopper and Pearson at
2.5e-7: false alarm 1e-6. Sensitivities that are wrong on purpose are caught.
"""

from __future__ import annotations

import math
import random
import time
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import beta, rankdata

from dpsql.accounting.convert import epsilon_of
from dpsql.accounting.events import PICO, Gaussian, Laplace
from dpsql.accounting.ledger import Ledger
from dpsql.curator.cells import Cells
from dpsql.curator.curator import Curator
from dpsql.curator.quote import GaussianNoise, LaplaceNoise
from dpsql.curator.sealed import Sealed
from dpsql.curator.sensitivity import Sensitivity
from dpsql.domain import Domain
from dpsql.query.linear import Block, Grouping, Table, Term, Weight, Workload
from dpsql.query.predicate import ALWAYS
from dpsql.schema import Column, Dataset, Kind, Neighbours, Source, Unit

RELEASES = 2_400
ALARM = 2.5e-7
AGE = Column("age", Kind.INTEGER, minimum=0, maximum=3)
DOMAIN = Domain(("age",), (4,))
TOTAL = Grouping((), np.zeros(1, np.int64))
BY_AGE = Grouping(((DOMAIN, np.arange(4), 1),), np.arange(4))
COUNT = Weight((Term(ALWAYS),))
AGES = Weight((Term(ALWAYS, Table(DOMAIN, np.arange(4))),))


class Fixed:
    """An engine whose counts by age are given."""

    def __init__(self, counts: list[int], neighbours: Neighbours, rows: int) -> None:
        unit = Unit("id", rows) if rows > 1 else Unit()
        self.dataset = Dataset("d", (AGE,), neighbours, unit, Source(table="t"))
        self._counts = np.array(counts, np.int64)

    def counts(self, columns):
        if not columns:
            return Sealed(Cells({}, np.array([self._counts.sum()])))
        kept = np.flatnonzero(self._counts)
        return Sealed(Cells({"age": kept.astype(np.int64)}, self._counts[kept]))

    def ready(self):
        pass

    def snapshot(self):
        return "the same"


def releases(counts, workload, noise, neighbours=Neighbours.ADD_REMOVE, rows=1, times=RELEASES):
    """Releases x answers, and the event that paid for each."""
    ledger = Ledger.memory()
    ledger.grant("alice", dataset="d", epsilon=1e6)
    curator = Curator(Fixed(counts, neighbours, rows), ledger, "alice")
    found = [curator.measure(workload, noise, "q") for _ in range(times)]
    return np.array([np.concatenate([b.ravel() for b in m.answers]) for m in found]), found[0].event


def workload(weights, groupings) -> Workload:
    return Workload(DOMAIN, (Block(ALWAYS, tuple(weights), tuple(groupings)),))


def proves(one: np.ndarray, other: np.ndarray, epsilon: float, delta: float) -> bool:
    """Whether a statistic of releases on two tables breaks (epsilon, delta)."""
    chosen, half = np.concatenate([one[::2], other[::2]]), one.size / 2
    ends = np.unique(np.quantile(chosen, np.linspace(0, 1, 300)))
    p, q = (np.searchsorted(np.sort(some[::2]), ends, "right") / half for some in (one, other))
    doubts = [5 * np.sqrt(share * (1 - share) / half) for share in (p, q)]
    end = ends[np.argmax(p - doubts[0] - math.exp(epsilon) * (q + doubts[1]))]
    one, other = one[1::2], other[1::2]
    hits, others = int((one <= end).sum()), int((other <= end).sum())
    lower = beta.ppf(ALARM, hits, one.size - hits + 1) if hits else 0.0
    upper = beta.ppf(1 - ALARM, others + 1, other.size - others) if others < other.size else 1.0
    return bool(lower - math.exp(epsilon) * upper > delta)


def told_apart(on, off, event) -> bool:
    """Whether the event's price is broken, in either order of the tables."""
    direction = off.mean(axis=0) - on.mean(axis=0)
    for one, other in ((on @ direction, off @ direction), (-off @ direction, -on @ direction)):
        match event:
            case Laplace(epsilon=epsilon):
                if proves(one, other, epsilon / PICO, 0.0):
                    return True
            case Gaussian(rho=rho):
                for delta in (0.3, 0.1, 0.02):
                    if proves(one, other, epsilon_of(rho, delta), delta):
                        return True
    return False


CASES = {
    "a count": ([COUNT], [TOTAL], [3, 0, 0, 0], [4, 0, 0, 0], {}),
    "an only row": ([COUNT], [BY_AGE], [0, 0, 0, 0], [0, 0, 1, 0], {}),
    "groups and total": ([COUNT, COUNT], [BY_AGE, TOTAL], [1, 0, 2, 0], [1, 0, 3, 0], {}),
    "a sum and a count": ([AGES, COUNT], [TOTAL], [1, 0, 2, 0], [1, 0, 2, 1], {}),
    "another row": (
        [COUNT], [BY_AGE], [1, 0, 2, 0], [0, 0, 3, 0], {"neighbours": Neighbours.REPLACE_ONE},
    ),
    "a unit of three": ([COUNT], [BY_AGE], [1, 0, 2, 0], [1, 3, 2, 0], {"rows": 3}),
}  # fmt: skip
NOISES = [GaussianNoise(Fraction(9)), LaplaceNoise(Fraction(4))]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("noise", NOISES, ids=["gaussian", "laplace"])
def test_neighbours_cannot_be_told_apart_beyond_the_price(case, noise):
    weights, groupings, one, other, declared = CASES[case]
    asked = workload(weights, groupings)
    on, event = releases(one, asked, noise, **declared)
    off, same = releases(other, asked, noise, **declared)
    assert event == same
    assert not told_apart(on, off, event)


WRONG = {
    "a sum and a count": Sensitivity(1, 1, 1, True),
    "a unit of three": Sensitivity(1, 1, 1, True),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("noise", NOISES, ids=["gaussian", "laplace"])
def test_a_sensitivity_that_is_too_small_is_told_apart(case, noise, monkeypatch):
    """Law: as if it were a constant. A price of a quarter and less of the true one is broken."""
    weights, groupings, one, other, declared = CASES[case]
    monkeypatch.setattr("dpsql.curator.quote.moved", lambda asked, dataset: WRONG[case])
    asked = workload(weights, groupings)
    on, event = releases(one, asked, noise, times=3_000, **declared)
    off, _ = releases(other, asked, noise, times=3_000, **declared)
    assert told_apart(on, off, event)


def test_counts_without_noise_are_told_apart(monkeypatch):
    monkeypatch.setattr(
        "dpsql.curator.noise.gaussian", lambda variance, size: np.zeros(size, np.int64)
    )
    asked = workload([COUNT], [BY_AGE])
    on, event = releases([0, 0, 0, 0], asked, NOISES[0])
    off, _ = releases([0, 0, 1, 0], asked, NOISES[0])
    assert told_apart(on, off, event)


# -- time ----------------------------------------------------------------------------------------


def test_the_time_of_an_answer_does_not_tell_its_noise():
    """A20: rank correlation of time and size over 12,000 releases; 0.05 is 5.5 stddevs of 0."""
    count = 12_000
    ledger = Ledger.memory()
    ledger.grant("alice", dataset="d", epsilon=1e6)
    curator = Curator(Fixed([5, 0, 1, 2], Neighbours.ADD_REMOVE, 1), ledger, "alice")
    asked, noise = workload([COUNT], [TOTAL]), GaussianNoise(Fraction(10_000))
    taken, sizes = np.zeros(count), np.zeros(count)
    for i in range(count):
        started = time.perf_counter_ns()
        [[[answer]]] = curator.measure(asked, noise, "q").answers
        taken[i], sizes[i] = time.perf_counter_ns() - started, abs(int(answer) - 8)
    correlation = np.corrcoef(rankdata(taken), rankdata(sizes))[0, 1]
    assert abs(correlation) < 0.05


def test_the_time_of_an_answer_does_not_tell_neighbours():
    """A19: the chance that the one takes longer than the other, 4,000 each in random order.

    Its standard deviation is 0.0065 where times are alike; 0.05 is 7.7 of these.
    """
    curators = []
    for counts in ([40, 0, 3, 2], [41, 0, 3, 2]):
        ledger = Ledger.memory()
        ledger.grant("alice", dataset="d", epsilon=1e6)
        curators.append(Curator(Fixed(counts, Neighbours.ADD_REMOVE, 1), ledger, "alice"))
    asked, noise = workload([COUNT], [BY_AGE]), GaussianNoise(Fraction(100))
    order = [0, 1] * 4_000
    random.Random(61).shuffle(order)
    taken: tuple[list[int], list[int]] = ([], [])
    for which in order:
        started = time.process_time_ns()
        curators[which].measure(asked, noise, "q")
        taken[which].append(time.process_time_ns() - started)
    ranks = rankdata(np.concatenate(taken))
    area = (ranks[:4_000].sum() - 4_000 * 4_001 / 2) / 4_000**2
    assert abs(area - 0.5) < 0.05
