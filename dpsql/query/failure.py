"""Why an expression cannot be evaluated on the declared values: the smallest part that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dpsql.errors import Refused
from dpsql.query.declared import Refuse, sql
from dpsql.query.expr import Call, Cast, Column, Expr, Op, children, columns, render, written
from dpsql.query.functions import SIGNATURES, shown

Fails = Callable[[Expr], bool]
Example = Callable[[str, Sequence[str]], "tuple[Any, ...] | None"]


def explain(exprs: Sequence[Expr], fails: Fails, example: Example, refuse: Refuse) -> Refused:
    """The refusal for expressions of which one is an error for some declared value."""
    broken = [expr for expr in exprs if fails(expr)]
    for part in (part for expr in broken[:1] for part in _inner_first(expr)):
        if isinstance(part, Column) or not fails(part):
            continue
        lenient = "TRY_CAST" if isinstance(part, Cast) else "TRY"
        what = "this cast" if isinstance(part, Cast) else "this expression"
        if isinstance(part, Call) and part.name.startswith("regexp"):
            return refuse(
                f"the pattern of {shown(part.name)} is no regular expression",
                part.args[1].span or part.span,
                "a pattern in the syntax of RE2, e.g. '^a.*b$'",
            )
        if isinstance(part, Call) and part.name in SIGNATURES:
            what = shown(part.name) if part.name[0].isalpha() else f"the operator {part.name}"
        if fails(Op("TRY", (part,))):  # an error before any value is looked at
            return refuse(
                f"DuckDB does not take {what} with values of these types",
                part.span or broken[0].span,
                "a CAST of its parts, e.g. CAST(... AS INTEGER)",
            )
        return refuse(
            f"{what} is an error for some declared value{_values(part, example)}",
            part.span or broken[0].span,
            f"{lenient}(...), which is NULL there, or a CASE that leaves it out",
        )
    return refuse(
        "DuckDB cannot evaluate this expression on the declared values",
        (broken or exprs)[0].span,
        "a comparison of declared columns with literals",
    )


def _values(part: Expr, example: Example) -> str:
    """The first declared values for which a part fails, in words."""
    names = columns(part)
    if not names or any(isinstance(c, Call) and c.name == "row" for c in children(part)):
        return ""
    known = " AND ".join(f"{render(c)} IS NOT NULL" for c in children(part))
    found = example(f"TRY({render(part)}) IS NULL AND {known}", names)
    if found is None:
        return ""
    return ": " + ", ".join(f"{written(n)} = {sql(v)}" for n, v in zip(names, found, strict=True))


def _inner_first(expr: Expr) -> Iterator[Expr]:
    for child in children(expr):
        yield from _inner_first(child)
    yield expr
