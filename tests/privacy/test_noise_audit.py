"""Audits: from released values alone, is the noise as private as its event says?

The auditor sees values released on a table and on its neighbour. At a given epsilon no event E may
have P(E) - e^epsilon Q(E) above the delta of the claimed law, which is summed from its atoms. Half
of the values choose the event, a half line; on the other half both chances are bounded by Clopper
and Pearson at 2.5e-7 each: a false alarm below 1e-6. Mechanisms that are wrong on purpose must be
caught.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import beta

from dpsql.accounting.convert import epsilon_of
from dpsql.accounting.events import PICO, Gaussian, Laplace
from dpsql.curator import noise
from dpsql.mechanisms.intervals.law import atoms, stddev

COUNT = 300_000
ALARM = 2.5e-7


def losses(law, shift: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points, and the atoms of the law there, unmoved and moved by `shift`."""
    radius = math.ceil(40 * max(stddev(law), 1.0)) + shift
    unmoved = atoms(law, radius)
    moved = atoms(law, radius + shift)[: 2 * radius + 1]
    return np.arange(-radius, radius + 1), unmoved, moved


def delta_of(law, shift: int, epsilon: float) -> float:
    """The exact delta of the law at epsilon."""
    _, p, q = losses(law, shift)
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def half_line(on: np.ndarray, off: np.ndarray, epsilon: float) -> int:
    """The end of the half line that looks worst, five stddevs of both counts taken off."""
    ends = np.unique(np.quantile(np.concatenate([on, off]), np.linspace(0, 1, 200)).astype(int))
    p, q = (np.searchsorted(np.sort(half), ends, "right") / half.size for half in (on, off))
    doubts = [5 * np.sqrt(share * (1 - share) / on.size) for share in (p, q)]
    return int(ends[np.argmax(p - doubts[0] - math.exp(epsilon) * (q + doubts[1]))])


def broken(law, shift: int, epsilon: float, on: np.ndarray, off: np.ndarray) -> bool:
    """Whether the values prove that the release is not as private as `law` says."""
    end = half_line(on[::2], off[::2], epsilon)
    on, off = on[1::2], off[1::2]
    hits, other = int((on <= end).sum()), int((off <= end).sum())
    lower = beta.ppf(ALARM, hits, on.size - hits + 1) if hits else 0.0
    upper = beta.ppf(1 - ALARM, other + 1, off.size - other) if other < off.size else 1.0
    return bool(lower - math.exp(epsilon) * upper > delta_of(law, shift, epsilon) + 1e-12)


def released(law, truth: int, size: int = COUNT) -> np.ndarray:
    match law:
        case Gaussian(variance=variance):
            return truth + noise.gaussian(variance, size)
        case Laplace(scale=scale):
            return truth + noise.laplace(scale, size)


CLAIMS = [
    (Gaussian(1, Fraction(1)), 1, 1.0),
    (Gaussian(16, Fraction(16)), 4, 1.0),
    (Gaussian(2500, Fraction(2500)), 50, 0.5),
    (Gaussian(10**12, Fraction(10**12)), 10**6, 1.0),
    (Laplace(1, 1, Fraction(1)), 1, 1.0),
    (Laplace(4, 4, Fraction(4)), 4, 1.0),
    (Laplace(1, 1, Fraction(2)), 1, 0.5),
]
SMALL = [claim for claim in CLAIMS if stddev(claim[0]) < 10**4]


@pytest.mark.parametrize(("law", "shift", "epsilon"), SMALL, ids=repr)
def test_noise_is_as_private_as_its_event(law, shift, epsilon):
    """Both ways round: the neighbour with more, and the one with less. False alarm 1e-6."""
    on, off = released(law, 1000), released(law, 1000 + shift)
    assert not broken(law, shift, epsilon, on - 1000, off - 1000)
    assert not broken(law, shift, epsilon, 1000 + shift - off, 1000 + shift - on)


def narrower(law):
    match law:
        case Gaussian():
            return Gaussian(1, law.variance * Fraction(81, 100))
        case Laplace():
            return Laplace(1, 1, law.scale * Fraction(9, 10))


@pytest.mark.parametrize(("law", "shift", "epsilon"), SMALL, ids=repr)
def test_noise_a_tenth_too_small_is_caught(law, shift, epsilon):
    """The power is above 1 - 1e-6: the gap is at least eight stddevs wide."""
    weak = narrower(law)
    assert broken(law, shift, epsilon, released(weak, 0), released(weak, shift))


@pytest.mark.parametrize(("law", "shift", "epsilon"), SMALL, ids=repr)
def test_a_sensitivity_taken_too_small_is_caught(law, shift, epsilon):
    """The table moves by twice what was declared."""
    assert broken(law, shift, epsilon, released(law, 0), released(law, 2 * shift))


def test_no_noise_is_caught():
    law = Gaussian(1, Fraction(1))
    assert broken(law, 1, 1.0, np.zeros(COUNT, np.int64), np.ones(COUNT, np.int64))


def test_a_variance_taken_for_a_stddev_is_caught():
    law = Gaussian(100, Fraction(100))
    weak = Gaussian(1, Fraction(10))
    assert broken(law, 10, 1.0, released(weak, 0), released(weak, 10))


@pytest.mark.parametrize("law", [law for law, _, _ in CLAIMS], ids=repr)
def test_the_noise_has_the_spread_that_was_paid_for(law):
    """Mean of squares within six stddevs of it: false alarm 2e-9; a tenth off is caught."""
    fourth = 3.0 if isinstance(law, Gaussian) else 6.2
    doubt = 6 * math.sqrt((fourth - 1) / COUNT)
    squares = np.mean(released(law, 0).astype(float) ** 2) / stddev(law) ** 2
    assert abs(squares - 1) <= doubt
    assert doubt < 0.1
    weak = np.mean(released(narrower(law), 0).astype(float) ** 2) / stddev(law) ** 2
    assert weak < 1 - doubt


@pytest.mark.parametrize(("law", "shift", "epsilon"), SMALL, ids=repr)
def test_the_price_is_not_below_the_exact_loss(law, shift, epsilon):
    """rho at the delta that the law really has at epsilon implies at least that epsilon."""
    delta = delta_of(law, shift, epsilon)
    if 1e-12 < delta <= 0.5:
        assert epsilon_of(law.rho, delta) >= epsilon
    if law.epsilon is not None:
        exact = float(np.log(losses(law, shift)[1] / losses(law, shift)[2]).max())
        assert exact <= law.epsilon / PICO * (1 + 1e-12)
