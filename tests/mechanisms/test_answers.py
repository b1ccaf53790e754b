"""Every kind of interval covers the truth at least as often as it says: by exact summation.

All ways that the noise can fall are enumerated with their chances, so nothing here can fail by
chance. Each kind is also told of noise a tenth smaller than it is, and must then fail to cover:
that is what the tests can see.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpsql.accounting.events import Gaussian, Laplace
from dpsql.mechanisms.answers import Answers
from dpsql.mechanisms.law import coverage, stddev
from dpsql.mechanisms.quantile import half_width, simultaneous
from dpsql.query.compile import Count, Mean, Spread, Sum
from dpsql.query.expr import Call, Cast, Const, Op, Slot

SLACK = 1e-9  # of chances that were left out or rounded
A, B, C, D = (Slot(f"a{i}") for i in range(4))
COUNTS = [Count(0), Count(1), Count(2), Count(3)]


def gauss(sigma) -> Gaussian:
    return Gaussian(1, Fraction(sigma) ** 2)


def lap(scale) -> Laplace:
    return Laplace(1, 1, Fraction(scale))


def tenth_off(law):
    """The law of noise a tenth smaller."""
    match law:
        case Gaussian(variance=variance):
            return Gaussian(1, variance * Fraction(81, 100))
        case Laplace(scale=scale):
            return Laplace(1, 1, scale * Fraction(9, 10))


def num(value) -> Const:
    kind = "integer" if isinstance(value, int) else "decimal"
    return Const(kind, str(value))


def call(name: str, *args) -> Call:
    return Call(name, args)


LAWS = [gauss(Fraction(1, 50)), gauss(Fraction(1, 2)), gauss(1), gauss(5), gauss(50),
        lap(Fraction(1, 50)), lap(Fraction(1, 2)), lap(1), lap(5), lap(50)]  # fmt: skip
SMALL = [gauss(Fraction(1, 2)), gauss(1), gauss(3), lap(Fraction(1, 2)), lap(1), lap(2)]
LEVELS = [0.5, 0.9, 0.95, 0.999]


# -- counts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("level", LEVELS)
def test_a_count_covers_exactly_as_often_as_its_noise_stays_within(judged, law, level):
    found = judged(A, COUNTS, [7], law, level)
    h = half_width(law, level)
    assert found.covers(7) == pytest.approx(coverage(law, h), abs=SLACK)
    assert level - SLACK <= found.covers(7)
    assert (found.high - found.low == 2 * h).all()
    assert found.mean_square(7) == pytest.approx(float(found.stderr[0]) ** 2, rel=1e-6)


@pytest.mark.parametrize("sigma", [Fraction(1, 2), 1, 5])
def test_intervals_of_rounded_normals_would_not_cover(judged, sigma):
    """B10: integer noise with a real-valued bound; what a normal quantile would give."""
    law = gauss(sigma)
    found = judged(A, COUNTS, [0], law, 0.95)
    normal = np.abs(found.value) <= 1.96 * float(sigma)
    assert found.chances[normal].sum() < 0.95 <= found.covers(0) + SLACK


@pytest.mark.parametrize("factor", [2, 7, 16, 1601])
@pytest.mark.parametrize("law", [gauss(1), gauss(12), gauss(300), lap(9)], ids=str)
def test_a_count_on_a_finer_scale_is_whole_and_covers(judged, factor, law):
    found = judged(A, COUNTS, [5], law, 0.95, factors=[factor])
    assert found.covers(5) >= 0.95 - SLACK
    for end in (found.low, found.high):
        assert (end == np.rint(end)).all()
    assert (found.high - found.low <= 2 * half_width(law, 0.95) / factor + 1).all()
    sides = tenth_off(law)
    if half_width(sides, 0.95) // factor < half_width(law, 0.95) // factor:
        assert judged(A, COUNTS, [5], law, 0.95, factors=[factor], claimed=sides).covers(5) < 0.95


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
def test_a_clamped_count_covers_and_is_not_negative(judged, law):
    for truth in (0, 1, 3):
        found = judged(A, COUNTS, [truth], law, 0.95, clamp=True)
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
def test_linear_forms_cover_the_float_that_the_truth_is(judged, kind, law):
    """Ends that the noise reaches exactly are equal to the truth, not one rounding beside it."""
    expr, estimators, truth, value = LINEAR[kind]
    for factors in (None, [16, 16, 16, 16][: len(truth)]):
        for level in (0.5, 0.95):
            found = judged(expr, estimators, truth, law, level, factors=factors)
            true = float(value(*truth))
            assert found.covers(true) >= level - SLACK
            exact = found.mean_square(true)
            assert exact == pytest.approx(float(found.stderr[0]) ** 2, rel=1e-6)


@pytest.mark.parametrize("kind", ["difference", "sum", "weighted"])
def test_linear_forms_told_of_a_tenth_less_noise_do_not_cover(judged, kind):
    expr, estimators, truth, value = LINEAR[kind]
    law = gauss(5)
    found = judged(expr, estimators, truth, law, 0.95, claimed=tenth_off(law))
    assert found.covers(float(value(*truth))) < 0.95 - 0.005


def test_a_difference_of_an_answer_and_itself_is_known(judged):
    found = Answers(np.array([[5], [9]]), gauss(3), (Count(0),), (1,), False)
    _, low, high, _ = found.intervals(call("-", call("+", A, A), A), 0.95)
    h = half_width(gauss(3), 0.95)
    assert low.tolist() == [5 - h, 9 - h] and high.tolist() == [5 + h, 9 + h]
    nothing = found.of(call("-", A, A))
    assert nothing is not None and not nothing.gradient and nothing.constant == 0


# -- ratios --------------------------------------------------------------------------------------

MEAN = Mean(0, 1, Fraction(0), Fraction(1))
HOURS = Mean(0, 1, Fraction(1), Fraction(99))


def true_mean(estimator: Mean, above: int, below: int) -> float:
    return float(estimator.lo + (estimator.hi - estimator.lo) * Fraction(above, above + below))


@pytest.mark.parametrize("parts", [(0, 1), (1, 0), (1, 1), (0, 7), (3, 9), (20, 11), (400, 30),
                                   (0, 10_000), (70_000, 30_000)])  # fmt: skip
@pytest.mark.parametrize("law", [*SMALL, gauss(5)], ids=str)
def test_a_mean_covers_whatever_its_denominator(judged, parts, law):
    """Fieller, with tiny, small and large denominators; withheld ones have the whole range."""
    for estimator in (MEAN, HOURS):
        for level in (0.8, 0.95):
            found = judged(A, [estimator], parts, law, level)
            assert found.covers(true_mean(estimator, *parts)) >= level - SLACK
            lo, hi = float(estimator.lo), float(estimator.hi)
            assert (lo <= found.low).all() and (found.high <= hi).all()
            unsure = found.doubtful
            assert (found.low[unsure] == lo).all() and (found.high[unsure] == hi).all()


@pytest.mark.parametrize("law", [gauss(5), lap(4)], ids=str)
def test_a_mean_told_of_a_tenth_less_noise_does_not_cover(judged, law):
    found = judged(A, [MEAN], [900, 600], law, 0.95, claimed=tenth_off(law))
    assert found.covers(0.6) < 0.95 - 0.003


@pytest.mark.parametrize("law", [gauss(5), gauss(2), lap(4)], ids=str)
def test_a_mean_is_not_needlessly_wide(judged, law):
    """Within 15 % of what its own direction alone would need, where the denominator is large."""
    for parts in ((900, 600), (50, 1500)):
        found = judged(A, [MEAN], parts, law, 0.95)
        share = parts[0] / sum(parts)
        errors = np.abs(found.value - share)
        order = np.argsort(errors)
        needed = errors[order][np.searchsorted(np.cumsum(found.chances[order]), 0.95)]
        assert found.chances @ (found.high - found.low) / 2 <= 1.15 * needed


def test_a_ratio_is_withheld_unless_its_denominator_stands_out(judged):
    """T17, B37: surface 4's rule, z times the standard error of the noisy denominator."""
    law = gauss(5)
    for parts in ((0, 0), (1, 1), (3, 12), (40, 20)):
        found = judged(A, [MEAN], parts, law, 0.95)
        assert ((found.value >= 0.0) | found.doubtful).mean() > 0
        shown = ~found.doubtful
        assert ((found.low >= 0) & (found.high <= 1)).all()
        assert found.chances[shown].sum() <= (0.026 if parts == (0, 0) else 1.0)
    noisy = np.array([[a, 0] for a in range(40)])
    doubtful = Answers(noisy, law, (MEAN,), (1, 1), False).of(A).doubtful(0.95)
    least = math.sqrt(2) * 5 * 1.96
    assert doubtful[: int(least)].all() and not doubtful[int(least * 1.1) + 1 :].any()


RATIOS = {
    "share": (call("/", A, B), lambda a, b: a / b),
    "share of a sum": (call("/", A, call("+", A, B)), lambda a, b: a / (a + b)),
    "balance": (call("/", call("-", A, B), call("+", A, B)), lambda a, b: (a - b) / (a + b)),
    "per cent": (call("/", call("*", num("100.0"), A), B), lambda a, b: 100 * a / b),
    "complement": (call("-", num(1), call("/", A, B)), lambda a, b: 1 - a / b),
    "shifted": (call("/", call("+", A, num(5)), call("+", B, num(3))),
                lambda a, b: (a + 5) / (b + 3)),
    "by a difference": (call("/", A, call("-", A, B)), lambda a, b: a / (a - b)),
}  # fmt: skip


@pytest.mark.parametrize("kind", RATIOS)
@pytest.mark.parametrize("law", [gauss(Fraction(1, 2)), gauss(1), gauss(4), lap(2)], ids=str)
def test_ratios_that_share_answers_cover(judged, kind, law):
    expr, value = RATIOS[kind]
    for truth in ((3, 8), (40, 25), (1000, 1500)):
        found = judged(expr, COUNTS, truth, law, 0.95)
        assert found.covers(value(*truth)) >= 0.95 - SLACK
        assert np.isinf(found.low[found.doubtful]).all()


@pytest.mark.parametrize("kind", RATIOS)
def test_ratios_told_of_a_tenth_less_noise_do_not_cover(judged, kind):
    expr, value = RATIOS[kind]
    found = judged(expr, COUNTS, (2000, 1500), gauss(5), 0.95, claimed=tenth_off(gauss(5)))
    assert found.covers(value(2000, 1500)) < 0.95 - 0.002


def test_a_ratio_of_an_answer_to_itself_is_one(judged):
    found = judged(call("/", A, A), COUNTS, [500], gauss(5), 0.95)
    assert found.covers(1.0) == pytest.approx(1.0, abs=SLACK)
    assert np.allclose(found.high, 1.0) and np.allclose(found.low, 1.0)


@pytest.mark.parametrize("factors", [(16, 16), (1600, 1600), (3, 50)])
def test_ratios_of_counts_on_a_finer_scale_are_fiellers(judged, factors):
    law = gauss(3)
    found = judged(call("/", A, B), COUNTS, (30, 50), law, 0.95, factors=factors)
    assert found.covers(0.6) >= 0.95 - SLACK
    spread = stddev(law) * math.hypot(1 / factors[0], 0.6 / factors[1]) / 50
    assert found.chances @ (found.high - found.low) <= 2 * 1.15 * 1.96 * spread


@pytest.mark.parametrize("law", [gauss(1), gauss(3)], ids=str)
def test_clamped_ratios_cover_and_keep_the_rule(judged, law):
    for truth in ((0, 40), (3, 8), (0, 0)):
        found = judged(call("/", A, B), COUNTS, truth, law, 0.95, clamp=True)
        if truth[1]:
            assert found.covers(truth[0] / truth[1]) >= 0.95 - SLACK
        assert (found.low >= 0).all()
        assert found.chances[found.doubtful].sum() >= (0.9 if truth == (0, 0) else 0)


# -- functions of outputs ------------------------------------------------------------------------

FUNCTIONS = {
    "round": (call("round", call("/", A, num(7))), lambda a: round(a / 7)),
    "round to tens": (call("round", A, num(-1)), lambda a: round(a / 10) * 10),
    "round of a mean": (call("round", call("/", A, num(30)), num(2)), lambda a: round(a / 30, 2)),
    "floor": (call("floor", call("/", A, num(7))), lambda a: a // 7),
    "ceil": (call("ceil", call("/", A, num(7))), lambda a: -(-a // 7)),
    "trunc": (call("trunc", call("/", A, num(7))), lambda a: math.trunc(a / 7)),
    "integer division": (call("//", A, num(7)), lambda a: math.trunc(a / 7)),
    "cast": (Cast(call("/", A, num(7)), "BIGINT"), lambda a: round(a / 7)),
    "decimal": (Cast(call("/", A, num(7)), "DECIMAL(10,2)"), lambda a: round(a / 7, 2)),
    "float": (Cast(A, "DOUBLE"), lambda a: a),
    "try": (Op("TRY", (A,)), lambda a: a),
    "abs": (call("abs", call("-", A, num(20))), lambda a: abs(a - 20)),
    "sqrt": (call("sqrt", A), math.sqrt),
    "cbrt": (call("cbrt", A), np.cbrt),
    "ln": (call("ln", A), np.log),
    "log2": (call("log2", A), np.log2),
    "log10": (call("log", A), np.log10),
    "exp": (call("exp", call("/", A, num(50))), lambda a: np.exp(a / 50)),
    "square": (call("**", A, num(2)), lambda a: a * a),
    "cube": (call("pow", A, num(3)), lambda a: a**3),
    "greatest": (call("greatest", A, num(20)), lambda a: max(a, 20)),
    "least": (call("least", num(20), A), lambda a: min(a, 20)),
    "negative of a square": (call("-", call("*", A, A)), lambda a: -a * a),
    "sum coalesced": (Op("COALESCE", (A, num(0))), lambda a: a),
}


@pytest.mark.parametrize("kind", FUNCTIONS)
@pytest.mark.parametrize("law", [gauss(1), gauss(6), lap(3)], ids=str)
def test_functions_of_an_output_cover(judged, kind, law):
    expr, value = FUNCTIONS[kind]
    for truth in (1, 17, 24, 200):
        found = judged(expr, COUNTS, [truth], law, 0.95)
        assert found.covers(float(value(truth))) >= 0.95 - SLACK


@pytest.mark.parametrize("kind", ["sqrt", "exp", "ln", "square", "abs", "cbrt", "log2"])
def test_functions_told_of_a_tenth_less_noise_do_not_cover(judged, kind):
    expr, value = FUNCTIONS[kind]
    found = judged(expr, COUNTS, [200], gauss(5), 0.95, claimed=tenth_off(gauss(5)))
    assert found.covers(value(200)) < 0.95


@pytest.mark.parametrize("kind", ["sqrt", "exp", "ln", "square", "cube", "cbrt", "log10", "abs"])
def test_standard_errors_of_functions_are_of_first_order(judged, kind):
    expr, value = FUNCTIONS[kind]
    found = judged(expr, COUNTS, [2000], gauss(4), 0.95)
    error = math.sqrt(found.mean_square(value(2000)))
    assert found.chances @ found.stderr == pytest.approx(error, rel=0.02)


JOINT = {
    "product": (call("*", A, B), (9, 14), lambda a, b: a * b),
    "quotient of functions": (call("/", call("sqrt", A), B), (90, 64), lambda a, b: a**0.5 / b),
    "quotient by a root": (call("/", A, call("sqrt", B)), (90, 64), lambda a, b: a / b**0.5),
    "greatest": (call("greatest", A, B), (9, 11), max),
    "distance": (call("abs", call("-", A, B)), (9, 8), lambda a, b: abs(a - b)),
}


@pytest.mark.parametrize("kind", JOINT)
@pytest.mark.parametrize("law", [gauss(1), gauss(4), lap(2)], ids=str)
def test_expressions_of_two_answers_cover(judged, kind, law):
    expr, truth, value = JOINT[kind]
    found = judged(expr, COUNTS, truth, law, 0.95)
    assert found.covers(value(*truth)) >= 0.95 - SLACK


@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(7, 10)])
def test_an_odds_ratio_covers_and_is_withheld_near_nothing(judged, sigma):
    odds = call("/", call("/", A, B), call("/", C, D))
    for truth in ((30, 12, 9, 25), (2, 3, 2, 1), (5, 4, 0, 9)):
        found = judged(odds, COUNTS, truth, gauss(sigma), 0.9)
        a, b, c, d = truth
        if c:
            assert found.covers(a / b / (c / d)) >= 0.9 - SLACK
        assert np.isinf(found.high[found.doubtful]).all()
        assert (found.doubtful | np.isfinite(found.high)).all()


def test_means_of_two_columns_are_compared_at_a_shared_level(judged):
    law = gauss(Fraction(3, 5))
    means = [Mean(0, 1, Fraction(0), Fraction(1)), Mean(2, 3, Fraction(0), Fraction(1))]
    found = judged(call("-", A, B), means, (9, 3, 2, 10), law, 0.9)
    assert found.covers(9 / 12 - 2 / 12) >= 0.9 - SLACK
    assert (found.low >= -1).all() and (found.high <= 1).all()


def test_a_mean_that_is_withheld_is_replaced_by_coalesce(judged):
    """COALESCE(AVG(x), 0): the number shown instead lies in the interval, and is not withheld."""
    for parts in ((0, 0), (3, 9), (300, 100)):
        found = judged(Op("COALESCE", (A, num(-1))), [MEAN], parts, gauss(3), 0.95)
        assert not found.doubtful.any()
        true = -1.0 if parts == (0, 0) else parts[0] / sum(parts)
        assert found.covers(true) >= 0.95 - SLACK


def test_what_has_no_interval_says_so():
    answers = Answers(np.zeros((3, 1), np.int64), gauss(1), (Count(0),), (1,), False)
    for expr in (
        Slot("k0"),
        num(3),
        call("sin", A),
        call("%", A, num(3)),
        Cast(A, "VARCHAR"),
        call("*", A, Const("double", "1e400")),
        call("*", call("*", A, Const("double", "1e300")), Const("double", "1e300")),
        call("pow", A, num("0.5")),
        Op("COALESCE", (call("/", A, A), num(0))),
    ):
        assert answers.intervals(expr, 0.95) is None
    digits = answers.intervals(call("round", A, num(400)), 0.95)
    assert digits is not None and np.isfinite(digits[1]).all()


# -- variances -----------------------------------------------------------------------------------


def spread(kind: str, steps: int, lo=0, unit=1) -> Spread:
    return Spread(0, 1, 2, Fraction(lo), Fraction(lo) + steps * Fraction(unit), steps, kind)


def measured(values: list[int], steps: int) -> tuple[int, int, int]:
    """The three answers for values given in steps."""
    return (
        sum(4 * (steps - t) ** 2 for t in values),
        sum(15 * t * (steps - t) for t in values),
        sum(4 * t**2 for t in values),
    )


CROWDS = {
    "even": [0, 1, 2, 3] * 30,
    "far apart": [0] * 25 + [3] * 40,
    "all equal": [2] * 50,
    "at an end": [3] * 50,
    "few": [0, 2, 3],
    "two": [1, 3],
    "skew": [0] * 100 + [3],
}


def moment(values: list[int], kind: str) -> float:
    exact = np.var(values, ddof=1 if kind.endswith("samp") else 0)
    return float(np.sqrt(exact)) if kind.startswith("stddev") else float(exact)


@pytest.mark.parametrize("crowd", CROWDS)
@pytest.mark.parametrize("kind", ["var_pop", "var_samp", "stddev_pop", "stddev_samp"])
def test_variances_cover_by_simulation(crowd, kind):
    """Seeded; for fresh draws each share lies 6 stddevs below the level once in 1e9."""
    rng = np.random.default_rng(20)
    values, steps, count = CROWDS[crowd], 3, 20_000
    truth = np.array(measured(values, steps))
    for sigma, factor in ((20, 1), (200, 1), (150, 16), (3, 1)):
        law = gauss(sigma)
        noisy = truth * factor + np.rint(rng.normal(0, sigma, (count, 3))).astype(np.int64)
        answers = Answers(noisy, law, (spread(kind, steps),), (factor,) * 3, False)
        for level in (0.8, 0.95):
            _, low, high, doubtful = answers.intervals(A, level)
            share = np.mean((low <= moment(values, kind)) & (moment(values, kind) <= high))
            assert share >= level - 6 * math.sqrt(level * (1 - level) / count)
            assert (low <= high).all() and (low >= 0).all()
            assert doubtful is not None


def test_variances_are_scaled_by_their_unit():
    values, steps = CROWDS["even"], 3
    noisy = np.array([measured(values, steps)])
    for unit in (Fraction(1), Fraction(1, 10), Fraction(2500)):
        narrow = spread("var_samp", steps, lo=17, unit=unit)
        answers = Answers(noisy, gauss(Fraction(1, 50)), (narrow,), (1, 1, 1), False)
        expected = moment(values, "var_samp") * float(unit) ** 2
        assert answers.of(A).value[0] == pytest.approx(expected, rel=1e-12)
        errors, low, high, _ = answers.intervals(A, 0.95)
        assert low[0] == pytest.approx(expected, rel=1e-3) == high[0]
        assert errors[0] < 1e-9


@pytest.mark.parametrize("kind", ["var_pop", "var_samp", "stddev_pop", "stddev_samp"])
def test_variances_are_not_needlessly_wide_and_their_errors_are_of_first_order(kind):
    """A large crowd: within 20 % of the normal interval. 20,000 draws tell 4 stddevs in 3 %."""
    rng = np.random.default_rng(21)
    values, steps, sigma = CROWDS["even"] * 40, 3, 60
    truth = np.array(measured(values, steps))
    noisy = truth + np.rint(rng.normal(0, sigma, (20_000, 3))).astype(np.int64)
    answers = Answers(noisy, gauss(sigma), (spread(kind, steps),), (1, 1, 1), False)
    errors, low, high, doubtful = answers.intervals(A, 0.95)
    shown = answers.of(A).value
    assert not doubtful.any()
    assert (low <= shown).all() and (shown <= high).all()
    spent = np.sqrt(np.mean((shown - moment(values, kind)) ** 2))
    assert errors.mean() == pytest.approx(spent, rel=0.03)
    assert (high - low).mean() / 2 <= 1.2 * 1.96 * spent
    claimed = Answers(
        noisy, gauss(sigma * Fraction(8, 10)), (spread(kind, steps),), (1,) * 3, False
    )
    _, low, high, _ = claimed.intervals(A, 0.95)
    assert np.mean((low <= moment(values, kind)) & (moment(values, kind) <= high)) < 0.94


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
