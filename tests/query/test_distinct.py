"""The distinct columns of W against all columns, one cell at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.domain import Domain
from dpsql.query import distinct as module
from dpsql.query.distinct import distinct
from dpsql.query.linear import Block, Grouping, Term, Weight, Workload
from dpsql.query.predicate import ALWAYS
from tests.curator.brute import WIDE, cells, column, workloads


def brute(workload) -> set[tuple[int, ...]]:
    return {tuple(column(workload, cell)) for cell in cells(workload.domain)}


def listed(found) -> list[tuple[int, ...]]:
    pieces = [columns.T for columns in found.slices(entries=5)]
    return [tuple(int(x) for x in row) for row in np.concatenate(pieces)]


@settings(deadline=None, max_examples=300, derandomize=True)
@given(workloads())
def test_every_column_is_listed(workload):
    found = distinct(workload, 1 << 20)
    assert found is not None and found.queries == workload.size
    assert set(listed(found)) == brute(workload)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(workloads())
def test_few_rows_are_made_at_a_time(workload):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_STEP", 2)
        found = distinct(workload, 1 << 20)
    assert found is not None and set(listed(found)) == brute(workload)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(workloads(WIDE).filter(lambda w: w.size > 0))
def test_weights_are_those_that_are_measured(workload):
    found = distinct(workload, 1 << 20)
    assert found is not None
    small = found.small()
    assert {tuple(map(int, row)) for row in small.T} == brute(workload)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(workloads())
def test_what_is_drawn_makes_no_difference_to_the_order(workload):
    """Else another process would plan another strategy. The first list is forgotten."""
    found = distinct(workload, 1 << 20)
    assert found is distinct(workload, 1 << 20)
    module._LISTED.clear()
    assert listed(distinct(workload, 1 << 20)) == listed(found)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(workloads(), st.integers(0, 12))
def test_a_limit_holds_whether_or_not_a_list_is_remembered(workload, most):
    wanted = len(brute(workload)) <= most
    assert (distinct(workload, most) is not None) <= wanted
    whole = distinct(workload, 1 << 20)
    assert whole is not None
    again = distinct(workload, most)
    assert again is whole if whole.size <= most else again is None


@settings(deadline=None, max_examples=100, derandomize=True)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.integers(1, 64))
def test_equal_sums_are_one_and_others_are_not(drawn, bits):
    """Also where all sums come to the same place of the table."""
    sums = np.array([drawn, [x // 2 for x in drawn]], np.uint64) << np.uint64(64 - bits)
    first, of = module._alike(sums)
    pairs = list(map(tuple, sums.T.tolist()))
    assert first.tolist() == [pairs.index(pair) for pair in dict.fromkeys(pairs)]
    assert [pairs[first[at]] for at in of] == pairs


@settings(deadline=None, max_examples=100, derandomize=True)
@given(workloads())
def test_what_is_foreseen_is_never_more_than_what_is_met(workload):
    """Else listing would be given up that could be done."""
    follow = module._Ways.followed
    seen = []

    def followed(ways, sums, of, most):
        made = follow(ways, sums, of, most)
        assert made is not None
        seen.append((ways.least, len(made[0]), ways.most))
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module._Ways, "followed", followed)
        assert distinct(workload, 1 << 20) is not None
    assert all(least <= met <= most for least, met, most in seen)


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "_MOST_KEPT", 1)
    one, other = (Workload(Domain((), ()), (block,)) for block in (plain(), plain()))
    first = distinct(one, 10)
    assert distinct(other, 10) is distinct(other, 10)
    assert list(module._LISTED) == [other] and distinct(one, 10) is not first


def plain() -> Block:
    return Block(ALWAYS, (Weight((Term(ALWAYS),)),), (Grouping((), np.zeros(1, np.int64)),))


@settings(deadline=None, max_examples=60, derandomize=True)
@given(workloads())
def test_too_many_are_not_listed(workload):
    found = distinct(workload, 1)
    assert found is None or found.size == 1


@settings(deadline=None, max_examples=60, derandomize=True)
@given(workloads(WIDE).filter(lambda w: w.size > 0))
def test_products_are_those_with_the_columns(workload):
    found = distinct(workload, 1 << 20)
    assert found is not None
    columns = np.concatenate(list(found.slices()), axis=1)
    vector = np.random.default_rng(7).integers(-9, 10, found.queries).astype(np.float64)
    assert (found.products(vector) == vector @ columns).all()
    assert (found.products(vector, squared=True) == vector @ columns**2).all()
    picked = np.arange(found.size)[::-2]
    assert (found.columns(picked) == columns[:, picked]).all()


def test_sums_that_meet_are_told_apart_by_the_second():
    """Without it two columns would be one, and the sensitivity of the other not be charged."""
    sums = np.array([[5, 5, 7, 5], [1, 2, 3, 1]], np.uint64)
    first, of = module._alike(sums)
    assert first.tolist() == [0, 1, 2] and of.tolist() == [0, 1, 2, 0]
