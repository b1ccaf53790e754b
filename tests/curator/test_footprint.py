"""Footprints against brute force: the loss of each cell by the judge's own columns of W."""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.accounting.events import PICO, Laplace
from dpsql.accounting.footprints.footprint import Footprint, Loss
from dpsql.accounting.footprints.joint import Joint, largest
from dpsql.accounting.purse import Price
from dpsql.curator import footprint as footprints
from dpsql.curator import reduced as kept
from dpsql.curator.footprint import footprint
from dpsql.curator.quote import GaussianNoise, LaplaceNoise, quote
from dpsql.domain import Domain
from dpsql.query.linear import Block, Grouping, Table, Term, Weight, Workload
from dpsql.query.predicate import ALWAYS, FALSE, TRUE, And, Leaf, Or
from dpsql.schema import Column, Dataset, Kind, Neighbours, Source, Unit
from tests.curator.test_sensitivity import ADD, REPLACE, cells, column, workloads

VARIANCE, SCALE = Fraction(7, 3), Fraction(5, 2)
TOTAL = Grouping((), np.zeros(1, np.int64))


def dataset(neighbours: Neighbours = ADD, rows: int = 1) -> Dataset:
    unit = Unit() if rows == 1 else Unit("who", rows)
    columns = tuple(Column(name, Kind.INTEGER, minimum=0, maximum=9) for name in "abc")
    return Dataset("d", columns, neighbours, unit, Source(table="t"))


def told(loss: Loss, cell: dict[str, int]) -> int:
    """The loss that a footprint tells of a cell, without what it says of pairs."""
    total = 0
    for factor in loss.factors:
        index = 0
        for axis in factor.axes:
            run = max(i for i, start in enumerate(axis.starts) if start <= cell[axis.name])
            index = index * axis.size + axis.classes[run]
        total += factor.table[index]
    return total + (loss.constant // 2 if loss.pairs else loss.constant)


def gaussian(moves: list[int]) -> Fraction:
    return Fraction(sum(m * m for m in moves)) / (2 * VARIANCE) * PICO


@functools.cache
def kl(move: int) -> float:
    """KL of discrete Laplace noise moved by `move`, by summation, in pico."""
    q = math.exp(-1 / float(SCALE))
    total = sum(q ** abs(z) * (abs(z - move) - abs(z)) for z in range(-400, 400))
    return PICO * total / float(SCALE) * (1 - q) / (1 + q)


def divergence(moves: list[int]) -> float:
    return sum(kl(abs(move)) for move in moves)


@settings(deadline=None, max_examples=120, derandomize=True)
@given(workloads(), st.integers(1, 3))
def test_the_loss_of_a_cell_is_that_of_its_column(workload: Workload, rows: int) -> None:
    found = footprint(workload, dataset(rows=rows), GaussianNoise(VARIANCE)).rho
    for cell in cells(workload.domain):
        moves = [rows * w for w in column(workload, cell)]
        assert told(found, cell) == math.ceil(gaussian(moves))


@settings(deadline=None, max_examples=60, derandomize=True)
@given(workloads(), st.integers(1, 2))
def test_laplace_noise_costs_a_cell_its_own_divergence(workload: Workload, rows: int) -> None:
    found = footprint(workload, dataset(rows=rows), LaplaceNoise(SCALE))
    assert found.epsilon is not None
    for cell in cells(workload.domain):
        moves = [rows * w for w in column(workload, cell)]
        exact = divergence(moves)
        assert exact * (1 - 1e-9) - 1e-3 <= told(found.rho, cell) <= exact * (1 + 1e-9) + 1
        epsilon = Fraction(sum(map(abs, moves))) / SCALE * PICO
        assert told(found.epsilon, cell) == math.ceil(epsilon)


@settings(deadline=None, max_examples=100, derandomize=True)
@given(workloads(), st.integers(1, 3), st.sampled_from([ADD, REPLACE]), st.booleans())
def test_the_largest_loss_is_the_price(
    workload: Workload, rows: int, neighbours: Neighbours, gauss: bool
) -> None:
    where = dataset(neighbours, 1 if neighbours is REPLACE else rows)
    noise = GaussianNoise(VARIANCE) if gauss else LaplaceNoise(SCALE)
    price = Price.of(quote(workload, where, noise))
    found = largest([footprint(workload, where, noise)])
    assert found.rho <= price.rho
    empty = not any(any(column(workload, cell)) for cell in cells(workload.domain))
    if gauss and neighbours is ADD:
        assert found.rho == (0 if empty else price.rho)
    if neighbours is ADD and not gauss:
        assert found.epsilon == (0 if empty else price.epsilon)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.lists(workloads(), min_size=1, max_size=4), st.booleans())
def test_a_person_of_several_rows_loses_no_more_than_is_spent(
    listed: list[Workload], gauss: bool
) -> None:
    """Units of up to two rows, by all pairs of cells (Cauchy-Schwarz; convexity)."""
    where, noise = dataset(rows=2), GaussianNoise(VARIANCE) if gauss else LaplaceNoise(SCALE)
    spent = largest(footprint(workload, where, noise) for workload in listed)
    whole = Domain(("a", "b", "c"), (3, 3, 3))
    for x, y in itertools.combinations_with_replacement(cells(whole), 2):
        if not all(inside(workload, x) and inside(workload, y) for workload in listed):
            continue
        moves = [
            p + q
            for workload in listed
            for p, q in zip(column(workload, x), column(workload, y), strict=True)
        ]
        loss = gaussian(moves) if gauss else divergence(moves) * (1 - 1e-9)
        assert loss <= spent.rho
        assert gauss or Fraction(sum(map(abs, moves))) / SCALE * PICO <= (spent.epsilon or 0)


def inside(workload: Workload, cell: dict[str, int]) -> bool:
    return all(
        cell[n] < s for n, s in zip(workload.domain.names, workload.domain.sizes, strict=True)
    )


@settings(deadline=None, max_examples=80, derandomize=True)
@given(st.lists(workloads(blocks=2), min_size=1, max_size=4), st.booleans())
def test_a_replaced_row_loses_no_more_than_is_spent(listed: list[Workload], gauss: bool) -> None:
    """All pairs of cells, and nothing, over all releases."""
    where, noise = dataset(REPLACE), GaussianNoise(VARIANCE) if gauss else LaplaceNoise(SCALE)
    spent = largest(footprint(workload, where, noise) for workload in listed)
    whole = [*cells(Domain(("a", "b", "c"), (3, 3, 3))), None]
    columns = {}
    for at, cell in enumerate(whole):
        if cell is None:
            columns[at] = [0] * sum(workload.size for workload in listed)
        elif all(inside(workload, cell) for workload in listed):
            columns[at] = [w for workload in listed for w in column(workload, cell)]
    for x, y in itertools.combinations(columns.values(), 2):
        moves = [p - q for p, q in zip(x, y, strict=True)]
        loss = gaussian(moves) if gauss else divergence(moves) * (1 - 1e-9)
        assert loss <= spent.rho
        assert gauss or Fraction(sum(map(abs, moves))) / SCALE * PICO <= (spent.epsilon or 0)


@pytest.mark.parametrize("room", [1, 4, 12])
@settings(deadline=None, max_examples=60, derandomize=True)
@given(workload=workloads(), gauss=st.booleans())
def test_where_tables_are_too_large_losses_are_bounded(
    room: int, workload: Workload, gauss: bool
) -> None:
    noise = GaussianNoise(VARIANCE) if gauss else LaplaceNoise(SCALE)
    exact = footprint(workload, dataset(), noise)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(footprints, "MOST_ENTRIES", room)
        footprints._KNOWN.clear()
        footprints._MADE.clear()
        bound = footprint(workload, dataset(), noise)
    price = Price.of(quote(workload, dataset(), noise))
    for cell in cells(workload.domain):
        assert told(exact.rho, cell) <= told(bound.rho, cell)
    assert largest([bound]).rho <= price.rho


@pytest.mark.parametrize("room", [1, 3, 8])
@settings(deadline=None, max_examples=60, derandomize=True)
@given(workload=workloads(), rows=st.integers(1, 2))
def test_classes_that_are_joined_lose_no_more_than_the_worst_of_them_did(
    room: int, workload: Workload, rows: int
) -> None:
    exact = footprint(workload, dataset(rows=rows), GaussianNoise(VARIANCE))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept, "ENTRIES", room)
        footprints._MADE.clear()
        joined = footprint(workload, dataset(rows=rows), GaussianNoise(VARIANCE))
    assert all(len(factor.table) <= room for factor in joined.rho.factors)
    for cell in cells(workload.domain):
        assert told(exact.rho, cell) <= told(joined.rho, cell)
    if len(exact.rho.factors) < 2:
        assert largest([joined]) == largest([exact])


# -- what people ask -------------------------------------------------------------------------------


def leaf(name: str, size: int, *codes: int) -> Leaf:
    return Leaf(
        Domain((name,), (size,)),
        np.array([TRUE if c in codes else FALSE for c in range(size)], np.uint8),
    )


COUNT = (Weight((Term(ALWAYS),)),)
GRID = Domain(("a", "b"), (10, 10))


def by(name: str) -> Grouping:
    key = Domain((name,), (10,)), np.arange(10), 1
    return Grouping((key,), np.arange(10))


def ask(where: object, *groupings: Grouping, weights: tuple[Weight, ...] = COUNT) -> Footprint:
    workload = Workload(GRID, (Block(where, weights, groupings or (TOTAL,)),))
    return footprint(workload, dataset(), GaussianNoise(Fraction(PICO, 2)))


def test_a_histogram_of_everybody_is_a_constant() -> None:
    assert ask(ALWAYS, by("a")).rho == Loss(1)
    assert ask(ALWAYS, by("a"), by("b"), TOTAL).rho == Loss(3)


def test_only_conditions_touch_columns() -> None:
    found = ask(leaf("a", 10, 2, 3), by("b")).rho
    assert [axis.name for axis in found.factors[0].axes] == ["a"]
    assert found.factors[0].axes[0].starts == (0, 2, 4)
    assert ask(Or((leaf("a", 10, 2), leaf("a", 10, *set(range(10)) - {2})))).rho == Loss(1)


def test_what_nobody_answers_costs_nothing() -> None:
    assert largest([ask(And((leaf("a", 10, 1), leaf("a", 10, 2))))]).rho == 0


def test_the_cells_of_a_report_one_by_one_cost_what_it_costs_whole() -> None:
    cells_ = [ask(And((leaf("a", 10, i), leaf("b", 10, j)))) for i in range(10) for j in range(10)]
    assert largest(cells_) == largest([ask(ALWAYS, by("a"))]) == Price(1, None)


def test_sums_charge_by_the_size_of_what_they_add() -> None:
    ages = Weight((Term(ALWAYS, Table(Domain(("a",), (10,)), np.arange(10))),))
    found = ask(ALWAYS, weights=(ages,)).rho
    assert [told(found, {"a": a, "b": 0}) for a in range(10)] == [a * a for a in range(10)]


def test_under_replace_one_a_total_costs_one_and_a_histogram_two() -> None:
    where, noise = dataset(REPLACE), GaussianNoise(Fraction(PICO, 2))

    def cost(*questions: tuple[object, Grouping]) -> int:
        state = Joint()
        for condition, grouping in questions:
            workload = Workload(GRID, (Block(condition, COUNT, (grouping,)),))
            price = Price.of(quote(workload, where, noise))
            state.pay(state.spent, price, footprint(workload, where, noise), "", 1)
        return state.spent.rho

    women, men = leaf("a", 10, *range(5)), leaf("a", 10, *range(5, 10))
    assert cost((ALWAYS, TOTAL)) == cost((women, TOTAL)) == 1
    assert cost((ALWAYS, by("a"))) == cost((women, TOTAL), (men, TOTAL)) == 2
    assert cost(*((leaf("a", 10, code), TOTAL) for code in range(10))) == 2
    assert cost(*((ALWAYS, TOTAL) for _ in range(5))) == 5


def test_a_footprint_is_read_back_as_it_was() -> None:
    for found in (
        ask(leaf("a", 10, 2, 3), by("b")),
        footprint(
            Workload(GRID, (Block(leaf("a", 10, *range(0, 10, 2)), COUNT, (TOTAL,)),)),
            dataset(),
            LaplaceNoise(SCALE),
        ),
    ):
        assert Footprint.from_text(found.text) == found
    wide = Domain(("w",), (5000,))
    values = Table(wide, np.arange(5000))
    large = footprint(
        Workload(wide, (Block(ALWAYS, (Weight((Term(ALWAYS, values),)),), (TOTAL,)),)),
        dataset(),
        GaussianNoise(VARIANCE),
    )
    assert Footprint.from_text(large.text) == large


OTHERS = [
    "",
    "{}",
    "x",
    '{"version":2,"rho":[0,[],0,false],"epsilon":null}',
    '{"version":1,"rho":[0,[],-1,false],"epsilon":null}',
]


@pytest.mark.parametrize("text", OTHERS)
def test_what_is_no_footprint_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not|Expecting|bad"):
        Footprint.from_text(text)


def test_laplace_losses_never_exceed_the_events_bound() -> None:
    """The event only knows D1 and the largest move; the footprint knows every move."""
    steps = Weight((Term(ALWAYS, Table(Domain(("a",), (10,)), np.arange(10))),))
    workload = Workload(GRID, (Block(ALWAYS, (*COUNT, steps), (TOTAL,)),))
    event = quote(workload, dataset(), LaplaceNoise(SCALE))
    assert isinstance(event, Laplace)
    found = largest([footprint(workload, dataset(), LaplaceNoise(SCALE))])
    assert found.rho <= event.rho and found.epsilon == event.epsilon
