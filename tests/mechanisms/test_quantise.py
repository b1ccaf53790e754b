"""Strategies on the grid: what they answer, how far they move, what their errors are."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.errors import UsageError
from dpsql.mechanisms.hierarchy import identity, total, tree
from dpsql.mechanisms.optimum import optimum
from dpsql.mechanisms.quantise import IntegerStrategy, of_answers, of_cells
from dpsql.mechanisms.querycov import noise_covariance
from dpsql.mechanisms.rows import Prefixes, Ranges, matrix
from dpsql.mechanisms.universe import ListedColumns


def _brute(columns: np.ndarray) -> tuple[int, int]:
    """The farthest that a row moves: coming or going, and replaced by another or by nothing."""
    whole = [tuple(int(x) for x in column) for column in columns.T]
    ends = [*whole, (0,) * len(columns)]
    return (
        max(sum(x * x for x in column) for column in whole),
        max(
            sum((x - y) ** 2 for x, y in zip(a, b, strict=True))
            for a, b in itertools.product(ends, ends)
        ),
    )


@pytest.mark.parametrize("rows", [Prefixes(24), Ranges(12)])
def test_the_grid_costs_next_to_nothing(rows: Prefixes | Ranges) -> None:
    written = matrix(rows)
    found = optimum(rows.gram(), rows.count)
    grid = of_cells(found.matrix, written)
    assert grid.bits == 20
    assert grid.reconstruction @ grid.matrix == pytest.approx(written, abs=1e-7)
    assert (grid.squared, grid.replaced) == _brute(grid.matrix)
    error = math.sqrt((grid.stddevs(grid.squared) ** 2).mean())
    assert error == pytest.approx(found.rmse, rel=1e-5)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.integers(1, 7), st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_every_workload_is_answered_without_bias(queries: int, cells: int, seed: int) -> None:
    """Of any rank: W = R A to 1e-7, and the sensitivity is that of the integers measured."""
    rng = np.random.default_rng(seed)
    workload = rng.integers(-2, 3, (queries, cells))
    workload[0, 0] = 1
    found = optimum(workload.T @ workload, queries)
    grid = of_cells(found.matrix, workload)
    assert grid.reconstruction @ grid.matrix == pytest.approx(workload, abs=1e-7)
    assert (grid.squared, grid.replaced) == _brute(grid.matrix) and grid.exact
    error = math.sqrt((grid.stddevs(grid.squared) ** 2).mean())
    assert error == pytest.approx(found.rmse, rel=1e-3)


def test_noise_on_answers_is_measured_through_the_queries() -> None:
    rng = np.random.default_rng(14)
    columns = np.unique((rng.random((10, 120)) < 0.3).astype(np.int8), axis=1)
    columns = np.vstack([columns, columns[:1] + columns[1:2]])  # a sum of two: rank 10 of 11
    found = noise_covariance(ListedColumns(columns), 11, gap=1e-3)
    grid = of_answers(found.root, columns)
    measured = grid.matrix @ columns.astype(np.int64)
    assert grid.of_answers and grid.matrix.shape == (10, 11)
    assert grid.reconstruction @ measured == pytest.approx(columns, abs=1e-7)
    assert (grid.squared, grid.replaced) == _brute(measured)
    error = math.sqrt((grid.stddevs(grid.squared) ** 2).mean())
    assert error == pytest.approx(found.rmse, rel=1e-3)


def test_two_thousand_runs_have_the_predicted_error() -> None:
    """RMSE within 2 % for prefixes of 32; 10 % more or less noise is told.

    The mean of 2,000 x 32 squared errors has a standard error of 1.1 % at most (prefixes are
    correlated: as if 5 were independent), so 4 % of squares are 3.5 standard errors: a false alarm
    in 2,000 seeds.
    """
    rng = np.random.default_rng(20)
    written = matrix(Prefixes(32))
    grid = of_cells(optimum(Prefixes(32).gram(), 32).matrix, written)
    histogram = rng.integers(0, 1_000, 32)
    stddev = 5 * math.sqrt(grid.squared)
    noise = np.rint(rng.normal(size=(2_000, len(grid.matrix))) * stddev).astype(np.int64)
    answers = (grid.matrix @ histogram + noise) @ grid.reconstruction.T
    seen = math.sqrt(((answers - written @ histogram) ** 2).mean())
    predicted = math.sqrt((grid.stddevs(stddev**2) ** 2).mean())
    assert predicted == pytest.approx(5 * optimum(Prefixes(32).gram(), 32).rmse, rel=1e-4)
    assert seen == pytest.approx(predicted, rel=0.02)
    assert seen != pytest.approx(predicted * 1.1, rel=0.02)
    assert seen != pytest.approx(predicted * 0.9, rel=0.02)


def test_standard_errors_of_differences_follow_the_covariance() -> None:
    grid = of_cells(tree(16), matrix(Prefixes(16)))
    covariance = grid.covariance(9.0)
    difference = np.eye(16)[12] - np.eye(16)[3]
    assert grid.stddev(difference, 9.0) ** 2 == pytest.approx(difference @ covariance @ difference)
    assert grid.stddevs(9.0) ** 2 == pytest.approx(np.diagonal(covariance))


def test_a_workload_that_does_not_follow_is_refused() -> None:
    with pytest.raises(UsageError, match="row space"):
        of_cells(total(4), np.eye(4))
    with pytest.raises(UsageError, match="same cells"):
        of_cells(identity(4), np.eye(5))
    with pytest.raises(UsageError, match="finite"):
        of_cells(np.full((2, 2), np.nan), np.eye(2))
    with pytest.raises(UsageError, match="span"):
        of_answers(np.array([[1.0, 0.0]]), np.eye(2, dtype=np.int64))
    with pytest.raises(UsageError, match="too large"):
        of_cells(np.eye(2) * 2.0**30, np.eye(2))


def test_an_integer_strategy_checks_itself() -> None:
    one = np.eye(1, dtype=np.int64)
    with pytest.raises(ValueError, match="at most twice"):
        IntegerStrategy(one, False, 20, 1, 5, True, np.eye(1))
    with pytest.raises(ValueError, match="int64"):
        IntegerStrategy(np.eye(1), False, 20, 1, 1, True, np.eye(1))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="every measured row"):
        IntegerStrategy(one, False, 20, 1, 1, True, np.ones((1, 2)))
