"""The gate before the guesses of a synopsis: how it is tuned, and what it promises.

A gate of exponential noise (`mechanisms.sparse`) is asked whether |q(D) - guess| reaches T. With Z
and N of means a and b, the guesses of a good model are to pass k times in a row: at a threshold of
T = b (ln k + 2.25) - a / 10 they probably do where they are not off at all. What passes is off by
less than T + Z, all of it at once: with probability 1 - beta by at most T + j - 2, where j is the
least with P(Z >= j) <= beta. There is no union bound over questions.

**What holds for an answer.** Of what may miss, beta = 1 - confidence, the gates of a session share
`FREE`, and what is measured has the rest. A session's gates are numbered, and the k-th has beta_k =
FREE beta / (k (k + 1)); these sum to less than FREE beta, however many there are. So

- all guesses that the gates of a session let pass are within their bounds, together, with
  probability 1 - FREE beta: they are where each Z_k is below its j_k, and Z_k is drawn after all
  that decides whether there is a k-th gate, so that the k-th fails with probability beta_k at most;
- the k-th answer of the session, for each k, misses with probability beta at most, however what was
  said before made it be asked: it misses as a guess only where a gate has failed, and else as a
  measurement, whose fresh noise misses with probability (1 - FREE) beta given all before it.

Were all of beta each gate's, and each measurement's, a question whose guess is just beyond the
bound would miss twice: beta at the gate, and beta again when it is measured. And gates would have
to share it in any case: one that has failed stays open and goes on to answer, one that has not
closes and is followed by another, so that after k far guesses a gate that fails is in force with up
to k times its beta. What the first tables of a synopsis tell is asked of no gate, and has all of
beta.

**Beta is that of each numbered answer, not conditional on the history.** Before a session begins
its k-th answer misses with probability beta at most, for each k and whatever it will be asked. It
is no probability given what was seen since: where the open gate's Z_k came out large, which the
guesses that it let pass may hint at, all that it lets pass is in doubt at once. Nor does it hold
for an answer that was picked by what it says, the largest, or one above a bound, without intervals
that hold for all that it was picked from; those of free guesses do.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass

from dpsql.accounting.events import PICO, AboveThreshold, GateNoise
from dpsql.curator.quote import moved
from dpsql.domain import Domain
from dpsql.errors import UsageError
from dpsql.mechanisms import sparse
from dpsql.mechanisms.synopses.marginal import marginal
from dpsql.schema import Dataset

QUESTIONS = 1000  # of good guesses that are to pass
LEVEL = 0.95  # at which the noise is split best, and of which a promise is told
FREE = 0.2  # of what may miss: that of all gates of a session
_STEPS = 40


@dataclass(frozen=True, slots=True, eq=False)
class Verifier:
    """A gate that is to be bought, and the threshold that it is asked about, in rows.

    It is the `number`-th of its session, from 1 on. Each is another one, however alike.
    """

    event: AboveThreshold
    threshold: int
    number: int = 1

    def most(self, confidence: float) -> int:
        """How far guesses that pass are off at most, in rows, where answers have a `confidence`."""
        return _most(self, confidence)

    @property
    def passes(self) -> float:
        """Some number of guesses that are not off at all that probably pass in a row."""
        a, b = float(self.event.threshold_scale), float(self.event.query_scale)
        return math.exp(min((self.threshold + 0.1 * a) / b - 2.25, 700.0))

    def nth(self, number: int) -> Verifier:
        """The same as another gate of its session."""
        return dataclasses.replace(self, number=number)


@functools.lru_cache(64)  # the same for all guesses that a gate is asked about
def _most(told: Verifier, confidence: float) -> int:
    level = share(confidence, told.number)
    return max(told.threshold + sparse.hidden(told.event, QUESTIONS, level), 0)


def share(confidence: float, number: int) -> float:
    """The level of the bound of a session's `number`-th gate."""
    return 1.0 - (1.0 - confidence) * FREE / (number * (number + 1))


def measured(confidence: float) -> float:
    """The level of what is measured where a gate might have let a guess pass instead."""
    return 1.0 - (1.0 - confidence) * (1.0 - FREE)


@functools.lru_cache(64)
def verifier(
    unit: int, rho: int, noise: GateNoise = "exponential", threshold: int | None = None
) -> Verifier:
    """The gate for counts that move by `unit` between neighbours, at a price in 1e-12 of rho.

    Its threshold is for so many `QUESTIONS` in a row, unless one is stated. With Laplace noise what
    passes is near for `QUESTIONS` guesses, and then the gate is spent.

    Raises UsageError where the noise would be more than can be drawn.
    """
    wanted = sparse.Asked(unit, False, QUESTIONS, 1, share(LEVEL, 1), noise)
    event = sparse.at_rho(wanted, rho)
    a, b = float(event.threshold_scale), float(event.query_scale)
    if threshold is not None:
        return Verifier(event, threshold)
    return Verifier(event, max(round(b * (math.log(QUESTIONS) + 2.25) - 0.1 * a), 1))


def count_unit(dataset: Dataset) -> int:
    """By how much a count moves between neighbours."""
    name = dataset.columns[0].name
    domain = Domain((name,), (dataset.column(name).cells,))
    return int(moved(marginal(domain).workload, dataset).largest)


def cheapest(
    unit: int, most: float, confidence: float, noise: GateNoise = "exponential", number: int = 1
) -> int:
    """The least price, within 1 %, whose gate lets pass guesses that are off by `most` at most.

    In 1e-12 of rho; at a rho of 1,000 nothing is off. It is the `number`-th gate of its session,
    where answers have a `confidence`.
    """

    def fits(rho: int) -> bool:
        try:
            return verifier(unit, rho, noise).nth(number).most(confidence) <= most
        except UsageError:
            return False

    low, high = 1, 1000 * PICO
    for _ in range(_STEPS):
        middle = math.isqrt(low * high)
        if high <= low * 1.01 or middle in (low, high):
            break
        if fits(middle):
            high = middle
        else:
            low = middle
    return high
