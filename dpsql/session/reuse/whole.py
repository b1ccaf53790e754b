"""Ski rental: instead of one more statement, the whole table of the columns that it is about.

What follows from a table is free ever after. `on` measures it for the first statement that has to
be bought; `auto` (Karlin et al. 1988) once what was paid for releases about these columns, with
what the statement would take, reaches what the table takes at the statement's error. With all
prices added up that is at most twice the least, which is either every statement alone or the table
at once: before the table is bought less was paid for statements than it takes, and it is bought
for what statements would have taken. On the joint ledger it is a heuristic. A table that is too
coarse for a later statement is measured again with only the missing precision, 1/v - 1/w.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction

from dpsql.accounting.filter import holds
from dpsql.accounting.kept.stored import Stored
from dpsql.accounting.ledger import Ledger, Rise
from dpsql.accounting.purse import Balance
from dpsql.curator.curator import Measurement
from dpsql.curator.noise import LARGEST_VARIANCE
from dpsql.curator.quote import GaussianNoise
from dpsql.curator.rises import rise
from dpsql.errors import LedgerError, UsageError
from dpsql.mechanisms.finest import largest
from dpsql.mechanisms.reuse.archive import Archive
from dpsql.mechanisms.reuse.found import Answered, Found
from dpsql.mechanisms.reuse.linked import columns
from dpsql.mechanisms.synopses.marginal import Marginal, floor, marginal
from dpsql.planner import Choice, Terms, chosen
from dpsql.query.canon import families
from dpsql.query.compile import Compiled
from dpsql.query.linear import Workload
from dpsql.query.strategy import Strategy
from dpsql.schema import Dataset
from dpsql.session.reuse.earlier import NOT_KEPT, settled, words
from dpsql.session.reuse.wanted import STEPS, Wanted, Whole

CELLS = 1 << 16  # of a table that is measured whole
FREE = "what follows from it is free"
_TRIES = 8  # of a little less noise, where what is combined is a little too wide


def whole(
    plan: Wanted,
    compiled: Compiled,
    dataset: Dataset,
    setting: str,
    archive: Archive | None,
    ledger: Ledger,
    balance: Balance,
) -> Wanted:
    """The plan of a statement that has to be bought, or one to measure its whole table instead.

    With `on` a note says why it is not.
    """
    if setting == "off" or plan.rest is None:
        return plan
    if archive is None:
        found: Wanted | str = "needs reuse = on"
    elif not isinstance(plan.rest.noise, GaussianNoise):
        found = "needs Gaussian noise"
    else:
        switch = _Switch(ledger, archive, dataset, balance, rents=setting == "auto")
        found = switch.wanted(plan, plan.rest, compiled.workload)
    if isinstance(found, Wanted):
        return found
    notes = (f"whole = on {found}: bought by itself",) if setting == "on" else ()
    return dataclasses.replace(plan, notes=notes)


@dataclass(frozen=True, slots=True, eq=False)
class _Switch:
    """What decides whether a table is bought: the purse, its releases, and whether it `rents`."""

    ledger: Ledger
    archive: Archive
    dataset: Dataset
    balance: Balance
    rents: bool

    def wanted(self, plan: Wanted, rest: Choice, workload: Workload) -> Wanted | str:
        """The plan as it is, or one that measures the table; in words why it cannot be."""
        names = tuple(sorted(columns(workload)))
        domain = workload.domain.project(names)
        listed, cells = ", ".join(names), f"{domain.cells:,}"
        if domain.cells > CELLS:
            return f"measures tables of at most {CELLS:,} cells, and that of {listed} has {cells}"
        table = marginal(domain) if names else None
        keys = {f.key for b in families(workload) for f in b if f is not None}
        if table is None or keys <= {table.family.key}:
            return plan  # it is its own table
        terms = Terms.of(self.balance.grant)
        before = self.archive.whole(table.workload)
        known = sum((1 / variance for variance in before.values()), Fraction(0))
        for variance in _variances(plan, table, workload):
            more = 1 / variance - known
            noise = GaussianNoise(floor(1 / more) if more > 0 else variance)
            choice = chosen("gaussian", noise, table.workload, self.dataset, terms)
            bought = self._rise(table.workload, choice)
            after = bought.after
            if not all(holds(each.grant, each.spent) for each in (after, *after.others)):
                return f"would take more than is left to measure the table of {listed}"
            if self.rents and self._cheaper(rest, workload, bought, before, names):
                return plan
            then = self.archive.once_measured(table.unmeasured(noise.variance)).known(workload)
            if then is not None and plan.enough(then):
                note = f"measures the whole table of {listed} ({cells} cells): {FREE}"
                instead = Whole(table.workload, then)
                return dataclasses.replace(
                    plan, rest=choice, whole=instead, notes=(note,), raw=False
                )
        return "finds no table as accurate"

    def _cheaper(
        self,
        rest: Choice,
        workload: Workload,
        bought: Rise,
        before: Collection[int],
        names: Collection[str],
    ) -> bool:
        """Whether the rents and that of the statement are still below what the table takes."""
        alone = self._rise(rest.measured(workload), rest).charged.rho
        about = self.archive.about(frozenset(names))
        paid = self.ledger.releases.paid(about, self.balance.grant.user)
        tables = sum(paid[seq] for seq in before)
        rented = sum(paid.values()) - tables
        table = bought.charged.rho
        return alone < table and rented + alone < tables + table

    def _rise(self, asked: Workload | Strategy, choice: Choice) -> Rise:
        user, _, snapshot = self.archive.name
        return rise(self.ledger, user, self.dataset, snapshot, asked, choice.noise)


def _variances(plan: Wanted, table: Marginal, workload: Workload) -> list[Fraction]:
    """Variances of a table's noise whose answers are as accurate as those asked for, falling."""
    asked = plan.asked
    if asked.accuracy is None or asked.widest is None:
        most = table.enough(workload, plan.choice.noises(workload))
        first = floor(most) if most < math.inf else Fraction(0)
    else:
        half, widest = asked.accuracy, asked.widest

        def fits(variance: Fraction) -> bool:
            return widest(table.noises(workload, variance)) <= half

        try:
            first = largest(fits, Fraction(1), Fraction(LARGEST_VARIANCE), STEPS)
        except UsageError:  # finer than any noise
            return []
    tried = [floor(first * (1 - Fraction(step, 64))) for step in range(_TRIES)]
    return [variance for variance in tried if variance > 0]


def said_of(
    archive: Archive | None,
    before: Found | None,
    compiled: Compiled,
    measured: Measurement,
    plan: Wanted,
) -> tuple[Answered, int, list[str]]:
    """The answers after a measurement, as `settled` gives them, or of the table that was measured.

    What is said then is what will be said when the same is asked again.
    """
    if plan.whole is None or archive is None:
        strategy = None if plan.rest is None else plan.rest.plan
        answered, count, notes = settled(
            archive, before, compiled, measured, strategy, alone=plan.raw
        )
        return answered, count, [*plan.notes, *notes]
    seq = measured.receipt.seq
    stored = Stored.of(plan.whole.table, measured.event, measured.answers)
    assert stored is not None  # counts of few cells
    archive.add(seq, stored)
    found: Found | None
    try:
        found = archive.known(compiled.workload)
    except LedgerError:  # what was kept before cannot be read: the table says it alone
        found = archive.alone(compiled.workload, seq)
    assert found is not None
    others = [used for used in found.used if used != seq]
    notes = [*plan.notes, *([f"combined with {words(len(others))}"] if others else [])]
    try:
        archive.keep(seq, others)
    except LedgerError:
        notes.append(NOT_KEPT)
    return found.answered(), len(others), notes
