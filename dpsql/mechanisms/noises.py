"""The noise of one SELECT's answers: second moments of their sums, and how far these reach.

`Alike`: independent noise of one law on every answer, whose sums have exact quantiles. `Joint`:
estimates from several measurements, with a covariance in each group; their sums are sums of many
Gaussian noises, bounded in every direction (`directions.normals`). Sums are given by their float
(or exact) coefficients of the answers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Event
from dpsql.mechanisms.directions import normals, reach
from dpsql.mechanisms.law import nominal, stddev
from dpsql.mechanisms.quantile import half_width, sum_half_width
from dpsql.mechanisms.spread import Fitted
from dpsql.query.linear import Workload

Floats: TypeAlias = NDArray[np.float64]
Slopes: TypeAlias = "Mapping[int, float | Floats]"


@dataclass(frozen=True, slots=True, eq=False)
class Alike:
    """Answers with independent noise of one law."""

    law: Event

    @property
    def sigma(self) -> float:
        return stddev(self.law)

    @property
    def worst(self) -> float:
        """The largest variance of an answer."""
        return nominal(self.law)

    def centre(self, noisy: NDArray[Any]) -> NDArray[Any]:
        """The estimates, which are the noisy answers themselves."""
        return noisy

    def moment(self, a: Slopes, b: Slopes) -> float | Floats:
        """The covariance of two sums, the same in every group unless the coefficients differ."""
        found: float | Floats = 0.0
        for weight in a:
            if weight in b:
                found = found + a[weight] * b[weight]
        return found * self.sigma**2

    def half(self, form: Mapping[int, Fraction], level: float) -> Fraction:
        """The half width of a sum, as exact as can be."""
        if len(form) == 1:
            (only,) = form.values()
            return abs(only) * half_width(self.law, level)
        return sum_half_width([(c, self.law) for c in form.values()], level)

    def reach(self, level: float, terms: int) -> float:
        return reach(self.law, level, max(terms, 1))


@dataclass(frozen=True, slots=True, eq=False)
class Joint:
    """Answers that were fitted to measurements."""

    fitted: Fitted

    @property
    def worst(self) -> float:
        """The largest variance of an answer."""
        return self.fitted.spread.worst()

    def centre(self, noisy: NDArray[Any]) -> Floats:
        """The estimates before they were rounded."""
        return self.fitted.centre

    def moment(self, a: Slopes, b: Slopes) -> Floats:
        covariance = self.fitted.spread.covariance
        found = np.zeros(len(covariance))
        for i, x in a.items():
            for j, y in b.items():
                found = found + x * y * covariance[:, i, j]
        return found

    def half(self, form: Mapping[int, Fraction], level: float) -> Floats:
        slopes = {weight: float(c) for weight, c in form.items()}
        size = np.sqrt(np.maximum(self.moment(slopes, slopes), 0.0))
        return size * self.reach(level, len(form)) * (1.0 + 1e-9)

    def reach(self, level: float, terms: int) -> float:
        return normals(self.fitted.spread.least, level)


Noise: TypeAlias = Alike | Joint


def size(found: float | Floats) -> Any:
    """The root of a second moment."""
    return np.sqrt(np.maximum(found, 0.0)) if isinstance(found, np.ndarray) else math.sqrt(found)


def error(workload: Workload, noises: Sequence[Noise]) -> float:
    """Root of the mean squared error of the linear queries, each in units of its largest weight.

    For counts that is in rows.
    """
    total, count = 0.0, 0
    for block, noise in zip(workload.blocks, noises, strict=True):
        for at, weight in enumerate(block.weights):
            scale = {at: 1.0 / max(weight.largest, 1)}
            each = np.broadcast_to(noise.moment(scale, scale), block.groups)
            total, count = total + float(each.sum()), count + block.groups
    return math.sqrt(total / count) if count else 0.0
