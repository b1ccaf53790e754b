"""Which groups a statement answers: those that the declared domain allows, present or not.

A group is listed when some cell of the declared domain maps to it and satisfies those conjuncts
of WHERE whose columns are all among its keys' columns. Keys that share no columns, directly or
through such a conjunct, are independent, so their groups multiply.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.query.expr import Expr, Span
from dpsql.query.grid import MAX_CELLS, Grid, Keys
from dpsql.query.linear import Grouping, TableOf, atoms, combinations, product, tables_of
from dpsql.query.predicate import TRUE, Predicate, mentioned, truth
from dpsql.query.tree import Refuse

MAX_GROUPS = 1_000_000  # groups of a statement


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The group keys of one SELECT, and its groupings, one a grouping set.

    `codes` has a row a group, all sets after each other, and a column a key: the index of the
    key's value, or -1 where the key is not in the set.
    """

    keys: tuple[Keys, ...]
    sets: tuple[tuple[int, ...], ...]
    groupings: tuple[Grouping, ...]
    codes: NDArray[np.int64]

    @property
    def size(self) -> int:
        return len(self.codes)

    def values(self, key: int) -> list[Any]:
        """The value of one key in every group; None where it is NULL or not in the set."""
        values = [*self.keys[key].values, None]
        return [values[code] for code in self.codes[:, key]]

    def grouping(self, keys: Sequence[int]) -> NDArray[np.int64]:
        """What GROUPING(keys) is in every group: a bit for each key that is not in the set."""
        found = np.zeros(self.size, np.int64)
        for key in keys:
            found = found * 2 + (self.codes[:, key] < 0)
        return found


# one group, of all rows
_EVERYBODY = Groups((), ((),), (Grouping((), np.zeros(1, np.int64)),), np.zeros((1, 0), np.int64))


def group(
    exprs: Sequence[Expr],
    sets: tuple[tuple[int, ...], ...],
    conjuncts: Sequence[Predicate],
    grid: Grid,
    refuse: Refuse,
) -> Groups:
    """The groups of each grouping set. Raises Refused above MAX_GROUPS, before any work."""
    if not exprs and len(sets) == 1:
        return _EVERYBODY
    keys = tuple(grid.keys(expr, refuse) for expr in exprs)
    span: Span | None = getattr(exprs[0], "span", None) if exprs else None
    groupings, codes, total = [], [], 0
    for chosen in sets:
        grouping, found = _listed([keys[k] for k in chosen], conjuncts, grid, refuse, span, total)
        total += grouping.size
        groupings.append(grouping)
        if chosen != tuple(range(len(keys))):
            wide = np.full((grouping.size, len(keys)), -1, np.int64)
            wide[:, list(chosen)] = found
            found = wide
        codes.append(found)
    return Groups(keys, sets, tuple(groupings), np.concatenate(codes))


def _listed(
    keys: Sequence[Keys],
    conjuncts: Sequence[Predicate],
    grid: Grid,
    refuse: Refuse,
    span: Span | None,
    before: int,
) -> tuple[Grouping, NDArray[np.int64]]:
    """One grouping set: its grouping, and the code of each key in each group."""
    if not keys:
        return Grouping((), np.zeros(1, np.int64)), np.zeros((1, 0), np.int64)
    strides = [1] * len(keys)
    for k in range(len(keys) - 1, 0, -1):
        strides[k - 1] = strides[k] * len(keys[k].values)
    names = {name for key in keys for name in key.domain.names}
    filters = [c for c in conjuncts if mentioned(c) <= names]
    parts = []
    for members, tests in _components(keys, filters):
        own = sorted({n for m in members for n in keys[m].domain.names})
        parts.append(_component([keys[m] for m in members], tests, own, grid, refuse, span))
    size = math.prod(len(part) for part in parts)
    if strides[0] * len(keys[0].values) >= 1 << 62:
        raise refuse(
            "the values of the group keys have more combinations than can be numbered",
            span,
            "fewer keys, or coarser ones",
        )
    if before + size > MAX_GROUPS:
        raise refuse(
            f"{before + size:,} groups; at most {MAX_GROUPS:,} are answered in one statement",
            span,
            "fewer or coarser keys, e.g. age // 10, or a condition on the keys in WHERE",
        )
    found = np.zeros((size, len(keys)), np.int64)
    inner = size
    for (members, _), part in zip(_components(keys, filters), parts, strict=True):
        inner //= max(len(part), 1)
        if size:
            rows = np.tile(np.repeat(np.arange(len(part)), inner), size // (inner * len(part)))
            found[:, members] = part[rows]
    ids = found @ np.array(strides, np.int64)
    order = np.argsort(ids, kind="stable")
    tables = tuple(
        (key.domain, key.table, stride) for key, stride in zip(keys, strides, strict=True)
    )
    return Grouping(tables, ids[order]), found[order]


def _components(
    keys: Sequence[Keys], filters: Sequence[Predicate]
) -> list[tuple[list[int], list[Predicate]]]:
    """Keys and filters that share columns, together; the rest apart."""
    found: list[tuple[list[int], list[Predicate], set[str]]] = []
    entries: list[tuple[list[int], list[Predicate], set[str]]] = [
        ([k], [], set(key.domain.names)) for k, key in enumerate(keys)
    ]
    entries += [([], [test], set(mentioned(test))) for test in filters]
    for members, tests, names in entries:
        joined = [part for part in found if part[2] & names]
        if not names and not members and found:
            joined = found[:1]  # a condition without columns: any component will do
        for part in joined:
            found.remove(part)
        found.append(
            (
                sorted(m for part in joined for m in part[0]) + members,
                [t for part in joined for t in part[1]] + tests,
                names.union(*(part[2] for part in joined)),
            )
        )
    return sorted(((m, t) for m, t, _ in found), key=lambda entry: entry[0])


def _component(
    keys: Sequence[Keys],
    tests: Sequence[Predicate],
    names: Sequence[str],
    grid: Grid,
    refuse: Refuse,
    span: Span | None,
) -> NDArray[np.int64]:
    """The combinations of key codes that some cell of the declared domain has, ascending."""
    if len(keys) == 1 and not tests:
        return np.arange(len(keys[0].values), dtype=np.int64)[:, None]
    domain = grid.domain(names)
    tables: list[TableOf] = [*tables_of(tests), *((key.domain, key.table) for key in keys)]
    representatives = atoms(domain, tables)
    if (cells := combinations(representatives)) > MAX_CELLS:
        raise refuse(
            f"the group keys span {cells:,} combinations of {', '.join(names)}; "
            f"at most {MAX_CELLS:,} are evaluated",
            span,
            "keys of fewer columns",
        )
    codes, count = product(representatives)
    kept = np.ones(count, bool)
    for test in tests:
        kept &= truth(test, codes, count) == TRUE
    found = np.stack([key.table[key.domain.index(codes, count)][kept] for key in keys], axis=1)
    return np.unique(found, axis=0)
