"""What a purse comes to have spent: the closed form, at most RDP's price, at least the exact loss.

RDP and the exact loss (PLD) are those of dp-accounting, by other hands.
"""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting import DpEvent, GaussianDpEvent, LaplaceDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from dpsql.accounting.convert import epsilon_of
from dpsql.accounting.events import PICO, Event, Gaussian, Laplace
from dpsql.accounting.footprints.footprint import Footprint
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.purse import Price
from dpsql.accounting.seals.verify import verify
from dpsql.session import tell
from tests.accounting.people import about, gaussian

DELTAS = (1e-6, 1e-9)
ORDERS = 1.0 + np.exp(np.linspace(-5, 7, 1500))

MIXTURES: dict[str, list[tuple[Event, int]]] = {
    "100 Gaussian, sigma 10": [(Gaussian(1, Fraction(100)), 100)],
    "100 Gaussian, sigma 40": [(Gaussian(1, Fraction(1600)), 100)],
    "100 Gaussian, sigma 200": [(Gaussian(1, Fraction(40_000)), 100)],
    "1,000 Laplace, scale 50": [(Laplace(1, 1, Fraction(50)), 1000)],
    "1,000 Laplace, scale 200": [(Laplace(1, 1, Fraction(200)), 1000)],
    "both": [(Gaussian(1, Fraction(2500)), 100), (Laplace(1, 1, Fraction(100)), 1000)],
    "several of both": [
        (Gaussian(1, Fraction(400)), 20),
        (Gaussian(1, Fraction(10_000)), 80),
        (Laplace(1, 1, Fraction(30)), 100),
        (Laplace(1, 1, Fraction(300)), 900),
    ],
}


def closed(event: Event) -> float:
    """The cost of one release, by the formula of its noise, in pico."""
    match event:
        case Gaussian(sensitivity_squared=square, variance=variance):
            return PICO * square / (2 * float(variance))
        case Laplace(scale=scale):  # of one row: epsilon tanh(epsilon / 2)
            return PICO * math.tanh(1 / (2 * float(scale))) / float(scale)


def theirs(event: Event) -> DpEvent:
    match event:
        case Gaussian(variance=variance):
            return GaussianDpEvent(math.sqrt(variance))
        case Laplace(scale=scale):
            return LaplaceDpEvent(float(scale))


@pytest.mark.parametrize("mixture", MIXTURES.values(), ids=MIXTURES)
def test_a_total_is_the_closed_form_at_most_rdps_and_at_least_the_exact_loss(
    mixture: list[tuple[Event, int]],
) -> None:
    rdp, pld = RdpAccountant(orders=ORDERS), PLDAccountant(value_discretization_interval=1e-4)
    count, exact = 0, 0.0
    with Ledger.memory() as ledger:
        for delta in DELTAS:
            ledger.grant(f"at {delta}", dataset="adult", epsilon=1000, delta=delta)
        for event, times in mixture:
            for _ in range(times):
                for delta in DELTAS:
                    ledger.charge(f"at {delta}", "adult", event, statement="")
            rdp.compose(theirs(event), times)
            pld.compose(theirs(event), times)
            count, exact = count + times, exact + times * closed(event)
        for delta in DELTAS:
            balance = ledger.balance(f"at {delta}", "adult")
            # each price is rounded up to a whole pico, after an error of 2^-48 of its terms
            assert 0 <= balance.spent_rho - exact + 1e-3 <= count * 1.1 + exact * 1e-9
            shown = tell.budget(balance).spent.epsilon
            assert shown == epsilon_of(balance.spent_rho, delta)
            assert shown <= 1.02 * rdp.get_epsilon(delta)
            # the exact loss of continuous noise, found with an error of its grid
            assert shown >= pld.get_epsilon(delta) * (1 - 1e-3)


def test_balances_that_are_kept_are_those_recomputed_to_the_last_digit(place: str) -> None:
    """Recomputed over all cells of two columns, from nothing but the footprints in the log."""
    draw = random.Random(20261128)
    sizes = {"sex": 4, "age": 9}
    cells = {user: np.zeros(tuple(sizes.values()), np.int64) for user in ("alice", "bob", "")}
    with Ledger.open(place) as ledger:
        for user in ("alice", "bob"):
            ledger.grant(user, dataset="adult", epsilon=1000)
        for _ in range(400):
            event = gaussian(draw.randint(1, 10**9))
            name = draw.choice(list(sizes))
            footprint = about(event, name, draw.randrange(sizes[name]))
            if draw.random() < 0.1:  # about everybody
                footprint = Footprint.constant(Price.of(event))
            user = draw.choice(["alice", "bob"])
            ledger.charge(user, "adult", event, statement="", footprint=footprint)
    with Ledger.open(place, create=False) as ledger:
        for entry in ledger.log():
            if entry.kind != "charge":
                continue
            loss = Footprint.from_text(entry.footprint).rho
            for payment in entry.payments:
                table = cells[payment.purse]
                table += loss.constant
                for factor in loss.factors:
                    (axis,) = factor.axes
                    lost = [factor.table[axis.at(code)] for code in range(sizes[axis.name])]
                    table += np.array(lost).reshape((-1, 1) if axis.name == "sex" else (1, -1))
                assert payment.after.rho == table.max()
        kept = {b.grant.user: b.spent_rho for b in (*ledger.purses(), *ledger.caps())}
    assert kept == {user: table.max() for user, table in cells.items()}
    assert verify(place).problems == ()
