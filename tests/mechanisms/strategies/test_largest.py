"""The least largest error, against its table and the optimum of the mean."""

from __future__ import annotations

import numpy as np
import pytest

from dpsql.errors import UsageError
from dpsql.mechanisms.strategies.largest import smallest_largest
from dpsql.mechanisms.strategies.optimum import optimum
from dpsql.mechanisms.strategies.rows import Listed, Prefixes, Ranges, matrix


@pytest.mark.parametrize(
    ("rows", "least", "mean"),
    [
        (Prefixes(64), 2.1156, 2.0999),
        (Prefixes(256), 2.5374, 2.5244),
        (Ranges(64), 2.493, 2.3022),
        (Ranges(256), 3.096, 2.9014),
    ],
)
def test_the_table_is_met(rows: Prefixes | Ranges, least: float, mean: float) -> None:
    """The table's values were within 0.2 % of the least; the mean is never above the largest."""
    found = smallest_largest(rows, gap=5e-3)
    assert found.gap <= 5e-3
    assert found.lower <= least + 5e-4 and found.rmse <= least * 1.005
    assert found.rmse >= mean


def test_the_largest_error_is_what_the_strategy_gives() -> None:
    for rows in (Prefixes(40), Ranges(20)):
        found = smallest_largest(rows)
        written = matrix(rows).astype(float)
        answers = written @ np.linalg.pinv(found.matrix)
        assert np.sqrt((answers**2).sum(1).max()) == pytest.approx(found.rmse, rel=1e-6)
        listed = smallest_largest(Listed(written))
        assert listed.rmse == pytest.approx(found.rmse, rel=1e-6)
        assert optimum(rows.gram(), rows.count).lower <= found.rmse


def test_less_than_full_rank_and_cells_that_are_not_counted() -> None:
    rng = np.random.default_rng(5)
    written = rng.integers(0, 2, (20, 60)).astype(float)
    written[:, 7] = 0
    found = smallest_largest(Listed(written))
    answers = written @ np.linalg.pinv(found.matrix)
    assert answers @ found.matrix == pytest.approx(written, abs=1e-6)
    assert np.sqrt((answers**2).sum(1).max()) == pytest.approx(found.rmse, rel=1e-5)
    assert found.gap <= 5e-3 and (found.matrix[:, 7] == 0).all()


def test_a_gap_that_is_no_number_is_refused() -> None:
    with pytest.raises(UsageError, match="gap"):
        smallest_largest(Prefixes(4), gap=float("nan"))
