"""Maximum entropy: the optimum by another road, its gap by both sides of the duality."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from dpsql.domain import Domain
from dpsql.mechanisms.synopses import entropy
from dpsql.mechanisms.synopses.ascent import Climb, centred
from dpsql.mechanisms.synopses.calibration import Calibration
from dpsql.mechanisms.synopses.entropy import _Dual, fitted, guides
from dpsql.mechanisms.synopses.folded import Folded, functions
from dpsql.mechanisms.synopses.junction import CELLS
from dpsql.mechanisms.synopses.layout import layout
from dpsql.mechanisms.synopses.noisy import NoisyTable, linear, single, total, whole
from dpsql.query.linear import numbered

DOMAIN = Domain(("a", "b", "c"), (3, 4, 2))


def noisy(draw, sets, stddev=5.0, domain=DOMAIN, rows=None):
    """Noisy marginals of a random table."""
    if rows is None:
        rows = draw.integers(0, 60, domain.sizes).astype(float)
    found = []
    for names in sets:
        gone = tuple(at for at, name in enumerate(domain.names) if name not in names)
        margin = rows.sum(axis=gone)
        values = margin + stddev * draw.normal(size=margin.shape)
        found.append(whole(domain, names, values, stddev**2))
    return rows, found


def mixed(draw):
    """A plain table, a centred one, one of classes, and a single count."""
    _, (plain, other) = noisy(draw, [("a", "b"), ("b", "c")])
    inner = NoisyTable(other.names, other.classes, centred(other.values), 9.0, centred=True)
    coarse = NoisyTable(("b",), (np.array([0, 1, 1, 0]),), np.array([300.0, 400.0]), 16.0)
    classes = {"a": np.array([0, 1, 0]), "c": np.array([0, 1])}
    indicator = np.zeros((2, 2))
    indicator[1, 1] = 1
    return [coarse, plain, inner, single(DOMAIN, classes, indicator, 90.0, 4.0)]


def margin(table, rows, names=DOMAIN.names):
    """What a table measures of rows, its unseen cells left out."""
    gone = tuple(at for at, name in enumerate(names) if name not in table.names)
    found = rows.sum(axis=gone)
    for axis, classes in enumerate(table.classes):
        told = np.eye(int(classes.max()) + 1)[classes]
        found = np.moveaxis(np.tensordot(found, told, axes=(axis, 0)), -1, axis)
    found = centred(found) if table.centred else found
    return found if table.seen is None else found * table.seen


def primal(rows, guess, tau, tables, names=DOMAIN.names):
    """The function that the fit minimises, from its definition."""
    loss = sum(((t.values - margin(t, rows, names)) ** 2).sum() / (2 * t.variance) for t in tables)
    n = rows.sum()
    share = rows[rows > 0] / n
    return loss + tau * n * (share * np.log(share / (guess[rows > 0] / guess.sum()))).sum()


@pytest.mark.parametrize("seed", range(4))
def test_no_distribution_does_better(seed, monkeypatch):
    """Beside SciPy over all 24 cells; the gap bounds what is missing, however early it stops."""
    draw = np.random.default_rng(seed)
    tables = mixed(draw)
    for steps in (0, 1, 3, 10, 300):
        monkeypatch.setattr(entropy, "GAP", 1e-9)
        first = fitted(DOMAIN, 700.0, [tables[0]], steps=300)
        fit = fitted(DOMAIN, 700.0, tables, before=first, steps=steps)
        low, high = fit.orders
        guess = first.state.dense()
        value = primal(fit.state.dense(), guess, high.tau, tables)

        def other(logs, guess=guess, tau=high.tau):
            rows = np.exp(logs - logs.max()).reshape(DOMAIN.sizes)
            return primal(700 * rows / rows.sum(), guess, tau, tables)

        best = minimize(other, np.log(fit.state.dense()).reshape(-1), tol=1e-12).fun
        assert best >= value - high.gap * (1 + 1e-6) - 1e-6
        if steps == 300:
            assert value == pytest.approx(best, rel=1e-6)
            assert high.gap < 1e-6 and low.steps < 300
        if steps == 0:
            assert high.gap > 1


def dual(fit, guess, tau, theta, tables):
    """The other side: what no distribution can be below, at any theta."""
    lifted = np.zeros(DOMAIN.sizes)
    for table in tables:
        each = theta[table]
        shape = [1] * 3
        for axis, classes in enumerate(table.classes):
            each = np.take(each, classes, axis=axis)
            at = DOMAIN.names.index(table.names[axis])
            shape[at] = DOMAIN.sizes[at]
        lifted = lifted + each.reshape(shape)
    mass = (guess / guess.sum() * np.exp(lifted)).sum()
    told = sum(
        float((theta[t] * t.values).sum()) - tau * t.variance * float((theta[t] ** 2).sum()) / 2
        for t in tables
    )
    return tau * (told - fit.state.total * math.log(mass))


@pytest.mark.parametrize("steps", [0, 2, 5])
def test_the_gap_is_the_distance_of_both_sides(steps):
    tables = mixed(np.random.default_rng(9))
    first = fitted(DOMAIN, 700.0, [tables[0]])
    fit = fitted(DOMAIN, 700.0, tables, before=first, steps=steps)
    order = fit.orders[-1]
    guess = first.state.dense()
    upper = primal(fit.state.dense(), guess, order.tau, tables)
    lower = dual(fit, guess, order.tau, order.potentials, tables)
    assert order.gap == pytest.approx(upper - lower, rel=1e-8)


def test_exact_marginals_of_a_product_give_the_product():
    """The distribution of most entropy with given 1-way marginals has independent columns."""
    shares = [np.array(s) for s in ([0.2, 0.3, 0.5], [0.1, 0.2, 0.3, 0.4], [0.7, 0.3])]
    tables = [whole(DOMAIN, [n], 1e4 * s, 1e-4) for n, s in zip(DOMAIN.names, shares, strict=True)]
    fit = fitted(DOMAIN, 1e4, tables)
    expected = 1e4 * np.einsum("i,j,k->ijk", *shares)
    assert np.abs(fit.state.dense() - expected).max() < 0.1


@pytest.mark.parametrize("margins_off", [False, True])
def test_single_columns_are_fitted_at_once_however_many_values_they_have(margins_off):
    """Nearly all rows have one of 20,000 values, and noise is far above all other counts: steps
    that one large count holds back would not end."""
    draw, domain = np.random.default_rng(6), Domain(("many", "few"), (20_000, 3))
    tables = []
    for name, size in zip(domain.names, domain.sizes, strict=True):
        rows = np.zeros(size)
        rows[:3] = 9000, 800, 200
        values = rows + draw.normal(0, 30, size)
        values -= values.mean() if margins_off else 0.0
        tables.append(replace(whole(domain, [name], values, 900.0), centred=margins_off))
    fit = fitted(domain, 1e4, tables)
    assert fit.ended and fit.orders[0].steps <= 1 and fit.away < 1e-3
    assert fit.state.marginal(["many"])[0] == pytest.approx(9000, abs=200)


def test_counts_that_are_all_far_below_0_are_fitted():
    """A few rows, and noise that hides them: no chance is lost to underflow."""
    sized = zip(DOMAIN.names, DOMAIN.sizes, strict=True)
    tables = [whole(DOMAIN, [name], np.full(size, -1e4), 1e-2) for name, size in sized]
    fit = fitted(DOMAIN, 1.0, tables)
    assert fit.state.dense() == pytest.approx(np.full(DOMAIN.sizes, 1 / DOMAIN.cells))


def test_the_fit_of_a_chain_in_small_cliques_is_that_of_all_cells(monkeypatch):
    """Beside SciPy over the 72 cells of the whole table.

    SciPy goes on from the fit: what it minimises is convex in the rows, so that it could go on.
    """
    monkeypatch.setattr(entropy, "GAP", 1e-10)
    domain = Domain(tuple("abcde"), (3, 2, 3, 2, 2))
    draw = np.random.default_rng(4)
    sets = [(name,) for name in domain.names] + list(itertools.pairwise(domain.names))
    rows, tables = noisy(draw, sets, domain=domain, rows=draw.integers(0, 30, domain.sizes) * 1.0)
    fit = fitted(domain, rows.sum(), tables)
    assert max(map(len, fit.state.tree.cliques)) == 2 and len(fit.state.tree.cliques) == 4
    first = [*tables[:5], *guides(tables, 1)]
    guess = fitted(domain, rows.sum(), first).state.dense()
    tau = fit.orders[-1].tau

    def other(logs):
        found = np.exp(logs - logs.max()).reshape(domain.sizes)
        return primal(rows.sum() * found / found.sum(), guess, tau, tables, domain.names)

    begun = np.log(fit.state.dense()).reshape(-1)
    assert other(np.log(guess).reshape(-1)) > 1.01 * other(begun), "it would go on from there"
    best = minimize(other, begun, tol=1e-12).fun
    assert primal(fit.state.dense(), guess, tau, tables, domain.names) == pytest.approx(best, 1e-6)


def test_a_fit_is_nearer_to_the_truth_than_what_it_was_fitted_to():
    """Root mean square over 3-way marginals, at three levels of noise."""
    draw = np.random.default_rng(2)
    domain = Domain(tuple("abcd"), (5, 4, 6, 3))
    odds = np.exp(draw.normal(size=(5, 4, 1, 1)) + 2 * draw.normal(size=(1, 1, 6, 1))
                  + draw.normal(size=(1, 4, 1, 3)))  # fmt: skip
    rows = draw.poisson(odds / odds.sum() * 20_000).astype(float)
    triples = list(itertools.combinations(domain.names, 3))
    for stddev in (3.0, 30.0, 200.0):
        _, tables = noisy(draw, triples, stddev, domain, rows)
        fit = fitted(domain, total(tables), tables)
        errors = [
            (fit.state.marginal(t.names)
             - rows.sum(axis=tuple(at for at, n in enumerate(domain.names) if n not in t.names)))
            for t in tables
        ]  # fmt: skip
        rms = math.sqrt(np.mean(np.concatenate([e.reshape(-1) for e in errors]) ** 2))
        assert rms < 0.85 * stddev
        assert fit.away < 0.05


def test_a_fit_goes_on_from_the_one_before():
    """A table more on a universe of 10^18: fewer steps than from nothing, and as near."""
    domain = Domain(tuple(f"c{at}" for at in range(18)), (10,) * 18)
    draw = np.random.default_rng(3)
    codes = [draw.integers(0, 10, 20_000)]
    for _ in range(17):
        codes.append((codes[-1] + draw.integers(0, 4, 20_000)) % 10)
    tables = []
    for at in range(16):
        rows = np.bincount(codes[at] * 10 + codes[at + 1], minlength=100).reshape(10, 10)
        values = rows + 20 * draw.normal(size=(10, 10))
        tables.append(whole(domain, (f"c{at}", f"c{at + 1}"), values, 400.0))
    rows = total(tables)
    before = fitted(domain, rows, tables[:-1])
    warm, cold = fitted(domain, rows, tables, before=before), fitted(domain, rows, tables)
    assert warm.orders[-1].steps < cold.orders[-1].steps
    assert max(warm.away, cold.away) < 0.05
    both = [fit.state.marginal(("c14", "c15", "c16")) for fit in (warm, cold)]
    assert np.abs(both[0] - both[1]).max() < 10


def test_guides_average_margins_by_precision():
    _, (one, two) = noisy(np.random.default_rng(5), [("a", "b"), ("b", "c")])
    found = {guide.names: guide for guide in guides([one, two], 1)}
    assert set(found) == {("a",), ("b",), ("c",)}
    first, second = one.values.sum(axis=0), two.values.sum(axis=1)
    middle = (first / 3 + second / 2) / (1 / 3 + 1 / 2)
    assert found[("b",)].values == pytest.approx(middle)
    assert found[("b",)].variance == pytest.approx(25 / (1 / 3 + 1 / 2))


def test_the_linear_answer_is_the_sum_of_residual_tables():
    rows, _ = noisy(np.random.default_rng(6), [])
    tables = [
        NoisyTable(names, tuple(np.arange(DOMAIN.size(n)) for n in names), centred(
            rows.sum(axis=tuple(at for at, n in enumerate(DOMAIN.names) if n not in names))
        ) if names else np.asarray(rows.sum()), 1.0, centred=bool(names))
        for r in range(4) for names in itertools.combinations(DOMAIN.names, r)
    ]  # fmt: skip
    assert linear(tables, ("a", "c")) == pytest.approx(rows.sum(axis=1))
    assert total(tables) == pytest.approx(rows.sum())


def test_a_fit_goes_on_from_its_own_tables_alone():
    _, (one, two) = noisy(np.random.default_rng(7), [("a",), ("b",)])
    before = fitted(DOMAIN, 100.0, [one])
    with pytest.raises(ValueError, match="first of its tables"):
        fitted(DOMAIN, 100.0, [two], before=before)


@pytest.mark.parametrize("seed", [8, 113, 123, 182, 232, 292])
def test_columns_that_follow_from_each_other_are_fitted(seed):
    """Most cells are empty: the descent ended up to 1,800 standard errors away, by these seeds."""
    draw, domain = np.random.default_rng(seed), Domain(tuple("abcde"), (2, 4, 10, 12, 3))
    codes = [np.array([0, 1]), np.array([1, 3]), *[np.array([0, 1])] * 3]
    tables = []
    for axes, variance in [*(((at,), 16.7) for at in range(5)), ((0, 1), 7.0)]:
        values = np.zeros([domain.sizes[at] for at in axes])
        np.add.at(values, tuple(codes[at] for at in axes), 10_000)
        values += np.rint(math.sqrt(variance) * draw.normal(size=values.shape))
        names = tuple(domain.names[at] for at in axes)
        tables.append(whole(domain, names, values, variance))
    fit = fitted(domain, total(tables), tables)
    assert fit.away < 0.5 and fit.orders[-1].tau >= 1 / total(tables)


@pytest.mark.parametrize("stddev", [10.0, 2.5])
def test_what_is_left_of_tied_columns_is_fitted(stddev):
    """Tables without their margins, as a plan measures them: they were fitted up to 500 standard
    errors away, and a step for such a table made the fit worse than it was."""
    draw, domain = np.random.default_rng(4), Domain(tuple("abcd"), (6, 2, 7, 5))
    one = draw.choice(6, 30_000, p=[0.4, 0.25, 0.03, 0.16, 0.11, 0.05])
    two = np.where(one == 0, 1, np.where(one == 5, 0, draw.integers(0, 2, one.size)))
    odd = draw.integers(0, 7, one.size)
    three = np.where((one == 0) | (one == 5), 2, np.where(odd == 2, 4, odd))
    codes = (one, two, three, draw.choice(5, one.size, p=[0.01, 0.03, 0.1, 0.01, 0.85]))
    tables = []
    for axes in [axes for many in (1, 2) for axes in itertools.combinations(range(4), many)]:
        values = np.zeros([domain.sizes[at] for at in axes])
        np.add.at(values, tuple(codes[at] for at in axes), 1.0)
        values = centred(values + stddev * draw.normal(size=values.shape))
        names = tuple(domain.names[at] for at in axes)
        tables.append(replace(whole(domain, names, values, stddev**2), centred=True))
    place = layout(domain, tables, CELLS)
    known = {table: np.zeros(table.values.shape) for table in tables}
    base = Folded(place, tables, functions(place, {}))
    dual, worst = _Dual(base, 30_000.0, tables, 0.01), math.inf
    for _ in range(40):
        start = Calibration(place.tree, functions(place, known))
        Climb(place, 30_000.0, known, start, 0.01).climbed(1)
        worst, last = dual(dual.joined(known)).value, worst
        assert worst <= last + 1e-9 * abs(worst)
    fit = fitted(domain, 30_000.0, tables)
    assert fit.ended and fit.orders[-1].steps <= 300
    truth = np.zeros(domain.sizes)
    np.add.at(truth, codes, 1.0)
    for table in tables:
        off = margin(table, fit.state.dense() - truth, domain.names)
        assert float(np.abs(off).max()) < 12 * stddev


@pytest.mark.parametrize("margins_off", [False, True])
@pytest.mark.parametrize("stddev", [1.0, 10.0])
def test_tables_of_all_pairs_are_fitted_to_the_end(stddev, margins_off):
    """Each column nearly follows from the one before. After 300 steps fits were up to 19 standard
    errors away: margins told twice moved against each other, and empty cells moved full ones."""
    draw, domain = np.random.default_rng(2), Domain(tuple("abcde"), (5, 8, 3, 12, 6))
    codes = [np.minimum(draw.geometric(0.4, 20_000) - 1, 4)]
    for size in domain.sizes[1:]:
        turned = draw.integers(0, size, 100)
        odd = (draw.random(20_000) < 0.05) * draw.integers(0, size, 20_000)
        codes.append((turned[codes[-1]] + odd) % size)
    tables = []
    for axes in [axes for many in (1, 2) for axes in itertools.combinations(range(5), many)]:
        values = np.zeros([domain.sizes[at] for at in axes])
        np.add.at(values, tuple(codes[at] for at in axes), 1.0)
        values += stddev * draw.normal(size=values.shape)
        names = tuple(domain.names[at] for at in axes)
        table = whole(domain, names, centred(values) if margins_off else values, stddev**2)
        tables.append(replace(table, centred=margins_off))
    fit = fitted(domain, 20_000.0, tables, steps=300)
    assert fit.ended and fit.orders[0].steps <= 1


@pytest.mark.parametrize("size", [1, 5])
def test_a_column_of_one_value_has_no_say_in_the_weight_of_the_guess(size):
    """Its centred tables are 0, and have no noise: what others tell of each other decides."""
    domain = Domain(tuple("abc"), (4, size, 3))
    rows = 10_000 * np.random.default_rng(3).dirichlet(np.full(12, 0.3)).reshape(4, 1, 3)
    taus = []
    for sets in (["a", "c", "ac"], ["a", "b", "c", "ab", "ac", "abc"]):
        tables = []
        for names in map(tuple, sets):
            kept = [at for at, name in enumerate("abc") if name in names]
            values = np.repeat(rows, size, axis=1) / size
            values = values.sum(axis=tuple(at for at in range(3) if at not in kept))
            tables.append(replace(whole(domain, names, centred(values), 9.0), centred=True))
        with np.errstate(all="raise"):
            fit = fitted(domain, 10_000.0, tables)
        taus.append({order.columns: order.tau for order in fit.orders})
    assert fit.ended and taus[0][2] < 0.9
    if size == 1:
        assert taus[1][1] == pytest.approx(taus[0][1]) and taus[1][2] == pytest.approx(taus[0][2])


@pytest.mark.parametrize("seed", range(12))
def test_a_fit_to_tables_of_other_classes_comes_near(seed):
    """Of one column, told so exactly that potentials are thousands: where pairs of steps tell of a
    curvature that is another by now, no step along them gains."""
    draw = np.random.default_rng(seed)
    domain = Domain(("a",), (int(draw.integers(3, 7)),))
    rows = np.bincount(np.minimum(draw.geometric(0.6, 100_000), domain.sizes[0]) - 1)
    tables = []
    for _ in range(6):
        classes = numbered(draw.integers(0, 3, domain.sizes[0])).of
        values = np.bincount(classes, weights=rows) + 0.5 * draw.normal(size=classes.max() + 1)
        tables.append(NoisyTable(("a",), (classes,), values, 0.25))
    assert fitted(domain, 100_000.0, tables).away < 0.5
