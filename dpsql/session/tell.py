"""Answers that cost nothing: the schema, settings, budgets and plans, as releases."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpsql.accounting.convert import epsilon_of
from dpsql.accounting.events import PICO
from dpsql.accounting.filter import holds
from dpsql.accounting.ledger import Balance, Price, Rise
from dpsql.accounting.payers import called, remedy
from dpsql.accounting.purse import EVERYBODY
from dpsql.accounting.refusals import within
from dpsql.errors import NoGrant, Refused, UsageError
from dpsql.planner import Terms
from dpsql.query.bind import Probe
from dpsql.query.catalogue import Catalogue
from dpsql.query.empty import EmptyError
from dpsql.query.expr import Span
from dpsql.query.grid import Grid
from dpsql.query.syntax import Select
from dpsql.release import PURSE, Budget, Cost, Plan, Release, Row, figure
from dpsql.schema import Column, Dataset, Kind
from dpsql.session.settings import Settings, check


def table(
    columns: Sequence[str], types: Sequence[str], rows: Iterable[Row], notes: tuple[str, ...] = ()
) -> Release:
    """A free release: plain values without errors or price."""
    listed = tuple(rows)
    nothing = tuple((None,) * len(columns) for _ in listed)
    return Release(
        tuple(columns), tuple(types), listed, nothing, nothing, nothing,
        confidence=0.95, backend="", price=None, charged=None, left=None, notes=notes,
    )  # fmt: skip


# -- schema ------------------------------------------------------------------------------------


def tables(datasets: Iterable[Dataset]) -> Release:
    """SHOW TABLES."""
    rows = [(d.name, d.description, len(d.columns)) for d in datasets]
    return table(("name", "description", "columns"), ("VARCHAR", "VARCHAR", "BIGINT"), rows)


def describe(dataset: Dataset) -> Release:
    """DESCRIBE: the declared columns, their types and domains."""
    rows = [
        (c.name, c.sql_type, "YES" if c.nullable else "NO", _domain(c), c.cells, c.description)
        for c in dataset.columns
    ]
    names = ("column_name", "column_type", "null", "domain", "cells", "description")
    types = ("VARCHAR", "VARCHAR", "VARCHAR", "VARCHAR", "BIGINT", "VARCHAR")
    return table(names, types, rows)


def _domain(column: Column) -> str:
    match column.kind:
        case Kind.CATEGORY:
            shown = ", ".join(str(v) for v in column.values[:20])
            return shown + (", ..." if len(column.values) > 20 else "")
        case Kind.BOOLEAN:
            return "false, true"
        case _ if column.edges:
            return "bins at " + ", ".join(str(e) for e in column.edges)
        case _:
            step = f" step {column.step}" if column.step else ""
            return f"{column.minimum} to {column.maximum}{step}"


def probe(found: Probe, grid: Grid, params: Any) -> Release:
    """A query that tells only the schema, answered by the empty database."""
    grid.declare()
    try:
        names, types = grid.empty.describe(found.ask.sql, params or ())
        rows = [] if found.empty else grid.empty.rows(found.ask.sql, params or ())
    except EmptyError:
        raise found.ask.text.refusal(
            "DuckDB does not accept this statement", None, "a SELECT in DuckDB's SQL"
        ) from None
    return table(names, types, rows, ("this tells only the schema and is free",))


def catalogue(found: Probe, catalogue_: Catalogue, params: Any, user: str) -> Release:
    """What a tool asks of the catalogue, from the declared schema alone."""
    query, sql = found.ask.query, found.ask.sql
    assert isinstance(query, Select)
    try:
        if found.of == "session":
            names, types, rows = catalogue_.session(query, sql, user)
        else:
            names, types, rows = catalogue_.rows(sql, params or ())
    except EmptyError:
        raise found.ask.text.refusal(
            "DuckDB does not accept this statement", None, "SHOW TABLES, or DESCRIBE name"
        ) from None
    return table(names, types, rows, ("this tells only the schema and is free",))


# -- settings ----------------------------------------------------------------------------------


def settings(found: Settings, name: str, sql: str, span: Span | None = None) -> Release:
    """SHOW ALL, or one setting. Raises Refused for an unknown one."""
    shown = found.shown()
    if name != "all":
        try:
            check(name)
        except UsageError as error:
            raise Refused(
                str(error),
                hint="SHOW ALL, SHOW TABLES, SHOW BUDGET or SHOW SYNOPSES",
                sql=sql,
                start=None if span is None else span.start,
                end=None if span is None else span.end,
            ) from None
        shown = {name: shown[name]}
    return table(("name", "value"), ("VARCHAR", "VARCHAR"), shown.items())


# -- budgets -----------------------------------------------------------------------------------


def price(found: Price, terms: Terms) -> Cost:
    """A price in pico as a cost at the grant's delta."""
    if terms.pure:
        return Cost(found.rho / PICO, (found.epsilon or 0) / PICO, 0.0)
    epsilon = epsilon_of(found.rho, terms.delta)
    if found.epsilon is not None:  # pure, so valid at every delta
        epsilon = min(epsilon, found.epsilon / PICO)
    return Cost(found.rho / PICO, epsilon, terms.delta)


def nothing(terms: Terms) -> Cost:
    """The cost of an answer that is free."""
    return Cost(0.0, 0.0, terms.delta)


@functools.lru_cache(64)  # free answers leave it as it is
def budget(balance: Balance) -> Budget:
    """A purse's balance as people read it."""
    grant, terms = balance.grant, Terms.of(balance.grant)
    if grant.pure:
        whole = Price(0, grant.epsilon_pico)
        spent = Price(balance.spent_rho, balance.spent_epsilon)
        left = Price(0, balance.left_epsilon)
    else:
        whole = Price(grant.rho, None)
        spent, left = Price(balance.spent_rho, None), Price(balance.left_rho, None)
    granted = Cost(whole.rho / PICO, grant.epsilon, grant.delta)
    return Budget(granted, price(spent, terms), price(left, terms), grant.user, grant.dataset)


def shortage(rise: Rise) -> tuple[str, ...]:
    """A note that a release would be refused, by the purse that it is asked under or another."""
    after = rise.after
    if not holds(after.grant, after.spent):
        return (
            f"would be refused: {called(after.grant)} has too little left{within(rise.before)}",
        )
    short = [other.grant for other in after.others if not holds(other.grant, other.spent)]
    return tuple(
        f"would be refused: {called(grant)} {'have' if grant.user == EVERYBODY else 'has'} too"
        f" little left, though the grant of {after.grant.user} would hold it{remedy(grant)}"
        for grant in short[:1]
    )


def no_ledger(database: Path, user: str, ledger: Path, given: bool) -> NoGrant:
    """The error for a user whose ledger does not exist; `given` where its place was said."""
    place = f" --ledger {shlex.quote(str(ledger))}" if given else ""
    return NoGrant(
        f"{user} has no grant: there is no ledger {ledger.name}; the owner makes one with:"
        f" dpsql budget grant {shlex.quote(str(database))} {shlex.quote(user)} --epsilon E{place}"
    )


def budgets(balances: Sequence[Balance]) -> Release:
    """SHOW BUDGET, a row a purse that pays; a pure grant is no amount of rho."""
    found = [budget(balance) for balance in balances]
    types = ("VARCHAR", *["DOUBLE"] * 7, "BIGINT", "VARCHAR")
    rows = [
        (
            b.dataset, b.granted.epsilon, b.spent.epsilon, b.left.epsilon, b.granted.delta,
            *((b.granted.rho, b.left.rho, b.spent.rho) if b.granted.delta else (None,) * 3),
            b.default_queries_left, b.user,
        )
        for b in found
    ]  # fmt: skip
    notes = () if found else ("there is no grant: ask the owner for one (dpsql budget grant)",)
    if any(b.left_epsilon < replace(b, others=()).left_epsilon for b in balances):
        notes = ("left is what the groups and the cap of all users leave",)
    return table(PURSE, types, rows, notes)


def plan(found: Plan) -> Release:
    """EXPLAIN: a plan as rows of item and value."""
    candidates = "; ".join(
        f"{c.backend}: epsilon {figure(c.price.epsilon)}, error {figure(c.rmse)}"
        for c in found.candidates
    )
    exact = "" if found.sensitivity_exact else " (a bound from above)"
    rows: list[Row] = [
        ("dataset", found.dataset),
        ("backend", found.backend),
        ("linear queries", f"{found.queries:,}"),
        ("rows", f"{len(found.rows):,}"),
        ("cells of the columns mentioned", f"{found.cells:,}"),
        ("L2 sensitivity", f"{figure(found.sensitivity)} {found.unit}{exact}"),
        ("price", f"epsilon {figure(found.price.epsilon)} at delta {found.price.delta:g}, "
                  f"rho {figure(found.price.rho)}"),
        *([] if found.charged is None else [
            ("charged after what was asked before", f"epsilon {figure(found.charged.epsilon)}, "
                                                    f"rho {figure(found.charged.rho)}")
        ]),
        ("candidates", candidates),
        *[("strategies", c.compared) for c in found.candidates if c.strategies],
    ]  # fmt: skip
    errors = [e for row in found.stderr for e in row if e is not None]
    if errors:
        rows.append(("standard error", f"{figure(min(errors))} to {figure(max(errors))}"))
    if found.left is not None:
        rows.append(("left before", f"epsilon {figure(found.left.left.epsilon)}"))
    if found.after is not None:
        rows.append(("left after", f"epsilon {figure(found.after.left.epsilon)}"))
    rows.extend(("note", note) for note in found.notes)
    return table(("item", "value"), ("VARCHAR", "VARCHAR"), rows)
