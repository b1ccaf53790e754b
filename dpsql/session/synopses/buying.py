"""Buying a synopsis, of whatever method: what is to be measured, one charge, and what is kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from dpsql.accounting.book import Page
from dpsql.accounting.kept.stored import Stored
from dpsql.accounting.kept.synopses import HOLDOUT, Synopsis, made
from dpsql.accounting.ledger import Receipt, Rise
from dpsql.accounting.purse import Balance
from dpsql.curator.curator import Curator
from dpsql.planner import Terms
from dpsql.release import Cost, Release, figure
from dpsql.schema import Dataset
from dpsql.session import tell
from dpsql.session.charge import Charge
from dpsql.session.reuse.earlier import NOT_KEPT
from dpsql.session.synopses.held import fit, keep, unfinished

if TYPE_CHECKING:
    from dpsql.session.session import Session

Also: TypeAlias = Callable[[Page, int], None]


class Measured(Protocol):
    """What the curator gave, and of which data."""

    @property
    def receipt(self) -> Receipt: ...

    @property
    def snapshot(self) -> str: ...


M = TypeVar("M", bound=Measured)


class Design(Protocol[M]):
    """What a synopsis is to be made of; its `note` lacks the state of the data, the buyer, and the
    charge."""

    @property
    def dataset(self) -> Dataset: ...

    @property
    def note(self) -> Synopsis: ...

    @property
    def training(self) -> bytes | None:
        """What it guesses by, where that is public."""
        ...

    def rise(self, session: Session, snapshot: str) -> Rise:
        """What it would be charged; free, and reads no private data."""
        ...

    def measured(self, curator: Curator, charge: Charge, balance: Balance, also: Also) -> M:
        """What is measured for it, after the charge."""
        ...

    def stored(self, found: M) -> Stored | None:
        """What was measured as a ledger keeps it; None for what cannot be kept."""
        ...

    def told(
        self, session: Session, charged: Cost, notes: tuple[str, ...], stored: Stored | None = None
    ) -> Release:
        """It as a release: what is known of it before it is bought, or with what was `stored`."""
        ...


def predicted(session: Session, design: Design[M]) -> Release:
    """What a synopsis would cost, and the errors of what is measured; free, and reads no data."""
    terms = Terms.of(session.ledger.balance(session.user, design.dataset.name).grant)
    taken = design.rise(session, session._snapshot(design.dataset))
    left = f"ε {figure(tell.budget(taken.after).left.epsilon)} would be left"
    notes = (*(tell.shortage(taken) or (left,)), "nothing was charged")
    return design.told(session, tell.price(taken.charged, terms), notes)


def create(session: Session, design: Design[M]) -> Release:
    """Buy a synopsis; it can be asked when this returns.

    Raises UsageError for a name that is taken, BudgetError or SourceError: then nothing is charged;
    only after the charge can SourceError or InternalError mean that something was paid, and then
    they say so.
    """
    dataset, ledger = design.dataset, session.ledger
    balance = ledger.balance(session.user, dataset.name)
    terms, charge = Terms.of(balance.grant), Charge(ledger, balance)
    curator = session._curator(dataset)
    note = dataclasses.replace(design.note, snapshot=session._snapshot(dataset), user=session.user)

    def paid(page: Page, seq: int) -> None:
        made(page, dataclasses.replace(note, charges=(seq,)), design.training)

    failure: BaseException
    try:
        session.go_on()
        found = design.measured(curator, charge, balance, paid)
        archive, seq = session._archive(dataset, found.snapshot), found.receipt.seq
        stored = design.stored(found)
        notes: tuple[str, ...] = (NOT_KEPT,)
        if stored is not None:
            notes = () if keep(archive, seq, stored) else notes
            if note.method != HOLDOUT:
                bought = dataclasses.replace(note, charges=(seq,))
                notes += unfinished(fit(session, dataset, archive, bought))
        return design.told(session, tell.price(found.receipt.charged, terms), notes, stored)
    except BaseException as error:
        failure = charge.failure(error)
    finally:
        session._calls.paid = charge.cost
    raise failure  # out here, so that it does not carry what it was made from
