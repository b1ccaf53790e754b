"""The coins are exact: floats never decide what they could get wrong."""

from __future__ import annotations

import decimal
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.curator import bernoulli as coins
from dpsql.curator.bernoulli import MARGIN, Uniform, bernoulli, exp_bounds, geometric


class Words:
    """Bits that were written down beforehand; `left` are those not read yet."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def words(self, count: int) -> np.ndarray:
        taken, self.left = self.left[:count], self.left[count:]
        assert len(taken) == count, "more bits were read than were written down"
        return np.array(taken, np.uint64)


class Tape:
    def __init__(self, seed: int) -> None:
        self._source = np.random.default_rng(seed)

    def words(self, count: int) -> np.ndarray:
        return self._source.integers(0, 2**64, count, np.uint64)


def exp_by_decimal(numerator: int, denominator: int) -> Fraction:
    """exp(-n/d) within 1e-90, by the decimal module, which rounds exp correctly."""
    with decimal.localcontext(prec=120):
        x = decimal.Decimal(numerator) / decimal.Decimal(denominator)
        return Fraction((-x).exp())


RATIONALS = st.tuples(
    st.integers(0, 10**9) | st.integers(0, 2**200), st.integers(1, 10**9) | st.integers(1, 2**200)
)


@settings(max_examples=300, deadline=None)
@given(RATIONALS, st.sampled_from([64, 128, 192]))
def test_bounds_hold_the_exponential_between_them(ratio, bits):
    low, high = exp_bounds(*ratio, bits)
    truth = exp_by_decimal(*ratio) * 2**bits
    doubt = Fraction(2**bits, 10**90)
    assert low <= truth + doubt and truth - doubt <= high
    assert 0 <= low <= high <= 2**bits
    assert high - low <= 2


def test_bounds_are_sharp_at_the_ends():
    assert exp_bounds(0, 7, 64) == (2**64, 2**64)
    assert exp_bounds(10**30, 1, 64) == (0, 1)
    assert exp_bounds(1, 10**30, 64) == (2**64 - 1, 2**64)


@pytest.mark.parametrize("seed", [1])
def test_float_thresholds_keep_their_error_budget(seed):
    """np.exp(-x) 2^64 is within 2^14 of the truth, where the margin allows 2^24."""
    rng = np.random.default_rng(seed)
    x = np.concatenate(
        [
            np.zeros(1),
            rng.random(1500),
            rng.random(1500) * 50,
            np.exp(rng.uniform(-60, 4, 1000)),
            np.arange(1, 45.0),
            [700.0, 745.2, 1e5, 1e300],
        ]
    )
    thresholds = np.minimum(np.exp(-x) * 2.0**64, coins._LARGEST)
    for point, threshold in zip(x.tolist(), thresholds.tolist(), strict=True):
        low, high = exp_bounds(*point.as_integer_ratio(), 64)
        assert low - 2**14 <= int(threshold) <= high + 2**14
    assert MARGIN / 500 > 2**14


def test_a_coin_is_the_comparison_of_a_real_with_the_exponential():
    """Words all around the threshold, where the float alone would be wrong half the time."""
    rng = np.random.default_rng(2)
    for _ in range(300):
        ratio = Fraction(int(rng.integers(1, 2**40)), int(rng.integers(2**36, 2**40)))
        n, d = ratio.numerator, ratio.denominator
        low, high = exp_bounds(n, d, 64)
        offsets = [0, -1, 1, -2, 2, -MARGIN, MARGIN, -MARGIN - 1, MARGIN + 1, 2**30, -(2**30)]
        for offset in offsets:
            word = min(max(low + offset, 0), 2**64 - 1)
            bits = Words(word, 1, 1, 1)
            (coin,) = bernoulli(np.array([n / d]), lambda i: (n, d), bits)  # noqa: B023
            if word < low:
                assert coin
            elif word >= high:
                assert not coin
            else:  # undecided by 64 bits: the next word is read and decides
                assert len(bits.left) == 2
                truth = exp_by_decimal(n, d) * 2**128
                assert coin == ((word << 64) + 1 < truth)


def test_certainty_is_certain():
    for word in (0, 1, 2**63, 2**64 - 1):
        assert bernoulli(np.zeros(1), lambda i: (0, 1), Words(word)).all()


def test_an_impossible_event_needs_an_impossible_word():
    assert not bernoulli(np.array([1e5]), lambda i: (10**5, 1), Words(1)).any()
    assert not bernoulli(np.array([1e5]), lambda i: (10**5, 1), Words(0, 0, 0, 5)).any()


def test_depth_counts_the_powers_above():
    for k in range(1, 60):
        low, _ = exp_bounds(k, 1, 128)
        below, above = divmod(low - 1, 2**64), divmod(low + 2, 2**64)
        assert Uniform(below[0], Words(below[1])).depth() == k
        assert Uniform(above[0], Words(above[1])).depth() == k - 1


def test_geometric_equals_its_exact_self_at_every_edge():
    words = [
        min(max(exp_bounds(k, 1, 64)[0] + offset, 0), 2**64 - 1)
        for k in range(1, 50)
        for offset in (-(2**25), -MARGIN - 1, -MARGIN, -1, 0, 1, MARGIN, MARGIN + 1, 2**25)
    ]
    exact = [Uniform(word, Tape(9)).depth() for word in words]
    tape = Tape(9)
    for word, depth in zip(words, exact, strict=True):
        if word > 0 and all(word != exp_bounds(k, 1, 64)[0] for k in range(1, 50)):
            assert geometric(1, Words(word)).tolist() == [depth]
    assert geometric(100_000, tape).max() < 30


def test_geometric_follows_its_law():
    """Seeded; for fresh words each of 6 shares lies outside 6 stddevs once in 5e8."""
    count = 200_000
    depths = geometric(count, Tape(3))
    for k in range(6):
        p = math.exp(-k)
        assert abs((depths >= k).sum() - count * p) <= 6 * math.sqrt(count * p * (1 - p)) + 1e-9
