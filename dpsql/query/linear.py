"""Workloads: implicit linear queries with integer weights over a projected domain.

A workload never holds a matrix: each block has a condition, integer weight functions of a cell,
and groupings; its queries are weight x group for every grouping. `matvec` applies it to the
non-empty cells of a histogram, `rmatvec` its transpose to one value a query, `columns` are its
columns at some cells; `atoms` merges the values of a column that nothing tells apart.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.domain import Domain
from dpsql.query.predicate import (
    ALWAYS,
    FALSE,
    TRUE,
    UNKNOWN,
    Codes,
    Leaf,
    Predicate,
    Truth,
    leaves,
    truth,
)

TableOf: TypeAlias = tuple[Domain, NDArray[Any]]  # a domain and one entry a cell

FEW = 32  # values that are told apart faster without arrays
_FIRST = np.zeros(1, np.int64)
_TRUTHS = [bytes([one]) for one in (FALSE, UNKNOWN, TRUE)]
MAX_WEIGHT = 1 << 36  # every weight is at most this in absolute value


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Integer weights on each cell of `domain` (flat)."""

    domain: Domain
    values: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.values.shape != (self.domain.cells,):
            raise ValueError("a table has one weight for each cell of its domain")
        if not np.abs(self.values).max(initial=0) <= MAX_WEIGHT:
            raise ValueError(f"weights are at most {MAX_WEIGHT}")


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """`table` (or 1) where the predicate is TRUE, 0 elsewhere."""

    predicate: Predicate
    table: Table | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Weight:
    """An integer function of a cell: `factor` x the sum of terms that exclude each other.

    The factor puts the weights of one workload on one scale, so that the same noise suits all:
    a count beside a mean of incomes is measured with a large factor.
    """

    terms: tuple[Term, ...]
    factor: int = 1

    def values(self, codes: Codes, count: int) -> NDArray[np.int64]:
        """The weight of each of `count` cells."""
        found = np.zeros(count, np.int64)
        for term in self.terms:
            holds = truth(term.predicate, codes, count) == TRUE
            if term.table is None:
                found += holds
            else:
                found += holds * term.table.values[term.table.domain.index(codes, count)]
        return found * self.factor if self.factor != 1 else found

    @property
    def rows(self) -> bool:
        """Whether every row counts the same."""
        return (
            len(self.terms) == 1 and self.terms[0].predicate is ALWAYS and not self.terms[0].table
        )

    @property
    def largest(self) -> int:
        """A bound on the absolute weight of any cell."""
        tables = [t.table for t in self.terms]
        found = [1 if t is None else int(np.abs(t.values).max(initial=0)) for t in tables]
        return self.factor * max(found, default=0)


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """The groups of one grouping set: `listed` are the ids of groups that are answered, ascending.

    A cell's id is the sum over keys of stride x key code, the code read in the key's table.
    """

    keys: tuple[tuple[Domain, NDArray[np.int64], int], ...]  # domain, code of each cell, stride
    listed: NDArray[np.int64]

    @property
    def size(self) -> int:
        return len(self.listed)

    def position(self, codes: Codes, count: int) -> NDArray[np.int64]:
        """Which listed group each cell is in; -1 for none (never for a cell that WHERE keeps)."""
        found = np.zeros(count, np.int64)
        for domain, table, stride in self.keys:
            found += table[domain.index(codes, count)] * stride
        if self.size and self.listed[-1] == self.size - 1:
            return found
        at = np.searchsorted(self.listed, found)
        at[at == self.size] = 0
        return np.where(self.listed[at] == found, at, -1) if self.size else at - 1


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Block:
    """Queries that share a condition: for each grouping, for each group, each weight."""

    where: Predicate
    weights: tuple[Weight, ...]
    groupings: tuple[Grouping, ...]

    @property
    def groups(self) -> int:
        return sum([len(grouping.listed) for grouping in self.groupings])


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Workload:
    """Blocks of linear queries over `domain`, the columns that they mention: `size` of them."""

    domain: Domain
    blocks: tuple[Block, ...]
    size: int = field(init=False)

    def __post_init__(self) -> None:
        size = sum([block.groups * len(block.weights) for block in self.blocks])
        object.__setattr__(self, "size", size)

    def matvec(self, codes: Codes, counts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """The answers on a sparse histogram, one array of (groups, weights) a block; exact.

        `codes` gives the codes of each non-empty cell, `counts` its rows. Answers that 64 bits
        might not hold are computed, and given, as Python integers.
        """
        total = int(counts.sum()) if len(counts) else 0
        return [_block(block, codes, counts, total) for block in self.blocks]

    def rmatvec(self, codes: Codes, count: int, values: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """W'y at `count` cells: what a row in each adds to the sum of all answers, each times its
        value, (groups, weights) a block; of whole numbers exact.

        It is the adjoint of `matvec`: the sum of counts x W'y is the sum of answers x y.
        """
        kind: Any = np.result_type(np.int64, *(own.dtype for own in values))
        if kind.kind in "iO":
            heaviest = max((w.largest for block in self.blocks for w in block.weights), default=0)
            reach = heaviest * sum(own.size * int(np.abs(own).max(initial=0)) for own in values)
            kind = object if reach >= 1 << 62 else np.int64
        found = np.zeros(count, kind)
        for block, own in zip(self.blocks, values, strict=True):
            for cells, place, weights in _placed(block, codes, count):
                found[cells] += (weights * own[place].astype(kind)).sum(axis=1)
        return found

    def columns(self, codes: Codes, count: int) -> NDArray[np.int64]:
        """The columns of W at `count` cells, (queries, count), in the order of blocks, groups and
        weights."""
        found, start = np.zeros((self.size, count), np.int64), 0
        for block in self.blocks:
            width = len(block.weights)
            for cells, place, weights in _placed(block, codes, count):
                for column in range(width):
                    found[start + place * width + column, cells] = weights[:, column]
            start += block.groups * width
        return found


def _placed(
    block: Block, codes: Codes, count: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """For each grouping the cells that are counted, in which of the block's groups, and with which
    weights, (cells, weights)."""
    if not (block.groups and block.weights):
        return
    holds = truth(block.where, codes, count) == TRUE
    every = np.stack([w.values(codes, count) for w in block.weights], axis=1) * holds[:, None]
    kept = every.any(axis=1).nonzero()[0]
    codes, weights = {name: own[kept] for name, own in codes.items()}, every[kept]
    start = 0
    for grouping in block.groupings:
        if grouping.size:
            place = start + (grouping.position(codes, len(kept)) if grouping.keys else 0 * kept)
            yield kept, place, weights
        start += grouping.size


def _block(block: Block, codes: Codes, counts: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    largest = max((w.largest for w in block.weights), default=1)
    exact: Any = object if total * largest >= 1 << 62 else np.int64
    counts = counts.astype(exact, copy=False)
    count = len(counts)
    kept = (truth(block.where, codes, count) == TRUE).nonzero()[0]
    if len(kept) < count:
        counts, count = counts[kept], len(kept)
        if any([g.keys for g in block.groupings]) or not all([w.rows for w in block.weights]):
            codes = {n: c[kept] for n, c in codes.items()}  # which nothing else reads
    weighted = [
        counts * weight.factor if weight.rows else weight.values(codes, count) * counts
        for weight in block.weights
    ]
    answers = []
    for grouping in block.groupings:
        found = np.zeros((grouping.size, len(block.weights)), exact)
        if grouping.keys:
            at = grouping.position(codes, count)
            for column, values in enumerate(weighted):
                np.add.at(found[:, column], at, values)
        elif grouping.size:
            for column, values in enumerate(weighted):
                found[0, column] = values.sum()
        answers.append(found)
    if len(answers) == 1:
        return answers[0]
    return np.concatenate(answers) if answers else np.zeros((0, len(block.weights)), exact)


# -- atoms -------------------------------------------------------------------------------------


class Classes(NamedTuple):
    """The class of each code, and where each class is first, in ascending order."""

    of: NDArray[np.int64]
    first: NDArray[np.int64]

    @property
    def number(self) -> int:
        return len(self.first)


def tables_of(predicates: Iterable[Predicate]) -> list[TableOf]:
    """The truth tables of the leaves of some predicates."""
    found: dict[int, Leaf] = {}
    for predicate in predicates:
        for leaf in leaves(predicate):
            found[id(leaf)] = leaf
    return [(leaf.domain, leaf.table) for leaf in found.values()]


def classes(domain: Domain, tables: Sequence[TableOf]) -> Mapping[str, Classes]:
    """For each column, its codes in classes: no table tells those of a class apart."""
    return {name: _classes(name, domain.size(name), tables) for name in domain.names}


def _classes(name: str, size: int, tables: Sequence[TableOf]) -> Classes:
    found: Classes | None = None
    for domain, table in tables:
        if name not in domain.names:
            continue
        if len(domain.names) == 1:
            told = numbered(table)
        else:
            axis = domain.names.index(name)
            told = alike(table.reshape(domain.sizes).swapaxes(axis, 0))
        if found is None or found.number == 1:
            found = told
        elif told.number > 1:
            found = numbered(found.of * told.number + told.of)
    return found or Classes(np.zeros(size, np.int64), np.zeros(1, np.int64))


def numbered(values: NDArray[Any]) -> Classes:
    """Whole numbers in classes of equal ones, in the order in which they are met."""
    if values.dtype == np.uint8:
        return _truths(values)
    if len(values) <= FEW:
        return _met(values.tolist())
    least = int(values.min())
    span = int(values.max()) - least + 1
    if span > 4 * len(values) + 64:  # a table of them would be mostly empty
        _, first, ranks = np.unique(values, return_index=True, return_inverse=True)
        return _in_order(ranks, first)
    place = np.full(span, -1, np.int64)
    place[values[::-1] - least] = np.arange(len(values) - 1, -1, -1)
    occurs = place >= 0
    ranks = np.cumsum(occurs) - 1
    return _in_order(ranks[values - least], place[occurs])


def _truths(values: Truth) -> Classes:
    """FALSE, UNKNOWN and TRUE in classes: as bytes, which is fastest."""
    text = values.tobytes()
    first = sorted([at for at in map(text.find, _TRUTHS) if at >= 0])
    rank = bytes.maketrans(bytes([text[at] for at in first]), bytes(range(len(first))))
    of = np.frombuffer(text.translate(rank), np.uint8)
    return Classes(of.astype(np.int64), np.array(first, np.int64))


def _met(listed: Sequence[Hashable]) -> Classes:
    """At most FEW values in classes of equal ones, in the order in which they are met."""
    number: dict[Hashable, int] = {}
    of = np.array([number.setdefault(value, len(number)) for value in listed], np.int64)
    return Classes(of, np.array([listed.index(value) for value in number], np.int64))


def _in_order(ranks: NDArray[Any], first: NDArray[Any]) -> Classes:
    """Classes that are in another order, by where each is first."""
    order = np.argsort(first)
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    return Classes(number[ranks.reshape(-1)], first[order].astype(np.int64))


def whole(domain: Domain) -> Workload:
    """The counts of all cells of a domain, in order."""
    sizes = zip(domain.names, domain.sizes, strict=True)
    return counted(domain, {name: np.arange(size) for name, size in sizes})


def counted(domain: Domain, classes: Mapping[str, NDArray[np.int64]]) -> Workload:
    """A count of every combination of the classes of some columns, the last running fastest."""
    sizes = [int(of.max()) + 1 for of in classes.values()]
    keys, stride = [], math.prod(sizes)
    for (name, of), size in zip(classes.items(), sizes, strict=True):
        stride //= size
        keys.append((domain.project([name]), of, stride))
    every = Grouping(tuple(keys), np.arange(math.prod(sizes)))
    names = [name for name in domain.names if name in classes]
    block = Block(ALWAYS, (Weight((Term(ALWAYS),)),), (every,))
    return Workload(domain.project(names), (block,))


def starts(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the runs of equal values begin; there is a value."""
    changes = (values[1:] != values[:-1]).nonzero()[0]
    return np.concatenate([_FIRST, changes + 1])


def alike(rows: NDArray[Any]) -> Classes:
    """Rows, along the first axis, in classes of equal ones, in the order in which they are met."""
    if len(rows) <= FEW:
        return _met([row.tobytes() for row in rows])
    lines = np.ascontiguousarray(rows).reshape(len(rows), -1)
    void = lines.view(np.dtype((np.void, lines.dtype.itemsize * lines.shape[1]))).reshape(-1)
    _, first, ranks = np.unique(void, return_index=True, return_inverse=True)
    return _in_order(ranks, first)


def atoms(domain: Domain, tables: Sequence[TableOf]) -> Mapping[str, NDArray[np.int64]]:
    """For each column, one representative code of every class that no table tells apart."""
    return {name: found.first for name, found in classes(domain, tables).items()}


def product(
    representatives: Mapping[str, NDArray[np.int64]],
) -> tuple[dict[str, NDArray[np.int64]], int]:
    """The codes of every combination of representatives, and how many there are."""
    several = [name for name, codes in representatives.items() if len(codes) != 1]
    sizes = [len(representatives[name]) for name in several]  # an array has at most 64 axes
    count = math.prod(sizes)
    found = {}
    for name, codes in representatives.items():
        along = [len(codes) if other == name else 1 for other in several]
        filled = np.empty(sizes, np.int64)
        filled[...] = codes.reshape(along)
        found[name] = filled.reshape(-1)
    return found, count


def combinations(representatives: Mapping[str, NDArray[np.int64]]) -> int:
    """How many combinations of representatives there are; exact, however many."""
    found = 1
    for codes in representatives.values():
        found *= len(codes)
    return found
