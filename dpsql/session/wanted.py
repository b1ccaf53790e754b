"""What a statement is to be answered with: what is there already, and what is still to buy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from dpsql.accounting.events import Gaussian
from dpsql.curator.noise import LARGEST_VARIANCE
from dpsql.curator.quote import GaussianNoise
from dpsql.errors import UsageError
from dpsql.mechanisms.archive import Archive
from dpsql.mechanisms.finest import largest
from dpsql.mechanisms.found import Found
from dpsql.mechanisms.gaussian import short
from dpsql.planner import Asked, Choice, Terms, as_good, choose, chosen, missing
from dpsql.query.compile import Compiled
from dpsql.query.estimators import Count
from dpsql.query.linear import Workload
from dpsql.query.strategy import Strategy
from dpsql.schema import Dataset
from dpsql.session.build import widest
from dpsql.session.settings import Settings

STEPS = 64  # of a grid of variances, in a factor of 2


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
    enough: Callable[[Found], bool]
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
    if settings.accuracy is None:
        asked = Asked(
            settings.epsilon, settings.rho, settings.backend, objective=settings.objective
        )
        choice = choose(workload, dataset, asked, terms)
        rest = missing(choice, found, workload, dataset, terms)
        if rest is not None and rest is not choice:  # where it really combines to that
            then = None if archive is None else archive.planned(workload, rest.event, found)
            rest = rest if then is not None and as_good(then, choice) else choice
        return Wanted(asked, choice, found, rest, lambda said: as_good(said, choice))
    half = accuracy(settings.accuracy, compiled, found)
    width = widest(compiled, settings.confidence)
    asked = Asked(backend=settings.backend, accuracy=half, widest=width)
    choice = choose(workload, dataset, asked, terms)

    def enough(said: Found) -> bool:
        return said.worst < math.inf and width(said.noises(workload)) <= half

    for said in (found, *([] if archive is None else archive.again(workload))):
        if said is not None and enough(said):
            return Wanted(asked, choice, said, None, enough)
    if archive is not None and choice.plan is not None:
        # what is said with earlier releases may be wider than what was measured: then that is said
        then = archive.planned(workload, choice.event, found, choice.unmeasured())
        if then is not None and not enough(then):
            return Wanted(asked, choice, None, choice, enough, raw=True)
    if archive is None or choice.plan or not isinstance(choice.noise, GaussianNoise):
        return Wanted(asked, choice, found, choice, enough)

    alone = choice.noise

    def bought(before: Found | None) -> Wanted:
        """The cheapest noise whose answers, combined with what was said before, are as narrow."""
        first = archive.planned(workload, choice.event, before)
        if first is None or first.spreads is None:  # what is measured is what is said
            return Wanted(asked, choice, before, choice, enough)

        def holds(variance: Fraction) -> bool:
            then = archive.planned(workload, Gaussian(1, short(variance).variance), before)
            return then is not None and width(then.noises(workload)) <= half

        most = largest(holds, alone.variance, Fraction(LARGEST_VARIANCE), STEPS)
        best = short(most)
        rest = chosen(choice.backend, best, workload, dataset, terms)
        return Wanted(asked, choice, before, rest, enough)

    # a sum of several noises has a bound, not an exact interval: alone, or raw, may be cheaper
    plans = [bought(before) for before in dict.fromkeys([found, None])]
    plans.append(Wanted(asked, choice, None, choice, enough, raw=True))
    return min(plans, key=lambda plan: plan.rest.event.rho if plan.rest else 0)


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
