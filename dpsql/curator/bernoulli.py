"""Exact coins: Bernoulli(exp(-x)) and the geometric law of ratio 1/e, for rational x.

A coin compares a uniform real u in [0, 1) with exp(-x). The first 64 binary digits of u are one
random word; exp(-x) is evaluated in float64. Where the two lie within 2^-40 of each other, which
happens once in 2^39 coins, the coin is decided again from the same digits, and as many further
ones as it takes, against proven integer bounds on exp(-x). The outcome is therefore exactly the
comparison of u with exp(-x): floats decide nothing that they could get wrong.

The error of the float, all relative to 2^-53 = one unit: `bernoulli` asks that x be given within
2^-50 (sqrt(x) + x), which moves exp(-x) by at most 2^-50 (0.43 + 0.37) < 2^-50, since
sqrt(x) exp(-x) <= 0.43 and x exp(-x) <= 0.37 (beyond x = 1000 both sides are nothing). np.exp is
within 4 units in the last place in every build of NumPy (its own tests ask for that): another
2^-51. In units of 2^-64 these two move the threshold by less than 2^15, the cut to an integer and
the cap below 2^64 by at most 2^11 + 1. The margin is 2^24: five hundred times what is needed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpsql.curator.bits import Bits

MARGIN = 1 << 24  # in units of 2^-64: 2^-40 as a probability
_LARGEST = 2.0**64 - 2.0**11  # the largest float below 2^64
_DEEPEST = 23  # exp(-24) is the last threshold well above MARGIN


def exp_bounds(numerator: int, denominator: int, bits: int) -> tuple[int, int]:
    """Integers with low <= exp(-numerator / denominator) 2^bits <= high, for x = n/d >= 0.

    Proof. Every quantity is an interval of integers in units of 2^-width, each operation rounded
    outwards. With r = x / 2^k <= 1/2, exp(-r) is the alternating series of r^j / j!, whose terms
    fall, so the sum up to any term is off by less than the next one, which is added on both sides.
    Then k squarings give exp(-x). The extra digits keep high - low small; the bounds hold anyhow.
    """
    if numerator == 0:
        return 1 << bits, 1 << bits
    if numerator >= bits * denominator:  # exp(-bits) < 2^-bits
        return 0, 1
    halvings = max(0, (numerator // denominator).bit_length() + 1)
    width = bits + 2 * halvings + 24
    low_r = (numerator << width) // (denominator << halvings)
    high_r = low_r + 1
    one = 1 << width
    low = high = low_term = high_term = one
    order = 0
    while high_term > 1:
        order += 1
        low_term = ((low_term * low_r) >> width) // order
        high_term = -(((-high_term * high_r) >> width) // order)
        if order % 2:
            low, high = low - high_term, high - low_term
        else:
            low, high = low + low_term, high + high_term
    low, high = max(low - 1, 0), min(high + 1, one)  # the next term is below the last, at most 1
    for _ in range(halvings):
        low, high = (low * low) >> width, -((-high * high) >> width)
    return low >> (width - bits), -((-high) >> (width - bits))


class Uniform:
    """A uniform real in [0, 1) whose binary digits are drawn as they are needed."""

    __slots__ = ("_bits", "_digits", "_length")

    def __init__(self, word: int, bits: Bits) -> None:
        self._digits, self._length, self._bits = word, 64, bits

    def below_exp(self, numerator: int, denominator: int) -> bool:
        """Whether u < exp(-numerator / denominator)."""
        while True:
            low, high = exp_bounds(numerator, denominator, self._length)
            if self._digits < low:
                return True
            if self._digits >= high:
                return False
            self._digits = (self._digits << 64) | int(self._bits.words(1)[0])
            self._length += 64

    def depth(self) -> int:
        """The number of k >= 1 with u < exp(-k)."""
        depth = 0
        while self.below_exp(depth + 1, 1):
            depth += 1
        return depth


def bernoulli(
    x: NDArray[np.float64], exact: Callable[[int], tuple[int, int]], bits: Bits
) -> NDArray[np.bool_]:
    """Independent coins, the i-th of which is True with probability exactly exp(-x_i).

    `exact(i)` gives the true x_i as numerator and denominator; x[i] is that within
    2^-50 (sqrt(x_i) + x_i).
    """
    words = bits.words(x.size)
    thresholds = np.minimum(np.exp(-x) * 2.0**64, _LARGEST).astype(np.uint64)
    coins: NDArray[np.bool_] = words < thresholds
    # Unsigned arithmetic wraps: True for words within MARGIN of the threshold, on either side.
    near = words - thresholds + np.uint64(MARGIN) <= np.uint64(2 * MARGIN)
    for i in np.flatnonzero(near).tolist():
        coins[i] = Uniform(int(words[i]), bits).below_exp(*exact(i))
    return coins


def _depth_edges() -> NDArray[np.uint64]:
    """Edges between the words that tell the depth (odd places) and those that do not (even)."""
    thresholds = [exp_bounds(k, 1, 64)[0] for k in range(_DEEPEST + 1, 0, -1)]
    edges = [edge for cut in thresholds for edge in (cut - MARGIN, cut + MARGIN)]
    return np.array(edges[1:], np.uint64)


_EDGES = _depth_edges()


def geometric(count: int, bits: Bits) -> NDArray[np.int64]:
    """Independent V with P(V >= k) = exp(-k) exactly: how many k >= 1 have u < exp(-k).

    Where the loop of Algorithm 2 tosses coins until one fails, one word is looked up among the
    thresholds, in the same time whatever V is.
    """
    words = bits.words(count)
    places = np.searchsorted(_EDGES, words, side="right")
    depths: NDArray[np.int64] = _DEEPEST - (places >> 1)
    for i in np.flatnonzero(places & 1 == 0).tolist():
        depths[i] = Uniform(int(words[i]), bits).depth()
    return depths
