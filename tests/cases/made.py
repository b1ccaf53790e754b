"""Made tables for what the published ones lack: grids, bins, dates, odd names, replace-one.

The raw tables hold what an owner's table might: values between grid points, and outside of every
domain. What they mean is worked out here row by row, without dpsql.
"""

from __future__ import annotations

import datetime
from bisect import bisect_right
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import duckdb

from tests.query.tables import quoted, sql_literal

VISITS = """
dataset = "visits"
neighbours = "add-remove"
unit = "row"
[source]
table = "raw visits"
[columns]
sex    = {type = "category", values = ["female", "male"]}
state  = {type = "category", values = ["01", "02", "NO"], nullable = true}
grade  = {type = "category", values = [1, 2, 5], nullable = true}
age    = {type = "integer", min = 0, max = 110}
weight = {type = "number", min = 0, max = 200, step = 5}
fever  = {type = "number", min = 36.0, max = 42.0, step = 0.1, nullable = true}
income = {type = "number", edges = [0, 10000, 25000, 50000, 100000]}
week   = {type = "date", min = 2025-01-01, max = 2025-12-31, step = "week"}
born   = {type = "date", min = 1990-01-31, max = 1995-12-31, step = "month"}
seen   = {type = "date", min = 2025-02-20, max = 2025-03-10, nullable = true}
since  = {type = "date", min = 2000-03-01, max = 2020-03-01, step = "year"}
smoker = {type = "boolean", nullable = true}
hours  = {type = "integer", min = 0, max = 99, source = "hours-per-week"}
"""

PANEL = """
dataset = "panel"
neighbours = "replace-one"
unit = "row"
[source]
table = "panel"
[columns]
kind = {type = "category", values = ["a", "b", "c"]}
size = {type = "integer", min = -3, max = 6}
good = {type = "boolean"}
"""

ODD = """
dataset = "select from"
neighbours = "add-remove"
unit = "row"
[source]
table = "odd"
[columns]
group = {type = "category", values = ["it's", 'quo"te', "", "日本", "%_"]}
"été d'hiver" = {type = "integer", min = 1, max = 4}
'quo"te' = {type = "boolean", nullable = true}
"a.b" = {type = "category", values = ["x", "X", "ß"], nullable = true}
"Über" = {type = "integer", min = 0, max = 2}
"""

Row = dict[str, Any]
_OUT = object()  # a value outside of its domain


def _grid(value: float, low: str, high: str, step: str) -> Any:
    """The grid point at or below a value."""
    exact = Decimal(repr(value))
    if not Decimal(low) <= exact <= Decimal(high):
        return _OUT
    count = (exact - Decimal(low)) // Decimal(step)
    point = Decimal(low) + count * Decimal(step)
    return float(point)


def _bin(value: float, edges: list[int]) -> Any:
    """The lower edge of the bin of a value."""
    at = bisect_right(edges, value) - 1
    return float(edges[at]) if 0 <= at < len(edges) - 1 else _OUT


def _date(value: datetime.date, points: list[datetime.date], high: datetime.date) -> Any:
    """The last of some dates that is not after a value."""
    if not points[0] <= value <= high:
        return _OUT
    return max(point for point in points if point <= value)


def _month_ends() -> list[datetime.date]:
    """31 January 1990 and the same day, or the last, of each month after it up to 1995."""
    first = datetime.date(1990, 1, 1)
    found = []
    for month in range(72):
        start = datetime.date(first.year + month // 12, month % 12 + 1, 1)
        following = (start + datetime.timedelta(days=31)).replace(day=1)
        found.append(min(start + datetime.timedelta(days=30), following - datetime.timedelta(1)))
    return found


_WEEKS = [datetime.date(2025, 1, 1) + datetime.timedelta(weeks=n) for n in range(53)]
_DAYS = [datetime.date(2025, 2, 20) + datetime.timedelta(days=n) for n in range(19)]
_YEARS = [datetime.date(2000 + n, 3, 1) for n in range(21)]

# the raw type, how a raw value comes about, what it means, and whether outside values are NULL
Field = tuple[str, Callable[[Random], Any], Callable[[Any], Any], bool]


def _listed(*values: Any) -> Callable[[Any], Any]:
    return lambda value: value if value in values else _OUT


def _span(low: int, high: int) -> Callable[[Any], Any]:
    return lambda value: value if low <= value <= high else _OUT


def _day(rng: Random, start: datetime.date, days: int) -> datetime.date:
    return start + datetime.timedelta(days=rng.randrange(-3, days))


VISIT_FIELDS: dict[str, Field] = {
    "sex": ("VARCHAR", lambda r: r.choice(["female", "male"]), _listed("female", "male"), False),
    "state": (
        "VARCHAR",
        lambda r: r.choice(["01", "02", "NO", "1", None]),
        _listed("01", "02", "NO"),
        True,
    ),
    "grade": ("INTEGER", lambda r: r.choice([1, 2, 5, 5, 3, None]), _listed(1, 2, 5), True),
    "age": ("INTEGER", lambda r: r.randint(0, 112), _span(0, 110), False),
    "weight": (
        "DOUBLE",
        lambda r: r.choice([5.0, 60.0, 62.5, 64.999, 65.0, 199.9, round(r.uniform(0, 203), 2)]),
        lambda v: _grid(v, "0", "200", "5"),
        False,
    ),
    "fever": (
        "DOUBLE",
        lambda r: r.choice([None, 36.0, 36.6, 37.5, 38.05, 41.99, round(r.uniform(35, 43), 2)]),
        lambda v: _grid(v, "36.0", "42.0", "0.1"),
        True,
    ),
    "income": (
        "DOUBLE",
        lambda r: r.choice([0, 9999.99, 10000, 24999, 25000, 60000, r.randint(0, 100500)]),
        lambda v: _bin(v, [0, 10000, 25000, 50000, 100000]),
        False,
    ),
    "week": (
        "DATE",
        lambda r: _day(r, datetime.date(2025, 1, 4), 360),
        lambda v: _date(v, _WEEKS, datetime.date(2025, 12, 31)),
        False,
    ),
    "born": (
        "DATE",
        lambda r: _day(r, datetime.date(1990, 2, 3), 2150),
        lambda v: _date(v, _month_ends(), datetime.date(1995, 12, 31)),
        False,
    ),
    "seen": (
        "DATE",
        lambda r: r.choice([None, _day(r, datetime.date(2025, 2, 20), 25)]),
        lambda v: _date(v, _DAYS, datetime.date(2025, 3, 10)),
        True,
    ),
    "since": (
        "DATE",
        lambda r: _day(r, datetime.date(2000, 3, 4), 7000),
        lambda v: _date(v, _YEARS, datetime.date(2020, 3, 1)),
        False,
    ),
    "smoker": ("BOOLEAN", lambda r: r.choice([True, False, None]), _listed(True, False), True),
    "hours-per-week": ("INTEGER", lambda r: r.randint(0, 99), _span(0, 99), False),
}
PANEL_FIELDS: dict[str, Field] = {
    "kind": ("VARCHAR", lambda r: r.choice("aabc"), _listed("a", "b", "c"), False),
    "size": ("INTEGER", lambda r: r.randint(-3, 6), _span(-3, 6), False),
    "good": ("BOOLEAN", lambda r: r.random() < 0.3, _listed(True, False), False),
}
ODD_FIELDS: dict[str, Field] = {
    "group": (
        "VARCHAR",
        lambda r: r.choice(["it's", 'quo"te', "", "日本", "%_"]),
        _listed("it's", 'quo"te', "", "日本", "%_"),
        False,
    ),
    "été d'hiver": ("INTEGER", lambda r: r.randint(1, 4), _span(1, 4), False),
    'quo"te': ("BOOLEAN", lambda r: r.choice([True, False, None]), _listed(True, False), True),
    "a.b": ("VARCHAR", lambda r: r.choice(["x", "X", "ß", None]), _listed("x", "X", "ß"), True),
    "Über": ("INTEGER", lambda r: r.randint(0, 2), _span(0, 2), False),
}


def fill(
    connection: duckdb.DuckDBPyConnection, name: str, fields: dict[str, Field], n: int
) -> None:
    """Make the raw table `name` with n rows, and `meant <name>` with what they mean."""
    rng = Random(name)
    raw = [{field: make(rng) for field, (_, make, _, _) in fields.items()} for _ in range(n)]
    meant = [row for row in (_meaning(row, fields) for row in raw) if row is not None]
    types = {field: _MEANT.get(sql_type, sql_type) for field, (sql_type, *_) in fields.items()}
    _table(connection, name, {field: spec[0] for field, spec in fields.items()}, raw)
    _table(connection, f"meant {name}", types, meant)


_MEANT = {"INTEGER": "BIGINT"}


def _meaning(row: Row, fields: dict[str, Field]) -> Row | None:
    """What a raw row means, or None where it is not in the dataset."""
    found: Row = {}
    for field, (_, _, meaning, nullable) in fields.items():
        value = None if row[field] is None else meaning(row[field])
        if value is _OUT:
            value = None
        if value is None and not nullable:
            return None
        found[field] = value
    return found


def _table(
    connection: duckdb.DuckDBPyConnection, name: str, types: dict[str, str], rows: list[Row]
) -> None:
    listed = ", ".join(f"{quoted(field)} {sql_type}" for field, sql_type in types.items())
    connection.execute(f"CREATE TABLE {quoted(name)} ({listed})")
    values = ", ".join(f"({', '.join(map(sql_literal, row.values()))})" for row in rows)
    connection.execute(f"INSERT INTO {quoted(name)} VALUES {values}")
