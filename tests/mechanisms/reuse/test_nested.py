"""Least squares on a forest of rows, against the same on matrices."""

from __future__ import annotations

import numpy as np
import pytest

from dpsql.mechanisms.reuse.design import Design
from dpsql.mechanisms.reuse.nested import Nested, nested_part
from dpsql.query.canon import Family

Sets = list[list[int]]


def family(sets: Sets, cells: int, weight: int = 1) -> Family:
    """A count of each of some disjoint sets of the values of one column."""
    groups = np.full(cells, -1, np.int64)
    for number, some in enumerate(sets):
        groups[some] = number
    classes = {"a": np.arange(cells)}
    weights = np.where(groups >= 0, weight, 0).astype(np.int64)
    return Family.of(classes, groups, weights, 1, np.arange(len(sets)))


def laminar(rng: np.random.Generator, cells: int) -> list[Sets]:
    """Families of sets of which every two are nested or disjoint, of any depth and width."""
    pool: Sets = []

    def split(some: list[int]) -> None:
        pool.append(some)
        if len(some) > 1:
            cuts = np.sort(rng.choice(len(some) + 1, rng.integers(1, 5)))
            for piece in np.split(np.array(some), cuts):
                if 0 < len(piece) < len(some) and rng.random() < 0.8:
                    split(piece.tolist())

    for root in np.array_split(rng.permutation(cells), 2):
        split(root.tolist())
    return [[some] for some in pool] + [[some] for some in pool if rng.random() < 0.2]


def dense(design: Design, precisions: list[float]) -> np.ndarray:
    rows = []
    for groups, weights, precision in zip(design.groups, design.weights, precisions, strict=True):
        for number in range(int(groups.max()) + 1):
            rows.append(np.where(groups == number, weights, 0) * precision**0.5)
    return np.array(rows)


@pytest.mark.parametrize("seed", range(40))
def test_it_says_what_the_inverse_of_the_normal_matrix_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    listed = laminar(rng, int(rng.integers(2, 30)))
    made = [family(sets, 30, int(rng.integers(1, 4))) for sets in listed]
    design = Design.of(made)
    assert design is not None
    precisions = rng.exponential(size=len(made)).tolist()
    found = Nested.of(design, precisions)
    assert found is not None and found.rank == design.atoms
    rows = dense(design, precisions)
    inverse = np.linalg.inv(rows.T @ rows)
    seen = rows.T @ rng.normal(size=(len(rows), 3))
    np.testing.assert_allclose(found.solve(seen.T), (inverse @ seen).T, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.solve(seen[:, 0]), inverse @ seen[:, 0], rtol=1e-7, atol=1e-9)
    at = rng.integers(-1, 4, design.atoms)
    weights = rng.normal(size=(2, design.atoms))
    covariance, known = found.said(at, weights, 4)
    assert known.all()
    for group in range(4):
        own = np.where(at == group, weights, 0.0)
        np.testing.assert_allclose(covariance[group], own @ inverse @ own.T, rtol=1e-7, atol=1e-9)


def test_rows_that_cross_or_weigh_unlike_are_none() -> None:
    crossing = Design.of([family([[0, 1]], 3), family([[1, 2]], 3)])
    assert crossing is not None and Nested.of(crossing, [1.0, 1.0]) is None
    groups = np.zeros(3, np.int64)
    sums = Family.of({"a": np.arange(3)}, groups, np.arange(1, 4), 1, np.arange(1))
    unlike = Design.of([sums, family([[0], [1], [2]], 3)])
    assert unlike is not None and Nested.of(unlike, [1.0, 1.0]) is None


@pytest.mark.parametrize("seed", range(20))
def test_of_families_that_cross_those_are_kept_that_do_not(seed: int) -> None:
    """By brute force on the sets; none that is left out would fit."""
    rng = np.random.default_rng(seed)
    listed: list[Sets] = []
    for _ in range(5):
        of = rng.integers(-1, int(rng.integers(1, 5)), 8)
        sets = [np.flatnonzero(of == g).tolist() for g in range(4)]
        listed.append([some for some in sets if some])
    listed = [sets for sets in listed if sets]

    def fits(one: Sets, other: Sets) -> bool:
        return all(
            not set(a) & set(b) or set(a) <= set(b) or set(b) <= set(a) for a in one for b in other
        )

    kept = nested_part([family(sets, 8) for sets in listed])
    assert all(fits(listed[a], listed[b]) for a in kept for b in kept)
    for at in set(range(len(listed))) - set(kept):
        assert not all(fits(listed[at], listed[b]) for b in kept)
