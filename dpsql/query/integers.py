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

from dpsql.query.expr import Between, Column, Compare, Const, Expr, Op
from dpsql.query.predicate import FALSE, TRUE, UNKNOWN
from dpsql.schema import Column as Declared
from dpsql.schema import Kind

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_BITS = 62  # of a literal; longer ones are DuckDB's to read


def compared(expr: Expr, column: Declared) -> NDArray[np.uint8] | None:
    """The truth of a condition on each cell of its one column; None for any other condition."""
    if column.kind is not Kind.INTEGER or not isinstance(column.minimum, int):
        return None
    first = column.minimum
    values = np.arange(first, first + column.size, dtype=np.int64)
    match expr:
        case Compare(op=op, left=Column(), right=Const() as right) if op in _OPERATORS:
            holds = _holds(values, op, right)
        case Compare(op=op, left=Const() as left, right=Column()) if op in _OPERATORS:
            holds = _holds(values, _FLIPPED[op], left)
        case Between(value=Column(), low=Const() as low, high=Const() as high):
            above, below = _holds(values, ">=", low), _holds(values, "<=", high)
            holds = None if above is None or below is None else above & below
        case Op(name="IN", args=(Column(), *listed)):
            holds = _among(values, listed)
        case _:
            return None
    if holds is None:
        return None
    found = np.where(holds, np.uint8(TRUE), np.uint8(FALSE))
    return np.append(found, np.uint8(UNKNOWN)) if column.nullable else found


def _among(values: NDArray[np.int64], listed: Sequence[Expr]) -> NDArray[np.bool_] | None:
    found = np.zeros(len(values), bool)
    for one in listed:
        equal = _holds(values, "=", one) if isinstance(one, Const) else None
        if equal is None:
            return None
        found |= equal
    return found


def _holds(values: NDArray[np.int64], op: str, literal: Const) -> NDArray[np.bool_] | None:
    """Which values compare so with a literal; None unless that is a whole number."""
    if literal.kind != "integer":
        return None
    number = int(literal.text)
    if number.bit_length() > _BITS:
        return None
    found: NDArray[np.bool_] = _OPERATORS[op](values, number)
    return found
