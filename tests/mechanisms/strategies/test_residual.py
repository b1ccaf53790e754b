"""Residual plans against published figures, brute force and their own bounds."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.accounting.convert import rho_of
from dpsql.mechanisms.strategies.axes import Identity, Prefix, Ranges, Rows
from dpsql.mechanisms.strategies.centred import optimum, split
from dpsql.mechanisms.strategies.residual import by_query, closure, even, plan
from tests.mechanisms.simulated import matrix

ADULT = (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)
CPS = (50, 100, 7, 4, 2)


def ways(axes: int, *numbers: int) -> list[tuple[int, ...]]:
    return [t for r in numbers for t in itertools.combinations(range(axes), r)]


def rmse(axes, tables) -> float:
    """At rho = 1/2, all answers of all tables alike."""
    found = plan(axes, tables, np.ones(len(tables)))
    return math.sqrt(found.total(0.5) / found.answers.sum())


PUBLISHED = [  # ResidualPlanner (Xiao et al. 2023), table of root mean squared errors
    (ADULT, (1,), 3.047), (ADULT, (2,), 6.359), (ADULT, (3,), 10.515), (ADULT, (1, 2, 3), 10.665),
    (CPS, (1,), 1.744), (CPS, (2,), 2.035), (CPS, (3,), 2.048), (CPS, (0, 1, 2, 3), 2.276),
]  # fmt: skip


@pytest.mark.parametrize(("sizes", "numbers", "published"), PUBLISHED)
def test_marginals_have_the_published_errors(sizes, numbers, published):
    found = rmse([Identity(n) for n in sizes], ways(len(sizes), *numbers))
    assert found == pytest.approx(published, abs=6e-4)


MIXED = [
    (ADULT, 5, (1,), 5.05), (ADULT, 5, (2,), 17.2), (ADULT, 5, (3,), 45.6),
    (CPS, 2, (1,), 3.14), (CPS, 2, (2,), 6.20), (CPS, 2, (3,), 7.89),
]  # fmt: skip


@pytest.mark.parametrize(("sizes", "prefixes", "numbers", "most"), MIXED)
def test_prefixes_by_categories_have_the_errors_of_the_reference(sizes, prefixes, numbers, most):
    axes = [Prefix(n) if i < prefixes else Identity(n) for i, n in enumerate(sizes)]
    assert 0.995 * most < rmse(axes, ways(len(sizes), *numbers)) <= most


def test_one_query_on_each_marginal_errs_half_as_much_when_weighted_by_query():
    """1,000 three-way conjunctions on Adult at (1, 1e-9): 158.7 and 83.5 rows on another draw."""
    rng = np.random.default_rng(7)
    axes, rho = [Identity(n) for n in ADULT], rho_of(1.0, 1e-9) / 1e12
    everyone = ways(14, 3)
    counts = np.bincount(rng.integers(0, len(everyone), 1000), minlength=len(everyone))
    tables = [t for t, k in zip(everyone, counts, strict=True) if k]
    asked = counts[counts > 0].astype(float)
    found = {}
    for name, weights in (
        ("cell", np.ones(len(tables))),
        ("query", by_query(axes, tables, asked)),
    ):
        variances = plan(axes, tables, weights).average(rho)
        found[name] = math.sqrt(float(asked @ variances) / asked.sum())
    assert found["cell"] == pytest.approx(158.7, rel=0.05)
    assert found["query"] == pytest.approx(83.5, rel=0.05)


@pytest.mark.parametrize("prefixes", [0, 5])
def test_the_worst_table_is_within_a_thousandth_of_the_best(prefixes):
    axes = [Prefix(n) if i < prefixes else Identity(n) for i, n in enumerate(ADULT)]
    tables = ways(14, 3)[:345]
    found = even(axes, tables)
    worst = found.plan.average(0.5).max()
    assert worst == pytest.approx(found.worst, rel=1e-9)
    assert found.bound <= found.worst <= found.bound * (1 + 1e-3)
    assert worst < 0.9 * plan(axes, tables).average(0.5).max()


def test_targets_scale_the_worst():
    axes, tables = [Identity(4), Identity(9), Identity(30)], ways(3, 1, 2)
    goals = np.array([1.0, 2.0, 4.0, 1.0, 1.0, 3.0])
    ratios = even(axes, tables, goals, gap=1e-6).plan.average(0.5) / goals
    assert ratios.max() == pytest.approx(ratios.min(), rel=0.05)


def test_all_three_way_marginals_of_a_hundred_columns_by_symmetry():
    """c and e of sets of each size, by hand."""
    tables = ways(100, 3)
    found = plan([Identity(10)] * 100, tables, np.ones(len(tables)))
    above = (math.comb(100, 3), math.comb(99, 2), 98, 1)
    roots = [math.sqrt(above[r] * 0.1 ** (3 - r) * 8.1**r) for r in range(4)]
    total = sum(math.comb(100, r) * roots[r] for r in range(4))
    assert len(found.closure) == 166_751
    assert found.total(0.5) == pytest.approx(total**2, rel=1e-12)
    assert np.ptp(found.average(0.5)) < 1e-6
    assert found.average(0.5)[0] * 1000 * len(tables) == pytest.approx(total**2, rel=1e-12)


# -- any axes, any tables --------------------------------------------------------------------------


def _rows(size: int) -> st.SearchStrategy[Rows]:
    row = st.tuples(*[st.integers(-2, 3)] * size)
    return st.lists(row, min_size=1, max_size=4).map(lambda rows: Rows(tuple(rows)))


ALONG = st.integers(1, 5).flatmap(
    lambda n: st.one_of(st.just(Identity(n)), st.just(Prefix(n)), st.just(Ranges(n)), _rows(n))
)


@st.composite
def asked(draw):
    """Some axes and some tables over them."""
    axes = draw(st.lists(ALONG, min_size=1, max_size=4))
    every = ways(len(axes), *range(len(axes) + 1))
    return axes, draw(st.lists(st.sampled_from(every), min_size=1, max_size=5, unique=True))


def best(axes, tables, weights=None):
    try:
        return plan(axes, tables, weights)
    except ValueError as refused:
        assert str(refused) == "the tables ask for nothing"
        return None


@settings(max_examples=60, deadline=None)
@given(asked())
def test_the_closure_holds_each_subset_of_each_table_and_nothing_else(asked):
    axes, tables = asked
    found = set(closure([split(a) for a in axes], tables).columns)
    assert found == {s for t in tables for r in range(len(t) + 1)
                     for s in itertools.combinations(t, r)}  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(asked(), st.integers(1, 2**32 - 1))
def test_the_total_is_the_weighted_sum_of_variances(asked, seed):
    axes, tables = asked
    weights = np.random.default_rng(seed).uniform(0.1, 9.0, len(tables))
    found = best(axes, tables, weights)
    if found is not None:
        whole = float((weights * found.answers * found.average(0.3)).sum())
        assert found.total(0.3) == pytest.approx(whole, rel=1e-9)
        assert (found.largest(0.3) >= found.average(0.3) * (1 - 1e-9)).all()
        assert found.shares.sum() == pytest.approx(1.0)


@settings(max_examples=40, deadline=None)
@given(asked(), st.integers(1, 2**32 - 1))
def test_no_other_split_errs_less(asked, seed):
    found = best(*asked)
    if found is not None:
        rng = np.random.default_rng(seed)
        kept = found.errors > 0
        other = found.shares[kept] * np.exp(rng.normal(0, 0.3, kept.sum()))
        other /= other.sum()
        assert (found.errors[kept] / other).sum() / 2 >= found.total(1.0) * (1 - 1e-12)


def test_keys_too_large_for_one_number_are_sorted_as_rows():
    axes = [Identity(2)] * 70
    found = plan(axes, [tuple(range(0, 70, 6)), tuple(range(0, 70, 7))])
    assert len(found.closure) == 2**12 + 2**10 - 2**2


# -- one axis --------------------------------------------------------------------------------------


@pytest.mark.parametrize("along", [Prefix(7), Prefix(30), Ranges(6), Ranges(20),
                                   Rows(((1, 0, 0, 2), (0, 3, 0, 1)))], ids=str)  # fmt: skip
def test_the_best_strategy_of_an_axis_by_slow_steps(along):
    """v <- diag R from a random start, 1,000 times."""
    w = matrix(along)
    centre = np.eye(along.size) - 1 / along.size
    gram = centre @ w.T @ w @ centre
    v = np.random.default_rng(1).uniform(0.5, 2.0, along.size)
    for _ in range(1000):
        half = np.sqrt(v)
        values, vectors = np.linalg.eigh(half[:, None] * gram * half)
        v = (vectors**2) @ np.sqrt(values.clip(0))
    bound = v.sum()
    assert bound <= split(along).g * (1 + 1e-9) <= bound * (1 + 2e-4)
    found = optimum(gram)
    assert np.abs(found.sum(axis=0)).max() < 1e-9 and np.diag(found).max() == pytest.approx(1)
    assert split(along).u == pytest.approx(float(((w.sum(axis=1) / along.size) ** 2).sum()))


def test_large_totals_do_not_hide_small_differences():
    big = 1 << 20
    found = split(Rows(((big, big, big, big), (1, 0, 0, 1))))
    assert found.g == pytest.approx(split(Rows(((1, 0, 0, 1),))).g, rel=1e-6)
    assert split(Rows(((big, big, big),))).g == 0


def test_closed_forms_of_an_axis():
    for n in (1, 2, 3, 10, 100_000):
        assert split(Identity(n)).g == pytest.approx((n - 1) ** 2 / n)
        assert split(Identity(n)).u == pytest.approx(1 / n)
    for n in (1, 2, 9):
        assert split(Prefix(n)).u == pytest.approx((n + 1) * (2 * n + 1) / (6 * n))


@pytest.mark.parametrize(("tables", "weights", "said"), [
    ([], None, "a plan needs a table"),
    ([(0, 0)], None, "not in ascending order"),
    ([(1, 0)], None, "not in ascending order"),
    ([(0, 2)], None, "not among 2|is not among"),
    ([(0,), (0,)], None, "asked twice"),
    ([(0,)], np.array([0.0]), "more than 0"),
    ([(0,)], np.array([math.nan]), "more than 0"),
    ([(0,)], np.array([math.inf]), "more than 0"),
    ([(0,)], np.array([1.0, 1.0]), "one weight"),
])  # fmt: skip
def test_what_is_no_plan_is_refused(tables, weights, said):
    with pytest.raises(ValueError, match=said):
        plan([Identity(2), Identity(3)], tables, weights)
    if weights is not None:
        with pytest.raises(ValueError, match="target"):
            even([Identity(2), Identity(3)], tables, weights)


def test_too_many_sets_are_refused_before_they_are_made():
    with pytest.raises(OverflowError, match="sets of columns"):
        plan([Identity(2)] * 26, [tuple(range(26))])


@pytest.mark.parametrize("made", [lambda: Identity(0), lambda: Prefix(-1), lambda: Ranges(0),
                                  lambda: Identity(2.0), lambda: Rows(()),
                                  lambda: Rows(((1, 2), (1,))), lambda: Rows(((1 << 21, 0),)),
                                  lambda: Rows(((),))])  # fmt: skip
def test_axes_check_themselves(made):
    with pytest.raises(ValueError):
        made()
    with pytest.raises(TypeError):
        Rows(((0.5, 1),))
