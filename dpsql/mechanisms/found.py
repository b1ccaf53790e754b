"""What earlier releases say of a workload: how accurately, and the answers on demand."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Event
from dpsql.accounting.stored import Stored
from dpsql.mechanisms.noises import Alike, Joint, Noise
from dpsql.mechanisms.spread import Fitted, Spread
from dpsql.query.canon import families, parts
from dpsql.query.linear import Workload


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """Noisy answers of each SELECT, what is known of their noise, and from how many releases."""

    answers: tuple[NDArray[Any], ...]
    noises: tuple[Noise, ...]
    releases: int


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What earlier releases say: the largest variance of a query, and the answers on demand."""

    worst: float
    used: tuple[int, ...]
    answered: Callable[[], Answered]
    spreads: tuple[Spread, ...] | None = None
    law: Event | None = None

    def better(self, variance: float) -> bool:
        """Whether some query has less than this variance, all being determined."""
        if self.spreads is None or self.worst == math.inf:
            return False
        each = [np.einsum("gii->gi", spread.covariance) for spread in self.spreads]
        least = [float(block[block > 0].min(initial=math.inf)) for block in each]
        return min(least, default=math.inf) < variance * (1.0 - 1e-9)

    def noises(self, workload: Workload) -> tuple[Noise, ...]:
        """What is known of the noise of each SELECT, without any value."""
        if self.spreads is None:
            assert self.law is not None
            return (Alike(self.law),) * len(workload.blocks)
        shapes = [(block.groups, len(block.weights)) for block in workload.blocks]
        return tuple(
            Joint(Fitted(np.zeros(shape, np.int64), np.zeros(shape), spread))
            for shape, spread in zip(shapes, self.spreads, strict=True)
        )


@dataclass(frozen=True, slots=True, eq=False)
class Repeated:
    """The answers of a release that measured the same queries; `places` tells where."""

    workload: Workload
    stored: Stored
    places: list[list[int]]

    def __call__(self) -> Answered:
        answers = []
        for block, listed, asked in zip(
            self.workload.blocks, self.places, families(self.workload), strict=True
        ):
            found = np.zeros((block.groups, len(block.weights)), np.int64)
            for (start, _, column, _), at, family in zip(parts(block), listed, asked, strict=True):
                assert family is not None
                found[start + family.origin, column] = self.stored.values[at]
            answers.append(found)
        noise = Alike(self.stored.law)
        return Answered(tuple(answers), (noise,) * len(answers), 1)
