"""Synopses that are chosen by what is seen of the data, for listed queries: MWEM and SmallDB.

All rounds are one charge, made before anything is read: an interrupted run wastes what it did not
use. What was chosen is as much a release as what was measured, so both are one release, which
whoever reads it pays as a whole; the note of the synopsis says how much was chosen, and not what.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from dpsql.accounting.clock import now
from dpsql.accounting.kept.stored import Stored
from dpsql.accounting.kept.synopses import Synopsis, check_name
from dpsql.accounting.purse import Balance, Rise
from dpsql.curator.chooser import Chooser
from dpsql.curator.curator import Curator
from dpsql.curator.quote import moved
from dpsql.curator.rises import rounds_rise
from dpsql.errors import UsageError
from dpsql.mechanisms.synopses import mwem, smalldb
from dpsql.mechanisms.synopses.purchase import CELLS
from dpsql.mechanisms.synopses.verifier import count_unit
from dpsql.planner import Asked, Terms, cost, in_rho
from dpsql.query.expr import written
from dpsql.query.linear import Workload
from dpsql.release import Cost, Release
from dpsql.schema import Dataset
from dpsql.session import tell
from dpsql.session.charge import Charge
from dpsql.session.synopses.buying import Also
from dpsql.session.synopses.learning import Learning
from dpsql.session.synopses.queried import Queries
from dpsql.session.synopses.synopsis import Names, cells_of, require_impure

if TYPE_CHECKING:
    from dpsql.session.session import Session

ROUNDS = 15  # where nothing is said; or as many as there are sets of columns
LEVEL = 0.95  # of the bounds that EXPLAIN shows

Row: TypeAlias = tuple[str, int, float | None, str | None]


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """What a synopsis is to be made of, and the queries that it is made for."""

    name: str
    dataset: Dataset
    columns: Names
    queries: Queries
    users: Names | None
    plan: mwem.Plan | smalldb.Plan

    @property
    def method(self) -> str:
        return "mwem" if isinstance(self.plan, mwem.Plan) else "smalldb"

    @property
    def listed(self) -> Workload:
        match self.plan:
            case mwem.Plan(listed=listed):
                return listed.workload
            case smalldb.Plan(listed=workload):
                return workload

    @property
    def statement(self) -> str:
        """What the log says."""
        columns = ", ".join(map(written, self.columns))
        match self.plan:
            case mwem.Plan(event=event):
                much = f"MWEM OF {self.queries.size} QUERIES IN {event.times} ROUNDS"
            case smalldb.Plan(size=size):
                much = f"SMALLDB OF {self.queries.size} QUERIES WITH {size} ROWS"
        return f"CREATE SYNOPSIS {self.name} ON {written(self.dataset.name)} ({columns}) BY {much}"

    @property
    def note(self) -> Synopsis:
        sets: tuple[Names, ...] = ()
        rounds = 0
        if isinstance(self.plan, mwem.Plan):
            sets, rounds = tuple((name,) for name in self.columns), self.plan.event.times
        return Synopsis(
            self.name, self.dataset.name, "", "", now(), self.method, self.columns, sets, (),
            self.users, rounds=rounds,
        )  # fmt: skip

    @property
    def training(self) -> None:
        return None

    def rise(self, session: Session, snapshot: str) -> Rise:
        event = self.plan.event
        return rounds_rise(session.ledger, session.user, self.dataset, snapshot, event)

    def measured(self, curator: Curator, charge: Charge, balance: Balance, also: Also) -> Chooser:
        return curator.rounds(
            self.listed, self.plan.event, self.statement, charge.take, balance.grant, charge.token,
            also,
        )  # fmt: skip

    def stored(self, found: Chooser) -> Stored:
        match self.plan:
            case mwem.Plan():
                return mwem.learnt(self.plan, found)
            case smalldb.Plan():
                return smalldb.learnt(self.plan, found)

    def told(
        self, session: Session, charged: Cost, notes: tuple[str, ...], stored: Stored | None = None
    ) -> Release:
        """Its tables, or its database."""
        balance = session.ledger.balance(session.user, self.dataset.name)
        if stored is None:
            rows, known = _foretold(self)
            notes = (*known, *notes)
        else:
            rows = _chosen(self, stored)
        names: tuple[str, ...] = ("columns", "cells", "stderr", "chosen_for")
        types: tuple[str, ...] = ("VARCHAR", "BIGINT", "DOUBLE", "VARCHAR")
        if self.method == "smalldb":
            names, types = ("columns", "cells", "most"), types[:3]
        told = tell.table(names, types, [row[: len(names)] for row in rows], notes)
        price = cost(self.plan.event, Terms.of(balance.grant))
        return dataclasses.replace(
            told, backend=self.method, price=price, charged=charged, left=tell.budget(balance),
            dataset=self.dataset.name,
        )  # fmt: skip


def designed(
    session: Session,
    name: str,
    columns: Names,
    queries: Queries,
    users: Sequence[str] | None,
    learning: Learning,
    asked: Asked,
) -> Design:
    """What is to be chosen for queries. Reads no data. Raises UsageError, NoGrant."""
    check_name(name)
    dataset = queries.dataset
    terms = Terms.of(session.ledger.balance(session.user, dataset.name).grant)
    require_impure(terms)
    people = None if users is None else tuple(users)
    domain, rho = session._grid(dataset).domain(columns), in_rho(asked, terms)
    workload, unit = queries.workload(session), count_unit(dataset)

    def squared(measured: Workload) -> int:
        return moved(measured, dataset).squared

    if learning.method == "smalldb":
        small = smalldb.planned(workload, domain, learning.size, rho, squared, unit)
        return Design(name, dataset, columns, queries, people, small)
    try:
        listed = mwem.Listed.of(workload, CELLS)
    except ValueError:
        raise UsageError("a query depends on more cells of its columns than can be kept") from None
    most = listed.rounds
    if not most:
        raise UsageError(
            "the tables of single columns tell all of these queries: --method marginals --ways 1"
        )
    if learning.updates is not None and learning.updates > most:
        raise UsageError(
            f"after {most} rounds the tables may tell all of these queries, so there are at most"
            f" {most} updates, not {learning.updates}"
        )
    times = learning.updates or min(ROUNDS, most)
    plan = mwem.planned(listed, domain, rho, times, unit, squared)
    return Design(name, dataset, columns, queries, people, plan)


# -- what is shown ---------------------------------------------------------------------------------


def _singles(design: Design, plan: mwem.Plan) -> list[Row]:
    stderr = round(plan.stddevs[0], 2)
    return [(name, cells_of(design.dataset, (name,)), stderr, None) for name in design.columns]


def _foretold(design: Design) -> tuple[list[Row], tuple[str, ...]]:
    """What is known before anything is bought."""
    match design.plan:
        case mwem.Plan() as plan:
            small = zip(plan.listed.names, plan.listed.small, strict=True)
            sets = {tuple(own) for own, fits in small if fits}
            cells = max((cells_of(design.dataset, names) for names in sets), default=1)
            times, stderr = plan.event.times, round(plan.stddevs[1], 2)
            row: Row = (f"{times} that are chosen", cells, stderr, "each a query")
            notes = [
                f"{times} rounds: each finds a query on which the synopsis errs most, and measures"
                f" the table of its columns, of {cells:,} cells at most"
            ]
            if not plan.listed.small.all():
                notes.append(f"queries whose table has over {CELLS:,} cells are measured alone")
            return [*_singles(design, plan), row], tuple(notes)
        case smalldb.Plan() as plan:
            better = math.ceil(plan.better(LEVEL))
            note = (
                f"one of {plan.many:,} databases of {plan.size} rows: at {LEVEL:.0%} it errs on no"
                f" query by more than the best of them and {better:,} rows"
            )
            return [(", ".join(design.columns), plan.domain.cells, None, None)], (note,)


def _chosen(design: Design, stored: Stored) -> list[Row]:
    """What was chosen."""
    match design.plan:
        case mwem.Plan() as plan:
            rows, stderr = _singles(design, plan), round(plan.stddevs[1], 2)
            assert stored.picked is not None
            later = stored.families[len(design.columns) :]
            for place, family in zip(stored.picked, later, strict=True):
                names = ", ".join(name for name in design.columns if name in family.classes)
                rows.append((names, len(family.origin), stderr, design.queries.place(place)))
            return rows
        case smalldb.Plan() as plan:
            assert stored.chosen is not None
            most = float(smalldb.most(stored.chosen, LEVEL))
            return [(", ".join(design.columns), plan.domain.cells, most, None)]
