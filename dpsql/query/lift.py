"""Splits the outputs of a SELECT: what is measured, and what is made of it after the noise."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.query import functions
from dpsql.query.declared import Refuse
from dpsql.query.expr import Call, Column, Expr, Op, Slot, Span, Star, rebuild, walk, written
from dpsql.query.guards import Guard
from dpsql.query.statement import Aggregate
from dpsql.query.typing import NUMBER, Type, Typer, column_type


class Lift:
    """Replaces keys, aggregates and GROUPING by slots of the released table."""

    def __init__(self, keys: Sequence[Expr], typer: Typer, refuse: Refuse) -> None:
        self._keys, self._typer, self._refuse = list(keys), typer, refuse
        self._slots = {f"k{index}": self._key_type(key) for index, key in enumerate(keys)}
        self._after = Typer(typer.dataset, refuse, self._slots)
        self.aggregates: list[Aggregate] = []
        self.groupings: list[tuple[int, ...]] = []
        self.sugar: list[Span] = []

    @property
    def guards(self) -> list[Guard]:
        """What must not hold of the literals of outputs."""
        return self._after.guards

    def output(self, expr: Expr) -> Expr:
        """`expr` over slots. Raises Refused for a column that is neither key nor aggregated."""
        lifted = self._lift(expr)
        if self._after.of(lifted).kind == "row":
            raise self._refuse(
                "a row in one column", expr.span, "its parts as columns of their own"
            )
        return lifted

    def kind(self, lifted: Expr) -> str:
        """The kind of an expression over slots."""
        return self._after.of(lifted).kind

    def condition(self, expr: Expr, clause: str) -> Expr:
        """A condition over slots."""
        lifted = self._lift(expr)
        self._after.boolean(lifted, clause)
        return lifted

    def _key_type(self, key: Expr) -> Type:
        if isinstance(key, Column):
            return column_type(self._typer.column(key.name))
        found = self._typer.of(key)
        if found.kind in ("row", "interval"):
            article = "an" if found.kind == "interval" else "a"
            raise self._refuse(
                f"a group key that is {article} {found.kind}", key.span, "one key a column"
            )
        return found

    def _lift(self, expr: Expr) -> Expr:
        if expr in self._keys:
            return Slot(f"k{self._keys.index(expr)}", expr.span)
        match expr:
            case Call(name=name) if name in functions.AGGREGATES:
                index = self._aggregate(expr)
                self._slots[f"a{index}"] = NUMBER
                return Slot(f"a{index}", expr.span)
            case Call(name=name) if name not in functions.SIGNATURES and name != "row":
                raise self._refuse(*functions.refused(expr))
            case Op(name="GROUPING", args=args):
                index = self._grouping(args, expr)
                self._slots[f"g{index}"] = NUMBER
                return Slot(f"g{index}", expr.span)
            case Column():
                name = written(expr.name)
                raise self._refuse(
                    f"{name} is neither grouped nor aggregated, so it would show single rows",
                    expr.span,
                    f"{name} in GROUP BY with COUNT(*) in SELECT, or an aggregate such as "
                    f"COUNT({name})",
                )
            case Star():
                raise self._refuse(
                    "* shows the rows themselves",
                    expr.span,
                    "COUNT(*), or aggregates of columns by name",
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

    # -- aggregates ----------------------------------------------------------------------------

    def _aggregate(self, call: Call) -> int:
        kind = functions.AGGREGATES[call.name]
        name = call.name.replace("count_star", "count").upper()
        self._require_plain(call, name)
        if call.filter is not None:
            self._typer.boolean(call.filter, "FILTER")
        argument = call.args[0] if call.args else None
        if len(call.args) > 1 or (argument is None and call.name != "count_star"):
            raise self._refuse(f"{name} takes one argument", call.span, f"{name}(expression)")
        boolean = argument is not None and self._takes_condition(kind, name, argument, call)
        if kind == "avg" and boolean and call.span is not None:
            self.sugar.append(call.span)
        kind = "sum" if kind == "count_if" else kind
        aggregate = Aggregate(kind, argument, call.filter, boolean, call.span)
        if aggregate not in self.aggregates:
            self.aggregates.append(aggregate)
        return self.aggregates.index(aggregate)

    def _require_plain(self, call: Call, name: str) -> None:
        """Refuse DISTINCT, ORDER BY and aggregates inside an aggregate."""
        if call.distinct:
            raise self._refuse(
                f"{name}(DISTINCT ...) cannot be made from noisy counts",
                call.span,
                functions.refused_name("approx_count_distinct", _column(call))[1],
            )
        if call.ordered:
            raise self._refuse(f"ORDER BY inside {name}", call.span, f"{name} without it")
        for part in walk(call):
            if part is call or not isinstance(part, Call):
                continue
            if part.name in functions.AGGREGATES:
                raise self._refuse("an aggregate inside an aggregate", part.span, "one of them")
            if part.name not in functions.SIGNATURES and part.name != "row":
                raise self._refuse(*functions.refused(part))

    def _takes_condition(self, kind: str, name: str, argument: Expr, call: Call) -> bool:
        """Whether an aggregate is of a condition. Raises Refused for a kind that it cannot take."""
        if kind == "count" and isinstance(argument, Column):
            return False  # whatever its kind, bins included
        found = self._typer.of(argument).kind
        span = argument.span or call.span
        if kind == "count":
            if found == "row":
                raise self._refuse("COUNT of a row", span, "COUNT(*), or COUNT of one column")
            return False
        if kind == "count_if" and found not in ("boolean", "null"):
            raise self._refuse(
                f"{name} counts a condition, and this is a {found}",
                span,
                "a comparison, e.g. COUNT_IF(c > 0)",
            )
        if found not in ("number", "boolean", "null"):
            raise self._refuse(
                f"{name} takes a number or a condition, and this is "
                f"{'an' if found == 'interval' else 'a'} {found}",
                span,
                "date_diff('day', a, b), a number of days"
                if found == "interval"
                else f"{name} of a number, or of a condition such as c = 'x'",
            )
        if found == "boolean" and kind not in ("count_if", "sum", "avg"):
            raise self._refuse(f"{name} of a condition", span, "AVG(condition)")
        return found == "boolean"


def aggregated(expr: Expr) -> bool:
    """Whether an expression holds an aggregate, or one that is refused."""
    return any(
        (isinstance(part, Op) and part.name == "GROUPING")
        or (isinstance(part, Call)
        and (part.name in functions.AGGREGATES or part.name in functions.REFUSED_FUNCTIONS))
        for part in walk(expr)
    )  # fmt: skip


def _column(call: Call) -> str:
    """The first column that a call mentions, for an example."""
    return next((written(part.name) for part in walk(call) if isinstance(part, Column)), "c")
