"""Expressions of the SQL that we answer: a small closed tree, and its text in DuckDB's SQL.

`parse.py` makes these trees from DuckDB's own syntax tree; whatever it does not know becomes a
`Foreign`, which no later step accepts. Places in the analyst's text never take part in equality.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from dpsql.query.keywords import RESERVED


@dataclass(frozen=True, slots=True)
class Span:
    """Character offsets [start, end) in the analyst's text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Ref:
    """A name as the analyst wrote it: column, or qualifier and column."""

    path: tuple[str, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Column:
    """A declared column."""

    name: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Slot:
    """A column of the released table: a group key or an aggregate."""

    name: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Const:
    """A literal; `kind` is integer, decimal, double, text, boolean or null."""

    kind: str
    text: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter that has not got its value yet."""

    name: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A function or an operator written as one."""

    name: str
    args: tuple[Expr, ...]
    operator: bool = False
    filter: Expr | None = None
    distinct: bool = False
    ordered: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Compare:
    """`left op right`; op is = <> < > <= >= or IS [NOT] DISTINCT FROM."""

    op: str
    left: Expr
    right: Expr
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Logic:
    """AND or OR of two or more."""

    op: str
    args: tuple[Expr, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Op:
    """NOT, IS NULL, IS NOT NULL, IN, NOT IN, COALESCE, TRY or GROUPING."""

    name: str
    args: tuple[Expr, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Between:
    value: Expr
    low: Expr
    high: Expr
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Case:
    branches: tuple[tuple[Expr, Expr], ...]
    otherwise: Expr
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Cast:
    arg: Expr
    type: str
    lenient: bool = False  # TRY_CAST
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Star:
    """`*`, `t.*`, or the ALL of ORDER BY ALL (`columns`)."""

    relation: str = ""
    columns: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Foreign:
    """A construct that is never answered; `what` names it."""

    what: str
    span: Span | None = field(default=None, compare=False, repr=False)


Expr: TypeAlias = (
    Ref
    | Column
    | Slot
    | Const
    | Param
    | Call
    | Compare
    | Logic
    | Op
    | Between
    | Case
    | Cast
    | Star
    | Foreign
)


_ALONE = frozenset({Ref, Column, Slot, Const, Param, Star, Foreign})  # kinds without parts


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct parts of an expression, left to right."""
    match expr:
        case Call(args=args, filter=condition):
            return args if condition is None else (*args, condition)
        case Compare(left=left, right=right):
            return (left, right)
        case Logic(args=args) | Op(args=args):
            return args
        case Between(value=value, low=low, high=high):
            return (value, low, high)
        case Case(branches=branches, otherwise=otherwise):
            return (*(part for pair in branches for part in pair), otherwise)
        case Cast(arg=arg):
            return (arg,)
        case Ref() | Column() | Slot() | Const() | Param() | Star() | Foreign():
            return ()


def rebuild(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The same expression with `change` applied to each direct part."""
    match expr:
        case Call():
            args = tuple([change(arg) for arg in expr.args])
            condition = None if expr.filter is None else change(expr.filter)
            distinct, ordered = expr.distinct, expr.ordered
            return Call(expr.name, args, expr.operator, condition, distinct, ordered, expr.span)
        case Compare():
            return Compare(expr.op, change(expr.left), change(expr.right), expr.span)
        case Logic():
            return Logic(expr.op, tuple([change(arg) for arg in expr.args]), expr.span)
        case Op():
            return Op(expr.name, tuple([change(arg) for arg in expr.args]), expr.span)
        case Between():
            value, low, high = change(expr.value), change(expr.low), change(expr.high)
            return Between(value, low, high, expr.span)
        case Case():
            branches = tuple([(change(when), change(then)) for when, then in expr.branches])
            return Case(branches, change(expr.otherwise), expr.span)
        case Cast():
            return Cast(change(expr.arg), expr.type, expr.lenient, expr.span)
        case Ref() | Column() | Slot() | Const() | Param() | Star() | Foreign():
            return expr


def walk(expr: Expr) -> list[Expr]:
    """The expression and all its parts, outermost first, left to right."""
    found, left = [], [expr]
    while left:
        part = left.pop()
        found.append(part)
        if type(part) not in _ALONE:
            left += children(part)[::-1]
    return found


def columns(expr: Expr) -> tuple[str, ...]:
    """The declared columns that an expression mentions, each once, sorted."""
    return tuple(sorted({part.name for part in walk(expr) if isinstance(part, Column)}))


def conjuncts(expr: Expr) -> tuple[Expr, ...]:
    """The operands of nested ANDs: all must hold."""
    if isinstance(expr, Logic) and expr.op == "AND":
        return tuple(part for arg in expr.args for part in conjuncts(arg))
    return (expr,)


def size(expr: Expr) -> int:
    """The number of parts of an expression, itself included."""
    return len(walk(expr))


@functools.lru_cache(1024)  # the names of columns come up in every statement
def fold(name: str) -> str:
    """A name as DuckDB compares it: the case of ASCII letters means nothing."""
    return name.translate(_LOWER)


_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def quote(name: str) -> str:
    """A name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def written(name: str) -> str:
    """A name as a person writes it: with quotes only where it needs them."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", name) and fold(name) not in RESERVED
    return name if plain else quote(name)


def shown(expr: Expr) -> str:
    """A column or a literal as a person writes it; dots for anything longer."""
    match expr:
        case Column(name=name):
            return written(name)
        case Const():
            return render(expr)
        case _:
            return "..."


def text_literal(value: str) -> str:
    """A text as a literal of SQL."""
    return "'" + value.replace("'", "''") + "'"


def render(expr: Expr) -> str:
    """The expression in DuckDB's SQL, parenthesised so that it reads in one way only."""
    match expr:
        case Ref(path=path):
            return ".".join(quote(part) for part in path)
        case Column(name=name) | Slot(name=name):
            return quote(name)
        case Const(kind="text", text=text):
            return text_literal(text)
        case Const(kind="null"):
            return "NULL"
        case Const(text=text):
            return f"({text})" if text.startswith("-") else text
        case Call(name=name, args=(left, right), operator=True):
            return f"({render(left)} {name} {render(right)})"
        case Call(name=name, args=(arg,), operator=True):
            return f"({name}({render(arg)}))"
        case Call(name=name, args=args, filter=condition):
            inner = "*" if name == "count_star" else ", ".join(render(arg) for arg in args)
            called = "count" if name == "count_star" else quote(name)
            tail = "" if condition is None else f" FILTER (WHERE {render(condition)})"
            return f"{called}({inner}){tail}"
        case Compare(op=op, left=left, right=right):
            return f"({render(left)} {op} {render(right)})"
        case Logic(op=op, args=args):
            return "(" + f" {op} ".join(render(arg) for arg in args) + ")"
        case Op(name="NOT", args=(arg,)):
            return f"(NOT {render(arg)})"
        case Op(name="IS NULL" | "IS NOT NULL" as name, args=(arg,)):
            return f"({render(arg)} {name})"
        case Op(name="IN" | "NOT IN" as name, args=args):
            listed = ", ".join(render(arg) for arg in args[1:])
            return f"({render(args[0])} {name} ({listed}))"
        case Op(name=name, args=args):
            return f"{name}(" + ", ".join(render(arg) for arg in args) + ")"
        case Between(value=value, low=low, high=high):
            return f"({render(value)} BETWEEN {render(low)} AND {render(high)})"
        case Case(branches=branches, otherwise=otherwise):
            whens = " ".join(f"WHEN {render(w)} THEN {render(t)}" for w, t in branches)
            return f"(CASE {whens} ELSE {render(otherwise)} END)"
        case Cast(arg=arg, type=type_, lenient=lenient):
            return f"{'TRY_CAST' if lenient else 'CAST'}({render(arg)} AS {type_})"
        case Param() | Star() | Foreign():
            raise AssertionError(f"{type(expr).__name__} is never rendered")
