"""The gate for guesses: what it promises holds, and no looser promise would do."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpsql.mechanisms.synopses.verifier import (
    FREE,
    QUESTIONS,
    Verifier,
    cheapest,
    measured,
    share,
    verifier,
)

RHO = 10**9


@pytest.mark.parametrize("level", [0.9, 0.95, 0.999])
def test_what_passes_is_off_by_more_with_the_probability_that_is_said(level: float) -> None:
    """A guess that is off by v passes where v + N < T + Z; all pass only if Z is large."""
    told = verifier(1, RHO)
    most = told.most(level)
    a = float(told.event.threshold_scale)
    # the least Z that lets v = most + 1 pass even with N = 0, and P(Z >= j) = exp(-j / a)
    tail = math.exp(-(most + 2 - told.threshold) / a)
    assert tail <= FREE * (1 - level) / 2 < math.exp(-(most - told.threshold) / a)


def passing(told: Verifier, off: int) -> float:
    """The probability that a guess that is so far off passes, by the sum over Z."""
    a, b = (float(s) for s in (told.event.threshold_scale, told.event.query_scale))
    z = np.arange(int(60 * a))
    n = np.maximum(told.threshold + z - off, 0)  # N is less than that
    return float((np.exp(-z / a) * -math.expm1(-1 / a) * -np.expm1(-n / b)).sum())


@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
def test_a_question_misses_no_oftener_than_is_said_however_far_off_its_guess_is(
    level: float,
) -> None:
    """As a guess that passes, or else as a measurement, after any number of gates that held."""
    bad = []
    for number in range(1, 200):
        told = verifier(1, RHO).nth(number)
        bad.append(passing(told, told.most(level) + 1))
        assert bad[-1] > passing(told, told.most(level) + 2)
        assert bad[-1] <= 1 - share(level, number) + 1e-12
        failed = 1 - math.prod(1 - each for each in bad)  # and are open still
        assert failed <= FREE * (1 - level)
        assert failed + (1 - failed) * (1 - measured(level)) <= 1 - level
    assert FREE * (1 - level) / 4 < failed  # nothing much is given away


def test_one_level_for_gates_and_measurements_would_miss_oftener() -> None:
    told = verifier(1, RHO)
    a = float(told.event.threshold_scale)
    most = told.threshold + math.ceil(a * math.log(20)) - 2  # P(Z >= j) <= 5 %
    bad = passing(told, most + 1)
    assert bad + (1 - bad) * 0.05 > 0.065 and 1 - (1 - bad) ** 10 > 0.2


def test_good_guesses_pass_many_times() -> None:
    """Most gates stay open for a thousand good guesses: seeded, by the exact law."""
    told, draw = verifier(1, RHO), np.random.default_rng(5)
    a, b = (float(s) for s in (told.event.threshold_scale, told.event.query_scale))
    z = np.floor(draw.exponential(a, 400))
    n = np.floor(draw.exponential(b, (400, QUESTIONS)))
    assert (n.max(axis=1) < told.threshold + z).mean() > 0.5


def test_a_gate_for_bigger_steps_is_wider_and_a_dearer_one_narrower() -> None:
    assert verifier(3, RHO).most(0.95) == pytest.approx(3 * verifier(1, RHO).most(0.95), rel=0.01)
    assert verifier(1, 4 * RHO).most(0.95) == pytest.approx(
        verifier(1, RHO).most(0.95) / 2, rel=0.01
    )
    assert verifier(1, RHO).event.rho <= RHO


@pytest.mark.parametrize("most", [1, 10, 250, 5000])
def test_the_cheapest_gate_is_as_accurate_as_was_asked_and_hardly_more(most: int) -> None:
    assert cheapest(1, most, 0.95, number=9) > cheapest(1, most, 0.95)
    rho = cheapest(1, most, 0.95)
    assert verifier(1, rho).most(0.95) <= most
    assert verifier(1, int(rho / 1.02)).most(0.95) >= most * 0.98 - 1
