"""What was measured of a table through a matrix along each axis, as a ledger keeps it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.query.axis import Axis, axis_of
from dpsql.query.linear import starts
from dpsql.query.strategy import Product

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Gridded:
    """Noisy `values` (values,) of a table, the last axis running fastest, as `Product` has them.

    `classes` are those of the codes of each column, in the order of the `axes`.
    """

    classes: Mapping[str, Ints]
    axes: tuple[Axis, ...]
    factor: int
    values: Ints

    def __post_init__(self) -> None:
        sizes = tuple(int(of.max()) + 1 for of in self.classes.values())
        if sizes != self.shape or not self.factor >= 1:
            raise ValueError("a table has a matrix for each column, and a whole factor")
        if self.values.shape != (math.prod(self.shape),):
            raise ValueError("a value is kept for each cell of the table")

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis.size for axis in self.axes)

    @classmethod
    def of(cls, part: Product, values: NDArray[Any]) -> Gridded:
        """The values (values, 1) of a part. Raises ValueError for values beyond 64 bits."""
        if values.dtype == object and max(map(abs, values.reshape(-1).tolist()), default=0) >> 62:
            raise ValueError("beyond 64 bits")
        (block,) = part.workload.blocks
        classes = {domain.names[0]: merged for domain, merged, _ in block.groupings[0].keys}
        return cls(classes, part.axes, part.factor, values.astype(np.int64).reshape(-1))

    def to_list(self) -> list[Any]:
        columns = []
        for name, merged in self.classes.items():
            begins = starts(merged)
            columns.append([name, begins, merged[begins], len(merged)])
        return [columns, [axis.to_list() for axis in self.axes], self.factor, self.values]

    @classmethod
    def from_list(cls, fields: Sequence[Any]) -> Gridded:
        columns, axes, factor, values = fields
        classes: dict[str, Ints] = {}
        for name, begins, merged, size in columns:
            classes[name] = np.repeat(merged, np.diff(np.append(begins, size)))
        return cls(classes, tuple(map(axis_of, axes)), factor, values)
