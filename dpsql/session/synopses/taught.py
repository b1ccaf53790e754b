"""What a synopsis is taught by a question that it got wrong: the table of its columns is bought."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpsql.accounting.kept.stored import Stored
from dpsql.accounting.kept.synopses import HOLDOUT, TABLES, Synopsis
from dpsql.accounting.kept.synopses import learnt as note_learnt
from dpsql.accounting.purse import Balance
from dpsql.curator.curator import Measurement
from dpsql.curator.quote import GaussianNoise, moved
from dpsql.domain import Domain
from dpsql.mechanisms import gaussian
from dpsql.mechanisms.intervals.uncertain import Floats
from dpsql.mechanisms.reuse.archive import Archive
from dpsql.mechanisms.reuse.linked import columns
from dpsql.mechanisms.reuse.precision import variance_of
from dpsql.mechanisms.synopses.expectation import answers
from dpsql.mechanisms.synopses.factors import Factored
from dpsql.mechanisms.synopses.junction import Entangled
from dpsql.mechanisms.synopses.marginal import marginal
from dpsql.mechanisms.synopses.purchase import CELLS
from dpsql.query.canon import tables
from dpsql.query.compile import Compiled
from dpsql.query.linear import Classes, Workload, classes, counted
from dpsql.schema import Dataset
from dpsql.session.charge import Charge
from dpsql.session.synopses import held

if TYPE_CHECKING:
    from dpsql.session.session import Session
    from dpsql.session.synopses.bypass import Record


@dataclass(frozen=True, slots=True)
class Lesson:
    """What is to be measured, in words: the table of the columns `names`, or, without, the question
    alone, or a table of no more than it tells apart."""

    asked: Workload
    names: tuple[str, ...] | None
    what: str

    def noise(self, dataset: Dataset, synopsis: Synopsis) -> GaussianNoise:
        """That of half the price of an update."""
        squared = moved(self.asked, dataset).squared
        return gaussian.noise(squared, max(synopsis.rho // 2, 1))


@dataclass(frozen=True, slots=True, eq=False)
class Taught:
    """What was measured for a lesson, and the synopsis that has learnt it."""

    asked: Workload
    measured: Measurement
    synopsis: Synopsis

    @property
    def price(self) -> int:
        """In pico of rho, as `charged`."""
        return self.measured.event.rho

    @property
    def charged(self) -> int:
        return self.measured.receipt.charged.rho

    @property
    def balance(self) -> Balance:
        return self.measured.receipt.after

    def keep(self, archive: Archive, record: Record, state: Factored | None) -> bool:
        """Count on what was measured; whether the ledger keeps it.

        What it says of the guesses of a `state` before goes to the `record`.
        """
        event, values = self.measured.event, self.measured.answers
        stored = Stored.of(self.asked, event, values)
        assert stored is not None  # counts of few cells
        guesses = _guesses(state, self.asked)
        if guesses is not None:
            record.learn(guesses, values, float(variance_of(event)))
        return held.keep(archive, self.measured.receipt.seq, stored)


def lesson(session: Session, compiled: Compiled, synopsis: Synopsis) -> Lesson | str:
    """What a question teaches; in words why it teaches nothing."""
    workload = compiled.workload
    if synopsis.step != TABLES or synopsis.method == HOLDOUT:
        return Lesson(workload, None, "it")
    names = tuple(sorted(columns(workload)))
    domain, listed = session._grid(compiled.bound.dataset).domain(names), ", ".join(names)
    if domain.cells <= CELLS:
        return Lesson(marginal(domain).workload, names, f"the whole table of {listed}")
    told = classes(domain, tables(workload.blocks))
    cells = math.prod(each.number for each in told.values())
    if cells <= CELLS:
        what = f"a table of {cells:,} cells, which tell of {listed} what it asks"
        return Lesson(_coarse(domain, told), None, what)
    return (
        f"the guess is far off, and the table of {listed} has {domain.cells:,} cells, of which at"
        f" most {CELLS:,} are measured"
    )


def _coarse(domain: Domain, told: Mapping[str, Classes]) -> Workload:
    """The counts of all combinations of classes, whose price is that of one of them."""
    return counted(domain, {name: told[name].of for name in domain.names})


def taught(
    session: Session,
    compiled: Compiled,
    synopsis: Synopsis,
    given: Lesson,
    text: str,
    charge: Charge,
    balance: Balance,
) -> Taught:
    """Buy a lesson.

    Raises Stale where another session taught it something meanwhile: nothing is charged then; and
    as `Curator.measure` does.
    """
    dataset = compiled.bound.dataset
    measured = session._curator(dataset).measure(
        given.asked, given.noise(dataset, synopsis), text, charge.take, balance.grant, charge.token,
        lambda page, seq: note_learnt(page, synopsis, seq, given.names),
    )  # fmt: skip
    return Taught(given.asked, measured, synopsis.taught(measured.receipt.seq, given.names))


def _guesses(state: Factored | None, asked: Workload) -> list[Floats] | None:
    if state is None:
        return None
    try:
        return answers(state, asked)
    except Entangled:
        return None
