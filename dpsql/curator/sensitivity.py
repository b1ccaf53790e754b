"""How far the answers of a workload move between neighbours, from its own integers.

Add-remove, unit bound r: the worst unit puts its r rows into one cell (norms are convex), so the
L2 sensitivity is r max_x ||W e_x||, in rows. Replace-one: r max ||W (e_x - e_y)|| over pairs of
cells, where y may also be nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.curator.norms import one_cell
from dpsql.errors import UsageError
from dpsql.query.linear import MAX_WEIGHT, Workload
from dpsql.schema import Neighbours

_LARGEST = 1 << 127  # events hold integers below it


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """`squared`: L2, squared; `absolute`: L1; `largest`: of a single answer. All in rows.

    `exact` is False where they may be bounds from above.
    """

    squared: int
    absolute: int
    largest: int
    exact: bool

    def __post_init__(self) -> None:
        if not (self.squared >= 1 and self.absolute >= self.largest >= 1):
            raise ValueError("a sensitivity is at least one row")


def sensitivity(workload: Workload, neighbours: Neighbours, max_rows: int) -> Sensitivity:
    """The sensitivity of a workload under a neighbouring relation and a unit's largest rows.

    At least that of one count: a workload that is 0 on the whole domain is noised like others.
    Raises UsageError for a workload beyond the integers that are computed and noised exactly.
    """
    heaviest = max((w.largest for b in workload.blocks for w in b.weights), default=0)
    if heaviest > 2 * MAX_WEIGHT:
        raise UsageError(f"a weight of {heaviest:,} is above the largest, {2 * MAX_WEIGHT:,}")
    match neighbours:
        case Neighbours.ADD_REMOVE:
            found = one_cell(workload)
        case Neighbours.REPLACE_ONE:
            from dpsql.curator.pairs import two_cells

            found = two_cells(workload)
    absolute = max(found.absolute, 1)
    if max(found.squared, absolute) * max_rows**2 >= _LARGEST:
        raise UsageError(
            f"a unit of {max_rows:,} rows can move the answers by more than noise is drawn for: "
            "ask fewer or coarser aggregates at once"
        )
    return Sensitivity(
        max(found.squared, 1) * max_rows**2,
        absolute * max_rows,
        min(max(found.largest, 1), absolute) * max_rows,
        found.exact,
    )
