"""Sums of noise, by convolution in floats over dictionaries: slow, plain, another road."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest

from dpsql.accounting.events import Gaussian, Laplace
from dpsql.mechanisms.intervals import sums
from dpsql.mechanisms.intervals.law import atoms, stddev
from dpsql.mechanisms.intervals.quantile import half_width, sum_half_width


def convolved(terms) -> list[tuple[Fraction, float]]:
    """The law of |sum of w Z| as value and probability, ascending."""
    law: dict[Fraction, float] = {Fraction(0): 1.0}
    for weight, noise in terms:
        wide = 9 if isinstance(noise, Gaussian) else 26
        radius = math.ceil(wide * max(stddev(noise), 0.3))
        pmf = atoms(noise, radius)
        joint: dict[Fraction, float] = defaultdict(float)
        for value, p in law.items():
            for k, q in zip(range(-radius, radius + 1), pmf.tolist(), strict=True):
                joint[value + weight * k] += p * q
        law = joint
    folded: dict[Fraction, float] = defaultdict(float)
    for value, p in law.items():
        folded[abs(value)] += p
    return sorted(folded.items())


def beyond(law, h) -> float:
    return math.fsum(p for value, p in law if value > h)


def least(law, level: float) -> Fraction:
    """The least h with P(|S| <= h) >= level."""
    missed = 0.0
    for value, p in reversed(law):
        missed += p
        if missed > 1 - level:
            return value
    return Fraction(0)


G1, G3 = Gaussian(1, Fraction(1)), Gaussian(1, Fraction(9))
GH, L1, L2 = Gaussian(1, Fraction(1, 4)), Laplace(1, 1, Fraction(1)), Laplace(1, 1, Fraction(2))
SUMS = {
    "difference": [(1, G3), (-1, G3)],
    "three": [(1, G1), (1, G1), (2, G3)],
    "small noise": [(1, GH), (1, GH), (-3, GH)],
    "comb": [(1, G1), (1000, G1)],
    "fractions": [(Fraction(1, 3), G1), (Fraction(-5, 7), G3)],
    "Laplace": [(1, L1), (-1, L1)],
    "both kinds": [(2, L2), (-1, G3)],
    "uneven Laplace": [(Fraction(1, 10), L2), (3, L1)],
}


@pytest.mark.parametrize("terms", SUMS.values(), ids=SUMS.keys())
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999, 0.999999])
def test_sums_of_few_terms_have_their_least_half_width(terms, level):
    law = convolved(terms)
    h = sum_half_width(terms, level)
    assert h == least(law, level)


@pytest.mark.parametrize("terms", SUMS.values(), ids=SUMS.keys())
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999999])
def test_every_bound_is_above_the_least(terms, level):
    """Chernoff and the smoothed normal bound, also where they would not be used."""
    law = convolved(terms)
    groups = tuple(sums.Group(abs(Fraction(w)), noise, 1) for w, noise in terms)
    assert beyond(law, sums._chernoff(groups, 1 - level)) <= 1 - level
    assert beyond(law, sums._smoothed(groups, 1 - level)) <= 1 - level


@pytest.mark.parametrize("terms", SUMS.values(), ids=SUMS.keys())
def test_a_rounded_lattice_is_above_the_least_and_close(terms, monkeypatch):
    monkeypatch.setattr(sums, "_LONGEST", 1)
    groups = tuple(sums.Group(abs(Fraction(w)), noise, 1) for w, noise in terms)
    law = convolved(terms)
    for level in (0.5, 0.95, 0.9999):
        rounded = sums._lattice(groups, 1 - level)
        assert beyond(law, rounded) <= 1 - level
        assert rounded <= least(law, level) * Fraction(101, 100) + Fraction(1, 50)


@pytest.mark.parametrize("variance", [Fraction(1, 4), Fraction(1), Fraction(4), Fraction(50)])
@pytest.mark.parametrize("count", [2, 10, 100, 3000])
def test_equal_terms_are_exact_by_powers(count, variance):
    """Against repeated squaring of the atoms by np.convolve."""
    law = Gaussian(1, variance)
    one = atoms(law, math.ceil(9 * math.sqrt(variance)) + 1)
    pmf, power = np.ones(1), one
    for bit in bin(count)[:1:-1]:
        if bit == "1":
            pmf = np.convolve(pmf, power)
        power = trimmed(np.convolve(power, power))
    middle = pmf.size // 2
    for level in (0.9, 0.9999):
        h = sum_half_width([(1, law)] * count, level)
        assert h.denominator == 1
        inside = pmf[middle - int(h) : middle + int(h) + 1].sum()
        assert inside >= level - 1e-12
        normal = NormalDist().inv_cdf((1 + level) / 2) * stddev(law) * math.sqrt(count)
        smaller = pmf[middle - int(h) + 1 : middle + int(h)].sum()
        assert smaller < level or h <= normal * 1.0006


def trimmed(pmf: np.ndarray) -> np.ndarray:
    """Without the tails that hold nothing, symmetric as before."""
    cut = int(np.argmax(np.cumsum(pmf) > 1e-25))
    return pmf[cut : pmf.size - cut]


@pytest.mark.parametrize("sigma", [1, 3, 20])
@pytest.mark.parametrize("count", [40, 400])
def test_real_weights_are_nearly_exact_and_safe(sigma, count):
    """Weights of no common step, whose sum is normal to many digits.

    A half width below the normal one, less a ten-thousandth, would be wrong; a sixth above it is
    the most that the bounds lose.
    """
    rng = np.random.default_rng(count)
    law = Gaussian(1, Fraction(sigma**2))
    terms = [(Fraction(w), law) for w in rng.uniform(0.5, 1.5, count).tolist()]
    spread = math.sqrt(sum(float(w) ** 2 for w, _ in terms)) * stddev(law)
    for level in (0.9, 0.95, 0.999):
        normal = NormalDist().inv_cdf((1 + level) / 2) * spread
        assert normal * 0.9999 <= sum_half_width(terms, level) <= normal * 1.16


@pytest.mark.parametrize("law", [GH, G1, G3, L1, L2], ids=repr)
def test_few_real_weights_cover_by_simulation(law):
    """Seeded; for fresh draws each share lies outside 6 stddevs once in 5e8."""
    rng = np.random.default_rng(11)
    points = np.arange(-60, 61)
    weights = rng.uniform(0.2, 2.0, 4)
    count = 400_000
    drawn = sum(w * rng.choice(points, count, p=atoms(law, 60)) for w in weights)
    for level in (0.8, 0.95, 0.999):
        h = float(sum_half_width([(Fraction(w), law) for w in weights.tolist()], level))
        doubt = 6 * math.sqrt(level * (1 - level) / count)
        assert np.mean(np.abs(drawn) <= h) >= level - doubt
        assert np.mean(np.abs(drawn) <= h * 0.93) < level


def test_wide_noise_is_normal_to_many_digits():
    wide, level = Gaussian(1, Fraction(10**14)), 0.95
    terms = [(3, wide), (-4, wide)]
    normal = NormalDist().inv_cdf(0.975) * 5 * 10**7
    assert normal <= sum_half_width(terms, level) <= normal * 1.0001


def test_few_wide_laplace_terms_are_nearly_exact():
    """The difference of two continuous Laplace: P(|S| > h) = (1 + h/(2b)) exp(-h/b)."""
    b = 10**7
    for level in (0.9, 0.95, 0.999):
        h = float(sum_half_width([(1, Laplace(1, 1, Fraction(b)))] * 2, level)) / b
        missed = (1 + h / 2) * math.exp(-h)
        assert (1 - level) * 0.98 <= missed <= 1 - level


def test_many_laplace_terms_are_bounded():
    law = Laplace(1, 1, Fraction(3))
    rng = np.random.default_rng(0)
    terms = [(Fraction(w), law) for w in rng.uniform(0.5, 1.5, 300).tolist()]
    spread = math.sqrt(sum(float(w) ** 2 for w, _ in terms)) * stddev(law)
    h = sum_half_width(terms, 0.95)
    assert 1.96 * spread <= h <= 1.5 * 1.96 * spread


def test_signs_and_order_do_not_matter():
    terms = [(Fraction(1, 3), G1), (-2, G3), (5, L1)]
    flipped = [(5, L1), (2, G3), (Fraction(-1, 3), G1)]
    assert sum_half_width(terms, 0.95) == sum_half_width(flipped, 0.95)


def test_a_sum_needs_less_than_its_parts():
    for law in (G3, L2):
        parts = 2 * half_width(law, 0.95)
        assert half_width(law, 0.95) < sum_half_width([(1, law), (1, law)], 0.95) < parts


def test_levels_near_certainty_fall_back_on_bounds():
    h = sum_half_width([(1, G3), (-1, G3)], 1 - 1e-11)
    assert beyond(convolved([(1, G3), (-1, G3)]), h) <= 1e-11
