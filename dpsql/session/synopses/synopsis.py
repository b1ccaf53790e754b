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
from dpsql.accounting.kept.stored import Stored
from dpsql.accounting.kept.synopses import Synopsis, check_name
from dpsql.accounting.purse import Balance, Rise
from dpsql.curator.curator import Curator, Measurement
from dpsql.curator.quote import GaussianNoise, quote
from dpsql.curator.rises import rise
from dpsql.errors import UsageError
from dpsql.mechanisms import gaussian
from dpsql.mechanisms.strategies.marginals import Marginals, marginals
from dpsql.mechanisms.synopses.purchase import CELLS, workload
from dpsql.mechanisms.synopses.verifier import count_unit
from dpsql.planner import Asked, Choice, Terms, chosen, in_rho
from dpsql.query.expr import written
from dpsql.query.linear import whole
from dpsql.release import Cost, Release
from dpsql.schema import Dataset
from dpsql.session import tell
from dpsql.session.charge import Charge
from dpsql.session.synopses.buying import Also
from dpsql.session.synopses.learning import Learning

if TYPE_CHECKING:
    from dpsql.session.session import Session

WAYS = 2  # columns of a table, where the tables are not listed
SHARE = 10  # a tenth of the grant, as for a script
_ANSWERS = 1 << 20  # of all tables
_TABLES = (1 << 10) - 1  # which one plan measures
_SHOWN = 3

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

    @property
    def note(self) -> Synopsis:
        return Synopsis(
            self.name, self.dataset.name, "", "", now(), self.learning.named, self.columns,
            self.sets, (), self.users, self.updates, self.rho, step=self.learning.step,
            gate=self.learning.gate, threshold=self.learning.threshold,
        )  # fmt: skip

    @property
    def training(self) -> None:
        return None

    def rise(self, session: Session, snapshot: str) -> Rise:
        return rise(
            session.ledger, session.user, self.dataset, snapshot, self.plan.strategy,
            self.choice.noise,
        )  # fmt: skip

    def measured(
        self, curator: Curator, charge: Charge, balance: Balance, also: Also
    ) -> Measurement:
        return curator.measure(
            self.plan.strategy, self.choice.noise, self.statement, charge.take, balance.grant,
            charge.token, also,
        )  # fmt: skip

    def stored(self, found: Measurement) -> Stored | None:
        assert isinstance(found.event, Gaussian)
        return self.plan.stored(found.answers, found.event, [])

    def told(
        self, session: Session, charged: Cost, notes: tuple[str, ...], stored: Stored | None = None
    ) -> Release:
        """Its tables."""
        told = tell.table(
            ("columns", "cells", "stderr"), ("VARCHAR", "BIGINT", "DOUBLE"), self.rows,
            (*self.promise, *notes),
        )  # fmt: skip
        left = tell.budget(session.ledger.balance(session.user, self.dataset.name))
        return dataclasses.replace(
            told, backend=self.learning.named, price=self.choice.price, charged=charged, left=left,
            dataset=self.dataset.name,
        )  # fmt: skip


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
        if learning.online and _too_many(dataset, chosen_columns, ways):
            ways = 1  # the rest is learnt
    tables = _sets(dataset, chosen_columns, sets, ways)
    omitted = () if sets is not None else _omitted(dataset, chosen_columns, ways)
    if len(tables) == 1:
        raise UsageError(
            f"a synopsis is of two columns or more: a GROUP BY of {chosen_columns[0]} is kept, too"
        )
    domain = session._grid(dataset).domain(chosen_columns)
    asked_for = workload(domain, tables)
    plan = marginals(asked_for)
    if plan is None:
        raise UsageError(
            f"these {len(tables):,} tables are too many, or too large, to be measured together:"
            " name fewer columns, or the sets that matter, or measure single columns (ways 1)"
        )
    terms = Terms.of(session.ledger.balance(session.user, dataset.name).grant)
    require_impure(terms)
    alone = quote(plan.strategy, dataset, GaussianNoise(Fraction(1)))
    assert isinstance(alone, Gaussian)
    price = in_rho(asked, terms)
    widest = max(map(len, tables))
    unit = count_unit(dataset)
    warm, updates, each = learning.split(price, unit, widest, terms.delta)
    noise = gaussian.noise(alone.sensitivity_squared, warm)
    choice = chosen("marginals", noise, asked_for, dataset, terms, plan)
    people = None if users is None else tuple(users)
    promise = learning.promise(unit, updates, each, terms.delta)
    return Design(
        name, dataset, chosen_columns, tables, people, learning, updates, each, plan,
        choice, (*omitted, *promise),
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
    if len(found) > _TABLES:
        raise UsageError(
            f"these are {len(found):,} tables, and at most {_TABLES:,} are measured together: name"
            " fewer columns, or the sets that matter, or measure single columns (ways 1)"
        )
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


def _omitted(dataset: Dataset, columns: Names, ways: int) -> tuple[str, ...]:
    """A note of tables of up to `ways` columns that are too large."""
    wanted = itertools.chain(*(itertools.combinations(columns, n) for n in range(2, ways + 1)))
    large = [names for names in wanted if cells_of(dataset, names) > CELLS]
    if not large:
        return ()
    some = "; ".join(", ".join(names) for names in large[:_SHOWN])
    return (
        f"not measured, for over {CELLS:,} cells each: the tables of {some}"
        + (f", and {len(large) - _SHOWN:,} more" if len(large) > _SHOWN else ""),
    )


def _too_many(dataset: Dataset, columns: Names, ways: int) -> bool:
    """Whether tables of up to `ways` columns that are small enough are too much for one plan."""
    tables = [*((name,) for name in columns), *_up_to(dataset, columns, ways)]
    return len(tables) > _TABLES or sum(cells_of(dataset, n) for n in tables) > _ANSWERS


def cells_of(dataset: Dataset, names: Names) -> int:
    return math.prod(dataset.column(name).cells for name in names)
