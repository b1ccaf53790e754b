"""Noise on answers over a huge universe, against the optimum on cells and listed columns."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpsql.errors import UsageError
from dpsql.mechanisms.strategies import universe
from dpsql.mechanisms.strategies.largest import smallest_largest
from dpsql.mechanisms.strategies.optimum import optimum, weighted_gram
from dpsql.mechanisms.strategies.querycov import NoiseCovariance, _looked, noise_covariance
from dpsql.mechanisms.strategies.rows import Listed
from dpsql.mechanisms.strategies.spectrum import Floats, of_columns
from dpsql.mechanisms.strategies.universe import Found, ListedColumns


def _workload(queries: int, columns: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.random((queries, columns)) < 0.3).astype(np.int8)


def _reach(found: NoiseCovariance, columns: np.ndarray) -> float:
    """max w' S^-1 w, by a solver that knows nothing of the search."""
    moved = found.root @ columns.astype(float)
    return float((moved**2).sum(0).max())


def test_it_is_the_optimum_on_cells_seen_from_the_answers() -> None:
    columns = _workload(20, 300, 1)
    cells = columns.astype(float)
    found = noise_covariance(ListedColumns(columns), 20, gap=1e-3)
    direct = optimum(cells.T @ cells, 20, gap=1e-4)
    assert found.lower <= direct.rmse and direct.lower <= found.rmse
    assert found.gap <= 1e-3
    assert _reach(found, columns) <= 1 + 1e-9
    assert math.sqrt(np.trace(found.matrix) / 20) == pytest.approx(found.rmse)


def test_a_hundred_thousand_columns_are_within_a_hundredth_of_the_bound() -> None:
    columns = _workload(40, 100_000, 2)
    found = noise_covariance(ListedColumns(columns), 40, gap=1e-2)
    assert found.gap <= 1e-2
    assert found.columns < 5_000
    assert _reach(found, columns) <= 1 + 1e-9
    joint = math.sqrt(int(columns.sum(0).max()))
    assert found.rmse < joint


def test_weights_and_the_largest_error() -> None:
    columns = _workload(12, 200, 3)
    cells = columns.astype(float)
    weights = np.arange(1.0, 13)
    aimed = noise_covariance(ListedColumns(columns), 12, weights=weights, gap=1e-3)
    direct = optimum(weighted_gram(cells, weights), weights.sum(), gap=1e-4)
    assert aimed.rmse == pytest.approx(direct.rmse, rel=2e-3)
    assert _reach(aimed, columns) <= 1 + 1e-9
    variance = np.diagonal(aimed.matrix)
    assert math.sqrt(weights @ variance / weights.sum()) == pytest.approx(aimed.rmse)
    evened = noise_covariance(ListedColumns(columns), 12, largest=True, gap=5e-3)
    assert evened.gap <= 5e-3
    assert evened.rmse == pytest.approx(smallest_largest(Listed(cells)).rmse, rel=1e-2)
    assert math.sqrt(np.diagonal(evened.matrix).max()) == pytest.approx(evened.rmse)


@pytest.mark.parametrize("heavy", [1.0, 4.0, 16.0])
def test_a_column_that_hardly_counts_does_not_come_and_go_for_ever(heavy: float) -> None:
    """As of a statement with a weight beside one about other people: it is dropped, and missed."""
    columns = np.array([[4, 0], [0, 1]], np.int8)
    found = noise_covariance(ListedColumns(columns), 2, weights=np.array([heavy, 1.0]), gap=2e-3)
    assert found.gap <= 2e-3 and found.rounds < 50


def test_queries_that_depend_on_each_other_leave_some_directions_without_noise() -> None:
    columns = _workload(6, 100, 4)
    columns = np.vstack([columns, columns[:1] + columns[1:2], columns[2:3]])
    found = noise_covariance(ListedColumns(columns), 8, gap=1e-3)
    assert found.root.shape == (6, 8)
    assert _reach(found, columns) <= 1 + 1e-6
    cells = columns.astype(float)
    assert found.rmse == pytest.approx(optimum(cells.T @ cells, 8).rmse, rel=3e-3)


class _Product:
    """All pairs of a column on some queries and a column on the others: never listed."""

    def __init__(self, one: np.ndarray, other: np.ndarray) -> None:
        self.one, self.other = one.astype(float), other.astype(float)

    def __call__(self, precision: Floats) -> Found:
        cut = len(self.one)
        own = np.einsum("ij,ij->j", precision[:cut, :cut] @ self.one, self.one)
        far = np.einsum("ij,ij->j", precision[cut:, cut:] @ self.other, self.other)
        cross = self.one.T @ precision[:cut, cut:] @ self.other
        norms = own[:, None] + far + 2 * cross
        best = np.argsort(-norms, axis=None)[:500]
        first, second = np.unravel_index(best, norms.shape)
        pairs = np.vstack([self.one[:, first], self.other[:, second]])
        return Found(pairs, float(norms.max()) * (1 + 1e-9))


def test_a_universe_that_is_not_listed_is_asked_for_its_worst_columns() -> None:
    one, other = _workload(15, 300, 5), _workload(15, 300, 6)
    found = noise_covariance(_Product(one, other), 30, gap=1e-2)
    listed = np.vstack([np.repeat(one, 300, axis=1), np.tile(other, (1, 300))])
    assert found.gap <= 1e-2
    assert _reach(found, listed) <= 1 + 1e-6


def test_without_time_the_first_certificate_is_taken() -> None:
    found = noise_covariance(ListedColumns(_workload(20, 500, 7)), 20, gap=1e-4, seconds=0)
    assert found.certificate > 0 and found.gap >= 0
    assert _reach(found, _workload(20, 500, 7)) <= 1 + 1e-6


@pytest.mark.parametrize("apart", [1.0, 1e3, 1e7])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e4])
def test_bounds_of_listed_columns_are_never_below_the_truth(size: float, apart: float) -> None:
    """Nor above it: for precisions of every size, a few directions of which have as much less
    noise, so that one look is enough, or some rows or columns are looked at in double precision."""
    rng = np.random.default_rng(8)
    columns = _workload(40, 2_000, 9)
    half = rng.normal(size=(40, 40)) * size
    half[:3] *= apart
    exact = ((half @ columns.astype(np.longdouble)) ** 2).sum(0).max()
    seen = ListedColumns(columns)(half.T @ half)
    assert exact * (1 - 1e-7) <= seen.bound <= exact * (1 + 1e-6)
    assert seen.columns.shape[0] == 40


def test_the_longest_column_is_looked_at_again_however_its_root_is_rounded() -> None:
    """Where all rows are in double precision, there is no doubt to make up for it."""
    columns, rng = ListedColumns(_workload(12, 300, 9)), np.random.default_rng(8)
    for size in np.geomspace(1e5, 1e9, 60):
        half = rng.normal(size=(12, 12)) * size
        assert columns(half.T @ half).columns.shape[0] == 12


def test_few_columns_are_looked_at_in_double_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though a few directions have next to no noise: of all rows those, and all of the worst."""
    rng, looked = np.random.default_rng(8), [0]
    columns, squares = _workload(40, 20_000, 9), universe._squares

    def counted(root: Floats, some: np.ndarray) -> Floats:
        looked[0] += root.shape[0] * some.shape[1]
        return squares(root, some)

    monkeypatch.setattr(universe, "_squares", counted)
    half = rng.normal(size=(40, 40))
    half[:3] *= 1e5
    ListedColumns(columns)(half.T @ half)
    assert 3 * 20_000 <= looked[0] <= 5 * 20_000


@pytest.mark.parametrize("repeated", [0, 1, 20])
def test_a_cheap_step_sees_what_the_spectrum_says(repeated: int) -> None:
    """With as many queries that depend on others, so that some directions have no column."""
    columns = _workload(45, 900, 3).astype(float)
    columns = np.vstack([columns, columns[:repeated] + columns[1 : repeated + 1]])
    weights = np.random.default_rng(4).uniform(0.1, 2.0, 900)
    seen, exact = _looked(columns, weights), of_columns(columns, weights)
    assert seen.lower == pytest.approx(exact.lower, rel=1e-12)
    np.testing.assert_allclose(seen.weights, exact.weights, rtol=1e-12)
    np.testing.assert_allclose(seen.excess, exact.excess, rtol=1e-4)


def test_what_makes_no_sense_is_refused() -> None:
    listed = ListedColumns(np.eye(2, dtype=np.int8))
    with pytest.raises(UsageError, match="no weights"):
        noise_covariance(listed, 2, weights=np.ones(2), largest=True)
    with pytest.raises(UsageError, match="above 0"):
        noise_covariance(listed, 2, weights=np.array([1, np.nan]))
    with pytest.raises(UsageError, match="gap"):
        noise_covariance(listed, 2, gap=float("nan"))
    with pytest.raises(UsageError, match="integers"):
        ListedColumns(np.ones((2, 2)))
    with pytest.raises(UsageError, match="a column"):
        ListedColumns(np.zeros((2, 0), np.int8))
    with pytest.raises(ValueError, match="finite number"):
        Found(np.ones((1, 1)), math.nan)
    with pytest.raises(ValueError, match="certificate"):
        NoiseCovariance(np.eye(1), np.eye(1), 1.0, 1.0, math.nan, 1, 1)
