"""The Newton step's curvature against finite differences, and both bounds against each other."""

from __future__ import annotations

import numpy as np
import pytest

from dpsql.mechanisms.strategies.rows import Prefixes, Ranges
from dpsql.mechanisms.strategies.spectrum import Spectrum, of_columns, of_gram


def _gram() -> np.ndarray:
    rng = np.random.default_rng(3)
    half = rng.integers(0, 2, (9, 7)) + np.eye(9, 7)
    return half.T @ half


def test_the_curvature_is_the_second_derivative_of_the_dual() -> None:
    """d - v is the gradient, diag(d) - K its derivative beside -diag(v): by differences."""
    gram = _gram()
    here = of_gram(gram, np.linspace(0.5, 2, 7))
    root = np.sqrt(here.diagonal)
    curvature = here.curvature() * root[:, None] * root
    step = 1e-5
    for at in range(7):
        moved = [np.exp(np.log(here.weights) + sign * step * np.eye(7)[at]) for sign in (1, -1)]
        up, down = (_diagonal(gram, weights) for weights in moved)
        slope = (up - down) / (2 * step)
        expected = np.diag(here.diagonal)[at] - curvature[at]
        assert slope == pytest.approx(expected, abs=2e-3 * here.diagonal.max())


def _diagonal(gram: np.ndarray, weights: np.ndarray) -> np.ndarray:
    root = np.sqrt(weights)
    values, vectors = np.linalg.eigh(gram * root[:, None] * root)
    return (vectors**2) @ np.sqrt(values)


def test_a_spectrum_is_the_same_from_the_gram_matrix_and_from_the_columns() -> None:
    rng = np.random.default_rng(4)
    columns = rng.integers(0, 2, (5, 12)).astype(float)
    weights = rng.random(12) + 0.1
    one, other = of_gram(columns.T @ columns, weights), of_columns(columns, weights)
    assert len(one.roots) == len(other.roots) == 5
    assert one.roots == pytest.approx(other.roots)
    assert one.diagonal == pytest.approx(other.diagonal)


def test_weights_are_scaled_where_the_bounds_meet() -> None:
    for rows in (Prefixes(30), Ranges(30)):
        spectrum = of_gram(rows.gram(), np.full(30, 17.0))
        assert spectrum.weights.sum() == pytest.approx(spectrum.total)
        assert spectrum.lower <= spectrum.total * spectrum.excess.max()


def test_a_spectrum_without_positive_weights_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        Spectrum(np.array([1.0, np.nan]), np.ones((2, 1)), np.ones(1))
    with pytest.raises(ValueError, match="every root"):
        Spectrum(np.ones(2), np.ones((2, 2)), np.ones(1))
