"""MWEM: the paper's theorem on instances that nearly reach it, and the rounds that are used."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from dpsql.accounting.events import PICO
from dpsql.accounting.kept.stored import Stored
from dpsql.curator.sensitivity import sensitivity
from dpsql.domain import Domain
from dpsql.errors import UsageError
from dpsql.mechanisms.intervals.noises import Joint
from dpsql.mechanisms.reuse.several import Several
from dpsql.mechanisms.synopses.learnt import learnt as fitted_to
from dpsql.mechanisms.synopses.multiplicative import averaged, question
from dpsql.mechanisms.synopses.mwem import Listed, Plan, bound, learnt, planned, textbook
from dpsql.mechanisms.synopses.purchase import counted
from dpsql.query.linear import Block, Table, Workload
from dpsql.schema import Neighbours
from tests.mechanisms.boxes import ONE, asked, box, single

# -- the theorem -----------------------------------------------------------------------------------


def run(domain, rows, queries, epsilon, times, draw):
    """Every query's error of the mean iterate; rows are those of each cell. Laplace noise and the
    exponential mechanism, half of epsilon / T each."""
    listed = [question(domain, query) for query in queries]
    total = rows.sum()
    true = np.array([float(one.values.reshape(-1) @ summed(one, domain, rows)) for one in listed])
    each = epsilon / times / 2

    def pick(guesses):
        scores = np.abs(true - guesses)
        if epsilon == math.inf:
            return int(scores.argmax())
        return int((scores * each / 2 + draw.gumbel(size=len(scores))).argmax())

    def measure(place):
        return true[place] + (draw.laplace(0, 1 / each) if epsilon < math.inf else 0.0)

    states = textbook(domain, total, listed, pick, measure, times)
    assert len(states) == times
    means = np.array([averaged(states, query)[0].item() for query in queries])
    return np.abs(means - true)


def summed(one, domain, rows):
    """The rows of each combination of a query's classes, summed from those of cells."""
    codes = domain.grid()
    at = np.zeros(domain.cells, np.int64)
    for name, of in one.classes.items():
        at = at * (int(of.max()) + 1) + of[codes[name]]
    return np.bincount(at, rows.reshape(-1), one.values.size)


def half(domain, draw):
    """Half of the values of each column, a quarter of the cells."""
    return asked(domain, {name: draw.random(domain.size(name)) < 0.5 for name in domain.names})


def cell(domain, at):
    return asked(domain, {domain.names[0]: np.arange(domain.cells) == at})


@pytest.mark.parametrize("size", [16, 256, 4096])
def test_the_error_of_the_mean_iterate_is_below_its_bound_and_above_half_of_it(size):
    """All rows are in one cell, of which alone something is asked. Its weight grows by exp(1/2) at
    most in a round, so for nearly 2 ln N rounds p has hardly anything there: at T = 2 ln N the mean
    is off by nearly all rows, where the bound is sqrt(2) of them."""
    domain = Domain(("x",), (size,))
    rows = np.zeros(size)
    rows[5] = 1000.0
    times = math.ceil(2 * math.log(size))
    (error,) = run(domain, rows, [cell(domain, 5)], math.inf, times, None)
    most = bound(size, 1000.0, 1, times, math.inf)
    assert most / 2 < error <= most


def test_more_rounds_bring_the_mean_down_as_the_bound_does():
    """Of random queries on a random table the worst is within the bound, whatever T is."""
    domain, draw = Domain(("x", "y"), (16, 16)), np.random.default_rng(5)
    rows = np.round(1000 * draw.dirichlet(np.full(256, 0.02))).reshape(16, 16)
    queries = [half(domain, draw) for _ in range(60)]
    worst = []
    for times in (4, 16, 64):
        errors = run(domain, rows, queries, math.inf, times, draw)
        assert errors.max() <= bound(256, rows.sum(), 60, times, math.inf)
        worst.append(errors.max())
    assert worst[2] < worst[1] < worst[0]


def test_noise_and_choices_stay_within_the_bound():
    """With probability 1 - 2 T / k each time; a false alarm in 20 runs is one of ten at most."""
    domain, draw = Domain(("x", "y"), (16, 16)), np.random.default_rng(6)
    rows = np.round(5000 * draw.dirichlet(np.full(256, 0.02))).reshape(16, 16)
    queries = [half(domain, draw) for _ in range(200)]
    most = bound(256, rows.sum(), 200, 5, 1.0)
    found = [run(domain, rows, queries, 1.0, 5, draw).max() for _ in range(10)]
    assert max(found) <= most


# -- rounds ----------------------------------------------------------------------------------------

DOMAIN = Domain(("a", "b", "c", "d"), (4, 3, 5, 6))


def squared(workload):
    return sensitivity(workload, Neighbours.ADD_REMOVE, 1).squared


def pairs(domain=DOMAIN):
    """A row's count in every cell of every two columns, one query each."""
    blocks = []
    for one, two in itertools.combinations(domain.names, 2):
        for x, y in np.ndindex(domain.size(one), domain.size(two)):
            masks = {one: np.arange(domain.size(one)) == x, two: np.arange(domain.size(two)) == y}
            blocks.append(Block(box(domain, masks), single(domain).blocks[0].weights, ONE))
    return Workload(domain, tuple(blocks))


class Rows:
    """Rounds without noise over some rows, that note what is asked."""

    def __init__(self, listed: Workload, codes: dict[str, np.ndarray]) -> None:
        self.codes, self.counts = codes, np.ones(len(codes["a"]), np.int64)
        self.true = np.concatenate([b.reshape(-1) for b in self.measure(listed)])
        self.picked: list[int] = []
        self.among: list[int] = []

    def measure(self, asked):
        return tuple(asked.matvec(self.codes, self.counts))

    first = measure

    def pick(self, guesses, among):
        self.picked.append(int(among[np.abs(self.true - guesses)[among].argmax()]))
        self.among.append(len(among))
        return self.picked[-1]


def people(count=3000):
    """b follows from a, d from c, and nothing else."""
    draw = np.random.default_rng(9)
    a, c = draw.integers(0, 4, count), draw.integers(0, 5, count)
    return {"a": a, "b": a % 3, "c": c, "d": (c + draw.integers(0, 2, count)) % 6}


def plan_of(workload, times=2, rho=10.0, cells=1 << 16) -> Plan:
    return planned(Listed.of(workload, cells), workload.domain, int(rho * PICO), times, 1, squared)


def test_the_tables_that_p_errs_most_on_are_found_and_then_it_errs_on_none():
    plan = plan_of(pairs())
    rows = Rows(plan.listed.workload, people())
    stored = learnt(plan, rows)
    names = [tuple(family.classes) for family in stored.families]
    assert names[:4] == [("a",), ("b",), ("c",), ("d",)]
    assert set(names[4:]) == {("a", "b"), ("c", "d")}
    assert stored.picked == tuple(rows.picked)
    state = fitted_to(DOMAIN, [stored])
    true = np.zeros(DOMAIN.sizes)
    np.add.at(true, tuple(people().values()), 1)
    for kept, off in ((("a", "b"), 2), (("c", "d"), 2), (("a", "c"), 40)):
        gone = tuple(i for i, name in enumerate(DOMAIN.names) if name not in kept)
        assert state.marginal(kept) == pytest.approx(true.sum(axis=gone), abs=off)


class Noisy(Rows):
    """Rounds with the noise and the choices that were bought."""

    def __init__(self, plan: Plan, codes: dict[str, np.ndarray], draw: np.random.Generator) -> None:
        self.event, self.draw = plan.event, draw
        super().__init__(plan.listed.workload, codes)
        self.true = np.concatenate([b.reshape(-1) for b in super().measure(plan.listed.workload)])

    def measure(self, asked):
        width = math.sqrt(self.event.each.variance)
        return tuple(
            block + np.rint(self.draw.normal(0, width, block.shape)).astype(np.int64)
            for block in super().measure(asked)
        )

    first = measure

    def pick(self, guesses, among):
        scores = np.abs(self.true - guesses)[among] / float(self.event.pick.scale)
        return int(among[(scores + self.draw.gumbel(size=len(among))).argmax()])


def test_intervals_cover_as_often_as_they_say_though_noise_decides_what_is_measured():
    """Columns that have nothing to do with each other: p errs by the noise of single columns alone.
    100 synopses; a false alarm in 10^5, either way."""
    draw = np.random.default_rng(1)
    codes = {name: draw.integers(0, DOMAIN.size(name), 600) for name in DOMAIN.names}
    sets = [(n,) for n in DOMAIN.names] + list(itertools.combinations(DOMAIN.names, 2))
    tables = [counted(DOMAIN.project(names), [names]) for names in sets]
    hits = count = 0
    for _ in range(100):
        plan = plan_of(pairs(), 2, 0.02)
        told = Several(learnt(plan, Noisy(plan, codes, draw)))
        for table in tables:
            (found,) = told.answers(table)
            if found.spread.known.all():
                (true,) = table.matvec(codes, np.ones(600, np.int64))
                half = Joint(found).half({0: Fraction(1)}, 0.95)
                hits += int((np.abs(found.centre - true)[:, 0] <= half).sum())
                count += len(true)
    assert count > 5000
    assert binom.ppf(1e-5, count, 0.95) <= hits <= binom.isf(1e-5, count, 0.955)


def test_what_a_table_tells_is_not_chosen_again():
    plan = plan_of(pairs(), times=6)
    assert plan.listed.rounds == 6
    rows = Rows(plan.listed.workload, people())
    stored = learnt(plan, rows)
    assert len({tuple(family.classes) for family in stored.families}) == 10
    assert rows.among[0] == plan.listed.workload.size and rows.among[-1] <= 30


def test_a_query_without_a_table_is_measured_alone():
    plan = plan_of(pairs(), times=3, cells=12)  # but for a and b: 12 cells
    rows = Rows(plan.listed.workload, people())
    stored = learnt(plan, rows)
    later = stored.families[4:]
    assert all(len(family.origin) == 1 or tuple(family.classes) == ("a", "b") for family in later)
    alone = [family for family in later if len(family.origin) == 1]
    assert alone and len(stored.picked or ()) == 3
    for place, family, values in zip(stored.picked, later, stored.values[4:], strict=True):
        if family in alone:
            assert values.item() == rows.true[place] * plan.each
    assert plan.listed.rounds == 1 + plan.listed.workload.size - 12


def test_single_columns_need_no_round():
    first = asked(DOMAIN, {"a": np.arange(4) == 1})
    assert Listed.of(first, 100).rounds == 0
    assert Listed.of(pairs(), 100).rounds == 6
    masks = {name: np.arange(DOMAIN.size(name)) == 1 for name in "abc"}
    both = Workload(DOMAIN, (*pairs().blocks, *asked(DOMAIN, masks).blocks))
    assert Listed.of(both, 100).rounds == 4  # of a, b, c one; ad, bd, cd


@pytest.mark.parametrize("rho", [1e-6, 0.003, 1.0, 50.0])
@pytest.mark.parametrize("times", [1, 7])
def test_all_rounds_cost_what_was_asked_for_or_a_little_less(rho, times):
    plan = plan_of(pairs(), times, rho)
    event = plan.event
    assert 0.97 * rho * PICO <= event.rho <= rho * PICO
    assert event.first.rho == pytest.approx(0.15 * rho * PICO, rel=0.1)
    share = 0.2 * 0.85 * rho * PICO / times
    assert 0.96 * share <= event.pick.rho <= share  # at large prices its pure epsilon is less
    assert event.first.sensitivity_squared == squared(plan.singles)
    singles, later = plan.stddevs
    assert later == pytest.approx(math.sqrt(1 / (2 * event.each.rho / PICO)), rel=1e-4)
    assert singles == pytest.approx(math.sqrt(4 / (2 * event.first.rho / PICO)), rel=1e-4)


def test_a_price_that_buys_nothing_is_refused():
    for rho, times in ((2 / PICO, 1), (100 / PICO, 99)):
        with pytest.raises(UsageError, match="too small"):
            plan_of(pairs(), times, rho)


def test_what_was_chosen_is_kept_with_what_was_measured():
    plan = plan_of(pairs())
    stored = learnt(plan, Rows(plan.listed.workload, people()))
    again = Stored.from_bytes(stored.to_bytes())
    assert again.picked == stored.picked and again.apart
    assert [f.key for f in again.families] == [f.key for f in stored.families]
    assert all(map(np.array_equal, again.values, stored.values))
    assert fitted_to(DOMAIN, [again]).dense() == pytest.approx(fitted_to(DOMAIN, [stored]).dense())


def test_a_query_of_too_many_cells_is_refused():
    domain = Domain(("x",), (1 << 21,))
    table = Table(domain, np.arange(1 << 21))
    with pytest.raises(ValueError, match="too many cells"):
        Listed.of(single(domain, table=table), 100)
