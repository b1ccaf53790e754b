"""A statement that compares the counts of groups: what is asked, and what is to be bought."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Generic, Self, TypeVar

from dpsql.accounting.events import AboveThreshold, Selection
from dpsql.accounting.kept.told import Told
from dpsql.accounting.purse import Grant, Receipt
from dpsql.curator.curator import Curator
from dpsql.planner import Terms, cost
from dpsql.query.compile import Compiled
from dpsql.query.parse import Ask
from dpsql.release import Candidate, Cost
from dpsql.schema import Dataset
from dpsql.session import tell
from dpsql.session.charge import Charge
from dpsql.session.comparing.counted import Halves
from dpsql.session.settings import Settings

if TYPE_CHECKING:
    from dpsql.session.session import Session

Event = TypeVar("Event", AboveThreshold, Selection)


@dataclass(frozen=True, slots=True)
class Comparison(ABC, Generic[Event]):
    """Queries whose answers are compared by a mechanism that is paid by `event`.

    `name` is what it asks, as a ledger keeps it, None where it cannot be kept. `kept` is what was
    said of the same that is as accurate; then nothing is bought. `half` is the part of the price
    that is for counts of what is found.
    """

    compiled: Compiled
    settings: Settings
    terms: Terms
    event: Event
    name: str | None
    half: Halves | None = None
    kept: Told | None = None

    backend: ClassVar[str]

    @property
    def dataset(self) -> Dataset:
        return self.compiled.bound.dataset

    @property
    def price(self) -> Cost:
        """Of the comparison alone."""
        return tell.nothing(self.terms) if self.kept is not None else cost(self.event, self.terms)

    @abstractmethod
    def buy(
        self, curator: Curator, ask: Ask, charge: Charge, grant: Grant | None
    ) -> tuple[str, Receipt, tuple[bool, ...]]:
        """The snapshot, the receipt and what is said of the queries. Raises as a Curator does."""

    @abstractmethod
    def enough(self, told: Told) -> bool:
        """Whether what was said earlier is as accurate as what is asked for, and complete."""

    @abstractmethod
    def found(self, told: Told) -> list[int]:
        """The places of the groups that were found."""

    @abstractmethod
    def least(self, told: Told) -> float:
        """The least that a group which was found counts, at the confidence asked for."""

    @abstractmethod
    def meaning(self, told: Told | None) -> tuple[str, ...]:
        """What is true of the groups that are found, in words; of what was told, or is asked."""

    @abstractmethod
    def rest(self, told: Told) -> tuple[str, ...]:
        """What became of the other groups, in words."""

    @abstractmethod
    def candidates(self, charged: Cost | None) -> tuple[tuple[Candidate, ...], tuple[str, ...]]:
        """The mechanism and what could take its place, and notes where that tells more."""

    def once_told(self, session: Session) -> Self:
        """The same, free where an earlier release says it; reads no private data."""
        if not self.settings.reuse or self.name is None:
            return self
        place = (session.user, self.dataset.name, session._snapshot(self.dataset))
        for told in session.ledger.releases.told(place, self.name):
            if self.enough(told):
                return dataclasses.replace(self, kept=told)
        return self
