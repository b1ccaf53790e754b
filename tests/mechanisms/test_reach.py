"""How far integer columns reach, against brute force in Python's integers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.mechanisms import reach
from dpsql.mechanisms.reach import Moved, farthest, largest


def _far(columns: np.ndarray) -> tuple[int, int]:
    whole = [[int(x) for x in column] for column in columns.T]
    nothing = [0] * len(columns)
    pairs = itertools.combinations([*whole, nothing], 2)
    return (
        max(sum(x * x for x in column) for column in whole),
        max(sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) for a, b in pairs),
    )


@settings(deadline=None, max_examples=100, derandomize=True)
@given(st.integers(1, 5), st.integers(1, 9), st.sampled_from([1, 2**20, 2**31]), st.integers(0, 99))
def test_largest_and_farthest_are_those_of_brute_force(
    rows: int, columns: int, size: int, seed: int
) -> None:
    """At 2^31 squares do not fit float64's integers, and their sums not int64."""
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-size, size, (rows, columns), endpoint=True)
    one, two = _far(matrix)
    assert largest(Moved(matrix)) == one
    assert farthest(Moved(matrix)) == (two, True)


def test_products_with_columns_are_exact_beyond_float64() -> None:
    rng = np.random.default_rng(12)
    columns = rng.integers(0, 3, (6, 40))
    for size in (2**20, 2**50):
        matrix = rng.integers(-size, size, (4, 6))
        exact = matrix.astype(object) @ columns.astype(object)
        assert (Moved(matrix, columns).all() == exact).all()
        assert largest(Moved(matrix, columns)) == max((exact**2).sum(0))
    with pytest.raises(OverflowError, match="62 bits"):
        Moved(np.full((1, 6), 2**61), columns)


def test_many_columns_have_a_bound_that_is_sound_and_exact_when_it_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(13)
    spread = rng.integers(-1000, 1000, (3, 400))
    ball = np.rint(rng.normal(size=(30, 400)) * 100).astype(np.int64)
    for columns, exact in ((spread, True), (ball, None)):
        truth = farthest(Moved(columns))
        monkeypatch.setattr(reach, "_COMPARED", 100)
        bound, known = farthest(Moved(columns))
        monkeypatch.undo()
        assert truth[1] and bound >= truth[0]
        assert bound == truth[0] or not known
        assert known or exact is None
