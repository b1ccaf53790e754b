"""Strategies with a formula, against the table, each other and a search."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpsql.errors import UsageError
from dpsql.mechanisms.hierarchy import (
    best_tree,
    haar,
    identity,
    itself,
    rmse,
    root_toeplitz,
    total,
    tree,
    weighted_haar,
    weighted_tree,
)
from dpsql.mechanisms.optimum import optimum
from dpsql.mechanisms.rows import Prefixes, Ranges, matrix
from dpsql.mechanisms.toeplitz import RootToeplitz

TABLE = [
    (Prefixes(64), 5.701, 2.518, 2.128),
    (Prefixes(256), 11.336, 3.102, 2.557),
    (Prefixes(1024), 22.638, 3.686, 2.991),
    (Ranges(64), 4.690, 3.015, 2.465),
    (Ranges(256), 9.274, 3.835, 3.086),
    (Ranges(1024), 18.493, 4.654, 3.711),
]


@pytest.mark.parametrize(("rows", "alone", "binary", "toeplitz"), TABLE)
def test_the_table_of_reference_values_is_met(
    rows: Prefixes | Ranges, alone: float, binary: float, toeplitz: float
) -> None:
    gram, root = rows.gram(), RootToeplitz(rows.cells)
    fast = root.prefix_rmse() if isinstance(rows, Prefixes) else root.range_rmse()
    assert round(math.sqrt(np.trace(gram) / rows.count), 3) == alone
    assert round(fast, 3) == toeplitz
    if rows.cells < 1000:
        assert round(rmse(identity(rows.cells), gram, rows.count), 3) == alone
        assert round(rmse(tree(rows.cells), gram, rows.count), 3) == binary
        assert round(rmse(root_toeplitz(rows.cells), gram, rows.count), 3) == toeplitz


def test_prefixes_themselves_cost_the_root_of_the_cells() -> None:
    for cells, expected in ((64, 8.0), (256, 16.0)):
        rows = Prefixes(cells)
        assert rmse(itself(matrix(rows)), rows.gram(), cells) == pytest.approx(expected)


def test_what_a_strategy_does_not_answer_has_no_finite_error() -> None:
    assert rmse(total(8), Prefixes(8).gram(), 8) == math.inf
    assert rmse(total(8), np.ones((8, 8)), 1) == pytest.approx(1.0)


@pytest.mark.parametrize("rows", [Prefixes(64), Ranges(64), Prefixes(50), Ranges(81)])
def test_weights_on_levels_help_and_no_tree_beats_the_optimum(rows: Prefixes | Ranges) -> None:
    gram, count = rows.gram(), rows.count
    least = optimum(gram, count).lower
    weighted = rmse(weighted_tree(gram), gram, count)
    branching, best = best_tree(gram, count)
    assert least <= rmse(best, gram, count) <= weighted <= rmse(tree(rows.cells), gram, count)
    assert best == pytest.approx(weighted_tree(gram, branching))
    for strategy in (best, tree(rows.cells), identity(rows.cells), root_toeplitz(rows.cells)):
        assert (strategy**2).sum(0).max() == pytest.approx(1.0)


@pytest.mark.parametrize("branching", [2, 4])
def test_no_other_weights_on_levels_are_better(branching: int) -> None:
    """Around the best, and at random: a thousand trees of 16 cells."""
    rng = np.random.default_rng(11)
    gram = Ranges(16).gram()
    best = rmse(weighted_tree(gram, branching), gram, 136)
    levels = [np.kron(np.eye(16 // size), np.ones((1, size))) for size in _sizes(branching)]
    for _ in range(500):
        weights = rng.exponential(size=len(levels))
        other = np.vstack([w * level for w, level in zip(weights, levels, strict=True)])
        assert best <= rmse(other, gram, 136) * (1 + 1e-9)


def _sizes(branching: int) -> list[int]:
    return [branching**level for level in range(5) if branching**level <= 16]


def test_haar_at_its_best_weights_is_the_binary_tree_at_its_best() -> None:
    """Unless the tree's weights would be negative; where total alone is asked they differ."""
    for rows in (Prefixes(32), Ranges(32)):
        gram, count = rows.gram(), rows.count
        one = rmse(weighted_haar(gram), gram, count)
        assert one == pytest.approx(rmse(weighted_tree(gram), gram, count))
        assert one <= rmse(haar(32), gram, count)
    centred = np.eye(32) - 1 / 32
    assert rmse(weighted_haar(centred), centred, 32) <= rmse(weighted_tree(centred), centred, 32)


def test_toeplitz_without_a_matrix_is_toeplitz_with_one() -> None:
    root, written = RootToeplitz(37), root_toeplitz(37)
    histogram = np.random.default_rng(6).integers(0, 100, 37).astype(float)
    assert root.measured(histogram) == pytest.approx(written @ histogram)
    assert root.estimate(root.measured(histogram)) == pytest.approx(histogram)
    assert root.prefix_rmse() == pytest.approx(rmse(written, Prefixes(37).gram(), 37))
    assert root.range_rmse() == pytest.approx(rmse(written, Ranges(37).gram(), 37 * 19))


def test_toeplitz_serves_a_hundred_thousand_cells() -> None:
    root = RootToeplitz(100_000)
    histogram = np.zeros(100_000)
    histogram[[0, 777, 99_999]] = 5
    assert root.estimate(root.measured(histogram)) == pytest.approx(histogram, abs=1e-8)


def test_shapes_that_have_no_strategy_are_refused() -> None:
    with pytest.raises(UsageError, match="power of 2"):
        haar(12)
    with pytest.raises(UsageError, match="branches"):
        tree(8, 1)
    with pytest.raises(UsageError, match="one cell"):
        RootToeplitz(0)
    with pytest.raises(UsageError, match="some cell"):
        itself(np.zeros((2, 2)))
