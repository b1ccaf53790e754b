"""Columns: codes, points, equality and the nearest values."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.errors import SchemaError
from dpsql.schema import Column, Kind

patient = settings(deadline=None)

SEX = Column("sex", Kind.CATEGORY, values=("male", "female"))
CODES = Column("code", Kind.CATEGORY, values=(5, -2, 9))
AGE = Column("age", Kind.INTEGER, minimum=-3, maximum=110)
WEIGHT = Column(
    "weight", Kind.NUMBER, minimum=Decimal("-0.3"), maximum=Decimal("2.05"), step=Decimal("0.1")
)
INCOME = Column("income", Kind.NUMBER, edges=(Decimal(0), Decimal("0.1"), Decimal(50)))
DAY = Column("day", Kind.DATE, minimum=date(2024, 1, 31), maximum=date(2025, 3, 1), step="month")
SMOKER = Column("smoker", Kind.BOOLEAN, nullable=True)
ALL = (SEX, CODES, AGE, WEIGHT, INCOME, DAY, SMOKER)

numbers = st.one_of(
    st.integers(-200, 200),
    st.integers(-(2**80), 2**80),
    st.floats(),
    st.floats(-4, 4).map(lambda x: round(x, 1)),
    st.decimals(),
    st.decimals(-4, 4, places=1),
    st.fractions(-4, 4, max_denominator=10),
    st.integers(-200, 200).map(np.int32),
    st.floats(-4, 4).map(np.float64),
)
values = st.one_of(
    numbers,
    st.booleans(),
    st.none(),
    st.text(),
    st.sampled_from(["male", "Male", "5", "0.1", "2024-01-31", "true", ""]),
    st.dates(date(2023, 1, 1), date(2026, 1, 1)),
    st.datetimes(),
    st.sampled_from(DAY.points()),
    st.just(Decimal("sNaN")),
    st.binary(),
    st.lists(st.integers()),
)


def family(value: object) -> str:
    match value:
        case bool():
            return "boolean"
        case str():
            return "text"
        case datetime():
            return "timestamp"
        case date():
            return "date"
        case int() | float() | Decimal() | Fraction() | np.number():
            return "number"
        case _:
            return "other"


def brute_code(column: Column, value: Any) -> int | None:
    """The code of the first point that equals the value, by Python's own equality."""
    if isinstance(value, Decimal) and value.is_snan():
        return None
    if column.kind is Kind.NUMBER and family(value) == "number":
        try:
            value = float(value)
        except OverflowError:
            return None
    for code, point in enumerate(column.points()):
        if family(point) == family(value) and point == value:
            return code
    return None


@pytest.mark.parametrize("column", ALL, ids=lambda column: column.name)
def test_every_code_is_the_code_of_its_point(column: Column) -> None:
    points = column.points()
    assert len(points) == column.size == len(set(points))
    assert [column.code(point) for point in points] == list(range(column.size))
    assert [column.point(code) for code in range(column.size)] == points


@pytest.mark.parametrize("column", ALL, ids=lambda column: column.name)
@patient
@given(value=values)
def test_a_value_has_the_code_of_the_point_it_equals(column: Column, value: Any) -> None:
    if not isinstance(value, datetime):
        assert column.code(value) == brute_code(column, value)


@pytest.mark.parametrize("same", [30, 30.0, Decimal("30"), Decimal("30.00"), Fraction(60, 2)])
def test_numbers_are_equal_across_their_types(same: object) -> None:
    assert AGE.code(same) == 33
    assert AGE.code(np.int64(30)) == 33
    assert AGE.code(Decimal("30.5")) is None


def test_a_decimal_literal_is_the_double_that_it_names() -> None:
    assert WEIGHT.point(3) == 0.0
    assert WEIGHT.point(6) == 0.3
    assert WEIGHT.code(Decimal("0.3")) == WEIGHT.code(0.3) == 6
    assert WEIGHT.code(0.1 + 0.2) is None


def test_text_numbers_booleans_and_dates_never_equal_each_other() -> None:
    assert AGE.code("30") is None
    assert AGE.code(True) is None
    assert CODES.code("5") is None
    assert SMOKER.code(1) is None
    assert SMOKER.code("true") is None
    assert DAY.code("2024-01-31") is None


def test_a_date_equals_its_midnight_only() -> None:
    assert DAY.code(datetime(2024, 2, 29)) == 1
    assert DAY.code(datetime(2024, 2, 29, 12)) is None
    assert DAY.code(datetime(2024, 2, 29, tzinfo=UTC)) is None


def test_null_is_the_last_cell_of_a_nullable_column() -> None:
    assert (SMOKER.size, SMOKER.cells, SMOKER.point(2)) == (2, 3, None)
    assert (SEX.size, SEX.cells) == (2, 2)
    assert SMOKER.code(None) is None
    with pytest.raises(IndexError):
        SEX.point(2)
    with pytest.raises(IndexError):
        SEX.point(-1)


def test_types_are_those_of_sql() -> None:
    found = [column.sql_type for column in ALL]
    assert found == ["VARCHAR", "BIGINT", "BIGINT", "DOUBLE", "DOUBLE", "DATE", "BOOLEAN"]


def test_points_have_the_types_of_sql() -> None:
    found = [type(column.point(0)) for column in ALL]
    assert found == [str, int, int, float, float, date, bool]


def test_bins_stand_at_their_lower_edges() -> None:
    assert INCOME.points() == [0.0, 0.1]


@pytest.mark.parametrize("column", [CODES, AGE, WEIGHT, INCOME], ids=lambda column: column.name)
@patient
@given(value=numbers, n=st.integers(1, 6))
def test_the_nearest_numbers_are_the_nearest(column: Column, value: Any, n: int) -> None:
    found = column.nearest(value, n)
    assert len(found) == len(set(found)) == min(n, column.size)
    assert set(found) <= set(column.points())
    if not (isinstance(value, Decimal) and value.is_nan()) and math.isfinite(value):
        exact = Fraction(value.item() if isinstance(value, np.generic) else value)
        ranked = sorted(column.points(), key=lambda point: (abs(Fraction(point) - exact), point))
        assert list(found) == ranked[:n]


def test_the_nearest_of_an_infinity_is_the_end() -> None:
    assert AGE.nearest(math.inf, 2) == (110, 109)
    assert AGE.nearest(-math.inf, 2) == (-3, -2)
    assert AGE.nearest(Decimal("1e999999"), 1) == (110,)


@patient
@given(value=st.dates(date(2023, 1, 1), date(2026, 1, 1)))
def test_the_nearest_dates_are_the_nearest(value: date) -> None:
    ranked = sorted(DAY.points(), key=lambda point: (abs((point - value).days), point))
    assert list(DAY.nearest(value, 4)) == ranked[:4]


def test_the_nearest_text_is_the_one_that_differs_in_case() -> None:
    assert SEX.nearest("FEMALE") == ("female", "male")
    state = Column("state", Kind.CATEGORY, values=("Ohio", "Oregon", "Iowa", "Utah"))
    assert state.nearest("oregno", 1) == ("Oregon",)
    assert Column("c", Kind.CATEGORY, values=("xyc", "ABC")).nearest("abc", 1) == ("ABC",)


@patient
@given(value=values)
def test_there_are_always_values_to_name(value: object) -> None:
    for column in ALL:
        found = column.nearest(value)
        assert len(found) == min(3, column.size)
        assert set(found) <= set(column.points())


def test_a_wrong_column_cannot_be_built() -> None:
    with pytest.raises(SchemaError, match=r"column 'age': min: min 9 is above max 3; swap them"):
        Column("age", Kind.INTEGER, minimum=9, maximum=3)
    with pytest.raises(SchemaError, match="a column of type integer needs max"):
        Column("age", Kind.INTEGER, minimum=9)
    with pytest.raises(SchemaError, match="takes no values"):
        Column("age", Kind.BOOLEAN, values=("a", "b"))
    with pytest.raises(SchemaError, match="max is a decimal number; write an integer"):
        Column("age", Kind.INTEGER, minimum=0, maximum=Decimal("1.5"))
    with pytest.raises(SchemaError, match="empty"):
        Column("", Kind.BOOLEAN)


def test_a_large_column_is_not_listed_to_be_asked() -> None:
    big = Column("big", Kind.INTEGER, minimum=-(2**63), maximum=-(2**63) + 10**7 - 1)
    assert big.size == 10**7
    assert big.code(-(2**63) + 5) == 5
    assert big.nearest(0, 1) == (-(2**63) + 10**7 - 1,)
