"""The exact maximum of a sum of factors, against brute force and against dynamic programming."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from dpsql.accounting.footprints import elimination, tables
from dpsql.accounting.footprints.elimination import columns, count, greatest
from dpsql.accounting.footprints.footprint import Axis, Factor
from dpsql.accounting.footprints.runs import Runs
from dpsql.accounting.footprints.tables import Tables
from dpsql.accounting.kept.pack import pack, unpack
from dpsql.accounting.purse import LIMIT
from tests.accounting.factors import SIZES, at, brute, cells, everywhere, factors
from tests.accounting.people import only

calm = hypothesis.settings(derandomize=True, deadline=None, max_examples=120)


@pytest.fixture(params=[(64, 1 << 15), (1, 1), (0, 1), (1, 1 << 15)])
def _limits(request: pytest.FixtureRequest) -> Iterator[None]:
    """How many factors wait, and how small a problem is solved column by column."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "PENDING", request.param[0])
        patch.setattr(elimination, "SMALL", request.param[1])
        yield


fixed = hypothesis.settings(
    calm, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)


def completed(cell: dict[str, int]) -> Iterator[dict[str, int]]:
    """A cell with every code of the columns that it leaves out."""
    left = [name for name in SIZES if name not in cell]
    for codes in itertools.product(*(range(SIZES[name]) for name in left)):
        yield cell | dict(zip(left, codes, strict=True))


def check(found: Tables, listed: list[Factor]) -> None:
    assert found.high == brute(listed)
    for cell in completed(found.cell):
        assert sum(at(factor, cell) for factor in listed) == found.high


def read_back(found: Tables) -> Tables:
    data = pack(found.to_tree())
    again = Tables.from_tree(unpack(data))
    assert pack(again.to_tree()) == data
    return again


steps = st.lists(
    st.tuples(st.sampled_from(["go on", "trial", "read", "again", "keep the copy"]), factors()),
    min_size=1,
    max_size=12,
)


@pytest.mark.usefixtures("_limits")
@fixed
@hypothesis.given(steps)
def test_high_is_the_largest_sum_and_it_is_in_the_cell(taken: list[tuple[str, Factor]]) -> None:
    found, listed = Tables(), list[Factor]()
    for step, factor in taken:
        chosen = listed[0] if step == "again" and listed else factor
        if step == "trial":  # that is given up
            trial = found.copy()
            assert trial.add(factor) and trial.add(only("a", 2, 10))
            check(trial, [*listed, factor, only("a", 2, 10)])
            chosen = only("b", 1, 3)
        elif step == "read":
            found = read_back(found)
        elif step == "keep the copy":
            kept = found.copy()
            assert found.add(only("c", 0, 8))
            found = kept
        assert found.add(chosen)
        listed.append(chosen)
        check(found, listed)


@pytest.mark.usefixtures("_limits")
@fixed
@hypothesis.given(st.lists(factors(), min_size=1, max_size=8))
def test_nobody_has_lost_more_than_the_tops_say(listed: list[Factor]) -> None:
    found = Tables()
    for factor in listed:
        assert found.add(factor)
    assert found._settle()
    lost = list(map(sum, zip(*map(everywhere, listed), strict=True)))
    for place, (name, runs) in enumerate(zip(found.names, found.runs, strict=True)):
        for cell, loss in zip(cells(), lost, strict=True):
            top = found.tops.most(place, runs.at(np.array([cell[name]])))
            assert loss <= top <= found.high


@calm
@hypothesis.given(st.lists(factors(), min_size=1, max_size=8))
def test_what_is_read_back_goes_on_as_what_was_written(listed: list[Factor]) -> None:
    found = Tables()
    for factor in listed:
        again = read_back(found)
        assert found.add(factor) and again.add(factor)
        assert pack(again.to_tree()) == pack(found.to_tree())


@calm
@hypothesis.given(
    st.lists(factors(), min_size=1, max_size=10),
    st.sampled_from(
        [
            (tables, "CELLS", 12),
            (tables, "ENTRIES", 3000),
            (tables, "ENTRIES", 9000),
            (tables, "FEW", 0),
            (tables, "LUCK", 0),
            (elimination, "CELLS", 12),
        ]
    ),
)
def test_tables_are_exact_until_they_say_that_they_are_not(
    listed: list[Factor], limit: tuple[object, str, int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elimination, "SMALL", 1)
        patch.setattr(*limit)
        found = Tables()
        for number, factor in enumerate(listed, 1):
            if not found.add(factor):
                return
            check(found, listed[:number])


@pytest.mark.parametrize(
    ("room", "name", "least"),
    [(tables, "CELLS", 47), (tables, "ENTRIES", 1 << 11), (elimination, "CELLS", 15)],
)
def test_what_takes_too_much_is_given_up(
    monkeypatch: pytest.MonkeyPatch, room: object, name: str, least: int
) -> None:
    asked = [Factor((axis(a, 4), axis(b, 4)), tuple(range(16))) for a, b in ("ab", "bc", "ca")]
    asked.append(only("a", 0, 100))
    monkeypatch.setattr(elimination, "SMALL", 1)
    assert all(map(Tables().add, asked))
    found = Tables()
    monkeypatch.setattr(room, name, least)
    assert [found.add(factor) for factor in asked] == [True, True, True, False]


def axis(name: str, size: int) -> Axis:
    """A column whose codes are all told apart."""
    return Axis(name, tuple(range(size)), tuple(range(size)))


def test_a_chain_of_twelve_columns_is_exact() -> None:
    """A trillion combinations, against dynamic programming along the chain."""
    draw = random.Random(5)
    losses = [[[0] * 9 for _ in range(9)] for _ in range(11)]
    found = Tables()
    for number in range(400):
        place, x, y, lost = draw.randrange(11), draw.randrange(9), draw.randrange(9), 1
        if number % 5 == 0:
            lost = draw.randrange(1, 9)
        losses[place][x][y] += lost
        one, other = only(f"c{place}", x, 1), only(f"c{place + 1}", y, 1)
        table = [0, 0, 0, 0]
        table[2 * one.table.index(1) + other.table.index(1)] = lost
        assert found.add(Factor((*one.axes, *other.axes), tuple(table)))
        best = [0] * 9
        for step in losses:
            best = [max(best[x] + step[x][y] for x in range(9)) for y in range(9)]
        assert found.high == max(best)
    assert math.prod(runs.size for runs in found.runs) > 1 << 30
    assert sum(table.size for table in found.tables.values()) == 11 * 10**2
    codes = [found.cell.get(f"c{place}", 0) for place in range(12)]
    assert found.high == sum(losses[i][codes[i]][codes[i + 1]] for i in range(11))


def test_thresholds_that_all_differ_tell_ranges_apart_by_slices() -> None:
    found, draw = Tables(), random.Random(2)
    lost = np.zeros((60, 60), np.int64)
    for _ in range(150):
        x, y, rho = draw.randrange(1, 60), draw.randrange(1, 60), draw.randrange(1, 9)
        low, high = Axis("a", (0, x), (0, 1)), Axis("b", (0, y), (0, 1))
        where = draw.randrange(4)
        assert found.add(Factor((low, high), tuple(rho * (at == where) for at in range(4))))
        rows = slice(x, None) if where // 2 else slice(0, x)
        lost[rows, slice(y, None) if where % 2 else slice(0, y)] += rho
        assert found.high == lost.max() == lost[found.cell["a"], found.cell["b"]]
    for runs in found.runs:
        assert np.array_equal(runs.classes, np.arange(runs.size))


def test_tables_of_fewer_columns_go_into_one_that_has_them() -> None:
    found = Tables()
    listed = [
        only("a", 0, 1),
        only("b", 0, 2),
        Factor((axis("b", 2), axis("c", 3)), (0, 1, 2, 3, 4, 5)),
        Factor((axis("c", 2), axis("b", 2), axis("a", 2)), tuple(range(8))),
        only("d", 1, 1),
    ]
    for number, factor in enumerate(listed, 1):
        assert found.add(factor) and found._settle()
        check(found, listed[:number])
    names = [[found.names[place] for place in columns(mask)] for mask in found.tables]
    assert names == [["a", "b", "c"], ["d"]]


def test_copies_share_tables_until_one_writes() -> None:
    found = Tables()
    for code in (0, 1, 2):
        assert found.add(only("a", code, 5)) and found.add(only("b", code, 5)) and found._settle()
    other = found.copy()
    assert all(found.tables[mask] is other.tables[mask] for mask in found.tables)
    assert other.add(only("a", 1, 2)) and other._settle()
    assert [found.tables[mask] is other.tables[mask] for mask in found.tables] == [False, True]
    assert (found.high, other.high) == (10, 12)
    assert found.add(only("b", 2, 1)) and found.high == 11 and other.high == 12


def test_sums_near_the_largest_number_do_not_wrap() -> None:
    found = Tables()
    third = LIMIT // 3
    for _ in range(2):
        assert found.add(only("a", 1, third)) and found.add(only("b", 1, third // 4))
    assert found.add(only("a", 2, third)) and found.add(only("b", 2, third // 4))
    assert found.add(only("a", 0, 2 * third))
    assert found.add(only("b", 0, third // 2)) and found.high == 2 * third + 2 * (third // 4)
    assert found.add(only("a", 0, third // 4))
    assert found.high == 2 * third + third // 4 + 2 * (third // 4)
    assert (found.tops.bounds >= 0).all()


@st.composite
def summands(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, np.ndarray]]]:
    """The sizes of columns, and tables over some of them."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    listed = []
    for mask in draw(st.lists(st.integers(0, 2 ** len(sizes) - 1), max_size=8)):
        shape = [sizes[place] for place in columns(mask)]
        losses = st.sampled_from([0, 0, 1, 2]) | st.integers(0, 10**12)
        entries = draw(st.lists(losses, min_size=math.prod(shape), max_size=math.prod(shape)))
        listed.append((mask, np.array(entries, np.int64).reshape(shape)))
    return sizes, listed


@calm
@hypothesis.given(summands(), st.sampled_from([1, 10, 1 << 15]), st.integers(0, 4))
def test_elimination_finds_the_largest_sum_and_where_it_is(
    given: tuple[list[int], list[tuple[int, np.ndarray]]], small: int, floor: int
) -> None:
    sizes, listed = given

    def total(codes: tuple[int, ...]) -> int:
        return sum(int(table[tuple(codes[at] for at in columns(mask))]) for mask, table in listed)

    kept = [table.copy() for _, table in listed]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elimination, "SMALL", small)
        found = greatest(listed, sizes, floor, 1 << 30)
    best = max(map(total, itertools.product(*map(range, sizes))))
    assert found is not None and all(map(np.array_equal, kept, (table for _, table in listed)))
    if best <= floor:
        assert best <= found.high <= floor
    else:
        cell = found.cell
        assert found.high == best == total(tuple(cell.get(at, 0) for at in range(len(sizes))))
        last = tuple(cell.get(at, size - 1) for at, size in enumerate(sizes))
        assert total(last) == best


def test_elimination_leaves_the_tables_as_they_are() -> None:
    listed = [(0b111, np.arange(8).reshape(2, 2, 2)), (0b011, np.eye(2, dtype=np.int64))]
    listed.append((0b001, np.array([0, 9])))
    kept = [table.copy() for _, table in listed]
    found = greatest(listed, [2, 2, 2], 0, 1 << 30)
    assert found is not None and (found.high, found.cell) == (17, {0: 1, 1: 1, 2: 1})
    assert all(map(np.array_equal, kept, (table for _, table in listed)))


def test_classes_are_numbered_by_their_least_code() -> None:
    runs = Runs.of(only("a", 5, 1).axes[0])
    for other in (
        Axis("a", (0, 11), (0, 1)),
        Axis("a", (0, 3, 8), (0, 1, 0)),
        Axis("a", (0,), (0,)),
    ):
        met, here, there = runs.meet(other)
        codes = [met.code(number) for number in range(met.size)]
        assert codes == sorted(codes)
        assert np.array_equal(here, runs.at(np.array(codes)))
        assert there.tolist() == [other.at(code) for code in codes]
        assert there.tolist() == met.inside(other).tolist()
        runs = met
    assert runs.size == 4


def test_tops_of_classes_that_lost_nothing_stay() -> None:
    found = Tables()
    for code, rho in ((1, 50), (0, 20), (0, 7), (2, 5)):
        assert found.add(only("a", code, rho)) and found._settle()
    (runs,) = found.runs
    tops = [found.tops.most(0, runs.at(np.array([code]))) for code in range(4)]
    assert (found.high, tops) == (50, [27, 50, 5, 0])


def test_a_set_of_columns_is_its_bits() -> None:
    assert columns(0) == () and columns(0b101001) == (0, 3, 5)
    assert count(0, []) == 1 and count(0b101, [2, 9, 7]) == 14
