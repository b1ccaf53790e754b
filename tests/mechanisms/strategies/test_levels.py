"""Trees for intervals of one column: no bias, the error that is claimed, the best level weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest

from dpsql.accounting.events import Gaussian
from dpsql.curator.quote import GaussianNoise, quote
from dpsql.domain import Domain
from dpsql.mechanisms.reuse.fit import Model
from dpsql.mechanisms.strategies import levels, plans
from dpsql.mechanisms.strategies.levels import Leveled, level_rates, level_sizes, leveled
from dpsql.mechanisms.strategies.optimum import optimum
from dpsql.mechanisms.strategies.rows import Prefixes, Ranges
from dpsql.query.canon import families
from dpsql.query.linear import Block, Grouping, Table, Term, Weight, Workload
from dpsql.query.predicate import ALWAYS, FALSE, TRUE, Leaf
from tests.curator.brute import ADD, REPLACE
from tests.curator.test_footprint import dataset

TOTAL = Grouping((), np.zeros(1, np.int64))


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A tree for intervals of any number."""
    monkeypatch.setattr(plans, "MANY", 3)
    monkeypatch.setattr(levels, "MANY", 3)
    monkeypatch.setattr(levels, "CELLS", 2)
    yield


def intervals(size: int, spans: Sequence[tuple[int, int]], factors: Sequence[int]) -> Workload:
    domain = Domain(("a",), (size,))
    blocks = []
    for (low, high), factor in zip(spans, factors, strict=True):
        table = np.full(size, FALSE, np.uint8)
        table[low:high] = TRUE
        counted = Weight((Term(Leaf(domain, table)),), factor)
        blocks.append(Block(ALWAYS, (counted,), (TOTAL,)))
    return Workload(domain, tuple(blocks))


def prefixes(size: int) -> Workload:
    return intervals(size, [(0, high + 1) for high in range(size)], [1] * size)


def columns(workload: Workload, size: int) -> np.ndarray:
    """What one row of each value adds to every query, (values, queries)."""
    found = [workload.matvec({"a": np.array([code])}, np.ones(1, np.int64)) for code in range(size)]
    return np.array([np.concatenate([b.reshape(-1) for b in each]) for each in found], np.float64)


def leveled_of(workload: Workload) -> Leveled | None:
    moved = quote(workload, dataset(), GaussianNoise(Fraction(1)))
    assert isinstance(moved, Gaussian)
    return leveled(workload, moved.sensitivity_squared)


def planned(workload: Workload) -> Leveled:
    found = leveled_of(workload)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("size", "rows"),
    [(64, Prefixes(64)), (32, Ranges(32)), (16, Ranges(16)), (37, Prefixes(37))],
)
def test_the_error_is_that_of_the_levels_that_are_measured(
    size: int, rows: Prefixes | Ranges
) -> None:
    """By dense algebra on the integers; the closed form for a power of 2 is within rounding."""
    spans = [(0, high + 1) for high in range(size)]
    if isinstance(rows, Ranges):
        spans = [(low, high + 1) for low in range(size) for high in range(low, size)]
    asked = intervals(size, spans, [1] * len(spans))
    plan = planned(asked)
    strategy, queries = columns(plan.strategy, size).T, columns(asked, size).T
    moved = (strategy**2).sum(axis=0).max()
    dense = np.einsum("qa,ab,qb->q", queries, np.linalg.inv(strategy.T @ strategy), queries)
    law = Gaussian(int(moved), Fraction(int(moved)))
    said = np.concatenate([spread.variances.reshape(-1) for spread in plan.spreads(law)])
    np.testing.assert_allclose(said, moved * dense, rtol=1e-7)
    whole = size & (size - 1) == 0
    assert math.sqrt(said.mean()) == pytest.approx(plan.rmse, rel=2e-3 if whole else 0.1)
    least = optimum(rows.gram(), rows.count, gap=1e-3)
    assert least.lower < math.sqrt(said.mean()) < 1.26 * least.rmse


def test_covariances_within_a_select_are_those_of_dense_algebra() -> None:
    """Sums, differences and ratios of its aggregates have their errors from these."""
    spans = [(0, high) for high in range(1, 14)] + [(3, 9), (5, 13), (8, 9)]
    asked = intervals(13, spans, [1] * 14 + [3, 1])
    weights = tuple(weight for block in asked.blocks for weight in block.weights)
    together = Workload(asked.domain, (Block(ALWAYS, weights, (TOTAL,)), *asked.blocks[:4]))
    plan = planned(together)
    strategy, queries = columns(plan.strategy, 13).T, columns(asked, 13).T
    moved = int((strategy**2).sum(axis=0).max())
    spread, *others = plan.spreads(Gaussian(moved, Fraction(moved)))
    dense = moved * queries @ np.linalg.inv(strategy.T @ strategy) @ queries.T
    np.testing.assert_allclose(spread.covariance, dense[None], rtol=1e-7, atol=1e-7)
    for at, other in enumerate(others):
        assert other.variances[0, 0] == pytest.approx(dense[at, at])


def test_no_other_weights_on_levels_are_better() -> None:
    """Around the best and at random: 500 trees over 16 values, which all ranges are asked of."""
    low, high = np.triu_indices(16)
    sizes = level_sizes(low, high + 1, np.ones(len(low)), 4)
    powers = 2.0 ** -np.arange(5)
    shares = powers - np.append(powers[1:], 0.0)
    best = level_rates(sizes)
    assert shares @ best == pytest.approx(1)
    rng = np.random.default_rng(11)
    for _ in range(500):
        other = np.sort(best * rng.lognormal(0.0, 0.3, 5))
        assert (sizes / best).sum() <= (sizes / (other / (shares @ other))).sum() * (1 + 1e-9)


def test_thousands_of_running_counts_err_as_little_as_a_tree_lets_them() -> None:
    """4.13 for 4,096 values, where counts of single values leave 45.3 and the optimum some 3.4."""
    high = np.arange(1, 4097)
    sizes = level_sizes(0 * high, high, np.ones(4096), 12)
    assert math.sqrt((sizes / level_rates(sizes)).sum() / 4096) == pytest.approx(4.130, abs=1e-3)


@pytest.mark.parametrize(("relation", "rows"), [(ADD, 1), (ADD, 3), (REPLACE, 1)])
def test_the_sensitivity_is_that_of_every_pair_of_neighbours(relation, rows: int) -> None:
    spans = [(0, 3), (0, 5), (2, 9), (1, 11), (4, 7), (3, 12)]
    plan = planned(intervals(13, spans, [1, 2, 1, 1, 3, 1]))
    found = columns(plan.strategy, 13)
    moved = (found**2).sum(axis=1).max()
    if relation is REPLACE:
        moved = ((found[:, None] - found[None]) ** 2).sum(axis=2).max()
    event = quote(plan.strategy, dataset(relation, rows), GaussianNoise(Fraction(1)))
    assert isinstance(event, Gaussian) and event.sensitivity_squared == moved * rows**2


def test_answers_have_no_bias_and_the_noise_that_is_said() -> None:
    """Exact without noise; 2,000 seeded draws: each variance within 20 %, a false alarm below
    1e-9, and the root of their mean within 2 %."""
    spans = [(0, high) for high in range(1, 22)] + [(3, 9), (5, 21), (20, 21)]
    asked = intervals(21, spans, [1] * 22 + [2, 1])
    plan = planned(asked)
    law = Gaussian(1, Fraction(1 << 42))
    counts = np.arange(21) * 7 % 23
    codes = {"a": np.arange(21)}
    bare = plan.strategy.matvec(codes, counts)
    true = [block.astype(np.float64) for block in asked.matvec(codes, counts)]
    for said, right in zip(plan.answered(bare, law).answers, true, strict=True):
        assert (said == right).all()
    rng, sigma = np.random.default_rng(5), math.sqrt(law.variance)
    listed = [family for own in families(plan.strategy) for family in own if family is not None]
    model, queries = Model.of([(family, law) for family in listed]), columns(asked, 21).T
    assert model is not None
    total = np.zeros(len(true))
    for _ in range(2000):
        noisy = [v + np.rint(rng.normal(0, sigma, v.shape)).astype(np.int64) for v in bare]
        values = [v[f.origin, 0] for v, f in zip(noisy, listed, strict=True)]
        answers = queries @ model.table(values, [])[model.design.label]
        total += (answers - np.concatenate(true).reshape(-1)) ** 2
    said = np.array([spread.variances[0, 0] for spread in plan.spreads(law)])
    ratios = total / 2000 / said
    assert (abs(ratios - 1) < 0.2).all() and abs(math.sqrt(ratios.mean()) - 1) < 0.02


def test_other_workloads_have_no_tree() -> None:
    assert leveled_of(prefixes(9)) is not None
    holed = intervals(9, [(0, n) for n in range(1, 9)], [1] * 8)
    table = np.full(9, FALSE, np.uint8)
    table[[1, 5]] = TRUE
    apart = Block(ALWAYS, (Weight((Term(Leaf(holed.domain, table)),)),), (TOTAL,))
    assert leveled_of(Workload(holed.domain, (*holed.blocks, apart))) is None
    sums = Block(ALWAYS, (Weight((Term(ALWAYS, Table(holed.domain, np.arange(9))),)),), (TOTAL,))
    assert leveled_of(Workload(holed.domain, (*holed.blocks, sums))) is None
    both = Domain(("a", "b"), (9, 2))
    other = Domain(("b",), (2,))
    half = Block(
        ALWAYS,
        (Weight((Term(Leaf(other, np.array([FALSE, TRUE], np.uint8))),)),),
        (TOTAL,),
    )
    assert leveled_of(Workload(both, (*holed.blocks, half))) is None


def test_where_the_optimum_is_found_there_is_no_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "CELLS", 9)
    assert leveled_of(prefixes(9)) is None and leveled_of(prefixes(10)) is not None


def test_what_is_nested_by_itself_is_measured_as_it_is() -> None:
    """As the years, months and days of a calendar are; the blocks of a tree are none of them."""
    domain = Domain(("a",), (30,))
    tens, ones = np.arange(30) // 10, np.arange(30)
    groupings = [Grouping(((domain, own, 1),), np.unique(own)) for own in (tens, ones)]
    block = Block(ALWAYS, (Weight((Term(ALWAYS),)),), (TOTAL, *groupings))
    assert leveled_of(Workload(domain, (block,))) is None


def test_the_best_branching_is_taken_and_all_are_told() -> None:
    """Thirds of 81 values, and ninths: halving is not the best; by dense algebra."""
    spans = [(size * at, size * at + size) for size in (1, 9, 27) for at in range(81 // size)]
    spans += [(27 * low, 27 * high) for low in range(3) for high in range(low + 1, 4)]
    asked = intervals(81, spans, [1] * len(spans))
    plan = planned(asked)
    errors = dict(plan.priced)
    assert list(errors) == [f"tree of {many} on a" for many in levels.BRANCHINGS]
    assert plan.rmse == min(errors.values()) < errors["tree of 2 on a"]
    assert plan.rmse == errors["tree of 3 on a"]
    strategy, queries = columns(plan.strategy, 81).T, columns(asked, 81).T
    moved = (strategy**2).sum(axis=0).max()
    dense = np.einsum("qa,ab,qb->q", queries, np.linalg.inv(strategy.T @ strategy), queries)
    assert math.sqrt(moved * dense.mean()) == pytest.approx(plan.rmse, rel=5e-3)
