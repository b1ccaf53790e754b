"""What a measurement would cost: computed from the workload's own integers; public and free."""

from __future__ import annotations

import functools
import weakref
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from dpsql.accounting.events import Gaussian, Laplace, Law
from dpsql.curator.sensitivity import Sensitivity, sensitivity
from dpsql.query.linear import Workload
from dpsql.query.strategy import Strategy
from dpsql.schema import Dataset


@dataclass(frozen=True, slots=True)
class GaussianNoise:
    """Independent discrete Gaussian noise of this variance on each answer."""

    variance: Fraction


@dataclass(frozen=True, slots=True)
class LaplaceNoise:
    """Independent discrete Laplace noise of this scale on each answer."""

    scale: Fraction


Noise: TypeAlias = GaussianNoise | LaplaceNoise

_KNOWN: weakref.WeakKeyDictionary[Workload, tuple[object, Sensitivity]] = (
    weakref.WeakKeyDictionary()
)


def moved(workload: Workload, dataset: Dataset) -> Sensitivity:
    """How far the workload's answers move between neighbours; computed once a workload."""
    relation = (dataset.neighbours, dataset.unit.max_rows)
    found = _KNOWN.get(workload)
    if found is None or found[0] != relation:
        found = relation, sensitivity(workload, *relation)
        _KNOWN[workload] = found
    return found[1]


def quote(asked: Workload | Strategy, dataset: Dataset, noise: Noise) -> Law:
    """The event that measuring a workload or a strategy with this noise is.

    Raises ValueError for a strategy with Laplace noise.
    """
    if isinstance(asked, Workload):
        return _event(moved(asked, dataset), noise)
    if not isinstance(noise, GaussianNoise):
        raise ValueError("strategies are measured with Gaussian noise")
    from dpsql.curator.mixed import reach

    return Gaussian(reach(asked, dataset).squared, noise.variance)


@functools.lru_cache(256)
def _event(found: Sensitivity, noise: Noise) -> Law:
    match noise:
        case GaussianNoise(variance=variance):
            return Gaussian(found.squared, variance)
        case LaplaceNoise(scale=scale):
            return Laplace(found.absolute, found.largest, scale)
