"""What earlier releases say of a workload: how accurately, and the answers on demand."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Law
from dpsql.accounting.kept.stored import Stored
from dpsql.mechanisms.intervals.noises import Alike, Joint, Noise, no_worse
from dpsql.mechanisms.intervals.spread import Fitted, Spread
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
    law: Law | None = None

    def better(self, other: Found) -> bool:
        """Whether some query has less variance than there, all being determined."""
        if self.spreads is None or self.worst == math.inf:
            return False
        theirs: list[NDArray[np.float64]] = [np.array(other.worst)] * len(self.spreads)
        if other.spreads is not None:
            theirs = [spread.variances for spread in other.spreads]
        for spread, there in zip(self.spreads, theirs, strict=True):
            own = spread.variances
            if np.any((own > 0) & (own < there * (1.0 - 1e-6))):
                return True
        return False

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


@dataclass(frozen=True, slots=True)
class Enough:
    """Whether what earlier releases say will do, and whether it nearly does: what some of them
    say may then do.
    """

    will: Callable[[Found], bool]
    near: Callable[[Found], bool]

    def __call__(self, found: Found) -> bool:
        return self.will(found)


def better(
    one: Found | None,
    other: Found | None,
    workload: Workload | None = None,
    own: Found | None = None,
) -> Found | None:
    """That of the lesser largest variance; the first of those that are equal but for rounding,
    unless the other rests on more and says more of some query, as it will of others that follow.

    Not the other where rounding makes it err more than what is the workload's `own`.
    """
    if other is None or other is one:
        return one
    if one is not None and not other.worst < one.worst * (1.0 - 1e-9):
        more = set(one.used) < set(other.used) and other.worst <= one.worst * (1.0 + 1e-9)
        if not (more and other.better(one)):
            return one
    if workload is None or own is None or other.worst == math.inf or other.used == own.used:
        return other
    return other if no_worse(workload, other.noises(workload), own.noises(workload)) else one


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
