"""The planner: which backend answers a statement, with how much noise, at what price.

Everything here is public: the workload, its sensitivity, the terms of the grant and the settings.
A price in epsilon means that the statement alone is (epsilon, delta of the grant)-private. An
accuracy means the cheapest noise whose intervals are that narrow. Without either a statement costs
a hundredth of the grant.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql.accounting.convert import epsilon_of, rho_of
from dpsql.accounting.events import PICO, Event, Gaussian, Law
from dpsql.accounting.kept.stored import Stored
from dpsql.accounting.ledger import Grant
from dpsql.curator.noise import LARGEST_SCALE, LARGEST_VARIANCE
from dpsql.curator.quote import GaussianNoise, LaplaceNoise, moved, quote
from dpsql.curator.quote import Noise as Drawn
from dpsql.curator.sensitivity import Sensitivity
from dpsql.errors import UsageError
from dpsql.mechanisms import gaussian, laplace
from dpsql.mechanisms.finest import alike, largest
from dpsql.mechanisms.intervals.law import nominal
from dpsql.mechanisms.intervals.noises import WORTH, Alike, Noise, error
from dpsql.mechanisms.reuse.found import Found
from dpsql.mechanisms.strategies.plans import (
    best,
    better,
    compared,
    factorized,
    implicit,
    least_possible,
    of_one_group,
    settled,
    soon,
    tabled,
)
from dpsql.query.linear import Workload
from dpsql.query.strategy import Strategy
from dpsql.release import DEFAULT_SHARE, Candidate, Cost
from dpsql.schema import Dataset

if TYPE_CHECKING:  # most statements have no use for one
    from dpsql.mechanisms.strategies.plans import Plan

SCRIPT_SHARE = 10  # and a script this
NOISES = 1 << 12  # of a grid of noises, in a factor of 2
CLOSE = 1e-6  # of a variance: what rounding may add to it
QUERIES, WIDER = 48, 600  # of a statement, before a residual plan is looked for and after it
LARGE = 1 << 16  # answers of a statement whose groups share a strategy
MOST = 1 << 23  # cells times the square of the queries: soon planned
BACKENDS = ("auto", "gaussian", "laplace", "factorization", "synopsis")
OBJECTIVES = ("total", "largest")


@dataclass(frozen=True, slots=True)
class Terms:
    """What prices are read against: a grant's delta, and its size where there is a grant."""

    delta: float
    rho: int  # pico; 0 when pure or when there is no grant
    epsilon: int  # pico; 0 when there is no grant

    @classmethod
    def of(cls, grant: Grant) -> Terms:
        return cls(grant.delta, grant.rho, grant.epsilon_pico)

    @property
    def pure(self) -> bool:
        return self.delta == 0


@dataclass(frozen=True, slots=True)
class Asked:
    """What the analyst asks of a statement: a price in epsilon or in rho, an accuracy, or neither.

    `accuracy` is the largest half-width of an interval, in the units of the outputs, and `widest`
    tells which one a noise of each SELECT's answers gives. What asks for neither costs one in
    `share` of the grant. No strategy in the space of the questions is planned for more than so
    many `queries` (or WIDER), nor for cells times their square above `most`, unless it is named.
    What groups by several sets of keys may have a residual plan, whatever its size, for `tables`.
    """

    epsilon: float | None = None
    rho: float | None = None
    backend: str = "auto"
    accuracy: float | None = None
    widest: Callable[[tuple[Noise, ...]], float] | None = None
    objective: str = "total"
    share: int = DEFAULT_SHARE
    most: int = MOST
    queries: int = QUERIES
    tables: bool = True

    @property
    def largest(self) -> bool:
        """Whether a strategy is to have the least largest error, which an accuracy is about."""
        return self.objective == "largest" or self.accuracy is not None

    def plan(self, workload: Workload, dataset: Dataset, *, named: bool = False) -> Plan | None:
        """The strategy that is looked for, None for none.

        One in the space of the questions where these are few, which is the best, or nearly; else a
        residual plan; else, where that is soon planned or it is `named`, the former; else one for
        the aggregates of a group, which all groups share. More queries than are mixed may have
        products of matrices, or a tree, which are never written out.
        """
        few = soon(workload, self.queries, self.most)
        tables = tabled(workload, largest=self.largest) if self.tables and not few else None
        if tables is not None:
            return tables
        found = implicit(workload, dataset, largest=self.largest) if self.most else None
        if found is not None and settled(found):
            return found
        if few or named or soon(workload, WIDER, self.most):
            return better(found, factorized(workload, dataset, largest=self.largest))
        alone = of_one_group(workload)
        if alone is None or workload.size > LARGE or not soon(alone, WIDER, self.most):
            return found
        return better(found, factorized(workload, dataset, largest=self.largest, grouped=True))


@dataclass(frozen=True, slots=True)
class Choice:
    """A backend with its noise, the event that pays for it, and the price as people read it.

    With a `plan` its strategy is measured in place of the workload.
    """

    backend: str
    noise: Drawn
    event: Law
    price: Cost
    plan: Plan | None = None

    def measured(self, workload: Workload) -> Workload | Strategy:
        """What is measured to answer the workload."""
        return workload if self.plan is None else self.plan.strategy

    def unmeasured(self) -> Stored | None:
        """What a ledger would keep of a strategy whose values are all 0; None without one."""
        if self.plan is None or not isinstance(self.event, Gaussian):
            return None
        return self.plan.unmeasured(self.event)

    def noises(self, workload: Workload) -> tuple[Noise, ...]:
        """The noise of each SELECT's answers."""
        if self.plan is None or not isinstance(self.event, Gaussian):
            return (Alike(self.event),) * len(workload.blocks)
        return self.plan.noises(self.event)


def choose(workload: Workload, dataset: Dataset, asked: Asked, terms: Terms) -> Choice:
    """The backend that answers `workload` at the price asked for. Raises UsageError.

    At equal charge in rho Gaussian noise has the smaller error than Laplace noise, which is chosen
    by name, or where the grant is pure and composes by addition. A factorization is chosen where
    its error is the smaller one by more than planning may be off; by name, where it is not larger.
    """
    named = asked.backend == "factorization"
    if asked.backend != "auto" and not named:
        return _choice(asked.backend, workload, dataset, asked, terms)
    if terms.pure:
        return _choice("factorization" if named else "laplace", workload, dataset, asked, terms)
    alone = _choice("gaussian", workload, dataset, asked, terms)
    if asked.plan(workload, dataset, named=named) is None:
        return alone
    mixed = _choice("factorization", workload, dataset, asked, terms)
    if asked.accuracy is not None:
        return min((mixed, alone) if named else (alone, mixed), key=lambda each: each.event.rho)
    errors = [error(workload, each.noises(workload)) for each in (mixed, alone)]
    if asked.largest:
        errors = [math.sqrt(_target(each)) for each in (mixed, alone)]
    most = errors[1] * (1.0 + CLOSE if named else 1.0 - WORTH)
    return mixed if errors[0] < most else alone


def as_good(found: Found, choice: Choice) -> bool:
    """Whether the variance of what was found is at most that of a choice."""
    return found.worst <= _target(choice) * (1.0 + CLOSE)


def _target(choice: Choice) -> float:
    if choice.plan is not None and isinstance(choice.event, Gaussian):
        return max(spread.worst() for spread in choice.plan.spreads(choice.event))
    return nominal(choice.event)


def missing(
    choice: Choice, found: Found | None, workload: Workload, dataset: Dataset, terms: Terms
) -> Choice:
    """What is still to buy for the accuracy of a choice, with what was found, which lacks it.

    Variances v and w combine to 1 / (1/v + 1/w): the worst query of the statement decides. What
    is measured through a strategy is not combined; what only rounding makes worse is bought whole.
    """
    if found is None or found.worst == math.inf or choice.plan is not None:
        return choice
    if as_good(found, choice) or _target(choice) < 1e-300:  # whose inverse may be no number
        return choice
    variance = 1 / (1 / _target(choice) - 1 / found.worst)
    return chosen(choice.backend, alike(choice.noise, variance), workload, dataset, terms)


def chosen(
    backend: str,
    noise: Drawn,
    workload: Workload,
    dataset: Dataset,
    terms: Terms,
    plan: Plan | None = None,
) -> Choice:
    """The choice of a backend with this noise."""
    event = quote(workload if plan is None else plan.strategy, dataset, noise)
    return Choice(backend, noise, event, cost(event, terms), plan)


def as_precise(whole: Choice, workload: Workload, dataset: Dataset, terms: Terms) -> Choice:
    """The choice for a part of what a strategy was planned for, of the same mean squared error.

    The whole is a script's, which has no residual plan by itself.
    """
    from dpsql.mechanisms.strategies.marginals import Marginals

    assert whole.plan is not None and not isinstance(whole.plan, Marginals)
    worst = whole.plan.largest
    plan = best(workload, dataset, largest=worst)
    assert not isinstance(plan, Marginals)
    if plan is None:
        heaviest = max((w.largest for b in workload.blocks for w in b.weights), default=1)
        least = math.sqrt(moved(workload, dataset).squared) / max(heaviest, 1)
    else:
        least = plan.rmse * dataset.unit.max_rows
    share = (least / (whole.plan.rmse * dataset.unit.max_rows)) ** 2
    rho = max(math.ceil(whole.event.rho * min(share, 1.0)), 1)
    asked = Asked(
        rho=rho / PICO,
        backend="gaussian" if plan is None else whole.backend,
        objective="largest" if worst else "total",
        tables=False,
    )
    return _choice(asked.backend, workload, dataset, asked, terms)


def candidates(
    workload: Workload,
    dataset: Dataset,
    asked: Asked,
    terms: Terms,
    given: Choice,
    charged: Callable[[Choice], Cost] | None = None,
) -> tuple[Candidate, ...]:
    """Every backend that could answer at the price asked for, with its error; for EXPLAIN.

    One of them is the choice `given`. `charged` tells what a purse would pay for a choice, where
    there is a purse.
    """
    found, names = [], ["laplace"]
    if not terms.pure:
        mixed = given.plan is not None or asked.plan(workload, dataset) is not None
        names = [*(["factorization"] if mixed else []), "gaussian", "laplace"]
    for name in names:
        choice = given
        if name != given.backend:
            choice = _choice(name, workload, dataset, asked, terms)
        paid = None if charged is None else charged(choice)
        rms = error(workload, choice.noises(workload))
        plan = choice.plan
        ratio = None if plan is None else least_possible(plan, dataset)
        tried = () if plan is None else compared(plan, rms)
        found.append(Candidate(name, choice.price, rms, paid, ratio, tried))
    return tuple(found)


def _choice(
    backend: str, workload: Workload, dataset: Dataset, asked: Asked, terms: Terms
) -> Choice:
    found, plan = moved(workload, dataset), None
    noise: Drawn
    match backend:
        case "gaussian" | "factorization" if terms.pure:
            raise UsageError(
                "the grant is pure (delta = 0), which Gaussian noise cannot keep: "
                "use backend laplace, or ask the owner for a grant with a delta above 0"
            )
        case "factorization":
            plan = asked.plan(workload, dataset, named=asked.backend == backend)
            if plan is None:
                return _choice("gaussian", workload, dataset, asked, terms)
            if asked.accuracy is not None:
                noise = _accurate(backend, workload, dataset, asked, plan)
            else:
                squared = quote(plan.strategy, dataset, GaussianNoise(Fraction(1)))
                assert isinstance(squared, Gaussian)
                if squared.rho > in_rho(asked, terms) * LARGEST_VARIANCE:  # more than can be drawn
                    return _choice("gaussian", workload, dataset, asked, terms)
                noise = gaussian.noise(squared.sensitivity_squared, in_rho(asked, terms))
        case "gaussian" | "laplace" if asked.accuracy is not None:
            noise = _accurate(backend, workload, dataset, asked)
        case "gaussian":
            noise = gaussian.noise(found.squared, in_rho(asked, terms))
        case "laplace":
            noise = _laplace(found, asked, terms)
        case _:
            raise ValueError(f"{backend} is not planned here")
    return chosen(backend, noise, workload, dataset, terms, plan)


def _accurate(
    backend: str,
    workload: Workload,
    dataset: Dataset,
    asked: Asked,
    plan: Plan | None = None,
) -> Drawn:
    """The most noise, within 2^-12 of it, that keeps every interval as narrow as asked for.

    The width grows with the noise and the price falls, so this is the cheapest. Raises UsageError
    where no noise that can be drawn is that small.
    """
    assert asked.accuracy is not None and asked.widest is not None
    accuracy, widest = asked.accuracy, asked.widest
    power, most = (1, LARGEST_SCALE) if backend == "laplace" else (2, LARGEST_VARIANCE)

    def made(size: Fraction) -> Drawn:
        return LaplaceNoise(size) if backend == "laplace" else GaussianNoise(size)

    def width_of(size: Fraction) -> float:
        event = quote(workload if plan is None else plan.strategy, dataset, made(size))
        if plan is not None and isinstance(event, Gaussian):
            return widest(plan.noises(event))
        return widest((Alike(event),) * len(workload.blocks))

    def fits(size: Fraction) -> bool:
        return width_of(size) <= accuracy

    width = width_of(Fraction(64))
    guess = 64 * (Fraction(accuracy) / Fraction(width)) ** power if width else Fraction(1)
    return made(largest(fits, guess, Fraction(most), NOISES))


def _laplace(found: Sensitivity, asked: Asked, terms: Terms) -> Drawn:
    """Laplace noise at the price: pure epsilon where that is the currency or the lesser noise."""
    if asked.epsilon is not None and terms.pure:
        return laplace.noise(found.absolute, pico(asked.epsilon))
    if asked.rho is None and terms.pure:
        return laplace.noise(found.absolute, max(terms.epsilon // asked.share, 1))
    if asked.epsilon is not None and asked.backend == "laplace":
        pure = laplace.noise(found.absolute, pico(asked.epsilon))
        rho = rho_of(asked.epsilon, terms.delta)
        if rho < 1:
            return pure
        return min(
            pure,
            laplace.noise_at_rho(found.absolute, found.largest, rho),
            key=lambda noise: noise.scale,
        )
    return laplace.noise_at_rho(found.absolute, found.largest, in_rho(asked, terms))


def in_rho(asked: Asked, terms: Terms) -> int:
    """The price in rho (pico) that a statement may cost."""
    if asked.rho is not None:
        return pico(asked.rho)
    if asked.epsilon is not None:
        rho = rho_of(asked.epsilon, terms.delta)
        if rho < 1:
            raise UsageError(
                f"epsilon = {asked.epsilon:g} buys nothing at delta = {terms.delta:g}: "
                "the smallest price is rho = 1e-12"
            )
        return rho
    return max(terms.rho // asked.share, 1)


def pico(value: float) -> int:
    """A price in the ledger's integers, rounded down. Raises UsageError below the smallest."""
    found = int(Decimal(repr(value)) * PICO)
    if found < 1:
        raise UsageError(f"a price of {value:g} is below the smallest, 1e-12")
    return found


def cost(event: Event, terms: Terms) -> Cost:
    """The price of an event alone, as people read it: rho, and epsilon at the grant's delta.

    A release with a pure epsilon is (epsilon, delta)-private for every delta, so the smaller of
    that and of what rho gives is shown.
    """
    pure = None if event.epsilon is None else event.epsilon / PICO
    if terms.pure:
        return Cost(event.rho / PICO, pure or 0.0, 0.0)
    epsilon = epsilon_of(event.rho, terms.delta)
    return Cost(event.rho / PICO, epsilon if pure is None else min(pure, epsilon), terms.delta)
