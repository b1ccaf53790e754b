"""How far noise reaches in *every* direction: the z with |sum a_i Z_i| <= z s ||a|| for all a.

Ratios need it: which combination of answers their interval rests on depends on the true ratio.
Five bounds, of which the least that applies is taken, at a level 1 - p and for k answers.

**Cauchy-Schwarz.** |sum a_i Z_i| <= ||a|| sqrt(k) max |Z_i|, the level shared among k.

**Chernoff.** Gaussian noise is sub-Gaussian with its parameter (Canonne, Kamath, Steinke 2020), so
sqrt(2 ln(2/p)) of them. For Laplace noise the logarithm of the moment generating function at x w,
K = -ln(1 - (sinh(x w / 2) / sinh(1/(2b)))^2), is a convex function of w^2: sinh^2 is convex, and
-ln(1 - .) is and rises. So of all directions that of one answer has the largest sum of K, and the
least (K(x) + ln(2/p)) / x over x < 1/b, for one answer, holds for all.

**Rounded normals**, Gaussian noise, s >= 1: Z_i plus a uniform U_i on [-1/2, 1/2] is nearly normal
of variance s^2 + 1/12, and |sum a_i U_i| <= ||a|| sqrt(k) / 2. "Nearly": in the direction of one
answer the two laws differ by about 1/(12 pi s^2), which is less than the bound on the U_i gives
away there, and in all others by less; tests compare it with exact laws.

**Any number of normals**, Gaussian noise of stddevs s_i >= s >= 2, S = sum a_i Z_i of variance V.
Let T = sum a_i U_i, so T is symmetric, independent of S and sub-Gaussian of parameter 1/12 (as a
uniform is): P(T < -x ||a||) <= exp(-6 x^2). So P(S > h) (1 - exp(-6 x^2)) is at most
P(S + T > h - x ||a||), and S + T differs from a normal N, of variance at most V (1 + 1/(12 s^2)),
by at most D in its distribution function. In characteristic functions, those of Z_i + U_i are
c(x) sin(x/2) / (x/2). Let |a_1| be the largest weight and x in units of 1 / |a_1|. Up to pi the
products differ by at most the sum of their factors' differences, x^4 / (2880 s^4) times the
normal's, and exp(-pi^2 s^2 / 2) from beyond the period. Beyond pi the first factor alone, near
2 pi k at most |y| / (2 pi k) times a normal density of y = x - 2 pi k, leaves 2 / (2 pi k s)^2
each. Over pi that makes D <= 1/(12 pi s^2) and less than a tenth more: 0.03 / s^2. As
||a|| <= sqrt(V) / s,

    z = x / s + sqrt(1 + 1/(12 s^2)) q,   P(standard normal > q) = p (1 - exp(-6 x^2)) / 2 - D

holds for every x; the best of a few is taken.

**Two answers.** |Z_1 + r Z_2| <= t is sure when |Z_1 + r0 Z_2| <= t - (r1 - r0)|Z_2|, for r0 <= r
<= r1. So t holds for all of [r0, r1] when it does for the latter, whose probability is a sum over
the values of Z_2; by symmetry r in [0, 1] is enough. Wide Laplace noise is less spread than the
rounded continuous one, |rounded| <= |continuous| + 1/2, whose sums have a closed form.
"""

from __future__ import annotations

import functools
import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Gaussian, Laplace, Law
from dpsql.mechanisms.intervals.law import atoms, stddev
from dpsql.mechanisms.intervals.quantile import half_width, simultaneous

_PARTS = 48  # of the range of r
_FINE = 3.0  # below this stddev two Gaussian answers are looked at exactly
_WIDE = 8.0  # from this scale on Laplace noise is nearly continuous
_STEPS = 45  # of a bisection


@functools.lru_cache(1024)
def reach(law: Law, confidence: float, terms: int) -> float:
    """z: with this level, |sum a_i Z_i| <= z stddev ||a|| for any weights of `terms` noises."""
    s = stddev(law)
    if s == 0.0:
        return 0.0
    if terms == 1:
        return half_width(law, confidence) / s
    found = [math.sqrt(terms) * half_width(law, simultaneous(confidence, terms)) / s]
    match law:
        case Gaussian(variance=variance):
            sigma = math.sqrt(variance)
            found.append(math.sqrt(2.0 * math.log(2.0 / (1.0 - confidence))) * sigma / s)
            if terms == 2 and s < _FINE:
                found.append(_two(law, confidence, found[0] * s))
            elif s >= 1.0:
                z = -NormalDist().inv_cdf((1.0 - confidence) / 2.0)
                found.append(z * math.sqrt(1.0 + 1.0 / (12.0 * s * s)) + terms**0.5 / (2.0 * s))
                found.append(normals(sigma, confidence))
        case Laplace(scale=scale):
            found.append(_chernoff(float(1 / scale), confidence) / s)
            if terms == 2 and scale < _WIDE:
                found.append(_two(law, confidence, found[0] * s))
            elif terms == 2:
                found.append((float(scale) * _continuous(confidence) + math.sqrt(0.5)) / s)
    return min(found)


@functools.lru_cache(4096)
def normals(least: float, confidence: float) -> float:
    """z: with this level |S| <= z sqrt(V) for every sum S of any number of Gaussian noises.

    V sums the squared weights times the noises' parameters, of which the least is `least` squared.
    """
    missed = 1.0 - confidence
    best = math.sqrt(2.0 * math.log(2.0 / missed))  # sub-Gaussian with their parameters
    if least < 2.0:
        return best
    doubt, wide = 0.03 / least**2, math.sqrt(1.0 + 1.0 / (12.0 * least**2))
    for step in range(20, 141, 4):
        x = step / 100.0
        share = missed * (1.0 - math.exp(-6.0 * x * x)) / 2.0 - doubt
        if share > 0.0:
            best = min(best, x / least - NormalDist().inv_cdf(share) * wide)
    return best


def _chernoff(rate: float, confidence: float) -> float:
    """The length that Laplace noise of scale 1/rate keeps within in every direction."""
    log = math.log(2.0 / (1.0 - confidence))
    if rate > 600.0:  # beyond what sinh holds in floats
        return math.inf
    x = rate * np.linspace(0.05, 0.999, 400)
    moments = -np.log1p(-((np.sinh(x / 2.0) / math.sinh(rate / 2.0)) ** 2))
    return float(np.min((moments + log) / x)) * (1.0 + 1e-9)


def _two(law: Law, confidence: float, surely: float) -> float:
    """z for two answers, by parts of the directions; `surely` is a length that holds in all."""
    radius = math.ceil((8.5 if isinstance(law, Gaussian) else 38.0) * _parameter(law)) + 2
    chances = atoms(law, radius)
    below = np.concatenate([[0.0], np.cumsum(chances)])  # below[i]: P(Z < i - radius)
    values = np.arange(-radius, radius + 1, dtype=np.float64)
    r0 = np.arange(_PARTS)[:, None] / _PARTS
    shift, given = r0 * values, np.abs(values) / _PARTS

    def holds(t: NDArray[np.float64]) -> NDArray[np.bool_]:
        width = t[:, None] - given
        top = np.clip(np.floor(width - shift) + radius + 1, 0, 2 * radius + 1).astype(np.int64)
        bottom = np.clip(np.ceil(-width - shift) + radius, 0, 2 * radius + 1).astype(np.int64)
        inside: NDArray[np.float64] = np.maximum(below[top] - below[bottom], 0.0) @ chances
        return inside >= confidence + 1e-13

    high = np.full(_PARTS, math.sqrt(2.0) * surely)
    low = np.zeros(_PARTS)
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        enough = holds(middle)
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    lengths = high / np.sqrt(1.0 + r0[:, 0] ** 2)
    return float(lengths.max()) * (1.0 + 1e-9) / stddev(law)


def _parameter(law: Law) -> float:
    match law:
        case Gaussian(variance=variance):
            return math.sqrt(variance)
        case Laplace(scale=scale):
            return float(scale)


@functools.lru_cache(256)
def _continuous(confidence: float) -> float:
    """The h with P(|c L_1 + s L_2| > h) <= p for unit Laplace L_i and every direction (c, s)."""
    missed = 1.0 - confidence
    angles = np.arange(200) / 200 * (math.pi / 4)
    c, s = np.cos(angles), np.maximum(np.sin(angles), 1e-9)
    low, high = np.zeros(200), np.full(200, -2.0 * math.log(missed / 2.0) + 2.0)
    for _ in range(_STEPS):
        t = (low + high) / 2.0
        beyond = (c * c * np.exp(-t / c) - s * s * np.exp(-t / s)) / (c * c - s * s)
        low, high = np.where(beyond <= missed, low, t), np.where(beyond <= missed, t, high)
    return float(high.max()) * 1.002  # between two of the angles, and up to 45 degrees
