"""The largest noise that will do, on one grid for all; noise like another."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from dpsql.curator.noise import LARGEST_SCALE, LARGEST_VARIANCE
from dpsql.curator.quote import GaussianNoise, LaplaceNoise, Noise
from dpsql.errors import UsageError
from dpsql.mechanisms import gaussian, laplace

_LEAST = Fraction(1, 1 << 40)  # of a variance or a scale: no noise is drawn that is not 0


def largest(
    fits: Callable[[Fraction], bool], guess: Fraction, most: Fraction, steps: int
) -> Fraction:
    """The largest size on a fixed grid, `steps` to a factor of 2, that `fits`, as all smaller do.

    It is looked for near `guess`. On one grid for all, a wider interval never costs more. Raises
    UsageError where none fits.
    """
    bottom, top = math.ceil(math.log2(_LEAST) * steps), math.floor(math.log2(most) * steps)

    def size(index: int) -> Fraction:
        return _short(Fraction(2.0 ** (index / steps)))

    low = min(max(math.floor(math.log2(guess) * steps), bottom), top) if guess else bottom
    step = 1
    if fits(size(low)):
        while low < top and fits(size(min(low + step, top))):
            low, step = min(low + step, top), 2 * step
        high = min(low + step, top + 1)
    else:
        high = low
        while high > bottom and not fits(size(max(high - step, bottom))):
            high, step = max(high - step, bottom), 2 * step
        if high == bottom:
            raise UsageError("this accuracy is finer than any noise that is drawn: ask for more")
        low = max(high - step, bottom)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(size(middle)) else (low, middle)
    return size(low)


def most_noise(fits: Callable[[Noise], bool], like: Noise, steps: int) -> Noise:
    """The largest noise of the same kind that `fits`, looked for near that one."""
    match like:
        case GaussianNoise(variance=guess):
            most = Fraction(LARGEST_VARIANCE)
            found = largest(lambda v: fits(gaussian.short(v)), guess, most, steps)
            return gaussian.short(found)
        case LaplaceNoise(scale=guess):
            most = Fraction(LARGEST_SCALE)
            return LaplaceNoise(largest(lambda b: fits(LaplaceNoise(b)), guess, most, steps))


def alike(noise: Noise, variance: float) -> Noise:
    """Noise of the same kind, of a variance at or just above the one given."""
    match noise:
        case GaussianNoise():
            return gaussian.short(Fraction(variance))
        case LaplaceNoise():
            return laplace.of_variance(variance)


def _short(size: Fraction) -> Fraction:
    """A short binary fraction at or just below `size`."""
    grid = 1 << (20 if size >= 1 else 48)
    return Fraction(size.numerator * grid // size.denominator, grid)
