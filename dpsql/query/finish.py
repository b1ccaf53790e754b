"""From released values to the statement's rows: outputs, HAVING, ORDER BY and LIMIT.

All of it is post-processing of noisy values, and DuckDB does it, in the empty database, so that it
means what DuckDB says. An output that is an error for the values at hand is NULL.
"""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.query.compile import Compiled, CompiledSelect
from dpsql.query.expr import Call, Const, Expr, Slot, Star, quote, rebuild, render, walk
from dpsql.query.grid import Grid
from dpsql.query.guards import defined
from dpsql.query.syntax import Order


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """The released values of one aggregate, one a group; `null` marks those withheld.

    `type` is DuckDB's: BIGINT and HUGEINT hold integers, DOUBLE floats; DECIMAL, and HUGEINT that
    64 bits do not hold, are texts.
    """

    type: str
    values: NDArray[Any]
    null: NDArray[np.bool_] | None = None

    def listed(self) -> list[Any]:
        """The values as Python has them."""
        found: list[Any] = self.values.tolist()
        if self.type.startswith("DECIMAL"):
            found = [decimal.Decimal(text) for text in found]
        elif self.type == "HUGEINT":
            found = [int(number) for number in found]
        if self.null is None:
            return found
        return [None if out else value for value, out in zip(found, self.null, strict=True)]


@dataclass(frozen=True, slots=True)
class Finished:
    """The rows of an answer, and the compiled row (group) that each one is about."""

    rows: tuple[tuple[Any, ...], ...]
    sources: tuple[int, ...]


def finish(compiled: Compiled, grid: Grid, released: Sequence[Sequence[Values]]) -> Finished:
    """The rows of the statement from the released values of its aggregates."""
    if _plain(compiled):
        return _as_is(compiled.selects[0], released[0])
    bound = compiled.bound
    parts = []
    tables: dict[str, dict[str, NDArray[Any]]] = {}
    start = 0
    for index, (select, values) in enumerate(zip(compiled.selects, released, strict=True)):
        name = f"released{index}"
        tables[name] = _table(select, values, start)
        start += select.groups.size
        items = [_guarded(expr) for expr, _ in select.bound.items]
        aliased = [f"{item} AS {quote(f'c{i}')}" for i, item in enumerate(items)]
        having = select.bound.having
        condition = "" if having is None else f" WHERE {_guarded(having)}"
        listed = ", ".join([*aliased, '"row#"'])
        parts.append(f"SELECT {listed} FROM {_source(name, select, values)}{condition}")
    sql = " UNION ALL ".join(parts) if len(parts) > 1 else parts[0]
    sql += _order(bound.order)
    if bound.limit is not None:
        sql += f" LIMIT {render(bound.limit)}"
    if bound.offset is not None:
        sql += f" OFFSET {render(bound.offset)}"
    rows = grid.empty.rows(sql, tables=tables)
    return Finished(tuple(row[:-1] for row in rows), tuple(row[-1] for row in rows))


def planned(compiled: Compiled, grid: Grid) -> Finished:
    """Every row that the statement could have, with its group keys and no values."""
    rows: list[tuple[Any, ...]] = []
    start = 0
    for select in compiled.selects:
        keyed = [
            e if all(not isinstance(p, Slot) or p.name[0] in "kg" for p in walk(e)) else None
            for e, _ in select.bound.items
        ]
        if all(e is None or (isinstance(e, Slot) and e.name[0] == "k") for e in keyed):
            groups = select.groups  # keys as they are, as of most statements of a script
            own = [[None] * groups.size if e is None else _key(select, e) for e in keyed]
            rows.extend(zip(*own, strict=True))
            start += groups.size
            continue
        items = ", ".join("NULL" if e is None else _guarded(e) for e in keyed)
        table = _table(select, [], start)
        found = grid.empty.rows(
            f'SELECT {items}, "row#" FROM {_source("released0", select, [])} ORDER BY "row#"',
            tables={"released0": table},
        )
        start += select.groups.size
        rows.extend(row[:-1] for row in found)
    return Finished(tuple(rows), tuple(range(len(rows))))


def _plain(compiled: Compiled) -> bool:
    """Whether the outputs are the keys and aggregates themselves, in the order of groups."""
    bound = compiled.bound
    if len(compiled.selects) > 1 or bound.order or bound.limit is not None:
        return False
    if bound.offset is not None or bound.selects[0].having is not None:
        return False
    return all(isinstance(e, Slot) and e.name[0] in "ka" for e, _ in bound.selects[0].items)


def _as_is(select: CompiledSelect, released: Sequence[Values]) -> Finished:
    columns = []
    for expr, _ in select.bound.items:
        assert isinstance(expr, Slot)
        own = expr.name[0] == "k"
        columns.append(_key(select, expr) if own else released[int(expr.name[1:])].listed())
    rows = tuple(zip(*columns, strict=True))
    return Finished(rows, tuple(range(len(rows))))


def _key(select: CompiledSelect, expr: Expr) -> list[Any]:
    """The values of a key in all groups."""
    assert isinstance(expr, Slot)
    return select.groups.values(int(expr.name[1:]))


def _table(
    select: CompiledSelect, released: Sequence[Values], start: int
) -> dict[str, NDArray[Any]]:
    """The columns of a released table, as DuckDB can read them."""
    groups = select.groups
    table: dict[str, NDArray[Any]] = {"row#": np.arange(start, start + groups.size, dtype=np.int64)}
    for key in range(len(groups.keys)):
        table[f"code{key}"] = np.ascontiguousarray(groups.codes[:, key])
    for index, listed in enumerate(select.bound.groupings):
        table[f"g{index}"] = groups.grouping(listed)
    for index, values in enumerate(released):
        table[f"value{index}"] = values.values
        if values.null is not None:
            table[f"null{index}"] = values.null
    return table


def _source(name: str, select: CompiledSelect, released: Sequence[Values]) -> str:
    """SQL of a released table with its keys' values and its aggregates."""
    listed = ['r."row#"', *(f"r.g{i}" for i in range(len(select.bound.groupings)))]
    joins = []
    for index, key in enumerate(select.groups.keys):
        listed.append(f"t{index}.v AS k{index}")
        joins.append(f" LEFT JOIN {key.source} AS t{index} ON r.code{index} = t{index}.i")
    for index, values in enumerate(released):
        value = f"CAST(r.value{index} AS {values.type})"
        if values.null is not None:
            value = f"CASE WHEN r.null{index} THEN NULL ELSE {value} END"
        listed.append(f"{value} AS a{index}")
    return f"(SELECT {', '.join(listed)} FROM temp.{name} AS r{''.join(joins)})"


def _guarded(expr: Expr) -> str:
    """An output's SQL; one that computes is NULL where it would be an error."""
    if isinstance(expr, Slot | Const):
        return render(expr)
    return f"TRY({render(_defined(expr))})"


def _defined(expr: Expr) -> Expr:
    """The same, NULL where a divisor is 0 or a root or logarithm is out of range."""
    found = rebuild(expr, _defined)
    return defined(found) if isinstance(found, Call) else found


def _order(order: Sequence[Order]) -> str:
    listed = []
    for entry in order:
        text = "ALL" if isinstance(entry.expr, Star) else _guarded(entry.expr)
        if entry.descending is not None:
            text += " DESC" if entry.descending else " ASC"
        if entry.nulls_first is not None:
            text += " NULLS FIRST" if entry.nulls_first else " NULLS LAST"
        listed.append(text)
    if not any(isinstance(entry.expr, Star) for entry in order):
        listed.append('"row#"')
    return " ORDER BY " + ", ".join(listed)
