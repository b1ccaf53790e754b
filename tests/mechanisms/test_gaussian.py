"""Gaussian noise for a price: never dearer than asked, and nearly as dear."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.accounting.events import PICO, Gaussian
from dpsql.errors import UsageError
from dpsql.mechanisms import gaussian

RHOS = st.floats(0, 21).map(lambda x: max(1, int(10**x)))


@settings(deadline=None, derandomize=True)
@given(st.integers(1, 1 << 76), RHOS)
def test_gaussian_noise_costs_what_was_asked_for(squared, rho):
    try:
        found = gaussian.noise(squared, rho)
    except UsageError:
        assert squared * PICO / (2 * rho) > 2.0**111
        return
    paid = Gaussian(squared, found.variance).rho
    assert paid <= rho
    assert paid >= rho * (1 - 1e-3) - 1 or found.variance == Fraction(1, 1 << 48)


def test_noise_without_a_price_is_refused():
    """A31: zero and negative prices buy nothing; they are not answered without noise."""
    for price in (0, -1):
        with pytest.raises(UsageError):
            gaussian.noise(1, price)


def test_noise_beyond_what_can_be_drawn_is_refused():
    with pytest.raises(UsageError, match="too small"):
        gaussian.noise(1 << 90, 1)
