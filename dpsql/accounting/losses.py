"""What the prices of events share: bounds on rho, and what is refused of their parameters.

The proofs are in `events`.
"""

from __future__ import annotations

import math
from fractions import Fraction


def shifted(moved: int, scale: Fraction) -> float:
    """f(moved): the cost in rho of one coordinate with Laplace noise; not in pico; rounded up.

    With y = 1/b and g = 2q (1 - q^d) / (1 - q^2), each of the quantities below is within a few
    units of 2^-53 of its true value, and an error in y moves exp(-y) or 1 - exp(-d y) by no more
    than itself: g <= d is within 2^-49 d. Adding 2^-48 d outweighs that and its own rounding.
    """
    y, d = float(1 / scale), float(moved)
    if d == 0.0:
        return 0.0
    g = 2.0 * math.exp(-y) * math.expm1(-d * y) / math.expm1(-2.0 * y)
    return (d - g + d * 2**-48) * y * (1 + 2**-50)


def within(pure: Fraction, span: Fraction) -> Fraction:
    """A bound on the rho of losses up to `pure`, in an interval as long as `span`; rounded up.

    tanh is within a few units of 2^-53 of its value, which 2^-50 outweighs.
    """
    half = float(pure / 2) * (1 + 2**-50)
    randomised = pure * Fraction(min(math.tanh(half) * (1 + 2**-50), 1.0))
    return min(randomised, span * span / 8)


def check_integer(name: str, value: object) -> None:
    if type(value) is not int or not 0 < value < 1 << 127:
        raise ValueError(f"{name} is a positive integer of at most 127 bits, not {value!r}")


def check_fraction(name: str, value: object) -> None:
    inside = type(value) is Fraction and (
        value.denominator <= value.numerator << 64 and value.numerator <= value.denominator << 128
    )
    if not inside:
        raise ValueError(f"{name} is a fraction between 2^-64 and 2^128, not {value!r}")
