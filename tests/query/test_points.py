"""The points of a column as DuckDB has them are those that the schema declares."""

from __future__ import annotations

import datetime
import time
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.query.empty import Empty
from dpsql.query.points import points
from dpsql.schema import Column, Kind

EMPTY = Empty()


def made(column: Column) -> list[tuple[object, object]]:
    query, arrays = points(column)
    name = f"p{next(COUNT)}"
    EMPTY.make(name, query, arrays)
    return [tuple(row) for row in EMPTY.rows(f"SELECT i, v FROM {name} ORDER BY i")]


COUNT = iter(range(10**9))


def declared(column: Column) -> list[tuple[object, object]]:
    return list(enumerate([*column.points(), *([None] if column.nullable else [])]))


@st.composite
def grids(draw: st.DrawFn) -> Column:
    digits = draw(st.integers(0, 6))
    step = Decimal(draw(st.integers(1, 999))).scaleb(-digits)
    low = Decimal(draw(st.integers(-(10**9), 10**9))).scaleb(-draw(st.integers(0, 9)))
    count = draw(st.integers(1, 60))
    return Column("x", Kind.NUMBER, draw(st.booleans()), minimum=low, maximum=low + count * step,
                  step=step)  # fmt: skip


@settings(max_examples=120, deadline=None, derandomize=True, database=None)
@given(grids())
def test_decimal_grids_are_the_nearest_doubles(column: Column) -> None:
    assert made(column) == declared(column)


@pytest.mark.parametrize("step", ["day", "week", "month", "year"])
@pytest.mark.parametrize("start", ["2023-12-31", "2024-01-31", "2024-02-29", "1899-12-30"])
def test_grids_of_dates_keep_to_their_day_or_the_last_of_the_month(start: str, step: str) -> None:
    low = datetime.date.fromisoformat(start)
    high = low + datetime.timedelta(days=2_000)
    column = Column("d", Kind.DATE, True, minimum=low, maximum=high, step=step)
    assert made(column) == declared(column)


@pytest.mark.parametrize(
    "column",
    [
        Column("b", Kind.BOOLEAN),
        Column("b", Kind.BOOLEAN, True),
        Column("i", Kind.INTEGER, minimum=-3, maximum=4),
        Column("i", Kind.INTEGER, True, minimum=2**62, maximum=2**62 + 5),
        Column("i", Kind.INTEGER, minimum=-(2**63), maximum=-(2**63) + 2),
        Column("c", Kind.CATEGORY, values=("it's", 'quo"te', "", "日本", "NULL")),
        Column("c", Kind.CATEGORY, True, values=(3, -7, 2**62)),
        Column("e", Kind.NUMBER, True, edges=tuple(map(Decimal, ("-0.5", "0", "1e3")))),
        Column("x", Kind.NUMBER, minimum=Decimal("1e20"), maximum=Decimal("1e20") + 10**6,
               step=Decimal(10**5)),
    ],
    ids=lambda column: f"{column.kind.value}-{column.size}",
)  # fmt: skip
def test_points_of_every_kind_are_those_declared(column: Column) -> None:
    assert made(column) == declared(column)


def test_large_grids_are_made_by_arithmetic() -> None:
    column = Column(
        "x", Kind.NUMBER, minimum=Decimal(0), maximum=Decimal("99999.99"), step=Decimal("0.01")
    )
    query, arrays = points(column)
    assert arrays is None
    started = time.process_time()
    EMPTY.make("large", query)
    assert time.process_time() - started < 5
    assert EMPTY.rows("SELECT count(*), max(v) FROM large") == [(10_000_000, 99999.99)]
    some = EMPTY.rows("SELECT i, v FROM large WHERE i % 333_331 = 7")
    assert some == [(i, column.point(i)) for i, _ in some]
