"""Sums of Laplace and Gaussian noise, judged by exact laws: Fourier transforms on a circle."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.accounting.events import Gaussian, Laplace
from dpsql.mechanisms.intervals import blends
from dpsql.mechanisms.intervals.blends import chernoff, half_width, half_widths, reaches
from dpsql.mechanisms.intervals.law import atoms, stddev

INF = math.inf


def lap(scale) -> Laplace:
    return Laplace(1, 1, Fraction(scale))


def gauss(sigma) -> Gaussian:
    return Gaussian(1, Fraction(sigma) ** 2)


def tails(terms) -> np.ndarray:
    """P(|S| > h) for h = 0, 1, ... of a sum with whole weights."""
    radii = [math.ceil((9 if isinstance(n, Gaussian) else 33) * stddev(n)) + 4 for _, n in terms]
    far = sum(abs(w) * r for (w, _), r in zip(terms, radii, strict=True))
    size = 1 << math.ceil(math.log2(2 * far + 2))
    spectrum = np.ones(size // 2 + 1, complex)
    for ((weight, law), radius), times in Counter(zip(terms, radii, strict=True)).items():
        folded = np.zeros(size)
        np.add.at(folded, np.arange(-radius, radius + 1) * weight % size, atoms(law, radius))
        spectrum *= np.fft.rfft(folded) ** times
    joint = np.fft.irfft(spectrum, size)
    both = joint[1 : size // 2] + joint[: size // 2 : -1]
    return np.append(np.cumsum(both[::-1])[::-1], 0.0)


def variance(terms) -> float:
    return sum(
        w * w * (float(n.variance) if isinstance(n, Gaussian) else stddev(n) ** 2) for w, n in terms
    )


def said(terms, level: float) -> float:
    """The half width of one sum."""
    heavy = [(w, float(n.scale)) for w, n in terms if isinstance(n, Laplace)]
    least = min((math.sqrt(n.variance) for _, n in terms if isinstance(n, Gaussian)), default=INF)
    weights, scales = np.array(heavy, float).reshape(-1, 2).T
    total = np.array([variance(terms)])
    return float(half_widths(weights[None], scales, total, least, level)[0])


def least_width(terms, level: float) -> int:
    """The least h with P(|S| > h) <= 1 - level."""
    return int(np.argmax(tails(terms) <= 1 - level + 1e-12))


LAPLACE = st.tuples(
    st.integers(1, 40), st.sampled_from([lap(Fraction(1, 3)), lap(1), lap(3), lap(9), lap(30)])
)
GAUSSIAN = st.tuples(st.integers(1, 40), st.sampled_from([gauss(2), gauss(5), gauss(30)]))
LEVELS = st.sampled_from([0.5, 0.8, 0.95, 0.99, 0.9999])


@settings(max_examples=150, deadline=None)
@given(st.lists(LAPLACE, min_size=1, max_size=9), LEVELS)
def test_sums_of_laplace_noise_stay_within_and_not_much_less_would_do(terms, level):
    h = said(terms, level)
    assert h >= least_width(terms, level)
    # an atom more, of the smallest weights, and some per cent for noise that is added
    slack = 0.04 * math.sqrt(variance(terms)) + max(w for w, _ in terms)
    assert h <= 1.02 * least_width(terms, level) + slack


@settings(max_examples=80, deadline=None)
@given(
    st.lists(LAPLACE, min_size=1, max_size=6), st.lists(GAUSSIAN, min_size=1, max_size=4), LEVELS
)
def test_laplace_beside_gaussian_noise_stays_within(heavy, normal, level):
    terms = [*heavy, *normal]
    h = said(terms, level)
    assert h >= least_width(terms, level)
    assert h <= math.sqrt(variance(terms)) * math.sqrt(2.0) * math.log(2.0 / (1.0 - level)) * 1.6


@pytest.mark.parametrize("many", [3, 30, 300])
def test_many_noises_are_as_good_as_normal(many):
    terms = [(1, lap(20))] * many + [(1, gauss(40))] * many
    normal = -NormalDist().inv_cdf(0.025) * math.sqrt(variance(terms))
    assert least_width(terms, 0.95) <= said(terms, 0.95) <= 1.03 * normal


def test_a_single_noise_has_its_exact_quantile():
    for scale in (Fraction(1, 5), 1, 20):
        assert said([(1, lap(scale))], 0.95) == pytest.approx(
            least_width([(1, lap(scale))], 0.95), rel=1e-4, abs=1e-3
        )


@settings(max_examples=60, deadline=None)
@given(st.lists(LAPLACE, min_size=1, max_size=7), st.lists(GAUSSIAN, max_size=2), LEVELS)
def test_no_sum_goes_beyond_the_reach_of_its_shares(heavy, normal, level):
    terms = [*heavy, *normal]
    total = variance(terms)
    share = np.array([max(variance([term]) for term in heavy) / total])
    scales = np.array([float(n.scale) for _, n in heavy])
    least = min((math.sqrt(n.variance) for _, n in normal), default=INF)
    (z,) = reaches(share, scales, least, level)
    assert z * math.sqrt(total) >= least_width(terms, level) - 1e-9


def test_the_reach_grows_with_the_share_and_the_level_and_is_near_the_normal_one():
    shares = np.array([0.01, 0.1, 0.5, 1.0])
    found = [reaches(shares, np.array([50.0]), INF, level) for level in (0.5, 0.9, 0.95, 0.999)]
    for z, higher in itertools.pairwise(found):
        assert (z < higher).all()
    for z in found:
        assert (np.diff(z) >= 0).all()
    assert found[2][0] < 1.03 * -NormalDist().inv_cdf(0.025)
    one = least_width([(1, lap(50))], 0.95) / stddev(lap(50))
    assert one < found[2][3] < 1.12 * one


@pytest.mark.parametrize("wrong", [0.9, 0.95])
def test_noise_that_is_wider_than_was_said_is_not_covered(wrong):
    """The judge sees a tenth, and a twentieth, in sums of two and of many noises."""
    for terms in ([(3, lap(20)), (-3, lap(20))], [(1, lap(30))] * 40):
        smaller = [(w, lap(n.scale * Fraction(wrong))) for w, n in terms]
        assert said(smaller, 0.95) < least_width(terms, 0.95)


def test_laplace_noise_and_its_fractions_are_continuous_laplace_noise():
    """Z + R - R': its characteristic function is 1 / (1 + b^2 u^2)."""
    for b in (0.3, 1.0, 7.0):
        y = 1.0 / b
        for u in (0.1, 0.7, 2.0, 5.0):
            points = np.arange(-400, 401)
            z = (atoms(lap(Fraction(b)), 400) * np.cos(u * points)).sum()
            r = (np.exp(1j * u - y) - 1) / (1j * u - y) * y / (1 - math.exp(-y))
            assert z * abs(r) ** 2 == pytest.approx(1 / (1 + (b * u) ** 2), rel=1e-9)


def test_fractions_are_narrower_than_a_sixth_of_a_row():
    """ln E exp(x (R - R')) <= x^2 / 12."""
    for b in (0.05, 0.5, 3.0, 1e3):
        x = np.linspace(-40, 40, 4001)

        def log(t):
            near = np.where(np.abs(t) < 1e-4, 1e-4, t)
            return np.log(np.expm1(near) / near)

        found = log(x - 1 / b) - log(-1 / b) + log(-x - 1 / b) - log(-1 / b)
        assert (found <= x * x / 12 + 1e-6).all()


def test_quadratics_stay_above_the_tails_they_bound():
    """Between the points of the grid that they were made on, too."""
    y0, g0, s0, curve = blends._quadratics()
    x = np.geomspace(0.0007, 55.0, 3331)
    y, g = 1 / x**2, np.array([math.erfc(v / math.sqrt(2)) for v in x.tolist()])
    for at in range(0, len(y0), 7):
        off = y - y0[at]
        assert (g0[at] + s0[at] * off / y0[at] + curve[at] * off**2 >= g - 1e-12).all()


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_any_mixture_of_these_two_moments_is_held_and_some_nearly_attain_it(share, level):
    """Of all on two points: y with chance q, and what makes the mean 1 and the variance `share`."""
    (z,) = reaches(np.array([share - 1e-5]), np.array([1e7]), INF, level)
    missed = []
    for q in np.linspace(0.001, 0.999, 999).tolist():
        step = math.sqrt(share * (1 - q) / q)
        low, high = 1 - step, 1 + step * q / (1 - q)
        if low >= 0:
            tails = [math.erfc(z / math.sqrt(2 * y)) if y else 0.0 for y in (low, high)]
            missed.append(q * tails[0] + (1 - q) * tails[1])
    assert 0.96 * (1 - level) < max(missed) <= 1 - level


def test_a_bound_never_falls_below_another_of_less_noise():
    for level in (0.8, 0.95, 0.999):
        widths = [said([(1, lap(b)), (1, lap(b))], level) for b in (2, 5, 10, 20)]
        assert widths == sorted(widths)


def test_tiny_and_enormous_noise_is_held():
    for scale in (blends.LEAST, 1e12):
        weights, scales = np.ones(3), np.full(3, scale)
        h = half_width(weights, scales, 0.0, INF, 0.05)
        assert 0 < h <= chernoff(weights, scales, 0.0, 0.05)
        assert reaches(np.ones(1), scales, INF, 0.95)[0] > 0


def test_answers_that_are_nothing_have_no_width():
    assert half_widths(np.zeros((2, 3)), np.ones(3), np.zeros(2), INF, 0.95).tolist() == [0, 0]
