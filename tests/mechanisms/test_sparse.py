"""Gates by price and by accuracy: bounds hold and are near, the split is the best one."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest

from dpsql.accounting.events import AboveThreshold
from dpsql.errors import UsageError
from dpsql.mechanisms.sparse import Asked, at_epsilon, at_rho, hidden, shown
from tests.privacy.gates import Noisy, outcomes

BETA = 0.05
EVENTS = [
    AboveThreshold(1, Fraction(a), Fraction(b), positives, runs, False, noise)
    for a, b, positives, runs in [(40, 60, 1, 1), (25, 90, 4, 1), (30, 50, 1, 3)]
    for noise in ("exponential", "laplace")
]


def below_at(event: AboveThreshold, over: int, asked: int) -> float:
    """P(a sum that is `over` the threshold is told to be below, in some run of so many asks).

    All of them are: it ends with the first "below", or with the gate's last "above".
    """
    gate = Noisy(float(event.threshold_scale), float(event.query_scale), noise=event.noise)
    z, chances = gate.drawn()
    never = float((gate.tail(z - over) ** asked) @ chances)
    return 1 - never**event.runs


def above_at(event: AboveThreshold, under: int, asked: int) -> float:
    """P(one of so many sums that are `under` the threshold is told to be above)."""
    gate = Noisy(float(event.threshold_scale), float(event.query_scale), noise=event.noise)
    z, chances = gate.drawn()
    return 1 - float(((1 - gate.tail(z + under)) ** asked) @ chances)


@pytest.mark.parametrize("event", EVENTS, ids=repr)
@pytest.mark.parametrize("asked", [1, 20, 1000])
def test_sums_told_below_or_above_lie_within_the_bounds(event, asked):
    """The adversary asks what is just outside of them, as often as the bound allows."""
    assert below_at(event, hidden(event, asked, 1 - BETA) + 1, asked) <= BETA
    once = dataclasses.replace(event, runs=1)
    assert above_at(once, shown(event, asked, 1 - BETA) + 1, asked) <= BETA


@pytest.mark.parametrize("event", [e for e in EVENTS if e.noise == "exponential"], ids=repr)
def test_the_accuracy_theorem_fails_with_a_constant_half_as_large(event):
    """Exact chances on the adversary's instance."""
    asked = 1000
    assert below_at(event, hidden(event, asked, 1 - BETA) // 2, asked) > 2 * BETA
    once = dataclasses.replace(event, runs=1)
    assert above_at(once, shown(event, asked, 1 - BETA) // 2, asked) > 2 * BETA


def test_one_bound_holds_for_every_sum_that_was_told_to_be_below():
    """It does not grow with the number of questions; that of Laplace noise does."""
    exponential, laplace = EVENTS[:2]
    assert hidden(exponential, 10, 0.95) == hidden(exponential, 10**6, 0.95)
    assert hidden(laplace, 10, 0.95) < hidden(laplace, 10**6, 0.95)


@pytest.mark.parametrize("event", [e for e in EVENTS if e.noise == "exponential"], ids=repr)
def test_the_bound_is_the_least_that_holds(event):
    """Where questions come without end, it is P(Z >= j) <= beta exactly."""
    a, bound = float(event.threshold_scale), hidden(event, 1, 1 - BETA)
    for over, holds in ((bound + 1, True), (bound, False)):
        beyond = math.exp(-(over + 1) / a)  # v = T + over is told below once N = 0: Z >= over + 1
        assert (1 - (1 - beyond) ** event.runs <= BETA) == holds


@pytest.mark.parametrize("scales", [(40, 60), (3, 90), (90, 3), (25, 25)])
@pytest.mark.parametrize("asked", [1, 4])
def test_the_bound_of_what_is_above_is_the_least_but_for_the_union(scales, asked):
    """For a single question it is exact; for several it is larger by a step at most."""
    event = AboveThreshold(1, *map(Fraction, scales))
    bound = shown(event, asked, 1 - BETA)
    assert above_at(event, bound + 1, asked) <= BETA
    assert above_at(event, bound - (asked > 1), asked) > BETA or bound == -1


@pytest.mark.parametrize("positives", [1, 2])
def test_what_is_above_lies_within_the_bound_over_several_runs(positives):
    """The adversary waits with sums that are likely below, and asks what is just outside at once.

    Three runs, by exact sums over all that can come out: P(an "above" for a sum that far below).
    """
    gate = Noisy(4.0, 3.0, positives, 3)
    event = AboveThreshold(1, Fraction(4), Fraction(3), positives, 3)
    for patient in (-2, 0, 3, 40):
        under = shown(event, 6, 0.7) + 1
        values = [patient, -under, -under, patient, -under, -under]
        wrong = sum(
            chance
            for told, chance in outcomes(gate, values).items()
            if any(told[i : i + 1] == "1" for i in (1, 2, 4, 5))
        )
        assert wrong <= 0.3


@pytest.mark.parametrize("k", [1, 10, 1000])
@pytest.mark.parametrize("beta", [0.3, 0.05, 1e-3])
def test_dwork_and_roths_theorem_holds_and_is_wider(k, beta):
    """alpha = 8 (ln k + ln(2 / beta)) / epsilon for Alg. 1: Lap(2 / epsilon), Lap(4 / epsilon)."""
    epsilon = 0.1
    event = AboveThreshold(1, Fraction(20), Fraction(40), noise="laplace")
    alpha = 8 * (math.log(k) + math.log(2 / beta)) / epsilon
    assert event.epsilon == 10**11
    assert below_at(event, math.ceil(alpha), 1) + above_at(event, math.ceil(alpha), k) <= beta
    assert max(hidden(event, k, 1 - beta), shown(event, k, 1 - beta)) <= alpha


ASKED = [
    Asked(1, monotone, k, c, 0.95, noise)
    for monotone in (False, True)
    for k, c in ((1, 1), (100, 1), (100, 7))
    for noise in ("exponential", "laplace")
]


@pytest.mark.parametrize("asked", ASKED, ids=repr)
@pytest.mark.parametrize("price", [10**6, 10**9, 10**11, 5 * 10**12])
def test_the_price_is_kept_and_used(asked, price):
    for event, paid in (
        (at_rho(asked, price), lambda e: e.rho),
        (at_epsilon(asked, price), lambda e: e.epsilon),
    ):
        assert paid(event) <= price
        finer = dataclasses.replace(
            event,
            threshold_scale=event.threshold_scale * Fraction(99_999, 100_000),
            query_scale=event.query_scale * Fraction(99_999, 100_000),
        )
        assert paid(finer) > price


def width(event: AboveThreshold, asked: Asked) -> float:
    """What is to be small: both bounds together, or the variance of Z - N for Laplace noise."""
    a, b = float(event.threshold_scale), float(event.query_scale)
    if asked.noise == "laplace":
        return a * a + b * b
    beta = 1 - asked.level
    return a * math.log(1 / beta) + b * math.log(asked.questions / beta)


@pytest.mark.parametrize("asked", ASKED, ids=repr)
@pytest.mark.parametrize("renewed", [False, True])
def test_no_other_split_is_better(asked, renewed):
    """By trying many at one price: the pure one, or the interval of a run's losses."""
    best = asked.ratio(renewed)

    def cost(ratio: float) -> float:
        event = asked.event(Fraction(1000), ratio, renewed)
        price = float(event.loss[1] if renewed else event.loss[0])
        power = 2 if asked.noise == "laplace" else 1
        return width(event, asked) * price**power

    for factor in np.geomspace(0.25, 4, 41):
        assert cost(best) <= cost(best * float(factor)) * (1 + 1e-5)
    assert cost(best * 2) > cost(best) * 1.01


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("c", [2, 3, 10, 40])
def test_the_threshold_is_renewed_where_prices_are_in_rho_and_kept_in_pure_epsilon(monotone, c):
    """Each is better in its own currency than the other."""
    several, one = Asked(1, monotone, 50, c, 0.95), Asked(1, monotone, 50, 1, 0.95)

    def undecided(event: AboveThreshold) -> int:
        return hidden(event, 50, 0.95) + shown(event, 50, 0.95)

    renewed, kept = at_rho(several, 24 * 10**9), at_epsilon(several, 3 * 10**11)
    assert (renewed.positives, renewed.runs, kept.positives, kept.runs) == (1, c, c, 1)

    def in_rho(scale: Fraction) -> AboveThreshold:
        made = dataclasses.replace(kept, threshold_scale=scale * kept.threshold_scale)
        return dataclasses.replace(made, query_scale=scale * kept.query_scale)

    alike = in_rho(Fraction(math.sqrt(kept.rho / renewed.rho)))
    assert alike.rho <= renewed.rho * 1.02
    assert undecided(renewed) < undecided(alike)
    alone = dataclasses.replace(at_epsilon(one, 3 * 10**11 // c), runs=c)
    assert alone.epsilon <= kept.epsilon * 1.001
    assert undecided(kept) < 0.8 * undecided(alone)


def test_laplace_noise_is_split_as_lyu_su_and_li_have_it():
    assert Asked(1, False, 100, 1, 0.95, "laplace").ratio(False) == pytest.approx(2 ** (2 / 3))
    assert Asked(1, False, 100, 1, 0.95, "laplace").ratio(True) == pytest.approx(2 ** (2 / 3))
    assert Asked(1, False, 100, 5, 0.95, "laplace").ratio(False) * 5 == pytest.approx(10 ** (2 / 3))


def test_exponential_noise_leaves_less_undecided_than_laplace_noise():
    for k in (10, 1000):
        asked = Asked(1, False, k, 1, 0.95)
        events = [
            at_epsilon(a, 10**11) for a in (asked, dataclasses.replace(asked, noise="laplace"))
        ]
        widths = [hidden(e, k, 0.95) + shown(e, k, 0.95) for e in events]
        assert widths[0] < 0.65 * widths[1]


def test_a_price_for_more_noise_than_can_be_drawn_is_refused():
    with pytest.raises(UsageError, match="larger than can be drawn"):
        at_epsilon(Asked(2**60, False, 10, 1, 0.95), 1)
    with pytest.raises(UsageError, match="between 0 and 1"):
        hidden(EVENTS[0], 1, 1.0)
