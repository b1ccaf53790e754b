"""What the owner's page is made of: the purses of a ledger, and what its log adds up to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpsql.accounting import clock
from dpsql.accounting.purse import EVERYBODY, Balance
from dpsql.surfaces.html.tally import Tally

if TYPE_CHECKING:
    from dpsql.accounting.ledger import Ledger

LOW, SOON = 0.1, 14.0  # a part left, and days left, that make a purse about to run dry


@dataclass(frozen=True, slots=True)
class Holding:
    """A purse: its balance, its members if it is a group's, and what it pays a day of late."""

    balance: Balance
    members: tuple[str, ...]
    rate: float

    @property
    def holder(self) -> str:
        grant = self.balance.grant
        return "all users together" if grant.user == EVERYBODY else grant.user

    @property
    def left(self) -> int:
        """In pico of the grant's currency."""
        balance = self.balance
        return balance.left_epsilon if balance.grant.pure else balance.left_rho

    @property
    def part(self) -> float:
        """The part of the grant that is left."""
        grant = self.balance.grant
        return self.left / (grant.epsilon_pico if grant.pure else grant.rho)

    @property
    def days(self) -> float | None:
        """How long it lasts at the rate of late; None where nothing was paid."""
        return self.left / self.rate if self.rate > 0 else None

    @property
    def low(self) -> bool:
        """Whether it is about to run dry, or has."""
        if self.balance.ended:
            return False
        return self.part < LOW or (self.days is not None and self.days < SOON)


@dataclass(frozen=True, slots=True)
class Books:
    """All that the page says, read from a ledger."""

    purses: tuple[Holding, ...]
    caps: tuple[Holding, ...]
    tally: Tally
    now: str


def read(ledger: Ledger, dataset: str | None, now: str | None = None) -> Books:
    """What a ledger tells of its purses, or of those of one dataset."""
    now = now or clock.now()
    tally = Tally.of(ledger.log(dataset=dataset), now)
    groups = ledger.groups()

    def holding(balance: Balance) -> Holding:
        grant = balance.grant
        members = groups.get((grant.user, grant.dataset), ())
        return Holding(balance, members, tally.rate(grant.dataset, grant.user, grant.pure))

    purses = [b for b in ledger.purses() if dataset in (None, b.grant.dataset)]
    caps = [b for b in ledger.caps() if dataset in (None, b.grant.dataset)]
    return Books(tuple(map(holding, purses)), tuple(map(holding, caps)), tally, now)
