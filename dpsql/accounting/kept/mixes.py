"""What was measured through a strategy, as a ledger keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.query.canon import placed
from dpsql.query.linear import Workload

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Mix:
    """Noisy `values` (runs, rows) of an integer `matrix` (rows, width) applied to answers in runs.

    `first` is the number of the first family whose answers they are, and `places` tells of each
    group of that one and of those after it where in the runs, one after another, its answer is.
    With `cells` (answers, width) the matrix was applied, in one run, to the counts of cells whose
    columns of the answers these are.
    """

    first: int
    matrix: Ints
    values: Ints
    places: tuple[Ints, ...]
    cells: Ints | None = None

    def __post_init__(self) -> None:
        rows, width = self.matrix.shape
        if rows != width:
            raise ValueError("as many values are kept as answers were mixed")
        if self.values.ndim != 2 or self.values.shape[1] != rows:
            raise ValueError("a value is kept for each row of the matrix")
        if self.cells is not None and (len(self.values) != 1 or self.cells.shape[1:] != (width,)):
            raise ValueError("a strategy on cells has a run, and a column for each of them")
        listed = np.sort(np.concatenate(self.places))
        if not np.array_equal(listed, np.arange(len(self.values) * self.answers)):
            raise ValueError("every answer in the runs is that of one group")

    @property
    def answers(self) -> int:
        """The number of answers in a run."""
        return len(self.matrix) if self.cells is None else len(self.cells)

    @classmethod
    def of(
        cls,
        workload: Workload,
        first: int,
        matrix: Ints,
        values: NDArray[Any],
        cells: Ints | None = None,
    ) -> Mix:
        """The mix of the answers of a workload. Raises ValueError for values beyond 64 bits."""
        found = []
        for family, place in placed(workload):
            if family is None:
                raise ValueError("too many cells")
            found.append(place)
        if values.dtype == object and max(map(abs, values.reshape(-1).tolist()), default=0) >> 62:
            raise ValueError("beyond 64 bits")
        return cls(first, matrix, values.astype(np.int64), tuple(found), cells)

    def to_list(self) -> list[Any]:
        cells = [] if self.cells is None else [self.cells]
        return [self.first, self.matrix, self.values, list(self.places), *cells]

    @classmethod
    def from_list(cls, fields: Sequence[Any]) -> Mix:
        first, matrix, values, places, *cells = fields
        return cls(first, matrix, values, tuple(places), *cells)
