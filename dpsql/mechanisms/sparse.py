"""Sparse vector: which of many sums reach a threshold, at a price that does not count the others.

A gate of `accounting.events.AboveThreshold`: with Z of scale a = D / e1 once a run, and N of scale
b = m D / e2 at every question (m = 2, or 1 where all sums move the same way), a run of c "above"
costs e1 + c e2 in pure epsilon, and has losses in an interval of e1 + 2 c e2 where m = 1.

**Accuracy, exponential noise.** Whole numbers; P(Z >= j) = exp(-j / a), likewise N. "below" says
v + N < T + Z, so v <= T + Z - 1 since N >= 0: with probability 1 - beta every sum that was told to
be below, however many were asked, is at most T + j - 2, j the least with P(Z >= j) <= beta. "above"
says v + N >= T + Z: with probability 1 - beta every one of k that was told to be above is at least
T - (j - 1), j the least with k P(N - Z >= j) = k exp(-j / b) E exp(-Z / b) <= beta. In a single run
that is a union bound. Where a run ends with its first "above", what came before it in the run, all
"below", makes a small Z the less likely, so that it holds question by question; else E is left out.

**Accuracy, Laplace noise.** Both sides need Z and all N: v <= T + Z - N - 1 and v >= T + Z - N,
with beta / 2 for Z and for the k N. At c = 1, D = 1, m = 2, e1 = e2 = epsilon / 2 that is within
the alpha = 8 (ln k + ln(2 / beta)) / epsilon of Dwork, Roth 2014, Thm 3.24.

**One threshold or several.** Of c "above" a pure price is c e2 + e1 with one threshold for all of
them, and c (e1 + e2) with a fresh one after each: the former is cheaper. In rho, which adds up as
squares, c runs of one "above" cost c times one run, and one run of c "above" about c^2 times: there
the latter is.

**The split.** Exponential noise leaves undecided the A / e1 + B / e2 between both bounds, where
A = D ln(1 / beta), B = m D ln(k / beta). At a price of e1 + w e2 (w = c in pure epsilon; in rho 2
for the interval of a run where m = 1, else 1) the least is at e2 / e1 = sqrt(B / (w A)) (Lagrange).
For Laplace noise the variance of Z - N is least, as Lyu, Su, Li 2017 have it: e2 / e1 =
(m^2 / w)^(1/3), which is 2^(2/3) at m = 2, w = 1.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from dpsql.accounting.events import AboveThreshold, GateNoise
from dpsql.curator.noise import LARGEST_SCALE
from dpsql.errors import UsageError

_UPWARDS = 1 + 1e-12  # outweighs the roundings of a logarithm


@dataclass(frozen=True, slots=True)
class Asked:
    """What a gate is for: `questions` about sums that move by at most `sensitivity`.

    It closes with the `positives`-th "above"; `level` is at which its bounds are to be close.
    """

    sensitivity: int
    monotone: bool
    questions: int
    positives: int
    level: float
    noise: GateNoise = "exponential"

    def ratio(self, renewed: bool) -> float:
        """The best e2 / e1, where the threshold is `renewed` (in rho) or not (in pure epsilon)."""
        each = 1 if self.monotone else 2
        weight = (2 if self.monotone else 1) if renewed else self.positives
        if self.noise == "laplace":
            return float((each**2 / weight) ** (1 / 3))
        beta = 1.0 - self.level
        a, b = math.log(1 / beta), each * math.log(max(self.questions, 1) / beta)
        return math.sqrt(b / (weight * a))

    def event(self, scale: Fraction, ratio: float, renewed: bool) -> AboveThreshold:
        """The gate with threshold noise of `scale`."""
        each = 1 if self.monotone else 2
        return AboveThreshold(
            self.sensitivity,
            scale,
            _short(scale * each / Fraction(ratio)),
            1 if renewed else self.positives,
            self.positives if renewed else 1,
            self.monotone,
            self.noise,
        )


@functools.lru_cache(256)
def at_rho(asked: Asked, rho: int) -> AboveThreshold:
    """The gate of least noise, within 2^-20 of it, whose zCDP price is at most `rho` (in 1e-12)."""
    ratio = asked.ratio(True)
    return _least(lambda scale: asked.event(scale, ratio, True), lambda event: event.rho <= rho)


@functools.lru_cache(256)
def at_epsilon(asked: Asked, epsilon: int) -> AboveThreshold:
    """The gate of least noise, within 2^-20 of it, at most a pure `epsilon` (in 1e-12)."""
    ratio = asked.ratio(False)
    return _least(
        lambda scale: asked.event(scale, ratio, False), lambda event: event.epsilon <= epsilon
    )


def hidden(event: AboveThreshold, questions: int, level: float) -> int:
    """How far over the threshold sums can be that were told to be below: all of them, at `level`.

    Negative where they are below it by as much.
    """
    once, every = _reach(event, questions, level)
    return once - 2 if event.noise == "exponential" else once + every - 3


def shown(event: AboveThreshold, questions: int, level: float) -> int:
    """How far under the threshold sums can be that were told to be above: all of them, at `level`.

    `questions` counts all that were asked.
    """
    once, every = _reach(event, questions, level)
    return every - 1 if event.noise == "exponential" else once + every - 2


def _reach(event: AboveThreshold, questions: int, level: float) -> tuple[int, int]:
    """The least j with P(Z >= j in a run), and P(N >= j in a question), at most what is allowed."""
    if not 0.0 < level < 1.0:
        raise UsageError(f"a level is between 0 and 1, not {level!r}")
    beta, a, b = 1.0 - level, float(event.threshold_scale), float(event.query_scale)
    if event.noise == "exponential":
        raised = 1.0  # E exp(-Z / b)
        if 1 in (event.positives, event.runs):
            raised = math.expm1(-1 / a) / math.expm1(-1 / a - 1 / b)
        every = b * math.log(max(questions, 1) * raised / beta) * _UPWARDS
        return _least_of(a, event.runs, beta, 0.0), max(math.ceil(every), 0)
    halves = [-math.log1p(math.exp(-1 / scale)) for scale in (a, b)]  # P(z >= j) = q^j / (1 + q)
    once = _least_of(a, event.runs, beta / 2, halves[0])
    return once, _least_of(b, questions, beta / 2, halves[1])


def _least_of(scale: float, number: int, beta: float, log: float) -> int:
    """The least j with P(one of `number` values >= j) <= beta, with tails exp(log - j / scale).

    It may be one more where the logarithm rounds.
    """
    each = -math.expm1(math.log1p(-beta) / max(number, 1))
    return max(math.ceil(scale * (log - math.log(each)) * _UPWARDS), 0)


def _least(
    make: Callable[[Fraction], AboveThreshold], fits: Callable[[AboveThreshold], bool]
) -> AboveThreshold:
    """The event of least scale that fits, within 2^-20; prices fall as the scale grows."""
    high = Fraction(1)
    while not fits(make(high)):
        high *= 1024
        if high > LARGEST_SCALE:
            raise UsageError("the price is too small: the noise would be larger than can be drawn")
    low = high / 1024
    while fits(make(low)) and low > Fraction(1, 1 << 40):
        high, low = low, low / 1024
    while high - low > high / (1 << 20):
        middle = _short((high + low) / 2)
        if not low < middle < high:
            break
        high, low = (middle, low) if fits(make(middle)) else (high, middle)
    found = make(high)
    if found.query_scale > LARGEST_SCALE:
        raise UsageError("the price is too small: the noise would be larger than can be drawn")
    return found


def _short(scale: Fraction) -> Fraction:
    """A short binary fraction at or just above `scale`."""
    grid = 1 << (20 if scale >= 1 else 48)
    return Fraction(-(-scale.numerator * grid // scale.denominator), grid)
