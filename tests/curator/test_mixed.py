"""Strategies against brute force: what each row and each pair of rows moves."""

from __future__ import annotations

import functools
import itertools
import math
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
from dpsql.query.axis import Axis, Haar, Listed, Toeplitz, haar_levels
from dpsql.query.contrasts import Contrast
from dpsql.query.linear import Block, Grouping, Term, Weight, Workload
from dpsql.query.predicate import ALWAYS, FALSE, TRUE, Leaf
from dpsql.query.strategy import Mixed, Part, Product, Residuals, Strategy
from tests.curator.brute import ADD, REPLACE, WIDE, cells, column, workloads
from tests.curator.test_footprint import dataset, told

VARIANCE = Fraction(7, 3)
ASKED = workloads().filter(lambda w: w.size > 0)


@st.composite
def strategies(draw, small: int = 9):
    """One or two parts that mix all queries, or the weights of each group."""
    parts = []
    workload = draw(ASKED)
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


SIZES = {"a": 4, "b": 2, "c": 3}


@st.composite
def residuals(draw, first: str = "a"):
    """Residual tables of some sets of keys, with up to two weights and perhaps a condition."""
    names = {name: chr(ord(name) - ord("a") + ord(first)) for name in SIZES}
    domains = {name: Domain((names[name],), (size,)) for name, size in SIZES.items()}
    merged = {name: np.arange(size) for name, size in SIZES.items()}
    merged["a"] = np.array(
        draw(st.permutations(draw(st.sampled_from([[0, 1, 2, 3], [0, 1, 2, 2]]))))
    )
    sizes = tuple(int(merged[name].max()) + 1 for name in SIZES)
    every = [some for r in range(4) for some in itertools.combinations(range(3), r)]
    sets = draw(st.lists(st.sampled_from(every), min_size=1, max_size=4, unique=True))
    groupings = []
    for keys in sets:
        shape = [sizes[key] for key in keys]
        strides = [math.prod(shape[at + 1 :]) for at in range(len(shape))]
        mine = [list(SIZES)[key] for key in keys]
        own = tuple(
            (domains[n], merged[n], stride) for n, stride in zip(mine, strides, strict=True)
        )
        groupings.append(Grouping(own, np.arange(math.prod(shape))))

    def leaf(name: str) -> Leaf:
        truth = st.lists(st.sampled_from([TRUE, FALSE]), min_size=SIZES[name], max_size=SIZES[name])
        return Leaf(domains[name], np.array(draw(truth), np.uint8))

    where = draw(st.sampled_from([ALWAYS, leaf("c"), leaf("a")]))
    weights = [Weight((Term(ALWAYS),), draw(st.integers(1, 3))), Weight((Term(leaf("b")),))]
    weights = weights[: draw(st.integers(1, 2))]
    workload = Workload(
        Domain(tuple(names.values()), tuple(SIZES.values())),
        (Block(where, tuple(weights), tuple(groupings)),),
    )
    factors = draw(st.lists(st.integers(1, 7), min_size=len(sets), max_size=len(sets)))
    numbers = st.lists(st.integers(-4, 4), min_size=len(weights) ** 2, max_size=len(weights) ** 2)
    matrix = np.array(draw(numbers), np.int64).reshape(len(weights), -1)
    return Strategy((Residuals(workload, sizes, tuple(sets), tuple(factors), matrix),))


@st.composite
def products(draw, first: str = "a"):
    """Tables through a matrix along each of up to three columns; one or two measured together."""
    parts = []
    for _ in range(draw(st.integers(1, 2))):
        names = draw(st.lists(st.sampled_from([*SIZES]), max_size=3, unique=True))
        keys, axes, stride = [], [], 1
        for name in sorted(names):
            listed = draw(st.lists(st.integers(0, 2), min_size=SIZES[name], max_size=SIZES[name]))
            merged = np.unique(listed, return_inverse=True)[1].astype(np.int64)
            keys.append((chr(ord(name) - ord("a") + ord(first)), SIZES[name], merged))
            axes.append(draw(axis(int(merged.max()) + 1)))
        grouped: list[tuple[Domain, np.ndarray, int]] = []
        for (name, size, merged), each in zip(reversed(keys), reversed(axes), strict=True):
            grouped.insert(0, (Domain((name,), (size,)), merged, stride))
            stride *= each.size
        block = Block(
            ALWAYS, (Weight((Term(ALWAYS),)),), (Grouping(tuple(grouped), np.arange(stride)),)
        )
        domain = Domain(tuple(key[0] for key in keys), tuple(key[1] for key in keys))
        parts.append(Product(Workload(domain, (block,)), tuple(axes), draw(st.integers(1, 3))))
    return Strategy(tuple(parts))


@st.composite
def axis(draw, size: int):
    """A matrix of each kind along an axis."""

    def whole(low: int, high: int, count: int) -> np.ndarray:
        numbers = st.lists(st.integers(low, high), min_size=count, max_size=count)
        return np.array(draw(numbers), np.int64)

    match draw(st.sampled_from(["listed", "toeplitz", "haar"])):
        case "listed":
            return Listed(whole(-4, 4, size * size).reshape(size, size))
        case "toeplitz":
            steps = whole(0, 4, draw(st.integers(1, size)))
            return Toeplitz(steps + (np.arange(len(steps)) == 0), whole(1, 3, size))
        case _:
            return Haar(size, tuple(whole(1, 4, haar_levels(size)).tolist()))


RESIDUALS = residuals("u")
PRODUCTS = products("u")
MIXED = strategies().filter(lambda found: found is not None)


@st.composite
def both(draw):
    """Parts that mix queries, residual tables and products, measured together."""
    mixed = draw(MIXED)
    return Strategy((*mixed.parts, *draw(RESIDUALS).parts, *draw(PRODUCTS).parts))


SMALL = st.one_of(MIXED, residuals(), products(), both())


@functools.cache
def contrast(size: int) -> np.ndarray:
    """Q by its definition: signs by the parity of common bits, or n I - 11'."""
    if size in (2, 4, 8, 16):
        return np.array(
            [[(-1) ** (i & j).bit_count() for j in range(size)] for i in range(1, size)]
        )
    return size * np.eye(size, dtype=np.int64) - 1


@functools.cache
def contrasts(sizes: tuple[int, ...]) -> np.ndarray:
    return functools.reduce(np.kron, map(contrast, sizes), np.ones((1, 1), np.int64))


def along(axis: Axis) -> np.ndarray:
    """The matrix of an axis by its definition."""
    match axis:
        case Listed(matrix=matrix):
            return matrix
        case Toeplitz(steps=steps, scales=scales):
            size = len(scales)
            below = sum(step * np.eye(size, k=-k, dtype=np.int64) for k, step in enumerate(steps))
            return np.asarray(below * scales)
        case Haar(size=size, factors=factors):
            blocks, found = [[at] for at in range(size)], []
            for factor in factors[:-1]:
                pairs = [blocks[at : at + 2] for at in range(0, len(blocks), 2)]
                for pair in pairs:
                    if len(pair) == 2:
                        signs = [(at in pair[0]) - (at in pair[1]) for at in range(size)]
                        found.append([factor * sign for sign in signs])
                blocks = [[at for block in pair for at in block] for pair in pairs]
            return np.array([*found, [factors[-1]] * size])


def values(part: Part, cell: dict[str, int]) -> list[int]:
    """What one row in a cell adds to the values of a part, by hand."""
    own = column(part.workload, cell)
    if isinstance(part, Product):
        kron = np.full((1, 1), part.factor)
        for axis in part.axes:
            kron = np.kron(kron, along(axis))
        return (kron @ np.array(own)).tolist()
    if isinstance(part, Residuals):
        found, start = [], 0
        for keys, factor in zip(part.sets, part.factors, strict=True):
            groups = math.prod(part.sizes[key] for key in keys)
            table = np.array(own[start : start + groups * part.width]).reshape(groups, part.width)
            kron = contrasts(tuple(part.sizes[key] for key in keys))
            found += (factor * kron @ table @ part.matrix.T).reshape(-1).tolist()
            start += groups * part.width
        return found
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


@pytest.mark.parametrize("size", range(2, 20))
def test_contrasts_are_what_they_say(size):
    own, dense = Contrast(size), contrast(size)
    assert (own.measured(np.eye(size, dtype=np.int64), 0) == dense).all()
    assert dense.shape == (own.rows, size) and not dense.sum(axis=1).any()
    assert (dense.T @ dense == np.where(np.eye(size), own.norm, own.inner)).all()
    assert own.multiple * (size - 1) == own.norm * size
    assert own.reach == max(np.abs(dense).sum(axis=1))
    np.testing.assert_allclose(own.undone(np.eye(own.rows), 0), np.linalg.pinv(dense), atol=1e-12)


@settings(deadline=None, max_examples=40, derandomize=True)
@given(residuals())
def test_residual_tables_beyond_64_bits_are_exact(strategy):
    """As counts of 2^61 rows and more: in Python integers."""
    (part,) = strategy.parts
    for cell in cells(part.workload.domain):
        codes = {name: np.array([code], np.int64) for name, code in cell.items()}
        found = part.matvec(codes, np.array([(1 << 61) - 1], np.int64))
        assert found.reshape(-1).tolist() == [((1 << 61) - 1) * x for x in values(part, cell)]


@settings(deadline=None, max_examples=100, derandomize=True)
@given(residuals())
def test_all_groups_of_residual_tables_cost_the_same(strategy):
    """A row moves them by the scale times its mixed weights, in whichever groups it is."""
    (part,) = strategy.parts
    for cell, move in moves(strategy).items():
        codes = {name: np.array([code], np.int64) for name, code in cell}
        ((_, weights),) = part.columns(codes, 1)
        assert squares(move) == part.scale * int(((part.matrix @ weights) ** 2).sum())


LIMITS = [
    {"WORK": 0}, {"COLUMNS": 0, "CELLS": 1}, {"PAIRS": 0, "PAIRED": 0}, {"PAIRED": 0}, {"HELD": 2}
]  # fmt: skip


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@settings(deadline=None, max_examples=60, derandomize=True)
@given(strategy=SMALL, neighbours=st.sampled_from([ADD, REPLACE]))
def test_bounds_are_never_below_the_truth(limits, strategy, neighbours):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(mixed, name, value)
        found = reach(strategy, dataset(neighbours))
    truth = farthest(strategy, neighbours)
    assert found.squared >= truth and (not found.exact or found.squared == max(truth, 1))


@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
def test_what_is_rounded_up_is_not_called_exact(neighbours):
    """Squares beyond 2^53: floats hold no more, and a bound on what they lose is added."""
    domain = Domain(("a",), (2,))
    apart = Grouping(((domain, np.arange(2), 1),), np.arange(2))
    for times, exact in ((1 << 20, True), (1 << 27, False)):
        counts = Workload(domain, (Block(ALWAYS, (Weight((Term(ALWAYS),)),), (apart,)),))
        matrix = times * np.eye(2, dtype=np.int64) + 1
        found = reach(Strategy((Mixed(counts, matrix),)), dataset(neighbours))
        truth = farthest(Strategy((Mixed(counts, matrix),)), neighbours)
        assert found.exact is exact and found.squared >= truth
        assert (found.squared == truth) is exact


@settings(deadline=None, max_examples=150, derandomize=True)
@given(SMALL)
def test_the_bound_that_looks_at_no_column_holds_for_each_part(strategy):
    for part in strategy.parts:
        if isinstance(part, Product):  # whose longest column is always found
            assert reach(Strategy((part,)), dataset()).exact
            continue
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
