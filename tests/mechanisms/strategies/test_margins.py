"""Groups that sum up others, of aggregates that are mixed group by group: beside dense algebra."""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpsql.accounting.events import Gaussian
from dpsql.domain import Domain
from dpsql.mechanisms.strategies import clusters
from dpsql.mechanisms.strategies.factorization import Factored, factored
from dpsql.mechanisms.strategies.mixed import Again
from dpsql.mechanisms.strategies.solved import Solved
from dpsql.query.linear import Block, Grouping, Table, Term, Weight, Workload
from dpsql.query.predicate import ALWAYS, FALSE, TRUE, Leaf

DAYS, KINDS = 12, 3
DOMAIN = Domain(("day", "kind"), (DAYS, KINDS))
DAY, KIND = Domain(("day",), (DAYS,)), Domain(("kind",), (KINDS,))
TOTAL = Grouping((), np.zeros(1, np.int64))


def by(*keys: tuple[Domain, np.ndarray]) -> Grouping:
    found, stride = [], 1
    for domain, of in keys:
        found.append((domain, of, stride))
        stride *= int(of.max()) + 1
    return Grouping(tuple(found), np.arange(stride))


EVERY, WEEK = np.arange(DAYS), np.arange(DAYS) // 4
NESTED = (by((DAY, EVERY)), by((DAY, WEEK)), TOTAL)
CROSSED = (
    by((DAY, WEEK), (KIND, np.arange(KINDS))),
    by((DAY, WEEK)),
    by((KIND, np.arange(KINDS))),
    TOTAL,
)
BARE = (by((DAY, WEEK)), TOTAL, TOTAL)  # one of them twice


def weights(factor: int) -> tuple[Weight, ...]:
    """A count, one of some kinds, and a sum that is 0 on some days."""
    some = Leaf(KIND, np.array([FALSE, TRUE, TRUE], np.uint8))
    return (
        Weight((Term(ALWAYS),), factor),
        Weight((Term(some),), factor),
        Weight((Term(ALWAYS, Table(DAY, np.arange(DAYS) % 5)),)),
    )


def columns(workload: Workload) -> np.ndarray:
    """What a row of each cell adds to every answer, (answers, cells)."""
    cells = [(day, kind) for day in range(DAYS) for kind in range(KINDS)]
    found = []
    for day, kind in cells:
        codes = {"day": np.array([day]), "kind": np.array([kind])}
        (block,) = workload.matvec(codes, np.ones(1, np.int64))
        found.append(block.reshape(-1))
    return np.array(found, np.float64).T


@functools.cache
def planned(groupings: tuple[Grouping, ...], factor: int) -> Factored:
    asked = Workload(DOMAIN, (Block(ALWAYS, weights(factor), groupings),))
    return factored(asked, grouped=True)


CASES = [(NESTED, 1), (NESTED, 4), (CROSSED, 1), (BARE, 2)]


@pytest.mark.parametrize(("groupings", "factor"), CASES)
def test_covariances_are_those_of_dense_least_squares(groupings, factor: int) -> None:
    """Over all values that are measured, weighed by their noise; asked again, too."""
    plan = planned(groupings, factor)
    law = Gaussian(1, Fraction(1 << 60))
    (solved,) = plan.solved
    matrix = solved.matrix.astype(np.float64)
    counted = Workload(DOMAIN, (Block(ALWAYS, weights(1)[:1], groupings),))
    inside = columns(counted)  # of each group which cells; the aggregates of a cell are unknown
    measured = np.kron(inside, matrix)
    inner = np.linalg.pinv(measured.T @ measured) * float(law.variance)
    own = np.stack([np.kron(group, np.eye(len(matrix))) for group in inside])
    (spread,) = plan.spreads(law)
    dense = own @ inner @ own.swapaxes(1, 2)
    np.testing.assert_allclose(spread.covariance, dense, rtol=1e-6, atol=1e-9 * dense.max())
    stored = plan.unmeasured(law)
    assert stored is not None
    (again,) = Again.of(plan.workload, stored).spreads()
    np.testing.assert_allclose(again.covariance, spread.covariance, rtol=1e-9)
    np.testing.assert_allclose(again.shown, spread.shown, rtol=1e-9)


@pytest.mark.parametrize(("groupings", "factor"), CASES)
@pytest.mark.parametrize("stddev", [0.3, 2.0, 40.0])
def test_answers_agree_and_err_as_is_said(groupings, factor: int, stddev: float) -> None:
    """Of 100 draws; the mean squared error of all answers within 25 %, a false alarm below 1e-6, or
    less where it is below a tenth of a row's; that of the estimates in any case."""
    plan = planned(groupings, factor)
    (solved,) = plan.solved
    scale = math.sqrt(float(np.einsum("wr,wr->w", solved.inverse, solved.inverse)[0])) / factor
    law = Gaussian(1, Fraction(stddev / scale) ** 2)
    asked, rng = columns(plan.workload), np.random.default_rng(17)
    counts = rng.integers(0, 50, DAYS * KINDS)
    true = (asked @ counts).reshape(-1, len(solved.matrix))
    exact = true @ solved.matrix.T
    (spread,) = plan.spreads(law)
    squares, centres = np.zeros(true.shape), np.zeros(true.shape)
    sizes = np.cumsum([0, *(grouping.size for grouping in groupings)])
    for _ in range(100):
        noise = np.rint(rng.normal(0, math.sqrt(law.variance), exact.shape))
        values = [(exact + noise).astype(np.int64)]
        (shown,) = plan.answered(values, law).answers
        (fitted,) = solved.fitted(values[0], law)
        totals = [shown[a:b].sum(0) for a, b in itertools.pairwise(sizes)]
        assert all((each == totals[0]).all() for each in totals)
        assert (shown % np.array([factor, factor, 1]) == 0).all()
        squares += (shown - true) ** 2 / 100
        centres += (fitted.centre - true) ** 2 / 100
        stored = plan.stored(values, law, [shown])
        assert stored is not None
    (again,) = Again.of(plan.workload, stored).fitted()
    assert (again.shown == shown).all()
    np.testing.assert_allclose(again.centre, fitted.centre)
    units = np.array([factor, factor, 1.0]) ** 2
    ratio = (squares / units).mean() / (spread.shown / units).mean()
    small = (squares / units).mean() < 0.1
    assert (0 if small else 0.75) < ratio < 1.25 or (squares == 0).all()
    assert abs((centres / spread.variances).mean() - 1) < 0.25


@pytest.mark.parametrize("stddev", [0.02, 0.3, 2.0, 40.0])
def test_answers_of_a_strategy_on_cells_agree_and_err_as_is_said(
    stddev: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All statements' together, of 100 draws, as above: what is said is never below."""
    monkeypatch.setattr(clusters, "QUERIES", 4)
    weeks = Block(ALWAYS, weights(4)[:2], NESTED[1:2])
    asked = Workload(DOMAIN, (Block(ALWAYS, weights(4), NESTED), weeks))
    plan = factored(asked)
    (solved,) = plan.solved
    assert isinstance(solved, Solved) and solved.cluster.cells is not None
    size = math.sqrt(float(np.square(solved.inverse).sum(axis=1).mean())) / 4
    law = Gaussian(1, Fraction(stddev / size) ** 2)
    rows = solved.cluster.cells.rows
    rng = np.random.default_rng(19)
    counts = rng.integers(0, 50, rows.shape[1])
    true, exact = rows @ counts, solved.matrix @ counts
    said = np.concatenate([spread.shown.reshape(-1) for spread in plan.spreads(law)])
    squares = np.zeros(true.shape)
    for _ in range(100):
        noise = np.rint(rng.normal(0, math.sqrt(law.variance), exact.shape)).astype(np.int64)
        values = [(exact + noise)[None]]
        first, second = plan.answered(values, law).answers
        starts = np.cumsum([0, *(grouping.size for grouping in NESTED)])
        totals = [first[a:b].sum(axis=0) for a, b in itertools.pairwise(starts)]
        assert all((each == totals[0]).all() for each in totals)
        assert (second[:, :2].sum(axis=0) == totals[0][:2]).all()
        found = np.concatenate([first.reshape(-1), second.reshape(-1)])
        squares += (found - true) ** 2 / 100
    ratio = squares.mean() / said.mean()
    assert ratio < 1.25 and (ratio > 0.75 or stddev < 1)
    stored = plan.stored(values, law, [first, second])
    assert stored is not None
    again = Again.of(asked, stored)
    spreads = [spread.shown.reshape(-1) for spread in again.spreads()]
    np.testing.assert_allclose(np.concatenate(spreads), said, rtol=1e-6)
    assert all((a.shown == b).all() for a, b in zip(again.fitted(), (first, second), strict=True))


def test_no_noise_is_no_error_and_one_grouping_is_left_alone() -> None:
    plan = planned(NESTED, 3)
    (solved,) = plan.solved
    asked = columns(plan.workload)
    true = (asked @ np.arange(DAYS * KINDS)).reshape(-1, len(solved.matrix))
    law = Gaussian(1, Fraction(1 << 10))
    found = plan.answered([(true @ solved.matrix.T).astype(np.int64)], law)
    assert (found.answers[0] == true).all()
    alone = planned(NESTED[:1], 3)
    (spread,) = alone.spreads(law)
    (own,) = alone.solved
    inner = own.inverse @ own.inverse.T * float(law.variance)
    np.testing.assert_allclose(spread.covariance, np.broadcast_to(inner, spread.covariance.shape))
