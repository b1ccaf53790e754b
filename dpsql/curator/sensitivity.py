"""How far the answers of a workload move between neighbours, from its own integers.

Add-remove, unit bound r: the worst unit puts its r rows into one cell (norms are convex), so the
L2 sensitivity is r max_x ||W e_x||, in rows. Replace-one: max ||W (e_x - e_y)|| over pairs of
cells, where y may also be nothing, since the new row may lie outside the domain.

Cells that no query tells apart are merged first (atoms). Where their combinations are few they
are all visited, and the result is exact; else the columns fall into independent components whose
maxima add, and where even a component is too large, the largest weights stand for it: a bound
from above, marked as such. All sums are of Python's or 64-bit integers that cannot overflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.query.linear import (
    Block,
    TableOf,
    Weight,
    Workload,
    atoms,
    combinations,
    product,
    tables_of,
)
from dpsql.query.predicate import TRUE, And, Codes, Predicate, mentioned, truth
from dpsql.schema import Neighbours

_VISITED = 1 << 20  # combinations of atoms that are visited one by one
_PAIRED = 2_000  # different columns of W that are compared in pairs

Ints = NDArray[np.int64] | NDArray[np.object_]


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """`squared`: L2, squared; `absolute`: L1; `largest`: of a single answer. All in rows.

    `exact` is False where `squared` is a bound from above.
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
    """
    match neighbours:
        case Neighbours.ADD_REMOVE:
            found = _one_cell(workload)
            return Sensitivity(
                max(found.squared, 1) * max_rows**2,
                max(found.absolute, 1) * max_rows,
                max(found.largest, 1) * max_rows,
                found.exact,
            )
        case Neighbours.REPLACE_ONE:
            pair = _two_cells(workload)
            largest = max(pair.largest, 1)
            return Sensitivity(
                max(pair.squared, 1), max(pair.absolute, largest), largest, pair.exact
            )


@dataclass(frozen=True, slots=True)
class _Found:
    squared: int
    absolute: int
    largest: int
    exact: bool


def _conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    return predicate.parts if isinstance(predicate, And) else (predicate,)


def _wide(block: Block) -> bool:
    """Whether sums of squares of a block's weights could leave 64 bits."""
    return sum(w.largest**2 for w in block.weights) * len(block.groupings) >= 1 << 60


def _values(weight: Weight, codes: Codes, count: int, wide: bool) -> Ints:
    found = weight.values(codes, count)
    return found.astype(object) if wide else found


# -- add-remove --------------------------------------------------------------------------------


def _one_cell(workload: Workload) -> _Found:
    """The largest norms of a column of W."""
    predicates = [p for b in workload.blocks for p in _block_predicates(b)]
    representatives = atoms(workload.domain, [*tables_of(predicates), *_weight_tables(workload)])
    if combinations(representatives) <= _VISITED:
        codes, count = product(representatives)
        wide = any(_wide(block) for block in workload.blocks) or len(workload.blocks) > 1 << 10
        squared: Ints = np.zeros(count, object if wide else np.int64)
        absolute: Ints = np.zeros(count, object if wide else np.int64)
        for block in workload.blocks:
            holds = truth(block.where, codes, count) == TRUE
            for weight in block.weights:
                values = _values(weight, codes, count, wide) * holds
                squared += values * values * len(block.groupings)
                absolute += np.abs(values) * len(block.groupings)
        return _Found(int(squared.max()), int(absolute.max()), _largest(workload), True)
    parts = [_components(block, workload) for block in workload.blocks]
    exact = len(parts) == 1 and parts[0].exact
    return _Found(
        sum(p.squared for p in parts), sum(p.absolute for p in parts), _largest(workload), exact
    )


def _largest(workload: Workload) -> int:
    return max((w.largest for b in workload.blocks for w in b.weights), default=1)


def _block_predicates(block: Block) -> list[Predicate]:
    return [block.where, *(t.predicate for w in block.weights for t in w.terms)]


def _weight_tables(workload: Workload) -> list[TableOf]:
    return [
        (t.table.domain, t.table.values)
        for b in workload.blocks for w in b.weights for t in w.terms if t.table is not None
    ]  # fmt: skip


def _components(block: Block, workload: Workload) -> _Found:
    """One block: its conjuncts and weights by shared columns; the maxima of components add."""
    members: list[tuple[set[str], list[Predicate], list[Weight]]] = []
    entries: list[tuple[set[str], list[Predicate], list[Weight]]] = [
        (set(mentioned(c)), [c], []) for c in _conjuncts(block.where)
    ]
    entries += [(_mentioned(w), [], [w]) for w in block.weights]
    for names, tests, weights in entries:
        joined = [m for m in members if m[0] & names]
        for m in joined:
            members.remove(m)
        members.append(
            (
                names.union(*(m[0] for m in joined)),
                tests + [t for m in joined for t in m[1]],
                weights + [w for m in joined for w in m[2]],
            )
        )
    times = len(block.groupings)
    squared = absolute = 0
    exact = True
    for names, tests, weights in members:
        found = _component(sorted(names), tests, weights, workload)
        if found is None:
            squared += sum(w.largest**2 for w in weights)
            absolute += sum(w.largest for w in weights)
            exact = False
        else:
            squared += found[0]
            absolute += found[1]
    return _Found(squared * times, absolute * times, 1, exact)


def _mentioned(weight: Weight) -> set[str]:
    names: set[str] = set()
    for term in weight.terms:
        names |= mentioned(term.predicate)
        if term.table is not None:
            names |= set(term.table.domain.names)
    return names


def _component(
    names: Sequence[str],
    tests: Sequence[Predicate],
    weights: Sequence[Weight],
    workload: Workload,
) -> tuple[int, int] | None:
    """The largest sums over the cells that meet all tests, or None where there are too many."""
    predicates = [*tests, *(t.predicate for w in weights for t in w.terms)]
    tables: list[TableOf] = [
        (t.table.domain, t.table.values) for w in weights for t in w.terms if t.table is not None
    ]
    representatives = atoms(workload.domain.project(names), [*tables_of(predicates), *tables])
    if combinations(representatives) > _VISITED:
        return None
    codes, count = product(representatives)
    holds = np.ones(count, bool)
    for test in tests:
        holds &= truth(test, codes, count) == TRUE
    if not holds.any():
        return 0, 0
    wide = sum(w.largest**2 for w in weights) >= 1 << 60
    squared: Ints = np.zeros(count, object if wide else np.int64)
    absolute: Ints = np.zeros(count, object if wide else np.int64)
    for weight in weights:
        values = _values(weight, codes, count, wide) * holds
        squared += values * values
        absolute += np.abs(values)
    return int(squared.max()), int(absolute.max())


# -- replace-one -------------------------------------------------------------------------------


def _two_cells(workload: Workload) -> _Found:
    """The largest norms of a difference of two columns of W, or of one column."""
    one = _one_cell(workload)
    found = _pairs(workload)
    if found is None:
        signed = any(
            t.table is not None and int(t.table.values.min(initial=0)) < 0
            for b in workload.blocks for w in b.weights for t in w.terms
        )  # fmt: skip
        times = 4 if signed else 2  # without negative weights inner products are not negative
        return _Found(
            one.squared * times, one.absolute * 2, one.largest * (2 if signed else 1), False
        )
    squared, absolute, largest = found
    return _Found(
        max(squared, one.squared), max(absolute, one.absolute), max(largest, one.largest), True
    )


def _pairs(workload: Workload) -> tuple[int, int, int] | None:
    """The largest norms over all pairs of different columns, or None where there are too many."""
    predicates = [p for b in workload.blocks for p in _block_predicates(b)]
    keyed: list[TableOf] = [
        (domain, table)
        for b in workload.blocks for g in b.groupings for domain, table, _ in g.keys
    ]  # fmt: skip
    tables = [*tables_of(predicates), *_weight_tables(workload), *keyed]
    representatives = atoms(workload.domain, tables)
    if combinations(representatives) > _VISITED or any(_wide(b) for b in workload.blocks):
        return None
    codes, count = product(representatives)
    columns: list[NDArray[np.int64]] = []
    shape: list[tuple[int, int]] = []  # weights and groupings of each block
    for block in workload.blocks:
        holds = truth(block.where, codes, count) == TRUE
        columns += [weight.values(codes, count) * holds for weight in block.weights]
        columns += [np.where(holds, g.position(codes, count), -1) for g in block.groupings]
        shape.append((len(block.weights), len(block.groupings)))
    different = np.unique(np.stack(columns, axis=1), axis=0)
    n = len(different)
    if n > _PAIRED:
        return None
    squared = np.zeros((n, n), np.int64)
    absolute = np.zeros((n, n), np.int64)
    largest = 0
    at = 0
    for weights, groupings in shape:
        values = different[:, at : at + weights]
        norm2, norm1 = (values**2).sum(axis=1), np.abs(values).sum(axis=1)
        near2, near1 = np.zeros((n, n), np.int64), np.zeros((n, n), np.int64)
        top = 0
        for w in range(weights):
            moved = np.abs(values[:, None, w] - values[None, :, w])
            near2 += moved * moved
            near1 += moved
            top = max(top, int(moved.max(initial=0)))
        for g in range(groupings):
            group = different[:, at + weights + g]
            same = group[:, None] == group[None, :]
            squared += np.where(same, near2, norm2[:, None] + norm2[None, :])
            absolute += np.where(same, near1, norm1[:, None] + norm1[None, :])
            if same.any():
                largest = max(largest, top)
        at += weights + groupings
    return int(squared.max(initial=0)), int(absolute.max(initial=0)), largest
