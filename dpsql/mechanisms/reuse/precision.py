"""How precise a release is."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dpsql.accounting.events import Gaussian, Laplace, Law
from dpsql.accounting.kept.stored import Stored
from dpsql.accounting.kept.tabled import Tabled
from dpsql.mechanisms.intervals.blends import LEAST
from dpsql.mechanisms.intervals.law import stddev


def stddev_of(stored: Stored) -> float:
    """That of an answer, about."""
    found = stddev(stored.law)
    if stored.tabled is not None:
        return min(_of_tables(kept, found) for kept in stored.kinds)
    if stored.grids:
        from dpsql.mechanisms.strategies.grids import told_by

        return found * told_by(stored.grids).least
    if stored.picked is not None:
        return found / max(family.factor for family in stored.families)
    if not stored.mixes:
        return found
    from dpsql.mechanisms.strategies.mixed import covariance

    return found * min(math.sqrt(float(np.mean(np.diag(covariance(m))))) for m in stored.mixes)


def _of_tables(kept: Tabled, stddev: float) -> float:
    """That of a group of the most precise table, about."""
    from dpsql.mechanisms.strategies.tables import Precisions

    told = Precisions(kept.sizes, kept.sets, kept.factors, stddev**2)
    inverse = np.linalg.inv(kept.matrix.astype(np.float64))
    least = float(np.mean((inverse**2).sum(axis=1)))
    return math.sqrt(min(map(told.variance, kept.sets)) * least)


def variance_of(law: Law) -> Fraction:
    """The variance by which noise is combined: of Gaussian noise its parameter."""
    match law:
        case Gaussian(variance=variance):
            return variance
        case Laplace(scale=scale):
            return Fraction(stddev(Laplace(1, 1, max(scale, Fraction(LEAST)))) ** 2)
