"""Generalised least squares, judged by dense pseudo-inverses over all cells of the domain."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.mechanisms.fit import Fit, Model
from tests.mechanisms.measured import CELLS, CODES, matrix, measured, values, workload

STATEMENTS = [
    "SELECT COUNT(*) FROM town",
    "SELECT sex, COUNT(*) FROM town GROUP BY sex",
    "SELECT region, COUNT(*) FROM town GROUP BY region",
    "SELECT sex, region, COUNT(*) FROM town GROUP BY ALL",
    "SELECT sex, region, COUNT(*) FROM town GROUP BY CUBE (sex, region)",
    "SELECT sex, age, COUNT(*) FROM town GROUP BY ROLLUP (sex, age)",
    "SELECT sex, region, age, COUNT(*) FROM town GROUP BY GROUPING SETS ((sex, region), (age))",
    "SELECT COUNT(*) FROM town WHERE sex = 'f'",
    "SELECT COUNT(*) FROM town WHERE age > 2 AND region <> 'n'",
    "SELECT COUNT(*) FROM town WHERE age > 2 OR sex = 'm'",
    "SELECT AVG(age) FROM town",
    "SELECT sex, AVG(age), COUNT(*) FROM town GROUP BY sex",
    "SELECT SUM(age), COUNT(smoker) FROM town WHERE region = 'e'",
    "SELECT region, AVG(smoker::INT) FROM town GROUP BY region",
    "SELECT age // 2 AS half, COUNT(*) FROM town GROUP BY ALL",
    "SELECT VAR_POP(age) FROM town WHERE sex = 'm'",
]
VARIANCES = [1, 4, 9, 100, 40000]
some = st.lists(
    st.tuples(st.sampled_from(STATEMENTS), st.sampled_from(VARIANCES)), min_size=1, max_size=5
)


def judged(seen: list[tuple[str, int]], asked: str):
    """Rows, precisions of what was seen, and the queries, all over the cells."""
    rows = [matrix(workload(sql)) for sql, _ in seen]
    precisions = [np.full(len(m), 1.0 / v) for m, (_, v) in zip(rows, seen, strict=True)]
    return np.concatenate(rows), np.concatenate(precisions), matrix(workload(asked))


@settings(max_examples=120, deadline=None)
@given(some, st.sampled_from(STATEMENTS))
def test_estimates_and_covariances_are_those_of_dense_least_squares(seen, asked):
    model = Model.of([f for sql, v in seen for f in measured(workload(sql), v)])
    rows, precisions, queries = judged(seen, asked)
    root = np.sqrt(precisions)[:, None]
    back = np.linalg.pinv(rows * root, rcond=1e-11)  # x = back (root y)
    inside = np.abs(queries @ back @ (rows * root) - queries).max(axis=1) < 1e-7
    covariance = queries @ back @ back.T @ queries.T
    draw = np.random.default_rng(len(seen))
    truth = draw.integers(0, 50, CELLS)
    noisy, drawn = [], []
    for sql, v in seen:
        answers = workload(sql).matvec(CODES, truth)
        for block in answers:
            block += np.rint(draw.normal(0, v**0.5, block.shape)).astype(np.int64)
        noisy += values(workload(sql), answers)
        drawn += [block.reshape(-1) for block in answers]
    expected = queries @ (back @ (root[:, 0] * np.concatenate(drawn)))
    found = Fit(model, noisy).answers(workload(asked))
    at = 0
    for fitted in found:
        groups, width = fitted.centre.shape
        mine = np.arange(at, at + groups * width).reshape(groups, width)
        at += groups * width
        assert (fitted.spread.known == inside[mine]).all()
        known = inside[mine].all(axis=1)
        assert fitted.centre[inside[mine]] == pytest.approx(
            expected[mine][inside[mine]], rel=1e-6, abs=1e-5 * max(v for _, v in seen) ** 0.5
        )
        for group in np.flatnonzero(known):
            block = covariance[np.ix_(mine[group], mine[group])]
            scale = np.abs(block).max() + 1e-12
            assert fitted.spread.covariance[group] == pytest.approx(block, abs=1e-6 * scale)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sex, region, age, smoker, COUNT(*) FROM town"
        " GROUP BY CUBE (sex, region, age, smoker)",
        "SELECT sex, AVG(age), COUNT(*), SUM(age) FROM town GROUP BY CUBE (sex)",
        "SELECT sex, region, VAR_POP(age), COUNT(*) FROM town GROUP BY ROLLUP (sex, region)",
    ],
)
def test_whole_numbers_keep_the_sums_that_were_measured(sql):
    """Rounding moves a sum by at most what three rows can."""
    asked = workload(sql)
    draw = np.random.default_rng(5)
    answers = asked.matvec(CODES, draw.integers(0, 50, CELLS))
    for block in answers:
        block += np.rint(draw.normal(0, 40, block.shape)).astype(np.int64)
    fit = Fit(Model.of(measured(asked, 1600)), values(asked, answers))
    counted = workload("SELECT sex, region, COUNT(*) FROM town GROUP BY CUBE (sex, region)")
    for question in (asked, counted):
        for block, fitted in zip(question.blocks, fit.answers(question), strict=True):
            row = np.array([weight.largest for weight in block.weights])
            off = np.abs(fitted.shown - fitted.centre) / row
            assert off[fitted.spread.known].max(initial=0.0) <= 3.0


def test_every_way_to_invert_is_tried():
    """Which way is taken follows from what was measured."""
    from dpsql.mechanisms.inverse import inverse

    ways = {
        "SELECT sex, region, COUNT(*) FROM town GROUP BY ALL": "_Disjoint",
        "SELECT sex, region, COUNT(*) FROM town GROUP BY CUBE (sex, region)": "_Marginals",
        "SELECT AVG(age), COUNT(*) FROM town": "_ByRows",
        "SELECT age, COUNT(*), SUM(age) FROM town GROUP BY CUBE (age)": "_ByAtoms",
    }
    for sql, way in ways.items():
        model = Model.of(measured(workload(sql), 4))
        assert type(inverse(model.design, model.precisions)).__name__ == way
