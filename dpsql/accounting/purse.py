"""What a ledger keeps: prices, grants, purses, and the entries of its log.

A purse belongs to one user and one dataset. All sums are whole numbers of pico (1e-12), so that
they are exact: a price rounds up, a grant down, and nothing is ever lost by adding.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, TypeAlias, get_args

from dpsql.accounting.convert import (
    LARGEST_DELTA,
    LARGEST_EPSILON,
    SMALLEST_DELTA,
    epsilon_of,
    rho_of,
)
from dpsql.accounting.events import PICO, Event
from dpsql.errors import UsageError

# Nothing that is granted or spent exceeds this, so a sum of two fits 64 bits unless it is refused.
LIMIT = 9 * 10**18


def whole(value: object) -> bool:
    """Whether `value` is a whole number of at least 0 (and no bool)."""
    return type(value) is int and value >= 0


def _check_texts(*values: object) -> None:
    for value in values:
        if type(value) is not str:
            raise ValueError(f"not text: {value!r}")


@dataclass(frozen=True, slots=True)
class Price:
    """A cost in pico: `rho` in zCDP, and the pure `epsilon`, None where there is none.

    It is the price of one release, or what a purse has spent.
    """

    rho: int
    epsilon: int | None

    def __post_init__(self) -> None:
        if not (whole(self.rho) and (self.epsilon is None or whole(self.epsilon))):
            raise ValueError(f"not a price: ρ={self.rho!r}, ε={self.epsilon!r}")

    @classmethod
    def of(cls, event: Event) -> Price:
        """What `event` costs: at least 1 pico. A pure epsilon that no grant can hold is None."""
        exact = cls(event.rho, event.epsilon)
        if exact.epsilon is None or exact.epsilon > LIMIT:
            return cls(max(exact.rho, 1), None)
        return cls(max(exact.rho, 1), max(exact.epsilon, 1))

    def __add__(self, other: Price) -> Price:
        if self.epsilon is None or other.epsilon is None:
            return Price(self.rho + other.rho, None)
        epsilon = self.epsilon + other.epsilon
        return Price(self.rho + other.rho, epsilon if epsilon <= LIMIT else None)


NOTHING = Price(0, 0)


def difference(before: Price, after: Price) -> Price:
    """By how much what is spent has risen; no epsilon where there is none any more."""
    pure = None not in (before.epsilon, after.epsilon)
    epsilon = (after.epsilon or 0) - (before.epsilon or 0) if pure else None
    return Price(after.rho - before.rho, epsilon)


@dataclass(frozen=True, slots=True)
class Grant:
    """What an owner allows a user on a dataset, since `at` (UTC, ISO 8601).

    (epsilon, delta) are the owner's words. With delta > 0 the purse holds `rho`; with delta = 0
    it is pure, holds `epsilon_pico`, and its rho is 0.
    """

    user: str
    dataset: str
    epsilon: float
    delta: float
    rho: int
    epsilon_pico: int
    at: str

    def __post_init__(self) -> None:
        _check_texts(self.user, self.dataset, self.at)
        if not (0 < self.epsilon <= LARGEST_EPSILON and 0 <= self.delta <= LARGEST_DELTA):
            raise ValueError(f"not a grant: ε={self.epsilon!r}, δ={self.delta!r}")
        if not (whole(self.rho) and whole(self.epsilon_pico)):
            raise ValueError(f"not a grant: ρ={self.rho!r}, ε={self.epsilon_pico!r}")
        if not (self.rho <= LIMIT and self.epsilon_pico <= LIMIT and self.pure == (self.rho == 0)):
            raise ValueError(f"not a grant: ρ={self.rho!r}, ε={self.epsilon_pico!r}")

    @property
    def pure(self) -> bool:
        return self.delta == 0

    @classmethod
    def of(cls, user: str, dataset: str, epsilon: float, delta: float, at: str) -> Grant:
        """The grant of (epsilon, delta), in whole numbers rounded down. Raises UsageError."""
        epsilon = _number(epsilon, "epsilon")
        delta = _number(delta, "delta")
        if not sys.float_info.min <= epsilon <= LARGEST_EPSILON:
            raise UsageError(
                f"epsilon is {epsilon!r}; a grant has 0 < epsilon <= {LARGEST_EPSILON:g}"
            )
        if not (delta == 0 or SMALLEST_DELTA <= delta <= LARGEST_DELTA):
            raise UsageError(
                f"delta is {delta!r}; a grant has 0 < delta <= {LARGEST_DELTA:g}, or delta = 0"
                " for a pure one"
            )
        # The decimal that the owner wrote: 0.3 holds three releases of 0.1.
        epsilon_pico = min(int(Decimal(repr(epsilon)) * PICO), LIMIT)
        rho = 0 if delta == 0 else min(rho_of(epsilon, delta), LIMIT)
        if (epsilon_pico if delta == 0 else rho) < 1:
            raise UsageError(
                f"epsilon is {epsilon!r}; at delta {delta:g} that is worth less than the least"
                " price of a release (1e-12)"
            )
        return cls(user, dataset, epsilon, delta, rho, epsilon_pico, at)


@dataclass(frozen=True, slots=True)
class Purse:
    """The state of one purse. `grant` is None when none is in force; `spent` outlives grants."""

    user: str
    dataset: str
    grant: Grant | None
    spent: Price

    def __post_init__(self) -> None:
        _check_texts(self.user, self.dataset)


@dataclass(frozen=True, slots=True)
class Balance:
    """A grant and what has been spent, in pico.

    `spent_epsilon` is None once a release had no pure epsilon; under a pure grant it never is.
    """

    grant: Grant
    spent_rho: int
    spent_epsilon: int | None

    @classmethod
    def of(cls, grant: Grant, spent: Price) -> Balance:
        return cls(grant, spent.rho, spent.epsilon)

    @property
    def spent(self) -> Price:
        return Price(self.spent_rho, self.spent_epsilon)

    @property
    def left_rho(self) -> int:
        """What may still be spent, in pico of rho; 0 under a pure grant."""
        return max(0, self.grant.rho - self.spent_rho)

    @property
    def left_epsilon(self) -> int:
        """What may still be spent, in pico of epsilon at the grant's delta."""
        if self.grant.pure:
            spent = self.spent_epsilon
            return 0 if spent is None else max(0, self.grant.epsilon_pico - spent)
        return math.ceil(epsilon_of(self.left_rho, self.grant.delta) * PICO)


@dataclass(frozen=True, slots=True)
class Rise:
    """What a release costs: alone, and by how much it raises what the purse has spent.

    `exact` says whether what is spent afterwards is the largest loss of a person by all releases
    with a footprint; otherwise it is a bound on it.
    """

    price: Price
    before: Balance
    after: Balance
    exact: bool

    @property
    def charged(self) -> Price:
        """The rise: at most the price, and nothing where others have lost more already."""
        return difference(self.before.spent, self.after.spent)


@dataclass(frozen=True, slots=True)
class Receipt:
    """A charge that stands: what it cost, the purse before and after it, its entry in the log."""

    rise: Rise
    seq: int

    @property
    def price(self) -> Price:
        return self.rise.price

    @property
    def charged(self) -> Price:
        return self.rise.charged

    @property
    def before(self) -> Balance:
        return self.rise.before

    @property
    def after(self) -> Balance:
        return self.rise.after


Kind: TypeAlias = Literal["grant", "revoke", "charge"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the log; the order is that of `seq`, never that of the clock.

    `grant` stands in a grant's entry; `statement`, `event` (as `to_dict` wrote it) and `price` in
    a charge's; `before` and `after` are what the purse had spent. `footprint` (as `to_text` wrote
    it), the `snapshot` that it is about, and whether the sum after it is `exact`, belong to a
    charge that has one.
    """

    seq: int
    at: str
    kind: Kind
    user: str
    dataset: str
    before: Price
    after: Price
    grant: Grant | None = None
    statement: str = ""
    event: dict[str, Any] | None = None
    price: Price | None = None
    footprint: str | None = None
    snapshot: str = ""
    exact: bool | None = None

    def __post_init__(self) -> None:
        _check_texts(self.at, self.user, self.dataset, self.statement, self.snapshot)
        if not (whole(self.seq) and self.kind in get_args(Kind)):
            raise ValueError(f"not an entry: {self.seq!r}, {self.kind!r}")
        if not (self.event is None or isinstance(self.event, dict)):
            raise ValueError(f"not an event: {self.event!r}")
        if not (self.footprint is None or type(self.footprint) is str):
            raise ValueError(f"not a footprint: {self.footprint!r}")

    @property
    def charged(self) -> Price:
        """By how much a charge raised what the purse had spent."""
        return difference(self.before, self.after)


def _number(value: object, name: str) -> float:
    """The finite float that `value` is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{name} is {value!r}; write a number, such as {name}=1e-6")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise UsageError(f"{name} is {number!r}; write a finite number")
    return number
