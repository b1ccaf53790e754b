"""Prices: each is at least what the noise costs by direct sums, and hardly more."""

from __future__ import annotations

import decimal
import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.accounting.convert import epsilon_of
from dpsql.accounting.events import (
    PICO,
    AboveThreshold,
    Exponential,
    Gaussian,
    Laplace,
    NoisyMax,
    Rounds,
    from_dict,
)
from dpsql.accounting.losses import shifted

ORDERS = [1.0001, 1.01, 1.3, 2.0, 3.5, 8.0, 30.0, 200.0, 3000.0]


def laplace_logs(b: float, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of P(z) ~ exp(-|z|/b) and Q(z) = P(z - d), by their definition."""
    z = np.arange(-math.ceil(60 * b) - d - 60, math.ceil(60 * b) + 2 * d + 60)
    log = math.log(math.tanh(0.5 / b))
    return log - np.abs(z) / b, log - np.abs(z - d) / b


def kl(b: float, d: int) -> float:
    p, q = laplace_logs(b, d)
    return math.fsum((np.exp(p) * (p - q)).tolist())


def renyi(b: float, d: int, order: float) -> float:
    p, q = laplace_logs(b, d)
    exponents = order * p + (1 - order) * q
    top = exponents.max()
    return (top + math.log(math.fsum(np.exp(exponents - top).tolist()))) / (order - 1)


def parts(total: int, largest: int):
    """All ways in which coordinates can move by `total` together, each by `largest` at most."""
    if total == 0:
        yield ()
    for first in range(min(total, largest), 0, -1):
        for rest in parts(total - first, first):
            yield (first, *rest)


@given(st.integers(1, 10**9), st.fractions(Fraction(1, 1000), 10**12))
def test_gaussian_price_is_the_formula_rounded_up(square, variance):
    rho = Gaussian(square, variance).rho
    exact = Fraction(square) / (2 * variance) * PICO
    assert rho - 1 < exact <= rho
    assert rho >= 1


@settings(deadline=None)
@given(st.integers(1, 10**9), st.fractions(Fraction(1, 1000), 10**12))
def test_laplace_epsilon_is_the_ratio_rounded_up(total, scale):
    epsilon = Laplace(total, 1, scale).epsilon
    assert epsilon - 1 < Fraction(total) / scale * PICO <= epsilon


@pytest.mark.parametrize("b", [Fraction(1, 7), Fraction(1, 2), 1, Fraction(5, 2), 20, 300])
@pytest.mark.parametrize("d", [1, 2, 3, 10, 50])
def test_laplace_rho_is_the_divergence_summed_directly(b, d):
    rho = Laplace(d, d, Fraction(b)).rho / PICO
    summed = kl(float(b), d)
    assert summed - 1e-12 <= rho <= summed * (1 + 1e-10) + 3e-12


@pytest.mark.parametrize("b", [0.1, 0.5, 1.0, 2.5, 20.0, 100.0])
@pytest.mark.parametrize("d", [1, 2, 3, 4, 7, 25, 200])
def test_laplace_rho_bounds_the_renyi_divergence_of_every_order(b, d):
    """What the proof in `events` says; near order 1 the bound is reached."""
    rho = Laplace(d, d, Fraction(b)).rho / PICO
    for order in ORDERS:
        assert renyi(b, d, order) <= rho * order * (1 + 1e-9) + 1e-9
    assert renyi(b, d, 1.0001) >= rho * 0.99 - 1e-9


@pytest.mark.parametrize("b", [0.3, 1.0, 4.0])
@pytest.mark.parametrize(("total", "largest"), [(1, 1), (4, 1), (7, 3), (6, 6), (9, 4)])
def test_laplace_rho_is_the_worst_of_all_ways_to_move(b, total, largest):
    rho = Laplace(total, largest, Fraction(b)).rho / PICO
    worst = max(sum(kl(b, d) for d in moves) for moves in parts(total, largest))
    assert worst <= rho + 1e-12
    assert rho <= worst * (1 + 1e-9) + 1e-11


@given(st.floats(0.001, 300.0))
def test_one_row_of_laplace_costs_randomised_response(epsilon):
    rho = Laplace(1, 1, 1 / Fraction(epsilon)).rho / PICO
    cost = epsilon * math.tanh(epsilon / 2)
    assert cost * (1 - 1e-14) <= rho <= cost * (1 + 1e-12) + 2e-12


@settings(deadline=None)
@given(st.integers(1, 10**6), st.fractions(Fraction(1, 50), 10**9))
def test_the_float_of_the_divergence_is_rounded_up(moved, scale):
    """Against the formula in 80 digits."""
    with decimal.localcontext(prec=80):
        y = decimal.Decimal(scale.denominator) / scale.numerator
        q = (-y).exp()
        truth = (moved - 2 * q * (1 - q**moved) / (1 - q * q)) * y
        float_up = decimal.Decimal(shifted(moved, scale))
        assert truth <= float_up <= truth + moved * y * decimal.Decimal(2) ** -46


@settings(deadline=None)
@given(st.integers(1, 10**6), st.integers(1, 10**6), st.fractions(Fraction(1, 50), 10**7))
def test_laplace_rho_never_exceeds_that_of_its_pure_epsilon(total, largest, scale):
    event = Laplace(total, min(total, largest), scale)
    epsilon = event.epsilon / PICO
    bound = epsilon * math.tanh(epsilon / 2)
    assert event.rho / PICO <= bound * (1 + 1e-9) + epsilon * 1e-14 + 3e-12
    assert event.rho >= 1


def test_the_continuous_formula_would_be_too_cheap():
    """eps + exp(-eps) - 1 is a fifth too low for integers at eps = 1."""
    rho = Laplace(1, 1, Fraction(1)).rho / PICO
    assert math.exp(-1) < 0.81 * rho


def test_less_noise_never_costs_less():
    for scale in (Fraction(1, 3), Fraction(2), Fraction(1000), Fraction(10**9)):
        for finer in (Fraction(99, 100), Fraction(999_999, 10**6)):
            assert Laplace(7, 3, scale * finer).rho >= Laplace(7, 3, scale).rho
            assert Laplace(7, 3, scale * finer).epsilon > Laplace(7, 3, scale).epsilon
            assert Gaussian(7, scale * finer).rho >= Gaussian(7, scale).rho
    assert Gaussian(8, Fraction(5)).rho > Gaussian(7, Fraction(5)).rho
    assert Laplace(8, 3, Fraction(5)).rho > Laplace(7, 3, Fraction(5)).rho
    assert Laplace(7, 4, Fraction(5)).rho > Laplace(7, 3, Fraction(5)).rho


@pytest.mark.parametrize("sigma", [1, 2, 5])
def test_gaussian_price_covers_the_loss_distribution_of_the_discrete_noise(sigma):
    """dp-accounting composes the discrete Gaussian's own privacy loss; ours is never below."""
    for releases in (1, 5):
        loss = privacy_loss_distribution.from_discrete_gaussian_mechanism(
            float(sigma), value_discretization_interval=1e-3
        ).self_compose(releases)
        price = releases * Gaussian(1, Fraction(sigma**2)).rho
        for delta in (1e-9, 1e-6, 1e-3):
            assert epsilon_of(price, delta) >= loss.get_epsilon_for_delta(delta) - 2e-3


@pytest.mark.parametrize("b", [0.5, 1.0, 4.0])
def test_laplace_price_covers_the_loss_distribution_of_the_discrete_noise(b):
    for releases in (1, 10):
        loss = privacy_loss_distribution.from_discrete_laplace_mechanism(
            1 / b, value_discretization_interval=1e-3
        ).self_compose(releases)
        price = releases * Laplace(1, 1, Fraction(b)).rho
        for delta in (1e-9, 1e-6, 1e-3):
            assert epsilon_of(price, delta) >= loss.get_epsilon_for_delta(delta) - 1e-3 * releases


EVENTS = [
    Gaussian(1, Fraction(7, 3)),
    Gaussian(2**62, Fraction(2**112)),
    Laplace(1, 1, Fraction(1, 10)),
    Laplace(12, 5, Fraction(10**20 + 1, 10**19)),
    AboveThreshold(1, Fraction(7, 3), Fraction(5)),
    AboveThreshold(3, Fraction(40), Fraction(1, 3), 2, 5, True, "laplace"),
    NoisyMax(2, Fraction(9, 2), True),
    Exponential(1, Fraction(10**20 + 1, 10**19)),
    Rounds(Gaussian(4, Fraction(7)), Exponential(1, Fraction(3)), Gaussian(9, Fraction(7)), 12),
]


@pytest.mark.parametrize("event", EVENTS, ids=repr)
def test_an_event_survives_being_stored(event):
    again = from_dict(json.loads(json.dumps(event.to_dict())))
    assert again == event
    assert (again.rho, again.epsilon) == (event.rho, event.epsilon)


def test_the_meaning_of_a_stored_event_never_changes():
    """Written down in version 1: a ledger holds these for good."""
    gaussian = {"event": "gaussian", "version": 1, "sensitivity_squared": 2, "variance": "41/2"}
    laplace = {"event": "laplace", "version": 1, "sensitivity": 3, "largest": 2, "scale": "5/2"}
    assert from_dict(gaussian).to_dict() == gaussian
    assert from_dict(laplace).to_dict() == laplace
    assert from_dict(gaussian).rho == 48_780_487_805  # 2 / 41, rounded up
    assert from_dict(laplace).epsilon == 1_200_000_000_000
    assert from_dict(laplace).rho == 342_694_091_262  # by direct sums in 40 digits
    gate = {
        "event": "above_threshold", "version": 1, "sensitivity": 2, "threshold_scale": "5",
        "query_scale": "8", "positives": 3, "runs": 2, "monotone": True, "noise": "exponential",
    }  # fmt: skip
    assert from_dict(gate).to_dict() == gate
    assert from_dict(gate).epsilon == 2_300_000_000_000  # 2 (2/5 + 3 x 2/8)
    assert from_dict(gate).rho == 902_500_000_000  # 2 (2/5 + 6 x 2/8)^2 / 8
    pairs = from_dict({**gate, "monotone": False, "noise": "laplace"})
    assert pairs.epsilon == 3_800_000_000_000  # 2 (2/5 + 3 x 4/8)
    assert pairs.rho == math.ceil(3.8e12 * math.tanh(0.95))
    largest = {"event": "noisy_max", "version": 1, "sensitivity": 1, "scale": "4",
               "monotone": False}  # fmt: skip
    assert from_dict(largest).to_dict() == largest
    assert from_dict(largest).epsilon == 500_000_000_000
    assert from_dict(largest).rho == math.ceil(0.5e12 * math.tanh(0.25))
    exponential = {**largest, "event": "exponential"}
    assert from_dict(exponential).to_dict() == exponential
    assert from_dict(exponential).rho == 31_250_000_000  # (2/4)^2 / 8
    assert from_dict({**exponential, "monotone": True}).epsilon == 250_000_000_000
    rounds = {"event": "rounds", "version": 1, "first": gaussian, "pick": exponential,
              "each": {**gaussian, "variance": "40"}, "times": 3}  # fmt: skip
    assert from_dict(rounds).to_dict() == rounds
    assert from_dict(rounds).rho == 48_780_487_805 + 3 * (31_250_000_000 + 25_000_000_000)
    assert from_dict(rounds).epsilon is None
    for times in (0, -1, True, 2.0):
        with pytest.raises(ValueError, match="times is a positive integer"):
            from_dict({**rounds, "times": times})


@pytest.mark.parametrize(
    "change", [{"event": "gamma"}, {"version": 2}, {"variance": "-1"}, {"sensitivity_squared": 0}]
)
def test_an_event_of_another_meaning_is_refused(change):
    fields = {**Gaussian(1, Fraction(2)).to_dict(), **change}
    with pytest.raises(ValueError):
        from_dict(fields)


@pytest.mark.parametrize("number", [0, -1, 1.0, True, 2**127, None])
def test_a_sensitivity_is_a_positive_integer(number):
    for make in (
        lambda: Gaussian(number, Fraction(1)),
        lambda: Laplace(number, 1, Fraction(1)),
        lambda: Laplace(5, number, Fraction(1)),
        lambda: AboveThreshold(number, Fraction(1), Fraction(1)),
        lambda: AboveThreshold(1, Fraction(1), Fraction(1), number),
        lambda: AboveThreshold(1, Fraction(1), Fraction(1), 1, number),
        lambda: NoisyMax(number, Fraction(1)),
        lambda: Exponential(number, Fraction(1)),
    ):
        with pytest.raises(ValueError):
            make()


@pytest.mark.parametrize("width", [Fraction(0), Fraction(-1), 1, 1.5, Fraction(1, 2**70)])
def test_a_spread_is_a_positive_fraction(width):
    with pytest.raises(ValueError):
        Gaussian(1, width)
    with pytest.raises(ValueError):
        Laplace(1, 1, width)
    for scales in ((width, Fraction(1)), (Fraction(1), width)):
        with pytest.raises(ValueError):
            AboveThreshold(1, *scales)
    for kind in (NoisyMax, Exponential):
        with pytest.raises(ValueError):
            kind(1, width)


def test_a_gate_of_another_kind_is_no_event():
    fields = AboveThreshold(1, Fraction(2), Fraction(4)).to_dict()
    for change in ({"noise": "gaussian"}, {"monotone": 1}, {"version": 2}):
        with pytest.raises(ValueError):
            from_dict({**fields, **change})
    with pytest.raises(ValueError):
        from_dict({**Exponential(1, Fraction(2)).to_dict(), "monotone": None})


def two_point(low: float, high: float, order: float) -> float:
    """The divergence of two coins whose losses are `high` and -`low`."""
    p = (1 - math.exp(-low)) / (math.exp(high) - math.exp(-low))  # Q of the high one
    total = np.logaddexp(math.log(p) + order * high, math.log1p(-p) - order * low)
    return float(total) / (order - 1)


@pytest.mark.parametrize("span", [0.01, 0.3, 1.0, 3.0])
def test_losses_in_an_interval_cost_an_eighth_of_its_square(span):
    """No two coins of such losses have more, of any order; short intervals reach it."""
    price = Exponential(1, 1 / Fraction(span), True).rho / PICO
    most = 0.0
    for share, order in itertools.product(np.linspace(0.02, 0.98, 49), ORDERS):
        low = span * float(share)
        most = max(most, two_point(low, span - low, order) / order)
    assert most <= price * (1 + 1e-6)
    assert most >= price * (0.995 if span <= 0.3 else 0.8)


@given(st.fractions(Fraction(1, 50), 10**6), st.fractions(Fraction(1, 50), 10**6))
def test_a_gate_costs_no_more_than_its_pure_epsilon_would(once, each):
    """tanh is in the price, and saves nothing but what randomised response does."""
    for monotone in (False, True):
        event = AboveThreshold(1, once, each, 2, 3, monotone)
        pure = event.epsilon / PICO / 3
        bound = 3 * pure * math.tanh(pure / 2)
        assert event.rho / PICO <= bound * (1 + 1e-9) + 1e-11
        if not monotone:
            assert event.rho / PICO >= bound * (1 - 1e-9) - 1e-11


def test_no_coordinate_moves_further_than_all():
    with pytest.raises(ValueError, match="all of them"):
        Laplace(3, 4, Fraction(1))


def test_corners_are_the_worst_because_the_cost_is_convex():
    for b in (0.2, 1.0, 7.0):
        costs = [0.0, *(kl(b, d) for d in range(1, 40))]
        steps = [after - before for before, after in itertools.pairwise(costs)]
        assert all(late >= early - 1e-12 for early, late in itertools.pairwise(steps))
