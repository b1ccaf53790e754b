"""What a script is to be answered with: what earlier releases say, and one measurement of the rest.

The noise is that which the price would buy for the whole script; statements that earlier releases
answer as well as that are left out, and the rest is measured with the same noise, for less.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from dpsql.accounting.events import Gaussian
from dpsql.accounting.purse import Balance
from dpsql.curator.quote import GaussianNoise
from dpsql.mechanisms.archive import Archive
from dpsql.mechanisms.found import Found
from dpsql.mechanisms.gaussian import short
from dpsql.mechanisms.noises import Alike, Noise
from dpsql.mechanisms.threads import one_thread
from dpsql.planner import CLOSE, SCRIPT_SHARE, Asked, Terms, chosen
from dpsql.query.compile import Compiled
from dpsql.query.linear import Workload
from dpsql.schema import Dataset
from dpsql.session.asked import check_delta
from dpsql.session.build import widest
from dpsql.session.joint import Joint, joint, of_some, scaled
from dpsql.session.ready import Query, Ready
from dpsql.session.wanted import accuracy

if TYPE_CHECKING:
    from dpsql.session.session import Session

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
    enough: list[Callable[[Found], bool]]


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
    """What answers a script; without an archive nothing is used again. Raises UsageError."""
    queries = ready.queries
    compiled = [query.compiled for query in queries]
    settings = queries[0].settings
    halves = _halves(ready, archive)
    if halves is None:
        statements = scaled(compiled, [query.step.weight or 1.0 for query in queries])
        asked = Asked(
            settings.epsilon,
            settings.rho,
            settings.backend,
            objective=settings.objective,
            share=SCRIPT_SHARE,
            most=MOST_PLANNED,
            queries=MOST_PLANNED,
        )
    else:
        statements, widths = _as_narrow(ready, halves)
        own = settings.backend  # a strategy's intervals are as wide as others of it are not
        asked = Asked(
            backend="auto" if own == "factorization" else own, accuracy=1.0, most=0,
            widest=lambda noises: max(width(noises[0]) for width in widths),
        )  # fmt: skip
    workloads = [statement.workload for statement in statements]
    whole = joint(workloads, dataset, asked, terms)

    targets = [max(noise.worst for noise in noises) for noises in whole.noises()]

    def enough(at: int) -> Callable[[Found], bool]:
        if halves is None:
            return lambda said: said.worst <= targets[at] * (1.0 + CLOSE)
        width = widest(statements[at], queries[at].settings.confidence)
        half, workload = halves[at], workloads[at]
        return lambda said: said.worst < math.inf and width(said.noises(workload)) <= half

    will_do = [enough(at) for at in range(len(queries))]
    found: list[Found | None] = [None] * len(queries)
    if archive is not None:
        for at, query in enumerate(queries):
            if query.settings.reuse:
                found[at] = _said(archive, workloads[at], will_do[at], exact=halves is not None)
    missing = [at for at, said in enumerate(found) if said is None]
    rest = of_some(whole, missing, dataset, terms) if missing else None
    if rest is not None and halves is None:
        rest = _as_fine(rest, [targets[at] for at in missing], dataset, terms)
    if rest is not None and rest.choice.event.rho > whole.choice.event.rho:
        # the sensitivity of a part may be bounded more coarsely than that of the whole
        rest, found, missing = whole, [None] * len(queries), list(range(len(queries)))
    return Planned(statements, asked, whole, found, missing, rest, will_do)


def _as_fine(rest: Joint, targets: Sequence[float], dataset: Dataset, terms: Terms) -> Joint:
    """The measurement with as little noise as lets every statement reach its target.

    Else what has just been bought would be too coarse when the script is run again.
    """
    noises = zip(rest.noises(), targets, strict=True)
    over = max((each.worst / target for own, target in noises if target for each in own), default=0)
    noise = rest.choice.noise
    if not (over > 1.0 and isinstance(noise, GaussianNoise)):
        return rest
    finer = short(noise.variance / Fraction(over))
    choice = rest.choice
    made = chosen(choice.backend, finer, rest.workload, dataset, terms, choice.plan)
    return dataclasses.replace(rest, choice=made)


def _said(
    archive: Archive, workload: Workload, enough: Callable[[Found], bool], *, exact: bool
) -> Found | None:
    """What earlier releases say of a workload, where that is enough."""
    said = archive.find(workload)
    if said is not None and enough(said):
        return said
    others = archive.again(workload) if exact else []
    return next((said for said in others if enough(said)), None)


def _halves(ready: Ready, archive: Archive | None) -> list[float] | None:
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


def _as_narrow(
    ready: Ready, halves: Sequence[float]
) -> tuple[list[Compiled], list[Callable[[Noise], float]]]:
    """The statements on a scale where one noise makes all as narrow as asked, and for a noise the
    part of what was asked that each then takes."""
    compiled = [query.compiled for query in ready.queries]
    wide = Alike(Gaussian(1, Fraction(1 << 40)))

    def width(statement: Compiled, query: Query, half: float) -> Callable[[Noise], float]:
        found, alike = widest(statement, query.settings.confidence), len(statement.selects)
        return lambda noise: found((noise,) * alike) / half

    needs = []
    for query, statement, half in zip(
        ready.queries, scaled(compiled, [1.0] * len(compiled)), halves, strict=True
    ):
        with ready.script.placed(query.step):
            needs.append(width(statement, query, half)(wide) ** 2)
    least = min((need for need in needs if need > 0), default=1.0)
    statements = scaled(compiled, [need or least for need in needs])
    return statements, [
        width(*each) for each in zip(statements, ready.queries, halves, strict=True)
    ]
