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
from dpsql.accounting.events import PICO, Gaussian
from dpsql.accounting.stored import Stored
from dpsql.accounting.synopses import Synopsis, check_name, made
from dpsql.curator.engines.duckdb import DuckDBEngine
from dpsql.curator.public import rows_of
from dpsql.curator.quote import GaussianNoise, moved
from dpsql.curator.rises import rise
from dpsql.errors import UsageError
from dpsql.mechanisms import gaussian
from dpsql.mechanisms.training import MOST, Training
from dpsql.mechanisms.verifier import count_unit
from dpsql.planner import Asked, Choice, Terms, chosen, in_rho
from dpsql.query.expr import written
from dpsql.query.linear import Workload, whole
from dpsql.release import Cost, Release
from dpsql.schema import Dataset, Unit
from dpsql.session import tell
from dpsql.session.asked import named
from dpsql.session.charge import Charge
from dpsql.session.earlier import NOT_KEPT
from dpsql.session.held import keep
from dpsql.session.learning import Learning
from dpsql.session.synopsis import Names, columns_of, require_impure

if TYPE_CHECKING:
    from dpsql.session.session import Session


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """A holdout that is to be made: its training rows, its terms, and the count that is bought."""

    name: str
    dataset: Dataset
    columns: Names
    training: str
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
            f" BY HOLDOUT AGAINST {written(self.training)}"
        )


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
    warm, updates, each = learning.split(in_rho(asked, terms), unit, 1)
    noise = gaussian.noise(max(moved(count, dataset).squared, 1), warm)
    choice = chosen("gaussian", noise, count, dataset, terms)
    people = None if users is None else tuple(users)
    return Design(
        name, dataset, names, training, rows, people, learning, updates, each, count, choice,
        learning.promise(unit, updates, each),
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


def predicted(session: Session, design: Design) -> Release:
    """What a holdout would cost now; free, and reads no private data."""
    dataset = design.dataset
    balance = session.ledger.balance(session.user, dataset.name)
    noise = design.choice.noise
    snapshot = session._snapshot(dataset)
    taken = rise(session.ledger, session.user, dataset, snapshot, design.count, noise)
    charged = tell.price(taken.charged, Terms.of(balance.grant))
    return _told(session, design, charged, ("nothing was charged",))


def create(session: Session, design: Design) -> Release:
    """Buy the number of rows, and keep the training rows beside it. Raises as `synopsis.create`."""
    dataset, ledger = design.dataset, session.ledger
    balance = ledger.balance(session.user, dataset.name)
    terms, charge = Terms.of(balance.grant), Charge(ledger, balance)
    curator, snapshot = session._curator(dataset), session._snapshot(dataset)
    synopsis = Synopsis(
        design.name, dataset.name, snapshot, session.user, now(), design.learning.method,
        design.columns, (), (), design.users, design.updates, design.rho, gate=design.learning.gate,
        threshold=design.learning.threshold,
    )  # fmt: skip
    failure: BaseException
    try:
        session.go_on()
        assert isinstance(design.choice.noise, GaussianNoise)
        measured = curator.measure(
            design.count, design.choice.noise, design.statement, charge.take, balance.grant,
            charge.token,
            lambda page, seq: made(
                page, dataclasses.replace(synopsis, charges=(seq,)), design.rows.to_bytes()
            ),
        )  # fmt: skip
        archive = session._archive(dataset, measured.snapshot)
        stored = Stored.of(design.count, measured.event, measured.answers)
        assert stored is not None  # one count
        notes = () if keep(archive, measured.receipt.seq, stored) else (NOT_KEPT,)
        return _told(session, design, tell.price(measured.receipt.charged, terms), notes)
    except BaseException as error:
        failure = charge.failure(error)
    finally:
        session._calls.paid = charge.cost
    raise failure


def _told(session: Session, design: Design, charged: Cost, notes: tuple[str, ...]) -> Release:
    """The holdout as a release."""
    law = design.choice.event
    assert isinstance(law, Gaussian)
    row = (
        ", ".join(design.columns), design.training, int(design.rows.counts.sum()),
        round(math.sqrt(float(law.variance)), 2), design.updates, design.rho / PICO,
    )  # fmt: skip
    names = ("columns", "training", "training_rows", "stderr_of_rows", "updates", "rho_each")
    types = ("VARCHAR", "VARCHAR", "BIGINT", "DOUBLE", "BIGINT", "DOUBLE")
    told = tell.table(names, types, [row], (*design.promise, *notes))
    left = tell.budget(session.ledger.balance(session.user, design.dataset.name))
    return dataclasses.replace(
        told, backend="holdout", price=design.choice.price, charged=charged, left=left,
        dataset=design.dataset.name,
    )  # fmt: skip
