"""The laws by direct sums in many digits, and by their textbook formulas."""

from __future__ import annotations

import decimal
import math
from fractions import Fraction

import numpy as np
import pytest

from dpsql.accounting.events import Gaussian, Laplace
from dpsql.mechanisms.intervals.law import atoms, coverage, stddev, tail

LAWS = [
    Gaussian(1, Fraction(1, 2000)),
    Gaussian(1, Fraction(1, 4)),
    Gaussian(1, Fraction(1)),
    Gaussian(1, Fraction(25)),
    Gaussian(1, Fraction(10**4)),
    Laplace(1, 1, Fraction(1, 10)),
    Laplace(1, 1, Fraction(1)),
    Laplace(1, 1, Fraction(25, 3)),
]


def summed(law, h: int) -> tuple[float, float]:
    """P(|Z| <= h) and the variance, by sums of the unnormalised atoms in 40 digits."""
    with decimal.localcontext(prec=40):
        match law:
            case Gaussian(variance=variance):
                two = 2 * decimal.Decimal(variance.numerator) / variance.denominator
                reach = math.ceil(13 * math.sqrt(variance)) + 3
                weights = [(-k * k / two).exp() for k in map(decimal.Decimal, range(reach))]
            case Laplace(scale=scale):
                b = decimal.Decimal(scale.numerator) / scale.denominator
                weights = [(-k / b).exp() for k in map(decimal.Decimal, range(int(80 * b) + 90))]
        total = 2 * sum(weights) - 1
        inside = 2 * sum(weights[: h + 1]) - 1
        variance = 2 * sum(k * k * w for k, w in enumerate(weights)) / total
        return float(inside / total), float(variance)


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("h", [0, 1, 2, 9, 150])
def test_coverage_is_the_sum_of_the_atoms(law, h):
    inside, variance = summed(law, h)
    assert abs(coverage(law, h) - inside) < 1e-12
    assert coverage(law, h) <= inside + 2e-16
    assert stddev(law) == pytest.approx(math.sqrt(variance), rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_atoms_are_a_law(law):
    radius = 1500
    given = atoms(law, radius)
    assert given.size == 2 * radius + 1
    assert given.sum() == pytest.approx(1.0, abs=1e-13)
    assert (given == given[::-1]).all()
    for h in (0, 3, 40):
        inside = given[radius - h : radius + h + 1].sum()
        assert inside == pytest.approx(coverage(law, h), abs=1e-12)


@pytest.mark.parametrize("sigma", [512.5, 600, 3000, 10**5])
def test_the_formula_for_wide_noise_is_the_sum_of_its_atoms(sigma):
    variance = Fraction(sigma) ** 2
    law = Gaussian(1, variance)
    k = np.arange(0, math.ceil(12 * sigma), dtype=np.float64)
    weights = np.exp(-k * k / (2 * float(variance)))
    total = math.fsum((2 * weights).tolist()) - 1
    for share in (0.01, 0.5, 1.0, 1.96, 3.3, 6.0):
        h = int(share * sigma)
        beyond = 2 * math.fsum(weights[h + 1 :].tolist()) / total
        assert beyond - 1e-15 <= tail(law, h) <= beyond + 1e-12


def test_noise_of_either_width_meets_where_the_formula_takes_over():
    for z in (0.3, 1.0, 2.0, 5.0):
        below = tail(Gaussian(1, Fraction(512**2)), int(512 * z))
        above = tail(Gaussian(1, Fraction(512**2) + Fraction(1, 10**9)), int(512 * z))
        assert above == pytest.approx(below, abs=1e-12)


def test_standard_errors_of_laplace_noise_have_the_textbook_form():
    for b in (0.01, 0.4, 1.0, 30.0, 1e9):
        q = math.exp(-1 / b)
        expected = math.sqrt(2 * q) / -math.expm1(-1 / b)
        assert stddev(Laplace(1, 1, Fraction(b))) == pytest.approx(expected, rel=1e-9)
    assert stddev(Laplace(1, 1, Fraction(1, 10**6))) == 0.0


def test_nothing_lies_within_less_than_nothing():
    for law in LAWS:
        assert coverage(law, -1) == 0.0


def test_the_sensitivity_does_not_change_the_noise():
    assert coverage(Gaussian(9, Fraction(4)), 3) == coverage(Gaussian(1, Fraction(4)), 3)
    assert stddev(Laplace(9, 2, Fraction(4))) == stddev(Laplace(1, 1, Fraction(4)))
