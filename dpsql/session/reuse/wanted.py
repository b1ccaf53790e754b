"""What a statement is to be answered with: what is there already, and what is still to buy."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

from dpsql.accounting.purse import Price
from dpsql.curator.quote import Noise as Drawn
from dpsql.curator.quote import quote
from dpsql.errors import UsageError
from dpsql.mechanisms.finest import most_noise
from dpsql.mechanisms.intervals.noises import Noise, no_worse
from dpsql.mechanisms.reuse.archive import Archive
from dpsql.mechanisms.reuse.bought import Due
from dpsql.mechanisms.reuse.found import Enough, Found
from dpsql.planner import Asked, Choice, Terms, as_good, choose, chosen, missing
from dpsql.query.compile import Compiled
from dpsql.query.estimators import Count
from dpsql.query.linear import Workload
from dpsql.query.strategy import Strategy
from dpsql.schema import Dataset
from dpsql.session.build import widest
from dpsql.session.settings import Settings

STEPS = 64  # of a grid of variances, in a factor of 2
AGAIN = (
    "it was bought at this price or a higher one already, among other questions, and is said again:"
    " a higher price, or an accuracy, buys less error"
)
NEAR = 1.2  # of an accuracy: what is that wide may be narrower, made of less


@dataclass(frozen=True, slots=True, eq=False)
class Whole:
    """A whole table that is measured in place of a statement, and what will then be said of it."""

    table: Workload
    then: Found


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked, the choice without reuse, what earlier releases say, and what is to buy.

    `rest` is None where there is nothing to buy; `enough` tells what would do instead.
    What is bought `raw` is shown as it was measured. With a `whole` its table is what is bought.
    """

    asked: Asked
    choice: Choice
    found: Found | None
    rest: Choice | None
    enough: Enough
    raw: bool = False
    whole: Whole | None = None
    notes: tuple[str, ...] = ()

    def measured(self, choice: Choice, workload: Workload) -> Workload | Strategy:
        """What is measured by a choice to answer the workload."""
        if self.whole is not None and choice is self.rest:
            return self.whole.table
        return choice.measured(workload)


def wanted(
    compiled: Compiled,
    dataset: Dataset,
    settings: Settings,
    terms: Terms,
    archive: Archive | None,
) -> Wanted:
    """What answers a statement; without an archive nothing is used again. Raises UsageError."""
    workload = compiled.workload
    found = None if archive is None else archive.find(workload)
    enough: Enough
    if settings.accuracy is None:
        asked = Asked(
            settings.epsilon, settings.rho, settings.backend, objective=settings.objective
        )
        choice = choose(workload, dataset, asked, terms)
        enough = _as_alone(choice, workload, archive)
        said = None if archive is None else archive.said(workload, enough)
        if said is not None:
            return Wanted(asked, choice, said, None, enough)
        again = None if archive is None else archive.bought(workload, due(choice, terms))
        if again is not None:
            return Wanted(asked, choice, again, None, enough, notes=(AGAIN,))
        rest = missing(choice, found, workload, dataset, terms)
        if rest is not choice:  # where it really combines to that
            then = None if archive is None else archive.planned(workload, rest.event, found)
            rest = rest if then is not None and enough(then) else choice
        return Wanted(asked, choice, found, rest, enough)
    half = accuracy(settings.accuracy, compiled, found)
    width = widest(compiled, settings.confidence)
    asked = Asked(backend=settings.backend, accuracy=half, widest=width)
    choice = choose(workload, dataset, asked, terms)

    enough = within(compiled, settings.confidence, half)
    said = None if archive is None else archive.said(workload, enough)
    if said is not None:
        return Wanted(asked, choice, said, None, enough)
    if archive is not None and choice.plan is not None:
        # what is said with earlier releases may be wider than what was measured: then that is said
        then = archive.planned(workload, choice.event, found, choice.unmeasured())
        if then is not None and not enough(then):
            return Wanted(asked, choice, None, choice, enough, raw=True)
    if archive is None or choice.plan:
        return Wanted(asked, choice, found, choice, enough)

    def bought(before: Found | None) -> Wanted:
        """The cheapest noise whose answers, combined with what was said before, are as narrow."""
        first = archive.planned(workload, choice.event, before)
        if first is None or first.spreads is None:  # what is measured is what is said
            return Wanted(asked, choice, before, choice, enough)

        def holds(noise: Drawn) -> bool:
            event = quote(workload, dataset, noise)
            then = archive.planned(workload, event, before)
            return then is not None and width(then.noises(workload)) <= half

        best = most_noise(holds, choice.noise, STEPS)
        rest = chosen(choice.backend, best, workload, dataset, terms)
        return Wanted(asked, choice, before, rest, enough)

    # a sum of several noises has a bound, not an exact interval: alone, or raw, may be cheaper
    plans = [bought(before) for before in dict.fromkeys([found, None])]
    plans.append(Wanted(asked, choice, None, choice, enough, raw=True))
    best = min(plans, key=lambda plan: plan.rest.event.rho if plan.rest else 0)
    if found is not None and best.rest is not None and (best.raw or best.found is None):
        # what will be said when it is asked again, where that will do
        then = archive.planned(workload, best.rest.event, found)
        if then is not None and enough(then):
            return Wanted(asked, choice, found, best.rest, enough)
    return best


def due(choice: Choice, terms: Terms) -> Due:
    """What a choice costs, which may have been paid already."""
    return Due(Price.of(choice.event), terms.pure)


def _as_alone(choice: Choice, workload: Workload, archive: Archive | None) -> Enough:
    """Whether what is said of a workload is as accurate, and shown so, as the choice by itself."""

    @functools.cache
    def alone() -> tuple[Noise, ...]:
        """What would be said if nothing had been bought before: it may be made to agree."""
        then = None
        if archive is not None:
            then = archive.planned(workload, choice.event, None, choice.unmeasured())
        if then is None or then.worst == math.inf:
            return choice.noises(workload)
        return then.noises(workload)

    def near(said: Found) -> bool:
        return as_good(said, choice)

    def will(said: Found) -> bool:
        return near(said) and no_worse(workload, said.noises(workload), alone())

    return Enough(will, near)


def within(compiled: Compiled, level: float, half: float) -> Enough:
    """Whether the widest interval of a statement is no wider than that, to each side."""
    workload, width = compiled.workload, widest(compiled, level)

    def narrow(most: float) -> Callable[[Found], bool]:
        return lambda said: said.worst < math.inf and width(said.noises(workload)) <= most

    return Enough(narrow(half), narrow(NEAR * half))


def accuracy(given: float | str, compiled: Compiled, found: Found | None) -> float:
    """The half-width asked for, in rows; a percentage is of the least count that was released.

    Raises UsageError where no count of the statement was.
    """
    if not isinstance(given, str):
        return given
    if found is None or found.worst == math.inf:
        raise UsageError(
            f"accuracy = '{given}' is a share of a count that was released before, and no earlier "
            "release tells the counts of this statement: ask it once by a price, or by an accuracy "
            "in rows"
        )
    counts = [
        int(values.min()) // factors[estimator.weight]
        for select, answers, factors in zip(
            compiled.selects, found.answered().answers, compiled.factors, strict=True
        )
        for estimator in select.estimators
        if isinstance(estimator, Count)
        for values in (answers[:, estimator.weight],)
        if values.size
    ]
    if not counts:
        raise UsageError(f"accuracy = '{given}' is a share of a count, and the statement has none")
    if not min(counts) > 0:
        raise UsageError(
            f"accuracy = '{given}' is a share of the least count that was released, which is "
            f"{min(counts)}: give an accuracy in rows"
        )
    return float(given.rstrip("%")) / 100.0 * min(counts)
