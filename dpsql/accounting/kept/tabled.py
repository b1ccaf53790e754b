"""What was measured in residual tables, as a ledger keeps it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.query.contrasts import Contrast
from dpsql.query.strategy import Residuals

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Tabled:
    """Noisy `values` (values, rows) of residual tables, one after another, as `Residuals` has them.

    `sizes` are the groups of each key, `sets` the keys of each table, `factors` what its values
    were multiplied by, `matrix` (rows, weights) what mixed the weights of a group.
    """

    sizes: tuple[int, ...]
    sets: tuple[tuple[int, ...], ...]
    factors: tuple[int, ...]
    matrix: Ints
    values: Ints

    def __post_init__(self) -> None:
        rows, width = self.matrix.shape
        if rows != width:
            raise ValueError("as many values are kept as weights were mixed")
        if not (len(self.factors) == len(self.sets) and min(self.factors) >= 1):
            raise ValueError("a table has a factor")
        if any(sorted(set(keys)) != list(keys) for keys in self.sets):
            raise ValueError("the keys of a table ascend")
        if self.values.shape != (sum(map(math.prod, self.measured)), rows):
            raise ValueError("a value is kept for each row of the residual tables")

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of each table the number of groups of its keys."""
        return tuple(tuple(self.sizes[key] for key in keys) for keys in self.sets)

    @property
    def measured(self) -> tuple[tuple[int, ...], ...]:
        """Of each residual table the number of values along its keys."""
        return tuple(tuple(Contrast(n).rows for n in shape) for shape in self.shapes)

    @classmethod
    def of(cls, part: Residuals, values: NDArray[Any]) -> Tabled:
        """The values of a part. Raises ValueError for values beyond 64 bits."""
        if values.dtype == object and max(map(abs, values.reshape(-1).tolist()), default=0) >> 62:
            raise ValueError("beyond 64 bits")
        return cls(part.sizes, part.sets, part.factors, part.matrix, values.astype(np.int64))

    def to_list(self) -> list[Any]:
        sets = [list(keys) for keys in self.sets]
        return [list(self.sizes), sets, list(self.factors), self.matrix, self.values]

    @classmethod
    def from_list(cls, fields: Sequence[Any]) -> Tabled:
        sizes, sets, factors, matrix, values = fields
        return cls(tuple(sizes), tuple(map(tuple, sets)), tuple(factors), matrix, values)
