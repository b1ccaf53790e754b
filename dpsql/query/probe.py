"""Probes of tools: SELECT 1, LIMIT 0, WHERE 1 = 0, version(), information_schema; free.

They tell only the schema.
"""

from __future__ import annotations

from dpsql.query.catalogue import about_session, unknown, view
from dpsql.query.declared import value
from dpsql.query.expr import Call, Column, Compare, Const, Expr, Logic, Ref, Star, fold, walk
from dpsql.query.functions import AGGREGATES
from dpsql.query.lift import aggregated
from dpsql.query.names import Names, row
from dpsql.query.parse import Ask
from dpsql.query.scope import Sources
from dpsql.query.statement import Probe
from dpsql.query.syntax import Select
from dpsql.query.typing import Typer


def probe(ask: Ask, names: Names, sources: Sources) -> Probe | None:
    """The probe that a query is, or None. Raises Refused for one with parts not answered."""
    query = ask.query
    if not isinstance(query, Select) or query.foreign:
        return None
    if about_session(query):
        return Probe(None, False, ask, "session")
    if view(query) and not sources.known(view(query)):
        return _catalogue(ask, query)
    if query.having is not None:
        return None
    if query.groups or query.sets or query.group_all:
        return None
    if query.source is None:
        return _without_source(ask, query, names)
    if any(aggregated(item) for item, _ in query.items):
        return None
    zero = query.limit == Const("integer", "0")
    scope = sources.scope(query.source, sources.ctes(query.ctes, {}))
    refuse = ask.text.refusal
    typer = Typer(scope.dataset, refuse)
    aliases: dict[str, Expr] = {}
    listed: list[Expr] = []
    for item, alias in query.items:
        if not isinstance(item, Star):
            listed.append(row(names.resolve(item, scope, aliases), "WHERE", refuse))
            if alias:
                aliases[fold(alias)] = listed[-1]
    where = list(scope.where)
    if query.where is not None:
        where.append(row(names.resolve(query.where, scope, aliases), "WHERE", refuse))
    if not zero and not any(_never(part) for part in where):
        return None
    for entry in query.order:
        if not isinstance(entry.expr, Star | Const):
            listed.append(row(names.resolve(entry.expr, scope, aliases), "WHERE", refuse))
    listed += [names.filled(part) for part in (query.limit, query.offset) if part is not None]
    for part in where:
        typer.boolean(part, "WHERE")
    for part in listed:
        if not isinstance(part, Column):
            typer.of(part)
    return Probe(scope.dataset, True, ask)


def _catalogue(ask: Ask, query: Select) -> Probe:
    """A query over a view of the catalogue. Raises Refused for one with parts not answered."""
    part = unknown(query)
    if part is not None or query.ctes:
        raise ask.text.refusal(
            f"this is not answered over {view(query)}",
            getattr(part, "span", None),
            "columns and plain conditions, e.g. SELECT table_name FROM information_schema.tables; "
            "or SHOW TABLES, DESCRIBE name",
        )
    return Probe(None, False, ask, "view")


def _without_source(ask: Ask, query: Select, names: Names) -> Probe | None:
    """A query of literals alone."""
    parts = [item for item, _ in query.items]
    parts += [entry.expr for entry in query.order if not isinstance(entry.expr, Star)]
    parts += [part for part in (query.where, query.limit, query.offset) if part is not None]
    inner = [inner for part in parts for inner in walk(part)]
    counting = any(isinstance(part, Call) and part.name in AGGREGATES for part in inner)
    if query.ctes or counting or any(isinstance(part, Ref | Star) for part in inner):
        return None
    typer = Typer(None, ask.text.refusal)
    for part in parts:
        typer.of(names.filled(part))
    return Probe(None, False, ask)


def _never(condition: Expr) -> bool:
    """Whether a condition is a comparison of literals that is never true, such as 1 = 0."""
    match condition:
        case Const(kind="boolean" | "null", text=text):
            return text != "TRUE"
        case Compare(op="=" | "<>" as op, left=Const() as left, right=Const() as right):
            return (value(left) == value(right)) == (op == "<>")
        case Logic(op=op, args=args):
            return (any if op == "AND" else all)(_never(arg) for arg in args)
        case _:
            return False
