"""Numbers as people read them."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.release import Budget, Cost
from dpsql.surfaces.figures import figure, grouped, measured, percent, plain, share


@pytest.mark.parametrize(
    ("value", "low", "high", "shown"),
    [
        (10771, 10724.0, 10818.0, "10,771 ± 47"),
        (-3, -50.0, 44.0, "-3 ± 47"),
        (5, 5.0, 5.0, "5 ± 0"),
        (0.240814, 0.2366, 0.2450, "0.2408 ± 0.0042"),
        (38.58164, 38.2, 38.97, "38.58 ± 0.39"),
        (1234567.25, 1230000.0, 1239134.5, "1,234,567 ± 4,568"),
        (Decimal("1.500"), 1.4, 1.6, "1.50 ± 0.10"),
        (0.5, 0.4, 0.9, "0.50 [0.40, 0.90]"),
        (7, None, None, "7"),
        (12345, None, None, "12,345"),
        (None, None, None, "NULL"),
        ("x", None, None, "x"),
        (True, None, None, "true"),
        (1.5, -math.inf, math.inf, "1.5 [-infinity, infinity]"),
        (float("nan"), 0.0, 1.0, "nan"),
        (3, -0.5, 6.5, "3.0 ± 3.5"),
    ],
)
def test_a_value_is_shown_with_its_half_width(
    value: Any, low: float | None, high: float | None, shown: str
) -> None:
    assert "".join(measured(value, low, high)) == shown


@settings(derandomize=True, deadline=None)
@given(
    st.floats(-1e12, 1e12),
    st.floats(1e-9, 1e6),
)
def test_the_interval_shown_holds_the_released_one(value: float, half: float) -> None:
    low, high = value - half, value + half
    text, error = measured(value, low, high)
    if not error.startswith(" ± "):
        return
    middle, width = (Decimal(part.replace(",", "")) for part in (text, error[3:]))
    slack = width * Decimal("1e-8") + abs(Decimal(value)) * Decimal("1e-15")
    assert middle - width <= Decimal(low) + slack
    assert middle + width >= Decimal(high) - slack


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (0.1, "0.1"),
        (10**20, "1" + "0" * 20),
        (Decimal("1.50"), "1.50"),
        (datetime.date(2025, 1, 2), "2025-01-02"),
        (datetime.datetime(2025, 1, 2, 3, 4), "2025-01-02 03:04:00"),
        (datetime.time(3, 4), "03:04:00"),
        (datetime.timedelta(days=1), "1 day"),
        (datetime.timedelta(hours=30), "1 day 06:00:00"),
        (datetime.timedelta(0), "00:00:00"),
    ],
)
def test_a_plain_value_is_spelt_as_duckdb_does(value: Any, text: str | None) -> None:
    assert plain(value) == text


def test_numbers_are_grouped() -> None:
    assert [grouped(x) for x in (1234567, 1234.5, 0.1, 1e20, -0.0, 1e-9, Decimal("12345.60"))] == [
        "1,234,567", "1,234.5", "0.1", "1e+20", "0", "1e-09", "12,345.60",
    ]  # fmt: skip


@settings(derandomize=True, deadline=None)
@given(st.floats(1e-4, 99.0))
def test_a_cost_has_three_figures_whatever_its_last_bits(cost: float) -> None:
    """0.0999999 reads as 0.100, never as 0.1000."""
    exponent = int(f"{cost:.2e}".partition("e")[2])
    for near in (cost, math.nextafter(cost, 0), float(f"{cost:.2e}") * (1 - 1e-9)):
        shown = figure(near).replace(",", "")
        if int(f"{near:.2e}".partition("e")[2]) == exponent and "e" not in shown:
            assert len(shown.replace(".", "").lstrip("0")) == 3, (near, shown)
    assert [figure(x) for x in (0.1, 0.0999999, 0.99999, 9.99999)] == [
        "0.100", "0.100", "1.00", "10.0",
    ]  # fmt: skip


def test_costs_have_three_figures() -> None:
    assert [figure(x) for x in (0, 0.1714, 1.95, 2, 12.34, 1e6, 1e-7, math.inf)] == [
        "0", "0.171", "1.95", "2.00", "12.3", "1,000,000", "1.00e-07", "infinite",
    ]  # fmt: skip


def test_a_share_is_of_the_grants_own_currency() -> None:
    zero = Cost(0, 0, 0)
    pure = Budget(Cost(0, 2, 0), zero, zero)
    assert share(Cost(0.5, 0.5, 0), pure) == 0.25
    both = Budget(Cost(0.5, 2, 1e-6), zero, zero)
    assert share(Cost(0.005, 0.3, 1e-6), both) == 0.01
    assert [percent(x) for x in (0.01, 0.25, 1, 0, 0.0003)] == [
        "1.0 %", "25 %", "100 %", "0.0 %", "0.03 %",
    ]  # fmt: skip
