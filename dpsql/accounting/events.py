"""What a release costs: the events that a ledger stores. The meaning of one never changes.

An event says what noise was added to integers that move by how much between neighbours; its
price follows from that and from nothing else. Prices are integers of 1e-12 ("pico"), rounded up.
`rho` is the cost in zero-concentrated privacy (zCDP; Bun, Steinke 2016, arXiv:1605.02065): the
Renyi divergence of order a between the releases of neighbours is at most rho a for every a > 1.
Under independent noise the costs of coordinates add.

**Gaussian.** rho = D2^2 / (2 variance) (Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Thm 14).

**Laplace.** One coordinate, P(z) ~ q^|z| with q = exp(-1/b), moved by d >= 0 to Q(z) = P(z - d):
the cost is exactly the Kullback-Leibler divergence,

    f(d) = KL(P, Q) = (d - 2q (1 - q^d) / (1 - q^2)) / b.

*Proof.* Put a = u + 1/2 and M(u) = sum P^a Q^(1-a) = exp((a - 1) D_a), so that M(1/2) = 1 and
M'(1/2) = KL. With h = 1/(2b), y = u/b, the sum over z <= 0, 0 < z < d and z >= d is, up to a
factor free of u,

    K(y) = coth(h) cosh(d y) + coth(y) sinh(d y).

Now 2 sin(t) K(i t) = (C + 1) sin((d + 1) t) - (C - 1) sin((d - 1) t) with C = coth h > 1. At the
2(d + 1) points of a period where sin((d + 1) t) = +-1 the first term outweighs the second, so this
trigonometric polynomial of degree d + 1 changes sign 2(d + 1) times: all its zeros are real. So K
vanishes on the imaginary axis alone and, as an even entire function of order 1, is
K(0) times a product of (1 + y^2 / t_k^2) (Hadamard). Hence ln M is a concave function of v = u^2,
below its tangent at v = 1/4: ln M(u) <= (u^2 - 1/4) M'(1/2) = a (a - 1) KL. That is D_a <= a KL,
with equality in the limit a -> 1.

f is convex with f(0) = 0: f(d + 1) - f(d) = (1 - 2 q^(d+1) / (1 + q)) / b grows with d. Among
moves of at most m each and D1 together, the sum of f(d_j) is therefore largest at a corner, where
floor(D1 / m) coordinates move by m and one by the rest. At D1 = 1 this is eps tanh(eps / 2),
eps = 1/b; in general it is at most that with eps = D1/b, the cost of any pure eps-private release
(such a one is a post-processing of randomised response, for which K(y) = cosh(y)), since
f(d) <= (d/b) tanh(d/(2b)), and x tanh(x/2) is convex. So no other bound need be compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

PICO = 10**12
VERSION = 1


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Integers with independent discrete Gaussian noise of `variance`.

    `sensitivity_squared` is the square of their L2 sensitivity, an integer like themselves.
    """

    sensitivity_squared: int
    variance: Fraction

    def __post_init__(self) -> None:
        _check_integer("sensitivity_squared", self.sensitivity_squared)
        _check_fraction("variance", self.variance)

    @property
    def rho(self) -> int:
        below = 2 * self.variance.numerator
        return -(-PICO * self.sensitivity_squared * self.variance.denominator // below)

    @property
    def epsilon(self) -> None:
        """Gaussian noise has no pure epsilon."""
        return None

    def to_dict(self) -> dict[str, Any]:
        return {
            "event": "gaussian",
            "version": VERSION,
            "sensitivity_squared": self.sensitivity_squared,
            "variance": str(self.variance),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Gaussian:
        _check_kind(fields, "gaussian")
        return cls(fields["sensitivity_squared"], Fraction(fields["variance"]))


@dataclass(frozen=True, slots=True)
class Laplace:
    """Integers with independent discrete Laplace noise of `scale`: P(z) ~ exp(-|z| / scale).

    `sensitivity` is their L1 sensitivity, `largest` the most that a single one of them moves.
    """

    sensitivity: int
    largest: int
    scale: Fraction

    def __post_init__(self) -> None:
        _check_integer("sensitivity", self.sensitivity)
        _check_integer("largest", self.largest)
        _check_fraction("scale", self.scale)
        if self.largest > self.sensitivity:
            raise ValueError("no coordinate moves by more than all of them together")

    @property
    def rho(self) -> int:
        many, rest = divmod(self.sensitivity, self.largest)
        cost = many * shifted(self.largest, self.scale) + shifted(rest, self.scale)
        return math.ceil(cost * PICO * (1 + 2**-50))

    @property
    def epsilon(self) -> int:
        return math.ceil(PICO * self.sensitivity / self.scale)

    def to_dict(self) -> dict[str, Any]:
        return {
            "event": "laplace",
            "version": VERSION,
            "sensitivity": self.sensitivity,
            "largest": self.largest,
            "scale": str(self.scale),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Laplace:
        _check_kind(fields, "laplace")
        return cls(fields["sensitivity"], fields["largest"], Fraction(fields["scale"]))


Event: TypeAlias = Gaussian | Laplace


def from_dict(fields: Mapping[str, Any]) -> Event:
    """The event that `to_dict` wrote. Raises ValueError or KeyError for anything else."""
    match fields["event"]:
        case "gaussian":
            return Gaussian.from_dict(fields)
        case "laplace":
            return Laplace.from_dict(fields)
        case other:
            raise ValueError(f"no event is called {other!r}")


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


def _check_integer(name: str, value: object) -> None:
    if type(value) is not int or not 0 < value < 1 << 127:
        raise ValueError(f"{name} is a positive integer of at most 127 bits, not {value!r}")


def _check_fraction(name: str, value: object) -> None:
    inside = type(value) is Fraction and (
        value.denominator <= value.numerator << 64 and value.numerator <= value.denominator << 128
    )
    if not inside:
        raise ValueError(f"{name} is a fraction between 2^-64 and 2^128, not {value!r}")


def _check_kind(fields: Mapping[str, Any], name: str) -> None:
    if fields["event"] != name or fields["version"] != VERSION:
        raise ValueError(f"not a {name} event of version {VERSION}: {dict(fields)!r}")
