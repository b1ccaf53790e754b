"""Families of linear queries, in a form that does not depend on how they were written.

A family is one grouping of a block with one of its weights: the queries of all its groups, or a
lone query. What it says is a function of a cell, a weight, and the group in which the cell is. The
canonical form has the columns on which these really depend, the classes of their codes that the
family tells apart, and both functions on the classes, the weight free of a common factor and the
groups numbered as they are met. Equal keys are the same questions, whatever words, blocks and
scales they came in, up to a SHA-256 collision.
"""

from __future__ import annotations

import hashlib
import math
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.domain import Domain
from dpsql.query.linear import (
    Block,
    Grouping,
    TableOf,
    Term,
    Weight,
    Workload,
    alike,
    classes,
    numbered,
    product,
    tables_of,
)
from dpsql.query.predicate import FALSE, TRUE, UNKNOWN, And, Codes, Leaf, truth

Ints: TypeAlias = NDArray[np.int64]

_WORD = np.dtype("<i8")
MOST_CELLS = 1 << 20  # combinations of classes that are looked at
_HOLDS = bytes.maketrans(bytes([FALSE, UNKNOWN, TRUE]), bytes([0, 0, 1]))
_SWAPPED = bytes.maketrans(bytes([0, 1]), bytes([1, 0]))
_LONG = 1 << 10  # codes of a column whose classes are kept in as few bytes as hold them


@dataclass(frozen=True, slots=True, eq=False)
class _Narrow(Mapping[str, Ints]):
    """Classes of columns: 10,000 running counts of as many values would hold 800 MB at 64 bits."""

    kept: Mapping[str, NDArray[np.integer[Any]]]

    def __getitem__(self, name: str) -> Ints:
        return self.kept[name].astype(np.int64)

    def __iter__(self) -> Iterator[str]:
        return iter(self.kept)

    def __len__(self) -> int:
        return len(self.kept)


def _narrow(classes: Mapping[str, Ints], shape: Sequence[int]) -> Mapping[str, Ints]:
    if all(len(merged) < _LONG for merged in classes.values()):
        return classes
    listed = zip(classes.items(), shape, strict=True)
    return _Narrow({n: merged.astype(np.min_scalar_type(size)) for (n, merged), size in listed})


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """Canonical queries: `classes` of the codes of each column that matters, in order of name.

    `groups` and `weights` have an entry for each combination of classes, the last column running
    fastest; where a weight is 0 the group is -1. `factor` was taken out of the weights. `origin`
    is the place of each group in the grouping; the last ones are those that no cell is in.
    """

    classes: Mapping[str, Ints]
    groups: Ints
    weights: Ints
    factor: int
    origin: Ints
    key: str
    shape: tuple[int, ...]  # the number of classes of each column

    @classmethod
    def of(
        cls, classes: Mapping[str, Ints], groups: Ints, weights: Ints, factor: int, origin: Ints
    ) -> Family:
        """The family of these parts, which are canonical."""
        key = _key(classes, groups, weights, len(origin))
        shape = tuple([int(merged.max()) + 1 for merged in classes.values()])
        return cls(_narrow(classes, shape), groups, weights, factor, origin, key, shape)

    @property
    def met(self) -> int:
        """The number of groups that some cell is in: the first ones."""
        return int(self.groups.max()) + 1


_Families: TypeAlias = "tuple[Family | None, ...]"
_KNOWN: weakref.WeakKeyDictionary[Workload, tuple[_Families, ...]] = weakref.WeakKeyDictionary()
_OF_BLOCK: weakref.WeakKeyDictionary[Block, _Families] = weakref.WeakKeyDictionary()


def tables(blocks: Sequence[Block]) -> list[TableOf]:
    """All tables that tell cells of some blocks apart: conditions, weights and group keys."""
    found: list[TableOf] = []
    for block in blocks:
        terms = [term for weight in block.weights for term in weight.terms]
        found += tables_of([block.where, *(term.predicate for term in terms)])
        found += [(t.table.domain, t.table.values) for t in terms if t.table is not None]
        found += [(d, table) for g in block.groupings for d, table, _ in g.keys]
    return found


def parts(block: Block) -> Iterator[tuple[int, Grouping, int, Weight]]:
    """The families of a block: the first row of the grouping, the weight's column."""
    start = 0
    for grouping in block.groupings:
        for column, weight in enumerate(block.weights):
            yield start, grouping, column, weight
        start += grouping.size


def families(workload: Workload) -> tuple[tuple[Family | None, ...], ...]:
    """The canonical families of each block, in the order of `parts`; None for too many cells."""
    found = _KNOWN.get(workload)
    if found is None:
        found = tuple(
            _OF_BLOCK.get(block)
            or tuple(_family(workload, block, g, w) for _, g, _, w in parts(block))
            for block in workload.blocks
        )
        _KNOWN[workload] = found
    return found


def placed(workload: Workload) -> Iterator[tuple[Family | None, Ints]]:
    """The families of a workload, and where among all its answers that of each group is."""
    start = 0
    for block, listed in zip(workload.blocks, families(workload), strict=True):
        width = len(block.weights)
        for (row, _, column, _), family in zip(parts(block), listed, strict=True):
            origin = np.zeros(0, np.int64) if family is None else family.origin
            yield family, start + (row + origin) * width + column
        start += block.groups * width


def nobody(workload: Workload) -> list[bool]:
    """Of each block whether it is known to count nobody, whatever rows there are."""
    return [
        all(
            not weight.largest or (family is not None and not family.met)
            for (_, _, _, weight), family in zip(parts(block), listed, strict=True)
        )
        for block, listed in zip(workload.blocks, families(workload), strict=True)
    ]


def remember(block: Block, known: _Families) -> None:
    """Keep the families of a block that were found as those of another: in any workload it is the
    same, for what a block does not mention makes no difference to it."""
    _OF_BLOCK[block] = known


def meaning(
    block: Block, grouping: Grouping, weight: Weight, codes: Codes, count: int
) -> tuple[Ints, Ints]:
    """The group (-1 for none) and the weight of each cell; -1 wherever the weight is 0."""
    holds = truth(block.where, codes, count) == TRUE
    values = weight.values(codes, count) * holds
    if not grouping.keys:
        groups: Ints = np.zeros(count, np.int64) if grouping.size else np.full(count, -1)
    else:
        groups = grouping.position(codes, count)
    groups = np.where(values != 0, groups, -1)
    return groups, np.where(groups >= 0, values, 0)


def _family(workload: Workload, block: Block, grouping: Grouping, weight: Weight) -> Family | None:
    return _conjunction(block, grouping, weight) or _any(workload, block, grouping, weight)


def _conjunction(block: Block, grouping: Grouping, weight: Weight) -> Family | None:
    """The family of a count of rows for which conditions on a column each hold; None for others.

    It is what `_any` would find, sooner: most questions are such.
    """
    match grouping.keys, grouping.size, weight.terms:
        case (), 1, (Term(predicate=predicate, table=None),) if weight.factor > 0:
            left = [predicate, block.where]
        case _:
            return None
    holds: dict[str, bytes] = {}  # 1 for each code that does; faster than short arrays
    while left:
        match left.pop():
            case And(parts=parts):
                left += parts
            case Leaf(domain=Domain(names=()), table=table) if table[0] == TRUE:
                continue
            case Leaf(domain=Domain(names=(name,)), table=table):
                found = table.tobytes().translate(_HOLDS)
                holds[name] = _both(holds[name], found) if name in holds else found
            case _:
                return None
    kept: dict[str, Ints] = {}
    place = 0  # of the combination that is counted
    for name, some in sorted(holds.items()):
        many = some.count(1)
        if many == 0:
            return None
        if many < len(some):
            first = some[0]
            told = some.translate(_SWAPPED) if first else some  # the first code is of class 0
            kept[name] = np.frombuffer(told, np.uint8).astype(np.int64)
            place = 2 * place + 1 - first
    if 1 << len(kept) > MOST_CELLS:
        return None
    shape, weights = (2,) * len(kept), np.zeros(1 << len(kept), np.int64)
    weights[place] = 1
    groups = weights - 1
    key, origin = _key(kept, groups, weights, 1), np.zeros(1, np.int64)
    return Family(_narrow(kept, shape), groups, weights, weight.factor, origin, key, shape)


def _both(one: bytes, other: bytes) -> bytes:
    """1 where both are."""
    return (np.frombuffer(one, np.uint8) & np.frombuffer(other, np.uint8)).tobytes()


def _any(workload: Workload, block: Block, grouping: Grouping, weight: Weight) -> Family | None:
    alone = Block(block.where, (weight,), (grouping,))
    merged = classes(workload.domain, tables([alone]))
    order = sorted(merged)
    size = math.prod(merged[name].number for name in order)
    if size > MOST_CELLS:
        return None
    codes, count = product({name: merged[name].first for name in order})
    order = [name for name in order if merged[name].number > 1]  # others tell nothing apart
    told = np.array(meaning(block, grouping, weight, codes, count))
    told = told.reshape(2, *(merged[name].number for name in order))
    kept: dict[str, Ints] = {}
    for name in order:
        axis = len(kept)
        found = alike(told.swapaxes(axis + 1, 0))
        if found.number == 1:
            told = np.asarray(told.take(0, axis=axis + 1))
        elif found.number == merged[name].number:
            kept[name] = merged[name].of
        else:
            kept[name] = found.of[merged[name].of]
            told = told.take(found.first, axis=axis + 1)
    groups, values = told.reshape(2, -1)
    factor = int(np.gcd.reduce(values)) or 1
    outside = (groups < 0).nonzero()[0]
    ranks, at = numbered(groups)
    met = groups[at]
    if len(outside):  # what is in no group has no number
        none = int(ranks[outside[0]])
        ranks = np.where(ranks == none, -1, ranks - (ranks > none))
        met = met[met >= 0]
    origin = met
    if len(met) < grouping.size:
        origin = np.concatenate([met, np.setdiff1d(np.arange(grouping.size), met)])
    return Family.of(kept, ranks, values // factor, factor, origin)


def _key(kept: Mapping[str, Ints], groups: Ints, values: Ints, size: int) -> str:
    parts = [f"{size} groups ".encode()]
    for name, merged in sorted(kept.items()):
        parts += [f"{name!r} {len(merged)} ".encode(), merged.astype(_WORD, copy=False).tobytes()]
    parts.append(b"groups")
    parts += [a.astype(_WORD, copy=False).tobytes() for a in (groups, values)]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:32]
