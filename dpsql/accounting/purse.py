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
    pure_epsilon,
    pure_rho,
    rho_of,
)
from dpsql.accounting.events import PICO, Event
from dpsql.errors import UsageError

# Nothing that is granted or spent exceeds this, so a sum of two fits 64 bits unless it is refused.
LIMIT = 9 * 10**18
EVERYBODY = ""  # who holds the purse of all users of a dataset together; no user has this name


def whole(value: object) -> bool:
    """Whether `value` is a whole number of at least 0 (and no bool)."""
    return type(value) is int and value >= 0


def ones(pico: int) -> str:
    """A number of pico as a decimal of ones, with all its digits: 375000000000 is 0.375."""
    return f"{(Decimal(pico) / PICO).normalize():f}"


def check_texts(*values: object) -> None:
    """Raises ValueError for anything that is no text."""
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
    it is pure, holds `epsilon_pico`, and its rho is 0. From `until` on, if there is one, nothing
    more is paid.
    """

    user: str
    dataset: str
    epsilon: float
    delta: float
    rho: int
    epsilon_pico: int
    at: str
    until: str = ""

    def __post_init__(self) -> None:
        check_texts(self.user, self.dataset, self.at, self.until)
        if not (0 < self.epsilon <= LARGEST_EPSILON and 0 <= self.delta <= LARGEST_DELTA):
            raise ValueError(f"not a grant: ε={self.epsilon!r}, δ={self.delta!r}")
        if not (whole(self.rho) and whole(self.epsilon_pico)):
            raise ValueError(f"not a grant: ρ={self.rho!r}, ε={self.epsilon_pico!r}")
        if not (self.rho <= LIMIT and self.epsilon_pico <= LIMIT and self.pure == (self.rho == 0)):
            raise ValueError(f"not a grant: ρ={self.rho!r}, ε={self.epsilon_pico!r}")

    @property
    def pure(self) -> bool:
        return self.delta == 0

    def ended(self, now: str) -> bool:
        """Whether the grant has ended at `now` (UTC, ISO 8601, as `at` is written)."""
        return self.until != "" and not now < self.until

    @classmethod
    def of(
        cls, user: str, dataset: str, epsilon: float, delta: float, at: str, until: str = ""
    ) -> Grant:
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
        return cls(user, dataset, epsilon, delta, rho, epsilon_pico, at, until)


@dataclass(frozen=True, slots=True)
class Purse:
    """The state of one purse. `grant` is None when none is in force; `spent` outlives grants.

    `user` is a user, a group, or EVERYBODY, whose grant is the cap of the dataset; `fixed` tells a
    cap that the owner set from one that follows the largest grant. What the holder asks is paid by
    the purses of its `groups` as well. `joint` is the running hash of the footprints that it paid
    (`states`), and `people`, of EVERYBODY alone, whom the dataset's charges are about.
    """

    user: str
    dataset: str
    grant: Grant | None
    spent: Price
    groups: tuple[str, ...] = ()
    fixed: bool = False
    joint: str = ""
    people: str = ""

    def __post_init__(self) -> None:
        check_texts(self.user, self.dataset, self.joint, self.people, *self.groups)
        if type(self.fixed) is not bool or type(self.groups) is not tuple:
            raise ValueError(f"not a purse: {self.groups!r}, {self.fixed!r}")

    def after(self, spent: Price, joint: str, people: str) -> Purse:
        """The same, after a charge."""
        return Purse(
            self.user, self.dataset, self.grant, spent, self.groups, self.fixed, joint, people
        )


@dataclass(frozen=True, slots=True)
class Balance:
    """A grant and what has been spent, in pico.

    `spent_epsilon` is None once a release had no pure epsilon; under a pure grant it never is.
    `others` are the balances of the purses that pay as well: groups, and the dataset's cap.
    `ended` tells that the date of the grant has passed, `fixed` that the owner set this cap.
    """

    grant: Grant
    spent_rho: int
    spent_epsilon: int | None
    others: tuple[Balance, ...] = ()
    ended: bool = False
    fixed: bool = False

    @classmethod
    def of(
        cls,
        grant: Grant,
        spent: Price,
        others: tuple[Balance, ...] = (),
        ended: bool = False,
        fixed: bool = False,
    ) -> Balance:
        return cls(grant, spent.rho, spent.epsilon, others, ended, fixed)

    @property
    def spent(self) -> Price:
        return Price(self.spent_rho, self.spent_epsilon)

    @property
    def left_rho(self) -> int:
        """What may still be spent, in pico of rho, by all that pay; 0 under a pure grant."""
        if self.ended or self.grant.pure:
            return 0
        own = max(0, self.grant.rho - self.spent_rho)
        return min([own, *(other._room_rho() for other in self.others)])

    @property
    def left_epsilon(self) -> int:
        """What may still be spent, in pico of epsilon at the grant's delta."""
        if self.grant.pure:
            return min([self._pure_left(), *(other._room_epsilon() for other in self.others)])
        return math.ceil(epsilon_of(self.left_rho, self.grant.delta) * PICO)

    def _pure_left(self) -> int:
        if self.ended or self.spent_epsilon is None:
            return 0
        return max(0, self.grant.epsilon_pico - self.spent_epsilon)

    def _room_rho(self) -> int:
        """The rho that this purse leaves to a holder who counts in rho."""
        return pure_rho(self._pure_left()) if self.grant.pure else self.left_rho

    def _room_epsilon(self) -> int:
        """The pure epsilon that this purse leaves to a holder who counts in it."""
        return self._pure_left() if self.grant.pure else pure_epsilon(self.left_rho)


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


Kind: TypeAlias = Literal["grant", "revoke", "charge", "cap", "join", "leave", "end", "accept"]
KINDS = frozenset(get_args(Kind))


@dataclass(frozen=True, slots=True)
class Payment:
    """What one purse (named by its holder) had spent before and after a charge.

    `exact` tells whether `after` is the largest loss of a person by all releases with a footprint,
    not only a bound on it; it is None for a charge without one.
    """

    purse: str
    before: Price
    after: Price
    exact: bool | None = None

    @property
    def charged(self) -> Price:
        """By how much the charge raised what the purse had spent."""
        return difference(self.before, self.after)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the log; the order is that of `seq`, never that of the clock.

    `grant` stands in a grant's or a cap's entry, `group` in those of joining and leaving;
    `statement`, `event` (as `to_dict` wrote it), `price` and `payments`, one a purse that paid, in
    a charge's; `before` and `after` are what the first of them had spent. `cap` is the cap that
    follows from this entry, if it moved. Where an owner, or a newer format, took the ledger as it
    stood, `stand` is the state of all purses, `digest` that of the log before, and `note` says why.
    `seen` is the latest time of all entries so far,
    `state` a keyed sum over all purses, `mac` the link of the chain: see `seal`.

    `footprint` (its `text`) and the `snapshot` that it is about belong to a charge that
    has one, and `people` to the first of a dataset: who is protected, and from what. By a random
    `token` whoever charged finds the entry, whatever became of the receipt.
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
    payments: tuple[Payment, ...] = ()
    cap: Grant | None = None
    group: str = ""
    footprint: str = ""
    snapshot: str = ""
    people: str = ""
    token: str = ""
    stand: tuple[Purse, ...] = ()
    digest: str = ""
    note: str = ""
    seen: str = ""
    state: str = ""
    mac: str = ""

    def __post_init__(self) -> None:
        check_texts(self.at, self.user, self.dataset, self.statement, self.group)
        check_texts(self.footprint, self.snapshot, self.people, self.token)
        check_texts(self.digest, self.note, self.seen, self.state, self.mac)
        if not (whole(self.seq) and self.kind in KINDS):
            raise ValueError(f"not an entry: {self.seq!r}, {self.kind!r}")
        if not (self.event is None or isinstance(self.event, dict)):
            raise ValueError(f"not an event: {self.event!r}")

    @property
    def charged(self) -> Price:
        """By how much a charge raised what the first purse that paid had spent."""
        return difference(self.before, self.after)

    @property
    def exact(self) -> bool | None:
        """Whether the first purse's new sum is exact; None without a footprint."""
        return self.payments[0].exact if self.payments else None

    def concerns(self, user: str) -> bool:
        """Whether `user` is who asked, was granted or moved, or holds a purse that paid."""
        return user in (self.user, self.group) or any(p.purse == user for p in self.payments)


def _number(value: object, name: str) -> float:
    """The finite float that `value` is; 0 without a sign, as books give it back."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{name} is {value!r}; write a number, such as {name}=1e-6")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise UsageError(f"{name} is {number!r}; write a finite number")
    return number + 0.0
