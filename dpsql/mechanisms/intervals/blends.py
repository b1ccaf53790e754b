"""Half widths for S = sum of a_j Z_j + G: discrete Laplace noise Z_j, and Gaussian noise G.

Discrete Laplace noise of scale b is E - E' for two geometric variables, the whole parts of two
exponential ones of mean b, whose fractions R and R' are independent of them. So Z + (R - R') is
*exactly* continuous Laplace noise of scale b. R is a uniform on [0, 1) tilted by exp(-r / b): the
second derivative of the logarithm of its moment generating function, the variance of a tilted
uniform, 1/t^2 - 1/(4 sinh^2(t/2)), is at most 1/12 everywhere, so R - R' is sub-Gaussian of
parameter 1/6. Gaussian noise of stddev s >= 2, with a uniform added, is nearly normal
(`directions`: within D = 0.03 / s^2 in distribution, whatever is added). Let T be the sum of all
that is added, symmetric, independent of S and sub-Gaussian of parameter t^2, and C = S + T. Then
P(S > h) P(T >= -x t) <= P(C > h - x t), so for every x

    h = x t + q,   P(C > q) = p (1 - exp(-x^2 / 2)) / 2 - D

has P(|S| > h) <= p. So too where T is a little
normal noise and S is Laplace noise alone, which is better for small scales. The ways to q, and h:

**Inversion**, for known a_j. C has the characteristic function f(u) = exp(-u^2 v / 2) times the
product of 1 / (1 + a_j^2 b_j^2 u^2), v the variance of the normal part. At u_k = (k + 1/2) d,

    P(C > q) = 1/2 - sum_(k >= 0) f(u_k) sin(u_k q) / (pi (k + 1/2))

but for at most P(|C| > 2 pi / d - q), as the sum is the mean of the square wave sgn sin(d (q - C)
/ 2) / 2 (Abate and Whitt 1992, section 5; Hughett 1998): d makes that nothing. From u_m on f
falls at least as 1/u^2 where the widest term is beyond its bend, so what is left out is at most
f(u) (1 + 1 / (a b u)^2) / (2 pi) at u = u_m - d; it is counted as part of p. Where T is normal
noise, Z has the function 1 / (1 + sin^2(a u / 2) / sinh^2(1/(2b))), and T's falls by itself.

**Chernoff.** -ln(1 - (sinh(x a / 2) / sinh(1/(2b)))^2) for each (`sums`), x^2 V / 2 for G.

**Any direction.** With V the variance of S, and no Laplace term's share of it above w: the bound
of each term, as a function of its share r, is convex and 0 at 0, at most r / w times that of w, so
all are at most 1 / w times it, of the least scale. And C is normal given Y = v + sum c_j E_j for
unit exponentials E_j and c_j = 2 a_j^2 b_j^2: of mean V, and variance at most w V^2. P(|C| > z) is
the mean of g(Y) = 2 P(N > z / sqrt(Y)); every quadratic above g bounds it by those two moments.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Laplace
from dpsql.mechanisms.intervals.quantile import half_width as exact
from dpsql.mechanisms.intervals.quantile import sum_half_width

Floats = NDArray[np.float64]

LEAST = 1.0 / 28.0  # a scale: noise of a smaller one is taken for that of this one, which is wider
_FAR = 26.0  # stddevs beyond which C lies with a probability below 1e-13: Chernoff, one term
_STEP = math.pi / _FAR  # d in units of the stddev: 2 pi / d - q >= 26
_POINTS = 1 << 14  # of an inversion
_ADDED = (1.8, 2.4, 3.0, 3.6, 4.5, 6.0)  # values of x
_HALVINGS = 28  # of a bisection
_ROUNDING = 1e-12  # of sums of so many terms
_NORMAL = NormalDist()
_SHARES = 256  # steps of the shares that bounds are looked up for
_GRID = 1e-7  # of a stddev: weights are rounded up to it
_NOTHING = 1e-9  # of a variance: what Gaussian noise is left is bounded by itself
_DIFFERENT = 64  # sums that are inverted in one go
_SMOOTH = 0.01  # of a stddev, of normal noise that is added
_FINE, _TERMS = 8.0, 32  # scales and terms for which the lattice of the sum is looked at


def chernoff(widths: Floats, scales: Floats, variance: float, missed: float) -> float:
    """h for Laplace noise of these weights a_j and scales, beside Gaussian noise of a variance."""
    used = widths > 0.0
    widths, rates = widths[used], 1.0 / scales[used]
    log = math.log(2.0 / missed)
    if not len(widths):
        return math.sqrt(2.0 * log * variance)
    top = float(np.min(rates / widths))
    x = top * np.concatenate([np.geomspace(1e-6, 0.05, 60), np.linspace(0.06, 0.9999, 120)])
    with np.errstate(divide="ignore"):
        ratios = np.sinh(x[:, None] * widths / 2.0) / np.sinh(rates / 2.0)
        moments = -np.log1p(-(ratios**2)).sum(axis=1)
    return float(np.min((moments + variance * x * x / 2.0 + log) / x)) * (1.0 + 1e-9)


def half_width(
    widths: Floats, scales: Floats, gaussian: float, least: float, missed: float
) -> float:
    """h for Laplace noise of weights a_j and scales beside Gaussian noise of variance `gaussian`,
    made of noises of at least the stddev `least`.
    """
    used = widths > 0.0
    widths, scales = widths[used], scales[used]
    best = chernoff(widths, scales, gaussian, missed)
    squares = (widths * scales) ** 2
    added, doubt, normal = float((widths**2).sum()) / 6.0, 0.0, gaussian
    if gaussian > 0.0:
        if least < 2.0:
            return best
        added += gaussian / (12.0 * least**2)
        normal *= 1.0 + 1.0 / (12.0 * least**2)
        doubt = 0.03 / least**2
    spread = math.sqrt(normal + 2.0 * float(squares.sum()))
    if not spread > 0.0:
        return best
    if gaussian == 0.0 and added > (_SMOOTH * spread) ** 2:
        spread = math.sqrt(float((widths**2 / (2.0 * np.sinh(0.5 / scales) ** 2)).sum()))
        law = _Law.smoothed(widths / spread, scales, missed * 1e-5)
        spread, added = spread * math.hypot(1.0, _SMOOTH), (_SMOOTH * spread) ** 2
    else:
        law = _Law.of(squares / spread**2, normal / spread**2, missed * 1e-5)
    shares = [missed * (1.0 - math.exp(-x * x / 2.0)) / 2.0 - doubt for x in _ADDED]
    least_of_all = law.quantile(missed / 2.0)
    for x, share in zip(_ADDED, shares, strict=True):
        beyond = x * math.sqrt(added)
        if share > law.rest and beyond + least_of_all * spread < best:
            best = min(best, beyond + law.quantile(share) * spread)
    return best


@dataclass(frozen=True, slots=True, eq=False)
class _Law:
    """C of variance 1 at most, by its waves: frequencies `u`, amplitudes, and what is left out."""

    u: Floats
    waves: Floats
    rest: float

    @classmethod
    def of(cls, squares: Floats, normal: float, wanted: float) -> _Law:
        """The squares of a_j b_j, and the variance of the normal part."""
        squares, counts = np.unique(squares, return_counts=True)
        end = _end(squares, counts, normal, wanted)
        points = min(math.ceil(end / _STEP) + 1, _POINTS)
        k = np.arange(points) + 0.5
        u = k * _STEP
        logs = -normal * u * u / 2.0
        for square, count in zip(squares, counts, strict=True):
            logs -= count * np.log1p(square * u * u)
        rest = _left(squares, counts, normal, (points - 0.5) * _STEP) + _ROUNDING
        amplitudes: Floats = np.exp(logs) / (math.pi * k)
        return cls(np.asarray(u, np.float64), amplitudes, rest)

    @classmethod
    def smoothed(cls, widths: Floats, scales: Floats, wanted: float) -> _Law:
        """Discrete noises of variance 1 together, and a little normal noise, scaled to 1."""
        size = math.hypot(1.0, _SMOOTH)
        normal, none = (_SMOOTH / size) ** 2, np.zeros(0)
        counts = np.zeros(0, np.int64)
        end = _end(none, counts, normal, wanted)
        k = np.arange(math.ceil(end / _STEP) + 1) + 0.5
        u = k * _STEP
        logs = -normal * u * u / 2.0
        terms, many = np.unique(np.stack([widths / size, scales]), axis=1, return_counts=True)
        for (width, scale), count in zip(terms.T.tolist(), many.tolist(), strict=True):
            waves = np.sin(u * (width / 2.0)) / math.sinh(0.5 / scale)
            logs -= count * np.log1p(waves * waves)
        amplitudes: Floats = np.exp(logs) / (math.pi * k)
        return cls(
            np.asarray(u, np.float64),
            amplitudes,
            _left(none, counts, normal, (len(k) - 0.5) * _STEP) + _ROUNDING,
        )

    def quantile(self, share: float) -> float:
        """A q with P(C > q) <= share, hardly more than the least; 26 for a share of nothing."""
        low, high = 0.0, _FAR
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            beyond = 0.5 - float(np.sin(self.u * middle) @ self.waves) + self.rest
            low, high = (low, middle) if beyond <= share else (middle, high)
        return high * (1.0 + 1e-9)


def _left(squares: Floats, counts: NDArray[np.int64], normal: float, u: float) -> float:
    """What the terms beyond u add at most."""
    logs = -normal * u * u / 2.0 - float(counts @ np.log1p(squares * u * u))
    bend = max(float(squares.max(initial=0.0)), normal / 2.0) * u * u
    return math.exp(logs) * (1.0 + 1.0 / bend) / (2.0 * math.pi)


def _end(squares: Floats, counts: NDArray[np.int64], normal: float, wanted: float) -> float:
    """Where what is left out is as little as is wanted, or as far as is looked."""
    low, high = 0.0, math.log(_POINTS * _STEP)
    for _ in range(30):
        middle = (low + high) / 2.0
        if _left(squares, counts, normal, math.exp(middle)) <= wanted:
            high = middle
        else:
            low = middle
    return math.exp(high)


def half_widths(
    weights: Floats, scales: Floats, variances: Floats, least: float, confidence: float
) -> Floats:
    """h of each sum, (sums,): of Laplace noises with `weights` (sums, noises), beside Gaussian
    noise that makes up the variances; of no weight the sum is nothing.

    Sums whose weights are alike but for their order have one h. Where too many differ, that of
    any direction is taken for all.
    """
    found: Floats = np.zeros(len(weights))
    some = np.flatnonzero(variances > 0.0)
    if not len(some):
        return found
    weights, variances = np.abs(weights[some]), variances[some]
    shares = (weights * (math.sqrt(0.5) / np.sinh(0.5 / scales))) ** 2 / variances[:, None]
    normal, rest = np.zeros(len(some)), 0.0
    if least < math.inf:
        normal, rest = 1.0 - shares.sum(axis=1), _FAR * math.sqrt(_NOTHING)
        normal = np.where(normal > _NOTHING, normal, 0.0)
    size = np.sqrt(variances)
    sizes = np.ceil(weights * scales / (_GRID * size[:, None]) - 1e-3)
    parts = [np.sort(sizes[:, scales == scale], axis=1) for scale in np.unique(scales)]
    keys = np.column_stack([np.ceil(normal / _GRID - 1e-3), *parts])
    listed, which = np.unique(keys, axis=0, return_inverse=True)
    if len(listed) > _DIFFERENT:
        found[some] = size * reaches(shares.max(axis=1), scales, least, confidence)
        return found * (1.0 + 1e-9)
    ordered = np.sort(scales)
    each = []
    for line in listed:
        terms = zip((line[1:] * _GRID / ordered).tolist(), ordered.tolist(), strict=True)
        used = tuple([term for term in terms if term[0] > 0.0])
        each.append(_one(used, float(line[0]) * _GRID, least, confidence))
    found[some] = size * (np.array(each)[which.reshape(-1)] + rest)
    return found * (1.0 + 1e-9)


@functools.lru_cache(1024)
def _one(
    terms: tuple[tuple[float, float], ...], normal: float, least: float, confidence: float
) -> float:
    """h of one sum of Laplace noises, each with its weight and scale."""
    # what was rounded up is this much, with less probability than floats tell
    off = _FAR * _GRID * math.sqrt(2.0 * len(terms))
    if normal == 0.0 and len(terms) == 1:
        ((width, scale),) = terms
        return width * exact(Laplace(1, 1, Fraction(scale)), confidence) + off
    widths, scales = np.array(terms, np.float64).reshape(-1, 2).T
    best = half_width(widths, scales, normal, least, 1.0 - confidence)
    if normal == 0.0 and scales.min() < _FINE and len(set(terms)) <= _TERMS:
        laws = [(Fraction(width), Laplace(1, 1, Fraction(scale))) for width, scale in terms]
        best = min(best, float(sum_half_width(laws, confidence)) + off)
    return best


def reaches(shares: Floats, scales: Floats, least: float, confidence: float) -> Floats:
    """z of sums with these largest shares, as `reach` has it."""
    rounded = np.minimum(np.ceil(shares * _SHARES + 1e-6) / _SHARES, 1.0)
    listed, which = np.unique(rounded, return_inverse=True)
    scale = float(scales.min())
    found = np.array([_reach(share, scale, least, confidence) for share in listed.tolist()])
    each: Floats = found[which.reshape(-1)]
    return each


@functools.lru_cache(4096)
def _reach(share: float, scale: float, least: float, confidence: float) -> float:
    """z: with this level |S| <= z sqrt(V) for all S whose Laplace terms have at most that share
    of the variance V each, and scales of at least `scale`; Gaussian noise of at least `least`.
    """
    missed = 1.0 - confidence
    sigma = math.sqrt(0.5) / math.sinh(0.5 / scale)
    log = math.log(2.0 / missed)
    top = sigma / (scale * math.sqrt(share))
    x = top * np.linspace(0.0005, 0.9995, 2000)
    ratios = np.sinh(x * (math.sqrt(share) / (2.0 * sigma))) / math.sinh(0.5 / scale)
    best = float(np.min((-np.log1p(-(ratios**2)) / share + log) / x)) * (1.0 + 1e-9)
    doubt = 0.0
    if least < math.inf:
        if least < 2.0:
            return best
        doubt = 0.03 / least**2
    added = math.sqrt(max(1.0 / (6.0 * sigma**2), 1.0 / (12.0 * least**2)))
    grown = 1.0 + added**2
    wide = min(share * (1.0 + 1.0 / (6.0 * sigma**2)), 1.0)
    for extra in _ADDED:
        part = missed * (1.0 - math.exp(-extra * extra / 2.0)) - 2.0 * doubt
        if part > 0.0:
            best = min(best, extra * added + math.sqrt(grown) * _mixed(wide, part))
    return best


def _mixed(share: float, missed: float) -> float:
    """z with P(|C| > z sqrt(V)) <= missed for all such mixtures of normals."""
    low, high = -_NORMAL.inv_cdf(missed / 2.0), 12.0 / math.sqrt(missed)
    for _ in range(24):
        middle = (low + high) / 2.0
        low, high = (low, middle) if _most(middle, share) <= missed else (middle, high)
    return high * (1.0 + 1e-6)


@functools.cache
def _quadratics() -> tuple[Floats, Floats, Floats, Floats]:
    """Of quadratics of y / z^2 that touch g and stay above it: y0 / z^2, g and y g' there, and
    the least curvature, on a fine grid.

    With x = z / sqrt(y), g is P(|N| > x) and y g'(y) is x times the density of N.
    """
    x = np.geomspace(1e-3, 40.0, 1400)
    g = np.array([math.erfc(v / math.sqrt(2.0)) for v in x.tolist()])
    slope = x * np.exp(-x * x / 2.0) / math.sqrt(2.0 * math.pi)
    y = 1.0 / (x * x)
    tried = np.flatnonzero((x > 0.2) & (x < 12.0))[::2]
    y0, g0, s0 = y[tried, None], g[tried, None], slope[tried, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        curves = (g - g0 - s0 * (y / y0 - 1.0)) / (y - y0) ** 2
    curves = np.where(np.abs(y - y0) > 1e-6 * y0, curves, -np.inf)
    curves = np.concatenate([curves, (s0 - g0) / y0**2], axis=1)  # at y = 0, where g is 0
    curve = np.maximum(curves.max(axis=1), 0.0) * (1.0 + 1e-3)
    return y[tried], g[tried], slope[tried], curve


def _most(z: float, share: float) -> float:
    """The least mean of a quadratic above g, at mean 1 and variance `share`."""
    y0, g0, s0, curve = _quadratics()
    off = 1.0 / (z * z) - y0
    means = g0 + s0 * off / y0 + curve * (share / z**4 + off**2)
    return float(means.min(initial=1.0))
