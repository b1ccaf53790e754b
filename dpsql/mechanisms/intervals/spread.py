"""What is known of answers that were fitted to measurements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.intervals.rounded import rounded
from dpsql.query.canon import Family, families
from dpsql.query.linear import Block, Workload

Floats: TypeAlias = NDArray[np.float64]

_KEPT = 64  # workloads whose covariances are remembered


@dataclass(frozen=True, slots=True, eq=False)
class Heavy:
    """What Laplace noise there is in the answers of one SELECT.

    The answers of a group of a `kind` (groups,) are sums of Laplace noises of these `scales`
    (noises,), but for their order, with `weights` (kinds, weights, noises), and of Gaussian noise;
    of kind -1 too many differ. No Laplace noise has more than `share` (groups,) of the variance of
    a sum of a group's answers.
    """

    scales: Floats
    weights: Floats
    kind: NDArray[np.int64]
    share: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Of one SELECT: covariances (groups, weights, weights), and which queries are determined.

    `least` is the smallest stddev of the Gaussian noises that they are made of, in whole numbers
    drawn, infinite for none; `heavy` has their Laplace noise.
    `whole` gives the mean squared errors (groups, weights) of what is shown, where that is not each
    estimate rounded by itself; `multiples` are whole numbers of what was asked, too, where that is
    on a larger scale.
    """

    covariance: Floats
    known: NDArray[np.bool_]
    least: float
    heavy: Heavy | None = None
    whole: Callable[[], Floats] | None = None
    multiples: bool = False

    @property
    def variances(self) -> Floats:
        """(groups, weights)"""
        found: Floats = np.einsum("gii->gi", self.covariance)
        return found

    @property
    def shown(self) -> Floats:
        """The mean squared errors of the whole numbers that are shown, (groups, weights)."""
        return rounded(self.variances) if self.whole is None else self.whole()

    def worst(self) -> float:
        """The largest variance of a query; infinite where one is not determined."""
        if not self.known.all():
            return float("inf")
        return float(self.variances.max(initial=0.0))


# of a lone query that is not determined
NOTHING = (Spread(np.zeros((1, 1, 1)), np.zeros((1, 1), bool), float("inf")),)


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """Of one SELECT: whole numbers that are shown, estimates, both (groups, weights), spread."""

    shown: NDArray[Any]
    centre: Floats
    spread: Spread


class Spreads:
    """What is known of each SELECT of the workloads that were asked about lately."""

    def __init__(self) -> None:
        self._known: dict[Workload, tuple[Spread, ...]] = {}

    def of(
        self, workload: Workload, spread: Callable[[Block, Sequence[Family | None]], Spread]
    ) -> tuple[Spread, ...]:
        """Remembered, or found by `spread` for each block and its families."""
        return self.remembered(workload, lambda: by_block(workload, spread))

    def remembered(
        self, workload: Workload, make: Callable[[], tuple[Spread, ...]]
    ) -> tuple[Spread, ...]:
        """Remembered, or made."""
        found = self._known.get(workload)
        if found is None:
            found = make()
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[workload] = found
        return found


def by_block(
    workload: Workload, spread: Callable[[Block, Sequence[Family | None]], Spread]
) -> tuple[Spread, ...]:
    """What `spread` says of each block and its families."""
    return tuple(map(spread, workload.blocks, families(workload)))
