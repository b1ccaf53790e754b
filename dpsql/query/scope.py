"""What FROM means: one declared dataset, seen through derived tables and CTEs."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from dpsql.errors import Refused
from dpsql.query.expr import Column, Expr, Ref, Span, Star, fold, written
from dpsql.query.names import Names, row
from dpsql.query.syntax import Cte, Derived, ForeignSource, Query, Select, Source, Table
from dpsql.query.text import Text
from dpsql.query.typing import Typer
from dpsql.schema import Dataset

_SOURCE_HINTS = {
    "a JOIN": "FROM one dataset; the owner can declare a dataset whose source is a join",
    "VALUES": "FROM a declared dataset",
    "a sample of rows": "the whole dataset: noise, not sampling, protects people",
    "PIVOT": "COUNT(*) FILTER (WHERE ...) for each column, or GROUP BY",
}


@dataclass(frozen=True)
class Scope:
    """The fields that a FROM clause gives, in order, and the conditions on its rows.

    A field has its name as shown, "" where it has none that can be written, and its meaning.
    """

    dataset: Dataset
    fields: tuple[tuple[str, Expr], ...]
    qualifiers: frozenset[str]
    where: tuple[Expr, ...] = ()

    @functools.cached_property
    def names(self) -> Mapping[str, tuple[str, Expr]]:
        """The fields by their folded names."""
        return {fold(name): (name, meaning) for name, meaning in self.fields if name}


Ctes = Mapping[str, Scope]


@functools.lru_cache(64)  # statements are about the same few datasets
def _fields(names: tuple[str, ...]) -> tuple[tuple[str, Expr], ...]:
    """The fields of a dataset with these columns."""
    return tuple([(name, Column(name)) for name in names])


class Sources:
    """Turns FROM clauses into scopes."""

    def __init__(self, datasets: Mapping[str, Dataset], text: Text, names: Names) -> None:
        self._datasets, self._text, self._names = datasets, text, names

    def known(self, name: str) -> bool:
        """Whether a dataset has this name, whatever the case of its letters."""
        return fold(name) in map(fold, self._datasets)

    def ctes(self, ctes: tuple[Cte, ...], outer: Ctes) -> Ctes:
        """The common table expressions in force; each is checked, used or not."""
        found = dict(outer)
        for cte in ctes:
            found[fold(cte.name)] = self._derived(cte.query, cte.columns, found, None, cte.name)
        return found

    def scope(self, source: Source, ctes: Ctes) -> Scope:
        """The scope of a FROM clause. Raises Refused when it is not one declared dataset."""
        match source:
            case Table(path=path, alias=alias, column_aliases=names, span=span):
                inner = ctes.get(fold(path[0])) if len(path) == 1 else None
                if inner is None:
                    inner = self._dataset(path, span)
                if not (alias or names):
                    return inner
                return self._aliased(inner, alias or path[-1], names, span)
            case Derived(query=query, alias=alias, column_aliases=names, span=span):
                inner = self._derived(query, (), ctes, span, alias)
                return self._aliased(inner, alias, names, span)
            case ForeignSource(what=what, span=span):
                raise self._refuse(
                    f"{what} is not answered in FROM",
                    span,
                    _SOURCE_HINTS.get(what, f"FROM {self._listed()}"),
                )
            case None:
                raise self._refuse(
                    "there is no FROM",
                    self._text.fromless(),
                    f"SELECT ... FROM {self._listed()}",
                )

    def _refuse(self, reason: str, span: Span | None, hint: str) -> Refused:
        return self._text.refusal(reason, span, hint)

    def _listed(self) -> str:
        names = list(map(written, sorted(self._datasets)))
        return names[0] if len(names) == 1 else f"one of: {', '.join(names)}"

    def _dataset(self, path: tuple[str, ...], span: Span | None) -> Scope:
        name = path[-1]
        found = self._datasets.get(name)
        if found is None:
            alike = [d for n, d in self._datasets.items() if fold(n) == fold(name)]
            found = alike[0] if len(alike) == 1 else None
        if found is None or (len(path) > 1 and [fold(p) for p in path[:-1]] != ["main"]):
            from difflib import get_close_matches

            near = get_close_matches(name.lower(), self._datasets, 1, 0.6)
            hint = f"FROM {written(near[0])}" if near else f"FROM {self._listed()}"
            raise self._refuse(f"there is no dataset {'.'.join(path)!r}", span, hint)
        fields = _fields(tuple([column.name for column in found.columns]))
        return Scope(found, fields, frozenset({fold(name)}))

    def _aliased(
        self, scope: Scope, alias: str, names: tuple[str, ...], span: Span | None
    ) -> Scope:
        """A scope under another name, its first fields renamed."""
        if len(names) > len(scope.fields):
            raise self._refuse(
                f"there are {len(names)} column aliases for {len(scope.fields)} columns",
                span,
                "at most one alias a column",
            )
        renamed = [(new, meaning) for new, (_, meaning) in zip(names, scope.fields, strict=False)]
        fields = (*renamed, *scope.fields[len(renamed) :])
        found = Scope(scope.dataset, fields, frozenset({fold(alias)} - {""}), scope.where)
        if len(found.names) < sum(name != "" for name, _ in fields):
            folded = [fold(name) for name, _ in fields]
            twice = next(n for at, (n, _) in enumerate(fields) if n and folded[at] in folded[:at])
            raise self._refuse(
                f"two columns of a derived table are called {twice!r}", span, "different aliases"
            )
        return found

    def _derived(
        self, query: Query, names: tuple[str, ...], ctes: Ctes, span: Span | None, alias: str
    ) -> Scope:
        """A query that only projects and filters, as a scope of its own."""
        hint = "a derived table that only chooses columns and filters rows"
        if not isinstance(query, Select):
            place = self._text.find("UNION", "INTERSECT", "EXCEPT")
            raise self._refuse("a set operation in a derived table repeats rows", place, hint)
        if query.foreign:
            raise self._refuse(
                f"{query.foreign} is not answered in a derived table",
                query.foreign_span or span or self._text.find("WITH"),
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
            raise self._refuse(
                f"{clause} is not answered in a derived table",
                span or self._text.find(clause.split()[0]),
                hint,
            )
        inner = self.scope(query.source, self.ctes(query.ctes, ctes))
        typer = Typer(inner.dataset, self._refuse)
        fields: list[tuple[str, Expr]] = []
        aliases: dict[str, Expr] = {}
        for item, name in query.items:
            if isinstance(item, Star):
                fields += self._starred(item, inner)
                continue
            meaning = row(
                self._names.resolve(item, inner, aliases), "a derived table", self._refuse
            )
            if not isinstance(meaning, Column):
                typer.of(meaning)
            if name:
                aliases[fold(name)] = meaning
            elif isinstance(item, Ref):
                name = inner.names.get(fold(item.path[-1]), (item.path[-1],))[0]
            fields.append((name, meaning))
        where = inner.where
        if query.where is not None:
            kept = row(self._names.resolve(query.where, inner, aliases), "WHERE", self._refuse)
            typer.boolean(kept, "WHERE")
            where = (*where, kept)
        scope = Scope(inner.dataset, tuple(fields), frozenset({fold(alias)} - {""}), where)
        return self._aliased(scope, alias, names, span)

    def _starred(self, star: Star, inner: Scope) -> tuple[tuple[str, Expr], ...]:
        if star.columns:
            raise self._refuse("COLUMNS() is not answered", star.span, "the columns by name")
        self._names.qualifier(star.relation, inner, star.span)
        return inner.fields
