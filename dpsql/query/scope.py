"""What names mean: the dataset in FROM, through derived tables and CTEs that project and filter."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from dpsql.errors import Refused
from dpsql.query.expr import (
    Call,
    Column,
    Expr,
    Foreign,
    Ref,
    Span,
    Star,
    rebuild,
    walk,
)
from dpsql.query.functions import AGGREGATES, REFUSED_FUNCTIONS
from dpsql.query.syntax import Cte, Derived, ForeignSource, Query, Select, Source, Table
from dpsql.query.text import Text
from dpsql.schema import Dataset

_SOURCE_HINTS = {
    "a join": "one dataset; the owner can declare a dataset whose source is the join",
    "VALUES": "FROM a declared dataset",
    "a sample of rows": "the whole dataset: noise, not sampling, protects people",
    "PIVOT": "COUNT(*) FILTER (WHERE ...) for each column, or GROUP BY",
}


@dataclass(frozen=True, slots=True)
class Scope:
    """The names that a FROM clause gives: each column's meaning, and the rows that are kept."""

    dataset: Dataset
    names: Mapping[str, tuple[str, Expr]]  # lower-case name -> (name as shown, meaning)
    qualifiers: frozenset[str]
    where: tuple[Expr, ...] = ()

    def __post_init__(self) -> None:
        if any(name != name.lower() for name in self.names):
            raise ValueError("a scope is keyed by names in lower case")


class Resolver:
    """Turns FROM clauses into scopes, and names into declared columns."""

    def __init__(self, datasets: Mapping[str, Dataset], text: Text) -> None:
        self._datasets, self._text = datasets, text

    def refuse(self, reason: str, span: Span | None, hint: str) -> Refused:
        return self._text.refusal(reason, span, hint)

    # -- FROM ----------------------------------------------------------------------------------

    def ctes(self, ctes: tuple[Cte, ...], outer: Mapping[str, Cte]) -> dict[str, Cte]:
        """The common table expressions in force; each is checked, used or not."""
        found = dict(outer)
        for cte in ctes:
            self._derived(cte.query, cte.columns, found, None, cte.name)
            found[cte.name.lower()] = cte
        return found

    def scope(self, source: Source, ctes: Mapping[str, Cte]) -> Scope:
        """The scope of a FROM clause. Raises Refused when it is not one declared dataset."""
        match source:
            case Table(path=path, alias=alias, column_aliases=names, span=span):
                cte = ctes.get(path[0].lower()) if len(path) == 1 else None
                if cte is None:
                    inner = self._dataset(path, span)
                else:
                    outer = {k: v for k, v in ctes.items() if v is not cte}
                    inner = self._derived(cte.query, cte.columns, outer, span, cte.name)
                return self._aliased(inner, alias or path[-1], names, span)
            case Derived(query=query, alias=alias, column_aliases=names, span=span):
                inner = self._derived(query, (), ctes, span, alias)
                return self._aliased(inner, alias, names, span)
            case ForeignSource(what=what, span=span):
                raise self.refuse(
                    f"{what} is not answered in FROM",
                    span,
                    _SOURCE_HINTS.get(what, f"FROM one of: {self._listed()}"),
                )
            case None:
                raise self.refuse(
                    "there is no FROM", None, f"SELECT ... FROM one of: {self._listed()}"
                )

    def _listed(self) -> str:
        return ", ".join(sorted(self._datasets)) or "(no dataset is declared)"

    def _dataset(self, path: tuple[str, ...], span: Span | None) -> Scope:
        name = path[-1]
        found = self._datasets.get(name)
        if found is None:
            alike = [d for n, d in self._datasets.items() if n.lower() == name.lower()]
            found = alike[0] if len(alike) == 1 else None
        if found is None or (len(path) > 1 and [p.lower() for p in path[:-1]] != ["main"]):
            near = difflib.get_close_matches(name.lower(), self._datasets, 1, 0.6)
            hint = f"FROM {near[0]}" if near else f"FROM one of: {self._listed()}"
            raise self.refuse(f"there is no dataset {'.'.join(path)!r}", span, hint)
        names: dict[str, tuple[str, Expr]] = {
            c.name.lower(): (c.name, Column(c.name)) for c in found.columns
        }
        return Scope(found, names, frozenset({name.lower()}))

    def _aliased(
        self, scope: Scope, alias: str, names: tuple[str, ...], span: Span | None
    ) -> Scope:
        if len(names) > len(scope.names):
            raise self.refuse(
                f"there are {len(names)} column aliases for {len(scope.names)} columns",
                span,
                "at most one alias a column",
            )
        shown = list(scope.names.values())
        renamed = [(new, meaning) for new, (_, meaning) in zip(names, shown, strict=False)]
        listed = renamed + shown[len(renamed) :]
        if len({name.lower() for name, _ in listed}) < len(listed):
            raise self.refuse("two columns have the same name", span, "different aliases")
        table = {name.lower(): (name, meaning) for name, meaning in listed}
        return Scope(scope.dataset, table, frozenset({alias.lower()} - {""}), scope.where)

    def _derived(
        self,
        query: Query,
        names: tuple[str, ...],
        ctes: Mapping[str, Cte],
        span: Span | None,
        alias: str,
    ) -> Scope:
        """A query that only projects and filters, as a scope of its own."""
        hint = "a derived table that only chooses columns and filters rows"
        if not isinstance(query, Select):
            raise self.refuse("a set operation in a derived table repeats rows", span, hint)
        if query.foreign:
            raise self.refuse(
                f"{query.foreign} is not answered in a derived table",
                query.foreign_span or span,
                hint,
            )
        clause = (
            "GROUP BY" if query.groups or query.sets or query.group_all
            else "HAVING" if query.having is not None
            else "LIMIT" if query.limit is not None or query.offset is not None
            else "ORDER BY" if query.order
            else ""
        )  # fmt: skip
        if clause:
            raise self.refuse(f"{clause} is not answered in a derived table", span, hint)
        inner = self.scope(query.source, self.ctes(query.ctes, ctes))
        table: dict[str, tuple[str, Expr]] = {}
        aliases: dict[str, Expr] = {}
        for item, name in query.items:
            for shown, meaning in self._project(item, name, inner, aliases):
                if shown.lower() in table:
                    raise self.refuse(
                        f"two columns of a derived table are called {shown!r}",
                        item.span,
                        "different aliases",
                    )
                table[shown.lower()] = (shown, meaning)
            if name:
                aliases.setdefault(name.lower(), item)
        where = inner.where
        if query.where is not None:
            where = (*where, self.row(query.where, inner, aliases))
        scope = Scope(inner.dataset, table, frozenset({alias.lower()} - {""}), where)
        return self._aliased(scope, alias, names, span)

    def _project(
        self, item: Expr, name: str, inner: Scope, aliases: Mapping[str, Expr]
    ) -> list[tuple[str, Expr]]:
        if isinstance(item, Star):
            if item.columns:
                raise self.refuse("COLUMNS() is not answered", item.span, "the columns by name")
            self._qualifier(item.relation, inner, item.span)
            return list(inner.names.values())
        meaning = self.row(item, inner, aliases)
        if not name and isinstance(item, Ref):
            name = inner.names.get(item.path[-1].lower(), (item.path[-1],))[0]
        if not name:
            raise self.refuse(
                "a column of a derived table has no name", item.span, "the expression AS name"
            )
        return [(name, meaning)]

    # -- names ---------------------------------------------------------------------------------

    def row(self, expr: Expr, scope: Scope, aliases: Mapping[str, Expr]) -> Expr:
        """`expr` over declared columns; it is about one row, so aggregates are refused."""
        found = self.resolve(expr, scope, aliases)
        for part in walk(found):
            if isinstance(part, Call) and part.name in AGGREGATES:
                raise self.refuse(
                    f"the aggregate {part.name.replace('count_star', 'count').upper()} "
                    "where single rows are meant",
                    part.span,
                    "the condition in HAVING, or the aggregate in SELECT",
                )
            if isinstance(part, Call) and part.name == "unnest":
                reason, hint = REFUSED_FUNCTIONS["unnest"]
                raise self.refuse(f"UNNEST() {reason}", part.span, hint)
        return found

    def resolve(
        self,
        expr: Expr,
        scope: Scope,
        aliases: Mapping[str, Expr],
        *,
        aliases_first: bool = False,
    ) -> Expr:
        """`expr` with every name replaced by its meaning; aliases of SELECT come second."""
        if isinstance(expr, Ref):
            if len(expr.path) == 1:
                key = expr.path[0].lower()
                known = key in scope.names
                if key in aliases and (aliases_first or not known):
                    rest = {k: v for k, v in aliases.items() if k != key}
                    return self.resolve(aliases[key], scope, rest)
            return self._name(expr, scope, aliases)
        if isinstance(expr, Foreign):
            return expr
        return rebuild(expr, lambda part: self.resolve(part, scope, aliases))

    def _name(self, ref: Ref, scope: Scope, aliases: Mapping[str, Expr]) -> Expr:
        *qualifier, name = ref.path
        if qualifier:
            if len(qualifier) > 1 and qualifier[0].lower() == "main":
                qualifier = qualifier[1:]
            if len(qualifier) > 1 or qualifier[0].lower() in scope.names:
                raise self.refuse("a field of a struct is not answered", ref.span, "a column")
            self._qualifier(qualifier[0], scope, ref.span)
        found = scope.names.get(name.lower())
        if found is not None:
            meaning = found[1]
            # the place of the name, so that a later refusal points at what the analyst wrote
            return Column(meaning.name, ref.span) if isinstance(meaning, Column) else meaning
        known = [shown for shown, _ in scope.names.values()]
        choices = {n.lower(): n for n in [*known, *aliases]}
        near = difflib.get_close_matches(name.lower(), choices, 1, 0.5)
        listed = ", ".join(known[:12]) + (", ..." if len(known) > 12 else "")
        hint = f"{choices[near[0]]}" if near else f"a declared column: {listed}"
        raise self.refuse(f"there is no column {name!r}", ref.span, hint)

    def _qualifier(self, name: str, scope: Scope, span: Span | None) -> None:
        if name and name.lower() not in scope.qualifiers:
            known = ", ".join(sorted(scope.qualifiers)) or "no name"
            raise self.refuse(
                f"there is no table {name!r} in FROM", span, f"the column without it, or {known}."
            )
