"""Noise as if drawn: the same whenever it is asked for, to see what rounding makes of answers.

Nothing that is released is made of it: it takes the place of noise in what is foretold. Chances
are the fractional parts of multiples of numbers that are linearly independent over the rationals,
so that those of several noises are spread evenly together, too (Weyl 1916): exponentials of
different algebraic numbers (Lindemann, Weierstrass 1885).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Law
from dpsql.mechanisms.intervals.law import atoms, stddev

Floats: TypeAlias = NDArray[np.float64]

_LISTED, _REACH = 64.0, 12.0  # stddev up to which the atoms are listed, and stddevs that they reach
_FAR = 1000.0  # so that no two of the multiples stay near each other
_REGRESSED = 16  # tries from which a number is told, beside their mean
_TIMES = 4.0  # of what is known that varies with it, at most


def chances(count: int, turns: int, root: int = 2) -> Floats:
    """(turns, count) between 0 and 1; others of other roots, of which no quotient is a square."""
    at = np.arange(1.0, count + 1)
    each = _FAR * np.exp((math.sqrt(root) * at) % 1.0)
    found: Floats = (np.arange(1.0, turns + 1)[:, None] * each) % 1.0
    return found


def drawn(laws: Sequence[tuple[Law, int]], turns: int) -> list[Floats]:
    """For each law so many noises, (turns, noises)."""
    counts = [count for _, count in laws]
    ends = np.cumsum(counts)[:-1]
    both = [chances(sum(counts), turns, root) for root in (3, 11)]
    each = zip(laws, *(np.split(found, ends, 1) for found in both), strict=True)
    return [_noise(law, chance, angle) for (law, _), chance, angle in each]


def tried_mean(tried: Floats, known: Floats) -> tuple[float, float]:
    """A mean by so many tries of it, and twice the standard error of that.

    Less what varies as `known` does, whose mean is 0, beside the same tries: a control variate,
    by regression, or where tries are too few as it is. More noise makes nothing err less; the mean
    of `known` is below 0 for small discrete noise, which is 0 more often than its parameter says.
    """
    spread, times = float(known.var()), 1.0
    if len(tried) >= _REGRESSED and spread > 0.0:
        times = float(((tried - tried.mean()) * (known - known.mean())).mean()) / spread
        times = min(max(times, 0.0), _TIMES)  # far off by chance where `known` hardly varies
    left = tried - times * known
    mean, error = float(left.mean()), float(left.std(ddof=1)) / math.sqrt(len(left))
    return float(f"{mean:.6g}"), float(f"{2.0 * error:.6g}")  # in whatever order sums were added


def _noise(law: Law, chance: Floats, angle: Floats) -> Floats:
    """The noises of these chances; large ones as normal ones (Box and Muller 1958)."""
    sigma = stddev(law)
    if sigma <= _LISTED:
        up_to = _up_to(law)
        return (np.searchsorted(up_to, chance) - len(up_to) // 2).astype(np.float64)
    size = np.sqrt(-2.0 * np.log(np.maximum(chance, 1e-300)))
    found: Floats = np.rint(sigma * size * np.cos(2.0 * math.pi * angle))
    return found


@functools.lru_cache(64)
def _up_to(law: Law) -> Floats:
    """P(Z <= k) for k = -radius ... radius."""
    radius = math.ceil(_REACH * stddev(law)) + 2
    found: Floats = np.cumsum(atoms(law, radius))
    found[-1] = 1.0
    return found
