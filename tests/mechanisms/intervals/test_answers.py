"""Counts, linear forms and ratios cover the truth at least as often as they say."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpsql.mechanisms.intervals.answers import Answers
from dpsql.mechanisms.intervals.law import coverage, stddev
from dpsql.mechanisms.intervals.quantile import half_width, simultaneous
from dpsql.query.estimators import Count, Mean, Sum
from tests.mechanisms.judged import (
    COUNTS,
    SLACK,
    A,
    B,
    call,
    gauss,
    judge,
    lap,
    num,
    tenth_off,
)

LAWS = [gauss(Fraction(1, 50)), gauss(Fraction(1, 2)), gauss(1), gauss(5), gauss(50),
        lap(Fraction(1, 50)), lap(Fraction(1, 2)), lap(1), lap(5), lap(50)]  # fmt: skip
SMALL = [gauss(Fraction(1, 2)), gauss(1), gauss(3), lap(Fraction(1, 2)), lap(1), lap(2)]
LEVELS = [0.5, 0.9, 0.95, 0.999]


# -- counts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("level", LEVELS)
def test_a_count_covers_exactly_as_often_as_its_noise_stays_within(law, level):
    found = judge(A, COUNTS, [7], law, level)
    h = half_width(law, level)
    assert found.covers(7) == pytest.approx(coverage(law, h), abs=SLACK)
    assert level - SLACK <= found.covers(7)
    assert (found.high - found.low == 2 * h).all()
    assert found.mean_square(7) == pytest.approx(float(found.stderr[0]) ** 2, rel=1e-6)


@pytest.mark.parametrize("sigma", [Fraction(1, 2), 1, 5])
def test_intervals_of_rounded_normals_would_not_cover(sigma):
    """B10: integer noise with a real-valued bound; what a normal quantile would give."""
    law = gauss(sigma)
    found = judge(A, COUNTS, [0], law, 0.95)
    normal = np.abs(found.value) <= 1.96 * float(sigma)
    assert found.chances[normal].sum() < 0.95 <= found.covers(0) + SLACK


@pytest.mark.parametrize("factor", [2, 7, 16, 1601])
@pytest.mark.parametrize("law", [gauss(1), gauss(12), gauss(300), lap(9)], ids=str)
def test_a_count_on_a_finer_scale_is_whole_and_covers(factor, law):
    found = judge(A, COUNTS, [5], law, 0.95, factors=[factor])
    assert found.covers(5) >= 0.95 - SLACK
    for end in (found.low, found.high):
        assert (end == np.rint(end)).all()
    assert (found.high - found.low <= 2 * half_width(law, 0.95) / factor + 1).all()
    sides = tenth_off(law)
    if half_width(sides, 0.95) // factor < half_width(law, 0.95) // factor:
        assert judge(A, COUNTS, [5], law, 0.95, factors=[factor], claimed=sides).covers(5) < 0.95


@pytest.mark.parametrize("factor", [1, 2, 7, 16])
@pytest.mark.parametrize(
    ("unit", "type_"), [(Fraction(1), "HUGEINT"), (Fraction(10), "HUGEINT"),
                        (Fraction(1, 100), "DECIMAL(38,2)")],
)  # fmt: skip
@pytest.mark.parametrize("law", [gauss(12), gauss(300), lap(9)], ids=str)
def test_a_sum_of_whole_units_has_ends_of_whole_units_and_covers(law, unit, type_, factor):
    """As a count has, whatever it is measured on."""
    found = judge(A, [Sum(0, unit, type_)], [5], law, 0.95, factors=[factor])
    assert found.covers(float(5 * unit)) >= 0.95 - SLACK
    for end in (found.low, found.high):
        times = np.rint(end / float(unit))
        assert (end == times * unit.numerator / unit.denominator).all()
    wide = 2 * half_width(law, 0.95) / factor + 1
    assert (found.high - found.low <= wide * float(unit) * (1 + 1e-12)).all()
    sides = tenth_off(law)
    if half_width(sides, 0.95) // factor < half_width(law, 0.95) // factor:
        off = judge(A, [Sum(0, unit, type_)], [5], law, 0.95, factors=[factor], claimed=sides)
        assert off.covers(float(5 * unit)) < 0.95


@pytest.mark.parametrize("factor", [1, 7, 16])
@pytest.mark.parametrize("estimator", [Count(0), Sum(0, Fraction(1), "HUGEINT")], ids=str)
@pytest.mark.parametrize("law", [gauss(12), gauss(13), lap(9)], ids=str)
def test_no_interval_is_wider_than_is_said_before(law, estimator, factor):
    """What an accuracy is bought by."""
    told = Answers(np.zeros((1, 1), np.int64), law, (estimator,), (factor,), False)
    most = told.half_width(A, 0.95)
    found = judge(A, [estimator], [5], law, 0.95, factors=[factor])
    assert most is not None and ((found.high - found.low) / 2 <= most).all()


def test_ends_of_a_finer_scale_are_exact():
    """(noisy - h) / factor is whole here: floats would round some of these ends up past it."""
    law, factor = gauss(40), 1601
    h = half_width(law, 0.95)
    truths = np.arange(10**12, 10**12 + 4000)
    for side in (-1, 1):
        noisy = (truths * factor + side * h)[:, None]
        _, low, high, _ = Answers(noisy, law, (Count(0),), (factor,), False).intervals(A, 0.95)
        assert (low <= truths).all() and (truths <= high).all()


@pytest.mark.parametrize("law", SMALL, ids=str)
def test_a_clamped_count_covers_and_is_not_negative(law):
    for truth in (0, 1, 3):
        found = judge(A, COUNTS, [truth], law, 0.95, clamp=True)
        assert found.covers(truth) >= 0.95 - SLACK
        assert (found.low >= 0).all() and (found.value >= 0).all()
        assert (found.low <= found.value).all() and (found.value <= found.high).all()


# -- linear forms --------------------------------------------------------------------------------

LINEAR = {
    "difference": (call("-", A, B), COUNTS, [9, 4], lambda a, b: a - b),
    "sum": (call("+", A, B), COUNTS, [9, 4], lambda a, b: a + b),
    "weighted": (call("-", call("*", num(3), A), call("/", B, num(7))), COUNTS, [9, 4],
                 lambda a, b: 3 * a - Fraction(b, 7)),
    "shifted": (call("+", call("-", A), num("12.5")), COUNTS, [9], lambda a: Fraction(25, 2) - a),
    "cents": (A, [Sum(0, Fraction(1, 100), "DOUBLE")], [1234], lambda a: Fraction(a, 100)),
    "thirds": (A, [Sum(0, Fraction(1, 3), "DOUBLE")], [100], lambda a: Fraction(a, 3)),
    "tens": (A, [Sum(0, Fraction(10), "HUGEINT")], [-55], lambda a: Fraction(10 * a)),
    "cents less a count": (call("-", A, B), [Sum(0, Fraction(1, 100), "DOUBLE"), Count(1)],
                           [1234, 5], lambda a, b: Fraction(a, 100) - b),
}  # fmt: skip


@pytest.mark.parametrize("kind", LINEAR)
@pytest.mark.parametrize("law", SMALL, ids=str)
def test_linear_forms_cover_the_float_that_the_truth_is(kind, law):
    """Ends that the noise reaches exactly are equal to the truth, not one rounding beside it."""
    expr, estimators, truth, value = LINEAR[kind]
    for factors in (None, [16, 16, 16, 16][: len(truth)]):
        for level in (0.5, 0.95):
            found = judge(expr, estimators, truth, law, level, factors=factors)
            true = float(value(*truth))
            assert found.covers(true) >= level - SLACK
            exact = found.mean_square(true)
            near = 1e-6 if factors is None else 1e-2  # halves are rounded up
            assert exact == pytest.approx(float(found.stderr[0]) ** 2, rel=near, abs=1e-12)


@pytest.mark.parametrize("kind", ["difference", "sum", "weighted"])
def test_linear_forms_told_of_a_tenth_less_noise_do_not_cover(kind):
    expr, estimators, truth, value = LINEAR[kind]
    law = gauss(5)
    found = judge(expr, estimators, truth, law, 0.95, claimed=tenth_off(law))
    assert found.covers(float(value(*truth))) < 0.95 - 0.005


def test_a_difference_of_an_answer_and_itself_is_known():
    found = Answers(np.array([[5], [9]]), gauss(3), (Count(0),), (1,), False)
    _, low, high, _ = found.intervals(call("-", call("+", A, A), A), 0.95)
    h = half_width(gauss(3), 0.95)
    assert low.tolist() == [5 - h, 9 - h] and high.tolist() == [5 + h, 9 + h]
    nothing = found.of(call("-", A, A))
    assert nothing is not None and not nothing.gradient and nothing.constant == 0


# -- ratios --------------------------------------------------------------------------------------

MEAN = Mean(0, 1, Fraction(0), Fraction(1))
HOURS = Mean(0, 1, Fraction(1), Fraction(99))
DELAY = Mean(0, 1, Fraction(-60), Fraction(1500))  # B35: a range that is not symmetric


def true_mean(estimator: Mean, above: int, below: int) -> float:
    return float(estimator.lo + (estimator.hi - estimator.lo) * Fraction(above, above + below))


@pytest.mark.parametrize("parts", [(0, 1), (1, 0), (1, 1), (0, 7), (3, 9), (20, 11), (400, 30),
                                   (0, 10_000), (70_000, 30_000)])  # fmt: skip
@pytest.mark.parametrize("law", [*SMALL, gauss(5)], ids=str)
def test_a_mean_covers_whatever_its_denominator(parts, law):
    """Fieller, with tiny, small and large denominators; withheld ones have the whole range."""
    for estimator in (MEAN, HOURS, DELAY):
        for level in (0.8, 0.95):
            found = judge(A, [estimator], parts, law, level)
            assert found.covers(true_mean(estimator, *parts)) >= level - SLACK
            lo, hi = float(estimator.lo), float(estimator.hi)
            assert (lo <= found.low).all() and (found.high <= hi).all()
            unsure = found.doubtful
            assert (found.low[unsure] == lo).all() and (found.high[unsure] == hi).all()


@pytest.mark.parametrize("law", [gauss(5), lap(4)], ids=str)
def test_a_mean_told_of_a_tenth_less_noise_does_not_cover(law):
    found = judge(A, [MEAN], [900, 600], law, 0.95, claimed=tenth_off(law))
    assert found.covers(0.6) < 0.95 - 0.003


@pytest.mark.parametrize("law", [gauss(5), gauss(2), lap(4)], ids=str)
def test_a_mean_is_not_needlessly_wide(law):
    """Within 15 % of what its own direction alone would need, where the denominator is large."""
    for parts in ((900, 600), (50, 1500)):
        found = judge(A, [MEAN], parts, law, 0.95)
        share = parts[0] / sum(parts)
        errors = np.abs(found.value - share)
        order = np.argsort(errors)
        needed = errors[order][np.searchsorted(np.cumsum(found.chances[order]), 0.95)]
        assert found.chances @ (found.high - found.low) / 2 <= 1.15 * needed


RATIOS = {
    "share": (call("/", A, B), lambda a, b: a / b),
    "share of a sum": (call("/", A, call("+", A, B)), lambda a, b: a / (a + b)),
    "balance": (call("/", call("-", A, B), call("+", A, B)), lambda a, b: (a - b) / (a + b)),
    "per cent": (call("/", call("*", num("100.0"), A), B), lambda a, b: 100 * a / b),
    "complement": (call("-", num(1), call("/", A, B)), lambda a, b: 1 - a / b),
    "shifted": (call("/", call("+", A, num(5)), call("+", B, num(3))),
                lambda a, b: (a + 5) / (b + 3)),
    "reciprocal": (call("/", num(1), B), lambda a, b: 1 / b),
    "by a difference": (call("/", A, call("-", A, B)), lambda a, b: a / (a - b)),
}  # fmt: skip


@pytest.mark.parametrize("kind", RATIOS)
def test_standard_errors_of_ratios_are_of_first_order(kind):
    expr, value = RATIOS[kind]
    found = judge(expr, COUNTS, (900, 1600), gauss(4), 0.95)
    error = math.sqrt(found.mean_square(value(900, 1600)))
    assert found.chances @ found.stderr == pytest.approx(error, rel=0.02)


def test_a_ratio_is_withheld_unless_its_denominator_stands_out():
    """T17, B37: surface 4's rule, z times the standard error of the noisy denominator."""
    law = gauss(5)
    for parts in ((0, 0), (1, 1), (3, 12), (40, 20)):
        found = judge(A, [MEAN], parts, law, 0.95)
        assert ((found.value >= 0.0) | found.doubtful).mean() > 0
        shown = ~found.doubtful
        assert ((found.low >= 0) & (found.high <= 1)).all()
        assert found.chances[shown].sum() <= (0.026 if parts == (0, 0) else 1.0)
    noisy = np.array([[a, 0] for a in range(40)])
    doubtful = Answers(noisy, law, (MEAN,), (1, 1), False).of(A).doubtful(0.95)
    least = math.sqrt(2) * 5 * 1.96
    assert doubtful[: int(least)].all() and not doubtful[int(least * 1.1) + 1 :].any()


@pytest.mark.parametrize("kind", RATIOS)
@pytest.mark.parametrize("law", [gauss(Fraction(1, 2)), gauss(1), gauss(4), lap(2)], ids=str)
def test_ratios_that_share_answers_cover(kind, law):
    expr, value = RATIOS[kind]
    for truth in ((3, 8), (40, 25), (1000, 1500)):
        found = judge(expr, COUNTS, truth, law, 0.95)
        assert found.covers(value(*truth)) >= 0.95 - SLACK
        assert np.isinf(found.low[found.doubtful]).all()


@pytest.mark.parametrize("kind", RATIOS)
def test_ratios_told_of_a_tenth_less_noise_do_not_cover(kind):
    expr, value = RATIOS[kind]
    found = judge(expr, COUNTS, (2000, 1500), gauss(5), 0.95, claimed=tenth_off(gauss(5)))
    assert found.covers(value(2000, 1500)) < 0.95 - 0.002


def test_a_ratio_of_an_answer_to_itself_is_one():
    found = judge(call("/", A, A), COUNTS, [500], gauss(5), 0.95)
    assert found.covers(1.0) == pytest.approx(1.0, abs=SLACK)
    assert np.allclose(found.high, 1.0) and np.allclose(found.low, 1.0)


@pytest.mark.parametrize("factors", [(16, 16), (1600, 1600), (3, 50)])
def test_ratios_of_counts_on_a_finer_scale_are_fiellers(factors):
    law = gauss(3)
    found = judge(call("/", A, B), COUNTS, (30, 50), law, 0.95, factors=factors)
    assert found.covers(0.6) >= 0.95 - SLACK
    spread = stddev(law) * math.hypot(1 / factors[0], 0.6 / factors[1]) / 50
    assert found.chances @ (found.high - found.low) <= 2 * 1.15 * 1.96 * spread


@pytest.mark.parametrize("law", [gauss(1), gauss(3)], ids=str)
def test_clamped_ratios_cover_and_keep_the_rule(law):
    for truth in ((0, 40), (3, 8), (0, 0)):
        found = judge(call("/", A, B), COUNTS, truth, law, 0.95, clamp=True)
        if truth[1]:
            assert found.covers(truth[0] / truth[1]) >= 0.95 - SLACK
        assert (found.low >= 0).all()
        assert found.chances[found.doubtful].sum() >= (0.9 if truth == (0, 0) else 0)


# -- winners -------------------------------------------------------------------------------------


def test_the_winner_is_covered_at_the_level_of_all_candidates():
    """ORDER BY n DESC LIMIT 1 of 50 equal groups. Seeded; 6 stddevs: false alarm 1e-9."""
    rng = np.random.default_rng(22)
    law, groups, count = gauss(5), 50, 4_000
    noisy = np.rint(rng.normal(0, 5, (count, groups))).astype(np.int64)
    winners = noisy.max(axis=1)[:, None]
    answers = Answers(winners, law, (Count(0),), (1,), False)
    shares = []
    for level in (0.95, simultaneous(0.95, groups)):
        _, low, high, _ = answers.intervals(A, level)
        shares.append(np.mean((low <= 0) & (high >= 0)))
    assert shares[0] < 0.5
    assert shares[1] >= 0.95 - 6 * math.sqrt(0.95 * 0.05 / count)
