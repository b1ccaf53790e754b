"""FIRST n ABOVE threshold: which groups' counts exceed a number, told by a gate.

The groups are asked in the order in which they are listed, until n are found; one gate with one
noisy threshold is bought for all of them. Booleans are all that comes out, so the counts of groups
that are found have a bound from below and no value, unless WITH COUNTS buys one. What a gate said
is kept, and answers the same question, free, as long as it is at least as accurate as what is asked
for.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsql.accounting.events import AboveThreshold
from dpsql.accounting.purse import NOTHING, Balance, Receipt
from dpsql.accounting.told import Told, question
from dpsql.curator.gate import monotone
from dpsql.curator.quote import moved
from dpsql.errors import LedgerError, NoGrant, UsageError
from dpsql.mechanisms import sparse
from dpsql.mechanisms.noises import error
from dpsql.mechanisms.quantile import simultaneous
from dpsql.planner import Asked, Terms, choose, cost, in_rho, pico
from dpsql.query.compile import Compiled
from dpsql.query.finish import planned
from dpsql.query.parse import Ask, First, Largest
from dpsql.release import Budget, Candidate, Cost, Plan, Release
from dpsql.schema import Dataset
from dpsql.session import largest, tell
from dpsql.session.affordable import require
from dpsql.session.asked import check_delta
from dpsql.session.charge import Charge
from dpsql.session.counted import Halves, bought, halves, priced, with_counts
from dpsql.session.earlier import NOT_KEPT, REUSE
from dpsql.session.listed import counts, listed
from dpsql.session.settings import Settings

if TYPE_CHECKING:
    from dpsql.session.session import Session

SPARSE = "sparse"
_WITHOUT = Terms(1e-6, 0, 0)  # where a price is given and there is no grant


@dataclass(frozen=True, slots=True)
class Gated:
    """A statement that a gate answers: its queries, what is to be found, and the gate to buy.

    `kept` is what an earlier gate said of the same that is as accurate; then nothing is bought.
    """

    compiled: Compiled
    first: First
    settings: Settings
    terms: Terms
    event: AboveThreshold
    name: str | None
    kept: Told | None = None
    half: Halves | None = None

    @property
    def dataset(self) -> Dataset:
        return self.compiled.bound.dataset

    @property
    def threshold(self) -> int:
        """The least whole number above the one that was written."""
        return self.first.threshold + 1

    @property
    def price(self) -> Cost:
        """Of the gate."""
        return tell.nothing(self.terms) if self.kept is not None else cost(self.event, self.terms)

    def found(self, told: Told) -> list[int]:
        """The places of the groups that were found."""
        places: list[int] = np.flatnonzero(told.answers)[: self.first.count].tolist()
        return places

    def bounds(self, event: AboveThreshold) -> tuple[int, int]:
        """The least count of groups that are found, the largest of the others; both at once."""
        level = (1.0 + self.settings.confidence) / 2.0
        size = self.compiled.rows
        least = self.threshold - sparse.shown(event, size, level)
        return max(least, 0), max(self.threshold + sparse.hidden(event, size, level), 0)


def answered(session: Session, ask: Ask, params: Any, chosen: Settings) -> Release:
    """The groups that were found. Raises Refused, UsageError, SourceError or BudgetError."""
    if isinstance(ask.first, Largest):
        return largest.answered(session, ask, params, chosen)
    compiled, settings = listed(session, ask, params, chosen)
    dataset = compiled.bound.dataset
    balance = session.ledger.balance(session.user, dataset.name)
    terms = Terms.of(balance.grant)
    check_delta(ask, terms.delta)
    gated = _gated(session, ask, compiled, settings, terms)
    if gated.kept is not None:
        told, charged, left = gated.kept, NOTHING, balance
        notes: tuple[str, ...] = ("answered from an earlier release: nothing was charged",)
    else:
        if gated.half is not None:
            require(bought(session, compiled, gated.half, gated.event, settings))
        told, receipt, notes = _bought(session, ask, gated, balance)
        charged, left = receipt.charged, receipt.after
    paid = gated.price if gated.kept is not None else tell.price(charged, terms)
    release = _release(session, gated, told, paid, tell.budget(left), notes)
    if gated.half is None:
        return release
    return with_counts(
        session, ask, compiled, gated.found(told), gated.half, settings, release, charged
    )


def _bought(
    session: Session, ask: Ask, gated: Gated, balance: Balance
) -> tuple[Told, Receipt, tuple[str, ...]]:
    """What a gate says, bought now, and kept."""
    dataset, workload, settings = gated.dataset, gated.compiled.workload, gated.settings
    curator = session._curator(dataset)
    charge = Charge(session.ledger, balance)
    failure: BaseException
    try:
        session.go_on()
        gate = curator.gate(
            gated.event, ask.text.sql.strip(), charge.take, balance.grant, charge.token, workload
        )
        session._balances[dataset.name] = gate.receipt.after
        told = Told(gated.name or "", gated.event, gate.first(workload, gated.threshold))
        notes: tuple[str, ...] = ()
        if settings.reuse and gated.name is not None:
            try:
                place = (session.user, dataset.name, gate.snapshot)
                session.ledger.releases.tell(place, gate.receipt.seq, told)
            except LedgerError:
                notes = (NOT_KEPT,)
        return told, gate.receipt, notes
    except BaseException as error:
        failure = charge.failure(error)
    finally:
        session._calls.paid = charge.cost
    raise failure  # out here, so that it does not carry what it was made from


def foretold(session: Session, ask: Ask, params: Any, chosen: Settings) -> Plan:
    """What `answered` would do and cost; free, and reads no private data."""
    if isinstance(ask.first, Largest):
        return largest.foretold(session, ask, params, chosen)
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
    gated = _gated(session, ask, compiled, settings, terms, kept=balance is not None)
    kept = None if gated.kept is None else gated.found(gated.kept)
    told = priced(session, compiled, gated.half, gated.event, kept, settings, balance, terms)
    notes = _meaning(gated, gated.event if gated.kept is None else gated.kept.gate)
    candidates, cheaper = _candidates(gated, told.charged)
    done = planned(compiled, session._grid(dataset))
    found = moved(workload, dataset)
    nothing = tuple((None,) * len(compiled.names) for _ in done.rows)
    return Plan(
        compiled.names,
        compiled.types,
        done.rows,
        nothing,
        backend=SPARSE if gated.kept is None else REUSE,
        price=told.price,
        candidates=candidates,
        sensitivity=float(gated.event.sensitivity),
        sensitivity_exact=found.exact,
        cells=workload.domain.cells,
        queries=workload.size,
        left=None if balance is None else tell.budget(balance),
        notes=(*notes, *told.notes, *cheaper),
        dataset=dataset.name,
        charged=told.charged,
        after=told.after,
    )


# -- what is asked ---------------------------------------------------------------------------------


def _gated(
    session: Session,
    ask: Ask,
    compiled: Compiled,
    settings: Settings,
    terms: Terms,
    *,
    kept: bool = True,
) -> Gated:
    """What answers the statement: what was kept, or a gate at the price asked for."""
    assert isinstance(ask.first, First)
    if settings.backend not in ("auto", "laplace"):
        raise UsageError(
            f"FIRST ... ABOVE is answered by a gate, not by the backend {settings.backend}: "
            "SET backend = auto, or laplace for a gate with Laplace noise"
        )
    dataset, workload = compiled.bound.dataset, compiled.workload
    half = None
    if ask.first.counts:
        asked = Asked(settings.epsilon, settings.rho)
        half = halves(workload, dataset, ask.first.count, asked, terms)
    wanted = sparse.Asked(
        moved(workload, dataset).largest,
        monotone(workload, dataset),
        compiled.rows,
        max(min(ask.first.count, compiled.rows), 1),
        (1.0 + settings.confidence) / 2.0,
        "laplace" if settings.backend == "laplace" else "exponential",
    )
    event = _event(wanted, settings, terms) if half is None else sparse.at_rho(wanted, half.rest)
    name = question(workload, ask.first.threshold + 1)
    gated = Gated(compiled, ask.first, settings, terms, event, name, half=half)
    if not (kept and settings.reuse and name is not None):
        return gated
    least, most = gated.bounds(event)
    place = (session.user, dataset.name, session._snapshot(dataset))
    for told in session.ledger.releases.told(place, name):
        complete = len(told.answers) == workload.size
        if not complete and sum(told.answers) < ask.first.count:
            continue
        below, above = gated.bounds(told.gate)
        if below >= least and above <= most:
            return dataclasses.replace(gated, kept=told)
    return gated


def _event(wanted: sparse.Asked, settings: Settings, terms: Terms) -> AboveThreshold:
    """The gate at the price asked for, in the currency of the grant unless rho was said."""
    asked = Asked(settings.epsilon, settings.rho)
    if not terms.pure or settings.rho is not None:
        return sparse.at_rho(wanted, in_rho(asked, terms))
    if settings.epsilon is not None:
        return sparse.at_epsilon(wanted, pico(settings.epsilon))
    return sparse.at_epsilon(wanted, max(terms.epsilon // asked.share, 1))


# -- what is told ----------------------------------------------------------------------------------


def _meaning(gated: Gated, event: AboveThreshold) -> tuple[str, ...]:
    """What is true of groups that are found, and of those before them, in words."""
    least, most = gated.bounds(event)
    percent = f"{100 * gated.settings.confidence:.4g} %"
    return (
        f"at {percent}, of all groups together: one that is found has {least:,} rows or more, and "
        f"one that is passed over has {most:,} at most",
    )


def _release(
    session: Session,
    gated: Gated,
    told: Told,
    charged: Cost,
    left: Budget,
    notes: tuple[str, ...],
) -> Release:
    """The rows of the groups that were found, in the order in which they were asked."""
    compiled = gated.compiled
    done = planned(compiled, session._grid(gated.dataset))
    found = gated.found(told)
    asked = len(told.answers) if len(found) < gated.first.count else found[-1] + 1
    least, _ = gated.bounds(told.gate)
    masks = counts(compiled)
    shape = [masks[place] for place in found]
    low = tuple(tuple(float(least) if count else None for count in line) for line in shape)
    high = tuple(tuple(math.inf if count else None for count in line) for line in shape)
    later = compiled.rows - asked
    if later:
        groups = (
            "1 group after the last one found was"
            if later == 1
            else (f"{later:,} groups after the last one found were")
        )
        notes = (*notes, f"{groups} not asked")
    elif len(found) < gated.first.count:
        notes = (*notes, "all groups were asked")
    return Release(
        compiled.names,
        compiled.types,
        tuple(done.rows[place] for place in found),
        tuple((None,) * len(line) for line in shape),
        low,
        high,
        confidence=gated.settings.confidence,
        backend=SPARSE if gated.kept is None else REUSE,
        price=gated.price,
        charged=charged,
        left=left,
        reused=gated.kept is not None,
        notes=(*_meaning(gated, told.gate), *notes),
        dataset=gated.dataset.name,
        noisy=tuple(map(any, zip(*masks, strict=True))),
        intervals=gated.settings.intervals,
    )


def _candidates(
    gated: Gated, charged: Cost | None
) -> tuple[tuple[Candidate, ...], tuple[str, ...]]:
    """The gate, and counts at the same price; a note where the counts tell more."""
    event, workload = gated.event, gated.compiled.workload
    scales = float(event.threshold_scale), float(event.query_scale)
    spread = math.hypot(*scales) * (math.sqrt(2.0) if event.noise == "laplace" else 1.0)
    gate = Candidate(SPARSE, cost(event, gated.terms), spread, charged)
    settings = gated.settings
    choice = choose(workload, gated.dataset, Asked(settings.epsilon, settings.rho), gated.terms)
    noises = choice.noises(workload)
    rmse = error(workload, noises)
    counted = Candidate(choice.backend, choice.price, rmse)
    if gated.kept is not None:
        return (gate, counted), ()
    level = simultaneous(settings.confidence, max(gated.compiled.rows, 1))
    halves = [
        float(np.max(np.float64(noise.half({0: Fraction(1, block.weights[0].largest)}, level))))
        for block, noise in zip(workload.blocks, noises, strict=True)
    ]
    half = math.ceil(max(halves))
    least, most = gated.bounds(event)
    if half >= max(gated.threshold - least, most - gated.threshold):
        return (gate, counted), ()
    note = (
        f"the counts themselves, ± {half:,} for all of them together, cost as much: leave "
        f"FIRST {gated.first.count:,} ABOVE {gated.first.threshold:,} out"
    )
    return (gate, counted), (note,)
