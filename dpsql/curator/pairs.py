"""The farthest two columns of W: how far answers move when one row is replaced.

The new row may lie outside the domain, so nothing is as good as a column. Two rows in different
groups move their groups by their own weights, two rows in one group move it by the difference.

Columns are taken by falling norm and compared with all that are left; this ends when even twice
the norm of the next could not be farther. Three bounds from above are known, the least is taken:
by the columns with their groups, exact when it ends; by the columns without, as if any two cells
could be in different groups; and by norms alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.curator.columns import Family, Ints, Moved
from dpsql.curator.norms import family, one_cell
from dpsql.query.linear import TableOf, Workload, atoms, combinations, product

_HELD = 1 << 22  # weights and groups of all columns that are compared
_COMPARED = 1 << 22  # weights and groups that are looked at before a bound must do
_SAFE = 1 << 62

Sizes: TypeAlias = "NDArray[np.int64] | NDArray[np.object_]"
Range: TypeAlias = tuple[int, int]  # what is surely reached, and what is not exceeded


def two_cells(workload: Workload) -> Moved:
    """The largest norms of a difference of two columns of W, or of one column."""
    families = [family(block) for block in workload.blocks]
    signed = any(f.signed for f in families)
    one = one_cell(workload)
    low = [one.squared, one.absolute, one.largest] if one.exact else [0, 0, 0]
    high = _by_norms(workload, families, one, signed)
    for told in (True, False):
        columns = _columns(workload, families, told)
        if low == high or columns is None:
            continue
        for i, measure in enumerate(_measures(families, signed)):
            reached, bound = _farthest(columns, measure)
            high[i] = min(high[i], bound)
            low[i] = max(low[i], reached) if told else low[i]
    return Moved(high[0], high[1], high[2], low == high)


def _by_norms(
    workload: Workload, families: Sequence[Family], one: Moved, signed: bool
) -> list[int]:
    """Bounds that need no pairs: twice the largest column, or all largest weights together."""
    apart = 4 if signed else 2  # without negative weights inner products are not negative
    near = 4 if signed else 1
    squared = absolute = largest = 0
    for block, f in zip(workload.blocks, families, strict=True):
        keyed = sum(bool(grouping.keys) for grouping in block.groupings)
        sizes = [weight.largest for weight in f.weights]
        squared += f.squares * (apart * keyed + near * (f.times - keyed))
        absolute += sum(sizes) * (2 * keyed + (2 if signed else 1) * (f.times - keyed))
        largest = max(largest, *sizes, 0)
    return [
        min(squared, apart * one.squared),
        min(absolute, 2 * one.absolute),
        (2 if signed else 1) * min(largest, one.largest),
    ]


# -- columns in pairs --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Part:
    """A block's weights (cells, weights), and the groups of its cells (cells, groupings).

    `keyed` groupings have keys, `keyless` have one group; `groups` has the keyed when `told`.
    """

    values: Ints
    groups: Ints
    keyed: int
    keyless: int
    told: bool


@dataclass(frozen=True, slots=True)
class _Measure:
    """A norm of a column: sizes to a power, summed or the largest of them.

    Two columns are at most `reach` x the larger of their norms apart.
    """

    power: int
    join: np.ufunc
    reach: int
    exact: Any  # int64, or object where that is too small

    def sizes(self, values: Ints) -> Sizes:
        """The norm of each line of weights."""
        found: Sizes = self.join.reduce(
            np.abs(values).astype(self.exact, copy=False) ** self.power, axis=1, initial=0
        )
        return found

    def add(self, one: Sizes, other: Any) -> Sizes:
        found: Sizes = self.join(one, other)
        return found

    def times(self, sizes: Sizes, groupings: int) -> Sizes:
        """What equal groupings come to."""
        return sizes * (groupings if self.join is np.add else min(groupings, 1))


def _measures(families: Sequence[Family], signed: bool) -> tuple[_Measure, ...]:
    """Sum of squares, sum of sizes, largest size."""
    bound = 4 * sum(f.squares * f.times for f in families)
    exact: Any = np.int64 if bound < _SAFE else object
    return (
        _Measure(2, np.add, 4 if signed else 2, exact),
        _Measure(1, np.add, 2, np.int64),
        _Measure(1, np.maximum, 2 if signed else 1, np.int64),
    )


def _columns(workload: Workload, families: Sequence[Family], told: bool) -> list[_Part] | None:
    """The columns of W on all atoms, with the groups that they are in when `told`.

    None where they are too many to hold.
    """
    tables: list[TableOf] = [table for f in families for table in f.tables]
    if told:
        groupings = [g for block in workload.blocks for g in block.groupings]
        tables += [(domain, table) for g in groupings for domain, table, _ in g.keys]
    representatives = atoms(workload.domain, tables)
    width = sum(len(f.weights) + f.times for f in families)
    if combinations(representatives) * width > _HELD:
        return None
    codes, count = product(representatives)
    found = []
    for block, f in zip(workload.blocks, families, strict=True):
        keyed = [g for g in block.groupings if g.keys]
        groups = np.zeros((count, len(keyed)), np.int64)
        for at, grouping in enumerate(keyed):
            if told:
                groups[:, at] = grouping.position(codes, count)
        values = np.ascontiguousarray(f.values(codes, count).T)
        found.append(_Part(values, groups, len(keyed), f.times - len(keyed), told))
    return found


def _farthest(parts: Sequence[_Part], measure: _Measure) -> Range:
    """How far two columns, or one and nothing, are apart at most."""
    own = [measure.sizes(part.values) for part in parts]
    norms = own[0] * 0
    for part, size in zip(parts, own, strict=True):
        norms = measure.add(norms, measure.times(size, part.keyed + part.keyless))
    left = np.argsort(-norms, kind="stable")
    best = int(norms[left[0]])
    width = sum(part.values.shape[1] + part.groups.shape[1] for part in parts)
    slow = 64 if measure.exact is object else 1
    budget = _COMPARED
    while len(left):
        bound = measure.reach * int(norms[left[0]])
        if bound <= best:
            break
        budget -= len(left) * width * slow
        if budget < 0:
            return best, bound
        moved, alike = _moved(parts, own, left, measure)
        best = max(best, int(moved.max()))
        left = left[~alike]
    return best, best


def _moved(
    parts: Sequence[_Part], own: Sequence[Sizes], left: NDArray[np.int64], measure: _Measure
) -> tuple[Sizes, NDArray[np.bool_]]:
    """How far all of the columns `left` are from the first of them, and which are the same."""
    first = left[0]
    moved = own[0][left] * 0
    alike = np.ones(len(left), bool)
    for part, size in zip(parts, own, strict=True):
        near = measure.sizes(part.values[left] - part.values[first])
        apart = measure.add(size[left], size[first])
        alike &= near == 0
        moved = measure.add(moved, measure.times(near, part.keyless))
        if not part.told:
            moved = measure.add(moved, measure.times(np.maximum(near, apart), part.keyed))
            continue
        for groups in part.groups.T:
            same = groups[left] == groups[first]
            moved = measure.add(moved, np.where(same, near, apart))
            alike &= same | (apart == 0)
    return moved, alike
