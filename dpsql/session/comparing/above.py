"""FIRST n ABOVE threshold: which groups' counts exceed a number, told by a gate.

The groups are asked in the order in which they are listed, until n are found; one gate with one
noisy threshold is bought for all of them. Booleans are all that comes out, so the counts of groups
that are found have a bound from below and no value, unless WITH COUNTS buys one. What a gate said
is kept, and answers the same question, free, as long as it is at least as accurate as what is asked
for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpsql.accounting.events import AboveThreshold
from dpsql.accounting.kept.told import Told, question
from dpsql.accounting.purse import Grant, Receipt
from dpsql.curator.curator import Curator
from dpsql.curator.gate import monotone
from dpsql.curator.quote import moved
from dpsql.errors import UsageError
from dpsql.mechanisms import sparse
from dpsql.mechanisms.intervals.noises import error
from dpsql.mechanisms.intervals.quantile import simultaneous
from dpsql.planner import Asked, Terms, choose, cost, in_rho, pico
from dpsql.query.compile import Compiled
from dpsql.query.parse import Ask, First
from dpsql.release import Candidate, Cost
from dpsql.session.charge import Charge
from dpsql.session.comparing.comparison import Comparison
from dpsql.session.comparing.counted import halves
from dpsql.session.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Gated(Comparison[AboveThreshold]):
    """A statement that a gate answers."""

    first: First

    backend = "sparse"

    @property
    def threshold(self) -> int:
        """The least whole number above the one that was written."""
        return self.first.threshold + 1

    def buy(
        self, curator: Curator, ask: Ask, charge: Charge, grant: Grant | None
    ) -> tuple[str, Receipt, tuple[bool, ...]]:
        workload = self.compiled.workload
        gate = curator.gate(
            self.event, ask.text.sql.strip(), charge.take, grant, charge.token, workload
        )
        return gate.snapshot, gate.receipt, gate.first(workload, self.threshold)

    def enough(self, told: Told) -> bool:
        complete = len(told.answers) == self.compiled.workload.size
        if not complete and sum(told.answers) < self.first.count:
            return False
        least, most = self.bounds(self.event)
        below, above = self.bounds(told.gate)
        return below >= least and above <= most

    def found(self, told: Told) -> list[int]:
        places: list[int] = np.flatnonzero(told.answers)[: self.first.count].tolist()
        return places

    def bounds(self, event: AboveThreshold) -> tuple[int, int]:
        """The least count of groups that are found, the largest of the others; both at once."""
        level = (1.0 + self.settings.confidence) / 2.0
        size = self.compiled.rows
        least = self.threshold - sparse.shown(event, size, level)
        return max(least, 0), max(self.threshold + sparse.hidden(event, size, level), 0)

    def least(self, told: Told) -> float:
        return float(self.bounds(told.gate)[0])

    def meaning(self, told: Told | None) -> tuple[str, ...]:
        least, most = self.bounds(self.event if told is None else told.gate)
        percent = f"{100 * self.settings.confidence:.4g} %"
        return (
            f"at {percent}, of all groups together: one that is found has {least:,} rows or more, "
            f"and one that is passed over has {most:,} at most",
        )

    def rest(self, told: Told) -> tuple[str, ...]:
        found = self.found(told)
        asked = len(told.answers) if len(found) < self.first.count else found[-1] + 1
        later = self.compiled.rows - asked
        if later == 1:
            return ("1 group after the last one found was not asked",)
        if later:
            return (f"{later:,} groups after the last one found were not asked",)
        return ("all groups were asked",) if len(found) < self.first.count else ()

    def candidates(self, charged: Cost | None) -> tuple[tuple[Candidate, ...], tuple[str, ...]]:
        """The gate, and counts at the same price; a note where the counts tell more."""
        event, workload, settings = self.event, self.compiled.workload, self.settings
        scales = float(event.threshold_scale), float(event.query_scale)
        spread = math.hypot(*scales) * (math.sqrt(2.0) if event.noise == "laplace" else 1.0)
        gate = Candidate(self.backend, cost(event, self.terms), spread, charged)
        asked = Asked(settings.epsilon, settings.rho)
        choice = choose(workload, self.dataset, asked, self.terms)
        noises = choice.noises(workload)
        counted = Candidate(choice.backend, choice.price, error(workload, noises))
        if self.kept is not None:
            return (gate, counted), ()
        level = simultaneous(settings.confidence, max(self.compiled.rows, 1))
        widths = [
            float(np.max(np.float64(noise.half({0: Fraction(1, block.weights[0].largest)}, level))))
            for block, noise in zip(workload.blocks, noises, strict=True)
        ]
        half = math.ceil(max(widths))
        least, most = self.bounds(event)
        if half >= max(self.threshold - least, most - self.threshold):
            return (gate, counted), ()
        note = (
            f"the counts themselves, ± {half:,} for all of them together, cost as much: leave "
            f"FIRST {self.first.count:,} ABOVE {self.first.threshold:,} out"
        )
        return (gate, counted), (note,)


def gated(ask: Ask, compiled: Compiled, settings: Settings, terms: Terms) -> Gated:
    """The gate that answers a statement, at the price asked for. Raises UsageError."""
    first = ask.first
    assert isinstance(first, First)
    if settings.backend not in ("auto", "laplace"):
        raise UsageError(
            f"FIRST ... ABOVE is answered by a gate, not by the backend {settings.backend}: "
            "SET backend = auto, or laplace for a gate with Laplace noise"
        )
    dataset, workload = compiled.bound.dataset, compiled.workload
    half = None
    if first.counts:
        asked = Asked(settings.epsilon, settings.rho)
        half = halves(workload, dataset, first.count, asked, terms)
    wanted = sparse.Asked(
        moved(workload, dataset).largest,
        monotone(workload, dataset),
        compiled.rows,
        max(min(first.count, compiled.rows), 1),
        (1.0 + settings.confidence) / 2.0,
        "laplace" if settings.backend == "laplace" else "exponential",
    )
    event = _event(wanted, settings, terms) if half is None else sparse.at_rho(wanted, half.rest)
    name = question(workload, first.threshold + 1)
    return Gated(compiled, settings, terms, event, name, half, first=first)


def _event(wanted: sparse.Asked, settings: Settings, terms: Terms) -> AboveThreshold:
    """The gate at the price asked for, in the currency of the grant unless rho was said."""
    asked = Asked(settings.epsilon, settings.rho)
    if not terms.pure or settings.rho is not None:
        return sparse.at_rho(wanted, in_rho(asked, terms))
    if settings.epsilon is not None:
        return sparse.at_epsilon(wanted, pico(settings.epsilon))
    return sparse.at_epsilon(wanted, max(terms.epsilon // asked.share, 1))
