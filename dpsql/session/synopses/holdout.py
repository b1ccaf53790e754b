"""A reusable holdout: a private table that is asked only where a public training table misleads.

Its guesses are what the training rows say, in rows of the private table, whose number is measured
first. A gate tells whether a guess is further off than a threshold; while guesses are not, they are
the answers, free. One that is buys its answer from the private table, and a new gate: Thresholdout
(Dwork, Feldman, Hardt, Pitassi, Reingold, Roth 2015). Nothing is learnt of it: the training table
stays as it is, and whoever asks goes on choosing questions by it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpsql.accounting.clock import now
from dpsql.accounting.convert import epsilon_of
from dpsql.accounting.events import PICO, Gaussian
from dpsql.accounting.kept.stored import Stored
from dpsql.accounting.kept.synopses import HOLDOUT, Synopsis, check_name
from dpsql.accounting.purse import Balance, Rise
from dpsql.curator.curator import Curator, Measurement
from dpsql.curator.engines.duckdb import DuckDBEngine
from dpsql.curator.public import rows_of
from dpsql.curator.quote import moved
from dpsql.curator.rises import rise
from dpsql.errors import UsageError
from dpsql.mechanisms import gaussian
from dpsql.mechanisms.synopses.training import MOST, Training
from dpsql.mechanisms.synopses.verifier import count_unit
from dpsql.planner import Asked, Choice, Terms, chosen, in_rho
from dpsql.query.expr import written
from dpsql.query.linear import Workload, whole
from dpsql.release import EACH, Cost, Release
from dpsql.schema import Dataset, Unit
from dpsql.session import tell
from dpsql.session.asked import named
from dpsql.session.charge import Charge
from dpsql.session.synopses.buying import Also
from dpsql.session.synopses.learning import Learning
from dpsql.session.synopses.synopsis import Names, columns_of, require_impure

if TYPE_CHECKING:
    from dpsql.session.session import Session


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """A holdout that is to be made: its training rows, its terms, and the count that is bought."""

    name: str
    dataset: Dataset
    columns: Names
    public: str  # the name of the training dataset
    rows: Training
    users: Names | None
    learning: Learning
    updates: int
    rho: int  # of an update, in pico
    count: Workload
    choice: Choice
    promise: tuple[str, ...]

    @property
    def statement(self) -> str:
        """What the log says."""
        columns = ", ".join(map(written, self.columns))
        return (
            f"CREATE SYNOPSIS {self.name} ON {written(self.dataset.name)} ({columns})"
            f" BY HOLDOUT AGAINST {written(self.public)}"
        )

    @property
    def note(self) -> Synopsis:
        return Synopsis(
            self.name, self.dataset.name, "", "", now(), self.learning.method, self.columns, (),
            (), self.users, self.updates, self.rho, gate=self.learning.gate,
            threshold=self.learning.threshold,
        )  # fmt: skip

    @property
    def training(self) -> bytes:
        return self.rows.to_bytes()

    def rise(self, session: Session, snapshot: str) -> Rise:
        noise = self.choice.noise
        return rise(session.ledger, session.user, self.dataset, snapshot, self.count, noise)

    def measured(
        self, curator: Curator, charge: Charge, balance: Balance, also: Also
    ) -> Measurement:
        return curator.measure(
            self.count, self.choice.noise, self.statement, charge.take, balance.grant,
            charge.token, also,
        )  # fmt: skip

    def stored(self, found: Measurement) -> Stored | None:
        return Stored.of(self.count, found.event, found.answers)

    def told(
        self, session: Session, charged: Cost, notes: tuple[str, ...], stored: Stored | None = None
    ) -> Release:
        """Its training rows and its terms."""
        law = self.choice.event
        assert isinstance(law, Gaussian)
        row = (
            ", ".join(self.columns), self.public, int(self.rows.counts.sum()),
            round(math.sqrt(float(law.variance)), 2), self.updates,
            epsilon_of(self.rho, self.choice.price.delta), self.rho / PICO,
        )  # fmt: skip
        names = ("columns", "training", "training_rows", "stderr_of_rows", "updates", *EACH)
        types = ("VARCHAR", "VARCHAR", "BIGINT", "DOUBLE", "BIGINT", "DOUBLE", "DOUBLE")
        told = tell.table(names, types, [row], (*self.promise, *notes))
        left = tell.budget(session.ledger.balance(session.user, self.dataset.name))
        return dataclasses.replace(
            told, backend=HOLDOUT, price=self.choice.price, charged=charged, left=left,
            dataset=self.dataset.name,
        )  # fmt: skip


def designed(
    session: Session,
    name: str,
    dataset: Dataset,
    columns: Sequence[str] | None,
    training: str,
    users: Sequence[str] | None,
    learning: Learning,
    asked: Asked,
) -> Design:
    """What a holdout is to be. Reads the public table alone.

    Raises UsageError, NoGrant, or SourceError.
    The private table's number of rows takes as much of the price as a synopsis' first tables.
    """
    check_name(name)
    terms = Terms.of(session.ledger.balance(session.user, dataset.name).grant)
    require_impure(terms)
    names = columns_of(name, dataset, columns, None)
    rows = _read(session, dataset, named(session.datasets, training), names)
    count = whole(session._grid(dataset).domain(()))
    unit = count_unit(dataset)
    warm, updates, each = learning.split(in_rho(asked, terms), unit, 1, terms.delta)
    noise = gaussian.noise(max(moved(count, dataset).squared, 1), warm)
    choice = chosen("gaussian", noise, count, dataset, terms)
    people = None if users is None else tuple(users)
    return Design(
        name, dataset, names, training, rows, people, learning, updates, each, count, choice,
        learning.promise(unit, updates, each, terms.delta),
    )  # fmt: skip


def _read(session: Session, dataset: Dataset, public: Dataset, names: Names) -> Training:
    """The rows of a public table, on the columns of a private one. Raises UsageError."""
    if not public.public:
        raise UsageError(
            f"{public.name} is not declared public: its owner writes public = true in its schema,"
            " which gives its rows away"
        )
    known = {column.name for column in public.columns}
    for name in names:
        own = dataset.column(name)
        other = public.column(name) if name in known else None
        if other is None or (own.kind, own.nullable, own.fields) != (
            other.kind, other.nullable, other.fields,
        ):  # fmt: skip
            raise UsageError(
                f"{public.name} does not declare {name} as {dataset.name} does: a training table"
                " has the same columns, with the same domains"
            )
    engine = DuckDBEngine(session.database, dataclasses.replace(public, unit=Unit()))  # all rows
    try:
        codes, counts = rows_of(engine, names)
    finally:
        engine.close()
    if not len(counts):
        raise UsageError(f"{public.name} has no rows")
    if len(counts) > MOST:
        raise UsageError(
            f"{public.name} has {len(counts):,} different rows on these columns, and at most"
            f" {MOST:,} are kept: name fewer columns"
        )
    return Training(names, codes, counts)
