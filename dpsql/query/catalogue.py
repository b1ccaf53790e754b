"""What tools ask of a catalogue: the declared tables and columns, and who is asking; all public.

The queries run in an empty database that holds the declared tables, without rows, and nothing
else. They are few and small: one view, plain conditions, no function that could make long values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dpsql.query.empty import Empty
from dpsql.query.expr import (
    Between,
    Call,
    Compare,
    Const,
    Expr,
    Logic,
    Op,
    Param,
    Ref,
    Star,
    fold,
    quote,
    render,
    walk,
)
from dpsql.query.functions import SESSION, USERS
from dpsql.query.syntax import Select, Table
from dpsql.schema import Dataset

VIEWS = ("information_schema.tables", "information_schema.columns")
_CALLS = frozenset({"count", "count_star", "min", "max", "lower", "upper", "length", "~~", "!~~"})


def view(query: Select) -> str:
    """The view of the catalogue that a query is over, or nothing."""
    if not isinstance(query.source, Table):
        return ""
    name = ".".join(fold(part) for part in query.source.path)
    return name if name in VIEWS else ""


def unknown(query: Select) -> Expr | None:
    """The first part of a query over a view that is not answered."""
    parts = [item for item, _ in query.items]
    parts += [*query.groups, *(entry.expr for entry in query.order)]
    parts += [p for p in (query.where, query.having, query.limit, query.offset) if p is not None]
    for part in (inner for whole in parts for inner in walk(whole)):
        match part:
            case Ref() | Const() | Param() | Compare() | Logic() | Op() | Between():
                continue
            case Call(name=name, filter=None, ordered=False) if name in _CALLS:
                continue
            case Star(columns=False):
                continue
            case _:
                return part
    return None


def session_name(expr: Expr) -> str:
    """The name of what an expression asks about the session, or nothing."""
    match expr:
        case Ref(path=(name,)) if fold(name) in SESSION:
            return fold(name)
        case Call(name=name, args=()) if name in SESSION:
            return name
        case _:
            return ""


def about_session(query: Select) -> bool:
    """Whether a query asks only about the session: SELECT version(), current_user."""
    if query.source is not None or query.ctes or query.order or query.where is not None:
        return False
    if query.limit is not None or query.offset is not None or query.groups:
        return False
    asked = [session_name(item) for item, _ in query.items]
    return any(asked) and all(
        name or isinstance(item, Const) for name, (item, _) in zip(asked, query.items, strict=True)
    )


class Catalogue:
    """An empty database with the declared tables."""

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self._empty = Empty()
        for dataset in datasets:
            fields = ", ".join(
                f"{quote(c.name)} {c.sql_type}{'' if c.nullable else ' NOT NULL'}"
                for c in dataset.columns
            )
            self._empty.declare(quote(dataset.name), fields)

    def rows(
        self, sql: str, params: Sequence[Any] = ()
    ) -> tuple[list[str], list[str], list[tuple[Any, ...]]]:
        """Names, types and rows of a query over a view. Raises EmptyError."""
        names, types = self._empty.describe(sql, params)
        return names, types, self._empty.rows(sql, params)

    def session(
        self, query: Select, sql: str, user: str
    ) -> tuple[list[str], list[str], list[tuple[Any, ...]]]:
        """Names, types and the row of a query about the session. Raises EmptyError."""
        names, types = self._empty.describe(sql)
        told = {name: Const("text", user) for name in USERS}
        listed = ", ".join(
            render(told[name]) if name in told else f"{name}()" if name else render(item)
            for item, _ in query.items
            for name in [session_name(item)]
        )
        return names, types, self._empty.rows(f"SELECT {listed}")
