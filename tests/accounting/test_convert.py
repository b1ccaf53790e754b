"""Conversions: never on the unsafe side, and as good as the formula allows."""

from __future__ import annotations

import decimal
import math
import subprocess
import sys

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.accounting.convert import LARGEST_RHO, epsilon_of, rho_of
from dpsql.accounting.events import PICO
from dpsql.errors import UsageError

# mechanisms of the design, at delta = 1e-6, to nine places
REFERENCE = {
    0.1: 0.000321048,
    0.5: 0.006641524,
    1: 0.024355970,
    2: 0.088152688,
    3: 0.185069841,
    5: 0.463064990,
    8: 1.052358004,
    10: 1.539278764,
}

RHOS = st.integers(1, 10**19) | st.floats(0.0, 43.0).map(lambda x: max(1, int(math.exp(x))))
DELTAS = st.floats(-690.0, math.log(0.5)).map(lambda x: min(max(math.exp(x), 1e-300), 0.5))


def formula(rho: int, delta: float) -> decimal.Decimal:
    """Proposition 12 of Canonne, Kamath, Steinke 2020, minimised in 60 digits by ternary search."""
    with decimal.localcontext(prec=60):
        cost = decimal.Decimal(rho) / PICO
        log = -decimal.Decimal(delta).ln()

        def bound(t: decimal.Decimal) -> decimal.Decimal:
            b = t.exp()
            a = 1 + b
            return a * cost + (log + a * (1 - 1 / a).ln() - b.ln()) / b

        low, high = decimal.Decimal(-30), decimal.Decimal(40)
        for _ in range(110):
            left, right = low + (high - low) / 3, high - (high - low) / 3
            if bound(left) < bound(right):
                high = right
            else:
                low = left
        return max(decimal.Decimal(0), bound((low + high) / 2))


@pytest.mark.parametrize(("epsilon", "rho"), REFERENCE.items())
def test_grants_are_worth_the_reference_values(epsilon, rho):
    assert abs(rho_of(epsilon, 1e-6) / PICO - rho) < 1e-9


@settings(max_examples=40, deadline=None)
@given(RHOS, DELTAS)
def test_epsilon_is_the_least_of_the_formula_rounded_up(rho, delta):
    truth = formula(rho, delta)
    shown = decimal.Decimal(epsilon_of(rho, delta))
    assert truth <= shown
    terms = decimal.Decimal(-math.log(delta)) * decimal.Decimal(rho) / PICO
    assert shown - truth <= (truth + terms.sqrt()) * decimal.Decimal("1e-12")


@settings(max_examples=300, deadline=None)
@given(st.floats(-690.0, math.log(1e7)).map(lambda x: min(math.exp(x), 1e7)), DELTAS)
def test_a_grant_is_the_largest_rho_that_its_epsilon_allows(epsilon, delta):
    rho = rho_of(epsilon, delta)
    assert epsilon_of(rho, delta) <= epsilon
    more = rho + 2 + (rho >> 44)
    assert epsilon_of(more, delta) > epsilon or math.isclose(
        epsilon_of(more, delta), epsilon, rel_tol=1e-9
    )


@settings(deadline=None)
@given(RHOS, RHOS, DELTAS)
def test_more_rho_is_never_less_epsilon(one, other, delta):
    less, more = sorted((one, other))
    assert epsilon_of(less, delta) <= epsilon_of(more, delta) * (1 + 1e-12)


def test_prices_add_as_rdp_says():
    """dp-accounting over a fine grid of orders: the same formula by other hands."""
    orders = 1.0 + np.exp(np.linspace(-7, 10, 4000))
    for rho in (1e-6, 1e-4, 0.0244, 0.5, 10.0):
        for releases in (1, 10, 100, 10_000):
            event = GaussianDpEvent(1 / math.sqrt(2 * rho))
            accountant = RdpAccountant(orders=orders).compose(event, releases)
            for delta in (1e-9, 1e-6, 1e-3):
                theirs = accountant.get_epsilon(delta)
                ours = epsilon_of(round(rho * PICO) * releases, delta)
                assert theirs * (1 - 1e-3) <= ours <= theirs * (1 + 1e-9)


@pytest.mark.parametrize(("rho", "most"), [(1e-4, 100), (0.0244, 100), (0.5, 1)])
def test_the_exact_loss_of_gaussians_is_within_the_price(rho, most):
    """The price in (epsilon, delta) is above the exact one, by less than a tenth."""
    for releases in (1, most):
        event = GaussianDpEvent(1 / math.sqrt(2 * rho))
        exact = PLDAccountant().compose(event, releases).get_epsilon(1e-6)
        ours = epsilon_of(round(rho * PICO) * releases, 1e-6)
        assert exact <= ours <= 1.1 * exact + 1e-3


def test_nothing_costs_nothing():
    assert epsilon_of(0, 1e-6) == 0.0
    assert epsilon_of(1, 1e-6) >= 0.0
    assert epsilon_of(LARGEST_RHO, 1e-300) > 1e17


def test_a_grant_that_buys_nothing_is_zero_and_not_an_error():
    assert rho_of(1e-300, 1e-300) == 0


@pytest.mark.parametrize(
    "epsilon",
    [0, 0.0, -1, -0.0, math.nan, math.inf, -math.inf, float("1e-400"), 5e-324, 1.1e7, True, "1"],
)
def test_no_epsilon_but_a_positive_number_is_taken(epsilon):
    with pytest.raises(UsageError, match="epsilon is a number above 0"):
        rho_of(epsilon, 1e-6)


@pytest.mark.parametrize("delta", [0, 0.0, -1e-6, math.nan, math.inf, 1e-301, 5e-324, 0.51, 1, "a"])
def test_no_delta_but_a_small_positive_number_is_taken(delta):
    with pytest.raises(UsageError, match="delta is a number from"):
        rho_of(1.0, delta)
    with pytest.raises(UsageError, match="delta is a number from"):
        epsilon_of(1, delta)


@pytest.mark.parametrize("rho", [-1, 1.0, math.nan, True, LARGEST_RHO + 1])
def test_no_rho_but_an_integer_is_taken(rho):
    with pytest.raises(UsageError, match="rho counts 1e-12ths"):
        epsilon_of(rho, 1e-6)


def test_accounting_is_imported_without_numpy():
    program = (
        "import sys, dpsql.accounting.convert, dpsql.accounting.events;"
        "assert 'numpy' not in sys.modules and 'duckdb' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
