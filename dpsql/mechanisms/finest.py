"""The largest noise that will do, on one grid for all."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from dpsql.errors import UsageError

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


def _short(size: Fraction) -> Fraction:
    """A short binary fraction at or just below `size`."""
    grid = 1 << (20 if size >= 1 else 48)
    return Fraction(size.numerator * grid // size.denominator, grid)
