"""What was measured through a strategy, as a ledger keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.query.canon import families, parts
from dpsql.query.strategy import Mixed

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Mix:
    """Noisy `values` (runs, rows) of an integer `matrix` (rows, width) applied to answers in runs.

    `first` is the number of the first family whose answers they are, and `places` tells of each
    group of that one and of those after it where in the runs, one after another, its answer is.
    """

    first: int
    matrix: Ints
    values: Ints
    places: tuple[Ints, ...]

    def __post_init__(self) -> None:
        rows, width = self.matrix.shape
        if rows != width:
            raise ValueError("as many values are kept as answers were mixed")
        if self.values.ndim != 2 or self.values.shape[1] != rows:
            raise ValueError("a value is kept for each row of the matrix")
        listed = np.sort(np.concatenate(self.places))
        if not np.array_equal(listed, np.arange(len(self.values) * width)):
            raise ValueError("every answer in the runs is that of one group")

    @classmethod
    def of(cls, part: Mixed, first: int, values: NDArray[Any]) -> Mix:
        """The mix of a part of a strategy. Raises ValueError for values beyond 64 bits."""
        found, start = [], 0
        for block, listed in zip(part.workload.blocks, families(part.workload), strict=True):
            width = len(block.weights)
            for (row, _, column, _), family in zip(parts(block), listed, strict=True):
                if family is None:
                    raise ValueError("too many cells")
                found.append(start + (row + family.origin) * width + column)
            start += block.groups * width
        if values.dtype == object and max(map(abs, values.reshape(-1).tolist()), default=0) >> 62:
            raise ValueError("beyond 64 bits")
        return cls(first, part.matrix, values.astype(np.int64), tuple(found))

    def to_list(self) -> list[Any]:
        return [self.first, self.matrix, self.values, list(self.places)]

    @classmethod
    def from_list(cls, fields: Sequence[Any]) -> Mix:
        first, matrix, values, places = fields
        return cls(first, matrix, values, tuple(places))
