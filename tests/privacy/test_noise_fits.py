"""The noise follows its law: goodness of fit on the system's own bits, and against OpenDP.

Every test states its chance of a false alarm. The samplers at the end are wrong on purpose, and
each is rejected: noise a tenth too small or too large, rounded normals, doubled zeros.
"""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import opendp.prelude as dp
import pytest
from scipy.stats import chi2

from dpsql.accounting.events import Gaussian, Laplace
from dpsql.curator import noise
from dpsql.mechanisms.intervals.law import atoms, coverage, stddev
from dpsql.mechanisms.intervals.quantile import half_width

ALARM = 1e-9  # of one fit; the chi-square law is close to exact with 50 expected in every bin
COUNT = 200_000


def drawn(law, size: int) -> np.ndarray:
    """What the product draws for a law."""
    match law:
        case Gaussian(variance=variance):
            return noise.gaussian(variance, size)
        case Laplace(scale=scale):
            return noise.laplace(scale, size)


def chance(observed: np.ndarray, expected: np.ndarray) -> float:
    """The p-value of Pearson's chi-square."""
    return float(chi2.sf(((observed - expected) ** 2 / expected).sum(), observed.size - 1))


def fit(values: np.ndarray, law) -> float:
    """The p-value of `values` under the exact atoms of `law`, rare ones together."""
    radius = math.ceil(12 * stddev(law)) + 2
    expected = atoms(law, radius) * values.size
    inside = values[np.abs(values) <= radius] + radius
    observed = np.bincount(inside, minlength=expected.size).astype(float)
    common = expected >= 50
    rare = values.size - observed[common].sum(), values.size - expected[common].sum()
    if rare[1] < 50:  # join the rare to the rarest of the common
        least = np.flatnonzero(common)[np.argmin(expected[common])]
        observed[least] += rare[0]
        expected[least] += rare[1]
        return chance(observed[common], expected[common])
    return chance(np.append(observed[common], rare[0]), np.append(expected[common], rare[1]))


def wide_fit(values: np.ndarray, law) -> float:
    """The p-value over 64 bins of equal chance, for noise so wide that it is continuous."""
    shares = np.arange(1, 64) / 64
    match law:
        case Gaussian():
            edges = [NormalDist(0, stddev(law)).inv_cdf(share) for share in shares]
        case Laplace(scale=scale):
            edges = [
                float(scale) * math.copysign(math.log(2 * min(p, 1 - p)), p - 0.5) for p in shares
            ]
    observed = np.histogram(values.astype(float), [-math.inf, *edges, math.inf])[0]
    return chance(observed.astype(float), np.full(64, values.size / 64))


NARROW = [
    *[Gaussian(1, Fraction(v)) for v in (Fraction(1, 8), Fraction(1, 4), 1, Fraction(73, 10))],
    Gaussian(1, Fraction(10**20 + 1, 10**19)),
    Gaussian(1, Fraction(10_000)),
    *[Laplace(1, 1, Fraction(b)) for b in (Fraction(1, 3), Fraction(5, 7), 1, Fraction(7, 2), 40)],
    Laplace(1, 1, 1 / Fraction(0.3)),
    Laplace(1, 1, Fraction(10**30 + 1, 10**29)),
]
WIDE = [
    *[Gaussian(1, Fraction(4**power)) for power in (16, 40, 56)],
    *[Laplace(1, 1, Fraction(2**power)) for power in (16, 40, 56)],
]


@pytest.mark.parametrize("law", NARROW, ids=repr)
def test_noise_fits_its_exact_atoms(law):
    """False alarm 1e-9."""
    assert fit(drawn(law, COUNT), law) > ALARM


@pytest.mark.parametrize("law", NARROW, ids=repr)
@pytest.mark.parametrize("size", [1, 7, 300])
def test_noise_from_the_pool_fits_its_exact_atoms(law, size):
    """Small draws, cut from blocks. False alarm 1e-9."""
    values = np.concatenate([drawn(law, size) for _ in range(20_000 // size)])
    assert fit(values, law) > ALARM


@pytest.mark.parametrize("law", WIDE, ids=repr)
def test_wide_noise_fits_its_continuous_law_and_uses_every_bit(law):
    """False alarm 1e-8."""
    values = drawn(law, COUNT)
    assert wide_fit(values, law) > ALARM
    for modulus in (2, 3, 256):
        residues = np.bincount(values % modulus, minlength=modulus).astype(float)
        assert chance(residues, np.full(modulus, COUNT / modulus)) > ALARM


def exponential_fit(values: np.ndarray, scale: float) -> float:
    """The p-value of one-sided values under P(z >= k) = exp(-k / scale), rare ones together."""
    last = max(int(scale * math.log(values.size / (100 * (scale + 1)))), 1)
    ends = np.exp(-np.arange(last + 1) / scale)
    expected = np.append(ends[:-1] - ends[1:], ends[-1]) * values.size
    observed = np.bincount(np.minimum(values, last), minlength=last + 1).astype(float)
    return chance(observed, expected)


SCALES = [
    Fraction(2, 3),
    Fraction(1),
    Fraction(7, 2),
    40,
    1 / Fraction(0.3),
    Fraction(9**20, 8**20),
]


@pytest.mark.parametrize("scale", SCALES, ids=float)
def test_exponential_noise_fits_its_exact_tail(scale):
    """False alarm 2e-9. Noise a tenth off, either way, is rejected, as is one shifted by 1."""
    assert exponential_fit(noise.exponential(scale, COUNT), float(scale)) > ALARM
    small = np.concatenate([noise.exponential(scale, 7) for _ in range(3000)])
    assert exponential_fit(small, float(scale)) > ALARM
    for wrong in (Fraction(9, 10) * scale, Fraction(11, 10) * scale):
        assert exponential_fit(noise.exponential(wrong, COUNT), float(scale)) < ALARM
    assert exponential_fit(noise.exponential(scale, COUNT) + 1, float(scale)) < ALARM


def test_numbers_below_a_limit_come_equally_often():
    """False alarm 1e-9."""
    for limit in (2, 3, 10):
        found = np.bincount(noise.below(limit, 3000), minlength=limit)
        assert chance(found.astype(float), np.full(limit, 3000 / limit)) > ALARM


def test_draws_do_not_remember_each_other():
    """Lagged products within six stddevs: false alarm 1e-8 over four lags."""
    values = np.concatenate([noise.gaussian(Fraction(25), 1) for _ in range(20_000)]) / 5.0
    for lag in (1, 2, 7, 256):
        products = values[lag:] * values[:-lag]
        assert abs(products.sum()) <= 6 * math.sqrt(products.size)


@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(1), Fraction(5)])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_intervals_cover_exactly_as_often_as_the_atoms_say(sigma, level):
    """Binomial, 6 stddevs: false alarm 2e-9."""
    for law in (Gaussian(1, sigma**2), Laplace(1, 1, sigma)):
        h = half_width(law, level)
        exact = coverage(law, h)
        covered = int((np.abs(drawn(law, COUNT)) <= h).sum())
        assert exact >= level
        spread = math.sqrt(COUNT * exact * (1 - exact))
        assert abs(covered - COUNT * exact) <= 6 * spread + 6


def two_samples(one: np.ndarray, other: np.ndarray) -> float:
    """The p-value that both samples have one law: chi-square of a two-row table."""
    low = min(one.min(), other.min())
    width = int(max(one.max(), other.max()) - low) + 1
    rows = np.array([np.bincount(sample - low, minlength=width) for sample in (one, other)], float)
    common = rows.sum(axis=0) >= 100
    rare = rows[:, ~common].sum(axis=1, keepdims=True)
    table = np.hstack([rows[:, common], rare]) if rare.sum() >= 100 else rows[:, common]
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    return float(chi2.sf(((table - expected) ** 2 / expected).sum(), table.shape[1] - 1))


def opendp_draws(law, size: int) -> np.ndarray:
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    match law:
        case Gaussian(variance=variance):
            space = domain, dp.l2_distance(T="i64")
            measure = dp.m.make_gaussian(*space, scale=math.sqrt(variance))
        case Laplace(scale=scale):
            space = domain, dp.l1_distance(T="i64")
            measure = dp.m.make_laplace(*space, scale=float(scale))
    return np.array(measure([0] * size), np.int64)


JUDGED = [
    Gaussian(1, Fraction(1, 4)),
    Gaussian(1, Fraction(9)),
    Gaussian(1, Fraction(400)),
    Laplace(1, 1, Fraction(1, 2)),
    Laplace(1, 1, Fraction(8)),
]


@pytest.mark.parametrize("law", JUDGED, ids=repr)
def test_noise_has_the_law_of_opendps(law):
    """False alarm 1e-9; the same test tells noise a tenth wider or narrower from OpenDP's."""
    theirs = opendp_draws(law, 60_000)
    assert two_samples(drawn(law, 60_000), theirs) > ALARM
    for wrong in scaled(law):
        assert two_samples(drawn(wrong, 60_000), theirs) < ALARM


def scaled(law):
    """The law with its spread a tenth too small, and a tenth too large."""
    for factor in (Fraction(9, 10), Fraction(11, 10)):
        match law:
            case Gaussian(variance=variance):
                yield Gaussian(1, variance * factor**2)
            case Laplace(scale=scale):
                yield Laplace(1, 1, scale * factor)


@pytest.mark.parametrize("law", NARROW, ids=repr)
def test_noise_a_tenth_off_is_rejected_both_ways(law):
    """Power above 1 - 1e-9: the noncentrality exceeds 1,500 in every case."""
    for wrong in scaled(law):
        assert fit(drawn(wrong, COUNT), law) < ALARM


@pytest.mark.parametrize("law", WIDE[:2] + WIDE[3:5], ids=repr)
def test_wide_noise_a_tenth_off_is_rejected_both_ways(law):
    for wrong in scaled(law):
        assert wide_fit(drawn(wrong, COUNT), law) < ALARM


def rounded_normal(rng, size):
    return np.rint(rng.normal(0, 1, size)).astype(np.int64)


def rounded_laplace(rng, size):
    return np.rint(rng.laplace(0, 1, size)).astype(np.int64)


def truncated_normal(rng, size):
    return np.trunc(rng.normal(0, 1, size)).astype(np.int64)


def laplace_with_two_zeros(rng, size):
    """Algorithm 2 without the refusal of minus zero."""
    return (rng.geometric(-math.expm1(-1.0), size) - 1) * rng.choice([-1, 1], size)


def one_sided(rng, size):
    return rng.geometric(-math.expm1(-1.0), size) - 1


def gaussian_without_centre(rng, size):
    """Algorithm 3 accepting with exp(-y^2 / (2 s^2)), the shift by s^2 / t forgotten."""
    tries = 8 * size
    y = rng.geometric(-math.expm1(-0.5), tries) - rng.geometric(-math.expm1(-0.5), tries)
    return y[rng.random(tries) < np.exp(-(y * y) / 2.0)][:size]


def coarse_coins(rng, size):
    """Inverse transform from 8 random bits: atoms off by up to 1/256."""
    law = atoms(Gaussian(1, Fraction(1)), 13)
    thresholds = np.floor(np.cumsum(law) * 256)
    return np.searchsorted(thresholds, rng.integers(0, 256, size), side="right") - 13


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    ("wrong", "law"),
    [
        (rounded_normal, Gaussian(1, Fraction(1))),
        (truncated_normal, Gaussian(1, Fraction(1))),
        (gaussian_without_centre, Gaussian(1, Fraction(1))),
        (coarse_coins, Gaussian(1, Fraction(1))),
        (rounded_laplace, Laplace(1, 1, Fraction(1))),
        (laplace_with_two_zeros, Laplace(1, 1, Fraction(1))),
        (one_sided, Laplace(1, 1, Fraction(1))),
    ],
)
def test_wrong_samplers_are_rejected(wrong, law, seed):
    assert fit(wrong(np.random.default_rng(seed), COUNT), law) < ALARM


def test_a_uniform_with_modulo_bias_is_rejected():
    """Residues of too few bits favour the small ones: what the cut-off in the sampler is for."""
    rng = np.random.default_rng(3)
    residues = np.bincount(rng.integers(0, 2**10, COUNT) % 100, minlength=100).astype(float)
    assert chance(residues, np.full(100, COUNT / 100)) < ALARM
