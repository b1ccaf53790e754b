"""Names to meanings: columns of FROM, then aliases of SELECT, as DuckDB looks them up."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from dpsql.errors import Refused
from dpsql.query.expr import (
    Call,
    Column,
    Const,
    Expr,
    Foreign,
    Param,
    Ref,
    Span,
    fold,
    rebuild,
    size,
    text_literal,
    walk,
    written,
)
from dpsql.query.functions import AGGREGATES, REFUSED_FUNCTIONS, SIGNATURES, refused, refused_name
from dpsql.query.keywords import DIALECTS

if TYPE_CHECKING:
    from dpsql.query.scope import Scope

Refuse: TypeAlias = "Callable[[str, Span | None, str], Refused]"

MAX_SIZE = 20_000  # parts of all expressions of a statement, once its names are resolved


class Names:
    """Resolves the names of one statement; what they stand for is bounded in size."""

    def __init__(self, refuse: Refuse, param: Callable[[Param], Expr]) -> None:
        self._refuse, self._param = refuse, param
        self._left = MAX_SIZE

    def resolve(self, expr: Expr, scope: Scope, aliases: Mapping[str, Expr]) -> Expr:
        """`expr` with every name replaced by its meaning, and every parameter by its value.

        `aliases` are meanings already; a column goes before an alias. Raises Refused.
        """

        def meaning(part: Expr) -> Expr:
            match part:
                case Ref(path=(name,)) if fold(name) in aliases and fold(name) not in scope.names:
                    return self.alias(part, name, scope, aliases)
                case Ref():
                    return self._grown(self._field(part, scope, aliases), part.span)
                case Const():
                    self._left -= 1
                    return part
                case Param():
                    return self._param(part)
                case Foreign():
                    return part
                case Call(name=name) if name in DIALECTS and name not in SIGNATURES:
                    raise self._refuse(*refused(part))
                case _:
                    self._left -= 1
                    return rebuild(part, meaning)

        return meaning(expr)

    def alias(self, ref: Ref, name: str, scope: Scope, aliases: Mapping[str, Expr]) -> Expr:
        """What an alias of SELECT stands for."""
        if fold(name) in scope.qualifiers:  # to DuckDB, the whole row
            raise self._refuse(
                f"{written(name)} is an alias, and the name of the table in FROM",
                ref.span,
                "another alias",
            )
        return self._grown(aliases[fold(name)], ref.span)

    def filled(self, expr: Expr) -> Expr:
        """`expr` with every parameter replaced by its value."""
        if isinstance(expr, Param):
            return self._param(expr)
        return rebuild(expr, self.filled)

    def _grown(self, meaning: Expr, span: Span | None) -> Expr:
        """A meaning, counted: names of names may stand for expressions of any size."""
        self._left -= 1 if isinstance(meaning, Column) else size(meaning)
        if self._left < 0:
            raise self._refuse(
                f"the names of this statement stand for more than {MAX_SIZE:,} expressions",
                span,
                "fewer aliases of aliases",
            )
        return meaning

    def _field(self, ref: Ref, scope: Scope, aliases: Mapping[str, Expr]) -> Expr:
        *path, name = ref.path
        if len(path) > 1 and fold(path[0]) == "main":
            path = path[1:]
        if path:
            field = len(path) > 1 or fold(path[0]) not in scope.qualifiers
            if field and fold(path[0]) in scope.names:
                raise self._refuse("a field of a struct is not answered", ref.span, "a column")
            self.qualifier(".".join(path), scope, ref.span)
        found = scope.names.get(fold(name))
        if found is not None:
            meaning = found[1]
            # the place of the name, so that a later refusal points at what the analyst wrote
            return Column(meaning.name, ref.span) if isinstance(meaning, Column) else meaning
        if not path and name.lower() in _BARE and name.lower() in REFUSED_FUNCTIONS:
            reason, hint = refused_name(name.lower(), "c")
            raise self._refuse(f"{name.upper()} {reason}", ref.span, hint)
        known = [shown for shown, _ in scope.names.values()]
        choices = {n.lower(): n for n in [*known, *aliases]}
        from difflib import get_close_matches

        near = get_close_matches(name.lower(), choices, 1, 0.7)
        listed = ", ".join(map(written, known[:12])) + (", ..." if len(known) > 12 else "")
        hint = written(choices[near[0]]) if near else f"a declared column: {listed}"
        quoted = ref.span is not None and ref.span.end - ref.span.start > len(name)
        if not path and (quoted or (not near and not re.fullmatch(r"\w+", name, re.ASCII))):
            hint += f"; if it is a text, {text_literal(name)} in single quotes"
        raise self._refuse(f"there is no column {name!r}", ref.span, hint)

    def qualifier(self, name: str, scope: Scope, span: Span | None) -> None:
        """Refuse a name before a dot that is no table of FROM."""
        if name and fold(name) not in scope.qualifiers:
            known = " or ".join(f"{table}.column" for table in sorted(scope.qualifiers))
            raise self._refuse(
                f"there is no table {name!r} in FROM",
                span,
                "the column alone" + (f", or {known}" if known else ""),
            )


_BARE = frozenset({
    "current_user", "session_user", "user", "current_catalog", "current_schema", "current_database",
    "current_date", "current_localtime", "current_localtimestamp",
})  # fmt: skip
_ROW_HINTS = {
    "WHERE": "the condition in HAVING, or in FILTER (WHERE ...)",
    "GROUP BY": "a column, or an expression of columns",
    "a derived table": "a derived table that only chooses columns and filters rows",
}


def row(expr: Expr, where: str, refuse: Refuse) -> Expr:
    """An expression about one row. Raises Refused for one with aggregates."""
    for part in walk(expr):
        if not isinstance(part, Call):
            continue
        if part.name in AGGREGATES:
            name = part.name.replace("count_star", "count").upper()
            raise refuse(
                f"the aggregate {name} in {where}, which is about single rows",
                part.span,
                _ROW_HINTS[where],
            )
        if part.name == "unnest":
            raise refuse(*refused(part))
    return expr
