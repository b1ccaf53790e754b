"""The only samplers: discrete Gaussian, Laplace and exponential noise, exact to the last bit.

Canonne, Kamath, Steinke 2020 (arXiv:2004.00010), Algorithms 1 to 3, a block of values at a time;
exponential noise on whole numbers is the geometric law that their Algorithm 2 puts a sign to. Every
coin is exact (`bernoulli`), and so is every integer: the values follow the stated law as far as the
bits are uniform. Floats appear only where `bernoulli` allows for their error.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.curator.bernoulli import bernoulli, geometric
from dpsql.curator.bits import SYSTEM, Bits
from dpsql.curator.pool import Pool

LARGEST_VARIANCE = 1 << 112
LARGEST_SCALE = 1 << 56
_CHUNK = 1 << 16  # proposals at a time: bounds the memory, and suits the cache
_SMALLEST = 1e-300

_pool = Pool()


def forget() -> None:
    """Drop all noise drawn ahead. A forked child does so by itself."""
    _pool.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget)


def gaussian(variance: Fraction | int, size: int, *, bits: Bits = SYSTEM) -> NDArray[np.int64]:
    """`size` independent values with P(z) proportional to exp(-z^2 / (2 variance)).

    Raises ValueError unless 0 < variance <= 2^112.
    """
    p, q = variance.numerator, variance.denominator
    if not 0 < p <= LARGEST_VARIANCE * q:
        raise ValueError(f"the variance is above 0 and at most 2^112, not {variance}")
    return _take("gaussian", p, q, size, bits, _gaussian)


def laplace(scale: Fraction | int, size: int, *, bits: Bits = SYSTEM) -> NDArray[np.int64]:
    """`size` independent values with P(z) proportional to exp(-|z| / scale).

    Raises ValueError unless 0 < scale <= 2^56; OverflowError when a value exceeds 64 bits, which
    happens with probability exp(-128) at the largest scale.
    """
    t, s = _scale(scale)
    return _take("laplace", t, s, size, bits, _laplace)


def exponential(scale: Fraction | int, size: int, *, bits: Bits = SYSTEM) -> NDArray[np.int64]:
    """`size` independent values with P(z) proportional to exp(-z / scale), z = 0, 1, 2, ...

    So P(z >= k) = exp(-k / scale). Raises as `laplace` does.
    """
    t, s = _scale(scale)
    return _take("exponential", t, s, size, bits, _exponential)


def below(limit: int, size: int, *, bits: Bits = SYSTEM) -> NDArray[np.int64]:
    """`size` independent whole numbers from 0 to limit - 1, all with the same chance.

    Raises ValueError unless 0 < limit <= 2^63.
    """
    if not 0 < limit <= 1 << 63:
        raise ValueError(f"the limit is above 0 and at most 2^63, not {limit}")
    last = np.uint64((1 << 64) // limit * limit - 1)  # what is above it favours small numbers

    def propose(count: int) -> NDArray[np.int64]:
        words = bits.words(count)
        return (words[words <= last] % np.uint64(limit)).astype(np.int64)

    return _repeat(size, 0.5, propose)


def _scale(scale: Fraction | int) -> tuple[int, int]:
    t, s = scale.numerator, scale.denominator
    if not 0 < t <= LARGEST_SCALE * s:
        raise ValueError(f"the scale is above 0 and at most 2^56, not {scale}")
    return t, s


def _take(
    name: str,
    p: int,
    q: int,
    size: int,
    bits: Bits,
    law: Callable[[int, int, int, Bits], NDArray[np.int64]],
) -> NDArray[np.int64]:
    if size < 0:
        raise ValueError(f"the size is at least 0, not {size}")
    if bits is SYSTEM:
        return _pool.take((name, p, q), size, lambda count: law(p, q, count, bits))
    return law(p, q, size, bits)


def _repeat(
    size: int, accepted: float, propose: Callable[[int], NDArray[np.int64]]
) -> NDArray[np.int64]:
    """The first `size` values that `propose` gives: about `accepted` of each of its tries."""
    parts: list[NDArray[np.int64]] = []
    missing = size
    while missing > 0:
        part = propose(min(int(1.05 * missing / accepted) + 32, _CHUNK))
        parts.append(part)
        missing -= part.size
    return np.concatenate(parts)[:size] if parts else np.empty(0, np.int64)


def _laplace(t: int, s: int, size: int, bits: Bits) -> NDArray[np.int64]:
    return _repeat(size, _laplace_accepted(t, s), lambda count: _proposals(t, s, count, bits))


def _exponential(t: int, s: int, size: int, bits: Bits) -> NDArray[np.int64]:
    return _repeat(size, _remainders(t), lambda count: _sizes(t, s, count, bits)[0])


def _gaussian(p: int, q: int, size: int, bits: Bits) -> NDArray[np.int64]:
    """Algorithm 3 for variance p/q: discrete Laplace proposals y of scale t, kept with
    probability exp(-x), x = (|y| - p/(q t))^2 / (2 p/q).

    The float d = |y| - c, c = p/(q t), has an error of at most 2^-53 (|y| + c + |d|) <= 2^-52
    (c + |d|). With c < sqrt(p/q), since t exceeds sqrt(p/q), x moves by at most
    2^-52 (sqrt(2x) + 2x); square, quotient and divisor add 1.5 * 2^-52 x. Together this is below
    the 2^-50 (sqrt(x) + x) that `bernoulli` allows. Below variance 1e-300 the divisor is raised,
    which leaves exp(-x) within 1e-290 of 1 at y = 0 and of 0 elsewhere.
    """
    t = math.isqrt(p // q) + 1
    centre, divisor = p / (q * t), max(2 * p / q, _SMALLEST)
    kept = math.exp(-((centre**2) / divisor)) * max(1.0, math.sqrt(math.pi * divisor))

    def propose(count: int) -> NDArray[np.int64]:
        y = _proposals(t, 1, count, bits)

        def exact(i: int) -> tuple[int, int]:
            a = abs(int(y[i])) * t * q - p
            return a * a, 2 * p * q * t * t

        d = np.abs(y).astype(np.float64) - centre
        return y[bernoulli(d * d / divisor, exact, bits)]

    accepted = _laplace_accepted(t, 1) * kept * math.tanh(0.5 / t)
    return _repeat(size, accepted, propose)


def _laplace_accepted(t: int, s: int) -> float:
    """About the part of `_proposals` that is accepted."""
    moved = math.exp(-s / t) if s < 700 * t else 0.0
    return _remainders(t) * (1.0 + moved) / 2.0


def _remainders(t: int) -> float:
    """About the part of uniform remainders below t that `_sizes` keeps."""
    return math.expm1(-1.0) / (t * math.expm1(-1.0 / t)) if t < 1000 else 0.632


def _proposals(t: int, s: int, count: int, bits: Bits) -> NDArray[np.int64]:
    """Algorithm 2 for scale t/s: `count` tries, of which those accepted are returned.

    Sizes get a random sign; 0 with minus is refused.
    """
    return _signed(*_sizes(t, s, count, bits))


def _sizes(t: int, s: int, count: int, bits: Bits) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Geometric sizes of ratio exp(-s/t), of those of `count` tries that are kept, and their signs.

    U below t is kept with probability exp(-U/t), V is geometric: U + t V is geometric of ratio
    exp(-1/t), and its quotient by s of ratio exp(-s/t). Signs are random bits, True for minus.
    """
    if t >= 1 << 57:
        return _wide_sizes(t, s, count, bits)
    words = bits.words(count)
    negative = (words & np.uint64(1)).astype(np.bool_)
    if t == 1:
        u = np.zeros(count, np.int64)
    else:
        raw = (words >> np.uint64(1)).astype(np.int64)  # uniform below 2^63
        u = raw % t
        quotient = u / t  # three roundings: within 2^-51 of it
        kept = bernoulli(quotient, lambda i: (int(u[i]), t), bits)
        if t & (t - 1):  # the last, incomplete turn below 2^63 would favour small remainders
            kept &= raw < (1 << 63) // t * t
        u, negative = u[kept], negative[kept]
    v = geometric(u.size, bits)
    if int(v.max(initial=0)) >= 63 or s >= 1 << 63:  # V once in 2^90: u + t v might pass 2^63
        return _quotients(u.tolist(), v, t, s), negative
    return (u + t * v) // s, negative


def _wide_sizes(
    t: int, s: int, count: int, bits: Bits
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """`_sizes` in Python's integers, for any t."""
    each = t.bit_length() // 64 + 1
    words = bits.words(count * each)
    width = 64 * each - 1
    turns = (1 << width) // t * t
    remainders, signs = [], []
    for i in range(count):
        drawn = int.from_bytes(words[i * each : (i + 1) * each].tobytes(), "little")
        if drawn >> 1 < turns:
            remainders.append((drawn >> 1) % t)
            signs.append(bool(drawn & 1))
    quotient = np.array([u / t for u in remainders], np.float64)
    kept = bernoulli(quotient, lambda i: (remainders[i], t), bits)
    remainders = [u for u, keep in zip(remainders, kept.tolist(), strict=True) if keep]
    v = geometric(len(remainders), bits)
    return _quotients(remainders, v, t, s), np.array(signs, np.bool_)[kept]


def _quotients(u: list[int], v: NDArray[np.int64], t: int, s: int) -> NDArray[np.int64]:
    whole = [(low + t * high) // s for low, high in zip(u, v.tolist(), strict=True)]
    return np.array(whole, np.int64)


def _signed(x: NDArray[np.int64], negative: NDArray[np.bool_]) -> NDArray[np.int64]:
    signed: NDArray[np.int64] = np.where(negative, -x, x)
    accepted: NDArray[np.bool_] = ~negative | (x != 0)
    return signed[accepted]
