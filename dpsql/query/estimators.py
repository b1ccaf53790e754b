"""How each aggregate is made of measured answers; a weight is named by its place in its block."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Count:
    """A number of rows: answer `weight` as it is."""

    weight: int


@dataclass(frozen=True, slots=True)
class Sum:
    """A sum: `unit` times the answer `weight`; `type` is DuckDB's."""

    weight: int
    unit: Fraction
    type: str

    @property
    def exact(self) -> bool:
        """Whether it is a whole number of units."""
        return self.type == "HUGEINT" or self.type.startswith("DECIMAL")


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean in [lo, hi]: lo + (hi - lo) a / (a + b) of the answers `above` and `below`."""

    above: int
    below: int
    lo: Fraction
    hi: Fraction


@dataclass(frozen=True, slots=True)
class Spread:
    """A variance or deviation over [lo, hi], of the answers to the three parts of `_spread`.

    With N, S, Q the rows, the sum and the sum of squares of t = (value - lo)/(hi - lo):
    low = 4 k^2 (N - 2S + Q), middle = 15 k^2 (S - Q), high = 4 k^2 Q, where k = `steps`.
    """

    low: int
    middle: int
    high: int
    lo: Fraction
    hi: Fraction
    steps: int
    kind: str  # var_samp, var_pop, stddev_samp or stddev_pop


Estimator: TypeAlias = Count | Sum | Mean | Spread
