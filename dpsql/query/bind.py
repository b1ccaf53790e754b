"""A query as written becomes a statement over declared columns, or is refused with its place.

What comes out says everything that the answer needs: the rows kept, the group keys and grouping
sets, the aggregates, and how outputs, HAVING and ORDER BY are made of them after the noise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpsql.query import functions
from dpsql.query.expr import (
    Call,
    Cast,
    Column,
    Compare,
    Const,
    Expr,
    Foreign,
    Logic,
    Op,
    Param,
    Ref,
    Slot,
    Span,
    Star,
    columns,
    conjuncts,
    rebuild,
    walk,
)
from dpsql.query.parse import Ask
from dpsql.query.scope import Resolver, Scope
from dpsql.query.syntax import Cte, Order, Query, Select, Union
from dpsql.query.typing import Guard, Typer, column_type, refused_function
from dpsql.schema import Dataset

MAX_SETS = 1_024  # grouping sets of a statement


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate: `kind` is count, sum, avg, var_pop, ...; NULL arguments are left out."""

    kind: str
    argument: Expr | None
    condition: Expr | None
    boolean: bool = False  # the argument is a condition
    span: Any = dataclasses.field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class BoundSelect:
    """One SELECT over declared columns.

    In `items` and `having`, Slot("k0") is group key 0, Slot("a0") aggregate 0, and Slot("g0") the
    number that GROUPING gives for the keys listed in `groupings[0]`.
    """

    where: Expr | None
    keys: tuple[Expr, ...]
    sets: tuple[tuple[int, ...], ...]
    aggregates: tuple[Aggregate, ...]
    groupings: tuple[tuple[int, ...], ...]
    items: tuple[tuple[Expr, str], ...]
    having: Expr | None


@dataclass(frozen=True, slots=True)
class Bound:
    """A statement to answer: its SELECTs (several for UNION ALL) and what follows the noise."""

    dataset: Dataset
    selects: tuple[BoundSelect, ...]
    order: tuple[Order, ...]
    limit: Expr | None
    offset: Expr | None
    guards: tuple[Guard, ...]
    ask: Ask
    sugar: tuple[Span, ...] = ()  # AVG of a condition, which DuckDB itself does not take


@dataclass(frozen=True, slots=True)
class Probe:
    """A query that tells only the schema: no FROM, LIMIT 0, or a condition that is never true."""

    dataset: Dataset | None
    empty: bool
    ask: Ask


def bind(
    ask: Ask, datasets: Mapping[str, Dataset], params: Mapping[str, Const] | None = None
) -> Bound | Probe:
    """The meaning of a query. Raises Refused for whatever is not answered."""
    return _Binder(ask, datasets, params or {}).bind()


class _Binder:
    def __init__(
        self, ask: Ask, datasets: Mapping[str, Dataset], params: Mapping[str, Const]
    ) -> None:
        self._ask, self._params = ask, params
        self._resolver = Resolver(datasets, ask.text)
        self._refuse = self._resolver.refuse
        self._guards: list[Guard] = []
        self._sugar: list[Span] = []

    def bind(self) -> Bound | Probe:
        query = self._ask.query
        probe = self._probe(query)
        if probe is not None:
            return probe
        bound: list[tuple[Dataset, BoundSelect]] = []
        order = query.order
        if isinstance(query, Select):
            dataset, select, order = self._select(query, {}, top=True)
            bound.append((dataset, select))
        else:
            self._union(query, {}, bound)
            order = self._union_order(query)
        dataset = bound[0][0]
        for other, _ in bound[1:]:
            if other is not dataset:
                raise self._refuse("UNION ALL over two datasets", None, "one statement a dataset")
        for limit, name in ((query.limit, "LIMIT"), (query.offset, "OFFSET")):
            if limit is not None and not (isinstance(limit, Const) and limit.kind == "integer"):
                raise self._refuse(
                    f"{name} that is not a number", limit.span, f"{name} with a whole number"
                )
        return Bound(
            dataset, tuple(s for _, s in bound), order, query.limit, query.offset,
            tuple(self._guards), self._ask, tuple(self._sugar),
        )  # fmt: skip

    # -- probes --------------------------------------------------------------------------------

    def _probe(self, query: Query) -> Probe | None:
        """SELECT 1, LIMIT 0 and WHERE 1=0 over raw columns: schema only, no data."""
        if not isinstance(query, Select) or query.foreign or query.groups or query.group_all:
            return None
        aggregated = any(
            isinstance(p, Call) and (p.name in functions.AGGREGATES or p.name in functions.REFUSED_FUNCTIONS)
            for e, _ in query.items for p in walk(e)
        )  # fmt: skip
        if aggregated or query.having is not None or query.sets or query.ctes:
            return None
        if query.source is None:
            if query.where is not None or query.order:
                return None
            if any(isinstance(p, Ref) for e, _ in query.items for p in walk(e)):
                return None
            typer = Typer(None, self._refuse)
            for item, _ in query.items:
                typer.of(rebuild_params(item, self._param))
            return Probe(None, False, self._ask)
        zero = isinstance(query.limit, Const) and query.limit.text == "0"
        if not zero and not (query.where is not None and _never(query.where)):
            return None
        scope = self._resolver.scope(query.source, {})
        for item, _ in query.items:
            if not isinstance(item, Star):
                Typer(scope.dataset, self._refuse).of(self._resolver.row(item, scope, {}))
        return Probe(scope.dataset, True, self._ask)

    # -- SELECT --------------------------------------------------------------------------------

    def _union(
        self, query: Union, outer: Mapping[str, Cte], bound: list[tuple[Dataset, BoundSelect]]
    ) -> None:
        if query.foreign:
            raise self._refuse(
                f"{query.foreign} is not answered", None, "UNION ALL, or separate statements"
            )
        ctes = self._resolver.ctes(query.ctes, outer)
        for part in query.parts:
            if isinstance(part, Union):
                if part.order or part.limit is not None or part.offset is not None:
                    raise self._refuse("ORDER BY or LIMIT inside UNION ALL", None, "it at the end")
                self._union(part, ctes, bound)
                continue
            if part.order or part.limit is not None or part.offset is not None:
                raise self._refuse("ORDER BY or LIMIT inside UNION ALL", None, "it at the end")
            dataset, select, _ = self._select(part, ctes, top=False)
            bound.append((dataset, select))
        widths = {len(select.items) for _, select in bound}
        if len(widths) > 1:
            raise self._refuse(
                "the SELECTs of UNION ALL have different numbers of columns", None, "equal numbers"
            )

    def _select(
        self, query: Select, outer: Mapping[str, Cte], *, top: bool
    ) -> tuple[Dataset, BoundSelect, tuple[Order, ...]]:
        if query.foreign:
            raise self._refuse(
                f"{query.foreign} is not answered",
                query.foreign_span,
                _FOREIGN_CLAUSES.get(query.foreign, "a SELECT without it"),
            )
        ctes = self._resolver.ctes(query.ctes, outer)
        scope = self._resolver.scope(query.source, ctes)
        items = tuple((rebuild_params(e, self._param), a) for e, a in query.items)
        aliases: dict[str, Expr] = {}
        for item, alias in items:
            if alias:
                aliases.setdefault(alias.lower(), item)
        typer = Typer(scope.dataset, self._refuse)
        where = self._where(query, scope, aliases, typer)
        keys, sets = self._groups(query, items, scope, aliases, typer)
        lift = _Lift(keys, typer, self._refuse)
        outputs = []
        seen: dict[str, Expr] = {}
        for item, alias in items:
            if isinstance(item, Star):
                raise self._refuse(
                    "* shows the rows themselves",
                    item.span,
                    "COUNT(*), or aggregates of columns by name",
                )
            resolved = self._resolver.resolve(item, scope, seen)
            outputs.append((lift.output(resolved, top=True), alias))
            if alias:
                seen.setdefault(alias.lower(), item)
        having = None
        if query.having is not None:
            resolved = self._resolver.resolve(self._params_in(query.having), scope, aliases)
            lift.condition(resolved, "HAVING")
            having = lift.output(resolved)
        order = tuple(
            self._order(entry, items, scope, aliases, lift) for entry in query.order
        ) if top else ()  # fmt: skip
        if not lift.aggregates:
            raise self._refuse(
                "there is no aggregate, so this would show which values exist",
                items[0][0].span if items else None,
                "COUNT(*) with the same columns in GROUP BY",
            )
        self._guards.extend(typer.guards)
        self._sugar.extend(lift.sugar)
        select = BoundSelect(
            where, keys, sets, tuple(lift.aggregates), tuple(lift.groupings), tuple(outputs), having
        )
        return scope.dataset, select, order

    def _where(
        self, query: Select, scope: Scope, aliases: Mapping[str, Expr], typer: Typer
    ) -> Expr | None:
        parts = list(scope.where)
        if query.where is not None:
            parts.append(self._resolver.row(self._params_in(query.where), scope, aliases))
        for part in parts:
            typer.boolean(part, "WHERE")
        if not parts:
            return None
        listed = tuple(c for part in parts for c in conjuncts(part))
        return listed[0] if len(listed) == 1 else Logic("AND", listed)

    def _groups(
        self,
        query: Select,
        items: Sequence[tuple[Expr, str]],
        scope: Scope,
        aliases: Mapping[str, Expr],
        typer: Typer,
    ) -> tuple[tuple[Expr, ...], tuple[tuple[int, ...], ...]]:
        """Group keys, each once, and the grouping sets as indexes into them."""
        if query.group_all:
            written = [e for e, _ in items if not _aggregated(e, aliases)]
            seen: dict[str, Expr] = dict(aliases)
            resolved = [
                self._resolver.row(e, scope, seen) for e in written if not isinstance(e, Star)
            ]
            sets: tuple[tuple[int, ...], ...] = (tuple(range(len(resolved))),)
        else:
            resolved = [self._group(e, items, scope, aliases) for e in query.groups]
            sets = query.sets or ((),)
        keys: list[Expr] = []
        where_is = []
        for key in resolved:
            if not isinstance(key, Column):
                typer.of(key)
            if key not in keys:
                keys.append(key)
            where_is.append(keys.index(key))
        merged = tuple(tuple(sorted({where_is[i] for i in s})) for s in sets)
        if len(merged) > MAX_SETS:
            raise self._refuse(
                f"{len(merged):,} grouping sets; at most {MAX_SETS:,} are answered",
                query.groups[0].span,
                "fewer columns in CUBE or ROLLUP",
            )
        if len(set(merged)) < len(merged):
            raise self._refuse(
                "a grouping set is listed twice, which would buy the same counts twice",
                query.groups[0].span if query.groups else None,
                "each grouping set once",
            )
        return tuple(keys), merged

    def _group(
        self,
        expr: Expr,
        items: Sequence[tuple[Expr, str]],
        scope: Scope,
        aliases: Mapping[str, Expr],
    ) -> Expr:
        expr = self._params_in(expr)
        if isinstance(expr, Const) and expr.kind == "integer":
            expr = self._position(expr, items, "GROUP BY")
        return self._resolver.row(expr, scope, aliases)

    def _position(self, at: Const, items: Sequence[tuple[Expr, str]], clause: str) -> Expr:
        index = int(at.text)
        if not 1 <= index <= len(items):
            raise self._refuse(
                f"{clause} {index}: there are {len(items)} columns in SELECT",
                at.span,
                f"a position from 1 to {len(items)}",
            )
        return items[index - 1][0]

    def _order(
        self,
        entry: Order,
        items: Sequence[tuple[Expr, str]],
        scope: Scope,
        aliases: Mapping[str, Expr],
        lift: _Lift,
    ) -> Order:
        """An ORDER BY entry over slots; Star stands for ALL, an integer for a position."""
        expr = self._params_in(entry.expr)
        if isinstance(expr, Star):
            if not expr.columns or expr.relation:
                raise self._refuse("ORDER BY *", expr.span, "ORDER BY ALL")
            return entry
        if isinstance(expr, Const):
            if expr.kind != "integer":
                return dataclasses.replace(entry, expr=expr)
            self._position(expr, items, "ORDER BY")
            return dataclasses.replace(entry, expr=expr)
        resolved = self._resolver.resolve(expr, scope, aliases, aliases_first=True)
        return dataclasses.replace(entry, expr=lift.output(resolved))

    def _union_order(self, query: Union) -> tuple[Order, ...]:
        """ORDER BY of a UNION ALL: output columns, by name or position."""
        first: Query = query
        while isinstance(first, Union):
            first = first.parts[0]
        found = []
        for entry in query.order:
            expr = entry.expr
            if isinstance(expr, Ref) and len(expr.path) == 1:
                name = expr.path[0].lower()
                for index, (item, alias) in enumerate(first.items):
                    shown = alias or (item.path[-1] if isinstance(item, Ref) else "")
                    if shown.lower() == name:
                        expr = Const("integer", str(index + 1), expr.span)
                        break
            if isinstance(expr, Star) and expr.columns:
                found.append(entry)
                continue
            if not (isinstance(expr, Const) and expr.kind == "integer"):
                raise self._refuse(
                    "ORDER BY of a UNION ALL by something else than a column of it",
                    entry.expr.span,
                    "a name or a position of the first SELECT",
                )
            self._position(expr, first.items, "ORDER BY")
            found.append(dataclasses.replace(entry, expr=expr))
        return tuple(found)

    # -- parameters ----------------------------------------------------------------------------

    def _params_in(self, expr: Expr) -> Expr:
        return rebuild_params(expr, self._param)

    def _param(self, param: Param) -> Expr:
        found = self._params.get(param.name)
        if found is None:
            raise self._refuse(
                f"the parameter {param.name} has no value", param.span, "a value, or a literal"
            )
        return dataclasses.replace(found, span=param.span)


class _Lift:
    """Replaces keys, aggregates and GROUPING by slots of the released table."""

    def __init__(self, keys: tuple[Expr, ...], typer: Typer, refuse: Any) -> None:
        self._keys, self._typer, self._refuse = keys, typer, refuse
        self.aggregates: list[Aggregate] = []
        self.groupings: list[tuple[int, ...]] = []
        self.sugar: list[Span] = []

    def output(self, expr: Expr, *, top: bool = False) -> Expr:
        """`expr` over slots. Raises Refused for a column that is neither key nor aggregated."""
        lifted = self._lift(expr)
        self._check(expr)
        return lifted

    def condition(self, expr: Expr, clause: str) -> None:
        self._typer.boolean(self._opaque(expr), clause)

    def _check(self, expr: Expr) -> None:
        """Type the expression around its aggregates, which are numbers by then."""
        if expr not in self._keys:
            self._typer.of(self._opaque(expr))

    def _opaque(self, expr: Expr) -> Expr:
        if expr in self._keys and isinstance(expr, Column):
            return Cast(
                Const("null", "NULL"), _SQL_KIND[column_type(self._typer.column(expr.name)).kind]
            )
        if isinstance(expr, Call) and expr.name in functions.AGGREGATES:
            return Cast(Const("null", "NULL"), "DOUBLE")
        if isinstance(expr, Op) and expr.name == "GROUPING":
            return Cast(Const("null", "NULL"), "BIGINT")
        return rebuild(expr, self._opaque)

    def _lift(self, expr: Expr) -> Expr:
        if expr in self._keys:
            return Slot(f"k{self._keys.index(expr)}", getattr(expr, "span", None))
        match expr:
            case Call(name=name) if name in functions.AGGREGATES:
                return Slot(f"a{self._aggregate(expr)}", expr.span)
            case Call(name=name) if name not in functions.SIGNATURES and name != "row":
                raise self._refuse(*refused_function(name, expr.span))
            case Op(name="GROUPING", args=args):
                return Slot(f"g{self._grouping(args, expr)}", expr.span)
            case Column(name=name):
                raise self._refuse(
                    f"{name} is neither grouped nor aggregated",
                    expr.span,
                    f"{name} in GROUP BY, or an aggregate of it",
                )
            case _:
                return rebuild(expr, self._lift)

    def _grouping(self, args: tuple[Expr, ...], expr: Op) -> int:
        if any(arg not in self._keys for arg in args):
            raise self._refuse(
                "GROUPING() of something that is no group key", expr.span, "a key of GROUP BY"
            )
        listed = tuple(self._keys.index(arg) for arg in args)
        if listed not in self.groupings:
            self.groupings.append(listed)
        return self.groupings.index(listed)

    def _aggregate(self, call: Call) -> int:
        kind = functions.AGGREGATES[call.name]
        shown = call.name.replace("count_star", "count").upper()
        if call.distinct:
            raise self._refuse(
                f"{shown}(DISTINCT ...) is not a linear query",
                call.span,
                "counts of the values: SELECT c, COUNT(*) FROM ... GROUP BY c",
            )
        if call.ordered:
            raise self._refuse(f"ORDER BY inside {shown}", call.span, f"{shown} without it")
        for part in walk(call):
            if part is not call and isinstance(part, Call) and part.name in functions.AGGREGATES:
                raise self._refuse("an aggregate inside an aggregate", part.span, "one of them")
            if (
                isinstance(part, Call)
                and part.name not in functions.SIGNATURES
                and part.name not in functions.AGGREGATES
                and part.name != "row"
            ):
                raise self._refuse(*refused_function(part.name, part.span))
        condition = call.filter
        if condition is not None:
            self._typer.boolean(condition, "FILTER")
        argument = call.args[0] if call.args else None
        if len(call.args) > 1 or (argument is None and call.name != "count_star"):
            raise self._refuse(f"{shown} takes one argument", call.span, f"{shown}(expression)")
        boolean = False
        if kind == "count" and isinstance(argument, Column):
            pass  # whatever its kind, bins included
        elif argument is not None:
            found = self._typer.of(argument).kind
            boolean = found in ("boolean", "null") and kind != "count"
            if kind == "count_if" and not boolean:
                raise self._refuse(
                    f"{shown} counts a condition, and this is a {found}",
                    argument.span or call.span,
                    "a comparison, e.g. COUNT_IF(c > 0)",
                )
            if kind not in ("count", "count_if") and found not in ("number", "boolean", "null"):
                raise self._refuse(
                    f"{shown} of a {found}", argument.span or call.span, "a number or a condition"
                )
            if boolean and kind not in ("count_if", "sum", "avg"):
                raise self._refuse(
                    f"{shown} of a condition", argument.span or call.span, "AVG(condition)"
                )
        if kind == "avg" and boolean and call.span is not None:
            self.sugar.append(call.span)
        if kind == "count_if":
            kind = "sum"
        aggregate = Aggregate(kind, argument, condition, boolean, call.span)
        if aggregate not in self.aggregates:
            self.aggregates.append(aggregate)
        return self.aggregates.index(aggregate)


_SQL_KIND = {"text": "VARCHAR", "number": "DOUBLE", "boolean": "BOOLEAN", "date": "DATE"}
_FOREIGN_CLAUSES = {
    "SELECT DISTINCT": "GROUP BY with COUNT(*)",
    "QUALIFY": "HAVING, on the noisy counts",
    "a sample of rows": "the whole dataset: noise, not sampling, protects people",
    "LIMIT with a percentage": "LIMIT with a whole number",
}


def rebuild_params(expr: Expr, value: Any) -> Expr:
    """`expr` with every parameter replaced by its literal."""
    if isinstance(expr, Param):
        found: Expr = value(expr)
        return found
    if isinstance(expr, Foreign):
        return expr
    return rebuild(expr, lambda part: rebuild_params(part, value))


def _aggregated(expr: Expr, aliases: Mapping[str, Expr]) -> bool:
    """Whether an expression of SELECT holds an aggregate, its own or through an alias."""
    for part in walk(expr):
        if isinstance(part, Call) and (
            part.name in functions.AGGREGATES or part.name in functions.REFUSED_FUNCTIONS
        ):
            return True
        if isinstance(part, Op) and part.name == "GROUPING":
            return True
    return False


def _never(condition: Expr) -> bool:
    """Whether a condition is a constant comparison that is false, such as 1=0."""
    match condition:
        case Compare(
            op="=", left=Const(kind="integer", text=a), right=Const(kind="integer", text=b)
        ):
            return a != b
        case Const(kind="boolean", text="FALSE"):
            return True
        case _:
            return False


__all__ = ["Aggregate", "Bound", "BoundSelect", "Probe", "bind", "columns"]
