"""Statements that compare the counts of groups: answered, paid, kept, and foretold."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from dpsql.accounting.kept.told import Told
from dpsql.accounting.purse import NOTHING, Balance, Receipt
from dpsql.curator.quote import moved
from dpsql.errors import LedgerError, NoGrant
from dpsql.planner import Terms
from dpsql.query.finish import planned
from dpsql.query.parse import Ask, Largest
from dpsql.release import Budget, Cost, Plan, Release
from dpsql.session import tell
from dpsql.session.affordable import require
from dpsql.session.asked import check_delta
from dpsql.session.charge import Charge
from dpsql.session.comparing.above import gated
from dpsql.session.comparing.comparison import Comparison
from dpsql.session.comparing.counted import bought, priced, with_counts
from dpsql.session.comparing.largest import chosen
from dpsql.session.comparing.listed import counts, listed
from dpsql.session.reuse.earlier import NOT_KEPT, REUSE
from dpsql.session.settings import Settings

if TYPE_CHECKING:
    from dpsql.session.session import Session

_FREE = "answered from an earlier release: nothing was charged"
_FOUND = "which groups were found is told by an earlier release: their counts alone were bought"
_WITHOUT = Terms(1e-6, 0, 0)  # where a price is given and there is no grant


def answered(session: Session, ask: Ask, params: Any, given: Settings) -> Release:
    """The groups that were found. Raises Refused, UsageError, SourceError or BudgetError."""
    compiled, settings = listed(session, ask, params, given)
    balance = session.ledger.balance(session.user, compiled.bound.dataset.name)
    terms = Terms.of(balance.grant)
    check_delta(ask, terms.delta)
    made = chosen if isinstance(ask.first, Largest) else gated
    comparison: Comparison[Any] = made(ask, compiled, settings, terms).once_told(session)
    half = comparison.half
    if comparison.kept is not None:
        told, charged, left, paid = comparison.kept, NOTHING, balance, comparison.price
        notes: tuple[str, ...] = ()
    else:
        if half is not None:
            require(bought(session, compiled, half, comparison.event, settings))
        told, receipt, notes = _bought(session, ask, comparison, balance)
        charged, left = receipt.charged, receipt.after
        paid = tell.price(charged, terms)
    release = _release(session, comparison, told, paid, tell.budget(left), notes)
    if half is not None:
        places = comparison.found(told)
        release = with_counts(session, ask, compiled, places, half, settings, release, charged)
    if comparison.kept is None:
        return release
    note = _FREE if release.reused else _FOUND
    return dataclasses.replace(release, notes=(*release.notes, note))


def _bought(
    session: Session, ask: Ask, comparison: Comparison[Any], balance: Balance
) -> tuple[Told, Receipt, tuple[str, ...]]:
    """What is said of the groups, bought now, and kept."""
    dataset = comparison.dataset
    curator = session._curator(dataset)
    charge = Charge(session.ledger, balance)
    failure: BaseException
    try:
        session.go_on()
        snapshot, receipt, answers = comparison.buy(curator, ask, charge, balance.grant)
        session._balances[dataset.name] = receipt.after
        told = Told(comparison.name or "", comparison.event, answers)
        notes: tuple[str, ...] = ()
        if comparison.settings.reuse and comparison.name is not None:
            try:
                session.ledger.releases.tell(
                    (session.user, dataset.name, snapshot), receipt.seq, told
                )
            except LedgerError:
                notes = (NOT_KEPT,)
        return told, receipt, notes
    except BaseException as error:
        failure = charge.failure(error)
    finally:
        session._calls.paid = charge.cost
    raise failure  # out here, so that it does not carry what it was made from


def _release(
    session: Session,
    comparison: Comparison[Any],
    told: Told,
    charged: Cost,
    left: Budget,
    notes: tuple[str, ...],
) -> Release:
    """The rows of the groups that were found, in the order in which they were asked."""
    compiled = comparison.compiled
    done = planned(compiled, session._grid(comparison.dataset))
    found, least = comparison.found(told), comparison.least(told)
    masks = counts(compiled)
    shape = [masks[place] for place in found]

    def shown(value: float | None) -> tuple[tuple[float | None, ...], ...]:
        return tuple(tuple(value if count else None for count in line) for line in shape)

    return Release(
        compiled.names,
        compiled.types,
        tuple(done.rows[place] for place in found),
        shown(None),
        shown(least),
        shown(math.inf),
        confidence=comparison.settings.confidence,
        backend=comparison.backend if comparison.kept is None else REUSE,
        price=comparison.price,
        charged=charged,
        left=left,
        reused=comparison.kept is not None,
        notes=(*comparison.meaning(told), *notes, *comparison.rest(told)),
        dataset=comparison.dataset.name,
        noisy=tuple(map(any, zip(*masks, strict=True))),
        intervals=comparison.settings.intervals,
    )


def foretold(session: Session, ask: Ask, params: Any, given: Settings) -> Plan:
    """What `answered` would do and cost; free, and reads no private data."""
    compiled, settings = listed(session, ask, params, given)
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
    made = chosen if isinstance(ask.first, Largest) else gated
    comparison: Comparison[Any] = made(ask, compiled, settings, terms)
    if balance is not None:
        comparison = comparison.once_told(session)
    kept = None if comparison.kept is None else comparison.found(comparison.kept)
    told = priced(
        session, compiled, comparison.half, comparison.event, kept, settings, balance, terms
    )
    candidates, cheaper = comparison.candidates(told.charged)
    rows, move = planned(compiled, session._grid(dataset)).rows, moved(workload, dataset)
    backend = comparison.backend if kept is None else "gaussian" if told.price.rho else REUSE
    return Plan(
        compiled.names,
        compiled.types,
        rows,
        tuple((None,) * len(compiled.names) for _ in rows),
        backend=backend,
        price=told.price,
        candidates=candidates,
        sensitivity=float(comparison.event.sensitivity),
        sensitivity_exact=move.exact,
        cells=workload.domain.cells,
        queries=workload.size,
        left=None if balance is None else tell.budget(balance),
        notes=(*comparison.meaning(comparison.kept), *told.notes, *cheaper),
        dataset=dataset.name,
        charged=told.charged,
        after=told.after,
    )
