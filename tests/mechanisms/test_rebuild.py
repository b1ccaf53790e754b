"""What is rebuilt from residual tables, judged by dense linear algebra and by seeded draws."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.mechanisms.axes import (
    Identity,
    Prefix,
    Ranges,
    Rows,
    answered,
    centred_gram,
    means,
    quadratic,
    weighted,
)
from dpsql.mechanisms.parts import strategy
from dpsql.mechanisms.rebuild import Combination, Rebuilt, covariance, variances
from dpsql.mechanisms.residual import plan
from tests.mechanisms.simulated import least_squares, marginal, matrix, measured, workload
from tests.mechanisms.test_residual import asked, best

HALF = Fraction(1, 2)
BINS = Rows(((1, 1, 0, 0, 0), (0, 0, 1, 1, 0), (1, 1, 1, 1, 1), (1, 1, 2, 2, 1)))
CASES = [
    ([Identity(3), Identity(2), Identity(5)], [(0, 1), (1, 2), (0, 2), ()]),
    ([Prefix(6), Identity(3)], [(0, 1)]),
    ([Prefix(4), Ranges(4), Identity(2)], [(0, 1, 2), (0,)]),
    ([BINS, Identity(4), Identity(1)], [(0, 1), (1, 2), (0, 1, 2)]),
    ([Rows(((1, 1, 1),)), Prefix(5)], [(0, 1)]),
    ([Rows(((1, -1, 0), (0, 1, -1))), Identity(3)], [(0, 1)]),
    ([Identity(7)], [(0,)]),
]


def realised(axes, tables, rho=HALF):
    return strategy(plan(axes, tables), rho)


def table_of(axes, seed=0) -> np.ndarray:
    return np.random.default_rng(seed).poisson(7.0, [a.size for a in axes]).astype(np.int64)


@pytest.mark.parametrize(("axes", "tables"), CASES)
def test_without_noise_every_answer_is_exact(axes, tables):
    made, counts = realised(axes, tables), table_of(axes)
    found = Rebuilt(made, measured(made, counts, "none", np.random.default_rng(0)))
    for columns in tables:
        true = workload(axes, columns) @ counts.reshape(-1)
        got = found.answers(columns).reshape(-1)
        assert np.abs(got - true).max() <= 1e-9 * np.abs(true).max()
        assert found.answers(columns).shape == tuple(axes[i].answers for i in columns)


@settings(max_examples=50, deadline=None)
@given(asked(), st.integers(0, 2**32 - 1))
def test_any_tables_of_any_axes_are_rebuilt(asked, seed):
    axes, tables = asked
    planned = best(axes, tables)
    if planned is not None:
        made, counts = strategy(planned, HALF), table_of(axes, seed)
        assert made.rho <= HALF
        assert float(made.rho) == pytest.approx(0.5, rel=1e-8)
        found = Rebuilt(made, measured(made, counts, "none", np.random.default_rng(0)))
        for columns in tables:
            true = workload(axes, columns) @ counts.reshape(-1)
            assert np.abs(found.answers(columns).reshape(-1) - true).max() <= 1e-9 * max(
                1.0, float(counts.sum()) * 9
            )
        ideal = planned.average(0.5)
        for columns, one in zip(tables, ideal, strict=True):
            # four rounded axes share 22 bits
            assert one * (1 - 1e-3) <= variances(made, columns).mean() <= one * 1.1


@pytest.mark.parametrize(("axes", "tables"), CASES)
def test_variances_are_those_of_least_squares(axes, tables):
    made = realised(axes, tables)
    _, inner = least_squares(made)
    for columns in tables:
        dense = workload(axes, columns)
        judged = np.einsum("kc,cd,kd->k", dense, inner, dense)
        assert variances(made, columns).reshape(-1) == pytest.approx(judged, rel=1e-7)


@pytest.mark.parametrize(("axes", "tables"), CASES)
def test_covariances_within_and_across_tables_are_those_of_least_squares(axes, tables):
    made = realised(axes, tables)
    _, inner = least_squares(made)
    rng = np.random.default_rng(5)
    asked, rows = [], []
    for columns in [*tables, tables[0]]:
        weights = rng.normal(size=[axes[i].answers for i in columns])
        asked.append(Combination(columns, weights))
        rows.append(weights.reshape(-1) @ workload(axes, columns))
    judged = np.stack(rows) @ inner @ np.stack(rows).T
    found = covariance(made, asked)
    assert found == pytest.approx(judged, rel=1e-7, abs=1e-9 * np.abs(judged).max())


def test_estimates_are_those_of_least_squares():
    axes, tables = CASES[2]
    made, counts = realised(axes, tables), table_of(axes)
    seen = measured(made, counts, "discrete", np.random.default_rng(3))
    rows, inner = least_squares(made)
    scale = np.concatenate([np.full(math.prod(p.shape), 1 / float(p.variance)) for p in made.parts])
    y = np.concatenate([seen[p.columns].reshape(-1) for p in made.parts])
    judged = inner @ (rows.T @ (scale * y))
    found = Rebuilt(made, seen)
    for columns in tables:
        assert found.answers(columns).reshape(-1) == pytest.approx(
            workload(axes, columns) @ judged, rel=1e-8, abs=1e-7
        )


@pytest.mark.parametrize("rho", [Fraction(1, 2), Fraction(1, 10**9)])
def test_tables_agree_on_the_margins_they_share(rho):
    axes = [Prefix(5), Identity(6), Ranges(4), Identity(3)]
    tables = list(itertools.combinations(range(4), 3))
    made = realised(axes, tables, rho)
    found = Rebuilt(made, measured(made, table_of(axes), "gaussian", np.random.default_rng(4)))
    for one, two in itertools.combinations(tables, 2):
        shared = tuple(sorted(set(one) & set(two)))
        sums = [
            found.cells(t).sum(axis=tuple(k for k, i in enumerate(t) if i not in shared))
            for t in (one, two)
        ]
        scale = np.abs(found.cells(one)).max()
        assert np.abs(sums[0] - sums[1]).max() <= 1e-11 * scale
        assert np.abs(sums[0] - found.cells(shared)).max() <= 1e-11 * scale


@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
def test_drawn_errors_have_the_variances_that_are_told(noise):
    """2,000 seeded draws of about 100 independent rows: the mean ratio of squares over cells has a
    stddev of at most 0.4 %, so it is 2 % off less than once in 1e6; noise 10 % off is 21 % off."""
    axes = [Prefix(6), Identity(5), Identity(4)]
    tables = [(0, 1), (0, 2), (1, 2)]
    made, counts = realised(axes, tables, Fraction(1, 50)), table_of(axes)
    rng = np.random.default_rng(11)
    true = {t: (workload(axes, t) @ counts.reshape(-1)).reshape(
        [axes[i].answers for i in t]) for t in tables}  # fmt: skip
    squares = {t: np.zeros_like(true[t]) for t in tables}
    cross, one, two = 0.0, (4, 3), (4, 1)
    for _ in range(2000):
        found = Rebuilt(made, measured(made, counts, noise, rng))
        errors = {t: found.answers(t) - true[t] for t in tables}
        for t in tables:
            squares[t] += errors[t] ** 2
        cross += errors[0, 1][one] * errors[0, 2][two]
    for t in tables:
        told = variances(made, t)
        assert (squares[t] / 2000 / told).mean() == pytest.approx(1.0, abs=0.02)
        assert (squares[t] / 2000 / told) == pytest.approx(1.0, abs=0.25)
    units = [Combination(t, np.zeros(true[t].shape)) for t in ((0, 1), (0, 2))]
    units[0].weights[one] = units[1].weights[two] = 1.0
    told = covariance(made, units)
    scale = math.sqrt(told[0, 0] * told[1, 1])
    assert cross / 2000 == pytest.approx(told[0, 1], abs=0.12 * scale)  # 5 stddevs


def test_an_identity_table_has_one_variance():
    made = realised([Identity(6), Identity(4)], [(0, 1), (0,)])
    assert np.ptp(variances(made, (0, 1))) < 1e-14


def test_cubes_and_rollups_are_tables_like_others():
    axes = [Identity(4), Identity(3), Identity(2)]
    cube = [t for r in range(4) for t in itertools.combinations(range(3), r)]
    made, counts = realised(axes, cube), table_of(axes)
    found = Rebuilt(made, measured(made, counts, "discrete", np.random.default_rng(2)))
    for columns in cube:
        summed = marginal(found.cells((0, 1, 2)), columns)
        assert summed == pytest.approx(found.answers(columns), abs=1e-9)


def test_rows_must_be_there():
    made = realised([Identity(3)], [(0,)])
    with pytest.raises(ValueError, match="missing"):
        Rebuilt(made, {(): np.zeros(())})
    with pytest.raises(ValueError, match="another shape"):
        covariance(made, [Combination((0,), np.zeros(4))])


def test_the_dense_workload_is_that_of_the_axes():
    rng = np.random.default_rng(1)
    for along in (Identity(5), Prefix(5), Ranges(5), BINS):
        w, cells = matrix(along), rng.normal(size=(3, 5, 2))
        weights = rng.normal(size=(3, along.answers, 2))
        centre = np.eye(5) - 0.2
        inner = np.cov(rng.normal(size=(5, 9)))
        assert answered(along, cells, 1) == pytest.approx(np.einsum("ka,xay->xky", w, cells))
        assert weighted(along, weights, 1) == pytest.approx(np.einsum("ka,xky->xay", w, weights))
        assert centred_gram(along) == pytest.approx(centre @ w.T @ w @ centre)
        assert means(along) == pytest.approx(w.sum(axis=1) / 5)
        assert quadratic(along, inner) == pytest.approx(np.diag(w @ inner @ w.T))
