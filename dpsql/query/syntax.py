"""The shape of a query as written, before its names mean anything."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from dpsql.query.expr import Expr, Span


@dataclass(frozen=True, slots=True)
class Table:
    """A name in FROM."""

    path: tuple[str, ...]
    alias: str = ""
    column_aliases: tuple[str, ...] = ()
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Derived:
    """A query in FROM."""

    query: Query
    alias: str = ""
    column_aliases: tuple[str, ...] = ()
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ForeignSource:
    """Anything else in FROM; `what` names it."""

    what: str
    span: Span | None = field(default=None, compare=False)


Source: TypeAlias = "Table | Derived | ForeignSource | None"


@dataclass(frozen=True, slots=True)
class Order:
    expr: Expr
    descending: bool | None = None  # None: DuckDB's default
    nulls_first: bool | None = None


@dataclass(frozen=True, slots=True)
class Cte:
    name: str
    query: Query
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Select:
    """One SELECT; `foreign` names a clause that is never answered."""

    items: tuple[tuple[Expr, str], ...]  # expression and alias ("" for none)
    source: Source
    where: Expr | None = None
    groups: tuple[Expr, ...] = ()
    sets: tuple[tuple[int, ...], ...] = ()
    group_all: bool = False
    having: Expr | None = None
    order: tuple[Order, ...] = ()
    limit: Expr | None = None
    offset: Expr | None = None
    ctes: tuple[Cte, ...] = ()
    foreign: str = ""
    foreign_span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Union:
    """UNION ALL of queries; any other set operation has its name in `foreign`."""

    parts: tuple[Query, ...]
    order: tuple[Order, ...] = ()
    limit: Expr | None = None
    offset: Expr | None = None
    ctes: tuple[Cte, ...] = ()
    foreign: str = ""


Query: TypeAlias = Select | Union
