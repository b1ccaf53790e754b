"""Matrices along one axis: exact however long and large, undone, and checked."""

from __future__ import annotations

import numpy as np
import pytest

from dpsql.mechanisms.strategies.formulas import root
from dpsql.query.axis import Axis, Haar, Listed, Toeplitz, axis_of, haar_levels


def axes(size: int) -> list[Axis]:
    rng = np.random.default_rng(size)
    matrix = rng.integers(-50, 50, (size, size)) + 1000 * np.eye(size, dtype=np.int64)
    return [
        Listed(matrix),
        Toeplitz(np.array([3]), rng.integers(1, 9, size)),
        root(size, even=False),
        root(size, even=True),
        Haar(size, tuple(range(1, haar_levels(size) + 1))),
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 100])
def test_all_that_is_told_of_a_matrix_is_true_of_it(size: int) -> None:
    """By dense algebra on the matrix that measuring single values gives."""
    rng = np.random.default_rng(3)
    for axis in axes(size):
        matrix = axis.measured(np.eye(size, dtype=np.int64)).T
        inverse = np.linalg.inv(matrix.astype(np.float64))
        table = rng.integers(0, 1 << 30, (2, 3, size))
        np.testing.assert_array_equal(axis.measured(table), table @ matrix.T)
        exact = axis.measured(table.astype(object) * 10**20)
        assert (exact == (table @ matrix.T).astype(object) * 10**20).all()
        np.testing.assert_array_equal(axis.norms, (matrix**2).sum(axis=0))
        assert axis.inner <= (matrix.T @ matrix).min()
        assert axis.reach >= np.abs(matrix).sum(axis=1).max()
        some = rng.normal(size=(2, 3, size))
        size_of = np.abs(inverse).max()
        for told, right in (
            (axis.solved(some), some @ inverse.T),
            (axis.turned(some), some @ inverse),
            (axis.columns(size // 2, size), inverse[:, size // 2 :]),
        ):
            np.testing.assert_allclose(told, right, rtol=1e-7, atol=1e-9 * size_of)
        again = axis_of(axis.to_list())
        np.testing.assert_array_equal(again.measured(table), axis.measured(table))


def test_long_axes_are_measured_to_the_last_digit() -> None:
    """8,192 values of up to 2^50 rows, against sums of Python integers."""
    size = 1 << 13
    axis = root(size, even=True)
    table = np.random.default_rng(1).integers(0, 1 << 50, size)
    found = axis.measured(table.astype(object))
    scaled = [int(x) * int(d) for x, d in zip(table, axis.scales, strict=True)]
    steps = axis.steps.tolist()
    for at in (0, 1, 4095, size // 3, size - 1):
        assert found[at] == sum(steps[at - k] * scaled[k] for k in range(at + 1))
    small = table >> 30
    np.testing.assert_array_equal(axis.measured(small), axis.measured(small.astype(object)))
    back = axis.solved(axis.measured(small).astype(np.float64))
    np.testing.assert_allclose(back, small, atol=1e-3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Listed(np.ones((2, 3), np.int64)),
        lambda: Listed(np.full((2, 2), 1 << 27)),
        lambda: Toeplitz(np.array([0, 1]), np.ones(2, np.int64)),
        lambda: Toeplitz(np.array([1, -1]), np.ones(2, np.int64)),
        lambda: Toeplitz(np.array([1, 1, 1]), np.ones(2, np.int64)),
        lambda: Toeplitz(np.array([1]), np.array([1, 0])),
        lambda: Toeplitz(np.array([1 << 31]), np.ones(1, np.int64)),
        lambda: Haar(4, (1, 1)),
        lambda: Haar(4, (1, 0, 1)),
        lambda: axis_of(["other"]),
    ],
)
def test_what_is_no_such_matrix_is_refused(make) -> None:
    with pytest.raises(ValueError):
        make()
