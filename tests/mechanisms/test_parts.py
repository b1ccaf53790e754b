"""What residual strategies cost, by brute force over all neighbours, on the whole numbers used."""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

from dpsql.mechanisms.axes import Identity, Prefix, Ranges, Rows
from dpsql.mechanisms.bases import Centred, Dense, basis
from dpsql.mechanisms.centred import split
from dpsql.mechanisms.parts import (
    LARGEST,
    ROWS,
    Part,
    Strategy,
    rounded_up,
    strategies,
    strategy,
)
from dpsql.mechanisms.persons import _angled, add_remove, costs, farthest, replace_one
from dpsql.mechanisms.residual import plan
from tests.mechanisms.simulated import matrix, rows_of
from tests.mechanisms.test_rebuild import CASES, realised
from tests.mechanisms.test_residual import asked, best

PICO = 10**12
HALF = ROWS // 2 - 12345  # odd, so that doubles lose its products


def losses(made: Strategy) -> tuple[list[Fraction], Fraction]:
    """L of each cell, and the most that a move between two cells costs, by brute force."""
    cells = math.prod(a.size for a in made.axes)
    rows = [rows_of(part, made.axes).astype(object) for part in made.parts]
    alone, farthest = [], Fraction(0)
    for x in range(cells):
        alone.append(sum(Fraction(int((r[:, x] ** 2).sum())) / (2 * p.variance)
                         for r, p in zip(rows, made.parts, strict=True)))  # fmt: skip
        for y in range(x):
            moved = sum(Fraction(int(((r[:, x] - r[:, y]) ** 2).sum())) / (2 * p.variance)
                        for r, p in zip(rows, made.parts, strict=True))  # fmt: skip
            farthest = max(farthest, moved)
    return alone, farthest


@pytest.mark.parametrize(("axes", "tables"), CASES)
def test_no_person_costs_more_and_one_costs_as_much(axes, tables):
    made = realised(axes, tables)
    alone, pairs = losses(made)
    each = costs(made)
    sizes = [a.size for a in axes]
    for cell, judged in zip(np.ndindex(*sizes), alone, strict=True):
        assert sum(c.at([cell[i] for i in c.columns]) for c in each) == judged
    one, two = add_remove(made), replace_one(made)
    assert one.exact and two.exact
    assert max(alone) <= Fraction(one.rho, PICO) <= max(alone) + Fraction(len(each), PICO)
    most = max(pairs, max(alone))  # another row may have been in no cell
    assert most <= Fraction(two.rho, PICO) <= most + Fraction(len(each), PICO)
    assert max(alone) <= made.rho <= Fraction(1, 2)


@settings(max_examples=25, deadline=None)
@given(asked().filter(lambda some: math.prod(a.size for a in some[0]) <= 48))
def test_prices_of_any_small_plan_are_exact(some):
    planned = best(*some)
    if planned is not None:
        made = strategy(planned, Fraction(1, 10))
        alone, pairs = losses(made)
        one, two = add_remove(made), replace_one(made)
        assert one.exact and two.exact
        slack = Fraction(len(made.parts), PICO)
        assert max(alone) <= Fraction(one.rho, PICO) <= max(alone) + slack
        assert max(pairs, *alone) <= Fraction(two.rho, PICO) <= max(pairs, *alone) + slack


@pytest.mark.parametrize(("axes", "tables"), CASES)
def test_each_part_moves_by_its_sensitivity(axes, tables):
    made = realised(axes, tables)
    for part in made.parts:
        rows = rows_of(part, axes).astype(object)
        assert part.squared == max((rows[:, x] ** 2).sum() for x in range(rows.shape[1]))
        moved = max(((rows[:, x] - rows[:, y]) ** 2).sum()
                    for x in range(rows.shape[1]) for y in range(rows.shape[1]))  # fmt: skip
        assert moved <= farthest(part)
        if all(b.even is not None for b in part.bases):
            assert moved == farthest(part)


def test_identity_axes_cost_everybody_the_same():
    made = realised([Identity(4), Identity(7), Identity(3)], [(0, 1), (1, 2)])
    assert all(cost.even for cost in costs(made))
    assert {b for p in made.parts for b in p.bases if isinstance(b, Centred)} == {
        Centred(7), Centred(3)}  # fmt: skip
    assert max(losses(made)[0]) == min(losses(made)[0])


def test_bounds_stand_where_the_largest_sum_is_out_of_reach():
    axes = [Prefix(100)] * 4
    tables = list(itertools.combinations(range(4), 3))
    made = realised(axes, tables)
    one, two = add_remove(made), replace_one(made)
    assert not one.exact and not two.exact
    assert one.rho >= made.rho * PICO
    assert one.rho < two.rho < 2.1 * one.rho
    rng = np.random.default_rng(6)
    each, found = costs(made), []
    for _ in range(60):
        x, y = rng.integers(0, 100, 4), rng.integers(0, 100, 4)
        if rng.random() < 0.5:
            y[:3] = x[:3]
        assert sum(c.at([int(x[i]) for i in c.columns]) for c in each) * PICO <= one.rho
        moved = Fraction(0)
        for part in made.parts:
            sides = [dense(b)[:, [x[i], y[i]]].tolist()
                     for i, b in zip(part.columns, part.bases, strict=True)]  # fmt: skip
            arrays = [np.array(side, object) for side in sides]
            grams = [side.T @ side for side in arrays]
            first, second, inner = (
                math.prod(int(g[at]) for g in grams) for at in ((0, 0), (1, 1), (0, 1))
            )
            moved += Fraction(first + second - 2 * inner) / (2 * part.variance)
        found.append(moved * PICO)
    assert 0.9 * two.rho < max(found) <= two.rho


@pytest.mark.parametrize(("axes", "tables"), CASES)
def test_the_bound_by_corners_is_above_all_pairs_and_near(axes, tables):
    made = realised(axes, tables)
    exact, bound = max(losses(made)[1], Fraction(0)) * PICO, _angled(made)
    assert bound is not None
    assert exact <= bound <= 1.02 * exact + len(made.parts)


def test_the_bound_by_corners_holds_for_strategies_of_several_grids():
    one, two = Prefix(6), Ranges(5)
    for fine, coarse in ((1 << 14, 12), (200, 9), (9, 1000)):
        parts = (
            Part((0,), (basis(one, fine),), Fraction(fine**2)),
            Part((1,), (basis(two, fine),), Fraction(fine**2)),
            Part((0, 1), (basis(one, coarse), basis(two, coarse)), Fraction(coarse**4)),
        )
        made = Strategy((one, two), parts)
        exact = losses(made)[1] * PICO
        assert exact <= _angled(made) <= 1.15 * exact
        assert abs(replace_one(made).rho - exact) <= len(parts)


def test_a_row_from_nowhere_costs_what_the_total_costs():
    made = realised([Identity(3)], [()])
    assert replace_one(made).rho == add_remove(made).rho == pytest.approx(0.5 * PICO)
    assert _angled(made) == 0


def test_a_hundred_binary_columns_have_a_bound_on_pairs():
    made = realised([Identity(2)] * 100, list(itertools.combinations(range(100), 2)))
    one, two = add_remove(made), replace_one(made)
    assert one.exact and not two.exact
    assert one.rho <= two.rho <= 4 * one.rho


def test_replace_one_is_paid_by_wider_noise():
    made = realised([Identity(3), Prefix(4)], [(0, 1)])
    wanted = Fraction(1, 2)
    wider = made.widened(Fraction(replace_one(made).rho, PICO) / wanted)
    assert replace_one(wider).rho <= wanted * PICO + len(made.parts)
    assert replace_one(wider).rho == pytest.approx(0.5 * PICO, rel=1e-6)


# -- strategies of one axis ------------------------------------------------------------------------


@functools.lru_cache(maxsize=1000)
def dense(used) -> np.ndarray:
    return used.measured(np.eye(used.size, dtype=np.int64), 0)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 16, 17, 32])
def test_every_value_is_measured_at_the_least_error(n):
    used = basis(Identity(n), 1 << 12)
    found = dense(used)
    centre = np.eye(n) - 1 / n
    gram = found.T @ found
    assert gram == pytest.approx(gram[0, 0] / centre[0, 0] * centre)
    assert used.spread(Identity(n)).sum() * used.norm == pytest.approx((n - 1) ** 2 / n)


WORKLOADS = [Prefix(2), Prefix(9), Prefix(100), Ranges(12), Ranges(64),
             Rows(((1, 1, 0, 0, 0), (0, 0, 1, 1, 0))),
             Rows(((1, 1, 0, 0, 0), (0, 0, 1, 1, 0), (1, 1, 1, 1, 0))),
             Rows(((0, 1, 0, 0, 0, 0),)), Rows(((5, 0, 3), (0, 1, 0), (7, 7, 1)))]  # fmt: skip


@pytest.mark.parametrize("along", WORKLOADS, ids=str)
@pytest.mark.parametrize(("largest", "loss"), [(1 << 14, 4e-4), (1 << 11, 3e-3), (1 << 7, 0.008)])
def test_rounding_costs_little_and_no_truth(along, largest, loss):
    used = basis(along, largest)
    found = dense(used)
    n, w = along.size, matrix(along)
    assert np.abs(found).max() == used.largest <= largest
    assert not found.sum(axis=1).any()
    assert (used.norms == (found.astype(object) ** 2).sum(axis=0)).all()
    centred = w - w.mean(axis=1, keepdims=True)
    rebuilt = centred @ used.undone(np.eye(used.rows), 0)
    assert rebuilt @ found == pytest.approx(centred, abs=1e-9 * np.abs(w).max() * n)
    assert used.spread(along) == pytest.approx((rebuilt**2).sum(axis=1), rel=1e-6, abs=1e-15)
    ideal = split(along).g
    assert ideal * (1 - 2e-4) <= used.spread(along).sum() * used.norm <= ideal * (1 + loss)


def test_too_coarse_a_grid_is_refused():
    with pytest.raises(ValueError, match="whole numbers of at most 4"):
        basis(Prefix(50), 4)
    with pytest.raises(ValueError, match="whole numbers of at most 8"):
        basis(Identity(30), 8)
    with pytest.raises(ValueError, match="nothing beyond the total"):
        basis(Identity(1), 8)


# -- nothing overflows -----------------------------------------------------------------------------


@pytest.mark.parametrize("axes", [[Identity(128), Identity(130), Identity(200)],
                                  [Prefix(30)] * 4, [Ranges(20), Identity(90), Identity(300)],
                                  [Prefix(100)] * 2, [Identity(2)] * 12])  # fmt: skip
def test_the_largest_counts_fit(axes):
    """All rows in one cell, and spread over two, as Python integers say."""
    used = strategies(axes)
    part = Part(tuple(range(len(axes))), used, Fraction(1))
    assert math.prod(b.largest for b in used) <= LARGEST
    counts = np.zeros([a.size for a in axes], np.int64)
    few = np.random.default_rng(7).integers(0, 5, counts.shape)
    exactly = few
    for axis, b in enumerate(used):
        exactly = b.measured(exactly, axis)
    assert (part.measured(few) == exactly).all() and part.measured(few).dtype == np.int64
    cells = [tuple(0 for _ in axes), tuple(a.size - 1 for a in axes)]
    for cell in cells:
        counts[cell] = HALF
    found = part.measured(counts)
    rng = np.random.default_rng(8)
    columns = [[dense(b)[:, c[k]] for k, b in enumerate(used)] for c in cells]
    for _ in range(50):
        at = tuple(int(rng.integers(0, b.rows)) for b in used)
        exact = sum(HALF * math.prod(int(v[k][at[k]]) for k in range(len(axes)))
                    for v in columns)  # fmt: skip
        assert int(found[at]) == exact


def test_what_could_overflow_is_refused():
    with pytest.raises(OverflowError, match="too many cells"):
        strategy(plan([Identity(3000), Identity(3000)], [(0, 1)]), Fraction(1))
    part = Part((0,), (Centred(5),), Fraction(1))
    with pytest.raises(OverflowError, match="2\\^40 rows"):
        part.measured(np.array([ROWS, 1, 0, 0, 0]))
    with pytest.raises(OverflowError, match="at least 0"):
        part.measured(np.array([-1, 1, 0, 0, 0]))
    with pytest.raises(ValueError, match="another shape"):
        part.measured(np.zeros(4, np.int64))
    with pytest.raises(OverflowError, match="noise of variance"):
        strategy(plan([Identity(3)], [(0,)]), Fraction(1, 10**40))
    with pytest.raises(OverflowError, match="entries beyond"):
        Part((0, 1), (Centred(3000), Centred(3000)), Fraction(1))
    with pytest.raises(ValueError, match="one strategy for each"):
        Part((0, 1), (Centred(3),), Fraction(1))
    with pytest.raises(ValueError, match="rho must be"):
        strategy(plan([Identity(3)], [(0,)]), Fraction(0))


def test_rows_of_a_dense_strategy_sum_to_nothing():
    with pytest.raises(ValueError, match="sum to 0"):
        Dense(np.array([[1, 0]]))
    with pytest.raises(OverflowError, match="24 bits"):
        Dense(np.array([[1 << 24, -(1 << 24)]]))


def test_variances_are_rounded_up():
    for value in (Fraction(1, 3), Fraction(10**30, 7), Fraction(5), Fraction(1, 10**12)):
        assert value <= rounded_up(*value.as_integer_ratio()) <= value * (1 + Fraction(1, 1 << 30))
