"""Whole marginals: the noise on each cell with which no answer is worse than it would be alone."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpsql.accounting.events import Gaussian
from dpsql.domain import Domain
from dpsql.mechanisms.intervals.noises import Alike, Joint
from dpsql.mechanisms.intervals.spread import Fitted, Spread
from dpsql.mechanisms.reuse.fit import Model
from dpsql.mechanisms.reuse.linked import columns
from dpsql.mechanisms.synopses.marginal import floor, marginal
from dpsql.query.linear import Workload
from tests.mechanisms.measured import CELLS, matrix, workload

STATEMENTS = [
    "SELECT COUNT(*) FROM town WHERE sex = 'f'",
    "SELECT COUNT(*) FROM town WHERE age > 2 OR region <> 'n'",
    "SELECT sex, AVG(age), COUNT(*) FROM town GROUP BY sex",
    "SELECT SUM(age), COUNT(smoker), VAR_POP(age) FROM town WHERE region = 'e'",
    "SELECT sex, region, COUNT(*) FROM town GROUP BY CUBE (sex, region)",
    "SELECT COUNT_IF(age < 1), COUNT_IF(age < 2), COUNT_IF(age < 3), COUNT(*) FROM town",
]


def whole(asked: Workload):
    return marginal(asked.domain.project(sorted(columns(asked))))


def grams(asked: Workload) -> list[np.ndarray]:
    """For each group of each SELECT the inner products of its queries over the marginal's cells.

    A query is the same on all cells of the domain that share a cell of the marginal.
    """
    rows, start, found = matrix(asked), 0, []
    ratio = CELLS // whole(asked).domain.cells
    for block in asked.blocks:
        for _ in range(block.groups):
            own = rows[start : start + len(block.weights)].astype(float)
            found.append(own @ own.T / ratio)
            start += len(block.weights)
    return found


@pytest.mark.parametrize("sql", STATEMENTS)
def test_no_combination_of_answers_is_noisier_than_alone_and_the_noise_is_the_most(sql):
    asked = workload(sql)
    table = whole(asked)
    most = table.enough(asked, (Alike(Gaussian(1, Fraction(50))),) * len(asked.blocks))
    least = [np.linalg.eigvalsh(50.0 * np.eye(len(g)) - most * g)[0] for g in grams(asked)]
    assert min(least) == pytest.approx(0.0, abs=1e-6 * 50)
    spreads = table.spreads(asked, Fraction(3))
    seen = [inner for spread in spreads for inner in spread.covariance]
    for inner, gram in zip(seen, grams(asked), strict=True):
        np.testing.assert_allclose(inner, 3.0 * gram, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("sql", STATEMENTS)
def test_nor_where_alone_the_noises_are_correlated(sql):
    draw = np.random.default_rng(3)
    asked = workload(sql)
    noises, dense = [], []
    for block in asked.blocks:
        width = len(block.weights)
        roots = draw.normal(size=(block.groups, width, width + 1))
        inner = roots @ roots.transpose(0, 2, 1)
        dense += list(inner)
        shape = (block.groups, width)
        spread = Spread(inner, np.ones(shape, bool), 1.0)
        noises.append(Joint(Fitted(np.zeros(shape, np.int64), np.zeros(shape), spread)))
    most = whole(asked).enough(asked, noises)
    least = [
        np.linalg.eigvalsh(s - most * g)[0] / np.abs(s).max()
        for s, g in zip(dense, grams(asked), strict=True)
    ]
    assert min(least) == pytest.approx(0.0, abs=1e-9)


def test_no_table_is_as_good_as_answers_without_noise():
    asked = workload(STATEMENTS[0])
    nothing = Spread(np.zeros((1, 1, 1)), np.ones((1, 1), bool), 1.0)
    noise = Joint(Fitted(np.zeros((1, 1), np.int64), np.zeros((1, 1)), nothing))
    assert whole(asked).enough(asked, [noise]) == 0.0


def test_variances_are_rounded_down_to_what_can_be_drawn():
    assert floor(Fraction(1, 3)) < Fraction(1, 3) < floor(Fraction(1, 3)) + Fraction(1, 1 << 47)
    assert floor(10.0**60) == floor(10.0**61)
    assert floor(1e-16) == 0


def test_a_marginal_has_its_cells_in_the_order_of_the_domain():
    table = marginal(Domain(("a", "b"), (2, 3)))
    codes = {"a": np.array([0, 1, 1]), "b": np.array([2, 0, 2])}
    (answers,) = table.workload.matvec(codes, np.array([5, 7, 9]))
    assert answers[:, 0].tolist() == [0, 0, 5, 7, 0, 9]


def test_a_table_too_large_for_other_fits_is_combined_with_itself():
    table = marginal(Domain(("a", "b"), (200, 200)))
    model = Model.of([(table.family, Gaussian(1, Fraction(v))) for v in (4, 12)])
    assert model is not None
    (spread,) = model.spreads(table.workload)
    assert spread.worst() == pytest.approx(3.0)
