"""Scripts by accuracy: the least price at which every statement is as narrow as was asked.

The statements are put on a scale where one noise makes all of them as narrow as asked, so that of
a strategy it is the largest error that decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from dpsql.accounting.events import Gaussian
from dpsql.curator.noise import LARGEST_VARIANCE
from dpsql.curator.quote import GaussianNoise
from dpsql.mechanisms.finest import largest
from dpsql.mechanisms.intervals.noises import Alike, Noise
from dpsql.mechanisms.intervals.noises import Joint as Fitted
from dpsql.mechanisms.reuse.archive import Archive
from dpsql.mechanisms.strategies.plans import best
from dpsql.planner import NOISES, Asked, Terms, chosen
from dpsql.query.compile import Compiled
from dpsql.schema import Dataset
from dpsql.session.build import widest
from dpsql.session.reuse.wanted import accuracy
from dpsql.session.scripts.joint import Joint, joint, scaled
from dpsql.session.scripts.ready import Query, Ready

Width: TypeAlias = Callable[[tuple[Noise, ...]], float]

_WIDE = Fraction(1 << 40)  # a variance at which discrete noise is normal
_DISCRETE = 1 << 8  # a variance below which it is not as smaller noise of the same law


@dataclass(frozen=True, slots=True, eq=False)
class Narrow:
    """Statements on one scale, and of each the width that a noise gives it, as a part of what was
    asked."""

    statements: list[Compiled]
    widths: list[Width]
    asked: Asked

    def cheapest(self, kept: Sequence[int], dataset: Dataset, terms: Terms) -> Joint:
        """The measurement of some statements at the least price. Raises UsageError."""
        widths = [self.widths[at] for at in kept]
        workloads = [self.statements[at].workload for at in kept]
        alike = [len(self.statements[at].selects) for at in kept]
        backend = self.asked.backend

        def of_one(noises: tuple[Noise, ...]) -> float:
            return max(w(noises[:1] * many) for w, many in zip(widths, alike, strict=True))

        asked = Asked(
            backend="auto" if backend == "factorization" else backend,
            accuracy=1.0,
            most=0,
            tables=False,
            widest=of_one,
        )
        alone = joint(workloads, dataset, asked, terms)
        if terms.pure or backend not in ("auto", "factorization"):
            return alone
        mixed = _mixed(alone, widths, dataset, terms)
        if mixed is None or mixed.choice.event.rho >= alone.choice.event.rho:
            return alone
        return mixed


def narrow(ready: Ready, halves: Sequence[float], asked: Asked) -> Narrow:
    """The statements of a script that are to have these half-widths, in rows."""
    compiled = [query.compiled for query in ready.queries]
    wide = Alike(Gaussian(1, _WIDE))

    def width(statement: Compiled, query: Query, half: float) -> Width:
        found = widest(statement, query.settings.confidence)
        return lambda noises: found(noises) / half

    needs = []
    for query, statement, half in zip(
        ready.queries, scaled(compiled, [1.0] * len(compiled)), halves, strict=True
    ):
        with ready.script.placed(query.step):
            alike = (wide,) * len(statement.selects)
            needs.append(width(statement, query, half)(alike) ** 2)
    least = min((need for need in needs if need > 0), default=1.0)
    statements = scaled(compiled, [need or least for need in needs])
    widths = [width(*each) for each in zip(statements, ready.queries, halves, strict=True)]
    return Narrow(statements, widths, asked)


def halves_of(ready: Ready, archive: Archive | None) -> list[float] | None:
    """The half-width asked of each statement, in rows; None where a price is."""
    found = []
    for query in ready.queries:
        given = query.settings.accuracy
        if given is None:
            return None
        before = None if archive is None else archive.find(query.compiled.workload)
        with ready.script.placed(query.step):
            found.append(accuracy(given, query.compiled, before))
    return found


def _mixed(alone: Joint, widths: Sequence[Width], dataset: Dataset, terms: Terms) -> Joint | None:
    """The same through the strategy of least largest error, with as much noise as will do."""
    plan = best(alone.workload, dataset, largest=True)
    if plan is None:
        return None

    def of(variance: Fraction) -> Joint:
        choice = chosen(
            "factorization", GaussianNoise(variance), alone.workload, dataset, terms, plan
        )
        return Joint(alone.workload, choice, alone.asked, alone.places)

    known = of(_WIDE).noises

    def noises(variance: Fraction) -> list[tuple[Noise, ...]]:
        if variance < _DISCRETE:
            return of(variance).noises
        size = math.sqrt(variance / _WIDE)
        return [tuple(n.times(size) for n in each if isinstance(n, Fitted)) for each in known]

    def width(variance: Fraction) -> float:
        return max(w(each) for w, each in zip(widths, noises(variance), strict=True))

    wide = width(_WIDE)
    guess = _WIDE / Fraction(wide) ** 2 if wide else _WIDE
    most = Fraction(LARGEST_VARIANCE)
    return of(largest(lambda v: width(v) <= 1.0, min(guess, most), most, NOISES))
