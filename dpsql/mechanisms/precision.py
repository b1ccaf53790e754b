"""How precise a release is."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dpsql.accounting.events import Event, Gaussian, Laplace
from dpsql.accounting.stored import Stored
from dpsql.mechanisms.law import stddev


def stddev_of(stored: Stored) -> float:
    """That of an answer, about."""
    found = stddev(stored.law)
    if stored.tabled is not None:
        from dpsql.mechanisms.tables import Precisions

        kept = stored.tabled
        told = Precisions(kept.sizes, kept.sets, kept.factors, found**2)
        inverse = np.linalg.inv(kept.matrix.astype(np.float64))
        least = float(np.mean((inverse**2).sum(axis=1)))
        return math.sqrt(min(map(told.variance, kept.sets)) * least)
    if not stored.mixes:
        return found
    from dpsql.mechanisms.mixed import covariance

    return found * min(math.sqrt(float(np.mean(np.diag(covariance(m))))) for m in stored.mixes)


def variance_of(law: Event) -> Fraction:
    match law:
        case Gaussian(variance=variance):
            return variance
        case Laplace():
            raise AssertionError("Laplace releases are not fitted")
