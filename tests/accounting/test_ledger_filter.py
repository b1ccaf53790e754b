"""The rule by which a charge is refused."""

from fractions import Fraction

import hypothesis
import pytest
from hypothesis import strategies as st

from dpsql.accounting.events import PICO, Gaussian, Laplace
from dpsql.accounting.filter import holds
from dpsql.accounting.purse import LIMIT, NOTHING, Entry, Grant, Price, Purse


def grant(epsilon: float, delta: float) -> Grant:
    return Grant.of("alice", "adult", epsilon, delta, "2026-01-01T00:00:00.000+00:00")


amounts = st.integers(0, LIMIT) | st.integers(0, 10**13)
prices = st.builds(Price, amounts, st.none() | amounts)


@hypothesis.settings(derandomize=True)
@hypothesis.given(st.lists(prices, max_size=30), st.floats(1e-3, 1e7), st.sampled_from([0, 1e-6]))
def test_on_no_path_is_more_accepted_than_granted(
    offered: list[Price], epsilon: float, delta: float
) -> None:
    terms = grant(epsilon, delta)
    spent, paid = NOTHING, []
    for price in offered:
        if holds(terms, spent + price):
            spent = spent + price
            paid.append(price)
    assert spent.rho == sum(price.rho for price in paid) <= LIMIT
    if delta == 0:
        assert all(price.epsilon is not None for price in paid)
        assert Fraction(sum(price.epsilon or 0 for price in paid), PICO) <= Fraction(repr(epsilon))
    else:
        assert spent.rho <= terms.rho


@hypothesis.settings(derandomize=True)
@hypothesis.given(st.permutations([1, 2, 3, 5, 8, 13]), st.integers(0, 40))
def test_the_total_does_not_depend_on_the_order(order: list[int], more: int) -> None:
    spent = NOTHING
    for rho in order:
        spent = spent + Price(rho, None if rho == 8 else rho)
    assert spent == Price(32, None)
    assert (spent + Price(more, 1)).rho == 32 + more


def test_a_smaller_noise_is_never_cheaper() -> None:
    for k in range(1, 200):
        assert Price.of(Gaussian(1, Fraction(k))).rho >= Price.of(Gaussian(1, Fraction(k + 1))).rho
        narrow, wide = (Price.of(Laplace(1, 1, Fraction(b))) for b in (k, k + 1))
        assert narrow.rho >= wide.rho and (narrow.epsilon or 0) >= (wide.epsilon or 0)


def test_pure_prices_add_and_rho_does_not_decide() -> None:
    terms = grant(1, 0)
    assert holds(terms, Price(LIMIT - 1, PICO - 1) + Price(1, 1))
    assert not holds(terms, Price(0, PICO) + Price(0, 1))
    assert not holds(terms, Price(0, None) + Price(0, 0))
    assert not holds(terms, Price(LIMIT, 0) + Price(1, 1))


def test_epsilon_does_not_decide_under_a_delta() -> None:
    terms = grant(1, 1e-6)
    assert holds(terms, Price(terms.rho - 1, None) + Price(1, None))
    assert holds(terms, Price(0, LIMIT) + Price(terms.rho, LIMIT))
    assert not holds(terms, Price(terms.rho, 0) + Price(1, 0))


@pytest.mark.parametrize("rho", [float("nan"), float("inf"), -1, 1.0, True, None, "1"])
def test_a_price_checks_itself(rho: object) -> None:
    with pytest.raises(ValueError, match="not a price"):
        Price(rho, None)
    if rho is not None:
        with pytest.raises(ValueError, match="not a price"):
            Price(1, rho)


@pytest.mark.parametrize(
    "terms",
    [
        {"epsilon": float("nan")},
        {"epsilon": 0.0},
        {"epsilon": 1e8},
        {"delta": float("nan")},
        {"delta": 0.9},
        {"rho": -1},
        {"rho": LIMIT + 1},
        {"rho": 0},
        {"rho": 0.5},
        {"delta": 0.0},
        {"epsilon_pico": 2**63},
        {"at": b""},
        {"user": None},
    ],
)
def test_a_grant_checks_itself(terms: dict[str, object]) -> None:
    names = {"user": "a", "dataset": "b", "at": ""}
    sound: dict[str, object] = {"epsilon": 1.0, "delta": 1e-6, "rho": 5, "epsilon_pico": PICO}
    Grant(**names, **sound)
    with pytest.raises(ValueError, match=r"not a grant|not text"):
        Grant(**(names | sound | terms))


@pytest.mark.parametrize(
    "field",
    [{"seq": -1}, {"seq": None}, {"kind": "gift"}, {"at": b""}, {"event": []}, {"statement": None}],
)
def test_an_entry_checks_itself(field: dict[str, object]) -> None:
    sound: dict[str, object] = {
        **{"seq": 1, "at": "", "kind": "charge", "user": "a", "dataset": "b"},
        **{"before": NOTHING, "after": NOTHING, "event": {}},
    }
    Entry(**sound)
    with pytest.raises(ValueError, match=r"not an entry|not an event|not text"):
        Entry(**(sound | field))


def test_a_purse_checks_itself() -> None:
    with pytest.raises(ValueError, match="not text"):
        Purse("a", b"", None, NOTHING)
