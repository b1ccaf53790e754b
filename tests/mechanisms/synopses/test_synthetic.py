"""Synthetic rows: the distribution they are drawn from, counts that are kept, quality by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpsql.domain import Domain
from dpsql.mechanisms.synopses.ascent import centred
from dpsql.mechanisms.synopses.entropy import fitted
from dpsql.mechanisms.synopses.factors import Factored, of_dense
from dpsql.mechanisms.synopses.noisy import NoisyTable, whole
from dpsql.mechanisms.synopses.quality import quality
from dpsql.mechanisms.synopses.synthetic import rows


class Tape:
    """Words of a seeded generator."""

    def __init__(self, seed):
        self.draw = np.random.default_rng(seed)

    def words(self, count):
        return self.draw.integers(0, 1 << 64, count, dtype=np.uint64)


CHAIN = Domain(("a", "b", "c", "d", "free"), (4, 6, 3, 5, 7))


def chain():
    """Neighbours that depend on each other; b on atoms of several codes, d on its own."""
    draw = np.random.default_rng(0)
    state = Factored(CHAIN, 1000.0)
    classes = {"a": np.arange(4), "b": np.array([0, 1, 1, 2, 2, 2]), "c": np.arange(3),
               "d": np.arange(5)}  # fmt: skip
    for one, two in (("a", "b"), ("b", "c"), ("c", "d")):
        own = {name: classes[name] for name in (one, two)}
        shape = [int(of.max()) + 1 for of in own.values()]
        state = state.times(own, draw.normal(size=shape))
    return state


def counts(codes, domain):
    cells = domain.index(codes, len(codes[domain.names[0]]))
    return np.bincount(cells, minlength=domain.cells).reshape(domain.sizes)


@pytest.mark.parametrize("dealt", [True, False])
def test_each_row_follows_the_distribution(dealt):
    """Chi-square over all 2,520 cells; dealt rows may only be more even than independent ones.

    The false alarm is below 1e-6: 2,519 + 4.9 x sqrt(2 x 2,519) is exceeded less often.
    """
    state = chain()
    assert len(state.tree.cliques) == 3
    many = 400_000
    found = counts(rows(state, many, dealt=dealt, bits=Tape(1)), CHAIN)
    expected = many / 1000 * state.dense()
    chi = ((found - expected) ** 2 / expected).sum()
    spread = math.sqrt(2 * CHAIN.cells)
    assert chi < CHAIN.cells + 4.9 * spread
    if not dealt:
        assert chi > CHAIN.cells - 4.9 * spread
    wrong = expected * (1 + 0.1 * np.where(np.arange(7) < 3, 1, -0.75))
    assert ((found - wrong) ** 2 / wrong).sum() > CHAIN.cells + 4.9 * spread


def test_the_first_few_rows_are_as_likely_as_all():
    """Dealt rows stand in random order, and each follows the distribution: one row, many times."""
    state, tape = chain(), Tape(2)
    ones = [rows(state, 1, bits=tape) for _ in range(4000)]
    found = np.bincount([int(one["a"][0]) for one in ones], minlength=4)
    share = state.marginal(("a",)) / 1000
    assert np.abs(found - 4000 * share).max() < 5 * math.sqrt(4000) / 2


def test_dealt_rows_keep_counts_that_drawn_rows_lose():
    """Of a table in one clique, the first column to within a row; all others nearer than drawn."""
    domain = Domain(("a", "b", "c"), (5, 4, 6))
    dense = np.random.default_rng(3).gamma(0.5, size=domain.sizes)
    state = of_dense(domain, dense * 3000 / dense.sum())
    table, tape = state.dense(), Tape(3)
    errors = {}
    for dealt in (True, False):
        found = counts(rows(state, 3000, dealt=dealt, bits=tape), domain)
        assert found.sum() == 3000
        errors[dealt] = found - table
    assert np.abs(errors[True].sum(axis=(1, 2))).max() <= 1
    assert np.abs(errors[True]).max() <= 1
    for axis in (0, 1, 2):
        dealt, drawn = (np.abs(errors[how].sum(axis=axis)).mean() for how in (True, False))
        assert dealt < 0.5 * drawn


def test_rows_of_a_huge_universe():
    """10^79 cells: neighbours agree as often as the model says, untouched columns are even."""
    domain = Domain(tuple(f"c{at}" for at in range(79)), (10,) * 79)
    state, digits = Factored(domain, 1.0), np.arange(10)
    for at in range(70):
        state = state.times({f"c{at}": digits, f"c{at + 1}": digits}, 2.0 * np.eye(10))
    codes = rows(state, 10_000, bits=Tape(4))
    assert list(codes) == list(domain.names)
    agree = math.exp(2) / (math.exp(2) + 9)
    for at in (0, 33, 69):
        assert abs((codes[f"c{at}"] == codes[f"c{at + 1}"]).mean() - agree) < 0.01
    assert np.abs(np.bincount(codes["c75"], minlength=10) - 1000).max() <= 1


def test_no_rows_and_fewer_than_none():
    assert all(len(codes) == 0 for codes in rows(chain(), 0).values())
    with pytest.raises(ValueError, match="at least 0"):
        rows(chain(), -1)


def test_cells_without_probability_have_no_rows():
    domain = Domain(("a", "b"), (3, 3))
    state = of_dense(domain, np.array([[0.0, 5, 0], [0, 0, 0], [1, 0, 0]]))
    for dealt in (True, False):
        found = counts(rows(state, 500, dealt=dealt, bits=Tape(5)), domain)
        assert (found > 0).tolist() == [[False, True, False], [False] * 3, [True, False, False]]


def test_quality_is_the_distance_from_released_tables():
    domain = Domain(("a", "b"), (2, 3))
    codes = {"a": np.array([0, 0, 1, 1]), "b": np.array([0, 2, 2, 2])}
    plain = whole(domain, ("a", "b"), np.array([[10.0, 0, 12], [0, 0, 26]]), 4.0)
    inner = NoisyTable(("b",), (np.arange(3),), centred(np.array([10.0, 0, 30])), 9.0, centred=True)
    one, two = quality(codes, 40.0, [plain, inner])
    assert (one.cells, one.stderr, one.largest) == (6, 2.0, 6.0)
    assert one.mean == pytest.approx((2 + 6) / 6)
    assert one.ratio == pytest.approx(math.sqrt((4 + 36) / 6) / 2)
    assert two.mean == pytest.approx(0.0, abs=1e-12)
    assert two.stderr == pytest.approx(3 * math.sqrt(2 / 3))


def test_rows_of_a_fit_are_as_near_to_its_tables_as_the_truth():
    domain = Domain(tuple("abc"), (6, 5, 4))
    draw = np.random.default_rng(6)
    truth = draw.poisson(100 * draw.gamma(1.0, size=domain.sizes)).astype(float)
    pairs = [("a", "b"), ("b", "c"), ("a", "c")]
    tables = []
    for names in pairs:
        margin = truth.sum(axis=tuple(at for at, n in enumerate(domain.names) if n not in names))
        tables.append(whole(domain, names, margin + 15 * draw.normal(size=margin.shape), 225.0))
    fit = fitted(domain, truth.sum(), tables)
    found = quality(rows(fit.state, round(truth.sum()), bits=Tape(6)), truth.sum(), tables)
    assert all(each.ratio < 1.3 for each in found)
