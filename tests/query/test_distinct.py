"""The distinct columns of W against all columns, one cell at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from dpsql.query import distinct as module
from dpsql.query.distinct import distinct
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
    assert sorted(module._first(sums).tolist()) == [0, 1, 2]
