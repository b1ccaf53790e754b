"""The transfer theorem's constants, against the formula computed by another road."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from scipy import optimize

from dpsql.accounting.events import PICO, Gaussian
from dpsql.mechanisms.intervals.answers import Answers
from dpsql.mechanisms.transfer import Transcript, intervals, transfer
from dpsql.query.estimators import Count, Mean
from dpsql.query.expr import Slot

MISSED = [0.2, 0.05, 1e-3, 1e-6]
RHOS = [0, 10**6, 10**8, 1_284_190_787, 10**10]  # the fourth: epsilon 0.1 at 1e-6, replace-one


def loss(rho: float, delta: float) -> float:
    """epsilon of rho-zCDP at delta: the infimum over orders, by a search of its own."""

    def at(log: float) -> float:
        a = 1.0 + math.exp(log)
        return float(a * rho + math.log1p(-1 / a) - (math.log(delta) + math.log(a)) / (a - 1))

    found = optimize.minimize_scalar(at, bounds=(-5, 25), method="bounded", options={"xatol": 1e-9})
    return max(0.0, float(found.fun)) if rho else 0.0


def width(rho: float, missed: float, noise: float, at: Any) -> float:
    """alpha + e^epsilon - 1 + c + 2 d; beta/c takes a part of `missed` and delta/d the rest."""
    beta, delta = (10.0**x for x in at[:2])
    part = 1.0 / (1.0 + math.exp(-at[2]))
    c, d = beta / (part * missed), delta / ((1.0 - part) * missed)
    return (
        -NormalDist().inv_cdf(beta / 2) * noise + math.expm1(loss(rho, delta)) + c + 2.0 * d
    )  # fmt: skip


@pytest.mark.parametrize("missed", MISSED)
@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("noise", [0.0, 1e-4, 1e-2])
def test_the_constants_are_those_of_the_theorem(missed: float, rho: int, noise: float) -> None:
    found = transfer(Transcript(rho), missed, noise)
    assert 0.999 * missed < found.missed <= missed
    assert found.missed == pytest.approx(found.beta / found.c + found.delta / found.d)
    epsilon = loss(rho / PICO, found.delta)
    assert found.epsilon == pytest.approx(epsilon, rel=1e-6, abs=1e-12)
    assert found.shift == pytest.approx(math.expm1(epsilon) + found.c + 2 * found.d, rel=1e-6)
    assert found.shift >= math.expm1(epsilon) * (1 - 1e-9) + found.c + 2 * found.d


@pytest.mark.parametrize("missed", MISSED[:3])
@pytest.mark.parametrize("noise", [1e-4, 1e-2])
def test_no_other_constants_are_much_better(missed: float, noise: float) -> None:
    rho = RHOS[3]
    found = transfer(Transcript(rho), missed, noise)
    best = optimize.minimize(
        lambda at: width(rho / PICO, missed, noise, np.clip(at, [-11, -15, -20], [-0.4, -0.4, 20])),
        (math.log10(found.beta), math.log10(found.delta), 0.0),
        method="Nelder-Mead",
        options={"xatol": 1e-6, "fatol": 1e-9, "maxiter": 2000},
    )
    assert found.bound(noise) <= best.fun * 1.02
    assert found.bound(noise) >= best.fun * 0.999


def test_a_pure_transcript_needs_no_delta_where_that_is_better() -> None:
    epsilon = 0.01
    pure = transfer(Transcript(10**12, round(epsilon * PICO)), 0.05, 1e-4)
    assert (pure.delta, pure.d) == (0.0, 0.0)
    assert pure.shift == pytest.approx(math.expm1(epsilon) + pure.beta / 0.05)


def test_more_told_is_a_wider_interval_and_so_is_a_higher_level() -> None:
    told = [transfer(Transcript(rho), 0.05, 1e-3).bound(1e-3) for rho in RHOS]
    assert all(a < b for a, b in pairwise(told))
    sure = [transfer(Transcript(RHOS[2]), missed, 1e-3).bound(1e-3) for missed in MISSED]
    assert all(a < b for a, b in pairwise(sure))


def test_what_is_told_without_bound_says_nothing() -> None:
    assert transfer(Transcript(10**18), 0.05, 1e-3).shift > 1


# -- intervals -------------------------------------------------------------------------------------

LAW = Gaussian(1, Fraction(400))


def answers(noisy: list[list[int]], estimator: Count | Mean) -> Answers:
    return Answers(np.array(noisy), LAW, (estimator,), (1,) * len(noisy[0]), clamp=False)


def test_a_count_reaches_as_many_rows_further_as_the_theorem_says() -> None:
    found = transfer(Transcript(RHOS[2]), 0.05, 1e-3)
    made = answers([[500], [10]], Count(0))
    plain = made.intervals(Slot("a0"), found.level)
    wide = intervals(made, Slot("a0"), found, 2000.0)
    assert plain is not None and wide is not None
    more = 2000.0 * found.shift
    assert wide[1].tolist() == pytest.approx([plain[1][0] - more, 0.0])
    assert wide[2].tolist() == pytest.approx([plain[2][0] + more, plain[2][1] + more])


@pytest.mark.parametrize(("lo", "hi", "steps"), [(0, 1, 1), (-20, 70, 1), (0, 9, 9)])
def test_a_mean_has_the_set_where_its_linear_query_is_within_noise_and_bound(
    lo: int, hi: int, steps: int
) -> None:
    """The ends by bisection of |N - r D| = z s(r) + B, for N = hi a + lo b and D = a + b, to which
    a row adds `steps`."""
    found, rows = transfer(Transcript(RHOS[2]), 0.05, 1e-3), 20_000.0
    a, b = 6_000 * steps, 9_000 * steps
    made = answers([[a, b]], Mean(0, 1, Fraction(lo), Fraction(hi)))
    wide = intervals(made, Slot("a0"), found, rows, steps)
    assert wide is not None
    z = made._noise.reach(found.level, 2)
    more = rows * found.shift * (hi - lo) * steps

    def apart(r: float) -> float:
        size = math.hypot(hi - r, lo - r) * math.sqrt(400)
        return abs((hi * a + lo * b) - r * (a + b)) - z * size - more

    value = (hi * a + lo * b) / (a + b)
    low, high = optimize.brentq(apart, lo, value), optimize.brentq(apart, value, hi)
    a_row = (hi - lo) * steps / (a + b)
    assert low - 2.1 * a_row <= wide[1][0] <= low
    assert high <= wide[2][0] <= high + 2.1 * a_row


def test_where_the_number_of_rows_is_not_known_nothing_is_said() -> None:
    found = transfer(Transcript(RHOS[2]), 0.05, 0.0)
    count = intervals(answers([[500]], Count(0)), Slot("a0"), found, math.inf)
    mean = intervals(
        answers([[50, 90]], Mean(0, 1, Fraction(0), Fraction(1))), Slot("a0"), found, math.inf
    )
    assert count is not None and mean is not None
    assert (count[1][0], count[2][0]) == (0.0, math.inf)
    assert (mean[1][0], mean[2][0]) == (0.0, 1.0)
