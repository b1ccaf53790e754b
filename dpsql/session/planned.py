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

from dpsql.accounting.purse import Balance
from dpsql.curator.quote import GaussianNoise
from dpsql.mechanisms.archive import Archive
from dpsql.mechanisms.found import Found
from dpsql.mechanisms.gaussian import short
from dpsql.mechanisms.threads import one_thread
from dpsql.planner import CLOSE, SCRIPT_SHARE, Asked, Terms, chosen
from dpsql.query.compile import Compiled
from dpsql.query.linear import Workload
from dpsql.schema import Dataset
from dpsql.session.asked import check_delta
from dpsql.session.build import widest
from dpsql.session.joint import Joint, joint, of_some, scaled
from dpsql.session.narrow import halves_of, narrow
from dpsql.session.ready import Ready

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
    rest = None
    if missing and halves is None:
        rest = of_some(whole, missing, dataset, terms)
        rest = _as_fine(rest, [targets[at] for at in missing], dataset, terms)
    elif missing:
        rest = by_width.cheapest(missing, dataset, terms)
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
