"""Exact coverage: every way that the noise can fall is a group, weighted by its chance.

Nothing here can fail by chance. Each kind of interval is also told of noise a tenth smaller than
it is, and must then fail to cover: that is what the tests can see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpsql.accounting.events import Event, Gaussian, Laplace
from dpsql.mechanisms.intervals.answers import Answers
from dpsql.mechanisms.intervals.law import atoms, stddev
from dpsql.query.estimators import Count, Estimator, Sum
from dpsql.query.expr import Call, Const, Expr, Slot, walk

SLACK = 1e-9  # of chances that were left out or rounded
A, B, C, D = (Slot(f"a{i}") for i in range(4))
COUNTS = [Count(0), Count(1), Count(2), Count(3)]
LOST = 1e-11  # of the mass of each coordinate, at most, that the enumeration leaves out


@dataclass(frozen=True)
class Judged:
    """The intervals of an output under all noise, and the chance of each."""

    chances: np.ndarray
    value: np.ndarray
    stderr: np.ndarray
    low: np.ndarray
    high: np.ndarray
    doubtful: np.ndarray

    def covers(self, truth: float) -> float:
        """The chance that the interval holds the truth."""
        return float(self.chances[(self.low <= truth) & (truth <= self.high)].sum())

    def mean_square(self, truth: float) -> float:
        """The mean square error of the value."""
        return float(self.chances @ (self.value - truth) ** 2)


def noise(law: Event, answers: int) -> tuple[np.ndarray, np.ndarray]:
    """All values of some noises together, (ways, answers), and the chance of each."""
    radius = 0
    while 1.0 - atoms(law, radius).sum() > LOST and radius < 60 * stddev(law) + 3:
        radius += 1
    one, values = atoms(law, radius), np.arange(-radius, radius + 1)
    grids = np.meshgrid(*[values] * answers, indexing="ij")
    chances = np.ones(1)
    for _ in range(answers):
        chances = np.multiply.outer(chances, one).ravel()
    return np.stack([grid.ravel() for grid in grids], axis=1), chances


def judge(
    expr: Expr,
    estimators: Sequence[Estimator],
    truth: Sequence[int],
    law: Event,
    level: float,
    *,
    factors: Sequence[int] | None = None,
    clamp: bool = False,
    claimed: Event | None = None,
) -> Judged:
    """All outcomes of an output whose answers are truly `truth`; `claimed` is what it is told."""
    fallen, chances = noise(law, len(truth))
    kept = chances > 1e-18
    scales = tuple(factors or [1] * len(truth))
    noisy = (np.array(truth) * np.array(scales) + fallen[kept]).astype(np.int64)
    given = tuple(estimators), scales, clamp
    answers = Answers(noisy, claimed or law, *given)
    value = Answers(_as_shown(noisy, expr, estimators, scales), law, *given).of(expr)
    found = answers.intervals(expr, level)
    assert value is not None and found is not None
    stderr, low, high, doubtful = found
    unsure = np.zeros(len(noisy), bool) if doubtful is None else doubtful
    assert (low <= high).all() and not np.isnan(low).any() and not np.isnan(high).any()
    return Judged(chances[kept], value.value, stderr, low, high, unsure)


def _as_shown(
    noisy: np.ndarray, expr: Expr, estimators: Sequence[Estimator], factors: Sequence[int]
) -> np.ndarray:
    """Counts and whole sums as they are released, whole numbers, of answers that are finer."""
    found = noisy.copy()
    named = {int(p.name[1:]) for p in walk(expr) if isinstance(p, Slot) and p.name[0] == "a"}
    for at in named:
        match estimators[at]:
            case Count(weight=weight) | Sum(weight=weight, type="HUGEINT"):
                found[:, weight] = (noisy[:, weight] + factors[weight] // 2) // factors[weight]
                found[:, weight] *= factors[weight]
    return found


def gauss(sigma) -> Gaussian:
    return Gaussian(1, Fraction(sigma) ** 2)


def lap(scale) -> Laplace:
    return Laplace(1, 1, Fraction(scale))


def tenth_off(law):
    """The law of noise a tenth smaller."""
    match law:
        case Gaussian(variance=variance):
            return Gaussian(1, variance * Fraction(81, 100))
        case Laplace(scale=scale):
            return Laplace(1, 1, scale * Fraction(9, 10))


def num(value) -> Const:
    kind = "integer" if isinstance(value, int) else "decimal"
    return Const(kind, str(value))


def call(name: str, *args) -> Call:
    return Call(name, args)
