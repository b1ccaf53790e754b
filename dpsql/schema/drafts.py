"""Drafts a schema file from what a catalogue or another system knows about a table.

Columns whose domain is known are written out; the others stand as comments, to be filled in by
somebody who knows the values from elsewhere than the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal, InvalidOperation
from typing import Final

from dpsql.errors import SchemaError
from dpsql.schema.column import Column
from dpsql.schema.constraint import Limits, limits
from dpsql.schema.dataset import Source, Unit
from dpsql.schema.kinds import Kind, Neighbours
from dpsql.schema.sqltypes import enum_values, kind_of
from dpsql.schema.write import column_line, key, literal, unit_literal

_HEAD: Final = (
    "# Drafted: read every line before anybody asks anything of this table.",
    "# Give each column that is still a comment its values, from documentation or from your",
    "# own knowledge: values that are read off the data tell on the people in it.",
    "# Columns that stay comments cannot be asked about.",
)
_UNSAFE: Final = (
    "# UNSAFE: values or bounds below were READ FROM THE DATA, so they tell on it. Check each one",
    "# against what is publicly known, then remove the line unsafe = true.",
    "# Nothing is answered before that.",
)


@dataclass(frozen=True, slots=True)
class Fact:
    """What is known about a column: its SQL type, and what a catalogue says about its values.

    `values` are those of an ENUM, `checks` the text of CHECK constraints. `from_data` says that
    values or bounds were read off the data.
    """

    name: str
    sql_type: str
    values: tuple[str, ...] | tuple[int, ...] = ()
    minimum: int | Decimal | date | None = None
    maximum: int | Decimal | date | None = None
    step: int | Decimal | str | None = None
    nullable: bool = True
    comment: str = ""
    checks: tuple[str, ...] = ()
    from_data: bool = False


def draft(
    name: str,
    facts: Iterable[Fact],
    *,
    source: Source | None = None,
    unit: Unit | None = None,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    description: str = "",
    remarks: Iterable[str] = (),
) -> str:
    """The text of a schema file to be filled in; it parses as it stands.

    `source` is the table of the same name unless given; without `unit` the unit is a row, and a
    comment asks. `remarks` become comments at the top.
    """
    facts = tuple(facts)
    unsafe = any(fact.from_data for fact in facts)
    source = source or Source(table=name)
    where = {"table": source.table, "query": source.query, "file": source.file}
    lines = [*(_UNSAFE if unsafe else _HEAD), *(_comment(remark) for remark in remarks), ""]
    lines.append(f"dataset = {literal(name)}")
    if description:
        lines.append(f"description = {literal(description)}")
    if unsafe:
        lines.append("unsafe = true")
    lines.append(f"neighbours = {literal(neighbours.value)}")
    if unit is None:
        lines.append("# Does a person have several rows? Then protect the person, not the row:")
        lines.append('# unit = {column = "patient_id", max_rows = 4}')
        lines.append('unit = "row"')
    else:
        lines.append(f"unit = {unit_literal(unit.column, unit.max_rows)}")
    lines += ["", "[source]"]
    lines += [f"{k} = {literal(value)}" for k, value in where.items() if value is not None]
    lines += ["", "[columns]"]
    for fact in facts:
        lines += _lines(fact)
    return "\n".join(lines) + "\n"


def _lines(fact: Fact) -> Iterator[str]:
    kind = kind_of(fact.sql_type)
    for check in fact.checks:
        yield _comment(f"{key(fact.name)}: {check}")
    if kind is None:
        hint = "declare it through a query source that casts it"
        yield _comment(f"{key(fact.name)}: type {fact.sql_type} cannot be declared; {hint}")
        return
    try:
        yield column_line(_column(fact, kind))
    except SchemaError as error:
        missing = [problem for problem in error.problems if "needs" not in problem.found]
        for problem in missing:
            yield _comment(f"{key(fact.name)}: {problem.found}")
        yield _to_fill_in(_known(fact, kind), kind)


def _column(fact: Fact, kind: Kind) -> Column:
    """The column that the facts declare. Raises SchemaError when they do not suffice."""
    known = _known(fact, kind)
    if known.values and kind in (Kind.INTEGER, Kind.CATEGORY):
        return Column(
            fact.name,
            Kind.CATEGORY,
            fact.nullable,
            values=known.values,
            description=fact.comment,
        )
    return Column(
        fact.name,
        kind,
        fact.nullable,
        minimum=known.minimum,
        maximum=known.maximum,
        step=Decimal(known.step) if isinstance(known.step, int) else known.step,
        description=fact.comment,
    )


def _known(fact: Fact, kind: Kind) -> Fact:
    """The fact with what its ENUM type and its constraints add, as values of its kind."""
    said = limits(fact.name, fact.checks)
    values = fact.values or enum_values(fact.sql_type) or _values(said, kind)
    low, high = (
        _bound(said.low, said.low_open, 1, kind),
        _bound(said.high, said.high_open, -1, kind),
    )
    return replace(
        fact,
        values=values,
        minimum=_as(kind, fact.minimum) if fact.minimum is not None else low,
        maximum=_as(kind, fact.maximum) if fact.maximum is not None else high,
    )


def _values(said: Limits, kind: Kind) -> tuple[str, ...] | tuple[int, ...]:
    texts = tuple(value for value in said.values if isinstance(value, str))
    if kind is Kind.CATEGORY:
        return tuple(dict.fromkeys(texts))
    whole = [v for v in said.values if isinstance(v, Decimal) and v == v.to_integral_value()]
    if kind is Kind.INTEGER and len(whole) == len(said.values):
        return tuple(dict.fromkeys(int(value) for value in whole))
    return ()


def _bound(
    value: str | Decimal | None, is_open: bool, inward: int, kind: Kind
) -> int | Decimal | date | None:
    """A bound that a constraint sets; an open one moves inward where points are discrete."""
    try:
        if kind is Kind.DATE and isinstance(value, str):
            return date.fromisoformat(value[:10]) + timedelta(days=inward * is_open)
        if kind is Kind.INTEGER and isinstance(value, Decimal) and value == int(value):
            return int(value) + inward * is_open
        return value if kind is Kind.NUMBER and isinstance(value, Decimal) else None
    except (ValueError, OverflowError, InvalidOperation):
        return None


def _as(kind: Kind, value: int | Decimal | date) -> int | Decimal | date:
    return Decimal(value) if kind is Kind.NUMBER and isinstance(value, int) else value


def _to_fill_in(fact: Fact, kind: Kind) -> str:
    """A comment with the column as far as it is known, and dots where something is missing."""
    bounds: list[tuple[str, object]] = [("min", fact.minimum), ("max", fact.maximum)]
    if kind is Kind.NUMBER:
        bounds.append(("step", fact.step))
    match kind:
        case Kind.CATEGORY:
            fields = ["values = [...]"]
        case Kind.BOOLEAN:
            fields = []
        case _:
            fields = [f"{k} = {'...' if v is None else literal(v)}" for k, v in bounds]
    if fact.nullable:
        fields.append("nullable = true")
    if fact.comment:
        fields.append(f"description = {literal(fact.comment)}")
    shape = ", ".join([f"type = {literal(kind.value)}", *fields])
    return _comment(f"{key(fact.name)} = {{{shape}}}  # {fact.sql_type}")


def _comment(text: str) -> str:
    """One line of comment; TOML allows no control characters there."""
    return "# " + "".join(letter if letter >= " " and letter != "\x7f" else " " for letter in text)
