"""Numbers to integers: exact on decimal and binary lattices, near elsewhere, never beyond."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.query.weights import whole

LIMIT = 1 << 36


def restored(values: list[float], limit: int = LIMIT, *, from_least: bool = True) -> list[float]:
    origin, unit, (ints,) = whole([np.array(values)], limit, from_least=from_least)
    assert abs(ints).max(initial=0) <= limit
    assert not from_least or ints.min(initial=0) >= 0
    return [float(origin + unit * int(n)) for n in ints]


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(
    st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=20),
    st.integers(0, 6),
    st.booleans(),
)
def test_decimals_are_exact(numbers: list[int], power: int, from_least: bool) -> None:
    values = [n / 10**power for n in numbers]
    assert restored(values, from_least=from_least) == values


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(st.lists(st.integers(-(2**20), 2**20), min_size=1, max_size=20), st.integers(0, 20))
def test_binary_fractions_are_exact(numbers: list[int], bits: int) -> None:
    values = [n / 2**bits for n in numbers]
    assert restored(values) == pytest.approx(values, rel=1e-15)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=20), st.booleans())
def test_other_numbers_are_near(values: list[float], from_least: bool) -> None:
    reach = max(max(values) - min(values), max(map(abs, values)))
    found = restored(values, from_least=from_least)
    assert found == pytest.approx(values, abs=reach * 2.0**-29 + 5e-324, rel=1e-15)


def test_the_last_digits_of_arithmetic_do_not_matter() -> None:
    values = [0.1 * n for n in range(10)]  # 0.30000000000000004 among them
    origin, unit, (ints,) = whole([np.array(values)], LIMIT, from_least=True)
    assert (origin, unit) == (0, Fraction(1, 10)) and ints.tolist() == list(range(10))


def test_the_unit_is_the_greatest_that_divides_all() -> None:
    origin, unit, parts = whole([np.array([20.0, 50.0]), np.array([80.0])], LIMIT, from_least=True)
    assert (origin, unit) == (20, 30) and [p.tolist() for p in parts] == [[0, 1], [2]]
    origin, unit, parts = whole([np.array([20.0, 50.0])], LIMIT, from_least=False)
    assert (origin, unit) == (0, 10) and parts[0].tolist() == [2, 5]


def test_values_beyond_the_limit_are_measured_more_coarsely() -> None:
    assert restored([0.0, 1.0, 999_999.0], 1000) == pytest.approx([0, 0, 999_999], abs=1000)


def test_nothing_gives_nothing() -> None:
    assert whole([], LIMIT, from_least=True)[2] == []
    assert [p.tolist() for p in whole([np.zeros(0)], LIMIT, from_least=True)[2]] == [[]]


@pytest.mark.parametrize("value", [2.0**53, -(2.0**60), 1e300])
def test_values_beyond_53_bits_are_refused(value: float) -> None:
    with pytest.raises(OverflowError):
        whole([np.array([0.0, value])], LIMIT, from_least=True)


@pytest.mark.parametrize("value", [5e-324, 1e-300, 3.3e-9])
def test_tiny_values_do_not_overflow(value: float) -> None:
    assert restored([0.0, value]) == pytest.approx([0.0, value], rel=1e-8, abs=1e-300)
