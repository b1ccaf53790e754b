"""Statements about a list of counts, one a group, that are compared and not told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpsql.errors import UsageError
from dpsql.query.bind import Probe
from dpsql.query.compile import Compiled
from dpsql.query.estimators import Count
from dpsql.query.expr import Expr, Slot, walk
from dpsql.query.parse import Ask, Largest
from dpsql.session.asked import effective
from dpsql.session.population import refuse as refuse_population
from dpsql.session.settings import Settings

if TYPE_CHECKING:
    from dpsql.session.session import Session


def listed(session: Session, ask: Ask, params: Any, chosen: Settings) -> tuple[Compiled, Settings]:
    """The statement, if it lists groups and one count of each. Raises Refused or UsageError."""
    assert ask.first is not None
    refuse, place = ask.text.refusal, ask.first.span
    what, clause = "FIRST ... ABOVE", "FIRST 3 ABOVE 100"
    if isinstance(ask.first, Largest):
        what, clause = "LARGEST", "LARGEST 1"
    form = f"SELECT region, COUNT(*) AS n FROM town GROUP BY region {clause}"
    bound, compiled = session._compile(ask, params)
    if isinstance(bound, Probe) or compiled is None:
        raise refuse(f"{what} of what tells only the schema", place, form)
    order = "the groups are told in the order in which they are listed: leave it out"
    if bound.order:
        raise refuse(f"ORDER BY beside {what}", ask.text.find("ORDER"), order)
    if bound.limit is not None or bound.offset is not None:
        where = ask.text.find("LIMIT", "OFFSET")
        raise refuse(f"LIMIT or OFFSET beside {what}", where, f"{what.replace('...', 'n')} alone")
    for select in compiled.selects:
        if select.bound.having is not None:
            where, word = ask.text.find("HAVING"), what.split()[-1]
            raise refuse(f"HAVING beside {what}", where, f"{word} alone, or HAVING alone")
        for aggregate, estimator in zip(select.bound.aggregates, select.estimators, strict=True):
            if not isinstance(estimator, Count):
                kind = aggregate.kind.upper()
                raise refuse(f"{what} of {kind}, which is no count", aggregate.span or place, form)
        if len(select.estimators) > 1:
            second = select.bound.aggregates[1].span or place
            raise refuse(f"{what} of several counts", second, "one COUNT a SELECT")
        for item, _ in select.bound.items:
            if not isinstance(item, Slot) and any(map(is_count, walk(item))):
                raise refuse(f"{what} with an expression of counts", place, form)
    settings = effective(ask, chosen)
    refuse_population(ask, settings, what)
    if settings.accuracy is not None:
        raise UsageError(
            f"{what} has a price and no accuracy: SET epsilon, and EXPLAIN tells how far "
            "off a group can be"
        )
    return compiled, settings


def counts(compiled: Compiled) -> list[tuple[bool, ...]]:
    """Of each group, which columns are counts."""
    return [
        tuple(is_count(item) for item, _ in select.bound.items)
        for select in compiled.selects
        for _ in range(select.groups.size)
    ]


def is_count(expr: Expr) -> bool:
    return isinstance(expr, Slot) and expr.name[0] == "a"
