"""Parameters of a statement: values of the caller that become literals of the analyst."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dpsql.errors import Refused, UsageError
from dpsql.query.expr import Cast, Const, Param

Key = tuple[tuple[str, str, str], ...]


def native(params: Any) -> Any:
    """The same parameters as values of Python's own types: NumPy's scalars, and members of enums
    that are numbers or texts, are written unlike what they are."""
    if isinstance(params, Mapping):
        return {name: _plain(value) for name, value in params.items()}
    if isinstance(params, Iterable) and not isinstance(params, str | bytes):
        return [_plain(value) for value in params]
    return params


def _plain(value: Any) -> Any:
    match value:
        case None | bool():
            return value
        case int():
            return int(value)
        case float():
            return float(value)
        case str():
            return str.__str__(value)
    if hasattr(value, "item") and not getattr(value, "shape", ()):  # a scalar of NumPy's
        return _plain(value.item())
    return value


def literals(
    params: Sequence[Any] | Mapping[str, Any] | None,
) -> tuple[dict[str, Const | Cast], Key]:
    """Each parameter's literal, by the name it has in the statement; and all of it as a key.

    The n-th `?` is called n. Raises UsageError for a value that SQL has no literal for.
    """
    if params is None:
        return {}, ()
    if isinstance(params, str | bytes) or not isinstance(params, Mapping | Iterable):
        raise UsageError(
            "parameters are a list or tuple, one value for each ? in the statement, or a mapping "
            f"with a value for each $name; not {type(params).__name__}"
        )
    if isinstance(params, Mapping):
        named = {str(name): value for name, value in params.items()}
    else:
        named = {str(index + 1): value for index, value in enumerate(params)}
    found = {name: _literal(name, value) for name, value in named.items()}
    return found, tuple((name, *_key(literal)) for name, literal in found.items())


def _key(literal: Const | Cast) -> tuple[str, str]:
    match literal:
        case Cast(arg=Const(text=text), type=name):
            return name, text
        case Const(kind=kind, text=text):
            return kind, text
        case _:
            raise AssertionError("a parameter is a literal, or a date")


def require_all(
    asked: tuple[Param, ...], given: Mapping[str, Const | Cast], refuse: Callable[..., Refused]
) -> None:
    """Refuse values that do not answer the parameters of a statement one to one."""
    names = [param.name for param in asked]
    missing = [param for param in asked if param.name not in given]
    extra = [name for name in given if name not in names]
    if not extra and not missing:
        return
    if all(name.isdigit() for name in (*names, *given)):
        most = max((int(name) for name in names), default=0)
        reason = (
            f"the statement has {_counted(most, 'parameter')}, "
            f"and {_counted(len(given), 'value')} {'was' if len(given) == 1 else 'were'} given"
        )
        hint = "one value for each ?"
    elif missing:
        reason = f"there is no value for {', '.join(_written(param.name) for param in missing)}"
        hint = "a list with a value for each ?, or a mapping with one for each $name"
    else:
        reason = f"there is a value for {', '.join(extra)}, which the statement does not have"
        hint = f"values for {', '.join(map(_written, names))}" if names else "no values"
    raise refuse(reason, missing[0].span if missing else None, hint)


def _written(name: str) -> str:
    return "?" if name.isdigit() else f"${name}"


def _counted(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def _literal(name: str, value: Any) -> Const | Cast:
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
            return Cast(Const("text", value.isoformat()), "DATE")
    if isinstance(value, float | decimal.Decimal):
        raise UsageError(
            f"parameter {name} is {value}, which compares like no number of a table; "
            "give a finite number, or None for NULL"
        )
    if isinstance(value, int):
        raise UsageError(f"parameter {name} is beyond 2^127; give a smaller number")
    if isinstance(value, list | tuple | set | frozenset) or hasattr(value, "shape"):
        raise UsageError(
            f"parameter {name} is {_a(value)}; write one ? for each of its values: IN (?, ?)"
        )
    if isinstance(value, datetime.datetime | datetime.time):
        raise UsageError(
            f"parameter {name} is {_a(value)}; give its text, e.g. "
            f"'{value.isoformat(*(' ',) if isinstance(value, datetime.datetime) else ())}', "
            "and CAST(? AS TIMESTAMP)"
        )
    raise UsageError(
        f"parameter {name} is {_a(value)}; a parameter is a number, a text, "
        "a date, true, false or None"
    )


def _a(value: Any) -> str:
    """The type of a value with its article."""
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"
