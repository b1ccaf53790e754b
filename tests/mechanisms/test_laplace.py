"""Laplace noise for a price, pure or in rho: never dearer than asked, and nearly as dear."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.accounting.events import PICO, Laplace
from dpsql.errors import UsageError
from dpsql.mechanisms import laplace

RHOS = st.floats(0, 21).map(lambda x: max(1, int(10**x)))


@settings(deadline=None, derandomize=True)
@given(st.integers(1, 1 << 45), st.floats(0, 21).map(lambda x: max(1, int(10**x))))
def test_laplace_noise_costs_the_pure_epsilon_that_was_asked_for(sensitivity, epsilon):
    try:
        found = laplace.noise(sensitivity, epsilon)
    except UsageError:
        assert sensitivity * PICO / epsilon > 2.0**55
        return
    paid = Laplace(sensitivity, 1, found.scale).epsilon
    assert paid <= epsilon
    assert paid >= epsilon * (1 - 1e-3) - 1 or found.scale == Fraction(1, 1 << 48)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.integers(1, 1 << 20), st.integers(1, 1 << 20), RHOS)
def test_laplace_noise_costs_the_rho_that_was_asked_for(largest, times, rho):
    sensitivity = largest * times
    try:
        found = laplace.noise_at_rho(sensitivity, largest, rho)
    except UsageError:
        assert sensitivity / math.sqrt(2 * rho / PICO) > 2.0**55
        return
    paid = Laplace(sensitivity, largest, found.scale).rho
    assert paid <= rho
    assert paid >= rho * (1 - 1e-3) - 1 or rho > 10**13


def test_noise_without_a_price_is_refused():
    """A31: zero and negative prices buy nothing; they are not answered without noise."""
    for price in (0, -1):
        with pytest.raises(UsageError):
            laplace.noise(1, price)
        with pytest.raises(UsageError):
            laplace.noise_at_rho(1, 1, price)


def test_noise_beyond_what_can_be_drawn_is_refused():
    with pytest.raises(UsageError, match="too small"):
        laplace.noise(1 << 40, 1)
    with pytest.raises(UsageError, match="too small"):
        laplace.noise_at_rho(1 << 50, 1 << 50, 1)
