"""Sensitivity against brute force: dense matrices by hand, all neighbours, Python's integers."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.curator import norms, pairs
from dpsql.curator.sensitivity import Sensitivity, sensitivity
from dpsql.domain import Domain
from dpsql.errors import UsageError
from dpsql.query.linear import MAX_WEIGHT, Block, Grouping, Table, Term, Weight, Workload
from dpsql.query.predicate import ALWAYS, FALSE, TRUE, And, Is, Leaf
from tests.curator.brute import (
    ADD,
    REPLACE,
    WIDE,
    assert_exact,
    assert_sound,
    brute,
    cells,
    column,
    workloads,
)

# -- laws ----------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=50, derandomize=True)
@given(workloads())
def test_the_matrix_judged_is_the_one_that_is_measured(workload):
    for cell in cells(workload.domain):
        codes = {name: np.array([code], np.int64) for name, code in cell.items()}
        answers = workload.matvec(codes, np.array([1], np.int64))
        assert [int(x) for block in answers for x in block.ravel()] == column(workload, cell)


@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
@pytest.mark.parametrize("value", [1, -1, 2])
def test_a_lone_query_moves_by_its_largest_weight(value, neighbours):
    domain = Domain(("a",), (3,))
    where = Leaf(domain, np.array([TRUE, FALSE, TRUE], np.uint8))
    everyone = (Grouping((), np.zeros(1, np.int64)),)
    for table in (None, Table(domain, np.array([value, 1, 0], np.int64))):
        query = Workload(domain, (Block(where, (Weight((Term(ALWAYS, table),)),), everyone),))
        assert_exact(sensitivity(query, neighbours, 1), brute(query, neighbours))


@settings(deadline=None, max_examples=150, derandomize=True)
@given(st.one_of(workloads(), workloads(WIDE)), st.sampled_from([ADD, REPLACE]))
def test_small_workloads_have_their_exact_sensitivity(workload, neighbours):
    """In 64 bits and beyond them: weights up to 2^36, whose squares wrap (A3, A4)."""
    found = sensitivity(workload, neighbours, 1)
    truth = brute(workload, neighbours)
    assert_sound(found, truth)
    if found.exact:
        assert_exact(found, truth)
    assert found.exact or len(workload.blocks) > 1 or neighbours is REPLACE


@settings(deadline=None, max_examples=50, derandomize=True)
@given(workloads(blocks=2), st.integers(1, 3))
def test_the_worst_unit_puts_all_its_rows_into_one_cell(workload, rows):
    found = sensitivity(workload, ADD, rows)
    truth = brute(workload, ADD, rows)
    assert_sound(found, truth)
    if found.exact and truth.squared:
        assert_exact(found, truth)
    assert found.squared >= rows**2 and found.absolute >= found.largest >= rows


LIMITS = [{"_VISITED": 0}, {"_WORK": 8}, {"_VISITED": 3, "_PLAIN": 0}]


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@settings(deadline=None, max_examples=50, derandomize=True)
@given(workload=st.one_of(workloads(), workloads(WIDE)), neighbours=st.sampled_from([ADD, REPLACE]))
def test_bounds_are_never_below_the_truth(limits, workload, neighbours):
    """By components, by weights alike, and by the largest weights."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(norms, name, value)
        found = sensitivity(workload, neighbours, 1)
    truth = brute(workload, neighbours)
    assert_sound(found, truth)
    if found.exact:
        assert_exact(found, truth)


@pytest.mark.parametrize("limits", [*LIMITS, {"_VISITED": 1, "_PLAIN": 0}], ids=str)
@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
def test_what_no_row_moves_is_not_called_exact_for_what_it_could_move(limits, neighbours):
    """A condition on one column that nobody meets, and a weight of another column."""
    domain = Domain(("a", "b"), (3, 3))
    no = leaf("a", FALSE, FALSE, FALSE)
    weights = tuple(Weight((Term(ALWAYS, table(name, 1, 2, 5)),)) for name in "ab")
    nobody = Workload(domain, (Block(no, weights, (Grouping((), np.zeros(1, np.int64)),)),))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(norms, name, value)
        found = sensitivity(nobody, neighbours, 1)
    assert found == Sensitivity(1, 1, 1, found.exact) or not found.exact


@pytest.mark.parametrize("held", [0, 1 << 22])
@pytest.mark.parametrize("compared", [0, 12, 60])
@settings(deadline=None, max_examples=30, derandomize=True)
@given(workload=st.one_of(workloads(), workloads(WIDE)))
def test_pairs_cut_short_are_never_below_the_truth(held, compared, workload):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairs, "_HELD", held)
        patch.setattr(pairs, "_COMPARED", compared)
        found = sensitivity(workload, REPLACE, 1)
    truth = brute(workload, REPLACE)
    assert_sound(found, truth)
    if found.exact:
        assert_exact(found, truth)
    one = sensitivity(workload, ADD, 1)
    if one.exact:
        assert found.squared <= 4 * one.squared and found.absolute <= 2 * one.absolute


@settings(deadline=None, max_examples=50, derandomize=True)
@given(workload=st.one_of(workloads(), workloads(WIDE)))
def test_pairs_without_their_groups_are_never_below_the_truth(workload):
    columns = pairs._columns
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairs, "_by_norms", lambda *args: [1 << 120] * 3)
        patch.setattr(pairs, "_columns", lambda w, f, told: None if told else columns(w, f, told))
        found = sensitivity(workload, REPLACE, 1)
    assert found.squared < 1 << 120
    assert_sound(found, brute(workload, REPLACE))


@settings(deadline=None, max_examples=50, derandomize=True)
@given(workload=workloads(blocks=1))
def test_components_of_one_block_are_exact(workload):
    """What one visit of the whole domain finds, found by parts."""
    found = sensitivity(workload, ADD, 1)
    assert found.exact
    assert_exact(found, brute(workload, ADD))


# -- known answers -------------------------------------------------------------------------------


def leaf(name: str, *table: int) -> Leaf:
    return Leaf(Domain((name,), (len(table),)), np.array(table, np.uint8))


def table(name: str, *values: int) -> Table:
    return Table(Domain((name,), (len(values),)), np.array(values, np.int64))


COUNT = Weight((Term(ALWAYS),))
TOTAL = Grouping((), np.zeros(1, np.int64))


def by(name: str, size: int) -> Grouping:
    codes = np.arange(size, dtype=np.int64)
    return Grouping(((Domain((name,), (size,)), codes, 1),), codes)


def one_block(domain: Domain, where, ws, gs=(TOTAL,)) -> Workload:
    return Workload(domain, (Block(where, tuple(ws), tuple(gs)),))


AB = Domain(("a", "b"), (2, 3))


@pytest.mark.parametrize(
    ("workload", "added", "replaced"),
    [
        (one_block(AB, ALWAYS, [COUNT]), 1, 1),
        (one_block(AB, leaf("a", 0, 2), [COUNT]), 1, 1),
        (one_block(AB, ALWAYS, [COUNT], [by("b", 3)]), 1, 2),
        (one_block(AB, ALWAYS, [COUNT], [by("b", 3), TOTAL]), 2, 2),
        (one_block(AB, ALWAYS, [COUNT, COUNT], [by("a", 2), by("b", 3), TOTAL]), 6, 8),
        (one_block(AB, leaf("a", 0, 0), [COUNT]), 1, 1),
    ],
    ids=["total", "filter", "groups", "groups and total", "cube", "nobody"],
)
def test_counts_move_as_known(workload, added, replaced):
    """T43: replace-one is sqrt(2) of add-remove for a histogram, and equal for one count."""
    assert sensitivity(workload, ADD, 1).squared == added
    assert sensitivity(workload, REPLACE, 1).squared == replaced


def test_a_mean_costs_as_much_as_one_count():
    """Its two parts are disjoint: B02, an AVG is no two releases."""
    p, q = Term(leaf("a", 0, 2)), Term(leaf("a", 2, 0))
    mean = one_block(AB, ALWAYS, [Weight((p,)), Weight((q,))])
    assert sensitivity(mean, ADD, 1) == Sensitivity(1, 1, 1, True)
    assert sensitivity(mean, REPLACE, 1) == Sensitivity(2, 2, 1, True)
    values = one_block(
        AB, ALWAYS, [Weight((Term(ALWAYS, table("b", 0, 1, 2)),)),
                     Weight((Term(ALWAYS, table("b", 2, 1, 0)),))],
    )  # fmt: skip
    assert sensitivity(values, ADD, 1) == Sensitivity(4, 2, 2, True)


def test_disjoint_groups_do_not_add_up():
    many = Domain(("a",), (1000,))
    for ws in ([COUNT], [COUNT, COUNT]):
        found = sensitivity(one_block(many, ALWAYS, ws, [by("a", 1000)]), ADD, 1)
        assert found.squared == len(ws)


def test_blocks_that_exclude_each_other_do_not_add_up():
    halves = Workload(AB, tuple(Block(leaf("a", *t), (COUNT,), (TOTAL,)) for t in ((0, 2), (2, 0))))
    assert sensitivity(halves, ADD, 1) == Sensitivity(1, 1, 1, True)
    twice = Workload(AB, (Block(ALWAYS, (COUNT,), (TOTAL,)),) * 2)
    assert sensitivity(twice, ADD, 1) == Sensitivity(2, 2, 1, True)


def test_many_blocks_of_heavy_weights_do_not_wrap():
    """Sixteen blocks whose squares are each just within 62 bits: their sum is not."""
    heavy = (1 << 31) - 1
    blocks = [Block(ALWAYS, (Weight((Term(ALWAYS),), heavy),), (TOTAL,))] * 16
    for neighbours in (ADD, REPLACE):
        found = sensitivity(Workload(AB, tuple(blocks)), neighbours, 1)
        assert found.squared == 16 * heavy**2 > 1 << 63


def test_the_last_bits_of_heavy_weights_count():
    """Squares of about 2^72: floats cannot tell these two cells apart (A3)."""
    crowd = one_block(
        AB, ALWAYS, [Weight((Term(ALWAYS, table("b", MAX_WEIGHT, MAX_WEIGHT, 0)),)),
                     Weight((Term(ALWAYS, table("b", 705, 759, 0)),)),
                     Weight((Term(ALWAYS, table("b", 705, 0, 0)),))],
    )  # fmt: skip
    rough = np.array([[MAX_WEIGHT, 705, 705], [MAX_WEIGHT, 759, 0]], float) ** 2 @ np.ones(3)
    assert rough[0] < rough[1] and 2 * 705**2 > 759**2
    assert sensitivity(crowd, ADD, 1).squared == MAX_WEIGHT**2 + 2 * 705**2
    equal = [MAX_WEIGHT, MAX_WEIGHT, MAX_WEIGHT]
    last = one_block(
        AB, ALWAYS, [Weight((Term(ALWAYS, table("b", *equal)),)),
                     Weight((Term(ALWAYS, table("b", 1, 2, 1)),))],
    )  # fmt: skip
    assert float(MAX_WEIGHT**2 + 1) == float(MAX_WEIGHT**2 + 4)
    assert sensitivity(last, ADD, 1).squared == MAX_WEIGHT**2 + 4


def test_weights_beyond_the_integers_are_refused():
    """A4: by a bound on the workload alone."""
    heavy = one_block(AB, ALWAYS, [Weight((Term(ALWAYS, table("a", MAX_WEIGHT, 0)),), 4)])
    with pytest.raises(UsageError):
        sensitivity(heavy, ADD, 1)
    legal = one_block(AB, ALWAYS, [Weight((Term(ALWAYS, table("a", MAX_WEIGHT, 0)),))])
    with pytest.raises(UsageError):
        sensitivity(legal, ADD, 1 << 28)


def test_negative_weights_move_by_their_sum():
    signed = one_block(AB, ALWAYS, [Weight((Term(ALWAYS, table("b", -3, 0, 4)),))])
    assert sensitivity(signed, ADD, 1) == Sensitivity(16, 4, 4, True)
    assert sensitivity(signed, REPLACE, 1) == Sensitivity(49, 7, 7, True)


def test_rows_of_a_unit_multiply():
    found = sensitivity(one_block(AB, ALWAYS, [COUNT], [by("b", 3), TOTAL]), ADD, 4)
    assert found == Sensitivity(32, 8, 4, True)


def test_a_sensitivity_checks_itself():
    for wrong in ((0, 1, 1), (1, 0, 0), (1, 1, 2), (1, 1, 0)):
        with pytest.raises(ValueError):
            Sensitivity(*wrong, True)


def test_a_huge_universe_costs_nothing():
    """20 columns of 1,000 values, 12 means, a filter on each column, 48 groups: 10^60 cells."""
    names = tuple(f"c{i}" for i in range(20))
    domain = Domain(names, (1000,) * 20)
    half = np.repeat(np.array([0, 2], np.uint8), 500)
    test = {name: Leaf(Domain((name,), (1000,)), half) for name in names}
    ws = [Weight((Term(Is(test[name], truth)),)) for name in names[:12] for truth in (TRUE, FALSE)]
    keys = tuple(by(name, 1000) for name in names[:5])
    counts = Workload(domain, (Block(And(tuple(test.values())), (COUNT, *ws), keys),))
    started = time.process_time()
    found = sensitivity(counts, ADD, 1)
    assert time.process_time() - started < 0.1
    assert found == Sensitivity(13 * 5, 13 * 5, 1, True)
    bound = sensitivity(counts, REPLACE, 1)
    assert 13 * 5 * 2 >= bound.squared >= 13 * 5 and bound.largest == 1
    assert time.process_time() - started < 1.0
