"""Queries that are not written out, against those that are."""

from __future__ import annotations

import numpy as np
import pytest

from dpsql.errors import UsageError
from dpsql.mechanisms.strategies.rows import Listed, Prefixes, Ranges, matrix


@pytest.mark.parametrize("rows", [Prefixes(1), Prefixes(7), Ranges(1), Ranges(6)])
def test_implicit_queries_are_those_written_out(rows: Prefixes | Ranges) -> None:
    rng = np.random.default_rng(2)
    listed = Listed(matrix(rows).astype(float))
    weights = rng.random(rows.count)
    noise = rng.normal(size=(rows.cells, rows.cells))
    assert (listed.count, listed.cells) == (rows.count, rows.cells)
    assert rows.gram() == pytest.approx(listed.gram())
    assert rows.gram(weights) == pytest.approx(listed.gram(weights))
    assert rows.variances(noise @ noise.T) == pytest.approx(listed.variances(noise @ noise.T))


def test_no_cells_are_refused() -> None:
    for kind in (Prefixes, Ranges):
        with pytest.raises(UsageError, match="one cell"):
            kind(0)
    with pytest.raises(UsageError, match="finite"):
        Listed(np.array([[np.inf]]))
    with pytest.raises(UsageError, match="written out"):
        matrix(Listed(np.eye(2)))
