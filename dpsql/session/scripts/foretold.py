"""What a script would do and cost: the plan of each SELECT, and one price; nothing is read."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from typing import TYPE_CHECKING

from dpsql.curator.quote import moved
from dpsql.curator.rises import rise
from dpsql.errors import NoGrant, UsageError
from dpsql.mechanisms.reuse.archive import Archive
from dpsql.planner import Terms, candidates
from dpsql.query.compile import unit_of
from dpsql.release import Budget, Plan, ScriptPlan
from dpsql.session import tell
from dpsql.session.build import Head, build_plan
from dpsql.session.explained import WITHOUT
from dpsql.session.reuse.earlier import REUSE, label, quoted
from dpsql.session.scripts.planned import Planned, of_purse, planned
from dpsql.session.scripts.ready import Free, Ready
from dpsql.session.scripts.report import explained_together

if TYPE_CHECKING:
    from dpsql.session.session import Session


def foretold(session: Session, ready: Ready) -> ScriptPlan:
    """What a script would do and cost. Raises Refused, UsageError or BudgetError."""
    for entry in ready.entries:
        if isinstance(entry, Free):
            with ready.script.placed(entry.step), contextlib.suppress(NoGrant):
                entry.told()
    dataset = ready.dataset
    if dataset is None:
        raise UsageError(f"{ready.script.name} has no SELECT that is measured: all of it is free")
    settings = ready.queries[0].settings
    priced = any(x is not None for x in (settings.epsilon, settings.rho, settings.accuracy))
    try:
        balance = session.ledger.balance(session.user, dataset.name)
    except NoGrant:
        if not priced:
            raise
        plan, terms = planned(ready, dataset, WITHOUT, None), WITHOUT
        return _script_plan(session, ready, plan, None, terms)
    plan, archive = of_purse(session, ready, dataset, balance)
    terms = Terms.of(balance.grant)
    left = tell.budget(balance)
    if plan.rest is None:
        free = tell.nothing(terms)
        plans = _plans(session, ready, plan, archive, terms, left)
        return ScriptPlan(plans, _titles(ready), REUSE, free, free, left, left)
    found = _script_plan(session, ready, plan, archive, terms, left)
    risen = rise(
        session.ledger, session.user, dataset, session._snapshot(dataset, look=True),
        plan.rest.choice.measured(plan.rest.workload), plan.rest.choice.noise,
    )  # fmt: skip
    return dataclasses.replace(
        found,
        charged=tell.price(risen.charged, terms),
        left=left,
        after=tell.budget(risen.after),
        notes=tell.shortage(risen),
    )


def _titles(ready: Ready) -> tuple[str, ...]:
    return tuple(query.step.caption for query in ready.queries)


def _script_plan(
    session: Session,
    ready: Ready,
    plan: Planned,
    archive: Archive | None,
    terms: Terms,
    left: Budget | None = None,
) -> ScriptPlan:
    assert plan.rest is not None and ready.dataset is not None
    listed = candidates(plan.whole.workload, ready.dataset, plan.asked, terms, plan.whole.choice)
    if ready.queries[0].settings.accuracy is not None:  # others would be at another price
        listed = tuple(each for each in listed if each.backend == plan.whole.choice.backend)
    choice = plan.rest.choice
    plans = _plans(session, ready, plan, archive, terms, left)
    return ScriptPlan(plans, _titles(ready), choice.backend, choice.price, None, left, None, listed)


def _plans(
    session: Session,
    ready: Ready,
    plan: Planned,
    archive: Archive | None,
    terms: Terms,
    left: Budget | None,
) -> tuple[Plan, ...]:
    """The plan of each SELECT, with the noise that it gets in the script."""
    dataset, rest = ready.dataset, plan.rest
    assert dataset is not None
    then = None
    if archive is not None and rest is not None and (kept := rest.unmeasured()) is not None:
        then = archive.once_measured(kept)
    notes: dict[int, str] = {}
    for group, projection in explained_together(ready, plan):
        notes.update(dict.fromkeys(group, projection.note))
    alike = {} if rest is None else dict(zip(plan.missing, rest.noises, strict=True))
    found = []
    for at, query in enumerate(ready.queries):
        statement, said = plan.statements[at], plan.found[at]
        workload = statement.workload
        later = None
        if then is not None and query.settings.reuse:
            later = plan.since(then, at)
        if said is not None:
            free, noises = tell.nothing(terms), (later or said).noises(workload)
            note = f"follows from {quoted(session.ledger, said.used)}: nothing will be charged"
            head = Head(REUSE, free, free, left, (note, *plan.notes(at)))
        else:
            assert rest is not None
            noises = alike[at] if later is None else later.noises(workload)
            used = () if later is None else later.used
            others = [] if archive is None else [*archive.held(used)]
            alone = rest.alone(workload, noises, dataset, terms)
            combined = (f"combined with {quoted(session.ledger, others)}",) if others else ()
            head = Head(label(rest.choice, len(others)), alone.price, None, left, combined)
        if at in notes:
            head = dataclasses.replace(head, notes=(*head.notes, notes[at]))
        size = moved(query.compiled.workload, dataset)
        made = build_plan(statement, session._grid(dataset), noises, (), size, query.settings, head)
        scale, unit = unit_of(query.compiled)  # in the statement's own units
        sensitivity = float(scale) * math.sqrt(size.squared)
        found.append(dataclasses.replace(made, sensitivity=sensitivity, unit=unit))
    return tuple(found)
