"""From the rows to the population that they were drawn from, for questions chosen by the answers.

Transfer theorem (Jung, Ligett, Neel, Roth, Sharifi-Malvajerdi, Shenfeld 2020, "A new analysis of
differential privacy's generalization guarantees", arXiv:1909.03577). n rows are drawn independently
from a population, and a transcript of them is (epsilon, delta)-private when one row is replaced by
another. The analyst picks a linear query q in [0, 1] by what the transcript said before, and is
told that the mean of q over the rows lies in an interval, which is false with chance beta. Then for
all c, d > 0 the mean over the *population* lies in the interval, made wider on both sides by

    e^epsilon - 1 + c + 2 d,       but for a chance of       beta / c + delta / d.

Proof. (1) Rows drawn afresh from their posterior given the transcript have, with it, the law of the
rows themselves; so the interval misses *their* mean with chance beta, and by Markov's inequality
the posterior chance of a miss is at most c, but for beta / c. Then the posterior mean is within c
of the interval. (2) By privacy the posterior mean of any such q is within e^epsilon - 1 + 2 d of
that over the population, but for delta / d. The error of sampling is in it.

Given beta, delta and the chance missed = beta/c + delta/d, the least c + 2 d is by Cauchy-Schwarz

    S^2 / missed  at  c = sqrt(beta) S / missed,  d = delta / (missed - beta / c),
    S = sqrt(beta) + sqrt(2 delta),

and beta and delta are searched on a grid: each point of it is valid, so the search touches the
width and never the truth.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.convert import LARGEST_RHO, epsilon_of
from dpsql.accounting.events import PICO
from dpsql.mechanisms.intervals.answers import Answers
from dpsql.mechanisms.intervals.uncertain import CONSTANT, Bools, Floats, added
from dpsql.query.expr import Expr

_DELTAS = 10.0 ** (-np.arange(5, 241) / 16.0)  # 0.49 to 1e-15
_BETAS = 10.0 ** (-np.arange(5, 177) / 16.0)  # 0.49 to 1e-11, as far as quantiles go
_REACH = np.array([-NormalDist().inv_cdf(beta / 2.0) for beta in _BETAS.tolist()])
_SAFE = 1.0 + 1e-12  # more than the few roundings of a width lose
_VACUOUS = 50.0  # at this epsilon, or any larger one, the theorem says nothing


@dataclass(frozen=True, slots=True)
class Transcript:
    """What all answers about the rows may cost together, where one row is *replaced* by another.

    `rho` in zCDP (pico); `epsilon` pure (pico), or None. Of rows that are added and removed both
    ends of a replacement are one row apart from what is left: epsilon doubles, and rho takes four
    times (Bun, Steinke 2016, Proposition 27).
    """

    rho: int
    epsilon: int | None = None


@dataclass(frozen=True, slots=True)
class Transfer:
    """The constants of the theorem for one interval."""

    epsilon: float
    delta: float
    beta: float
    c: float
    d: float

    @property
    def shift(self) -> float:
        """By how much the interval of a share gets wider on both sides, rounded up."""
        return (math.expm1(self.epsilon) + self.c + 2.0 * self.d) * _SAFE

    @property
    def missed(self) -> float:
        """The chance that the wider interval is false."""
        return self.beta / self.c + (self.delta / self.d if self.d else 0.0)

    @property
    def level(self) -> float:
        """The level of the interval about the rows."""
        return math.nextafter(1.0 - self.beta, 1.0)

    def bound(self, noise: float) -> float:
        """Half the whole interval of a share whose noise has this standard error, about."""
        return self.shift - NormalDist().inv_cdf(self.beta / 2.0) * noise


def transfer(transcript: Transcript, missed: float, noise: float) -> Transfer:
    """The constants that make an interval narrow whose chance to be false is at most `missed`.

    `noise` is the standard error of a share that is known before it is measured: the constants
    must not depend on the answer.
    """
    deltas, losses = _curve(transcript)
    sums = np.sqrt(_BETAS)[:, None] + np.sqrt(2.0 * deltas)[None, :]
    width = losses[None, :] + sums**2 / missed + (noise * _REACH)[:, None]
    row, column = divmod(int(np.argmin(width)), width.shape[1])
    beta, delta = float(_BETAS[row]), float(deltas[column])
    # rounded so that beta / c + delta / d does not exceed `missed`
    both = math.sqrt(beta) + math.sqrt(2.0 * delta)
    c = math.sqrt(beta) * both / missed * _SAFE
    d = math.sqrt(delta / 2.0) * both / missed * _SAFE
    return Transfer(_epsilon(transcript, delta), delta, beta, c, d)


def intervals(
    answers: Answers, expr: Expr, found: Transfer, rows: float, steps: int = 1
) -> tuple[Floats, Floats, Floats, Bools | None] | None:
    """As `Answers.intervals`, of a count or a mean, about the population that `rows` rows are from.

    Of a count it is about the number of such rows that as many rows of the population would have:
    it is wider by rows x shift. A mean r of values in [lo, hi] is where the linear query of
    (value - r) over the rows that count, whose values lie within hi - lo of each other, is 0:
    Fieller's set of |N - r D| <= z s(r) + B for B = rows x shift x (hi - lo), which ends where
    those of N - B and N + B do. A row of it is measured in so many `steps`: N, D and B are so many
    times as large. `rows` is at least their number; infinite says nothing.
    """
    plain = answers.intervals(expr, found.level)
    said = answers.of(expr)
    if plain is None or said is None:
        return None
    errors, low, high, doubtful = plain
    more = found.shift * rows
    if said.ratio is None:
        low, high = np.maximum(low - more, 0.0), np.minimum(high + more, rows)
        return errors, np.minimum(low, said.value), np.maximum(high, said.value), doubtful
    (top, bottom), (lo, hi) = said.ratio, said.clip
    if math.isinf(more):
        return errors, np.full_like(low, lo), np.full_like(high, hi), doubtful
    # a row more for all that rounds
    apart = steps * (math.ceil(more) + 1) * (Fraction(hi) - Fraction(lo))
    below = answers.ratio(added(top, {CONSTANT: -apart}), bottom, (lo, hi))
    above = answers.ratio(added(top, {CONSTANT: apart}), bottom, (lo, hi))
    return errors, below.bounds(found.level)[0], above.bounds(found.level)[1], doubtful


@functools.lru_cache(64)
def _curve(transcript: Transcript) -> tuple[Floats, Floats]:
    """Deltas, and e^epsilon - 1 of each; delta = 0 where the transcript is pure."""
    deltas: NDArray[np.float64] = _DELTAS
    if transcript.epsilon is not None:
        deltas = np.append(deltas, 0.0)
    epsilons = [_epsilon(transcript, delta) for delta in deltas.tolist()]
    return deltas, np.expm1(np.minimum(epsilons, _VACUOUS))


def _epsilon(transcript: Transcript, delta: float) -> float:
    """An epsilon of the transcript at delta, rounded up; cut where any says nothing."""
    found = [_VACUOUS]
    if transcript.epsilon is not None:
        found.append(math.nextafter(transcript.epsilon / PICO, math.inf))
    if delta:
        found.append(epsilon_of(min(transcript.rho, LARGEST_RHO), delta))
    return min(found)
