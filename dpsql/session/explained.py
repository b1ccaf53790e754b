"""What a SELECT would do and cost: its plan, from public values, earlier releases and the purse."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from dpsql.accounting.ledger import Rise
from dpsql.curator.quote import moved
from dpsql.curator.rises import rise
from dpsql.errors import NoGrant, UsageError
from dpsql.planner import Choice, Terms, candidates
from dpsql.query.bind import Probe
from dpsql.query.parse import Ask
from dpsql.release import Budget, Cost, Plan
from dpsql.session import tell
from dpsql.session.asked import check_delta, effective
from dpsql.session.build import Head, build_plan, require_bound, require_level
from dpsql.session.comparing import compared
from dpsql.session.foresee import foreseen
from dpsql.session.population import population
from dpsql.session.reuse.others import reading
from dpsql.session.reuse.wanted import wanted
from dpsql.session.reuse.whole import whole
from dpsql.session.settings import Settings
from dpsql.session.shown import projection

if TYPE_CHECKING:
    from dpsql.session.session import Session

WITHOUT = Terms(1e-6, 0, 0)  # where a price is given and there is no grant


def explained(session: Session, ask: Ask, params: Any, settings: Settings) -> Plan:
    """The plan of a SELECT under these settings. Raises Refused, UsageError or BudgetError."""
    if ask.first is not None:
        return compared.foretold(session, ask, params, settings)
    bound, compiled = session._compile(ask, params)
    settings = effective(ask, settings)
    if isinstance(bound, Probe) or compiled is None:
        raise UsageError("this statement tells only the schema: it is free and has no plan")
    require_level(compiled, settings.confidence)
    drawn = population(session, ask, compiled, settings)
    early: tuple[str, ...] = ()
    if settings.backend == "synopsis" or (session._learned.verified and drawn is None):
        from dpsql.session.synopses.guessed import guessed
        from dpsql.session.synopses.spared import spared

        if spared(session, compiled, settings):
            balance = session.ledger.balance(session.user, bound.dataset.name)
            said = guessed(session, bound, compiled, settings, balance)
            if isinstance(said, Plan):
                return said
            early = (f"the synopsis does not answer ({said}): this is bought",)
            settings = dataclasses.replace(settings, backend="auto")
    project = projection([compiled.workload], settings)
    priced = any(x is not None for x in (settings.epsilon, settings.rho, settings.accuracy))
    budget: Budget | None = None
    workload = compiled.workload
    try:
        balance = session.ledger.balance(session.user, bound.dataset.name)
        terms, budget = Terms.of(balance.grant), tell.budget(balance)
    except NoGrant:
        if not priced:
            raise
        terms = WITHOUT

    def charged(choice: Choice) -> Cost:
        snapshot = session._snapshot(bound.dataset, look=True)
        asked, noise = plan.measured(choice, workload), choice.noise
        found = rise(session.ledger, session.user, bound.dataset, snapshot, asked, noise)
        rises.append((tell.price(found.charged, terms), found))
        return rises[-1][0]

    rises: list[tuple[Cost, Rise]] = []
    check_delta(ask, terms.delta)
    archive = None
    if settings.reuse and budget is not None and drawn is None:
        archive = session._archive(bound.dataset)
    plan = wanted(compiled, bound.dataset, settings, terms, archive)
    choice, read = plan.choice, None
    require_bound(drawn, compiled, choice.noises(workload), settings.confidence)
    if budget is not None:
        read = reading(
            session.ledger, session._earlier, archive, bound.dataset, compiled, plan, balance
        )
    if budget is not None and read is None:
        plan = whole(
            plan, compiled, bound.dataset, settings.whole, archive, session.ledger, balance
        )
    listed = candidates(
        workload, bound.dataset, plan.asked, terms, choice, charged if budget else None
    )
    head = Head(choice.backend, choice.price, None, None)
    noises = choice.noises(workload)
    if budget is not None:
        head, noises, listed = foreseen(
            session.ledger, compiled, archive, plan, read, terms, budget, charged, listed
        )
    short = [note for cost, r in rises if cost is head.charged for note in tell.shortage(r)]
    told = [] if project is None else [project.note]
    if archive is not None and settings.backend == "auto" and budget is not None and not early:
        from dpsql.session.synopses.guessed import offered

        more, of_synopsis = offered(session, compiled, settings, balance)
        listed, told = (*listed, *more), [*told, *of_synopsis]
    after = budget if read is None else tell.budget(read.rise.after)
    after = next((tell.budget(r.after) for cost, r in rises if cost is head.charged), after)
    head = dataclasses.replace(head, notes=(*early, *head.notes, *short, *told), after=after)
    found = moved(workload, bound.dataset)
    grid = session._grid(bound.dataset)
    return build_plan(compiled, grid, noises, listed, found, settings, head, drawn)
