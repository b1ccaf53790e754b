"""Whole marginals: the counts of all cells of some columns, and what other queries make of them.

A query with weights w on the cells, computed from a marginal with independent noise of variance v,
has the variance v |w|^2, and two of them have the covariance v w'u.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Gaussian
from dpsql.accounting.kept.stored import Stored
from dpsql.curator.noise import LARGEST_VARIANCE
from dpsql.domain import Domain
from dpsql.mechanisms.intervals.noises import Alike, Bounded, Joint, Noise
from dpsql.mechanisms.intervals.spread import Fitted, Spread
from dpsql.mechanisms.reuse.fit import Model
from dpsql.query.canon import Family, families
from dpsql.query.linear import Workload, whole

Floats: TypeAlias = NDArray[np.float64]

_NOTHING = 1e-11  # of the largest eigenvalue


@dataclass(frozen=True, slots=True, eq=False)
class Marginal:
    """The whole marginal of the columns of `domain`; of `model` the noise has variance 1."""

    domain: Domain
    workload: Workload
    family: Family
    model: Model

    def spreads(self, asked: Workload, variance: Fraction) -> tuple[Spread, ...]:
        """What noise of this variance on each cell says of each SELECT of a workload."""
        least = math.sqrt(variance)
        return tuple(
            Spread(spread.covariance * float(variance), spread.known, least)
            for spread in self.model.spreads(asked)
        )

    def noises(self, asked: Workload, variance: Fraction) -> tuple[Noise, ...]:
        """The noise of each SELECT's answers, without any value."""
        return tuple(
            Joint(
                Fitted(np.zeros(spread.known.shape, np.int64), np.zeros(spread.known.shape), spread)
            )
            for spread in self.spreads(asked, variance)
        )

    def unmeasured(self, variance: Fraction) -> Stored:
        """What a ledger would keep of it, of values that are all 0."""
        cells = self.domain.cells
        return Stored((self.family,), Gaussian(1, variance), (np.zeros(cells, np.int64),))

    def enough(self, asked: Workload, noises: Sequence[Noise]) -> float:
        """The largest variance with which every combination of the answers in a group is at least
        as accurate as with these noises; 0 for none, infinite where the answers have no noise.

        v C <= S in the order of positive semidefinite matrices, for each group's covariances C at
        variance 1 and S of the noises.
        """
        return min(
            (
                _largest(spread.covariance, noise)
                for spread, noise in zip(self.model.spreads(asked), noises, strict=True)
            ),
            default=math.inf,
        )


@functools.lru_cache(8)
def marginal(domain: Domain) -> Marginal:
    """The whole marginal of all columns of a domain, of which there is one at least."""
    workload = whole(domain)
    ((family,),) = families(workload)
    assert family is not None
    model = Model.of([(family, Gaussian(1, Fraction(1)))])
    assert model is not None  # its rows are disjoint
    return Marginal(domain, workload, family, model)


def floor(variance: float | Fraction) -> Fraction:
    """A variance that can be drawn, a short binary fraction at or just below the one given."""
    exact = min(Fraction(variance), Fraction(LARGEST_VARIANCE))
    grid = 1 << (20 if exact >= 1 else 48)
    return Fraction(exact.numerator * grid // exact.denominator, grid)


def _largest(inner: Floats, noise: Noise) -> float:
    """The largest v with v C <= S in every group."""
    if not inner.any():
        return math.inf
    match noise:
        case Alike(worst=worst) | Bounded(worst=worst):
            return float(worst / np.linalg.eigvalsh(inner)[:, -1].max())
        case Joint(fitted=fitted):
            found = zip(inner, fitted.spread.covariance, strict=True)
            return min(_ratio(c, s) for c, s in found)


def _ratio(c: Floats, s: Floats) -> float:
    """The largest v with v C <= S, by the eigenvalues of S^-1/2 C S^-1/2."""
    most = float(np.abs(c).max(initial=0.0))
    if not most > 0.0:
        return math.inf
    values, vectors = np.linalg.eigh(s)
    some = values > _NOTHING * max(values[-1], 0.0)
    if not some.any():
        return 0.0
    sure = vectors[:, ~some]  # combinations without any noise
    if np.abs(sure.T @ c @ sure).max(initial=0.0) > 1e-8 * most:
        return 0.0
    even = vectors[:, some] / np.sqrt(values[some])
    top = float(np.linalg.eigvalsh(even.T @ c @ even)[-1])
    return 1.0 / top if top > 0.0 else math.inf
