"""Random workloads on small domains, and their sensitivity by hand: every query of every cell."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from dpsql.curator.sensitivity import Sensitivity
from dpsql.domain import Domain
from dpsql.query.linear import MAX_WEIGHT, Block, Grouping, Table, Term, Weight, Workload
from dpsql.query.predicate import ALWAYS, FALSE, TRUE, UNKNOWN, And, Is, Leaf, Not, Or
from dpsql.schema import Neighbours

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE


# -- the judge: every query of every cell, one at a time -----------------------------------------


def holds(predicate, cell: dict[str, int]) -> int:
    """Three-valued truth of one cell, by the tables of logic."""
    match predicate:
        case Leaf(domain=domain, table=table):
            return int(table[place(domain, cell)])
        case And(parts=parts):
            found = [holds(part, cell) for part in parts]
            return FALSE if FALSE in found else UNKNOWN if UNKNOWN in found else TRUE
        case Or(parts=parts):
            found = [holds(part, cell) for part in parts]
            return TRUE if TRUE in found else UNKNOWN if UNKNOWN in found else FALSE
        case Not(part=part):
            return {TRUE: FALSE, FALSE: TRUE, UNKNOWN: UNKNOWN}[holds(part, cell)]
        case Is(part=part, truth=wanted):
            return TRUE if holds(part, cell) == wanted else FALSE


def place(domain: Domain, cell: dict[str, int]) -> int:
    return int(np.ravel_multi_index([cell[n] for n in domain.names], domain.sizes or (1,))
               if domain.names else 0)  # fmt: skip


def column(workload: Workload, cell: dict[str, int]) -> list[int]:
    """W e_x: what one row in `cell` adds to every query."""
    found: list[int] = []
    for block in workload.blocks:
        weights = []
        for weight in block.weights:
            total = 0
            for term in weight.terms:
                if holds(term.predicate, cell) == TRUE:
                    table = term.table
                    total += 1 if table is None else int(table.values[place(table.domain, cell)])
            weights.append(total * weight.factor)
        kept = holds(block.where, cell) == TRUE
        for grouping in block.groupings:
            at = sum(int(table[place(domain, cell)]) * s for domain, table, s in grouping.keys)
            for listed in grouping.listed.tolist():
                found += [w if kept and at == listed else 0 for w in weights]
    return found


def cells(domain: Domain) -> list[dict[str, int]]:
    return [
        dict(zip(domain.names, codes, strict=True))
        for codes in itertools.product(*(range(size) for size in domain.sizes))
    ]


@dataclass(frozen=True)
class Truth:
    squared: int
    absolute: int
    largest: int


def truth_of(moves) -> Truth:
    moves = list(moves)
    return Truth(
        max(sum(x * x for x in m) for m in moves),
        max(sum(abs(x) for x in m) for m in moves),
        max((abs(x) for m in moves for x in m), default=0),
    )


def brute(workload: Workload, neighbours: Neighbours, rows: int = 1) -> Truth:
    """By all units of at most `rows` rows, or all pairs of rows and nothing."""
    columns = [column(workload, cell) for cell in cells(workload.domain)]
    if neighbours is ADD:
        units = itertools.chain.from_iterable(
            itertools.combinations_with_replacement(columns, n) for n in range(1, rows + 1)
        )
        return truth_of([sum(parts) for parts in zip(*unit, strict=True)] for unit in units)
    columns.append([0] * len(columns[0]))
    return truth_of(
        [x - y for x, y in zip(a, b, strict=True)] for a, b in itertools.product(columns, columns)
    )


def assert_sound(found: Sensitivity, truth: Truth) -> None:
    assert found.squared >= truth.squared
    assert found.absolute >= truth.absolute
    assert found.largest >= truth.largest


def assert_exact(found: Sensitivity, truth: Truth) -> None:
    """Equal, where the truth is not below one row."""
    assert found.squared == max(truth.squared, 1)
    assert found.absolute == max(truth.absolute, 1)
    assert found.largest == max(truth.largest, 1)


# -- random workloads ----------------------------------------------------------------------------
# Each strategy is made once: to make and check it anew takes longer than to draw from it.

SIZES = st.sampled_from([1, 2, 3])
DOMAINS = st.lists(SIZES, min_size=0, max_size=3).map(
    lambda sizes: Domain(tuple("abc"[: len(sizes)]), tuple(sizes))
)
SMALL = st.integers(-3, 4)
TRUTHS = st.sets(st.sampled_from([FALSE, UNKNOWN, TRUE]), max_size=3)
WIDE = st.sampled_from([0, 1, MAX_WEIGHT, MAX_WEIGHT - 1, -MAX_WEIGHT, 1 << 33, (1 << 33) - 1])


@functools.cache
@st.composite
def subdomains(draw, domain):
    names = [name for name in domain.names if draw(st.booleans())]
    return domain.project(names)


@functools.cache
@st.composite
def leaves(draw, domain):
    part = draw(subdomains(domain))
    table = draw(st.lists(st.sampled_from([0, 1, 2, 2]), min_size=part.cells, max_size=part.cells))
    return Leaf(part, np.array(table, np.uint8))


@functools.cache
def predicates(domain):
    return st.recursive(
        leaves(domain),
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(lambda p: And(tuple(p))),
            st.lists(inner, min_size=1, max_size=2).map(lambda p: Or(tuple(p))),
            inner.map(Not),
            st.tuples(inner, st.sampled_from([FALSE, UNKNOWN, TRUE])).map(lambda p: Is(*p)),
        ),
        max_leaves=4,
    )


@functools.cache
@st.composite
def weights(draw, domain, numbers):
    """A count, or terms that exclude each other, with and without tables."""
    if draw(st.booleans()):
        predicate = draw(conditions(domain))
        return Weight((Term(predicate),), draw(st.sampled_from([1, 1, 16])))
    test = draw(predicates(domain))
    terms = []
    for wanted in draw(TRUTHS):
        table = None
        if draw(st.booleans()):
            part = draw(subdomains(domain))
            values = draw(st.lists(numbers, min_size=part.cells, max_size=part.cells))
            table = Table(part, np.array(values, np.int64))
        terms.append(Term(Is(test, wanted), table))
    return Weight(tuple(terms), draw(st.sampled_from([1, 1, 2])))


@functools.cache
@st.composite
def groupings(draw, domain):
    """Keys of some columns; every group that a cell is in is listed, and sometimes more."""
    keys, stride = [], 1
    for _ in range(draw(st.integers(0, 2))):
        part = draw(subdomains(domain))
        codes = draw(st.lists(st.integers(0, 2), min_size=part.cells, max_size=part.cells))
        keys.append((part, np.array(codes, np.int64), stride))
        stride *= 3
    ids = {sum(int(t[place(d, c)]) * s for d, t, s in keys) for c in cells(domain)}
    ids |= draw(st.sets(st.integers(0, stride - 1), max_size=2))
    return Grouping(tuple(keys), np.array(sorted(ids), np.int64))


@functools.cache
def conditions(domain):
    return st.one_of(st.just(ALWAYS), predicates(domain))


@functools.cache
def listed_blocks(domain, numbers, most):
    block = st.builds(
        Block,
        conditions(domain),
        st.lists(weights(domain, numbers), min_size=1, max_size=3).map(tuple),
        st.lists(groupings(domain), min_size=1, max_size=2).map(tuple),
    )
    return st.lists(block, min_size=1, max_size=most).map(tuple)


@functools.cache
@st.composite
def workloads(draw, numbers=SMALL, blocks=3):
    domain = draw(DOMAINS)
    return Workload(domain, draw(listed_blocks(domain, numbers, blocks)))
