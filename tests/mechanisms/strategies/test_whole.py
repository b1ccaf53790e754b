"""Rounding to whole numbers: sums of many cells stay near, where rounding each would drift."""

from __future__ import annotations

import numpy as np
import pytest

from dpsql.mechanisms.reuse.design import Design
from dpsql.mechanisms.strategies.whole import whole
from dpsql.query.canon import Family


def family(shape, axes):
    """The marginal of a product of columns a, b, ... on some of them."""
    names = [chr(ord("a") + k) for k in axes]
    classes = {n: np.arange(shape[k]) for n, k in zip(names, axes, strict=True)}
    cells = int(np.prod([shape[k] for k in axes], dtype=np.int64))
    ones = np.ones(cells, np.int64)
    return Family.of(classes, np.arange(cells), ones, 1, np.arange(cells))


@pytest.mark.parametrize("part", [0.1, 0.4, 0.5, 0.6])
def test_marginals_of_many_cells_stay_near(part):
    shape = (20, 15, 6)
    sets = [(0, 1, 2), (0, 1), (0, 2), (1, 2), (0,), (1,), (2,), ()]
    design = Design.of([family(shape, axes) for axes in sets])
    draw = np.random.default_rng(8)
    table = draw.integers(-5, 50, design.atoms) + part + draw.uniform(-0.1, 0.1, design.atoms)
    found = whole(design, table, [1.0] * len(sets))
    assert found.dtype == np.int64 and (np.abs(found - table) < 1.0).all()
    off = (found - table)[np.argsort(design.first)].reshape(shape)
    naive = (np.rint(table) - table)[np.argsort(design.first)].reshape(shape)
    for axes in sets[1:]:
        rest = tuple(k for k in range(3) if k not in axes)
        assert np.abs(off.sum(axis=rest)).max() <= 4.0
    assert part == 0.5 or abs(naive.sum()) > 100.0


def test_whole_numbers_stay_as_they_are():
    design = Design.of([family((4, 3), (0, 1)), family((4, 3), (0,))])
    table = np.arange(12.0) - 3
    assert (whole(design, table, [1.0, 4.0]) == table).all()
