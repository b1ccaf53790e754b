"""Half widths for S = sum of w_j Z_j, the Z_j independent discrete noise. Three ways, each proven.

**Lattice.** All w_j Z_j are put on a lattice of step d, and their law is found by fast Fourier
transforms on a circle too long for the sum to go round. When d divides every w_j this is exact.
Else w_j Z_j = d Q_j + R_j with Q_j rounded to nearest and |R_j| <= d/2: the R_j together exceed
n d / 2 never, and d sqrt(n ln(2/p) / 2) with probability p at most (Hoeffding); that is added.

**Chernoff.** P(|S| > h) <= 2 exp(sum K_j(x w_j) - x h) for every x > 0, where K(x) = x^2 s^2 / 2
bounds the logarithm of the moment generating function of Gaussian noise (Canonne, Kamath, Steinke
2020: a Gaussian sum over shifted integers is largest at shift 0), and
K(x) = -ln(1 - (sinh(x/2) / sinh(1/(2b)))^2) is that of Laplace noise, for x < 1/b.

**Smoothed normal**, Gaussian noise alone. Let V = sum of w_j^2 s_j^2, m = max |w_j|, W normal with
mean 0 and stddev o = t m, independent of S. With g(x) = exp(-s^2 x^2 / 2) the characteristic
function of Z is, by Poisson's formula, c(x) = sum_k g(x - 2 pi k) / sum_k g(2 pi k), so

    0 <= c(x) - g(x) <= sum_(k>=1) 2 g(2 pi k) g(x) (cosh(2 pi k s^2 x) - 1).

With cosh(y) - 1 <= y sinh(y) / 2, dividing by x and integrating from 0 to r <= pi gives at most
pi s^2 sum k int_(2 pi k - r)^inf g <= sum_(k>=1) g(2 pi k - r) =: J(s, r), because
int_a^inf g <= g(a) / (s^2 a) and k / (2 pi k - r) <= 1 / pi. Both S + W and a normal N of variance
V + o^2 have integrable characteristic functions; their distribution functions differ by at most
1/pi times the integral over x > 0 of the distance of those, over x. Up to x = r/m, products
differing by no more than the sum of the differences of their factors, that is
sum_j J(s_j, r w_j / m); beyond, at most 2 int exp(-o^2 x^2 / 2) / x <= 2 exp(-t^2 r^2 / 2)
/ (t r)^2. Call the total e. Finally S > h and W > -a o imply S + W > h - a o, and S and W are
independent: P(|S| > h) Phi(a) <= 2 P(N > h - a o) + 2 e. So

    h = a o + sqrt(V + o^2) z,   P(standard normal > z) = (p Phi(a) - 2 e) / 2

has P(|S| > h) <= p, for every r, t, a; the best of a few is taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Gaussian, Laplace, Law
from dpsql.mechanisms.intervals.law import atoms, stddev

_LONGEST = 1 << 16  # points of the circle that an exact law may need
_ROUGH = 1 << 14  # points of the circle of a rounded one
_WORK = 1 << 21  # points of all circles, and atoms of all laws, of one sum
_SPILT = 1e-14  # probability that the sum goes round the circle
_DOUBT = 1e-11  # of the lattice's tails: transforms, spill and truncation together
_CLOSE = 1.0005  # times the normal half width: a bound this close is taken as it is
_ROUNDED = 1.0 + 1e-12
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Group:
    """`count` independent coordinates of one `law`, each with the same `weight` > 0."""

    weight: Fraction
    law: Law
    count: int


def half_width(groups: tuple[Group, ...], missed: float) -> Fraction:
    """An h with P(|S| > h) <= missed: exact, or a bound that is close to it."""
    smoothed = _smoothed(groups, missed)
    best = Fraction(min(_chernoff(groups, missed), smoothed) * _ROUNDED)
    weights, counts = _columns(groups)
    variances = np.array([stddev(group.law) ** 2 for group in groups])
    normal = -_NORMAL.inv_cdf(missed / 2.0) * math.sqrt(float(counts @ (weights**2 * variances)))
    if smoothed > _CLOSE * normal and missed > 100 * _DOUBT:
        on_lattice = _lattice(groups, missed)
        if on_lattice is not None:
            best = min(best, on_lattice)
    step = _common_step(groups)  # S takes multiples of it alone
    return best // step * step


def _chernoff(groups: tuple[Group, ...], missed: float) -> float:
    """The least h that the bound gives, found by golden section in ln x; any x is valid."""
    weights, counts = _columns(groups)
    gaussian = np.array([isinstance(group.law, Gaussian) for group in groups])
    parameters = np.array([_parameter(group.law) for group in groups])
    log = math.log(2.0 / missed)
    spread = np.sum(counts * np.where(gaussian, weights**2 * parameters, 0.0))
    if gaussian.all():
        return math.sqrt(2.0 * log * float(spread))
    # Laplace noise of a smaller 1/b is larger: the cap keeps sinh finite and the bound valid.
    rates = np.minimum(1.0 / parameters[~gaussian], 600.0)
    heavy, many = weights[~gaussian], counts[~gaussian]

    def bound(x: float) -> float:
        ratios = np.sinh(x * heavy / 2.0) / np.sinh(rates / 2.0)
        moments = -many @ np.log1p(-(ratios**2))
        return float((spread * x * x / 2.0 + moments + log) / x)

    top = math.log(float(np.min(rates / heavy)) * (1.0 - 1e-9))
    low, high = top - 40.0, top
    golden = (math.sqrt(5.0) - 1.0) / 2.0
    for _ in range(60):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if bound(math.exp(left)) < bound(math.exp(right)):
            high = right
        else:
            low = left
    return bound(math.exp((low + high) / 2.0))


def _smoothed(groups: tuple[Group, ...], missed: float) -> float:
    """The smoothed normal bound; infinite where it says nothing."""
    if not all(isinstance(group.law, Gaussian) for group in groups):
        return math.inf
    weights, counts = _columns(groups)
    variances = np.array([_parameter(group.law) for group in groups])
    if float(variances.min()) < 0.25:  # J is summed below for s >= 1/2
        return math.inf
    spread, widest = float(counts @ (weights**2 * variances)), float(weights.max())
    best = math.inf
    for reach in (1.0, 1.5, 2.0, 2.5, 3.0, math.pi):
        nearest = 2.0 * math.pi - reach * weights / widest
        # the terms of J beyond the first are each below exp(-4 pi^2 s^2) of the one before
        first = 1.001 * float(counts @ np.exp(-variances * nearest**2 / 2.0))
        for times in (0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.5, 3.0, 4.0, 6.0, 9.0):
            square = (times * reach) ** 2
            doubt = (first + 2.0 * math.exp(-square / 2.0) / square) / math.pi
            smoothing = times * widest
            for shift in (1.0, 1.5, 2.0, 2.5, 3.0, 3.5):
                share = (missed * _NORMAL.cdf(shift) - 2.0 * doubt) / 2.0
                if share > 0.0:
                    z = -_NORMAL.inv_cdf(share)
                    best = min(best, shift * smoothing + math.hypot(spread**0.5, smoothing) * z)
    return best


def _lattice(groups: tuple[Group, ...], missed: float) -> Fraction | None:
    """The half width on a lattice, or None where that is too much work."""
    summed = sum(_radius(group.law) for group in groups if isinstance(group.law, Gaussian))
    if summed > _WORK:
        return None
    farthest, step = _chernoff(groups, _SPILT), _common_step(groups)
    circle = 1 << math.ceil(math.log2(2.0 * farthest / float(step) + 4))
    exact = circle <= _LONGEST
    if not exact:
        circle = _ROUGH
        step = Fraction(2.0 * farthest / (circle - 4))
    if circle * len(groups) > _WORK:
        return None
    spectrum = np.ones(circle // 2 + 1, np.complex128)
    for group in groups:
        spectrum *= np.fft.rfft(_folded(group, step, circle, exact)) ** group.count
    law = np.maximum(np.fft.irfft(spectrum, circle), 0.0)
    both = law[1 : circle // 2] + law[: circle // 2 : -1]
    tails = np.append(np.cumsum(both[::-1])[::-1] + law[circle // 2], law[circle // 2])
    if exact:
        return step * _first_within(tails, missed)
    n = sum(group.count for group in groups)
    given_up = missed / 1000.0
    surely, nearly = n * (0.5 + 1e-9), math.sqrt(n * math.log(2.0 / given_up) / 2.0)
    if surely <= nearly:
        return step * Fraction((_first_within(tails, missed) + surely) * _ROUNDED)
    return step * Fraction((_first_within(tails, missed - given_up) + nearly) * _ROUNDED)


def _first_within(tails: NDArray[np.float64], missed: float) -> int:
    """The least k whose tail, P(|.| > k), is at most `missed`."""
    return int(np.argmax(tails + _DOUBT <= missed))


def _folded(group: Group, step: Fraction, circle: int, exact: bool) -> NDArray[np.float64]:
    """The law of weight Z / step on the circle, rounded to nearest unless it is `exact`."""
    ratio = group.weight / step
    if isinstance(group.law, Laplace) and not exact:
        return _rounded_laplace(float(1 / group.law.scale), float(ratio), circle)
    radius = _radius(group.law)
    points = np.arange(-radius, radius + 1)
    if exact:
        places = points * (ratio.numerator % circle) % circle
    else:
        places = np.rint(points * float(ratio)).astype(np.int64) % circle
    folded: NDArray[np.float64] = np.zeros(circle)
    np.add.at(folded, places, atoms(group.law, radius))
    return folded


def _rounded_laplace(y: float, ratio: float, circle: int) -> NDArray[np.float64]:
    """The law of ratio Z rounded to nearest, by the closed form P(Z > e) = q^(e + 1) / (1 + q)."""
    edges = np.floor((np.arange(circle // 2) + 0.5) / ratio)
    beyond = np.exp(-y * (edges + 1.0)) / (1.0 + math.exp(-y))
    law: NDArray[np.float64] = np.zeros(circle)
    law[0] = 1.0 - 2.0 * beyond[0]
    law[1 : circle // 2] = beyond[:-1] - beyond[1:]
    law[: circle // 2 : -1] = law[1 : circle // 2]
    return law


def _common_step(groups: tuple[Group, ...]) -> Fraction:
    """The largest number of which every weight is a multiple."""
    below = math.lcm(*(group.weight.denominator for group in groups))
    return Fraction(math.gcd(*(int(group.weight * below) for group in groups)), below)


def _radius(law: Law) -> int:
    """How far its atoms are kept: less than 1e-15 of the mass lies beyond."""
    match law:
        case Gaussian():
            return math.ceil(8.5 * math.sqrt(law.variance)) + 2
        case Laplace():
            return math.ceil(38.0 * float(law.scale)) + 2


def _parameter(law: Law) -> float:
    match law:
        case Gaussian():
            return float(law.variance)
        case Laplace():
            return float(law.scale)


def _columns(groups: tuple[Group, ...]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    weights = np.array([float(group.weight) for group in groups])
    return weights, np.array([float(group.count) for group in groups])
