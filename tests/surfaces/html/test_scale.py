"""Axes have few, round marks that hold what is drawn."""

from __future__ import annotations

import datetime
import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.surfaces.html.scale import dates, numbers, seconds

NUMBER = st.floats(-1e12, 1e12, allow_nan=False).map(lambda x: round(x, 6))


@given(NUMBER, NUMBER, st.integers(2, 10), st.booleans())
def test_marks_are_few_even_and_within(one: float, other: float, most: int, tight: bool) -> None:
    low, high = sorted((one, other))
    scale = numbers(low, high, most, tight=tight)
    marks = [mark for mark, _ in scale.ticks]
    assert len(marks) <= most + 2
    assert scale.low < scale.high
    assert scale.part(low) <= scale.part(high)
    slack = 1e-9 * max(abs(low), abs(high), 1.0)
    if high > low:
        assert scale.low <= low + slack and high <= scale.high + slack
    gaps = [after - before for before, after in itertools.pairwise(marks)]
    assert all(math.isclose(gap, gaps[0], rel_tol=1e-6, abs_tol=slack) for gap in gaps)
    assert all(scale.low - slack <= mark <= scale.high + slack for mark in marks)


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0, 1, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (0, 21_821, ["0", "5 k", "10 k", "15 k", "20 k", "25 k"]),
        (-40, 130, ["-50", "0", "50", "100", "150"]),
        (0, 3_400_000, ["0", "1 M", "2 M", "3 M", "4 M"]),
        (0, 4, ["0", "1", "2", "3", "4"]),
        (0, 2_000, ["0", "500", "1,000", "1,500", "2,000"]),
        (0, 0.0004, ["0.0000", "0.0001", "0.0002", "0.0003", "0.0004"]),
    ],
)
def test_marks_read_well(low: float, high: float, words: list[str]) -> None:
    assert [word for _, word in numbers(low, high, 5).ticks] == words


def test_a_little_noise_below_zero_takes_no_room() -> None:
    scale = numbers(-21, 930, 5)
    assert (scale.low, scale.ticks[0], scale.high) == (-21, (0, "0"), 1_000)
    assert numbers(-210, 930, 4).low == -210
    assert numbers(-290, 930, 4).low == -500


@pytest.mark.parametrize(
    ("first", "last", "words"),
    [
        ("2025-01-01", "2025-12-31", ["Jan 2025", "Mar", "May", "Jul", "Sep", "Nov"]),
        ("2025-03-03", "2025-03-08", ["3 Mar", "4 Mar", "5 Mar", "6 Mar", "7 Mar", "8 Mar"]),
        ("2023-05-01", "2025-06-01", ["Jul 2023", "Jan 2024", "Jul", "Jan 2025"]),
        ("1990-01-01", "2020-01-01", ["1990", "1995", "2000", "2005", "2010", "2015", "2020"]),
    ],
)
def test_dates_fall_on_months_and_years(first: str, last: str, words: list[str]) -> None:
    low, high = (seconds(datetime.date.fromisoformat(day)) for day in (first, last))
    assert [word for _, word in dates(low, high, 6).ticks] == words


def test_hours_are_marked_on_a_short_axis() -> None:
    start = seconds(datetime.datetime(2025, 1, 1, 22, 10))
    assert [w for _, w in dates(start, start + 4 * 3600, 6).ticks] == [
        "23:00", "2 Jan", "01:00", "02:00",
    ]  # fmt: skip


@given(st.dates(datetime.date(2, 1, 1)), st.dates(datetime.date(2, 1, 1)))
def test_any_two_dates_make_a_scale(one: datetime.date, other: datetime.date) -> None:
    low, high = sorted((seconds(one), seconds(other)))
    scale = dates(low, high, 6)
    assert len(scale.ticks) <= 9
    assert all(scale.low <= mark <= scale.high for mark, _ in scale.ticks)
