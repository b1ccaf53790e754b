"""Synopses: tables of some columns that are bought at once, for a distribution to be fitted to.

The tables are one release, planned together as residual tables, whose answers are kept as those of
any other: what follows from them is free for whoever paid. The distribution answers the rest.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpsql.accounting.clock import now
from dpsql.accounting.events import Gaussian
from dpsql.accounting.synopses import Synopsis, check_name, made
from dpsql.curator.quote import GaussianNoise, quote
from dpsql.curator.rises import rise
from dpsql.errors import UsageError
from dpsql.mechanisms import gaussian
from dpsql.mechanisms.marginals import Marginals, marginals
from dpsql.mechanisms.purchase import CELLS, workload
from dpsql.mechanisms.verifier import count_unit
from dpsql.planner import Asked, Choice, Terms, chosen, in_rho
from dpsql.query.expr import written
from dpsql.query.linear import whole
from dpsql.release import Cost, Release
from dpsql.schema import Dataset
from dpsql.session import tell
from dpsql.session.charge import Charge
from dpsql.session.earlier import NOT_KEPT
from dpsql.session.held import fit, keep, unfinished
from dpsql.session.learning import Learning

if TYPE_CHECKING:
    from dpsql.session.session import Session

WAYS = 2  # columns of a table, where the tables are not listed
SHARE = 10  # a tenth of the grant, as for a script
_ANSWERS = 1 << 20  # of all tables

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """What a synopsis is to measure: its tables, their plan with its noise, and the price."""

    name: str
    dataset: Dataset
    columns: Names
    sets: tuple[Names, ...]
    users: Names | None
    learning: Learning
    updates: int
    rho: int  # of an update, in pico
    plan: Marginals
    choice: Choice
    promise: tuple[str, ...]

    @property
    def statement(self) -> str:
        """What the log says."""
        tables = ", ".join(f"({', '.join(map(written, names))})" for names in self.sets)
        return f"CREATE SYNOPSIS {self.name} ON {written(self.dataset.name)} AS {tables}"

    @property
    def rows(self) -> list[tuple[str, int, float]]:
        """Of each table its columns, its cells, and the standard error of a cell in rows."""
        law = self.choice.event
        assert isinstance(law, Gaussian)
        (noise,) = self.plan.noises(law)
        variances = np.asarray(noise.moment({0: 1.0}, {0: 1.0}))
        found, start = [], 0
        for names in self.sets:
            cells = cells_of(self.dataset, names)
            found.append((", ".join(names), cells, round(math.sqrt(float(variances[start])), 2)))
            start += cells
        return found


def designed(
    session: Session,
    name: str,
    dataset: Dataset,
    columns: Sequence[str] | None,
    sets: Sequence[Sequence[str]] | None,
    ways: int | None,
    users: Sequence[str] | None,
    learning: Learning,
    asked: Asked,
) -> Design:
    """The tables of a synopsis and their plan. Reads no data. Raises UsageError, NoGrant.

    All single columns are measured, with the `sets`, or else with all sets of up to `ways` columns
    whose tables are small enough; `columns` are those that the schema lists under that name unless
    they are given.
    """
    check_name(name)
    chosen_columns = columns_of(name, dataset, columns, sets)
    if ways is None:
        ways = min(WAYS, len(chosen_columns))
        if learning.online and _answers(dataset, chosen_columns, ways) > _ANSWERS:
            ways = 1  # the rest is learnt
    tables = _sets(dataset, chosen_columns, sets, ways)
    if len(tables) == 1:
        raise UsageError(
            f"a synopsis is of two columns or more: a GROUP BY of {chosen_columns[0]} is kept, too"
        )
    domain = session._grid(dataset).domain(chosen_columns)
    asked_for = workload(domain, tables)
    plan = marginals(asked_for)
    if plan is None:
        raise UsageError("these tables are too many, or too large, to be measured together")
    terms = Terms.of(session.ledger.balance(session.user, dataset.name).grant)
    require_impure(terms)
    alone = quote(plan.strategy, dataset, GaussianNoise(Fraction(1)))
    assert isinstance(alone, Gaussian)
    price = in_rho(asked, terms)
    widest = max(map(len, tables))
    unit = count_unit(dataset)
    warm, updates, each = learning.split(price, unit, widest)
    noise = gaussian.noise(alone.sensitivity_squared, warm)
    choice = chosen("marginals", noise, asked_for, dataset, terms, plan)
    people = None if users is None else tuple(users)
    return Design(
        name, dataset, chosen_columns, tables, people, learning, updates, each, plan,
        choice, learning.promise(unit, updates, each),
    )  # fmt: skip


def in_rows(session: Session, dataset: Dataset, accuracy: str) -> float:
    """A percentage of the number of rows that this user was told. Raises UsageError."""
    try:
        part = float(accuracy.removesuffix("%")) / 100.0
    except ValueError:
        part = math.nan
    if not accuracy.endswith("%") or not 0.0 < part < 1.0:
        raise UsageError(f"accuracy is a number of rows, or one such as 2%, not {accuracy!r}")
    count = whole(session._grid(dataset).domain(()))
    found = session._archive(dataset).find(count)
    if found is None or found.worst == math.inf:
        raise UsageError(
            f"accuracy {accuracy} is a share of the number of rows, of which nothing was released:"
            f" ask SELECT COUNT(*) FROM {written(dataset.name)} first, or give rows"
        )
    rows = int(found.answered().answers[0][0, 0])
    if not rows > 0:
        raise UsageError(f"accuracy {accuracy} is a share of {rows} rows: give rows")
    return part * rows


def require_impure(terms: Terms) -> None:
    """Raises UsageError."""
    if terms.pure:
        raise UsageError(
            "the grant is pure (delta = 0), which the Gaussian noise of a synopsis cannot keep: ask"
            " the owner for a grant with a delta above 0"
        )


def columns_of(
    name: str, dataset: Dataset, columns: Sequence[str] | None, sets: Sequence[Sequence[str]] | None
) -> Names:
    known = [column.name for column in dataset.columns]
    if columns is None and sets is None:
        columns = dict(dataset.synopses).get(name)
        if columns is None:
            raise UsageError(
                f"which columns? the schema of {dataset.name} lists none under [synopses] for"
                f" {name!r}: name them, e.g. --columns {','.join(known[:3])}"
            )
    asked = [*(columns or ()), *itertools.chain.from_iterable(sets or ())]
    for column in asked:
        if column not in known:
            raise UsageError(f"{dataset.name} has no column {column!r}: {', '.join(known)}")
    found = tuple(column for column in known if column in asked)
    if not found:
        raise UsageError("a synopsis needs a column")
    return found


def _sets(
    dataset: Dataset, columns: Names, sets: Sequence[Sequence[str]] | None, ways: int
) -> tuple[Names, ...]:
    """All single columns, then the tables that are asked for, small ones first."""
    if sets is None:
        if not 1 <= ways <= len(columns):
            raise UsageError(f"ways is from 1 to the {len(columns)} columns, not {ways}")
        tables = _up_to(dataset, columns, ways)
    else:
        tables = [tuple(name for name in columns if name in set(names)) for names in sets]
        for names in tables:
            cells = cells_of(dataset, names)
            if cells > CELLS:
                raise UsageError(
                    f"the table of {', '.join(names)} has {cells:,} cells, and at most {CELLS:,}"
                    " are measured"
                )
    found = dict.fromkeys([*((name,) for name in columns), *tables])
    answers = sum(cells_of(dataset, names) for names in found)
    if answers > _ANSWERS:
        raise UsageError(
            f"these tables have {answers:,} cells together, and at most {_ANSWERS:,} are measured:"
            " name fewer columns, or the sets that matter"
        )
    return tuple(found)


def _up_to(dataset: Dataset, columns: Names, ways: int) -> list[Names]:
    """The tables of 2 to `ways` columns that are small enough."""
    wanted: list[Names] = []
    for size in range(2, ways + 1):
        wanted += itertools.combinations(columns, size)
    return [names for names in wanted if cells_of(dataset, names) <= CELLS]


def _answers(dataset: Dataset, columns: Names, ways: int) -> int:
    """The cells of all tables of up to `ways` columns that are small enough."""
    single = sum(cells_of(dataset, (name,)) for name in columns)
    return single + sum(cells_of(dataset, names) for names in _up_to(dataset, columns, ways))


def cells_of(dataset: Dataset, names: Names) -> int:
    return math.prod(dataset.column(name).cells for name in names)


def predicted(session: Session, design: Design) -> Release:
    """What a synopsis would cost, and the error of its tables; free, and reads no data."""
    balance = session.ledger.balance(session.user, design.dataset.name)
    terms = Terms.of(balance.grant)
    taken = rise(
        session.ledger, session.user, design.dataset, session._snapshot(design.dataset),
        design.plan.strategy, design.choice.noise,
    )  # fmt: skip
    return _told(session, design, tell.price(taken.charged, terms), ("nothing was charged",))


def create(session: Session, design: Design) -> Release:
    """Buy the tables of a synopsis; it can be asked when this returns.

    Raises UsageError for a name that is taken, BudgetError or SourceError: then nothing is charged;
    only after the charge can SourceError or InternalError mean that something was paid, and then
    they say so.
    """
    dataset, ledger = design.dataset, session.ledger
    balance = ledger.balance(session.user, dataset.name)
    terms, charge = Terms.of(balance.grant), Charge(ledger, balance)
    curator = session._curator(dataset)
    snapshot = session._snapshot(dataset)
    synopsis = Synopsis(
        design.name, dataset.name, snapshot, session.user, now(), design.learning.method,
        design.columns, design.sets, (), design.users, design.updates, design.rho,
        step=design.learning.step, gate=design.learning.gate,
        threshold=design.learning.threshold,
    )  # fmt: skip
    failure: BaseException
    try:
        session.go_on()
        measured = curator.measure(
            design.plan.strategy, design.choice.noise, design.statement, charge.take,
            balance.grant, charge.token,
            lambda page, seq: made(page, dataclasses.replace(synopsis, charges=(seq,))),
        )  # fmt: skip
        archive = session._archive(dataset, measured.snapshot)
        assert isinstance(measured.event, Gaussian)
        stored = design.plan.stored(measured.answers, measured.event, [])
        seq = measured.receipt.seq
        kept = stored is not None and keep(archive, seq, stored)
        notes: tuple[str, ...] = () if kept else (NOT_KEPT,)
        if stored is not None:
            made_of = dataclasses.replace(synopsis, charges=(seq,))
            notes += unfinished(fit(session, dataset, archive, made_of))
        return _told(session, design, tell.price(measured.receipt.charged, terms), notes)
    except BaseException as error:
        failure = charge.failure(error)
    finally:
        session._calls.paid = charge.cost
    raise failure


def _told(session: Session, design: Design, charged: Cost, notes: tuple[str, ...]) -> Release:
    """The tables of a synopsis as a release."""
    told = tell.table(
        ("columns", "cells", "stderr"), ("VARCHAR", "BIGINT", "DOUBLE"), design.rows,
        (*design.promise, *notes),
    )  # fmt: skip
    left = tell.budget(session.ledger.balance(session.user, design.dataset.name))
    return dataclasses.replace(
        told, backend="marginals", price=design.choice.price, charged=charged, left=left,
        dataset=design.dataset.name,
    )  # fmt: skip
