"""Selections: which of some whole-number scores is the largest, more or less; exact to the bit.

Both mechanisms toss coins of chance exp(-(largest - score) / scale), exactly (`bernoulli`), so that
no probability is ever rounded.

**Exponential mechanism** (McSherry, Talwar 2007): an index of equal chances is kept with that coin,
else another one is tried: P(i) ~ exp(score_i / scale). Of n scores one try in n is kept at least;
tries come by so many that one batch nearly always holds a kept one, whatever the scores are.

**Noisy max.** Permute-and-flip (McKenna, Sheldon 2020): in random order, the first whose coin shows
heads. Coins do not depend on the order, so it is one of all heads, each with the same chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.curator.bernoulli import bernoulli
from dpsql.curator.bits import SYSTEM, Bits
from dpsql.curator.noise import below


def exponential(scores: Sequence[int], scale: Fraction, *, bits: Bits = SYSTEM) -> int:
    """An index, by the exponential mechanism. There is a score."""
    batch = 16 * len(scores)  # holds no kept one once in exp(16)
    while True:
        tried = below(len(scores), batch, bits=bits)
        kept = tried[_heads(scores, tried, scale, bits)]
        if len(kept):
            return int(kept[0])


def noisy_max(scores: Sequence[int], scale: Fraction, *, bits: Bits = SYSTEM) -> int:
    """The index of the largest score with exponential noise of `scale`. There is a score."""
    heads = np.flatnonzero(_heads(scores, np.arange(len(scores)), scale, bits))
    return int(heads[below(len(heads), 1, bits=bits)[0]])


def _heads(
    scores: Sequence[int], places: NDArray[np.int64], scale: Fraction, bits: Bits
) -> NDArray[np.bool_]:
    """Which coins show heads, one for the score at each of some places.

    A quotient of whole numbers is rounded once, so within 2^-53 of itself.
    """
    top, p, q = max(scores), scale.numerator, scale.denominator
    gaps = [(top - score) * q for score in scores]
    x = np.array([gap / p for gap in gaps])
    return bernoulli(x[places], lambda i: (gaps[int(places[i])], p), bits)
