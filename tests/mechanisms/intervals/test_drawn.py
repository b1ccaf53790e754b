"""Noise as if drawn is spread as noise is, several together, too: no error is told too small."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpsql.accounting.events import Gaussian, Laplace, Law
from dpsql.mechanisms.intervals.drawn import chances, drawn, tried_mean
from dpsql.mechanisms.intervals.law import atoms, stddev
from dpsql.mechanisms.reuse.fit import Model, by_grouping
from dpsql.mechanisms.strategies.whole import whole
from dpsql.query.canon import families
from tests.mechanisms.measured import workload

TURNS = 512
STATEMENTS = [
    "SELECT sex, SUM(age) AS n FROM town GROUP BY CUBE (sex)",
    "SELECT region, COUNT(*) AS n FROM town GROUP BY CUBE (region)",
    "SELECT sex, SUM(age) AS n FROM town GROUP BY GROUPING SETS ((sex), (), (region))",
    "SELECT sex, region, SUM(age) AS n FROM town GROUP BY ROLLUP (sex, region)",
    "SELECT sex, region, COUNT(*) AS n FROM town GROUP BY CUBE (sex, region)",
]
DRAWN = 6000
NEAR = 0.97  # of a standard error: 3 of its own, of as many squares of normal errors


@pytest.mark.parametrize("law", [Gaussian(1, Fraction(1, 2)), Laplace(1, 1, Fraction(2)), None])
def test_small_combinations_of_noises_are_as_large_as_those_of_noise(law: Law | None) -> None:
    """Of any three of the first: a row of multiples of one number would be no three noises."""
    if law is None:
        noise, variance = chances(8, TURNS) - 0.5, 1 / 12
    else:
        (noise,), variance = drawn([(law, 8)], TURNS), stddev(law) ** 2
    for three in itertools.combinations(noise.T, 3):
        for signs in itertools.product((-1, 1, 2), repeat=3):
            square = np.square(sum(s * z for s, z in zip(signs, three, strict=True)))
            expected = variance * sum(s * s for s in signs)
            # 1,512 combinations at 5.5 standard errors, if these were noises: 6e-5
            assert abs(square.mean() - expected) < 5.5 * square.std() / math.sqrt(TURNS)


def test_a_mean_is_told_by_tries_beside_what_is_known() -> None:
    rng = np.random.default_rng(5)
    known = rng.normal(size=400)
    mean, twice = tried_mean(7.0 + 3.0 * known + 0.01 * rng.normal(size=400), known)
    assert mean == pytest.approx(7.0, abs=0.003) and twice == pytest.approx(0.001, rel=0.2)
    mean, twice = tried_mean(np.array([2.0, 4.0]), np.zeros(2))
    assert (mean, twice) == (3.0, 2.0 * math.sqrt(2.0) / math.sqrt(2.0))


@pytest.mark.parametrize("variance", ["0.15", "0.3", "0.5", "1.2"])
@pytest.mark.parametrize("sql", STATEMENTS)
def test_few_groups_of_small_noise_err_no_more_than_is_said(sql: str, variance: str) -> None:
    """Beside thousands of tables that numpy draws."""
    rng = np.random.default_rng(11)
    asked, law = workload(sql), Gaussian(1, Fraction(variance))
    model = Model.of([(f, law) for block in families(asked) for f in block if f is not None])
    assert model is not None
    radius = math.ceil(12 * stddev(law)) + 3
    chance = atoms(law, radius)
    values = [
        rng.choice(np.arange(-radius, radius + 1.0), (DRAWN, f.met), p=chance / chance.sum())
        for f in model.design.families
    ]
    true = np.zeros((1, model.design.atoms))
    if model.solved.rank < model.design.atoms:
        true = rng.integers(0, 1024, (DRAWN, model.design.atoms)).astype(np.float64)
        values = [v + t for v, t in zip(values, model._measured_of(true), strict=True)]
    table = model.table(values, [])
    off = whole(model.design, table, model.precisions) - true
    for block, listed, spread in zip(
        asked.blocks, families(asked), model.spreads(asked), strict=True
    ):
        for start, _, together in by_grouping(block, listed):
            for part in model.placed(together):
                inside = part.at >= 0
                at = np.unique(part.at[inside], return_inverse=True)[1]
                heavy = part.weights[inside] * float(part.family.factor)
                errors = [np.bincount(at, heavy * one[inside]) for one in off]
                rows = start + np.unique(part.at[inside])
                said = math.sqrt(spread.shown[rows, part.column].mean())
                assert said >= NEAR * math.sqrt(np.square(errors).mean())


def test_a_mean_of_what_is_known_is_not_weighed_beyond_reason() -> None:
    """Small discrete noise is mostly 0, so what is known of it lies below 0 and hardly varies."""
    tried = np.arange(40.0) % 3.0
    for known in (-0.008 + 1e-5 * tried, -0.008 - 1e-5 * tried):
        mean, allowed = tried_mean(tried, known)
        assert abs(mean - tried.mean()) < 0.05 and allowed > 0.1
