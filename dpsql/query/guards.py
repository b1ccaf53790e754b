"""What must hold nowhere on the public grid, since engines' versions disagree about it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from dpsql.query.expr import Call, Case, Compare, Const, Expr, Span, columns
from dpsql.query.functions import shown

DIVISIONS = frozenset({"/", "//", "%", "mod"})
LOGARITHMS = frozenset({"ln", "log", "log2", "log10"})
_ZERO = Const("integer", "0")


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition that must hold nowhere on the public grid, with what to say if it does."""

    condition: Expr
    reason: str
    hint: str
    span: Span | None


def guards(call: Call) -> Iterator[Guard]:
    """The guards of a call: no divisor is 0, no root or logarithm is out of range."""
    name = shown(call.name)
    where = " for some declared value" if columns(call) else ""
    if call.name in DIVISIONS:
        divisor = call.args[1]
        yield Guard(
            Compare("=", divisor, _ZERO),
            f"the divisor of {name} is 0{where}",
            "NULLIF(..., 0) around the divisor",
            getattr(divisor, "span", None) or call.span,
        )
    if call.name == "sqrt":
        yield Guard(
            Compare("<", call.args[0], _ZERO),
            f"{name} of a negative number{where}",
            "sqrt(greatest(..., 0))",
            call.span,
        )
    if call.name in LOGARITHMS:
        for arg in call.args:
            yield Guard(
                Compare("<=", arg, _ZERO),
                f"{name} of a number that is not positive{where}",
                f"{call.name}(NULLIF(greatest(..., 0), 0))",
                call.span,
            )


def defined(call: Call) -> Call:
    """The same call, NULL where a guard of it holds: for values that are known after the noise."""
    if call.name in DIVISIONS:
        args: tuple[Expr, ...] = (call.args[0], Call("nullif", (call.args[1], _ZERO)))
    elif call.name == "sqrt":
        args = (_where(">=", call.args[0]),)
    elif call.name in LOGARITHMS:
        args = tuple(_where(">", arg) for arg in call.args)
    else:
        return call
    return dataclasses.replace(call, args=args)


def _where(op: str, arg: Expr) -> Expr:
    return Case(((Compare(op, arg, _ZERO), arg),), Const("null", "NULL"))
