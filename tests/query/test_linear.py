"""Workloads on sparse histograms: against sums over every cell and group, one at a time."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpsql.domain import Domain
from dpsql.errors import Refused
from dpsql.query.compile import Compiled
from dpsql.query.grid import Grid
from dpsql.query.linear import (
    MAX_WEIGHT,
    Block,
    Grouping,
    Table,
    Term,
    Weight,
    Workload,
    alike,
    atoms,
    combinations,
    numbered,
    product,
)
from dpsql.query.predicate import ALWAYS, FALSE, TRUE, UNKNOWN, Leaf
from tests.query.exact import compiled, counted
from tests.query.grammar import Statements, asked
from tests.query.tables import table
from tests.query.test_predicate import judged

Cell = dict[str, int]


def at(domain: Domain, values: Any, cell: Cell) -> Any:
    """The entry of one cell in a table over some of its columns."""
    place = tuple(cell[name] for name in domain.names)
    return values[np.ravel_multi_index(place, domain.sizes) if place else 0]


def weight_of(weight: Weight, cell: Cell) -> int:
    """A weight function on one cell: the terms exclude each other."""
    found = [
        1 if term.table is None else int(at(term.table.domain, term.table.values, cell))
        for term in weight.terms
        if judged(term.predicate, cell) is True
    ]
    return weight.factor * sum(found)


def dense(workload: Workload, codes: Any, counts: Any) -> list[list[list[int]]]:
    """The answers, by a loop over cells, groupings, groups and weights."""
    answers = []
    for block in workload.blocks:
        rows = [[0] * len(block.weights) for _ in range(block.groups)]
        for index, count in enumerate(counts.tolist()):
            cell = {name: int(code[index]) for name, code in codes.items()}
            if judged(block.where, cell) is not True:
                continue
            start = 0
            for grouping in block.groupings:
                key = sum(int(at(d, t, cell)) * stride for d, t, stride in grouping.keys)
                listed = grouping.listed.tolist()
                assert key in listed, "a row that is kept is in a group that is listed"
                for column, weight in enumerate(block.weights):
                    rows[start + listed.index(key)][column] += count * weight_of(weight, cell)
                start += grouping.size
        answers.append(rows)
    return answers


@settings(max_examples=60, deadline=None, derandomize=True, database=None,
          suppress_health_check=list(HealthCheck))  # fmt: skip
@given(st.integers(0, 2**48))
def test_answers_are_sums_over_cells(seed: int) -> None:
    rng = Random(seed)
    made = table(rng)
    grid, counts = Grid(made.dataset), counted(made.dataset, made.rows[:40])
    for _ in range(4):
        try:
            found = compiled(asked(Statements(rng, made).statement().sql), made.dataset, grid)
        except Refused:
            continue
        if isinstance(found, Compiled):
            codes, rows = counts(found.workload.domain.names)
            answers = found.workload.matvec(codes, rows)
            assert [block.tolist() for block in answers] == dense(found.workload, codes, rows)
            # the adjoint, and the columns, on the same cells: <W x, y> = <x, W'y>, W x = sum x W e
            values = [np.array([[rng.randrange(-9, 10) for _ in row] for row in block], np.int64)
                      .reshape(block.shape) for block in answers]  # fmt: skip
            turned = found.workload.rmatvec(codes, len(rows), values)
            products = zip(answers, values, strict=True)
            assert int(rows @ turned) == sum(int((one * y).sum()) for one, y in products)
            columns = found.workload.columns(codes, len(rows))
            flat = [part.reshape(-1) for part in answers]
            assert (columns @ rows).tolist() == np.concatenate(flat).tolist()
            assert (np.concatenate([y.reshape(-1) for y in values]) @ columns == turned).all()
            floats = found.workload.rmatvec(codes, len(rows), [y / 4 for y in values])
            assert (floats * 4 == turned).all()


@settings(max_examples=40, deadline=None, derandomize=True, database=None,
          suppress_health_check=list(HealthCheck))  # fmt: skip
@given(st.integers(0, 2**48))
def test_terms_of_a_weight_exclude_each_other_and_are_bounded(seed: int) -> None:
    rng = Random(seed)
    made = table(rng)
    grid, counts = Grid(made.dataset), counted(made.dataset, made.rows[:40])
    try:
        found = compiled(asked(Statements(rng, made).statement().sql), made.dataset, grid)
    except Refused:
        return
    if not isinstance(found, Compiled):
        return
    codes, rows = counts(found.workload.domain.names)
    for index in range(len(rows)):
        cell = {name: int(code[index]) for name, code in codes.items()}
        for block in found.workload.blocks:
            for weight in block.weights:
                holding = [t for t in weight.terms if judged(t.predicate, cell) is True]
                assert len(holding) <= 1
                assert abs(weight_of(weight, cell)) <= weight.largest


def test_sums_beyond_64_bits_are_exact() -> None:
    domain = Domain(("a",), (2,))
    weight = Weight((Term(ALWAYS, Table(domain, np.array([MAX_WEIGHT, -MAX_WEIGHT]))),))
    workload = Workload(domain, (Block(ALWAYS, (weight,), (Grouping((), np.zeros(1, int)),)),))
    codes, counts = {"a": np.array([0, 0, 1])}, np.array([1 << 40, 3, 5])
    (answers,) = workload.matvec(codes, counts)
    assert answers.tolist() == [[MAX_WEIGHT * ((1 << 40) - 2)]]
    turned = workload.rmatvec(codes, 3, [np.array([[(1 << 40) + 1]])])
    assert turned.tolist() == [MAX_WEIGHT * own * ((1 << 40) + 1) for own in (1, 1, -1)]


def test_an_empty_table_gives_zeros() -> None:
    domain = Domain(("a",), (2,))
    keys = ((domain, np.arange(2), 1),)
    block = Block(ALWAYS, (Weight((Term(ALWAYS),)),), (Grouping(keys, np.arange(2)),))
    (answers,) = Workload(domain, (block,)).matvec({"a": np.zeros(0, int)}, np.zeros(0, int))
    assert answers.tolist() == [[0], [0]]


def test_a_table_of_weights_checks_itself() -> None:
    domain = Domain(("a",), (2,))
    with pytest.raises(ValueError, match="one weight for each cell"):
        Table(domain, np.zeros(3, np.int64))
    with pytest.raises(ValueError, match="at most"):
        Table(domain, np.array([0, MAX_WEIGHT + 1]))


# -- atoms -------------------------------------------------------------------------------------


@st.composite
def tabled(draw: st.DrawFn) -> tuple[Domain, list[tuple[Domain, Any]]]:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    domain = Domain(tuple("abc"[: len(sizes)]), tuple(sizes))
    tables = []
    for _ in range(draw(st.integers(0, 3))):
        names = draw(st.lists(st.sampled_from(domain.names), unique=True, max_size=2))
        part = domain.project(names)
        values = draw(st.lists(st.integers(0, 2), min_size=part.cells, max_size=part.cells))
        tables.append((part, np.array(values, np.uint8)))
    return domain, tables


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(tabled())
def test_every_cell_has_a_representative_that_no_table_tells_apart(
    case: tuple[Domain, list[tuple[Domain, Any]]],
) -> None:
    domain, tables = case
    representatives = atoms(domain, tables)
    codes, count = product(representatives)
    assert count == combinations(representatives)

    def seen(cell: Cell) -> tuple[int, ...]:
        return tuple(int(at(part, values, cell)) for part, values in tables)

    chosen = {seen({name: int(code[i]) for name, code in codes.items()}) for i in range(count)}
    grid = domain.grid()
    every = {seen({name: int(code[i]) for name, code in grid.items()}) for i in range(domain.cells)}
    assert chosen == every
    for name, size in zip(domain.names, domain.sizes, strict=True):
        classes = len(representatives[name])
        assert 1 <= classes <= size


def test_values_that_nothing_tells_apart_are_one_atom() -> None:
    domain = Domain(("a", "b"), (1_000, 5))
    leaf = Leaf(Domain(("a",), (1_000,)), (np.arange(1_000) >= 300).astype(np.uint8) * TRUE)
    found = atoms(domain, [(leaf.domain, leaf.table)])
    assert {name: codes.tolist() for name, codes in found.items()} == {"a": [0, 300], "b": [0]}


NUMBERS = st.one_of(st.integers(-3, 9), st.integers(0, 10**12))
TRUTHS = st.sampled_from([FALSE, UNKNOWN, TRUE])


def _in_the_order_met(values: list[object]) -> tuple[list[int], list[int]]:
    met = [at for at, value in enumerate(values) if value not in values[:at]]
    return [[values[at] for at in met].index(value) for value in values], met


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.lists(NUMBERS, min_size=1, max_size=60), st.sampled_from([1, 5]), st.booleans())
def test_values_are_numbered_in_the_order_in_which_they_are_met(
    values: list[int], times: int, rows: bool
) -> None:
    """Also of more than FEW, whether they are spread or not, and of rows."""
    values *= times
    array = np.array(values, np.int64)
    of, first = alike(array[:, None] + np.zeros((1, 2), np.int64)) if rows else numbered(array)
    assert (of.tolist(), first.tolist()) == _in_the_order_met(values)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.lists(TRUTHS, min_size=1, max_size=200))
def test_truths_are_numbered_in_the_order_in_which_they_are_met(values: list[int]) -> None:
    of, first = numbered(np.array(values, np.uint8))
    assert (of.tolist(), first.tolist()) == _in_the_order_met(values)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(st.lists(st.integers(1, 4), max_size=4))
def test_a_product_has_every_combination_once_the_last_running_fastest(sizes: list[int]) -> None:
    codes = {f"c{at}": np.arange(size)[::-1] * 3 for at, size in enumerate(sizes)}
    found, count = product(codes)
    listed = list(zip(*(found[name].tolist() for name in codes), strict=True)) or [()]
    assert listed == list(itertools.product(*(of.tolist() for of in codes.values())))
    assert count == len(listed)
