"""What can be wrong with one column of a schema: keys, types of values, the domain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from dpsql.schema.domains import (
    category_faults,
    date_faults,
    edges_faults,
    integer_faults,
    number_faults,
)
from dpsql.schema.faults import Fault, name_of
from dpsql.schema.kinds import KEYS, REQUIRED, Kind

GRID = ("min", "max", "step")


def column_faults(kind: Kind, nullable: bool, fields: Mapping[str, object]) -> Iterator[Fault]:
    """Faults of the keys that describe the domain of a column of this kind.

    `fields` has the keys that are given: values, min, max, step, edges.
    """
    yield from _presence_faults(kind, tuple(fields))
    good: dict[str, Any] = {}
    for key in KEYS[kind]:
        if key in fields:
            wanted = _WANTED[kind, key]
            if _is(wanted, fields[key]):
                good[key] = fields[key]
            else:
                fix = f"write {wanted}: {key} = {_EXAMPLES[kind, key]}"
                yield Fault((key,), f"{key} {_found(fields[key])}", fix)
    match kind:
        case Kind.CATEGORY:
            if "values" in good:
                yield from category_faults(good["values"], nullable)
        case Kind.INTEGER:
            yield from integer_faults(good.get("min"), good.get("max"), nullable)
        case Kind.NUMBER:
            if "edges" in good:
                yield from edges_faults(good["edges"], nullable)
            elif "edges" not in fields:
                low, high, step = (good.get(key) for key in GRID)
                yield from number_faults(low, high, step, nullable)
        case Kind.DATE:
            step = good.get("step", None if "step" in fields else "day")
            yield from date_faults(good.get("min"), good.get("max"), step, nullable)
        case Kind.BOOLEAN:
            return


def _presence_faults(kind: Kind, given: Sequence[str]) -> Iterator[Fault]:
    """Keys that a kind of column needs, and keys that it has no use for."""
    takes = KEYS[kind]
    for key in given:
        if key not in takes:
            fix = f"remove it: it takes {', '.join(takes)}" if takes else "remove it"
            yield Fault((key,), f"a column of type {kind.value} takes no {key}", fix)
    if kind is Kind.NUMBER and "edges" in given:
        for key in GRID:
            if key in given:
                found = f"edges already say where the bins lie, {key} cannot too"
                yield Fault((key,), found, "keep either edges, or min, max and step")
        return
    for key in GRID if kind is Kind.NUMBER else REQUIRED[kind]:
        if key not in given:
            fix = f"add {key} = {_EXAMPLES[kind, key]}"
            if kind is Kind.NUMBER:
                fix += ", or edges = [0, 10, 100] in place of min, max and step"
            yield Fault((key,), f"a column of type {kind.value} needs {key}", fix)


def _is(wanted: str, value: object) -> bool:
    match wanted:
        case "a list":
            return isinstance(value, list | tuple)
        case "a list of numbers":
            return isinstance(value, list | tuple) and all(isinstance(v, Decimal) for v in value)
        case "an integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "a number":
            return isinstance(value, Decimal)
        case "a date":
            return isinstance(value, date) and not isinstance(value, datetime)
        case _:
            return isinstance(value, str)


def _found(value: object) -> str:
    """What a value of a wrong type is; for a list, what is wrong in it."""
    if isinstance(value, list | tuple):
        odd = [item for item in value if not isinstance(item, Decimal)]
        return f"holds {name_of(odd[0])}" if odd else "is a list"
    return f"is {name_of(value)}"


_WANTED: dict[tuple[Kind, str], str] = {
    (Kind.CATEGORY, "values"): "a list",
    (Kind.INTEGER, "min"): "an integer",
    (Kind.INTEGER, "max"): "an integer",
    (Kind.NUMBER, "min"): "a number",
    (Kind.NUMBER, "max"): "a number",
    (Kind.NUMBER, "step"): "a number",
    (Kind.NUMBER, "edges"): "a list of numbers",
    (Kind.DATE, "min"): "a date",
    (Kind.DATE, "max"): "a date",
    (Kind.DATE, "step"): "text",
}

_EXAMPLES: dict[tuple[Kind, str], str] = {
    (Kind.CATEGORY, "values"): '["a", "b"]',
    (Kind.INTEGER, "min"): "0",
    (Kind.INTEGER, "max"): "100",
    (Kind.NUMBER, "min"): "0",
    (Kind.NUMBER, "max"): "100",
    (Kind.NUMBER, "step"): "0.5",
    (Kind.NUMBER, "edges"): "[0, 10, 100]",
    (Kind.DATE, "min"): "2025-01-01",
    (Kind.DATE, "max"): "2025-12-31",
    (Kind.DATE, "step"): '"week"',
}
