"""Sums of cells over fewer columns are exact."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.curator.cells import Cells, project
from dpsql.curator.sealed import Sealed, unseal

Table = dict[tuple[int, ...], int]


def cells(table: Table, width: int) -> Cells:
    codes = {f"c{i}": np.array([key[i] for key in table], np.int64) for i in range(width)}
    return Cells(codes, np.array(list(table.values()), np.int64))


def summed(table: Table, places: list[int]) -> Counter[tuple[int, ...]]:
    sums: Counter[tuple[int, ...]] = Counter()
    for key, count in table.items():
        sums[tuple(key[place] for place in places)] += count
    return sums


def listed(found: Cells) -> Counter[tuple[int, ...]]:
    codes = [array.tolist() for array in found.codes.values()]
    keys = list(zip(*codes, strict=True)) if codes else [()]
    assert len(set(keys)) == len(keys)
    return Counter(dict(zip(keys, found.counts.tolist(), strict=True)))


@given(st.data())
def test_a_projection_is_the_sum_over_the_other_columns(data: st.DataObject) -> None:
    width = data.draw(st.integers(1, 5))
    largest = data.draw(st.sampled_from([1, 3, 300, 10**7, 10**15]))
    key = st.tuples(*[st.integers(0, largest)] * width)
    table = data.draw(st.dictionaries(key, st.integers(1, 2**40), min_size=1, max_size=40))
    places = data.draw(st.lists(st.integers(0, width - 1), unique=True, max_size=width))
    found = unseal(project(Sealed(cells(table, width)), [f"c{place}" for place in places]))
    assert listed(found) == summed(table, places)
    assert list(found.codes) == [f"c{place}" for place in places]


def test_sums_beyond_a_double_are_exact() -> None:
    table = {(0, i): 2**53 + 1 for i in range(8)}
    found = unseal(project(Sealed(cells(table, 2)), ["c0"]))
    assert found.counts.tolist() == [8 * (2**53 + 1)]


def test_the_projection_on_no_column_is_one_cell_even_of_no_rows() -> None:
    empty = cells({}, 2)
    assert unseal(project(Sealed(empty), [])).counts.tolist() == [0]
    assert unseal(project(Sealed(empty), ["c1"])).counts.tolist() == []


def test_a_column_that_is_not_there_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        project(Sealed(cells({(0,): 1}, 1)), ["c1"])


def test_cells_count_their_memory_and_cannot_be_changed() -> None:
    made = cells({(0, 1): 1, (1, 1): 5}, 2)
    assert made.nbytes == 2 * 3 * 8
    with pytest.raises(ValueError):
        made.counts[0] = 7
    with pytest.raises(TypeError):
        made.codes["c0"] = made.counts


def test_cells_of_other_types_or_lengths_are_refused() -> None:
    for codes in (np.zeros(3, np.int64), np.zeros(2, np.int32), np.zeros((2, 1), np.int64)):
        with pytest.raises(ValueError):
            Cells({"a": codes}, np.ones(2, np.int64))
