"""Kinds of values, and the rules that refuse what an engine's version or a typo would decide.

No implicit cast between text, number and boolean; a bare column is compared with declared values
only; a column of bins only with its edges; every divisor is collected, to be checked on its grid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dpsql.query import functions, hints
from dpsql.query.declared import Refuse, binned, require_date, require_edge, require_value
from dpsql.query.expr import (
    Between,
    Call,
    Case,
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
    shown,
    walk,
)
from dpsql.query.guards import Guard, guards
from dpsql.schema import Column as Declared
from dpsql.schema import Dataset, Kind

MAX_TEXT = 10_000  # characters that any text value of an expression may have


@dataclass(frozen=True, slots=True)
class Type:
    """A kind of value: text (of at most `length` characters), number, boolean, date, ...

    A date that is `timed` is a TIMESTAMP.
    """

    kind: str
    length: int = 0
    parts: tuple[Type, ...] = ()
    timed: bool = False


NUMBER, BOOLEAN, NULL, DATE = Type("number"), Type("boolean"), Type("null"), Type("date")
_CONST = {"integer": NUMBER, "decimal": NUMBER, "double": NUMBER, "null": NULL, "boolean": BOOLEAN}
_CASTS = {
    "VARCHAR": "text", "BOOLEAN": "boolean", "DATE": "date", "TIMESTAMP": "date",
    "TIME": "time", "INTERVAL": "interval",
}  # fmt: skip


class Typer:
    """Finds the kind of an expression over the columns of one dataset, or refuses it.

    `slots` are the kinds of released values: an expression over those stands after the noise, so
    that its literals alone are guarded.
    """

    def __init__(
        self, dataset: Dataset | None, refuse: Refuse, slots: Mapping[str, Type] | None = None
    ) -> None:
        self.dataset, self._refuse, self._slots = dataset, refuse, slots
        self.guards: list[Guard] = []

    @property
    def _dataset(self) -> Dataset:
        assert self.dataset is not None, "an expression without FROM has no columns"
        return self.dataset

    def column(self, name: str) -> Declared:
        """A declared column."""
        return self._dataset.column(name)

    def of(self, expr: Expr) -> Type:
        """The kind of `expr`. Raises Refused, naming the construct and its place."""
        match expr:
            case Column(name=name):
                declared = self._dataset.column(name)
                if declared.edges:
                    raise binned(expr, declared, expr.span, self._refuse)
                return column_type(declared)
            case Slot(name=name):
                assert self._slots is not None, "a released value where there is none yet"
                return self._slots[name]
            case Const(kind=kind, text=text):
                if kind == "text":
                    self._require_characters(expr)
                    return Type("text", len(text))
                return _CONST[kind]
            case Call():
                return self._call(expr)
            case Compare():
                return self._compare(expr)
            case Logic(op=op, args=args):
                for arg in args:
                    self.boolean(arg, f"an operand of {op}")
                return BOOLEAN
            case Op():
                return self._op(expr)
            case Between(value=value, low=low, high=high):
                if isinstance(value, Column) and self._dataset.column(value.name).edges:
                    self.of(value)
                self._same((value, low, high), "BETWEEN", expr.span)
                return BOOLEAN
            case Case(branches=branches, otherwise=otherwise):
                for when, _ in branches:
                    self.boolean(when, "a condition of CASE")
                thens = (*(then for _, then in branches), otherwise)
                return self._same(thens, "the values of CASE", expr.span)
            case Cast(arg=arg, type=name):
                inner = self.of(arg)
                kind = _CASTS.get(name, "number")
                if inner.kind == "row":
                    raise self._refuse("a cast of a row", expr.span, "its columns one by one")
                length = max(inner.length, 64) if kind == "text" else 0
                return Type(kind, length, timed=name == "TIMESTAMP")
            case Star(columns=True):
                raise self._refuse("COLUMNS(*) is not answered", expr.span, hints.LIST)
            case Star():
                raise self._refuse("* inside an expression", expr.span, "COUNT(*), or a column")
            case Param(name=name):
                raise self._refuse(
                    f"the parameter {name} has no value", expr.span, "a value for it, or a literal"
                )
            case Foreign(what=what):
                raise self._refuse(f"{what} is not answered", expr.span, hints.foreign(what))
            case Ref():
                raise AssertionError("names are resolved before they are typed")

    def _require_characters(self, text: Const) -> None:
        """Refuse a text with NUL or a lone surrogate: no value has one, and no parser agrees."""
        if "\0" in text.text or any("\ud800" <= char <= "\udfff" for char in text.text):
            raise self._refuse(
                "a text with a NUL character or half a character", text.span, "the text without it"
            )

    def boolean(self, expr: Expr, where: str) -> None:
        """Refuse an expression that is no condition."""
        found = self.of(expr)
        if found.kind not in ("boolean", "null"):
            raise self._refuse(
                f"{where} must be true or false, and this is a {found.kind}",
                expr.span,
                f"a comparison, e.g. {_COMPARED.get(found.kind, 'IS NOT NULL')}",
            )

    def _same(self, parts: tuple[Expr, ...], where: str, span: Span | None) -> Type:
        """The common kind of several expressions."""
        types = [self.of(part) for part in parts]
        if all([t is NUMBER for t in types]):
            return NUMBER
        known = [t for t in types if t.kind != "null"]
        if not known:
            return NULL
        dates = any(t.kind == "date" for t in known)
        for part, found in zip(parts, types, strict=True):
            literal_date = dates and found.kind == "text" and isinstance(part, Const)
            if found.kind not in ("null", "date" if dates else known[0].kind) and not literal_date:
                first = "date" if dates else known[0].kind
                raise self._refuse(
                    f"{first} and {found.kind} are mixed in {where}",
                    part.span or span,
                    hints.cast(part, first, found.kind),
                )
        rows = {len(t.parts) for t in known}
        if len(rows) > 1:
            raise self._refuse(
                f"{where} puts rows of different lengths together", span, "rows of equal length"
            )
        if dates:
            for part in parts:
                require_date(part, self._refuse)
            return Type("date", timed=any(t.timed for t in known))
        return Type(known[0].kind, max(t.length for t in known), known[0].parts)

    def _compare(self, expr: Compare) -> Type:
        left, right, op = expr.left, expr.right, expr.op
        for column, other, sign in ((left, right, op), (right, left, _MIRROR.get(op, op))):
            if isinstance(column, Column) and self._dataset.column(column.name).edges:
                declared = self._dataset.column(column.name)
                require_edge(column, declared, sign, other, expr.span, self._refuse)
                return BOOLEAN
        self._pairs(expr.op, left, right, expr.span)
        return BOOLEAN

    def _pairs(self, op: str, left: Expr, right: Expr, span: Span | None) -> None:
        """Check a comparison, row by row when it compares rows."""
        rows = [side for side in (left, right) if isinstance(side, Call) and side.name == "row"]
        if rows:
            if len(rows) == 1 or len(rows[0].args) != len(rows[1].args):
                raise self._refuse(
                    "a row is compared with something of another length",
                    span,
                    "rows of equal length, e.g. (a, b) = ('x', 1)",
                )
            for a, b in zip(rows[0].args, rows[1].args, strict=True):
                self._pairs(op, a, b, span)
            return
        self._same((left, right), f"the comparison {op}", span)
        if op in ("=", "<>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"):
            for column, other in ((left, right), (right, left)):
                if isinstance(column, Column):
                    declared = self._dataset.column(column.name)
                    require_value(column, declared, other, self._refuse)

    def _op(self, expr: Op) -> Type:
        name, args = expr.name, expr.args
        match name:
            case "NOT":
                self.boolean(args[0], "the operand of NOT")
                return BOOLEAN
            case "IS NULL" | "IS NOT NULL":
                if not isinstance(args[0], Column):
                    self.of(args[0])
                return BOOLEAN
            case "IN" | "NOT IN":
                for option in args[1:]:
                    if isinstance(args[0], Column) and self._dataset.column(args[0].name).edges:
                        self.of(args[0])
                    self._pairs("=", args[0], option, expr.span)
                return BOOLEAN
            case "COALESCE":
                return self._same(args, "COALESCE", expr.span)
            case "TRY":
                return self.of(args[0])
            case _:
                raise self._refuse(
                    "GROUPING() outside GROUP BY's results", expr.span, "GROUPING(key) in SELECT"
                )

    def _call(self, expr: Call) -> Type:
        name = expr.name
        if name == "row":
            return Type("row", parts=tuple(self.of(arg) for arg in expr.args))
        if expr.distinct or expr.ordered or expr.filter is not None:
            what = "DISTINCT" if expr.distinct else "ORDER BY" if expr.ordered else "FILTER"
            raise self._refuse(f"{what} in {name}()", expr.span, f"{name}() without {what}")
        forms = functions.SIGNATURES.get(name)
        if forms is None:
            raise self._refuse(*functions.refused(expr))
        types = tuple(self.of(arg) for arg in expr.args)
        kinds = tuple(t.kind for t in types)
        for args, value in forms:
            if functions.match(args, kinds):
                self._check_call(expr, types)
                kind = functions.KINDS[value]
                if kind == "any":
                    kind = next((k for k in kinds if k != "null"), "null")
                if "date" in kinds and name in ("+", "-"):
                    return self._moved(expr, types, kind)
                length = self._length(expr, types) if kind == "text" else 0
                return Type(kind, length, timed=kind == "date" and _timed(name, types))
        given = ", ".join(kinds) or "nothing"
        raise self._refuse(
            f"{functions.shown(name)} does not take ({given})",
            expr.span,
            hints.with_casts(expr, kinds)
            or f"{functions.shown(name)} of {functions.forms(name)}, by a CAST where need be",
        )

    def _moved(self, expr: Call, types: tuple[Type, ...], kind: str) -> Type:
        """The kind of a sum or difference with a date, of kind `kind` where all are DATEs.

        Two DATEs are days apart, a TIMESTAMP and another an INTERVAL; a number moves a DATE alone.
        """
        timed = any(t.timed for t in types)
        kinds = [t.kind for t in types]
        if kinds.count("date") == 2:
            return Type("interval") if timed else NUMBER
        if "number" in kinds:
            days = expr.args[kinds.index("number")]
            if timed:
                raise self._refuse(
                    f"a TIMESTAMP {expr.name} a number",
                    days.span or expr.span,
                    hints.cast(days, "interval", "number"),
                )
            if _wide(days):
                raise self._refuse(
                    f"a DATE {expr.name} a number that is no INTEGER",
                    days.span or expr.span,
                    f"CAST({shown(days)} AS INTEGER)",
                )
        return Type(kind, timed=timed or "interval" in kinds)

    def _check_call(self, expr: Call, types: tuple[Type, ...]) -> None:
        """Collect the divisors and roots of a call, and refuse patterns that are not literal."""
        name, args = expr.name, expr.args
        if name.startswith("regexp") and not isinstance(args[1], Const):
            raise self._refuse(
                f"the pattern of {name}() is not a literal", args[1].span, "a quoted pattern"
            )
        if name == "levenshtein" and types[0].length * types[1].length > MAX_TEXT:
            raise self._refuse(
                "levenshtein() of long texts", expr.span, f"texts of {MAX_TEXT**0.5:.0f} characters"
            )
        found = guards(expr)
        if self._slots is not None:  # what is released is guarded by TRY; literals are known now
            found = (g for g in found if not any(isinstance(p, Slot) for p in walk(g.condition)))
        self.guards.extend(found)

    def _length(self, expr: Call, types: tuple[Type, ...]) -> int:
        """A bound on the characters of a text value. Raises Refused above MAX_TEXT."""
        lengths = [t.length for t in types]
        match expr.name:
            case "replace":
                bound = lengths[0] * max(1, lengths[2])
            case "||" | "concat":
                bound = sum(max(length, 64) for length in lengths)
            case "concat_ws":
                bound = sum(max(n, 64) for n in lengths[1:]) + lengths[0] * len(lengths)
            case "lower" | "upper" | "lcase" | "ucase" | "strip_accents":
                bound = 3 * lengths[0]
            case "strftime":
                bound = 64 * lengths[1]
            case "dayname" | "monthname":
                bound = 16
            case _:
                bound = max(lengths, default=0)
        if bound > MAX_TEXT:
            raise self._refuse(
                f"{functions.shown(expr.name)} could make a text of {bound:,} characters",
                expr.span,
                f"an expression whose texts stay below {MAX_TEXT:,} characters",
            )
        return bound


def _wide(number: Expr) -> bool:
    """Whether DuckDB surely makes a number a BIGINT, a DECIMAL or a DOUBLE."""
    match number:
        case Column() | Slot() | Const(kind="decimal" | "double"):
            return True
        case Const(kind="integer", text=text):
            return not -(2**31) <= int(text) < 2**31
        case Call(name="+" | "-" | "*" | "%" | "//" | "abs" | "greatest" | "least", args=args):
            return any(map(_wide, args))
        case Call(name=name):  # the parts of dates, and differences of them
            return any(args in ("d", "td", "tdd") for args, _ in functions.SIGNATURES[name])
        case _:
            return False


def _timed(name: str, types: tuple[Type, ...]) -> bool:
    """Whether a date that a function gives is a TIMESTAMP."""
    match name:
        case "date_trunc" | "datetrunc":
            return True
        case "nullif":
            return types[0].timed
        case "last_day" | "make_date":
            return False
        case _:
            return any(t.timed for t in types)


_COMPARED = {"number": "<> 0", "text": "= 'x'", "date": ">= '2025-01-31'"}
_MIRROR = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def column_type(column: Declared) -> Type:
    """The kind of a declared column."""
    match column.kind:
        case Kind.INTEGER | Kind.NUMBER:
            return NUMBER
        case Kind.CATEGORY if isinstance(column.values[0], int):
            return NUMBER
        case Kind.CATEGORY:
            return Type("text", max(len(str(v)) for v in column.values))
        case Kind.DATE:
            return DATE
        case Kind.BOOLEAN:
            return BOOLEAN
