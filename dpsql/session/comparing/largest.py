"""LARGEST 1: which group's count is the largest, or nearly so, told by a selection.

An index is all that comes out: the group that is shown has no number, unless WITH COUNTS buys one.
What was chosen is kept, and answers the same question, free, as long as it is at least as accurate
as what is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.accounting.events import Selection
from dpsql.accounting.kept.told import Told, question
from dpsql.accounting.purse import Grant, Receipt
from dpsql.curator.curator import Curator
from dpsql.curator.gate import monotone
from dpsql.curator.quote import moved
from dpsql.errors import UsageError
from dpsql.mechanisms import choice
from dpsql.planner import Asked, Terms, in_rho, pico
from dpsql.query.compile import Compiled
from dpsql.query.parse import Ask, Largest
from dpsql.release import Candidate, Cost
from dpsql.session.charge import Charge
from dpsql.session.comparing.comparison import Comparison
from dpsql.session.comparing.counted import halves
from dpsql.session.settings import Settings


@dataclass(frozen=True, slots=True)
class Chosen(Comparison[Selection]):
    """A statement that a selection answers."""

    backend = "selection"

    def buy(
        self, curator: Curator, ask: Ask, charge: Charge, grant: Grant | None
    ) -> tuple[str, Receipt, tuple[bool, ...]]:
        workload = self.compiled.workload
        one = curator.select(
            workload, self.event, ask.text.sql.strip(), charge.take, grant, charge.token
        )
        return one.snapshot, one.receipt, tuple(at == one.place for at in range(workload.size))

    def enough(self, told: Told) -> bool:
        return self.behind(told.selection) <= self.behind(self.event)

    def found(self, told: Told) -> list[int]:
        return [told.answers.index(True)]

    def least(self, told: Told) -> float:
        return 0.0

    def behind(self, event: Selection) -> int:
        """How many rows below the largest the group that is found may be."""
        return choice.behind(event, self.compiled.rows, self.settings.confidence)

    def meaning(self, told: Told | None) -> tuple[str, ...]:
        behind = self.behind(self.event if told is None else told.selection)
        percent = f"{100 * self.settings.confidence:.4g} %"
        return (
            f"at {percent} the group that is found is at most {behind:,} rows below the"
            f" largest of {self.compiled.rows:,}",
        )

    def rest(self, told: Told) -> tuple[str, ...]:
        return ()  # all were compared

    def candidates(self, charged: Cost | None) -> tuple[tuple[Candidate, ...], tuple[str, ...]]:
        return (Candidate(self.backend, self.price, float(self.event.scale), charged),), ()


def chosen(ask: Ask, compiled: Compiled, settings: Settings, terms: Terms) -> Chosen:
    """The selection that answers a statement, at the price asked for.

    Raises Refused or UsageError.
    """
    assert isinstance(ask.first, Largest)
    if settings.backend != "auto":
        raise UsageError(
            f"LARGEST is answered by a selection, not by the backend {settings.backend}:"
            " SET backend = auto"
        )
    if not compiled.rows:
        raise ask.text.refusal(
            "LARGEST of no groups", ask.first.span, "a list of one group or more"
        )
    dataset, workload = compiled.bound.dataset, compiled.workload
    asked, half = Asked(settings.epsilon, settings.rho), None
    if ask.first.counts:
        half = halves(workload, dataset, 1, asked, terms)
    step, same = max(moved(workload, dataset).largest, 1), monotone(workload, dataset)
    event: Selection
    if terms.pure and settings.rho is None:
        epsilon = pico(settings.epsilon) if settings.epsilon is not None else 0
        event = choice.at_epsilon(step, same, epsilon or max(terms.epsilon // asked.share, 1))
    else:
        event = choice.at_rho(step, same, in_rho(asked, terms) if half is None else half.rest)
    return Chosen(compiled, settings, terms, event, question(workload, None), half)
