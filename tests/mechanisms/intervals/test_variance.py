"""Variances and deviations cover at least as often as they say, and are not needlessly wide."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpsql.mechanisms.intervals.answers import Answers
from dpsql.query.estimators import Spread
from tests.mechanisms.judged import (
    A,
    gauss,
)


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
