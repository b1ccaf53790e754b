"""What to write instead of an expression whose kinds do not fit."""

from __future__ import annotations

import math

from dpsql.query import functions
from dpsql.query.expr import Call, Const, Expr, shown

LIST = "list the columns: each in GROUP BY or in an aggregate, beside COUNT(*)"

_TRUTHS = frozenset({"true", "false"})


def cast(part: Expr, kind: str, found: str) -> str:
    """How to make `part`, which is of kind `found`, a value of another kind."""
    name = {"number": "INTEGER", "text": "VARCHAR", "boolean": "BOOLEAN", "date": "DATE"}.get(kind)
    match part:
        case Const(kind="text", text=text) if kind == "number":
            return f"{text}, without quotes" if _is_number(text) else "a number, e.g. 30"
        case Const(kind="text", text=text) if kind == "boolean" and text.lower() in _TRUTHS:
            return f"{text.upper()}, without quotes"
        case Const(kind="integer", text="1" | "0" as text) if kind == "boolean":
            return "TRUE" if text == "1" else "FALSE"
        case Call(name="-", args=(_, Const())) if kind == "date":
            return "the date in quotes, e.g. '2025-01-31'"
        case _ if kind == "date" and found == "number":
            return "dates on both sides, or numbers, e.g. year(date)"
        case Const(kind="integer" | "decimal" | "double", text=text) if kind == "text":
            return f"the text with quotes: '{text}'"
        case Const(kind="integer", text=text) if kind == "interval":
            return f"INTERVAL {text} DAY"
        case _ if kind == "interval":
            return "an interval, e.g. INTERVAL 1 DAY or to_days(...)"
        case _ if found == "interval" and kind == "number":
            return "a number, e.g. a number of days where two DATEs are subtracted"
        case _:
            return f"a cast, so that both sides are alike: CAST(... AS {name or kind.upper()})"


def with_casts(call: Call, kinds: tuple[str, ...]) -> str:
    """The call with the casts to text that would do, or nothing where they would not."""
    forms = functions.SIGNATURES[call.name]
    given = tuple("text" if kind in ("number", "boolean", "date") else kind for kind in kinds)
    if not any(functions.match(args, given) for args, _ in forms):
        return ""
    listed = [
        shown(arg) if kind == "text" else f"CAST({shown(arg)} AS VARCHAR)"
        for arg, kind in zip(call.args, kinds, strict=True)
    ]
    if call.operator:
        return f" {functions.written_operator(call.name)} ".join(listed)
    return f"{call.name}({', '.join(listed)})"


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def foreign(what: str) -> str:
    """What to write instead of a construct that is never answered."""
    if "subquery" in what:
        return "the value itself, asked for in a statement of its own"
    if "ANY or ALL" in what:
        return "IN (...) with the values in parentheses, or comparisons joined by OR and AND"
    if what.startswith(("* ", "COLUMNS")):
        return LIST
    if "window" in what:
        return "GROUP BY, which gives one row a group"
    if "subscript" in what:
        return "substring(column, 1, 1)"
    if "beyond the range" in what:
        return "a smaller number"
    if what.startswith("a cast"):
        return "a cast to INTEGER, DOUBLE, DECIMAL, VARCHAR, BOOLEAN, DATE or TIMESTAMP"
    if what == "a list":
        return "the values in parentheses: IN (1, 2)"
    return "an expression of comparisons and functions on declared columns"
