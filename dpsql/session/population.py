"""`target = population`: answers about what the rows were drawn from, by the transfer theorem.

What is answered: counts, about the number of such rows that as many rows of the population would
have, and means in a declared range (AVG of a condition is a share). What the theorem needs beyond
that the rows were drawn independently (`mechanisms.transfer`):

- a bound on *all* that was or will be told about the rows, whoever asked, for questions may be
  chosen by it: the cap of the dataset. It must not depend on the answers, as what is spent does.
- noise that was not known when the question was chosen: answers are bought afresh.
- rows that are units: rows of one person are not drawn independently.
- n, the number of rows, to tell counts from shares: `total` where it is public, else the upper end
  of an interval of an earlier release, which takes a part of what may fail.

What can be refused is refused before anything is charged, by public things alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpsql.accounting.caps import most_rho
from dpsql.accounting.purse import Grant
from dpsql.errors import UsageError
from dpsql.mechanisms.intervals.answers import Answers
from dpsql.mechanisms.intervals.noises import Noise
from dpsql.mechanisms.intervals.uncertain import Bools, Floats
from dpsql.mechanisms.reuse.found import Found
from dpsql.mechanisms.transfer import Transcript, Transfer, intervals, transfer
from dpsql.query.compile import Compiled
from dpsql.query.estimators import Count, Estimator, Mean, Spread, Sum
from dpsql.query.expr import Expr, Slot, walk
from dpsql.query.linear import Weight
from dpsql.query.parse import Ask
from dpsql.schema import Dataset, Neighbours
from dpsql.session.asked import statement
from dpsql.session.settings import Settings

if TYPE_CHECKING:
    from dpsql.session.session import Session

_ROWS = 0.1  # of what may fail of an interval, where the number of rows comes from a release
_ANSWERED = (
    "COUNT, COUNT_IF, or AVG of a condition or of a bounded column, each an output by itself"
)


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """What the answers of one statement say about the population.

    `rows` gives, at a level, what the number of rows does not exceed; `state` is the state of the
    data that it is about, None where the owner says it.
    """

    compiled: Compiled
    transcript: Transcript
    rows: Callable[[float], float]
    state: str | None

    def of(self, state: str) -> Population:
        """The same for the data that was measured, whose number of rows may not be known."""
        if self.state in (None, state):
            return self
        return dataclasses.replace(self, rows=lambda level: np.inf, state=state)

    def intervals(
        self, at: int, answers: Answers, noise: Noise, expr: Expr, level: float
    ) -> tuple[Floats, Floats, Floats, Bools | None] | None:
        """As `Answers.intervals`, of an output of one SELECT."""
        if not isinstance(expr, Slot) or expr.name[0] != "a":
            return None
        estimator = self.compiled.selects[at].estimators[int(expr.name[1:])]
        found, rows, _ = self._transfer(at, estimator, noise, level)
        weight = self._weight(at, estimator)
        return intervals(answers, expr, found, rows, weight.largest // weight.factor)

    def require(self, noises: Sequence[Noise], level: float) -> None:
        """Raise UsageError where an interval would be as wide as a share can be."""
        bound, found, rows = self._widest(noises, level)
        if not bound < 1.0:
            raise UsageError(
                f"target = population: at this grant the interval of a share would be ± {bound:.2g}"
                f" ({found.shift:.2g} by the transfer theorem, the rest by noise among"
                f" {rows:,.0f} rows), which says nothing: a cap (dpsql budget cap) of less epsilon,"
                " more rows or a lower confidence are needed; or RESET target"
            )

    def note(self, noises: Sequence[Noise], level: float) -> str:
        """What plans and releases say."""
        _, found, rows = self._widest(noises, level)
        return (
            "intervals are about the population that the rows were drawn from, independently "
            f"(target = population): ± {found.shift:.3g} of at most {rows:,.0f} rows is added to "
            "that of noise, by the transfer theorem for questions chosen by all answers within the "
            f"cap (replace-one epsilon {found.epsilon:.3g} at delta {found.delta:.2g}, c"
            f" {found.c:.2g}, d {found.d:.2g}, beta {found.beta:.2g}); answers are bought afresh"
        )

    def _widest(self, noises: Sequence[Noise], level: float) -> tuple[float, Transfer, float]:
        """The largest bound of a share, its constants, and the number of rows."""
        found = [
            self._transfer(at, estimator, noise, level)
            for at, (select, noise) in enumerate(zip(self.compiled.selects, noises, strict=True))
            for estimator in select.estimators
        ]
        widest, rows, size = max(found, key=lambda each: each[0].bound(each[2]))
        return widest.bound(size), widest, rows

    def _transfer(
        self, at: int, estimator: Estimator, noise: Noise, level: float
    ) -> tuple[Transfer, float, float]:
        """The constants for an aggregate, the number of rows, and the stderr of a share."""
        missed = 1.0 - level
        rows = self.rows(1.0 - _ROWS * missed)
        size = float(np.sqrt(noise.worst)) / max(self._weight(at, estimator).largest, 1) / rows
        part = 1.0 if self.state is None else 1.0 - _ROWS
        return transfer(self.transcript, part * missed, size), rows, size

    def _weight(self, at: int, estimator: Estimator) -> Weight:
        """What a row adds to the count, or to the part of a mean above its least value."""
        assert not isinstance(estimator, Spread)
        place = estimator.above if isinstance(estimator, Mean) else estimator.weight
        return self.compiled.workload.blocks[at].weights[place]


def population(
    session: Session, ask: Ask, compiled: Compiled, settings: Settings
) -> Population | None:
    """What a statement is to say about the population; None where it is about the rows.

    Raises Refused or UsageError for what the theorem does not cover.
    """
    if settings.target == "sample":
        return None
    dataset = compiled.bound.dataset
    _require(ask, compiled, settings, dataset)
    session.ledger.balance(session.user, dataset.name)  # no grant, no answer
    caps = (cap.grant for cap in session.ledger.caps() if cap.grant.dataset == dataset.name)
    transcript = _transcript(next(caps), dataset)
    if settings.total is not None:
        total = float(settings.total)
        return Population(compiled, transcript, lambda level: total, None)
    archive = session._archive(dataset)
    counted = statement(f'SELECT COUNT(*) FROM "{dataset.name}"')
    assert isinstance(counted, Ask)
    _, known = session._compile(counted, None)
    assert known is not None
    found = archive.find(known.workload)
    if found is None or found.worst == np.inf:
        raise UsageError(
            "target = population needs the number of rows, and no earlier release of yours tells "
            f"it: ask SELECT COUNT(*) FROM {dataset.name} once with target = sample and reuse = on,"
            " or SET total where it is public"
        )
    return Population(compiled, transcript, _at_most(known, found), archive.name[2])


def refuse(ask: Ask, settings: Settings, what: str) -> None:
    """Refuse `target = population` where `what` has no such answer."""
    if settings.target == "population":
        raise ask.text.refusal(
            f"target = population of {what}", None, "SELECT by itself, or RESET target"
        )


def _transcript(cap: Grant, dataset: Dataset) -> Transcript:
    """What is spent on a dataset at most, where one row is replaced by another."""
    rows = 1 if dataset.neighbours is Neighbours.REPLACE_ONE else 2
    pure = rows * cap.epsilon_pico if cap.pure else None
    return Transcript(rows**2 * most_rho(cap), pure)


def _at_most(counted: Compiled, found: Found) -> Callable[[float], float]:
    """The upper end of the interval of the number of rows, at a level."""
    said = found.answered()
    (select,), (factors,) = counted.selects, counted.factors
    answers = Answers(said.answers[0], said.noises[0], select.estimators, factors, clamp=False)

    def high(level: float) -> float:
        told = answers.intervals(Slot("a0"), level)
        assert told is not None
        return max(float(told[2].max()), 1.0)

    return high


def _require(ask: Ask, compiled: Compiled, settings: Settings, dataset: Dataset) -> None:
    """Raise Refused or UsageError for what the theorem does not cover."""
    if dataset.unit.column is not None:
        raise UsageError(
            f"target = population needs rows that were drawn independently, and {dataset.name} has"
            f' several of each {dataset.unit.column}: it needs unit = "row"; RESET target'
        )
    for select in compiled.selects:
        for aggregate, estimator in zip(select.bound.aggregates, select.estimators, strict=True):
            counted = isinstance(estimator, Sum) and aggregate.boolean
            if not (counted or isinstance(estimator, Count | Mean)):
                kind = aggregate.kind.upper()
                raise ask.text.refusal(
                    f"target = population of {kind}, which is no share", aggregate.span, _ANSWERED
                )
        for item, _ in select.bound.items:
            if not isinstance(item, Slot) and any(map(_is_aggregate, walk(item))):
                raise ask.text.refusal(
                    "target = population of an expression of aggregates", None, _ANSWERED
                )
    for clash, instead in (
        (settings.accuracy is not None and "accuracy", "give a price (epsilon)"),
        (settings.backend == "synopsis" and "backend = synopsis", "SET backend = auto"),
        (settings.postprocess != "none" and "postprocess = projection", "RESET postprocess"),
        (settings.whole != "off" and f"whole = {settings.whole}", "SET whole = off"),
        (settings.clamp and "clamp = on", "SET clamp = off"),
    ):
        if clash:
            raise UsageError(f"target = population and {clash} do not go together: {instead}")


def _is_aggregate(expr: Expr) -> bool:
    return isinstance(expr, Slot) and expr.name[0] == "a"
