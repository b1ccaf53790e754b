"""Products of matrices along columns: dense algebra, check values, bounds, no bias, the ledger."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from dpsql.accounting.events import Gaussian
from dpsql.accounting.kept.stored import Stored
from dpsql.curator.mixed import reach
from dpsql.domain import Domain
from dpsql.mechanisms.strategies import formulas, plans, products
from dpsql.mechanisms.strategies.formulas import along, bound, haar, root
from dpsql.mechanisms.strategies.grids import Grids
from dpsql.mechanisms.strategies.largest import smallest_largest
from dpsql.mechanisms.strategies.levels import level_rates, level_sizes
from dpsql.mechanisms.strategies.optimum import optimum
from dpsql.mechanisms.strategies.products import Products
from dpsql.mechanisms.strategies.rows import Listed as Given
from dpsql.mechanisms.strategies.separable import Bundle, Rows, separable
from dpsql.query.axis import Listed, Toeplitz
from dpsql.query.canon import families
from dpsql.query.linear import Block, Grouping, Table, Term, Weight, Workload
from dpsql.query.predicate import ALWAYS, FALSE, TRUE, And, Leaf, Or
from tests.curator.test_footprint import dataset

SIZES = {"a": 5, "b": 4, "c": 3}
DOMAIN = Domain(tuple(SIZES), tuple(SIZES.values()))
TOTAL = Grouping((), np.zeros(1, np.int64))
ONE = (Weight((Term(ALWAYS),)),)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if no optimum were found for the cells of these workloads."""
    monkeypatch.setattr(products, "FEW", 1)
    monkeypatch.setattr(products, "OPTIMAL", 1)
    monkeypatch.setattr(plans, "MANY", 3)
    yield


def leaf(name: str, kept: object) -> Leaf:
    truth = np.full(SIZES[name], FALSE, np.uint8)
    truth[kept] = TRUE
    return Leaf(DOMAIN.project([name]), truth)


def by(*names: str) -> Grouping:
    keys, stride = [], 1
    for name in reversed(names):
        keys.insert(0, (DOMAIN.project([name]), np.arange(SIZES[name]), stride))
        stride *= SIZES[name]
    return Grouping(tuple(keys), np.arange(stride))


def crossed() -> Workload:
    """Running counts of a by b, ranges, a mean by c, totals: some on other scales."""
    ages = Table(DOMAIN.project(["c"]), np.array([1, 5, 9]))
    summed = Weight((Term(ALWAYS, ages),))
    apart = (Weight((Term(leaf("a", slice(1, 3))),)), Weight((Term(leaf("a", slice(2, 5))),)))
    blocks = [Block(leaf("a", slice(0, n)), ONE, (by("b"),)) for n in range(1, 6)]
    blocks += [
        Block(ALWAYS, (*ONE, summed), (by("c"), TOTAL)),
        Block(
            And((leaf("a", slice(1, 4)), leaf("b", [0, 2]))), (Weight(ONE[0].terms, 3),), (TOTAL,)
        ),
        Block(leaf("b", slice(1, 4)), apart, (by("c"),)),
        Block(leaf("a", slice(0, 0)), ONE, (TOTAL,)),  # counts nobody
    ]
    return Workload(DOMAIN, tuple(blocks))


def cells() -> dict[str, np.ndarray]:
    codes = np.array(list(itertools.product(*map(range, SIZES.values())))).T
    return dict(zip(SIZES, codes, strict=True))


def matrix(part: object) -> np.ndarray:
    """W, or what is measured, cell by cell."""
    found = []
    for at in range(60):
        some = {name: codes[at : at + 1] for name, codes in cells().items()}
        told = part.matvec(some, np.ones(1, np.int64))
        flat = (
            told if isinstance(told, np.ndarray) else np.concatenate([b.reshape(-1) for b in told])
        )
        found.append(flat.reshape(-1))
    return np.array(found, np.float64).T


def planned(workload: Workload, **settings: bool) -> Products:
    found = products.products(workload, 1 << 40, **settings)
    assert found is not None
    return found


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("long", [False, True])
def test_errors_and_covariances_are_those_of_dense_algebra(
    largest: bool, long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the integers that are measured; each family by the product that tells it best."""
    if long:
        monkeypatch.setattr(formulas, "FIRST", 2)
        monkeypatch.setattr(formulas, "OPTIMAL", 2)
    asked = crossed()
    plan = planned(asked, largest=largest)
    kinds = {type(axis) for grid in plan.told.grids for axis in grid.axes}
    assert kinds == {Listed} if not long else kinds - {Listed}
    queries, start = matrix(asked), 0
    inverses = []
    for part in plan.strategy.parts:
        strategy = matrix(part)
        followed = queries @ np.linalg.pinv(strategy) @ strategy
        sound = np.isclose(followed, queries, atol=1e-6).all(axis=1)
        inverses.append((sound, np.linalg.pinv(strategy.T @ strategy)))
    law = Gaussian(1, Fraction(7))
    for block, spread in zip(asked.blocks, plan.spreads(law), strict=True):
        width = len(block.weights)
        assert spread.known.all()
        for group in range(block.groups):
            rows = queries[start : start + width]
            dense = [
                7 * rows @ inverse @ rows.T
                for sound, inverse in inverses
                if sound[start : start + width].all()
            ]
            own = spread.covariance[group]
            assert any(np.allclose(own, one, rtol=1e-6, atol=1e-6) for one in dense), (block, group)
            start += width
    moved = reach(plan.strategy, dataset())
    whole = np.concatenate([matrix(part) for part in plan.strategy.parts])
    assert (whole**2).sum(axis=0).max() <= moved.squared


def test_answers_have_no_bias_and_the_noise_that_is_said() -> None:
    """Exact without noise; 400 seeded draws: the root of the mean variance within 4 %, each within
    45 %, a false alarm below 1e-6. The same again when a ledger has kept it."""
    asked = crossed()
    plan = planned(asked)
    rng = np.random.default_rng(5)
    counts = rng.integers(0, 50, 60)
    true = np.concatenate([b.reshape(-1) for b in asked.matvec(cells(), counts)])
    values = [part.matvec(cells(), counts) for part in plan.strategy.parts]
    moved = reach(plan.strategy, dataset()).squared
    law = Gaussian(moved, Fraction(100 * moved))
    exact = plan.answered(values, law)
    np.testing.assert_array_equal(np.concatenate([b.reshape(-1) for b in exact.answers]), true)
    said = np.concatenate([spread.variances.reshape(-1) for spread in plan.spreads(law)])
    off = []
    for _ in range(400):
        drawn = [np.rint(rng.normal(0, 10 * math.sqrt(moved), v.shape)).astype(int) for v in values]
        noisy = [v + noise for v, noise in zip(values, drawn, strict=True)]
        noises = plan.answered(noisy, law).noises
        centres = [noise.centre(np.zeros(0)).reshape(-1) for noise in noises]
        off.append(np.concatenate(centres) - true)
    errors = np.square(off).mean(axis=0)
    seen = said > 0
    assert (errors[~seen] == 0).all() and (~seen).sum() == 1
    assert abs(math.sqrt(errors.sum() / said.sum()) - 1) < 0.04
    assert (np.abs(errors[seen] / said[seen] - 1) < 0.45).all()
    stored = plan.stored(noisy, law, [])
    assert stored is not None
    again = Stored.from_bytes(stored.to_bytes())
    for one, other in zip(Grids(stored).answers(asked), Grids(again).answers(asked), strict=True):
        np.testing.assert_array_equal(one.shown, other.shown)
        np.testing.assert_array_equal(one.spread.covariance, other.spread.covariance)
    assert again.strategy == stored.strategy
    assert [family.key for family in again.families] == [
        family.key for own in families(asked) for family in own if family is not None
    ]


def spans(kind: str, size: int) -> Rows:
    low, high = np.zeros(size, np.int64), np.arange(1, size + 1)
    if kind == "ranges":
        low, high = np.triu_indices(size)
        high = high + 1
    each = np.arange(len(low))
    return Rows.of([Bundle(low, high, each, np.ones(len(low)), len(low))], size)


@pytest.mark.parametrize(
    ("kind", "size", "identity", "toeplitz", "least", "svd"),
    [
        ("prefix", 64, 5.701, 2.128, 2.0999, 2.0401),
        ("prefix", 256, 11.336, 2.557, 2.5244, 2.4714),
        ("prefix", 1024, 22.639, 2.991, 2.9555, 2.9096),
        ("ranges", 64, 4.690, 2.465, 2.3022, 2.2773),
        ("ranges", 256, 9.274, 3.086, 2.9014, 2.8764),
    ],
)
def test_formulas_err_as_the_reference_values_say(
    kind: str, size: int, identity: float, toeplitz: float, least: float, svd: float
) -> None:
    """RMSE at D2 = s = 1 of the matrices in whole numbers; Haar's rows err as a
    binary tree with the best weights on its levels."""
    rows = spans(kind, size)
    even = np.full(rows.count, 1 / rows.count)

    def rmse(axis: object) -> float:
        return math.sqrt(even @ rows.norms(axis) * float(axis.norms.max()))

    one = np.ones(size, np.int64)
    assert rmse(Toeplitz(one[:1], one)) == pytest.approx(identity, abs=1e-3)
    sizes = level_sizes(rows.low, rows.high, even, int(math.log2(size)))
    tree = math.sqrt((sizes / level_rates(sizes)).sum())
    assert rmse(haar(rows, even)) == pytest.approx(tree, rel=2e-3)
    assert rmse(root(size, True)) == pytest.approx(toeplitz, rel=1e-3)
    assert math.sqrt(bound(rows, even)) == pytest.approx(svd, abs=1e-3)
    if size <= 256:
        (best,) = along(rows, even, False)
        assert best.name == "numerical optimum"
        assert math.sqrt(best.error(even, False)) == pytest.approx(least, rel=1e-3)
        assert math.sqrt(best.below) <= least * (1 + 1e-4)


def test_a_product_of_the_best_along_each_column_is_the_best_of_all() -> None:
    """All combinations of running counts of a and of b: gamma_F multiplies."""
    each = [
        And((leaf("a", slice(0, i)), leaf("b", slice(0, j))))
        for i in range(1, 6)
        for j in range(1, 5)
    ]
    asked = Workload(DOMAIN, tuple(Block(where, ONE, (TOTAL,)) for where in each))
    plan = planned(asked)
    errors = []
    for size in (5, 4):
        rows = spans("prefix", size)
        (best,) = along(rows, np.full(size, 1 / size), False)
        errors.append(math.sqrt(best.error(np.full(size, 1 / size), False)))
    assert plan.rmse == pytest.approx(math.prod(errors), rel=1e-3)
    assert plan.ratio is not None and 1 <= plan.ratio < 1.003
    assert plan.priced[0][0] == "numerical optimum on a x numerical optimum on b"
    worst = planned(asked, largest=True)
    assert worst.ratio is not None and 1 <= worst.ratio < 1.02


def test_a_union_is_taken_where_it_errs_less_and_told_with_what_was_tried() -> None:
    asked = crossed()
    plan = planned(asked)
    names = [name for name, _ in plan.priced]
    assert any("union of" in name for name in names)
    assert plan.rmse == pytest.approx(min(error for _, error in plan.priced))
    assert plan.ratio is not None and plan.ratio >= 1


@pytest.mark.parametrize("many", [False, True])
def test_what_no_strategy_errs_less_than_is_below_the_optimum_over_all_cells(
    many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the cells, and where these are too many by the parts, which is near enough to be told."""
    if many:
        monkeypatch.setattr(products, "BOUND", 1)
    blocks = [Block(leaf("a", slice(0, n)), ONE, (by("b"),)) for n in range(1, 6)]
    blocks += [Block(leaf("c", slice(0, n)), ONE, (by("b"),)) for n in range(1, 4)]
    asked = Workload(DOMAIN, tuple(blocks))
    rows = matrix(asked)
    worth = np.concatenate([own.reshape(-1) for own in products.importance(asked)])
    plan, worst = planned(asked), planned(asked, largest=True)
    assert plan.ratio is not None and worst.ratio is not None
    gram = (rows.T * worth) @ rows
    gram.flat[:: len(gram) + 1] += 1e-9
    best = optimum(gram, 1.0, gap=1e-3)
    assert plan.rmse / plan.ratio <= best.rmse <= plan.rmse
    least = smallest_largest(Given(rows))
    assert worst.rmse / worst.ratio <= least.rmse <= worst.rmse * 1.005
    assert plan.ratio < (1.65 if many else 1.25) and worst.ratio < 1.5


def test_scattered_questions_are_left_to_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few questions of each of many sets of columns."""
    assert products.products(crossed(), 1 << 40) is not None
    monkeypatch.setattr(products, "PARTS", 1)
    assert products.products(crossed(), 1 << 40) is None


def test_what_is_no_product_is_left_to_others() -> None:
    either = Workload(DOMAIN, (Block(Or((leaf("a", [0]), leaf("b", [0]))), ONE, (TOTAL,)),))
    ((family,),) = families(either)
    assert family is not None and separable(family) is None
    assert products.products(Workload(DOMAIN, (*crossed().blocks, *either.blocks)), 1 << 40) is None
    tables = Workload(DOMAIN, (Block(ALWAYS, ONE, (by("a", "b"), by("b", "c"), by("a"))),))
    assert products.products(tables, 3) is None  # a residual plan is the best
    assert products.products(crossed(), 9**2) is None  # as if no row counted twice


def test_a_bound_takes_no_more_memory_for_more_families(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 64 groups each, on 128 cells: 100 of them together had 6 MB of rows."""
    domain = Domain(("a", "b"), (100, 64))
    every = Grouping(((domain.project(["b"]), np.arange(64), 1),), np.arange(64))
    truths = [(np.arange(100) <= last).astype(np.uint8) * TRUE for last in range(100)]
    leaves = [Leaf(domain.project(["a"]), truth) for truth in truths]
    asked = Workload(domain, tuple(Block(where, ONE, (every,)) for where in leaves))
    listed = products._asked(asked, False)
    assert listed is not None
    sizes = dict(zip(domain.names, domain.sizes, strict=True))
    whole = products._bound(listed, sizes)
    monkeypatch.setattr(products, "BOUND", 128)
    tracemalloc.start()
    some = products._bound(listed, sizes)
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.0 < some <= whole * (1 + 1e-9)
    assert held < 2e6
