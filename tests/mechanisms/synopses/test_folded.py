"""Folded cliques: the same sums as over whole cliques, without their cells."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dpsql.domain import Domain
from dpsql.mechanisms.synopses import folded
from dpsql.mechanisms.synopses.ascent import Climb
from dpsql.mechanisms.synopses.calibration import Calibration, multiplied, swept
from dpsql.mechanisms.synopses.folded import Folded, Product, fold, functions
from dpsql.mechanisms.synopses.junction import CELLS
from dpsql.mechanisms.synopses.layout import Layout, layout
from dpsql.mechanisms.synopses.noisy import NoisyTable, whole

DOMAIN = Domain(tuple("abcdef"), (3, 2, 7, 4, 5, 6))


def laid(sets: list[str]) -> tuple[Layout, list[NoisyTable]]:
    tables = []
    for names in sets:
        shape = [DOMAIN.size(name) for name in names]
        tables.append(whole(DOMAIN, tuple(names), np.zeros(shape), 1.0))
    return layout(DOMAIN, tables, CELLS), tables


PAIRS = ["".join(pair) for pair in itertools.combinations("abcd", 2)]
SHAPES = {
    "pairs": ["a", "c", *PAIRS],
    "two cliques": [*PAIRS, "ae", "be", "ce", "ef"],
    "a table of three": [*PAIRS, "abe", "ce", "abc"],
    "one side": ["abc"],
    "a chain": ["ab", "bc", "cd", "de", "ef"],
}


@pytest.mark.parametrize("size", [0.3, 400.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_are_those_over_whole_cliques(
    shape: str, size: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where potentials are so large that no product of both sides could be told from 0."""
    monkeypatch.setattr(folded, "LARGE", 0)
    draw = np.random.default_rng(5)
    place, tables = laid(SHAPES[shape])
    base = {t: draw.normal(size=t.values.shape) for t in tables if len(t.names) < 3}
    found = Folded(place, tables, functions(place, base))
    for told in (tables, tables[:2], []):
        theta = {t: size * draw.normal(size=t.values.shape) for t in told}
        chances, mass = found.summed(theta)
        both = {t: base.get(t, 0.0) + theta.get(t, 0.0) for t in [*base, *theta]}
        whole = Calibration(place.tree, functions(place, both))
        climb = Climb(place, 1.0, dict.fromkeys(tables, np.zeros(())), whole)
        logs = multiplied(place.tree, whole.factors, range(len(place.tree.cliques)))
        assert mass == pytest.approx(swept(place.tree, [*logs.values()])[1], rel=1e-12)
        for table, one in zip(tables, chances, strict=True):
            assert one == pytest.approx(climb.chances(table), rel=1e-9, abs=1e-14)


def test_a_fold_leaves_the_fewest_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a, b, c and d in pairs that is c, of most values: ab or the like are on a side."""
    monkeypatch.setattr(folded, "LARGE", 0)
    place, tables = laid(PAIRS)
    found = Folded(place, tables, functions(place, {}))
    assert found.tree.cliques == (("a", "b", "d"),)
    assert found.cells == 3 * 2 * 4 + 7 * 4 + 7 * 3 * 2
    assert found.cells < math.prod(place.tree.shape(("a", "b", "c", "d")))


@pytest.mark.parametrize(
    ("scopes", "large"),
    [
        ([("a", "b", "c")], 0),  # one function has all
        ([("a", "b"), ("b", "c"), ("a", "c")], 1 << 12),  # a small clique
    ],
)
def test_a_clique_stays_whole_where_a_fold_saves_nothing(
    scopes: list[tuple[str, ...]], large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folded, "LARGE", large)
    place, _ = laid(["abc"])
    assert fold(place.tree, 0, scopes) is None


def test_a_column_of_two_cliques_is_not_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    """b and c of ab, bc, cd; of each clique the other column is alone, and has one side only."""
    monkeypatch.setattr(folded, "LARGE", 0)
    place, tables = laid(["ab", "bc", "cd"])
    found = Folded(place, tables, functions(place, {}))
    assert found.tree.cliques == place.tree.cliques


def test_a_sum_that_would_vanish_is_told() -> None:
    """Of what weighs on either side of the one column, the other has e^-1000: so has the sum."""
    left, right = np.array([[0.0, -1000.0]]), np.array([[-1000.0, 0.0]])
    product = Product(left, right)
    assert product.logs == pytest.approx(np.array([[-1000 + math.log(2)]]))
    for side in product.beliefs(np.ones((1, 1))):
        assert side == pytest.approx(np.array([[0.5, 0.5]]))
