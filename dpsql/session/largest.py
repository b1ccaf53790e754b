"""LARGEST 1: which group's count is the largest, or nearly so, told by a selection.

An index is all that comes out: the group that is shown has no number, unless WITH COUNTS buys one.
What was chosen is kept, and answers the same question, free, as long as it is at least as accurate
as what is asked for.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpsql.accounting.events import Selection
from dpsql.accounting.purse import NOTHING, Balance, Receipt
from dpsql.accounting.told import Told, question
from dpsql.curator.gate import monotone
from dpsql.curator.quote import moved
from dpsql.errors import LedgerError, NoGrant, UsageError
from dpsql.mechanisms import choice
from dpsql.planner import Asked, Terms, cost, in_rho, pico
from dpsql.query.compile import Compiled
from dpsql.query.finish import planned
from dpsql.query.parse import Ask, Largest
from dpsql.release import Candidate, Cost, Plan, Release
from dpsql.session import tell
from dpsql.session.affordable import require
from dpsql.session.asked import check_delta
from dpsql.session.charge import Charge
from dpsql.session.counted import Halves, bought, halves, priced, with_counts
from dpsql.session.earlier import NOT_KEPT, REUSE
from dpsql.session.listed import counts, listed
from dpsql.session.settings import Settings

if TYPE_CHECKING:
    from dpsql.session.session import Session

SELECTION = "selection"
_WITHOUT = Terms(1e-6, 0, 0)  # where a price is given and there is no grant


@dataclass(frozen=True, slots=True)
class Chosen:
    """A statement that a selection answers, and the selection to buy.

    `kept` is what an earlier one said of the same that is as accurate; then nothing is bought.
    """

    compiled: Compiled
    settings: Settings
    terms: Terms
    event: Selection
    name: str | None
    kept: Told | None = None
    half: Halves | None = None

    @property
    def price(self) -> Cost:
        """Of the selection."""
        return tell.nothing(self.terms) if self.kept is not None else cost(self.event, self.terms)

    def behind(self, event: Selection) -> int:
        return choice.behind(event, self.compiled.rows, self.settings.confidence)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is true of the group that is found, in words."""
        event = self.event if self.kept is None else self.kept.selection
        percent = f"{100 * self.settings.confidence:.4g} %"
        return (
            f"at {percent} the group that is found is at most {self.behind(event):,} rows below the"
            f" largest of {self.compiled.rows:,}",
        )


def answered(session: Session, ask: Ask, params: Any, chosen: Settings) -> Release:
    """The group that was chosen. Raises Refused, UsageError, SourceError or BudgetError."""
    compiled, settings = listed(session, ask, params, chosen)
    dataset = compiled.bound.dataset
    balance = session.ledger.balance(session.user, dataset.name)
    terms = Terms.of(balance.grant)
    check_delta(ask, terms.delta)
    found = _chosen(session, ask, compiled, settings, terms)
    if found.kept is not None:
        told, charged, left = found.kept, NOTHING, balance
        notes: tuple[str, ...] = ("answered from an earlier release: nothing was charged",)
    else:
        if found.half is not None:
            require(bought(session, compiled, found.half, found.event, settings))
        told, receipt, notes = _bought(session, ask, found, balance)
        charged, left = receipt.charged, receipt.after
    place = told.answers.index(True)
    paid = found.price if found.kept is not None else tell.price(charged, terms)
    mask = counts(compiled)[place]
    nothing = ((None,) * len(mask),)
    release = Release(
        compiled.names, compiled.types, (planned(compiled, session._grid(dataset)).rows[place],),
        nothing, (tuple(0.0 if count else None for count in mask),),
        (tuple(math.inf if count else None for count in mask),),
        confidence=settings.confidence, backend=SELECTION if found.kept is None else REUSE,
        price=found.price, charged=paid, left=tell.budget(left), reused=found.kept is not None,
        notes=(*found.notes, *notes), dataset=dataset.name, noisy=mask,
        intervals=settings.intervals,
    )  # fmt: skip
    if found.half is None:
        return release
    return with_counts(session, ask, compiled, [place], found.half, settings, release, charged)


def _bought(
    session: Session, ask: Ask, found: Chosen, balance: Balance
) -> tuple[Told, Receipt, tuple[str, ...]]:
    """What a selection says, bought now, and kept."""
    workload, dataset = found.compiled.workload, found.compiled.bound.dataset
    curator = session._curator(dataset)
    charge = Charge(session.ledger, balance)
    failure: BaseException
    try:
        one = curator.select(
            workload, found.event, ask.text.sql.strip(), charge.take, balance.grant, charge.token
        )
        session._balances[dataset.name] = one.receipt.after
        told = Told(
            found.name or "", found.event, tuple(at == one.place for at in range(workload.size))
        )
        notes: tuple[str, ...] = ()
        if found.settings.reuse and found.name is not None:
            try:
                place = (session.user, dataset.name, one.snapshot)
                session.ledger.releases.tell(place, one.receipt.seq, told)
            except LedgerError:
                notes = (NOT_KEPT,)
        return told, one.receipt, notes
    except BaseException as error:
        failure = charge.failure(error)
    finally:
        session._calls.paid = charge.cost
    raise failure  # out here, so that it does not carry what it was made from


def foretold(session: Session, ask: Ask, params: Any, chosen: Settings) -> Plan:
    """What `answered` would do and cost; free, and reads no private data."""
    compiled, settings = listed(session, ask, params, chosen)
    dataset, workload = compiled.bound.dataset, compiled.workload
    balance: Balance | None = None
    try:
        balance = session.ledger.balance(session.user, dataset.name)
        terms = Terms.of(balance.grant)
    except NoGrant:
        if settings.epsilon is None and settings.rho is None:
            raise
        terms = _WITHOUT
    check_delta(ask, terms.delta)
    found = _chosen(session, ask, compiled, settings, terms, kept=balance is not None)
    kept = None if found.kept is None else [found.kept.answers.index(True)]
    told = priced(session, compiled, found.half, found.event, kept, settings, balance, terms)
    candidate = Candidate(SELECTION, found.price, float(found.event.scale), told.charged)
    left = None if balance is None else tell.budget(balance)
    rows, move = planned(compiled, session._grid(dataset)).rows, moved(workload, dataset)
    return Plan(
        compiled.names, compiled.types, rows, tuple((None,) * len(compiled.names) for _ in rows),
        backend=SELECTION if found.kept is None else REUSE, price=told.price,
        candidates=(candidate,), sensitivity=float(found.event.sensitivity),
        sensitivity_exact=move.exact, cells=workload.domain.cells, queries=workload.size,
        left=left, notes=(*found.notes, *told.notes), dataset=dataset.name, charged=told.charged,
        after=told.after,
    )  # fmt: skip


def _chosen(
    session: Session,
    ask: Ask,
    compiled: Compiled,
    settings: Settings,
    terms: Terms,
    *,
    kept: bool = True,
) -> Chosen:
    """What answers the statement: what was kept, or a selection at the price asked for."""
    assert isinstance(ask.first, Largest)
    if settings.backend != "auto":
        raise UsageError(
            f"LARGEST is answered by a selection, not by the backend {settings.backend}:"
            " SET backend = auto"
        )
    if not compiled.rows:
        raise ask.text.refusal(
            "LARGEST of no groups", ask.first.span, "a list of one group or more"
        )
    dataset, workload = compiled.bound.dataset, compiled.workload
    asked, half = Asked(settings.epsilon, settings.rho), None
    if ask.first.counts:
        half = halves(workload, dataset, 1, asked, terms)
    step, same = max(moved(workload, dataset).largest, 1), monotone(workload, dataset)
    event: Selection
    if terms.pure and settings.rho is None:
        epsilon = pico(settings.epsilon) if settings.epsilon is not None else 0
        event = choice.at_epsilon(step, same, epsilon or max(terms.epsilon // asked.share, 1))
    else:
        event = choice.at_rho(step, same, in_rho(asked, terms) if half is None else half.rest)
    name = question(workload, None)
    found = Chosen(compiled, settings, terms, event, name, half=half)
    if not (kept and settings.reuse and name is not None):
        return found
    place = (session.user, dataset.name, session._snapshot(dataset))
    for told in session.ledger.releases.told(place, name):
        if found.behind(told.selection) <= found.behind(event):
            return dataclasses.replace(found, kept=told)
    return found
