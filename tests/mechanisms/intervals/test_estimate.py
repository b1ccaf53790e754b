"""Released values: DuckDB's types, exact rounding, withheld ratios."""

from __future__ import annotations

import decimal
import time
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from dpsql.accounting.events import Gaussian
from dpsql.mechanisms.intervals.answers import Answers
from dpsql.mechanisms.intervals.estimate import estimate
from dpsql.query.estimators import Count, Mean, Spread, Sum
from dpsql.query.expr import Slot

LAW = Gaussian(1, Fraction(9))


@dataclass(frozen=True)
class Select:
    """All that `estimate` reads of a compiled SELECT."""

    estimators: tuple


def values(noisy, *estimators, factors=None, clamp=False):
    array = np.array(noisy, object if any(abs(x) >= 1 << 62 for r in noisy for x in r) else None)
    scales = tuple(factors or [1] * array.shape[1])
    return estimate(Select(estimators), array, LAW, scales, 0.95, clamp=clamp)


def test_counts_are_the_noisy_integers_themselves():
    [found] = values([[5], [-3], [1 << 40]], Count(0))
    assert found.type == "BIGINT" and found.values.tolist() == [5, -3, 1 << 40]
    assert found.values.dtype == np.int64 and found.null is None
    [found] = values([[5], [-3]], Count(0), clamp=True)
    assert found.values.tolist() == [5, 0]


@pytest.mark.parametrize("factor", [2, 3, 16, 1601])
def test_counts_on_a_finer_scale_are_the_nearest_whole_number(factor):
    noisy = [*range(-3 * factor, 3 * factor + 1), factor * 10**12 + factor // 2 - 1]
    [found] = values([[x] for x in noisy], Count(0), factors=[factor])
    for x, shown in zip(noisy, found.values.tolist(), strict=True):
        assert abs(Fraction(x, factor) - shown) <= Fraction(1, 2)


def test_sums_have_duckdbs_types():
    [found] = values([[7], [-9]], Sum(0, Fraction(3), "HUGEINT"))
    assert (found.type, found.values.tolist()) == ("HUGEINT", [21, -27])
    [found] = values([[123], [-7], [0]], Sum(0, Fraction(1, 20), "DECIMAL(38,2)"))
    assert found.listed() == [decimal.Decimal(x) for x in ("6.15", "-0.35", "0.00")]
    [found] = values([[3]], Sum(0, Fraction(1, 8), "DOUBLE"))
    assert (found.type, found.values.tolist()) == ("DOUBLE", [0.375])
    [found] = values([[-12]], Sum(0, Fraction(1), "DECIMAL(38,0)"))
    assert found.listed() == [decimal.Decimal(-12)]


def test_sums_beyond_64_bits_are_exact():
    big = (1 << 62) + 12_345
    [found] = values([[big]], Sum(0, Fraction(1, 100), "DECIMAL(38,2)"))
    assert found.listed() == [decimal.Decimal(big) / 100]
    [found] = values([[big]], Sum(0, Fraction(7), "HUGEINT"))
    assert (found.type, found.listed()) == ("HUGEINT", [big * 7])
    [found] = values([[-big]], Sum(0, Fraction(1 << 62), "HUGEINT"))
    assert (found.type, found.listed()) == ("HUGEINT", [-big << 62])
    [found] = values([[big]], Sum(0, Fraction(1 << 66), "HUGEINT"))  # beyond HUGEINT itself
    assert (found.type, found.listed()) == ("DOUBLE", [float(big << 66)])
    [found] = values([[big << 10]], Sum(0, Fraction(1), "HUGEINT"), factors=[1 << 12])
    assert found.values.tolist() == [((big << 10) + (1 << 11)) >> 12]


def test_sums_on_a_finer_scale_are_whole_again():
    noisy = [[16 * 5 + d] for d in (-7, 0, 7)]
    [found] = values(noisy, Sum(0, Fraction(1), "HUGEINT"), factors=[16])
    assert found.values.tolist() == [5, 5, 5]


def test_a_mean_is_withheld_where_nobody_may_be_there():
    [found] = values([[0, 0], [300, 100], [-5, 3]], Mean(0, 1, Fraction(0), Fraction(1)))
    assert found.null.tolist() == [True, False, True]
    assert found.values[1] == 0.75
    assert np.isfinite(found.values).all() and (found.values >= 0).all()
    [found] = values([[900], [0]], Mean(0, 0, Fraction(4), Fraction(4)))
    assert found.null.tolist() == [False, True] and found.values[0] == 4.0


def test_a_mean_stays_within_its_range():
    """T17: an average over few rows is never a wild number."""
    noisy = [[a, b] for a in range(-60, 60, 3) for b in range(-60, 60, 3)]
    [found] = values(noisy, Mean(0, 1, Fraction(17), Fraction(90)))
    assert ((found.values >= 17) & (found.values <= 90)).all()


def test_a_deviation_over_nobody_is_withheld():
    estimator = Spread(0, 1, 2, Fraction(0), Fraction(3), 3, "stddev_samp")
    [found] = values([[0, 0, 0], [36 * 50, 0, 36 * 50]], estimator)
    assert found.null.tolist() == [True, False]
    assert found.values[1] == pytest.approx(np.std([0, 3] * 50, ddof=1))


def test_a_million_groups_take_a_moment():
    """Values, errors and ends of a count, a sum and a mean, in 10^6 groups: measured 0.7 s."""
    size = 10**6
    noisy = np.random.default_rng(33).integers(0, 1000, (size, 4))
    estimators = (Count(0), Sum(1, Fraction(1, 100), "DECIMAL(38,2)"),
                  Mean(2, 3, Fraction(0), Fraction(1)))  # fmt: skip
    started = time.process_time()
    estimate(Select(estimators), noisy, LAW, (16, 16, 16, 16), 0.95, clamp=False)
    answers = Answers(noisy, LAW, estimators, (16, 16, 16, 16), False)
    for index in range(3):
        assert answers.intervals(Slot(f"a{index}"), 0.95) is not None
    assert time.process_time() - started < 4.0
