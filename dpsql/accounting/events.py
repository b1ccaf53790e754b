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

**Gates and selections.** What comes out are booleans, or an index; the losses log(P/Q) of all that
can come out lie in an interval: [-eps, eps] for pure eps. Two bounds on rho hold, and the smaller
is the price.

*Pure.* eps tanh(eps / 2), as above.

*Range.* If the interval of a pair is `span` long, rho = span^2 / 8 (Cesar, Rogers 2021,
arXiv:2004.07223, "Bounding, concentrating, and truncating"; Dong, Durfee, Rogers 2020). Proof:
k(a) = log E_Q[(P/Q)^a] has k(0) = k(1) = 0, and k'' is the variance of the loss under a tilted
law, at most span^2 / 4. So k(a) - a(a-1) span^2 / 8 is concave and 0 at 0 and 1, hence not above
0 for a > 1: D_a = k(a) / (a-1) <= a span^2 / 8.

Gates that stay open while other questions are asked compose as if each had been asked at once (Lyu
2022, arXiv:2207.09397; Vadhan, Zhang 2023, arXiv:2207.08335; Haney et al. 2023, arXiv:2309.05901).

**AboveThreshold** (Dwork, Roth 2014, Alg. 1; with exponential noise arXiv:2407.20068). Whole
numbers v_i move by at most D. Z is drawn once a run, N_i each time; above is v_i + N_i >= T + Z;
the run ends with its c-th "above". With e1 = D / (scale of Z), e2 = 2D / (scale of N), a run is
pure (e1 + c e2)-private. *Proof.* Fix what comes out, and compare Z = z on one table with Z = z + D
on the other, which costs e1: P(Z = z + D) >= exp(-e1) P(Z = z). Every "below" is then at least as
likely: v rose by at most D, and the threshold did. For an "above", N has to reach at most 2D
further: its tail there is at least exp(-e2) of what it was. There are at most c of them.
Exponential noise (z >= 0) and Laplace noise have both properties. Lyu, Su, Li 2017
(arXiv:1603.01699) prove it for Laplace noise, and that Z need not be drawn again after an "above";
`runs` with a Z each compose.

*Monotone* queries, which all move the same way (counts when a row comes), have e2 = D / (scale of
N): where values rise, N has to reach only as much further as the threshold moved, D; where they
fall, z stays, and N has to reach D further at most. So the losses of a pair lie between
-(e1 + c e2) and c e2, or the other way round: span = e1 + 2 c e2.

**NoisyMax.** The largest of v_i + N_i, with N_i continuous exponential of scale b, is exactly what
permute-and-flip gives (McKenna, Sheldon 2020, arXiv:2010.12603; Ding et al. 2021,
arXiv:2105.07260). Given all other N_j, N_i has to reach at most 2D further, or D where all move the
same way: pure 2D / b, or D / b.

**Exponential mechanism.** P(i) ~ exp(v_i / b): log P(i) moves by (v_i - v_i') / b and by what all i
share. So pure 2D / b, or D / b where all move the same way, and span is no more than that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias, get_args

from dpsql.accounting.losses import check_fraction, check_integer, shifted, within

PICO = 10**12
VERSION = 1
GateNoise: TypeAlias = Literal["exponential", "laplace"]


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Integers with independent discrete Gaussian noise of `variance`.

    `sensitivity_squared` is the square of their L2 sensitivity, an integer like themselves.
    """

    sensitivity_squared: int
    variance: Fraction

    def __post_init__(self) -> None:
        check_integer("sensitivity_squared", self.sensitivity_squared)
        check_fraction("variance", self.variance)

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
        check_integer("sensitivity", self.sensitivity)
        check_integer("largest", self.largest)
        check_fraction("scale", self.scale)
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


@dataclass(frozen=True, slots=True)
class AboveThreshold:
    """Gates: which of some whole numbers, asked one by one, reach a noisy threshold.

    Each number moves by at most `sensitivity`. A run has threshold noise of `threshold_scale`,
    fresh noise of `query_scale` at every question, and ends with its `positives`-th "above"; there
    are `runs` of them, one after another. `monotone`: all numbers move the same way.
    """

    sensitivity: int
    threshold_scale: Fraction
    query_scale: Fraction
    positives: int = 1
    runs: int = 1
    monotone: bool = False
    noise: GateNoise = "exponential"

    def __post_init__(self) -> None:
        for name in ("sensitivity", "positives", "runs"):
            check_integer(name, getattr(self, name))
        check_fraction("threshold_scale", self.threshold_scale)
        check_fraction("query_scale", self.query_scale)
        if type(self.monotone) is not bool or self.noise not in get_args(GateNoise):
            raise ValueError(f"not a gate: {self.monotone!r}, {self.noise!r}")

    @property
    def loss(self) -> tuple[Fraction, Fraction]:
        """What a run costs in pure epsilon, and how long the interval of its losses is."""
        once = self.sensitivity / self.threshold_scale
        each = self.positives * self.sensitivity / self.query_scale
        if self.monotone:
            return once + each, once + 2 * each
        return once + 2 * each, 2 * (once + 2 * each)

    @property
    def rho(self) -> int:
        return math.ceil(self.runs * PICO * within(*self.loss))

    @property
    def epsilon(self) -> int:
        return math.ceil(PICO * self.runs * self.loss[0])

    def to_dict(self) -> dict[str, Any]:
        return {
            "event": "above_threshold",
            "version": VERSION,
            "sensitivity": self.sensitivity,
            "threshold_scale": str(self.threshold_scale),
            "query_scale": str(self.query_scale),
            "positives": self.positives,
            "runs": self.runs,
            "monotone": self.monotone,
            "noise": self.noise,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> AboveThreshold:
        _check_kind(fields, "above_threshold")
        return cls(
            fields["sensitivity"],
            Fraction(fields["threshold_scale"]),
            Fraction(fields["query_scale"]),
            fields["positives"],
            fields["runs"],
            fields["monotone"],
            fields["noise"],
        )


@dataclass(frozen=True, slots=True)
class NoisyMax:
    """The index of the largest of some whole numbers with exponential noise of `scale`.

    Each number moves by at most `sensitivity`; `monotone`: all move the same way.
    """

    sensitivity: int
    scale: Fraction
    monotone: bool = False

    def __post_init__(self) -> None:
        _check_selection(self)

    @property
    def rho(self) -> int:
        pure = _selected(self)
        return math.ceil(PICO * within(pure, 2 * pure))

    @property
    def epsilon(self) -> int:
        return math.ceil(PICO * _selected(self))

    def to_dict(self) -> dict[str, Any]:
        return _selection(self, "noisy_max")

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> NoisyMax:
        _check_kind(fields, "noisy_max")
        return cls(fields["sensitivity"], Fraction(fields["scale"]), fields["monotone"])


@dataclass(frozen=True, slots=True)
class Exponential:
    """The exponential mechanism over whole-number scores: an index with P(i) ~ exp(v_i / scale).

    Each score moves by at most `sensitivity`; `monotone`: all move the same way.
    """

    sensitivity: int
    scale: Fraction
    monotone: bool = False

    def __post_init__(self) -> None:
        _check_selection(self)

    @property
    def rho(self) -> int:
        pure = _selected(self)
        return math.ceil(PICO * within(pure, pure))

    @property
    def epsilon(self) -> int:
        return math.ceil(PICO * _selected(self))

    def to_dict(self) -> dict[str, Any]:
        return _selection(self, "exponential")

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Exponential:
        _check_kind(fields, "exponential")
        return cls(fields["sensitivity"], Fraction(fields["scale"]), fields["monotone"])


Law: TypeAlias = Gaussian | Laplace  # of noise on whole numbers that are released
Selection: TypeAlias = NoisyMax | Exponential


@dataclass(frozen=True, slots=True)
class Rounds:
    """A measurement, then `times` rounds of a selection and a measurement that it decides on.

    They compose adaptively: the prices in rho add up (Bun, Steinke 2016, lemma 2.3).
    """

    first: Gaussian
    pick: Exponential
    each: Gaussian
    times: int

    def __post_init__(self) -> None:
        check_integer("times", self.times)

    @property
    def rho(self) -> int:
        return self.first.rho + self.times * (self.pick.rho + self.each.rho)

    @property
    def epsilon(self) -> None:
        """Gaussian noise has no pure epsilon."""
        return None

    def to_dict(self) -> dict[str, Any]:
        parts = {name: getattr(self, name).to_dict() for name in ("first", "pick", "each")}
        return {"event": "rounds", "version": VERSION, **parts, "times": self.times}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Rounds:
        _check_kind(fields, "rounds")
        return cls(
            Gaussian.from_dict(fields["first"]),
            Exponential.from_dict(fields["pick"]),
            Gaussian.from_dict(fields["each"]),
            fields["times"],
        )


Event: TypeAlias = Law | AboveThreshold | Selection | Rounds


def from_dict(fields: Mapping[str, Any]) -> Event:
    """The event that `to_dict` wrote. Raises ValueError or KeyError for anything else."""
    match fields["event"]:
        case "gaussian":
            return Gaussian.from_dict(fields)
        case "laplace":
            return Laplace.from_dict(fields)
        case "above_threshold":
            return AboveThreshold.from_dict(fields)
        case "noisy_max":
            return NoisyMax.from_dict(fields)
        case "exponential":
            return Exponential.from_dict(fields)
        case "rounds":
            return Rounds.from_dict(fields)
        case other:
            raise ValueError(f"no event is called {other!r}")


def _selected(event: Selection) -> Fraction:
    """The pure epsilon of a selection."""
    return (1 if event.monotone else 2) * event.sensitivity / event.scale


def _selection(event: Selection, name: str) -> dict[str, Any]:
    return {
        "event": name,
        "version": VERSION,
        "sensitivity": event.sensitivity,
        "scale": str(event.scale),
        "monotone": event.monotone,
    }


def _check_selection(event: Selection) -> None:
    check_integer("sensitivity", event.sensitivity)
    check_fraction("scale", event.scale)
    if type(event.monotone) is not bool:
        raise ValueError(f"monotone is true or false, not {event.monotone!r}")


def _check_kind(fields: Mapping[str, Any], name: str) -> None:
    if fields["event"] != name or fields["version"] != VERSION:
        raise ValueError(f"not a {name} event of version {VERSION}: {dict(fields)!r}")
