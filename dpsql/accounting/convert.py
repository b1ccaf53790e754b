"""Between zCDP and (epsilon, delta), each rounded the safe way.

Canonne, Kamath, Steinke 2020 (arXiv:2004.00010), Proposition 12: a rho-zCDP release is
(epsilon, delta)-private when, for some a > 1,

    delta >= exp((a - 1)(a rho - epsilon)) / (a - 1) * (1 - 1/a)^a.

With b = a - 1 and L = ln(1/delta), solved for epsilon:

    epsilon(b) = (1 + b) rho + (L - ln b - (1 + b) ln(1 + 1/b)) / b.

Its derivative vanishes where rho b^2 + ln(1 + b) = L, which has one root. *Every* b > 0 gives a
valid epsilon, so the search for the root touches the quality of the answer and never its truth;
what must be safe is the one evaluation of epsilon(b) at the float b that the search ends with.
"""

from __future__ import annotations

import functools
import math
import sys

from dpsql.accounting.events import PICO
from dpsql.errors import UsageError

SMALLEST_DELTA = 1e-300
LARGEST_DELTA = 0.5
LARGEST_EPSILON = 1e7
LARGEST_RHO = 10**30  # in pico: far above any grant, so that every price can be shown


def epsilon_of(rho: int, delta: float) -> float:
    """The least epsilon >= 0 such that rho (in pico) implies (epsilon, delta), rounded up."""
    if type(rho) is not int or not 0 <= rho <= LARGEST_RHO:
        raise UsageError(f"rho counts 1e-12ths, from 0 to {LARGEST_RHO:.0e}, not {_shown(rho)}")
    _check_delta(delta)
    return _least(rho, delta) if rho else 0.0


@functools.lru_cache(1024)  # an answer shows the same costs several times
def _least(rho: int, delta: float) -> float:
    cost, log = rho / PICO, -math.log(delta)
    return max(0.0, _epsilon(_order(cost, log), cost, log))


def rho_of(epsilon: float, delta: float) -> int:
    """The largest rho (in pico) that implies (epsilon, delta), rounded down.

    That it is safe follows from `epsilon_of` alone: its epsilon is at most the one asked for.
    """
    if not _is_number(epsilon) or not sys.float_info.min <= epsilon <= LARGEST_EPSILON:
        raise UsageError(
            f"epsilon is a number above 0 and at most {LARGEST_EPSILON:.0f}, not {_shown(epsilon)}"
        )
    _check_delta(delta)
    log = -math.log(delta)
    # epsilon_of is concave in rho and epsilon(b) its tangent, so Newton's steps rise from a start
    # below the root. The start is rho + 2 sqrt(rho L) = epsilon, the bound of Bun and Steinke,
    # or the least charge, from which there is no rising when nothing can be bought.
    cost = max((epsilon / (math.sqrt(log + epsilon) + math.sqrt(log))) ** 2, 1 / PICO)
    for _ in range(30):
        b = _order(cost, log)
        better = (epsilon - _constant(b, log)) / (1.0 + b)
        if not better > cost * (1.0 + 1e-14):
            break
        cost = better
    rho = math.floor(cost * PICO)
    while rho > 0 and not epsilon_of(rho, delta) <= epsilon:
        rho -= 1 + (rho >> 50)
    return rho


def pure_rho(epsilon: int) -> int:
    """The rho of any pure epsilon-private release, or of several that add to it, rounded up.

    epsilon tanh(epsilon / 2), which is convex and 0 at 0: parts cost at most what the whole does.
    Both are in pico.
    """
    return math.ceil(epsilon * math.tanh(epsilon / PICO / 2) * (1 + 2**-50))


def pure_epsilon(rho: int) -> int:
    """The largest epsilon (in pico) whose `pure_rho` is at most `rho`, or a little less."""
    # x tanh(x / 2) is at most x, and at least x^2 / (2 + x)
    low, high = rho - (rho >> 49), rho + 2 * math.isqrt(rho * PICO) + 2 * PICO
    while high - low > 1 + (high >> 50):
        middle = (low + high) // 2
        low, high = (middle, high) if pure_rho(middle) <= rho else (low, middle)
    return low


def _order(cost: float, log: float) -> float:
    """About the root b of cost b^2 + ln(1 + b) = log."""
    # ln(1 + b) is at least 0 and at most b: the root lies between those of the two quadratics.
    high = math.sqrt(log / cost)
    low = 2.0 * log / (1.0 + math.sqrt(1.0 + 4.0 * cost * log))
    b = min(low, high)
    for _ in range(40):
        # Newton's step in ln b, which keeps b positive
        value = cost * b * b + math.log1p(b) - log
        slope = 2.0 * cost * b * b + b / (1.0 + b)
        step = value / slope
        b = min(max(b * math.exp(-step), low), high)
        if abs(step) < 1e-9:
            break
    return b


def _constant(b: float, log: float) -> float:
    return (log - math.log(b) - (1.0 + b) * math.log1p(1.0 / b)) / b


def _epsilon(b: float, cost: float, log: float) -> float:
    """epsilon(b), rounded up.

    `size` bounds the sum of the absolute values of all terms. Each carries a relative error of
    at most five roundings and the last place of a logarithm, below 2^-49 together with those of
    the sums; 2^-47 leaves room.
    """
    size = (1.0 + b) * cost + (log + abs(math.log(b)) + (1.0 + b) * math.log1p(1.0 / b)) / b
    return (1.0 + b) * cost + _constant(b, log) + size * 2**-47


def _check_delta(delta: float) -> None:
    if not _is_number(delta) or not SMALLEST_DELTA <= delta <= LARGEST_DELTA:
        raise UsageError(
            f"delta is a number from {SMALLEST_DELTA} to {LARGEST_DELTA}, not {_shown(delta)}"
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: object) -> str:
    return repr(value)[:40]
