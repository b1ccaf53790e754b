"""Parameters of a statement: values of the caller that become literals of the analyst."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Mapping, Sequence
from typing import Any

from dpsql.errors import UsageError
from dpsql.query.expr import Const

Key = tuple[tuple[str, str, str], ...]


def literals(params: Sequence[Any] | Mapping[str, Any] | None) -> tuple[dict[str, Const], Key]:
    """Each parameter's literal, by the name it has in the statement; and all of it as a key.

    The n-th `?` is called n. Raises UsageError for a value that SQL has no literal for.
    """
    if params is None:
        return {}, ()
    if isinstance(params, Mapping):
        named = {str(name): value for name, value in params.items()}
    else:
        named = {str(index + 1): value for index, value in enumerate(params)}
    found = {name: _literal(name, value) for name, value in named.items()}
    return found, tuple((name, const.kind, const.text) for name, const in found.items())


def _literal(name: str, value: Any) -> Const:
    match value:
        case None:
            return Const("null", "NULL")
        case bool():
            return Const("boolean", "TRUE" if value else "FALSE")
        case int() if abs(value) < 2**127:
            return Const("integer", str(value))
        case float() if math.isfinite(value):
            text = repr(value)
            return Const("double", text if "e" in text else f"{text}e0")
        case decimal.Decimal() if value.is_finite():
            return Const("decimal", f"{value:f}")
        case str():
            return Const("text", value)
        case datetime.date() if not isinstance(value, datetime.datetime):
            return Const("text", value.isoformat())
    if hasattr(value, "item") and not isinstance(value, str | bytes):  # numpy's scalars
        return _literal(name, value.item())
    raise UsageError(
        f"parameter {name} is a {type(value).__name__}; a parameter is a number, a text, "
        "a date, true, false or None"
    )
