"""Strategies against brute force: what each row and each pair of rows moves."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.accounting.events import PICO
from dpsql.curator import mixed
from dpsql.curator.mixed import footprint, reach
from dpsql.curator.quote import GaussianNoise, LaplaceNoise, quote
from dpsql.domain import Domain
from dpsql.query.linear import Block, Grouping, Term, Weight, Workload
from dpsql.query.predicate import ALWAYS, FALSE, TRUE, Leaf
from dpsql.query.strategy import Mixed, Strategy
from tests.curator.brute import ADD, REPLACE, WIDE, cells, column, workloads
from tests.curator.test_footprint import dataset, told

VARIANCE = Fraction(7, 3)


@st.composite
def strategies(draw, small: int = 9):
    """One or two parts that mix all queries, or the weights of each group."""
    parts = []
    workload = draw(workloads().filter(lambda w: w.size > 0))
    for _ in range(draw(st.integers(1, 2))):
        widths = {len(block.weights) for block in workload.blocks}
        width = workload.size
        if len(widths) == 1 and draw(st.booleans()):
            width = widths.pop()
        rows = draw(st.integers(1, 3))
        numbers = st.integers(-small, small)
        listed = draw(st.lists(numbers, min_size=rows * width, max_size=rows * width))
        matrix = np.array(listed, np.int64).reshape(rows, width)
        try:
            parts.append(Mixed(workload, matrix))
        except ValueError:  # weights of 2^36
            return None
    return Strategy(tuple(parts))


SMALL = strategies().filter(lambda found: found is not None)


def values(part: Mixed, cell: dict[str, int]) -> list[int]:
    """What one row in a cell adds to the values of a part, by hand."""
    own = column(part.workload, cell)
    runs = [own[i : i + part.width] for i in range(0, len(own), part.width)]
    return [
        sum(int(a) * x for a, x in zip(row, run, strict=True))
        for run in runs
        for row in part.matrix
    ]


def moves(strategy: Strategy) -> dict[tuple[int, ...], list[list[int]]]:
    """The column of every cell of all columns that the parts mention."""
    sizes: dict[str, int] = {}
    for part in strategy.parts:
        domain = part.workload.domain
        sizes |= dict(zip(domain.names, domain.sizes, strict=True))
    found = {}
    for codes in itertools.product(*(range(size) for size in sizes.values())):
        cell = dict(zip(sizes, codes, strict=True))
        found[tuple(cell.items())] = [x for part in strategy.parts for x in values(part, cell)]
    return found


def squares(move: list[int]) -> int:
    return sum(x * x for x in move)


def farthest(strategy: Strategy, neighbours: object, rows: int = 1) -> int:
    """The square of the L2 sensitivity, over all pairs of neighbours."""
    listed = list(moves(strategy).values())
    nothing = [0] * len(listed[0])
    pairs = itertools.combinations([*listed, nothing], 2)
    if neighbours is ADD:
        pairs = ((move, nothing) for move in listed)
    return rows**2 * max(squares([a - b for a, b in zip(x, y, strict=True)]) for x, y in pairs)


@settings(deadline=None, max_examples=150, derandomize=True)
@given(SMALL)
def test_what_is_measured_is_the_matrix_applied_to_the_answers(strategy):
    for part in strategy.parts:
        for cell in cells(part.workload.domain):
            codes = {name: np.array([code], np.int64) for name, code in cell.items()}
            found = part.matvec(codes, np.array([3], np.int64))
            assert found.reshape(-1).tolist() == [3 * x for x in values(part, cell)]
        assert found.size == part.size


@settings(deadline=None, max_examples=200, derandomize=True)
@given(SMALL, st.sampled_from([ADD, REPLACE]), st.integers(1, 3))
def test_neighbours_are_no_farther_apart_than_is_charged(strategy, neighbours, rows):
    rows = rows if neighbours is ADD else 1
    found = reach(strategy, dataset(neighbours, rows))
    truth = farthest(strategy, neighbours, rows)
    assert found.squared >= max(truth, 1)
    if found.exact:
        assert found.squared == max(truth, rows**2)


LIMITS = [{"WORK": 0}, {"COLUMNS": 0, "CELLS": 1}, {"PAIRS": 0}, {"HELD": 2}]


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@settings(deadline=None, max_examples=60, derandomize=True)
@given(strategy=SMALL, neighbours=st.sampled_from([ADD, REPLACE]))
def test_bounds_are_never_below_the_truth(limits, strategy, neighbours):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(mixed, name, value)
        found = reach(strategy, dataset(neighbours)).squared
    assert found >= farthest(strategy, neighbours)


@settings(deadline=None, max_examples=150, derandomize=True)
@given(SMALL)
def test_the_bound_that_looks_at_no_column_holds_for_each_part(strategy):
    for part in strategy.parts:
        assert mixed._bound(part) >= farthest(Strategy((part,)), ADD)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(workloads(blocks=1).filter(lambda w: w.size > 0 and len(w.blocks[0].groupings) == 1))
def test_weights_that_are_measured_as_they_are_are_bounded_by_their_sizes(workload):
    """Not by the square of the sum of these, which would make them as dear as one sum."""
    (block,) = workload.blocks
    part = Mixed(workload, 3 * np.eye(len(block.weights), dtype=np.int64))
    squares = sum((3 * weight.largest) ** 2 for weight in block.weights)
    assert mixed._bound(part) <= squares * (1 + 1e-5) + 1


@settings(deadline=None, max_examples=150, derandomize=True)
@given(SMALL, st.integers(1, 2))
def test_footprints_cover_every_cell_and_reach_the_price(strategy, rows):
    of = dataset(ADD, rows)
    found = footprint(strategy, of, VARIANCE).rho
    price = quote(strategy, of, GaussianNoise(VARIANCE)).rho
    assert found.largest <= price
    reached = 0
    for cell, move in moves(strategy).items():
        loss = told(found, dict(cell))
        assert loss >= Fraction(squares(move) * rows**2) / (2 * VARIANCE) * PICO
        reached = max(reached, loss)
    if reach(strategy, of).exact and any(any(move) for move in moves(strategy).values()):
        assert reached == price


def test_a_part_that_some_people_have_no_share_in_costs_them_nothing():
    """Else the fine grades would make everybody pay: this one fails where losses are constant."""
    half = Leaf(Domain(("a",), (4,)), np.array([TRUE, TRUE, FALSE, FALSE], np.uint8))
    total = Grouping((), np.zeros(1, np.int64))
    block = Block(half, (Weight((Term(half),)),), (total,))
    workload = Workload(Domain(("a",), (4,)), (block,))
    strategy = Strategy((Mixed(workload, np.array([[5]])),))
    found = footprint(strategy, dataset(), VARIANCE).rho
    price = quote(strategy, dataset(), GaussianNoise(VARIANCE)).rho
    assert [told(found, {"a": code}) for code in range(4)] == [price, price, 0, 0]


def test_large_weights_are_refused_and_laplace_noise_is():
    with pytest.raises(ValueError, match="Gaussian"):
        quote(simple(), dataset(), LaplaceNoise(Fraction(2)))
    with pytest.raises(ValueError, match="below 2\\^53"):
        Mixed(simple().parts[0].workload, np.array([[1 << 53]]))
    with pytest.raises(ValueError, match="mixes all queries"):
        Mixed(simple().parts[0].workload, np.ones((1, 3), np.int64))


def simple() -> Strategy:
    total = Grouping((), np.zeros(1, np.int64))
    block = Block(ALWAYS, (Weight((Term(ALWAYS),)),), (total,))
    return Strategy((Mixed(Workload(Domain((), ()), (block,)), np.ones((1, 1), np.int64)),))


@settings(deadline=None, max_examples=40, derandomize=True)
@given(workloads(WIDE).filter(lambda w: w.size > 0))
def test_weights_beyond_what_floats_hold_are_refused(workload):
    heaviest = max(w.largest for b in workload.blocks for w in b.weights)
    wide = np.full((1, workload.size), (1 << 53) // max(heaviest, 1) + 1, np.int64)
    with pytest.raises(ValueError, match="below 2\\^53"):
        Mixed(workload, wide)
