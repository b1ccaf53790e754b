"""Comparisons of an integer column with whole numbers, which need no database.

All other conditions are evaluated by DuckDB; these, the most frequent, mean the same everywhere,
and the tests compare each with what DuckDB says of it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.query.expr import Between, Call, Column, Compare, Const, Expr, Op
from dpsql.query.predicate import TRUE, UNKNOWN
from dpsql.schema import Column as Declared
from dpsql.schema import Kind

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "%": operator.mod,
}  # fmt: skip
_BITS = 62  # of a literal; longer ones are DuckDB's to read
_INTEGER = 1 << 31  # what an INTEGER is below


def compared(expr: Expr, column: Declared) -> NDArray[np.uint8] | None:
    """The truth of a condition on each cell of its one column; None for any other condition."""
    if column.kind is not Kind.INTEGER or not isinstance(column.minimum, int):
        return None
    first = column.minimum
    values = np.arange(first, first + column.size, dtype=np.int64)
    match expr:
        case Compare(op=op, left=Column(), right=right) if op in _OPERATORS:
            holds = _holds(values, op, right)
        case Compare(op=op, left=left, right=Column()) if op in _OPERATORS:
            holds = _holds(values, _FLIPPED[op], left)
        case Between(value=Column(), low=low, high=high):
            above, below = _holds(values, ">=", low), _holds(values, "<=", high)
            holds = None if above is None or below is None else above & below
        case Op(name="IN", args=(Column(), *listed)):
            holds = _among(values, listed)
        case _:
            return None
    if holds is None:
        return None
    found = holds.astype(np.uint8) * np.uint8(TRUE)
    return np.append(found, np.uint8(UNKNOWN)) if column.nullable else found


def _among(values: NDArray[np.int64], listed: Sequence[Expr]) -> NDArray[np.bool_] | None:
    found = np.zeros(len(values), bool)
    for one in listed:
        equal = _holds(values, "=", one)
        if equal is None:
            return None
        found |= equal
    return found


def _holds(values: NDArray[np.int64], op: str, other: Expr) -> NDArray[np.bool_] | None:
    """Which values compare so with an expression; None unless that is a whole number."""
    number = _number(other)
    if number is None:
        return None
    found: NDArray[np.bool_] = _OPERATORS[op](values, number)
    return found


def _number(expr: Expr) -> int | None:
    """The whole number that a literal is, or the arithmetic of literals that are INTEGER.

    None where one of them or the result is not, so that DuckDB may compute in another type or
    raise an error; and for remainders of, or by, what is not positive.
    """
    match expr:
        case Const(kind="integer", text=text):
            number = int(text)
            return number if number.bit_length() <= _BITS else None
        case Call(name="+" | "-" | "*" | "%" as name, args=(left, right), operator=True):
            one, other = _number(left), _number(right)
            if one is None or other is None or max(abs(one), abs(other)) >= _INTEGER:
                return None
            if name == "%" and not (one >= 0 and other > 0):
                return None
            found: int = _ARITHMETIC[name](one, other)
            return found if abs(found) < _INTEGER else None
        case _:
            return None
