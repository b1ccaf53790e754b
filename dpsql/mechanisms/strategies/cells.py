"""The cells that many queries over a few columns tell apart, and those queries as rows over them.

Where the queries are more than the cells, a strategy on the cells is smaller than one on the
answers, and as good: A h is measured and W A^-1 answers, for any invertible A.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.reuse.design import Design
from dpsql.mechanisms.reuse.design import size as size_of
from dpsql.query.canon import Family, placed
from dpsql.query.linear import Workload, counted

Ints = NDArray[np.int64]

ANSWERS = 1 << 12  # whose covariances are held
CELLS = 1 << 11  # of which a strategy is found in seconds
COMBINATIONS = 1 << 12  # of classes, each of which is a column of what is measured


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """`rows` is W (queries, cells), in the order of blocks, groups and weights; no two cells have
    the same column, nor one of zeros, and they are in the order of their columns.

    `workload` counts every combination of the columns' classes, and `of` tells which cell each is
    in, -1 for none.
    """

    rows: Ints
    workload: Workload
    of: Ints

    @property
    def count(self) -> int:
        return int(self.rows.shape[1])

    @property
    def full(self) -> bool:
        """Whether the queries are no fewer than the cells, and tell the count of each."""
        queries, cells = self.rows.shape
        return queries >= cells and bool(np.linalg.matrix_rank(self.rows * 1.0) == cells)

    def measured(self, matrix: Ints) -> Ints:
        """A matrix on the cells as one on the combinations."""
        return np.concatenate([matrix, np.zeros((len(matrix), 1), np.int64)], axis=1)[:, self.of]


def cells_of(workload: Workload) -> Cells | None:
    """The cells of a workload; None where they, or its queries, are too many."""
    if workload.size > ANSWERS:
        return None
    listed: list[Family] = []
    places: list[Ints] = []
    for family, place in placed(workload):
        if family is None:
            return None
        listed.append(family)
        places.append(place)
    found = over_atoms(listed, places, workload.size)
    if found is None:
        return None
    design, rows, order = found
    number = np.full(design.atoms + 1, -1, np.int64)  # the last one stands for no cell
    number[order] = np.arange(len(order))
    return Cells(rows[:, order], counted(workload.domain, design.classes), number[design.label])


def over_atoms(
    listed: Sequence[Family], places: Sequence[Ints], size: int
) -> tuple[Design, Ints, Ints] | None:
    """The atoms of families, W (answers, atoms) with the groups of each at their places, and the
    atoms in the order of their columns; None where they are too many.
    """
    design = Design.of(listed)
    if design is None or not 0 < design.atoms <= CELLS or size_of(design.classes) > COMBINATIONS:
        return None
    rows = np.zeros((size, design.atoms), np.int64)
    for family, place, groups, weights in zip(
        listed, places, design.groups, design.weights, strict=True
    ):
        inside = np.flatnonzero(groups >= 0)
        rows[place[groups[inside]], inside] = weights[inside] * family.factor
    return design, rows, np.lexsort(rows[::-1])
