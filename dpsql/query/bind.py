"""A query as written becomes a statement over declared columns, or is refused with its place.

What comes out says everything that the answer needs: the rows kept, the group keys and grouping
sets, the aggregates, and how outputs, HAVING and ORDER BY are made of them after the noise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from dpsql.query.expr import (
    Call,
    Cast,
    Column,
    Const,
    Expr,
    Foreign,
    Logic,
    Param,
    Ref,
    Slot,
    Span,
    children,
    columns,
    conjuncts,
    fold,
    rebuild,
    walk,
)
from dpsql.query.functions import AGGREGATES
from dpsql.query.guards import Guard
from dpsql.query.lift import Lift, aggregated
from dpsql.query.names import Names, row
from dpsql.query.order import of_select, of_union, position
from dpsql.query.parse import Ask
from dpsql.query.probe import probe
from dpsql.query.scope import Ctes, Scope, Sources
from dpsql.query.statement import Aggregate, Bound, BoundSelect, Probe
from dpsql.query.syntax import Order, Select, Union
from dpsql.query.typing import Typer
from dpsql.schema import Dataset

__all__ = ["Aggregate", "Bound", "BoundSelect", "Probe", "bind"]

MAX_SETS = 1_024  # grouping sets of a statement
MAX_KEYS = 64  # group keys of a statement
_ROWS = range(1 << 62)  # of LIMIT and OFFSET

_CLAUSES = {
    "SELECT DISTINCT": ("DISTINCT", "GROUP BY with COUNT(*)"),
    "QUALIFY": ("QUALIFY", "HAVING, on the noisy counts"),
    "a sample of rows": ("SAMPLE", "the whole dataset: noise, not sampling, protects people"),
    "LIMIT with a percentage": ("LIMIT", "LIMIT with a whole number"),
}


def bind(
    ask: Ask, datasets: Mapping[str, Dataset], params: Mapping[str, Const | Cast] | None = None
) -> Bound | Probe:
    """The meaning of a query. Raises Refused for whatever is not answered."""
    try:
        return _Binder(ask, datasets, params or {}).bind()
    except RecursionError:
        raise ask.text.too_deep() from None


class _Binder:
    def __init__(
        self, ask: Ask, datasets: Mapping[str, Dataset], params: Mapping[str, Const | Cast]
    ) -> None:
        self._ask, self._params, self._refuse = ask, params, ask.text.refusal
        self._names = Names(self._refuse, self._param)
        self._sources = Sources(datasets, ask.text, self._names)
        self._guards: list[Guard] = []
        self._kinds: list[list[str]] = []  # of the outputs, for each SELECT
        self._sugar: list[Span] = []

    def bind(self) -> Bound | Probe:
        query = self._ask.query
        found = probe(self._ask, self._names, self._sources)
        if found is not None:
            return found
        bound: list[tuple[Dataset, BoundSelect]] = []
        if isinstance(query, Select):
            dataset, select, order = self._select(query, {})
            bound.append((dataset, select))
        else:
            self._union(query, {}, bound)
            order = of_union(query, self._refuse)
        dataset = bound[0][0]
        if any(other is not dataset for other, _ in bound):
            raise self._refuse(
                "UNION ALL over two datasets",
                self._ask.text.find("UNION"),
                "one statement a dataset",
            )
        limit, offset = self._rows(query.limit, "LIMIT"), self._rows(query.offset, "OFFSET")
        ask = self._ask
        if self._sugar:
            ask = dataclasses.replace(ask, sql=self._desugared())
        if limit == Const("integer", "0"):
            return Probe(dataset, True, ask)
        selects = tuple(select for _, select in bound)
        return Bound(dataset, selects, order, limit, offset, tuple(self._guards), ask)

    def _desugared(self) -> str:
        """The text with AVG(p) as AVG((p)::INTEGER), which DuckDB takes."""
        sql = self._ask.sql
        for span in sorted(set(self._sugar), key=lambda span: -span.start):
            inner = self._ask.text.inside(span)
            part = sql[inner.start : inner.end]
            sql = f"{sql[: inner.start]}(({part})::INTEGER){sql[inner.end :]}"
        return sql

    def _rows(self, expr: Expr | None, clause: str) -> Expr | None:
        """The number of LIMIT or OFFSET."""
        if isinstance(expr, Param):
            expr = self._param(expr)
        whole = isinstance(expr, Const) and expr.kind == "integer" and int(expr.text) in _ROWS
        if expr is not None and not whole:
            raise self._refuse(
                f"{clause} of something else than a whole number from 0",
                expr.span or self._ask.text.find(clause),
                f"{clause} 10",
            )
        return expr

    def _param(self, param: Param) -> Expr:
        found = self._params.get(param.name)
        if found is None:
            raise self._refuse(
                f"the parameter {param.name} has no value",
                param.span,
                "a value for it (in Python: params), or a literal",
            )
        return dataclasses.replace(found, span=param.span)

    # -- UNION ALL -----------------------------------------------------------------------------

    def _union(self, query: Union, outer: Ctes, bound: list[tuple[Dataset, BoundSelect]]) -> None:
        text = self._ask.text
        if query.foreign:
            raise self._refuse(
                f"{query.foreign} is not answered",
                text.find("UNION", "INTERSECT", "EXCEPT"),
                "UNION ALL, or separate statements",
            )
        ctes = self._sources.ctes(query.ctes, outer)
        for part in query.parts:
            if part.order or part.limit is not None or part.offset is not None:
                raise self._refuse(
                    "ORDER BY or LIMIT inside UNION ALL",
                    text.find("ORDER", "LIMIT", "OFFSET"),
                    "it at the end, for the whole",
                )
            if isinstance(part, Union):
                self._union(part, ctes, bound)
            else:
                dataset, select, _ = self._select(part, ctes)
                bound.append((dataset, select))
        if len({len(select.items) for _, select in bound}) > 1:
            raise self._refuse(
                "the SELECTs of UNION ALL have different numbers of columns",
                text.find("UNION"),
                "the same number of columns in each",
            )
        for kinds in zip(*self._kinds, strict=True):
            mixed = sorted({kind for kind in kinds if kind != "null"})
            if len(mixed) > 1:
                raise self._refuse(
                    f"{' and '.join(mixed)} are mixed in one column of UNION ALL",
                    text.find("UNION"),
                    "a cast, so that the column is of one kind",
                )

    # -- SELECT --------------------------------------------------------------------------------

    def _select(self, query: Select, outer: Ctes) -> tuple[Dataset, BoundSelect, tuple[Order, ...]]:
        if query.foreign:
            word, hint = _CLAUSES.get(query.foreign, ("SELECT", "a SELECT without it"))
            raise self._refuse(
                f"{query.foreign} is not answered",
                query.foreign_span or self._ask.text.find(word),
                hint,
            )
        scope = self._sources.scope(query.source, self._sources.ctes(query.ctes, outer))
        typer = Typer(scope.dataset, self._refuse)
        for part in (part for item, _ in query.items for part in walk(item)):
            if isinstance(part, Foreign):  # nothing else about the statement would help
                typer.of(part)
        items, aliases = self._items(query, scope)
        where = self._where(query, scope, aliases, typer)
        keys, sets = self._groups(query, items, scope, aliases)
        lift = Lift(keys, typer, self._refuse)
        outputs = tuple(
            (lift.output(item), alias) for item, (_, alias) in zip(items, query.items, strict=True)
        )
        having = None
        if query.having is not None:
            having = lift.condition(self._having(query.having, scope, aliases, keys), "HAVING")
            if query.group_all:
                self._require_plain_keys(having, keys)
        order = of_select(
            query,
            aliases,
            lambda e: lift.output(self._names.resolve(e, scope, aliases)),
            self._refuse,
        )
        if not lift.aggregates:
            raise self._refuse(
                "there is no aggregate, so this would show which values exist",
                items[0].span if items else None,
                "the same with COUNT(*) in SELECT",
            )
        self._guards.extend([*typer.guards, *lift.guards])
        self._kinds.append([lift.kind(output) for output, _ in outputs])
        self._sugar.extend(lift.sugar)
        select = BoundSelect(
            where, keys, sets, tuple(lift.aggregates), tuple(lift.groupings), outputs, having
        )
        return scope.dataset, select, order

    def _items(self, query: Select, scope: Scope) -> tuple[list[Expr], dict[str, Expr]]:
        """The meanings of the outputs, and of their aliases; of two that are alike the last."""
        items: list[Expr] = []
        aliases: dict[str, Expr] = {}
        for item, alias in query.items:
            items.append(self._names.resolve(item, scope, aliases))
            if alias:
                aliases[fold(alias)] = items[-1]
        return items, aliases

    def _where(
        self, query: Select, scope: Scope, aliases: Mapping[str, Expr], typer: Typer
    ) -> Expr | None:
        parts = list(scope.where)
        if query.where is not None:
            parts.append(
                row(self._names.resolve(query.where, scope, aliases), "WHERE", self._refuse)
            )
        for part in parts:
            typer.boolean(part, "WHERE")
        listed = tuple(c for part in parts for c in conjuncts(part))
        return None if not listed else listed[0] if len(listed) == 1 else Logic("AND", listed)

    def _having(
        self, expr: Expr, scope: Scope, aliases: Mapping[str, Expr], keys: Sequence[Expr]
    ) -> Expr:
        """A part of HAVING: a name is a key, then an alias, then a column in an aggregate."""
        match expr:
            case Ref(path=(name,)) if fold(name) in aliases:
                field = scope.names.get(fold(name))
                if field and field[1] in keys:
                    return field[1]
                return self._names.alias(expr, name, scope, aliases)
            case Call(name=name) if name in AGGREGATES:
                return self._names.resolve(expr, scope, aliases)
        if not children(expr):
            return self._names.resolve(expr, scope, aliases)
        return rebuild(expr, lambda part: self._having(part, scope, aliases, keys))

    def _require_plain_keys(self, having: Expr, keys: Sequence[Expr]) -> None:
        """Refuse computed keys in HAVING under GROUP BY ALL: DuckDB's versions group otherwise."""
        for part in walk(having):
            if not isinstance(part, Slot) or part.name[0] != "k":
                continue
            if not isinstance(keys[int(part.name[1:])], Column):
                raise self._refuse(
                    "HAVING of a computed key under GROUP BY ALL",
                    part.span,
                    "GROUP BY with the keys by name or position",
                )

    # -- GROUP BY ------------------------------------------------------------------------------

    def _groups(
        self,
        query: Select,
        items: Sequence[Expr],
        scope: Scope,
        aliases: Mapping[str, Expr],
    ) -> tuple[tuple[Expr, ...], tuple[tuple[int, ...], ...]]:
        """Group keys, each once, and the grouping sets as indexes into them."""
        if query.group_all:
            resolved = [item for item in items if columns(item) and not aggregated(item)]
            sets: tuple[tuple[int, ...], ...] = (tuple(range(len(resolved))),)
        else:
            resolved = [self._group(e, items, scope, aliases) for e in query.groups]
            sets = query.sets or ((),)
        if not resolved and len(sets) == 1:
            return (), ((),)
        at = query.groups[0].span if query.groups else self._ask.text.find("GROUPING")
        if len(resolved) > MAX_KEYS:
            raise self._refuse(
                f"{len(resolved):,} group keys; at most {MAX_KEYS} are answered", at, "fewer keys"
            )
        keys = list(dict.fromkeys(resolved))
        place = [keys.index(key) for key in resolved]
        merged = tuple(tuple(sorted({place[i] for i in s})) for s in sets)
        if len(merged) > MAX_SETS:
            raise self._refuse(
                f"{len(merged):,} grouping sets; at most {MAX_SETS:,} are answered",
                at,
                "fewer columns in CUBE or ROLLUP",
            )
        if len(set(merged)) < len(merged):
            raise self._refuse(
                "a grouping set is listed twice, which would buy the same counts twice",
                at,
                "each grouping set once",
            )
        if len(sets) > 1 and len(keys) < len(resolved):
            raise self._refuse(
                "a key of the grouping sets is written in two ways", at, "each key in one way"
            )
        return tuple(keys), tuple(sorted(merged, key=len, reverse=True))  # totals come last

    def _group(
        self, expr: Expr, items: Sequence[Expr], scope: Scope, aliases: Mapping[str, Expr]
    ) -> Expr:
        """A group key; a position or an alias stands for an output where it stands alone."""
        if isinstance(expr, Param):
            expr = self._param(expr)
        if isinstance(expr, Const) and expr.kind == "integer":
            found = items[position(expr, len(items), "GROUP BY", self._refuse)]
        else:
            known = aliases if isinstance(expr, Ref) else {}
            found = self._names.resolve(expr, scope, known)
        return row(found, "GROUP BY", self._refuse)
