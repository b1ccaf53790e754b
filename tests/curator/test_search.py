"""The search against the whole grid: never below the largest column, and equal when it says so."""

from __future__ import annotations

import itertools
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.curator import norms, search
from dpsql.curator.columns import Family, Moved, most
from dpsql.curator.sensitivity import sensitivity
from dpsql.domain import Domain
from dpsql.query.linear import Block, Grouping, Table, Term, Weight, Workload
from dpsql.query.predicate import ALWAYS, FALSE, TRUE, UNKNOWN, And, Is, Leaf, Not, Or
from dpsql.schema import Neighbours

GRID = Domain(("a", "b", "c", "d"), (2, 3, 4, 5))
SIZES = dict(zip(GRID.names, GRID.sizes, strict=True))


def domain_of(names) -> Domain:
    return Domain(tuple(names), tuple(SIZES[name] for name in names))


TRUTHS = st.sampled_from([FALSE, UNKNOWN, TRUE])
COLUMNS = st.lists(st.sampled_from(GRID.names), min_size=1, max_size=2, unique=True)


@st.composite
def leaves(draw):
    domain = domain_of(sorted(draw(COLUMNS)))
    table = draw(st.lists(TRUTHS, min_size=domain.cells, max_size=domain.cells))
    return Leaf(domain, np.array(table, np.uint8))


def grown(inner):
    several = st.lists(inner, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        several.map(And), several.map(Or), inner.map(Not), st.builds(Is, inner, TRUTHS)
    )


PREDICATES = st.recursive(leaves(), grown, max_leaves=5)


@st.composite
def weights(draw):
    """A count, or numbers where a predicate holds and other numbers where it does not."""
    predicate = draw(PREDICATES)
    if draw(st.booleans()):
        return Weight((Term(predicate),), draw(st.sampled_from([1, 1, 1, 3])))
    name = draw(st.sampled_from(GRID.names))
    numbers = st.lists(st.integers(-9, 9), min_size=SIZES[name], max_size=SIZES[name])
    tables = [Table(domain_of([name]), np.array(draw(numbers), np.int64)) for _ in range(2)]
    other = Not(Is(predicate, TRUE))
    return Weight((Term(predicate, tables[0]), Term(other, tables[1])))


WEIGHTS = weights()


@st.composite
def families(draw):
    tests = draw(st.lists(PREDICATES, max_size=2))
    listed = draw(st.lists(WEIGHTS, min_size=1, max_size=4))
    return Family(tuple(tests), tuple(listed), draw(st.integers(1, 3)))


def judged(listed) -> Moved:
    return most(listed, GRID.grid(), GRID.cells)


@settings(max_examples=100, deadline=None)
@given(st.lists(families(), min_size=1, max_size=3))
def test_a_search_that_ends_finds_the_largest_column(listed):
    assert search.search(listed, GRID) == judged(listed)


@settings(max_examples=60, deadline=None)
@given(st.lists(families(), min_size=1, max_size=3), st.integers(1, 4))
def test_a_search_in_small_slices_finds_the_same(listed, size):
    """Wide columns are looked at some values at a time."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(search, "_SLICE", size)
        assert search.search(listed, GRID) == judged(listed)


@pytest.mark.parametrize("size", [2, search._SLICE])
@settings(max_examples=200, deadline=None)
@given(weight=WEIGHTS)
def test_a_weight_has_one_size_only_if_all_of_its_numbers_say_so(size, weight):
    """Else counts would be taken for what they are not: `squared` is then divided by the size."""
    numbers = {0} if weight.terms else set()
    for term in weight.terms:
        numbers |= {1} if term.table is None else set(np.abs(term.table.values).tolist())
    told = {number * weight.factor for number in numbers if number}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(search, "_SLICE", size)
        found = search._size(weight)
    assert found == (None if len(told) > 1 else max(told, default=0))


def test_a_sum_over_millions_of_values_is_soon_and_exactly_bounded():
    """Nine million values: sorted they would take 2 GB. The largest is not at an end."""
    values = np.arange(9_000_000) % 8_999_993 - 4_000_000
    alone = Domain(("v",), (len(values),))
    weight = Weight((Term(ALWAYS, Table(alone, values)),), 2)
    some = np.full(len(values), FALSE, np.uint8)
    some[100:5_000_000] = TRUE
    for where, largest in ((ALWAYS, 4_999_992), (Leaf(alone, some), 3_999_900)):
        workload = Workload(alone, (Block(where, (weight,), (TOTAL,)),))
        tracemalloc.start()
        found = sensitivity(workload, Neighbours.ADD_REMOVE, 1)
        held = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert found.exact and found.largest == found.absolute == 2 * largest
        assert found.squared == (2 * largest) ** 2
        assert held < 200e6


@pytest.mark.parametrize("work", [0, 40, 400])
@settings(max_examples=40, deadline=None)
@given(listed=st.lists(families(), min_size=1, max_size=3))
def test_a_search_cut_short_is_never_below_the_truth(work, listed):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(search, "_WORK", work)
        patched.setattr(search, "_BEAM", 1)
        patched.setattr(search, "_SLICE", 7)
        found, truth = search.search(listed, GRID), judged(listed)
    assert found is not None
    assert found.squared >= truth.squared
    assert found.absolute >= truth.absolute
    assert found.largest >= truth.largest
    if found.exact:
        assert found == truth


def test_sums_beyond_64_bits_are_not_searched():
    heavy = Table(domain_of(["a"]), np.array([1 << 36, 0], np.int64))
    assert search.search([Family((), (Weight((Term(ALWAYS, heavy),)),), 1)], GRID) is None


# -- a hundred counts on a large universe ------------------------------------------------------


def boxes(rng: np.random.Generator, domain: Domain, count: int) -> list[dict[str, range]]:
    """Conditions on one to three columns, an interval of each."""
    found = []
    for _ in range(count):
        names = rng.choice(domain.names, size=rng.integers(1, 4), replace=False)
        box = {}
        for name in names:
            size = domain.sizes[domain.names.index(name)]
            first, last = sorted(rng.integers(0, size, 2).tolist())
            box[str(name)] = range(first, last + 1)
        found.append(box)
    return found


def predicate(domain: Domain, box: dict[str, range]) -> And:
    parts = []
    for name, values in box.items():
        size = domain.sizes[domain.names.index(name)]
        table = np.full(size, FALSE, np.uint8)
        table[values.start : values.stop] = TRUE
        parts.append(Leaf(Domain((name,), (size,)), table))
    return And(tuple(parts))


def met(domain: Domain, listed: list[dict[str, range]]) -> int:
    """The most boxes that share a cell: intervals share one where some of them begins."""
    starts = [
        sorted({0, *(box[name].start for box in listed if name in box)}) for name in domain.names
    ]
    best = 0
    for cell in itertools.product(*starts[:-1]):
        here = [
            box
            for box in listed
            if all(v in box[n] for n, v in zip(domain.names[:-1], cell, strict=True) if n in box)
        ]
        if len(here) > best:
            last = domain.names[-1]
            at = [sum(last not in box or v in box[last] for box in here) for v in starts[-1]]
            best = max(best, *at)
    return best


TOTAL = Grouping((), np.zeros(1, np.int64))
WIDE = Domain(("a", "b", "c", "d", "e"), (90, 80, 70, 30, 20))


@pytest.fixture(scope="module")
def listed() -> list[dict[str, range]]:
    return boxes(np.random.default_rng(7), WIDE, 30)


def test_many_counts_in_one_statement_move_by_those_that_a_row_meets(listed, monkeypatch):
    ws = tuple(Weight((Term(predicate(WIDE, box)),)) for box in listed)
    monkeypatch.setattr(norms, "_VISITED", 1 << 10)  # too many atoms to visit, as with more counts
    found = sensitivity(Workload(WIDE, (Block(ALWAYS, ws, (TOTAL,)),)), Neighbours.ADD_REMOVE, 1)
    assert (found.squared, found.absolute, found.largest) == (met(WIDE, listed),) * 2 + (1,)
    assert found.exact
    assert found.squared < len(listed)


def test_counts_joined_by_union_all_move_like_those_of_one_select(listed, monkeypatch):
    monkeypatch.setattr(norms, "_VISITED", 1 << 10)
    blocks = tuple(
        Block(predicate(WIDE, box), (Weight((Term(ALWAYS),)),), (TOTAL,)) for box in listed
    )
    found = sensitivity(Workload(WIDE, blocks), Neighbours.ADD_REMOVE, 3)
    assert Fraction(found.squared, 9) == met(WIDE, listed)
    assert found.exact


@pytest.mark.parametrize("visited", [True, False], ids=["visited", "searched"])
def test_many_weights_of_many_values_are_looked_at_some_at_a_time(visited, monkeypatch):
    """1,500 running counts of as many values; 10,000 of them took gigabytes."""
    size = 1_500
    alone = Domain(("v",), (size,))
    monkeypatch.setattr(norms, "_HELD", 1 << 18, raising=False)
    monkeypatch.setattr(search, "_HELD", 1 << 18, raising=False)
    if not visited:
        monkeypatch.setattr(norms, "_WORK", 0)
        monkeypatch.setattr(norms, "_LONE", 0, raising=False)
    truths = [(np.arange(size) <= last).astype(np.uint8) * TRUE for last in range(size)]
    running = [Weight((Term(Leaf(alone, truth)),)) for truth in truths]
    fifty = [tuple(running[at : at + 50]) for at in range(0, size, 50)]
    blocks = tuple(Block(ALWAYS, weights, (TOTAL,)) for weights in fifty)
    tracemalloc.start()
    found = sensitivity(Workload(alone, blocks), Neighbours.ADD_REMOVE, 1)
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.exact and found.squared == found.absolute == size
    assert held < 20e6, "all sizes at once are 18 MB, and were held several times"
