"""A script answered as one: planned together, paid by one charge, a release for each statement."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpsql.accounting.ledger import Regranted
from dpsql.curator.curator import Measurement
from dpsql.errors import Error, LedgerError
from dpsql.mechanisms.reuse.archive import Archive
from dpsql.mechanisms.reuse.found import Answered, Found
from dpsql.planner import Terms
from dpsql.release import Budget, Cost, Release
from dpsql.schema import Dataset
from dpsql.session import tell
from dpsql.session.build import Paid, build
from dpsql.session.charge import Charge
from dpsql.session.chart import NONE, Chart
from dpsql.session.reuse.earlier import NOT_KEPT, REUSE, label, unbought, words
from dpsql.session.scripts.joint import Joint
from dpsql.session.scripts.planned import Planned, of_purse
from dpsql.session.scripts.ready import Free, Query, Ready
from dpsql.session.scripts.script import Script, Step
from dpsql.session.shown import Projection, Shown, projections

if TYPE_CHECKING:
    from dpsql.session.session import Session

TOGETHER = "planned and paid together with"  # begins the note of every release of a script
_LOGGED = 1_000  # characters of a script in the ledger's log


@dataclass(frozen=True, slots=True)
class Section:
    """A statement of a script and its answer.

    `alone` is what it would cost without the others, with the noise that it got; None where it was
    not measured. `chart` is the one that it asks for, AUTO or NONE.
    """

    step: Step
    release: Release
    alone: Cost | None = None
    chart: Chart | str = NONE


@dataclass(frozen=True, slots=True)
class Report:
    """The answers to a script, in order; what all of them cost together, and what is left.

    `price` is None where nothing was asked that has one.
    """

    script: Script
    sections: tuple[Section, ...]
    backend: str = ""
    price: Cost | None = None
    charged: Cost | None = None
    left: Budget | None = None

    @property
    def releases(self) -> tuple[Release, ...]:
        return tuple(section.release for section in self.sections)


def answered(session: Session, ready: Ready) -> Report:
    """The answers to a script: all of them after one charge, or an error and no charge."""
    free: dict[Step, Release] = {}
    for entry in ready.entries:  # before the charge, for one that is refused refuses all
        if isinstance(entry, Free):
            with ready.script.placed(entry.step):
                free[entry.step] = entry.told()
    report = Report(ready.script, ())
    if ready.dataset is not None:
        report = _bought(session, ready, ready.dataset)
    for entry in ready.entries:
        if isinstance(entry, Free) and entry.late:
            with contextlib.suppress(Error):  # what was paid for is not lost for it
                free[entry.step] = entry.told()
    sections = iter(report.sections)
    listed = [
        Section(entry.step, free[entry.step]) if isinstance(entry, Free) else next(sections)
        for entry in ready.entries
    ]
    return dataclasses.replace(report, sections=tuple(listed))


def _bought(session: Session, ready: Ready, dataset: Dataset) -> Report:
    balance = session.ledger.balance(session.user, dataset.name)
    plan, archive = of_purse(session, ready, dataset, balance)
    terms, queries = Terms.of(balance.grant), ready.queries
    together = explained_together(ready, plan)
    if plan.rest is None:
        nothing, left = tell.nothing(terms), tell.budget(balance)
        free = [_reused(at, plan, None, nothing, left, archive) for at in range(len(queries))]
        sections = _sections(session, ready, plan, free, together, {})
        return Report(ready.script, sections, REUSE, nothing, nothing, left)
    curator = session._curator(dataset)
    charge = Charge(session.ledger, balance)
    failure: BaseException
    try:
        session.go_on()
        choice = plan.rest.choice
        measured = curator.measure(
            choice.measured(plan.rest.workload), choice.noise, logged(ready.script, queries),
            charge.take, balance.grant, charge.token,
        )  # fmt: skip
        session._balances[dataset.name] = measured.receipt.after
        if archive is not None and measured.snapshot != archive.name[2]:
            archive = session._archive(dataset, measured.snapshot)
        return _released(session, ready, plan, archive, measured, terms, together)
    except Regranted:
        raise
    except BaseException as error:
        failure = charge.failure(error)
    finally:
        session._calls.paid = charge.cost
    raise failure  # out here, so that it does not carry what it was made from


def logged(script: Script, queries: Sequence[Query]) -> str:
    """What the ledger's log says of a script: its name and its statements, as far as they fit."""
    texts = "; ".join(" ".join(query.step.sql.split()) for query in queries)
    text = f"{script.name}: {texts}"
    if len(text) <= _LOGGED:
        return text
    return f"{text[:_LOGGED]}... ({len(queries):,} statements)"


def explained_together(ready: Ready, plan: Planned) -> list[tuple[list[int], Projection]]:
    """The statements that are to be explained by one table, each time. Raises UsageError."""
    return projections(
        [statement.workload for statement in plan.statements],
        [query.settings for query in ready.queries],
    )


def _sections(
    session: Session,
    ready: Ready,
    plan: Planned,
    answers: Sequence[tuple[Answered, Paid]],
    together: Sequence[tuple[list[int], Projection]],
    alone: Mapping[int, Cost],
) -> tuple[Section, ...]:
    """The answers to all statements, as they are shown."""
    shown: dict[int, Shown] = {}
    for group, projection in together:
        shown.update(zip(group, projection.shown([answers[at][0] for at in group]), strict=True))
    found = []
    for at, (query, (own, paid)) in enumerate(zip(ready.queries, answers, strict=True)):
        statement = plan.statements[at]
        grid = session._grid(statement.bound.dataset)
        release = build(statement, grid, own, query.settings, paid, shown.get(at))
        found.append(Section(query.step, release, alone.get(at), query.chart))
    return tuple(found)


def _reused(
    at: int,
    plan: Planned,
    since: Found | None,
    nothing: Cost,
    left: Budget,
    archive: Archive | None,
) -> tuple[Answered, Paid]:
    """The answer to a statement from earlier releases; `since` a measurement, where they say."""
    found = since or plan.found[at]
    assert found is not None
    notes = unbought(archive, plan.statements[at].workload, found)
    return found.answered(), Paid(REUSE, nothing, nothing, left, True, (*notes, *plan.notes(at)))


def _released(
    session: Session,
    ready: Ready,
    plan: Planned,
    archive: Archive | None,
    measured: Measurement,
    terms: Terms,
    together: Sequence[tuple[list[int], Projection]],
) -> Report:
    """The report after a measurement, which is kept for reuse."""
    dataset = ready.dataset
    assert plan.rest is not None and dataset is not None
    raw = dict(zip(plan.missing, plan.rest.answers(measured.answers), strict=True))
    kept, notes = _kept(archive, plan.rest, measured)
    others = len(ready.queries) - 1
    if others:
        notes.append(
            f"{TOGETHER} {others} other statement{'s' if others > 1 else ''} of {ready.script.name}"
            ": the price is that of all of them"
        )
    price, left = plan.rest.choice.price, tell.budget(measured.receipt.after)
    charged, nothing = tell.price(measured.receipt.charged, terms), tell.nothing(terms)
    answers, alone = [], {}
    for at, query in enumerate(ready.queries):
        statement, said = plan.statements[at], None
        if kept is not None and query.settings.reuse:
            said = plan.since(kept, at)
        if at not in raw:
            answers.append(_reused(at, plan, said, nothing, left, archive))
            continue
        own, earlier = raw[at], 0
        with contextlib.suppress(Error):  # what was paid for is not lost for it
            alone[at] = plan.rest.alone(statement.workload, own.noises, dataset, terms).price
        if said is not None:
            own = said.answered()
            earlier = sum(used != measured.receipt.seq for used in said.used)
        combined = [f"combined with {words(earlier)}"] if earlier else []
        backend = label(plan.rest.choice, earlier)
        paid = Paid(backend, price, charged, left, earlier > 0, (*combined, *notes))
        answers.append((own, paid))
    sections = _sections(session, ready, plan, answers, together, alone)
    return Report(ready.script, sections, plan.rest.choice.backend, price, charged, left)


def _kept(
    archive: Archive | None, rest: Joint, measured: Measurement
) -> tuple[Archive | None, list[str]]:
    """The archive with what was measured, None where it is not kept; and what to say of it."""
    stored = None if archive is None else rest.stored(measured.answers)
    if archive is None or stored is None:
        return None, []
    archive.add(measured.receipt.seq, stored)
    try:
        archive.keep(measured.receipt.seq, ())
    except LedgerError:
        return archive, [NOT_KEPT]
    return archive, []
