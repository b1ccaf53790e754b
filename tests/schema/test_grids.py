"""Grids of decimals and dates against DuckDB's own arithmetic."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from fractions import Fraction

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.schema.grids import DecimalGrid, date_point, date_size
from dpsql.schema.kinds import DATE_STEPS

patient = settings(deadline=None)

decimals = st.decimals(-(10**6), 10**6, places=4)
steps = st.decimals(Decimal("0.0001"), 1000, places=4).filter(lambda step: step > 0)


@patient
@given(minimum=decimals, step=steps, index=st.integers(0, 10**6))
def test_a_point_is_the_double_nearest_to_the_exact_decimal(
    minimum: Decimal, step: Decimal, index: int
) -> None:
    point = DecimalGrid.of(minimum, step).point(index)
    assert point == float(Fraction(minimum) + index * Fraction(step))


def test_a_point_is_what_duckdb_reads_from_the_decimal() -> None:
    grid = DecimalGrid.of(Decimal("-0.7"), Decimal("0.1"))
    texts = [f"{Decimal('-0.7') + i * Decimal('0.1')}" for i in range(200)]
    with duckdb.connect() as connection:
        read = [connection.execute("SELECT ?::DOUBLE", [t]).fetchall()[0][0] for t in texts]
    assert [grid.point(i) for i in range(200)] == read


@patient
@given(minimum=decimals, step=steps, size=st.integers(1, 500), part=st.floats(0, 0.999))
def test_the_grid_ends_at_or_below_the_maximum(
    minimum: Decimal, step: Decimal, size: int, part: float
) -> None:
    maximum = minimum + (size - 1 + Decimal(part).quantize(Decimal("0.001"))) * step
    assert DecimalGrid.of(minimum, step).size(maximum) == size


@pytest.mark.parametrize("step", DATE_STEPS)
@pytest.mark.parametrize("start", [date(2024, 1, 31), date(2024, 2, 29), date(1999, 12, 15)])
def test_dates_step_as_duckdb_intervals_do(step: str, start: date) -> None:
    query = f"SELECT (?::DATE + to_{step}s(i::INT))::DATE FROM range(60) t(i) ORDER BY i"
    with duckdb.connect() as connection:
        expected = [row[0] for row in connection.execute(query, [start]).fetchall()]
    assert [date_point(start, step, i) for i in range(60)] == expected


@pytest.mark.parametrize("step", DATE_STEPS)
@patient
@given(start=st.dates(date(1900, 1, 1), date(2100, 1, 1)), days=st.integers(0, 4000))
def test_the_last_date_is_the_last_that_does_not_pass_the_maximum(
    step: str, start: date, days: int
) -> None:
    maximum = date.fromordinal(start.toordinal() + days)
    size = date_size(start, maximum, step)
    assert date_point(start, step, size - 1) <= maximum < date_point(start, step, size)


def test_dates_reach_the_end_of_the_calendar() -> None:
    for step in DATE_STEPS:
        size = date_size(date(9990, 1, 31), date.max, step)
        assert date_point(date(9990, 1, 31), step, size - 1) <= date.max
