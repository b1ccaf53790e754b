"""Conditions to predicates, CASE to branches: trees whose leaves DuckDB has evaluated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import numpy as np

from dpsql.domain import Domain
from dpsql.errors import Refused
from dpsql.query.expr import (
    Between,
    Case,
    Cast,
    Column,
    Compare,
    Const,
    Expr,
    Logic,
    Op,
    Span,
    children,
    columns,
)
from dpsql.query.grid import Grid
from dpsql.query.guards import Guard
from dpsql.query.predicate import ALWAYS, FALSE, TRUE, UNKNOWN, And, Is, Leaf, Not, Or, Predicate
from dpsql.query.typing import Typer
from dpsql.schema import Kind

NOT_TRUE = -1  # FALSE or UNKNOWN
FEW_BRANCHES = 8  # of a CASE that is always split at its conditions
MOST_BRANCHES = 64  # of a CASE that is split
WHOLE_CELLS = 1 << 16  # of a CASE that is evaluated as a whole
Refuse: TypeAlias = "Callable[[str, Span | None, str], Refused]"
Condition: TypeAlias = "tuple[Expr, int]"  # an expression and the truth that it must have
Branch: TypeAlias = "tuple[tuple[Condition, ...], Expr]"  # all conditions, and the value there

_CONSTANT = {"TRUE": TRUE, "FALSE": FALSE}


class Trees:
    """Builds predicates over one dataset's grid."""

    def __init__(self, grid: Grid, typer: Typer, refuse: Refuse) -> None:
        self._grid, self._typer, self._refuse = grid, typer, refuse
        # by number, for to hash a tree takes long; what is held here keeps its number
        self._prepared: dict[int, tuple[Expr, Leaf]] = {}

    def check(self, guards: Iterable[Guard]) -> None:
        """Refuse when a guarded condition holds somewhere on its public grid."""
        pending = [g for g in guards if not _harmless(g.condition)]
        if not pending:
            return
        leaves = self._grid.truths([g.condition for g in pending], self._refuse)
        for guard, leaf in zip(pending, leaves, strict=True):
            failing = np.flatnonzero(leaf.table == TRUE)
            if len(failing):
                example = self._grid.example(leaf.domain, int(failing[0]))
                raise self._refuse(guard.reason + example, guard.span, guard.hint)

    def prepare(self, exprs: Iterable[Expr]) -> None:
        """Evaluate all leaves of some conditions together, a query for each set of columns."""
        parts = [part for expr in exprs for part in self._leaves(expr)]
        leaves = self._grid.truths(parts, self._refuse)
        self._prepared |= zip(map(id, parts), zip(parts, leaves, strict=True), strict=True)

    def _leaves(self, expr: Expr) -> Iterator[Expr]:
        """The conditions that DuckDB evaluates for `predicate`, left to right."""
        match expr:
            case Const(kind="boolean" | "null"):
                return
            case Logic(args=args) | Op(name="NOT", args=args):
                for arg in args:
                    yield from self._leaves(arg)
            case Case() if not self._as_one(expr):
                for part in children(expr):
                    yield from self._leaves(part)
            case _:
                found = _truth_test(expr)
                if found is None:
                    yield expr
                else:
                    yield from self._leaves(found[0])

    def predicate(self, expr: Expr) -> Predicate:
        """The predicate of a condition."""
        match expr:
            case Const(kind="boolean" | "null", text=text):
                table = np.array([_CONSTANT.get(text, UNKNOWN)], np.uint8)
                return Leaf(Domain((), ()), table)
            case Logic(op="AND", args=args):
                return And(tuple(self.predicate(arg) for arg in args))
            case Logic(args=args):
                return Or(tuple(self.predicate(arg) for arg in args))
            case Op(name="NOT", args=(arg,)):
                return Not(self.predicate(arg))
            case Case(branches=branches, otherwise=otherwise) if not self._as_one(expr):
                parts: list[Predicate] = []
                passed: list[Predicate] = []
                for when, then in branches:
                    chosen = Is(self.predicate(when), TRUE)
                    parts.append(And((*passed, chosen, self.predicate(then))))
                    passed.append(Not(chosen))
                return Or((*parts, And((*passed, self.predicate(otherwise)))))
        found = _truth_test(expr)
        if found is not None:
            arg, wanted, negated = found
            test = Is(self.predicate(arg), wanted)
            return Not(test) if negated else test
        known = self._prepared.get(id(expr))
        return known[1] if known else self._grid.truths([expr], self._refuse)[0]

    def all_of(self, conditions: Iterable[Condition]) -> Predicate:
        """The predicate that holds where every condition has its truth."""
        parts: list[Predicate] = []
        for expr, wanted in conditions:
            part = self.predicate(expr)
            if wanted == TRUE:
                parts.append(part)
            elif wanted == NOT_TRUE:
                parts.append(Not(Is(part, TRUE)))
            else:
                parts.append(Is(part, wanted))
        return parts[0] if len(parts) == 1 else And(tuple(parts)) if parts else ALWAYS

    def branches(self, expr: Expr) -> list[Branch]:
        """The values of a numeric or boolean expression, each with the conditions it holds under.

        The conditions of two branches exclude each other; where none holds the value is NULL.
        A condition has the values 1 and 0.
        """
        return list(self._branches(expr))

    def _branches(self, expr: Expr) -> Iterator[Branch]:
        one, zero = Const("integer", "1"), Const("integer", "0")
        match expr:
            case Const(kind="null"):
                return
            case Const(kind="boolean", text=text):
                yield (), one if text == "TRUE" else zero
            case Case(branches=branches, otherwise=otherwise) if not self._as_one(expr):
                before: tuple[Condition, ...] = ()
                for when, then in branches:
                    for inner, value in self._branches(then):
                        yield (*before, (when, TRUE), *inner), value
                    before = (*before, (when, NOT_TRUE))
                for inner, value in self._branches(otherwise):
                    yield (*before, *inner), value
            case Cast(arg=arg, lenient=False, type=type_) if type_ != "VARCHAR" and (
                isinstance(arg, Case) or self._boolean(arg)
            ):
                for inner, value in self._branches(arg):
                    small = (
                        isinstance(value, Const)
                        and value.kind == "integer"
                        and abs(int(value.text)) < 100
                    )
                    exact = small and type_ != "BOOLEAN"
                    yield inner, value if exact else Cast(value, type_, span=expr.span)
            case _ if self._boolean(expr):
                yield ((expr, TRUE),), one
                yield ((expr, FALSE),), zero
            case _:
                yield (), expr

    def _as_one(self, case: Case) -> bool:
        """Whether a CASE is evaluated as a whole: many branches over few cells.

        Raises Refused for too many branches over too many cells.
        """
        count = len(case.branches)
        if count <= FEW_BRANCHES:
            return False
        names = columns(case)
        cells = self._grid.domain(names).cells
        if cells > WHOLE_CELLS and count > MOST_BRANCHES:
            raise self._refuse(
                f"a CASE of {count:,} branches over {cells:,} combinations of {', '.join(names)}",
                case.span,
                f"at most {MOST_BRANCHES} branches, or a CASE over fewer columns",
            )
        return cells <= WHOLE_CELLS

    def _boolean(self, expr: Expr) -> bool:
        match expr:
            case Const():
                return False
            case Column(name=name):
                return self._typer.column(name).kind is Kind.BOOLEAN
            case _:
                return _composite(expr) or self._typer.of(expr).kind == "boolean"


def _composite(expr: Expr) -> bool:
    """Whether an expression is a condition by its form."""
    match expr:
        case Logic() | Compare() | Between():
            return True
        case Op(name=name):
            return name in ("NOT", "IS NULL", "IS NOT NULL", "IN", "NOT IN")
        case _:
            return False


def _truth_test(expr: Expr) -> tuple[Expr, int, bool] | None:
    """`p IS [NOT] TRUE`, `IS FALSE`, `IS NULL` of a composite: (p, truth, negated)."""
    match expr:
        case Compare(
            op="IS DISTINCT FROM" | "IS NOT DISTINCT FROM" as op,
            left=Cast(arg=arg, type="BOOLEAN"),
            right=Const(kind="boolean" | "null", text=text),
        ) if _composite(arg):
            return arg, _CONSTANT.get(text, UNKNOWN), op == "IS DISTINCT FROM"
        case Op(name="IS NULL" | "IS NOT NULL" as name, args=(arg,)) if _composite(arg):
            return arg, UNKNOWN, name == "IS NOT NULL"
        case _:
            return None


def _harmless(condition: Expr) -> bool:
    """Whether a guard compares a literal other than 0 with 0: nothing to evaluate."""
    match condition:
        case Compare(op="=", left=Const(kind="integer" | "decimal" | "double", text=text)):
            return float(text) != 0
        case _:
            return False
