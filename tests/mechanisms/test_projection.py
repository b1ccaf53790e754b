"""The projection: as near as any histogram, nearer to the truth than what was projected, whole."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import nnls

from dpsql.domain import Domain
from dpsql.errors import UsageError
from dpsql.mechanisms import projection
from dpsql.mechanisms.integral import integral
from dpsql.mechanisms.projection import GAP, listed, nearest
from dpsql.query.distinct import Distinct, Place
from dpsql.query.linear import Block, Grouping, Term, Weight, Workload
from dpsql.query.predicate import ALWAYS

TRIALS = 240


def columns_of(matrix):
    """The distinct columns that a matrix has, each query a family of its own."""
    places, states = [], []
    for at, row in enumerate(matrix):
        weights, state = np.unique(row, return_inverse=True)
        places.append(Place(np.where(weights != 0, at, -1), weights))
        states.append(state)
    return Distinct(len(matrix), tuple(places), tuple(states))


def cases():
    """Matrices of counts, of sums, and of sums that may be negative; a histogram, and noise."""
    for trial in range(TRIALS):
        draw = np.random.default_rng(trial)
        size, columns = int(draw.integers(1, 12)), int(draw.integers(1, 60))
        matrix = draw.integers(0, 2, (size, columns))
        if trial % 3 == 0:
            matrix = matrix * draw.integers(0, 5, (size, columns))
        if trial % 5 == 0:
            matrix = matrix * draw.integers(-1, 2, (size, columns))
        rows = draw.integers(0, 20, columns) * (draw.random(columns) < 0.3)
        rows[0] += 1
        stderr = draw.uniform(1, 20, size)
        yield matrix, rows, stderr, np.rint(matrix @ rows + stderr * draw.normal(size=size))


def value(matrix, rows, stderr, noisy):
    return float((((matrix @ rows - noisy) / stderr) ** 2).sum() / 2)


@pytest.mark.parametrize("public", [False, True])
def test_no_histogram_is_nearer(public, monkeypatch):
    """Beside SciPy's non-negative least squares; a public total is a heavy row of it there."""
    monkeypatch.setattr(projection, "GAP", 1e-9)
    for matrix, rows, stderr, noisy in cases():
        total = int(rows.sum()) if public else None
        found = nearest(columns_of(matrix), noisy, stderr, total)
        scaled, target = matrix / stderr[:, None], noisy / stderr
        if total is not None:
            assert found.rows.sum() == pytest.approx(total, rel=1e-9)
            scaled = np.vstack([scaled, np.full(matrix.shape[1], 1e4)])
            target = np.append(target, 1e4 * total)
        other = nnls(scaled, target, maxiter=10_000)[0]
        if total is not None:
            other = other * total / other.sum()
        best = value(matrix, other, stderr, noisy)
        assert (found.rows > 0).all() and len(found.rows) <= len(noisy) + 1
        own = value(found.columns, found.rows, stderr, noisy)
        assert own == pytest.approx(best, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("public", [False, True])
def test_the_gap_bounds_what_is_missing(public):
    """Stopped early, f is above the optimum, and by the gap at most.

    It is the most that f could fall along a straight line if its slope lasted.
    """
    above = 0
    for matrix, rows, stderr, noisy in cases():
        total = int(rows.sum()) if public else None
        listed_ = columns_of(matrix)
        best = nearest(listed_, noisy, stderr, total)
        least = value(best.columns, best.rows, stderr, noisy)
        assert best.gap <= GAP * len(noisy)
        for rounds in (1, 2):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(projection, "_ROUNDS", rounds)
                patch.setattr(projection, "_ENTER", 1)
                found = nearest(listed_, noisy, stderr, total)
            slope = matrix.T @ ((noisy - found.columns @ found.rows) / stderr**2)
            most = total if total is not None else 2 * found.rows.sum()
            away = most * max(slope.max(), -math.inf if total is not None else 0.0)
            own = found.rows @ (
                found.columns.T @ ((noisy - found.columns @ found.rows) / stderr**2)
            )
            assert found.gap == pytest.approx(max(away - own, 0.0), rel=1e-6, abs=1e-6)
            over = value(found.columns, found.rows, stderr, noisy) - least
            if total is not None or best.rows.sum() <= 2 * found.rows.sum():
                assert -best.gap <= over <= found.gap + 1e-7 * max(least, 1.0)
                above += over > 0.1
    assert above > TRIALS / 10


@pytest.mark.parametrize("public", [False, True])
def test_a_projection_never_errs_more_than_what_is_projected(public):
    """Nikolov, Talwar, Zhang: whatever the noise, for the truth is in the convex set."""
    nearer = []
    for matrix, rows, stderr, noisy in cases():
        total = int(rows.sum()) if public else None
        found = nearest(columns_of(matrix), noisy, stderr, total)
        truth = matrix @ rows
        before = np.linalg.norm((noisy - truth) / stderr)
        after = np.linalg.norm((found.columns @ found.rows - truth) / stderr)
        assert after <= before + np.sqrt(2 * found.gap) + 1e-7
        nearer.append(after < 0.95 * before)
    assert np.mean(nearer) > 0.2


def test_an_answer_in_which_nobody_counts_has_no_say():
    matrix = np.array([[1, 0], [0, 0], [0, 1]])
    found = nearest(columns_of(matrix), np.array([5.0, 9.0, -3.0]), np.array([1.0, 0.0, 1.0]))
    assert (found.columns @ found.rows).tolist() == [5.0, 0.0, 0.0]


def test_nothing_but_negative_answers_are_those_of_an_empty_table():
    found = nearest(columns_of(np.eye(3, dtype=int)), np.array([-1.0, -2.0, 0.0]), np.ones(3))
    assert not len(found.rows) and found.columns.shape == (3, 0)


def test_a_public_total_is_shared_out_where_all_answers_are_negative():
    matrix = np.array([[1, 0, 0], [0, 1, 0]])
    found = nearest(columns_of(matrix), np.array([-4.0, -5.0]), np.ones(2), 7)
    assert found.rows.sum() == pytest.approx(7) and not (found.columns @ found.rows).any()


# -- whole numbers -----------------------------------------------------------------------------


@pytest.mark.parametrize("public", [False, True])
def test_whole_numbers_are_as_near_as_rounding_can_bring_them(public):
    """Beside all ways of rounding up and down: within a step of the best one of them."""
    for trial in range(60):
        draw = np.random.default_rng(trial)
        size, some = int(draw.integers(1, 9)), int(draw.integers(1, 9))
        scaled = draw.integers(0, 2, (size, some)) / draw.uniform(0.5, 5.0, (size, 1))
        rows = draw.uniform(0, 6, some)
        total = None
        if public:
            total = int(np.ceil(rows.sum()))
            rows *= total / rows.sum()
        found = integral(scaled, rows, total)
        assert (found >= 0).all() and (total is None or found.sum() == total)
        best = min(
            float(((scaled @ (np.floor(rows) + np.array(up) - rows)) ** 2).sum())
            for up in itertools.product((0, 1), repeat=some)
            if total is None or int(np.floor(rows).sum()) + sum(up) == total
        )
        own = float(((scaled @ (found - rows)) ** 2).sum())
        assert own <= best + (scaled**2).sum(axis=0).max()


def test_whole_numbers_stay_as_they_are():
    draw = np.random.default_rng(3)
    scaled, rows = draw.integers(0, 2, (6, 5)) * 1.0, draw.integers(0, 9, 5)
    for total in (None, int(rows.sum())):
        assert (integral(scaled, rows.astype(float), total) == rows).all()


def test_sums_of_many_cells_stay_near():
    """Where rounding each would drift: 300 cells with a half, and their total."""
    scaled = np.vstack([np.eye(300), np.ones((1, 300))])
    rows = np.arange(300) % 7 + 0.5
    found = integral(scaled, rows)
    assert abs(found.sum() - rows.sum()) <= 1 and np.abs(found - rows).max() <= 0.5
    assert integral(scaled, rows, 1000).sum() == 1000


# -- bounds ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "most", "words"),
    [("QUERIES", 2, "at most 2 counts"), ("COLUMNS", 3, "at 3 ways")],
)
def test_what_is_too_large_is_refused_with_its_bound(name, most, words, monkeypatch):
    column, codes = Domain(("a",), (4,)), np.arange(4)
    grouping = Grouping(((column, codes, 1),), codes)
    block = Block(ALWAYS, (Weight((Term(ALWAYS),)),), (grouping,))
    asked = Workload(column, (block,))
    assert listed(asked).size > 3
    monkeypatch.setattr(projection, name, most)
    with pytest.raises(UsageError, match=words):
        listed(asked)
