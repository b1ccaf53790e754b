"""The reach of noise holds in every direction that is looked at, by exact laws of sums."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest

from dpsql.accounting.events import Gaussian, Laplace
from dpsql.mechanisms.intervals.directions import normals, reach
from dpsql.mechanisms.intervals.law import atoms, stddev
from dpsql.mechanisms.intervals.quantile import half_width


def gauss(sigma) -> Gaussian:
    return Gaussian(1, Fraction(sigma) ** 2)


def lap(scale) -> Laplace:
    return Laplace(1, 1, Fraction(scale))


def angles() -> np.ndarray:
    """A fine mesh up to 45 degrees, all small slopes, and what is close to the ends."""
    rng = np.random.default_rng(30)
    small = 10.0 ** -rng.uniform(0.3, 6.0, 30)
    slopes = [math.atan2(q, p) for p in range(1, 8) for q in range(p + 1)]
    return np.concatenate([np.linspace(0, math.pi / 4, 60), slopes, small, math.pi / 4 - small])


def needed(law, level: float) -> float:
    """The largest least z of two answers over many directions, from all pairs of atoms."""
    radius = 0
    while 1 - atoms(law, radius).sum() > 1e-12:
        radius += 1
    one, points = atoms(law, radius), np.arange(-radius, radius + 1)
    chances = np.outer(one, one).ravel()
    kept = chances > 1e-14
    x, y = (g.ravel()[kept] for g in np.meshgrid(points, points, indexing="ij"))
    found = 0.0
    for angle in angles():
        sizes = np.abs(math.cos(angle) * x + math.sin(angle) * y)
        order = np.argsort(sizes)
        at = np.searchsorted(np.cumsum(chances[kept][order]), level - 1e-9)
        found = max(found, float(sizes[order][at]))
    return found / stddev(law)


PAIRS = [gauss(Fraction(1, 5)), gauss(Fraction(1, 2)), gauss(Fraction(5, 4)), gauss(2),
         gauss(Fraction(29, 10)), gauss(3), gauss(6), gauss(11),
         lap(Fraction(1, 4)), lap(1), lap(Fraction(29, 10))]  # fmt: skip


@pytest.mark.parametrize("law", PAIRS, ids=str)
@pytest.mark.parametrize("level", [0.5, 0.95, 0.9999])
def test_two_answers_stay_within_reach_in_every_direction(law, level):
    least = needed(law, level)
    assert least <= reach(law, level, 2) + 1e-9
    sigma = stddev(law)
    assert reach(law, level, 2) <= least * 1.03 + (0.75 / sigma if sigma >= 2.9 else 1e-9)


def least_z(law, level: float, weights: list[int]) -> float:
    """The least z of a sum with whole weights, by Fourier transforms on a long circle."""
    radius = math.ceil((10 if isinstance(law, Gaussian) else 25) * stddev(law)) + 1
    points = np.arange(-radius, radius + 1)
    size = 1 << math.ceil(math.log2(2 * radius * sum(weights) + 2))
    spectrum = np.ones(size // 2 + 1, complex)
    for weight in weights:
        folded = np.zeros(size)
        np.add.at(folded, points * weight % size, atoms(law, radius))
        spectrum *= np.fft.rfft(folded)
    joint = np.fft.irfft(spectrum, size)
    both = joint[1 : size // 2] + joint[: size // 2 : -1]
    inside = np.cumsum(np.concatenate([joint[:1], both]))
    h = int(np.searchsorted(inside, level - 1e-9))
    return h / math.sqrt(sum(w * w for w in weights)) / stddev(law)


@pytest.mark.parametrize("sigma", [Fraction(1, 2), 1, Fraction(3, 2), 3, 10])
@pytest.mark.parametrize("terms", [2, 3, 4])
def test_many_answers_stay_within_reach(sigma, terms):
    rng = np.random.default_rng(31)
    law = gauss(sigma)
    directions = [[1] * terms, [1] + [0] * (terms - 1), [30] + [1] * (terms - 1)]
    directions += [rng.integers(1, 30, terms).tolist() for _ in range(12)]
    directions += [rng.integers(1, 4, terms).tolist() for _ in range(8)]
    for level in (0.5, 0.95, 0.999, 1 - 1e-6):
        z = reach(law, level, terms)
        assert max(least_z(law, level, weights) for weights in directions) <= z + 1e-9


@pytest.mark.parametrize("scale", [8, 12, 1000])
def test_wide_laplace_noise_stays_within_reach(scale):
    """Seeded; a share of 400,000 draws is 6 stddevs below its level once in 1e9."""
    rng = np.random.default_rng(32)
    ratio, count = math.exp(-1 / scale), 400_000
    law = lap(scale)
    x, y = (rng.geometric(1 - ratio, count) - rng.geometric(1 - ratio, count) for _ in range(2))
    for level in (0.5, 0.95, 0.999):
        z = reach(law, level, 2) * stddev(law)
        for angle in np.linspace(0, math.pi / 4, 9):
            inside = np.mean(np.abs(math.cos(angle) * x + math.sin(angle) * y) <= z)
            assert inside >= level - 6 * math.sqrt(level * (1 - level) / count)
        assert level == 0.5 or np.mean(np.abs(x) <= z * 0.85) < level


@pytest.mark.parametrize("scale", [Fraction(1, 3), 1, 4])
def test_many_laplace_answers_stay_within_reach(scale):
    """By exact laws of sums; at most twice what one answer needs, however many there are."""
    rng = np.random.default_rng(33)
    law = lap(scale)
    for terms in (3, 5):
        directions = [[1] * terms, [1] + [0] * (terms - 1), [9] + [1] * (terms - 1)]
        directions += [rng.integers(1, 9, terms).tolist() for _ in range(8)]
        for level in (0.5, 0.95, 0.999):
            z = reach(law, level, terms)
            assert max(least_z(law, level, weights) for weights in directions) <= z + 1e-9
    for terms in (2, 3, 50, 1000):
        assert reach(law, 0.95, terms) <= 2.0 * reach(law, 0.95, 1) + 1e-9


def test_wide_noise_reaches_as_far_as_a_normal():
    for level in (0.5, 0.95, 0.9999):
        z = NormalDist().inv_cdf((1 + level) / 2)
        for terms in (1, 2, 3, 20):
            assert reach(gauss(10**6), level, terms) == pytest.approx(z, rel=1e-4)


def test_one_answer_has_its_own_half_width():
    for law in (gauss(1), lap(2)):
        assert reach(law, 0.9, 1) == half_width(law, 0.9) / stddev(law)


def test_noise_that_vanishes_reaches_nowhere():
    for law in (Gaussian(1, Fraction(1, 10**9)), lap(Fraction(1, 10**4))):
        assert reach(law, 0.95, 2) * stddev(law) == 0


def test_more_answers_and_higher_levels_reach_farther():
    for law in (gauss(2), gauss(20), lap(3)):
        by_level = [reach(law, level, 3) for level in (0.5, 0.9, 0.99, 1 - 1e-9)]
        assert by_level == sorted(by_level)
        by_terms = [reach(law, 0.95, terms) for terms in (2, 3, 8)]
        assert by_terms == sorted(by_terms)


@pytest.mark.parametrize("sigma", [2, Fraction(5, 2), 4, 12])
def test_any_number_of_noises_stay_within_the_normal_bound(sigma):
    """By exact laws, from one answer to sixty, few heavy ones among them; and not much too far."""
    rng = np.random.default_rng(35)
    law = gauss(sigma)
    directions = [[1], [1, 1], [1] * 16, [1] * 60, [1, 2, 4, 8, 16], [7] + [1] * 40]
    directions += [rng.integers(1, 12, int(k)).tolist() for k in rng.integers(2, 60, 12)]
    for level in (0.5, 0.9, 0.95, 0.999, 1 - 1e-6):
        z = normals(float(sigma), level)
        needed = [least_z(law, level, weights) for weights in directions]
        assert max(needed) <= z + 1e-9
        if sigma >= 4 and 0.9 <= level <= 0.95:
            assert z <= min(needed) + 1.0 / float(sigma) + 0.15
    assert normals(1e6, 0.95) == pytest.approx(1.959964, abs=1e-4)


def test_noises_of_different_stddevs_stay_within_the_bound_of_the_least():
    """Z of stddev 4 plus 3 Z' of stddev 2, by convolution."""
    wide, fine = gauss(4), gauss(2)
    points = np.arange(-60, 61)
    joint = np.zeros(4 * 60 * 2 + 1)
    for value, chance in zip(points, atoms(fine, 60), strict=True):
        joint[240 + 3 * value - 60 : 240 + 3 * value + 61] += chance * atoms(wide, 60)
    for level in (0.5, 0.95, 0.999):
        reach_of = normals(2.0, level) * math.sqrt(16 + 36)
        inside = joint[np.abs(np.arange(-240, 241)) <= reach_of].sum()
        assert inside >= level
        nearer = joint[np.abs(np.arange(-240, 241)) <= reach_of * 0.6].sum()
        assert nearer < level
