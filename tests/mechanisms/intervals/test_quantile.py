"""Half widths: exact for one coordinate, never too small for a sum."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.accounting.events import Gaussian, Laplace
from dpsql.mechanisms.intervals.law import coverage, stddev, tail
from dpsql.mechanisms.intervals.quantile import HIGHEST, half_width, simultaneous, sum_half_width

LEVELS = st.floats(0.01, 0.999) | st.floats(-27.0, -1.0).map(lambda x: 1 - math.exp(x))


@settings(deadline=None)
@given(st.fractions(Fraction(1, 10**6), 10**7), LEVELS)
def test_gaussian_half_width_is_the_least_that_covers(variance, level):
    law = Gaussian(3, variance)
    h = half_width(law, level)
    assert tail(law, h) <= 1 - level
    assert h == 0 or tail(law, h - 1) > 1 - level


@settings(deadline=None)
@given(st.fractions(Fraction(1, 1000), 10**6), LEVELS)
def test_laplace_half_width_is_the_least_that_covers(scale, level):
    law = Laplace(5, 2, scale)
    h = half_width(law, level)
    assert tail(law, h) <= 1 - level
    assert h == 0 or tail(law, h - 1) > 1 - level


@pytest.mark.parametrize(
    ("sigma", "covered", "normal"),
    [(Fraction(1, 2), 0.9995, 0.787), (Fraction(1), 0.991, 0.883), (Fraction(5), 0.965, None)],
)
def test_ninety_five_per_cent_intervals_cover_what_the_design_says(sigma, covered, normal):
    """Where rounding a normal half width down to what integers can see falls short."""
    law = Gaussian(1, sigma**2)
    h = half_width(law, 0.95)
    assert coverage(law, h) == pytest.approx(covered, abs=6e-4)
    if normal is not None:
        assert coverage(law, math.floor(1.96 * sigma)) == pytest.approx(normal, abs=6e-4)


@pytest.mark.parametrize("power", [20, 46, 50, 56])
def test_wide_noise_has_normal_and_laplace_quantiles(power):
    for level in (0.5, 0.95, 0.9999):
        z = NormalDist().inv_cdf((1 + level) / 2)
        assert half_width(Gaussian(1, Fraction(4**power)), level) == pytest.approx(
            z * 2**power, rel=1e-9, abs=1
        )
        assert half_width(Laplace(1, 1, Fraction(2**power)), level) == pytest.approx(
            -math.log(1 - level) * 2**power, rel=1e-9, abs=1
        )


def test_vanishing_noise_has_no_width():
    assert half_width(Gaussian(1, Fraction(1, 2000)), 0.999) == 0
    assert half_width(Laplace(1, 1, Fraction(1, 1000)), 0.999) == 0


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 1.5, math.nan, 1 - 1e-14])
def test_a_level_is_a_share_below_one(level):
    law = Gaussian(1, Fraction(1))
    for ask in (
        lambda: half_width(law, level),
        lambda: sum_half_width([(1, law)], level),
        lambda: simultaneous(level, 2),
    ):
        with pytest.raises(ValueError):
            ask()


def test_simultaneous_levels_share_what_may_fail():
    assert simultaneous(0.95, 1) == pytest.approx(0.95)
    assert simultaneous(0.95, 100) == pytest.approx(0.9995)
    for k in (1, 2, 7, 1000, 10**6):
        assert k * (1 - simultaneous(0.9, k)) <= 0.1 + 1e-15
    assert simultaneous(0.95, 10**15) == HIGHEST
    with pytest.raises(ValueError):
        simultaneous(0.95, 0)


def test_the_width_of_nothing_is_nothing():
    law = Gaussian(1, Fraction(9))
    assert sum_half_width([], 0.95) == 0
    assert sum_half_width([(0, law)], 0.95) == 0


def test_one_coordinate_scales():
    law = Laplace(1, 1, Fraction(9))
    assert sum_half_width([(Fraction(-3, 7), law)], 0.9) == Fraction(3, 7) * half_width(law, 0.9)


def test_wider_noise_of_one_kind_and_higher_levels_need_more():
    for law in (Gaussian(1, Fraction(30)), Laplace(1, 1, Fraction(30))):
        widths = [half_width(law, level) for level in (0.5, 0.8, 0.9, 0.99, 0.9999)]
        assert widths == sorted(widths)
        assert stddev(law) > 0
