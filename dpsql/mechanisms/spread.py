"""What is known of answers that were fitted to measurements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Of one SELECT: covariances (groups, weights, weights), and which queries are determined.

    `least` is the smallest stddev of the noises that they are made of, in whole numbers drawn.
    """

    covariance: Floats
    known: NDArray[np.bool_]
    least: float

    @property
    def variances(self) -> Floats:
        """(groups, weights)"""
        found: Floats = np.einsum("gii->gi", self.covariance)
        return found

    def worst(self) -> float:
        """The largest variance of a query; infinite where one is not determined."""
        if not self.known.all():
            return float("inf")
        return float(self.variances.max(initial=0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """Of one SELECT: whole numbers that are shown, estimates, both (groups, weights), spread."""

    shown: NDArray[Any]
    centre: Floats
    spread: Spread
