"""What a script is to be answered with: what earlier releases say, and one measurement of the rest.

The noise is that which the price would buy for the whole script; statements that earlier releases
answer as well as that are left out, and the rest is measured with the same noise, for less.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql.accounting.purse import Balance
from dpsql.curator.quote import GaussianNoise
from dpsql.mechanisms.gaussian import short
from dpsql.mechanisms.intervals.noises import Noise, excess
from dpsql.mechanisms.reuse.archive import Archive
from dpsql.mechanisms.reuse.bought import Due
from dpsql.mechanisms.reuse.found import Enough, Found
from dpsql.mechanisms.threads import one_thread
from dpsql.planner import CLOSE, SCRIPT_SHARE, Asked, Terms, chosen
from dpsql.query.compile import Compiled
from dpsql.query.linear import Workload
from dpsql.schema import Dataset
from dpsql.session.asked import check_delta
from dpsql.session.reuse.wanted import AGAIN, due, within
from dpsql.session.scripts.joint import Joint, joint, of_some, scaled
from dpsql.session.scripts.narrow import halves_of, narrow
from dpsql.session.scripts.ready import Ready

if TYPE_CHECKING:
    from dpsql.session.session import Session

_TRIES = 4  # of less noise
MOST_PLANNED = 1 << 80  # queries, and cells times their square: clusters have bounds of their own


@dataclass(frozen=True, slots=True, eq=False)
class Planned:
    """What a script is to be answered with.

    `statements` are on one scale, `whole` would measure them all. `found` has what earlier
    releases say where that will do; `rest` measures the others, whose numbers are `missing`.
    """

    statements: list[Compiled]
    asked: Asked
    whole: Joint
    found: list[Found | None]
    missing: list[int]
    rest: Joint | None
    enough: list[Enough]
    again: Set[int]
    due: Due

    def notes(self, at: int) -> tuple[str, ...]:
        """Why a statement is free that is said less accurately than its price would buy."""
        return (AGAIN,) if at in self.again else ()

    def since(self, kept: Archive, at: int) -> Found | None:
        """What is said of a statement once the rest is kept as well, as it will be said again; None
        where that will not do."""
        workload = self.statements[at].workload
        if at in self.again:
            return kept.bought(workload, self.due)
        said = kept.find(workload)
        return said if said is not None and self.enough[at](said) else None


def of_purse(
    session: Session, ready: Ready, dataset: Dataset, balance: Balance
) -> tuple[Planned, Archive | None]:
    terms = Terms.of(balance.grant)
    for query in ready.queries:
        with ready.script.placed(query.step):
            check_delta(query.ask, terms.delta)
    reuse = any(query.settings.reuse for query in ready.queries)
    archive = session._archive(dataset) if reuse else None
    with one_thread():
        return planned(ready, dataset, terms, archive), archive


def planned(ready: Ready, dataset: Dataset, terms: Terms, archive: Archive | None) -> Planned:
    """What answers a script; without an archive nothing is used again. Raises UsageError, and
    Refused for a backend that plans nothing."""
    queries = ready.queries
    for query in queries:
        if query.settings.backend == "synopsis":
            with ready.script.placed(query.step):
                raise query.ask.text.refusal(
                    "backend = synopsis of a statement of a script, which is planned with others",
                    None,
                    "SELECT by itself; or RESET backend: what the tables of a synopsis tell is free"
                    " in a script, too, for who has paid for them",
                )
    compiled = [query.compiled for query in queries]
    settings = queries[0].settings
    halves = halves_of(ready, archive)
    asked = Asked(
        settings.epsilon,
        settings.rho,
        settings.backend,
        objective=settings.objective,
        share=SCRIPT_SHARE,
        most=MOST_PLANNED,
        queries=MOST_PLANNED,
        tables=False,
    )
    if halves is None:
        statements = scaled(compiled, [query.step.weight or 1.0 for query in queries])
        whole = joint([statement.workload for statement in statements], dataset, asked, terms)
    else:
        by_width = narrow(ready, halves, asked)
        statements = by_width.statements
        whole = by_width.cheapest(range(len(queries)), dataset, terms)
    workloads = [statement.workload for statement in statements]

    @functools.cache
    def first() -> Archive | None:
        """What would be kept of the whole script."""
        stored = None if archive is None else whole.unmeasured()
        return None if archive is None or stored is None else archive.once_measured(stored)

    if halves is None:
        bought = [_Bought(*each, first) for each in zip(workloads, whole.noises, strict=True)]
        will_do = [Enough(each.will_do, each.nearly) for each in bought]
    else:
        levels = [query.settings.confidence for query in queries]
        will_do = [within(*each) for each in zip(statements, levels, halves, strict=True)]
    found: list[Found | None] = [None] * len(queries)
    again, price = set[int](), due(whole.choice, terms)
    if archive is not None:
        for at, query in enumerate(queries):
            if not query.settings.reuse:
                continue
            found[at] = archive.said(workloads[at], will_do[at])
            if found[at] is None and halves is None:
                found[at] = archive.bought(workloads[at], price)
                again.update([at] if found[at] else ())
    missing = [at for at, said in enumerate(found) if said is None]
    rest = None
    if missing and halves is None:
        rest = of_some(whole, missing, dataset, terms)
        rest = _as_fine(rest, [bought[at] for at in missing], dataset, terms) or whole
    elif len(missing) == len(queries):
        rest = whole
    elif missing:
        rest = by_width.cheapest(missing, dataset, terms)
    if rest is whole or (rest and rest.choice.event.rho > whole.choice.event.rho):
        # the sensitivity of a part may be bounded more coarsely than that of the whole
        rest, found, missing = whole, [None] * len(queries), list(range(len(queries)))
        again.clear()
    return Planned(statements, asked, whole, found, missing, rest, will_do, again, price)


@dataclass(frozen=True, slots=True, eq=False)
class _Bought:
    """What the price buys for a statement of the whole script: as it is measured, and as it is
    said where nothing else is known.
    """

    workload: Workload
    raw: tuple[Noise, ...]
    first: Callable[[], Archive | None]

    def nearly(self, said: Found) -> bool:
        """Whether no variance is larger."""
        return said.worst <= self._worst * (1.0 + CLOSE)

    def will_do(self, said: Found) -> bool:
        """Whether what is shown is no worse, too."""
        return self.nearly(said) and self._excess(said.noises(self.workload)) <= 1.0

    def over(self, noises: tuple[Noise, ...]) -> float:
        """How many times the variance is that will do; about, where that is more than 1."""
        worst = max((noise.worst for noise in noises), default=0.0)
        over = worst / self._worst if self._worst else 0.0
        return max(over / (1.0 + CLOSE), self._excess(noises))

    @property
    def _worst(self) -> float:
        return max((noise.worst for noise in self.raw), default=0.0)

    def _excess(self, noises: tuple[Noise, ...]) -> float:
        found = excess(self.workload, noises, self.raw)
        if found > 1.0 and (agreed := self._agreed()) is not None:
            found = min(found, excess(self.workload, noises, agreed))
        return found

    def _agreed(self) -> tuple[Noise, ...] | None:
        kept = self.first()
        said = None if kept is None else kept.by_last(self.workload)
        return None if said is None or said.worst == math.inf else said.noises(self.workload)


def _as_fine(
    rest: Joint, bought: Sequence[_Bought], dataset: Dataset, terms: Terms
) -> Joint | None:
    """The measurement with as little noise as will do for every statement; None where none does.

    Else what has just been bought would be too coarse when the script is run again.
    """
    for _ in range(_TRIES):
        over = max(
            (one.over(noises) for one, noises in zip(bought, rest.noises, strict=True)), default=0.0
        )
        choice = rest.choice
        if not (over > 1.0 and isinstance(choice.noise, GaussianNoise)):
            return rest
        finer = short(choice.noise.variance / Fraction(over * (1.0 + CLOSE)))  # no float near it
        made = chosen(choice.backend, finer, rest.workload, dataset, terms, choice.plan)
        rest = dataclasses.replace(rest, choice=made)
    return None
