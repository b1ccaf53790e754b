"""The exact laws of discrete noise: atoms, tails, coverage and standard error of one coordinate.

A law is the event that pays for it: its `variance` or `scale` fixes the noise, whatever the
sensitivity. Discrete noise is not normal: at stddev 0.5 half the mass of a normal interval is
elsewhere, so intervals and standard errors are computed from the atoms themselves.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Gaussian, Laplace, Law

_SUMMED = 512.0  # up to this stddev the Gaussian's atoms are summed
_REACH = 12.0  # stddevs, beyond which they are nothing: below 1e-30


def stddev(law: Law) -> float:
    """The standard deviation of the noise, in rows: below `sqrt(variance)` when that is small."""
    match law:
        case Gaussian(variance=variance):
            sigma = math.sqrt(variance)
            if sigma >= 4.0:  # the difference is of the order exp(-2 pi^2 sigma^2)
                return sigma
            radius = _radius(sigma)
            points = np.arange(-radius, radius + 1, dtype=np.float64)
            return math.sqrt(float(atoms(law, radius) @ (points * points)))
        case Laplace(scale=scale):
            # the variance 2q / (1 - q)^2 is 1 / (2 sinh^2(y / 2)) with q = exp(-y), y = 1/scale
            y = float(1 / scale)
            return 0.0 if y > 1400.0 else math.sqrt(0.5) / math.sinh(y / 2.0)


def nominal(law: Law) -> float:
    """The variance by which noise is compared and combined: of Gaussian noise its parameter."""
    return float(law.variance) if isinstance(law, Gaussian) else stddev(law) ** 2


def coverage(law: Law, half_width: int) -> float:
    """P(|Z| <= half_width), within 1e-12."""
    return 1.0 - tail(law, half_width)


def tail(law: Law, h: int) -> float:
    """P(|Z| > h), rounded up by less than 1e-12.

    Gaussian of a large stddev s: with f(x) = exp(-x^2 / (2 s^2)) and x = h + 1/2, the formula of
    Euler and Maclaurin at midpoints says that the sum of f over k > h is the integral from x on,
    plus f'(x) / 24, give or take the integral of |f''''| / 384; and the sum over all k is
    s sqrt(2 pi) (1 + 2 exp(-2 pi^2 s^2) + ...). In shares of that sum the doubt is at most
    2/384 s^-4 E|He_4| / 2 <= 0.013 s^-4, since E|He_4| <= sqrt(4!). The integral alone is a bound
    too, as f is convex from s on, so that each f(k) is at most its mean over the cell around k; and
    concave up to s, so that the f(k) within are at least theirs.
    """
    if h < 0:
        return 1.0
    match law:
        case Gaussian(variance=variance):
            sigma = math.sqrt(variance)
            if sigma <= _SUMMED:
                tails = _tails(variance)
                return float(tails[h]) if h < tails.size else 0.0
            z = (h + 0.5) / sigma
            density = math.exp(-0.5 * z * z) / (sigma * math.sqrt(2.0 * math.pi))
            normal = math.erfc(z / math.sqrt(2.0))
            return min(normal, normal - z / sigma * density / 12.0 + 0.013 / sigma**4 + 1e-15)
        case Laplace(scale=scale):
            y = float(1 / scale)
            return 2.0 * math.exp(-y * (h + 1)) / (1.0 + math.exp(-y))


def atoms(law: Law, radius: int) -> NDArray[np.float64]:
    """P(Z = k) for k = -radius ... radius."""
    points = np.arange(-radius, radius + 1, dtype=np.float64)
    match law:
        case Gaussian(variance=variance):
            sigma = math.sqrt(variance)
            weights = np.exp(-(points * points) / (2.0 * float(variance)))
            if sigma > _SUMMED:
                return weights / (sigma * math.sqrt(2.0 * math.pi))
            return weights / _total(variance)
        case Laplace(scale=scale):
            y = float(1 / scale)
            return math.tanh(y / 2.0) * np.exp(-y * np.abs(points))


def _radius(sigma: float) -> int:
    return math.ceil(_REACH * sigma) + 2


def _weights(variance: Fraction) -> NDArray[np.float64]:
    points = np.arange(_radius(math.sqrt(variance)) + 1, dtype=np.float64)
    return np.exp(-(points * points) / (2.0 * float(variance)))


@functools.lru_cache(64)
def _total(variance: Fraction) -> float:
    weights = _weights(variance)
    return float(2.0 * weights.sum() - 1.0)


@functools.lru_cache(32)
def _tails(variance: Fraction) -> NDArray[np.float64]:
    """P(|Z| > h) for h = 0, 1, ... until nothing is left; summed from the small end, rounded up."""
    beyond = np.cumsum(_weights(variance)[:0:-1])[::-1]
    return beyond * (2.0 / _total(variance) * (1.0 + 1e-13))
