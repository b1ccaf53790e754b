"""The cap of a dataset: what all its users may learn together, in every book."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpsql.accounting.caps import lifting
from dpsql.accounting.convert import epsilon_of, pure_rho, rho_of
from dpsql.accounting.events import PICO, Event, Gaussian, Laplace
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.purse import EVERYBODY, Balance
from dpsql.errors import BudgetExceeded, UsageError

CHEAP = Gaussian(1, Fraction(500))  # rho = 0.001
PURE = Laplace(1, 1, Fraction(10))  # epsilon = 0.1


def pay(ledger: Ledger, user: str = "alice", event: Event = CHEAP, dataset: str = "adult") -> int:
    return ledger.charge(user, dataset, event, statement="SELECT COUNT(*) FROM adult").seq


def rho(amount: int) -> Gaussian:
    """A release that costs so many pico."""
    return Gaussian(amount, Fraction(PICO, 2))


def cap(ledger: Ledger, dataset: str = "adult") -> Balance:
    (found,) = (balance for balance in ledger.caps() if balance.grant.dataset == dataset)
    return found


def spent(ledger: Ledger, user: str, dataset: str = "adult") -> int:
    return ledger.balance(user, dataset).spent_rho


def test_ten_users_who_collude_hold_what_one_was_granted(ledger: Ledger) -> None:
    users = [f"user{number}" for number in range(10)]
    for user in users:
        ledger.grant(user, dataset="adult", epsilon=1)
    part = rho(rho_of(1, 1e-6) // 20)
    paid = 0
    for user in users * 3:
        try:
            pay(ledger, user, part)
            paid += part.rho
        except BudgetExceeded as refusal:
            assert "all users of adult together have" in str(refusal)
    assert rho_of(1, 1e-6) - part.rho < paid <= rho_of(1, 1e-6)
    assert cap(ledger).spent_rho == paid == sum(spent(ledger, user) for user in users)


def test_without_a_cap_they_would_hold_three_and_a_half() -> None:
    assert 3.45 < epsilon_of(10 * rho_of(1, 1e-6), 1e-6) < 3.55


def test_the_cap_is_the_largest_single_grant(ledger: Ledger) -> None:
    ledger.grant("alice", dataset="adult", epsilon=1)
    assert cap(ledger).grant.epsilon == 1 and not cap(ledger).fixed
    ledger.grant("bob", dataset="adult", epsilon=3, delta=1e-9)
    assert (cap(ledger).grant.epsilon, cap(ledger).grant.delta) == (3, 1e-9)
    ledger.grant("alice", dataset="adult", epsilon=0.5)
    assert cap(ledger).grant.epsilon == 3
    ledger.grant("bob", dataset="adult", epsilon=2)
    assert cap(ledger).grant.rho == rho_of(2, 1e-6)
    ledger.revoke("bob", dataset="adult")
    assert cap(ledger).grant.epsilon == 0.5
    ledger.grant("bob", dataset="other", epsilon=9)
    assert cap(ledger).grant.epsilon == 0.5 and cap(ledger, "other").grant.epsilon == 9


def test_which_grant_is_the_largest_is_told_by_rho_and_not_by_epsilon(ledger: Ledger) -> None:
    ledger.grant("alice", dataset="adult", epsilon=1, delta=1e-3)
    ledger.grant("bob", dataset="adult", epsilon=1.1, delta=1e-12)
    assert rho_of(1, 1e-3) > rho_of(1.1, 1e-12)
    assert cap(ledger).grant.rho == rho_of(1, 1e-3)


def test_a_refusal_by_the_cap_names_it_and_what_moves_it(ledger: Ledger) -> None:
    ledger.grant("alice", dataset="adult", epsilon=1)
    ledger.grant("bob", dataset="adult", epsilon=1)
    grant = ledger.balance("alice", "adult").grant
    pay(ledger, "alice", rho(grant.rho))
    before = ledger.dump()
    with pytest.raises(BudgetExceeded) as refusal:
        pay(ledger, "bob")
    assert str(refusal.value) == (
        "release costs ρ=0.001 (ε=0.183), all users of adult together have ρ=0 (ε=0) left of"
        f" ρ=0.0{grant.rho // 10**7} (ε=1) at δ=1e-06 (the dataset's cap; the owner moves it:"
        " dpsql budget cap DB --epsilon E --dataset adult); nothing was charged"
    )
    assert ledger.dump() == before
    ledger.cap("adult", epsilon=5)
    pay(ledger, "bob")


def test_what_is_left_counts_what_the_cap_leaves(ledger: Ledger) -> None:
    ledger.grant("alice", dataset="adult", epsilon=2)
    ledger.grant("bob", dataset="adult", epsilon=1)
    alone = ledger.balance("bob", "adult").left_rho
    assert alone == rho_of(1, 1e-6)
    pay(ledger, "alice", rho(rho_of(2, 1e-6) - 1000))
    bob = ledger.balance("bob", "adult")
    assert (bob.spent_rho, bob.left_rho) == (0, 1000)
    assert bob.left_epsilon < 1e-3 * PICO
    pay(ledger, "bob", rho(1000))
    with pytest.raises(BudgetExceeded):
        pay(ledger, "bob", rho(1))


def test_a_cap_that_the_owner_fixes_stays_until_it_is_let_go(ledger: Ledger) -> None:
    ledger.grant("alice", dataset="adult", epsilon=1)
    fixed = ledger.cap("adult", epsilon=0.5)
    assert fixed.user == EVERYBODY and cap(ledger).grant == fixed and cap(ledger).fixed
    ledger.grant("bob", dataset="adult", epsilon=4)
    ledger.revoke("alice", dataset="adult")
    assert cap(ledger).grant.epsilon == 0.5
    with pytest.raises(BudgetExceeded, match="all users of adult together have"):
        pay(ledger, "bob", rho(rho_of(0.5, 1e-6) + 1))
    pay(ledger, "bob", rho(rho_of(0.5, 1e-6)))
    ledger.uncap("adult")
    assert (cap(ledger).grant.epsilon, cap(ledger).fixed) == (4, False)
    pay(ledger, "bob")


def test_a_grant_can_bring_its_cap(ledger: Ledger) -> None:
    ledger.grant("alice", dataset="adult", epsilon=1, delta=1e-9, cap=3)
    assert (cap(ledger).grant.epsilon, cap(ledger).grant.delta, cap(ledger).fixed) == (
        3,
        1e-9,
        True,
    )
    before = ledger.dump()
    with pytest.raises(UsageError, match="epsilon is"):
        ledger.grant("bob", dataset="adult", epsilon=1, cap=-3)
    assert ledger.dump() == before


@pytest.mark.parametrize("epsilon", [float("nan"), float("inf"), 0, -1, 1e308, 5e-324, "1", True])
def test_a_cap_that_is_no_budget_is_refused(ledger: Ledger, epsilon: float) -> None:
    ledger.grant("alice", dataset="adult", epsilon=1)
    before = ledger.dump()
    with pytest.raises(UsageError):
        ledger.cap("adult", epsilon=epsilon)
    with pytest.raises(UsageError):
        ledger.grant("alice", dataset="adult", epsilon=1, cap=epsilon)
    assert ledger.dump() == before


def test_a_pure_grant_counts_as_what_one_release_of_it_costs(ledger: Ledger) -> None:
    ledger.grant("alice", dataset="adult", epsilon=1)
    ledger.grant("paul", dataset="adult", epsilon=1, delta=0)
    assert cap(ledger).grant.rho == pure_rho(PICO) > rho_of(1, 1e-6)
    grants = [balance.grant for balance in ledger.purses()]
    assert lifting(grants, cap(ledger).grant) == ledger.balance("paul", "adult").grant
    pay(ledger, "paul", Laplace(1, 1, Fraction(1)))  # all of it at once
    assert ledger.balance("paul", "adult").left_epsilon == 0
    ledger.revoke("paul", dataset="adult")
    assert lifting(grants[:1], cap(ledger).grant) is None


def test_a_cap_has_the_largest_delta_of_the_grants(ledger: Ledger) -> None:
    assert ledger.cap("adult", epsilon=1).delta == 1e-6
    ledger.grant("alice", dataset="adult", epsilon=1, delta=0)
    assert ledger.cap("adult", epsilon=1).delta == 0
    ledger.grant("bob", dataset="adult", epsilon=1, delta=1e-9)
    assert ledger.cap("adult", epsilon=1).delta == 1e-9
    assert ledger.cap("adult", epsilon=1, delta=1e-5).delta == 1e-5


def test_pure_grants_have_a_pure_cap_in_epsilon(ledger: Ledger) -> None:
    for user in ("alice", "bob"):
        ledger.grant(user, dataset="adult", epsilon=0.25, delta=0)
    assert cap(ledger).grant.pure
    pay(ledger, "alice", PURE)
    pay(ledger, "bob", PURE)
    assert ledger.balance("bob", "adult").left_epsilon == PICO // 20
    with pytest.raises(BudgetExceeded, match=r"all users of adult together have ε=0\.05 left"):
        pay(ledger, "alice", PURE)


def test_a_cap_over_pure_and_other_grants_holds_what_the_largest_can_spend(ledger: Ledger) -> None:
    ledger.grant("pure", dataset="adult", epsilon=1, delta=0)
    ledger.grant("other", dataset="adult", epsilon=0.1)
    most = cap(ledger).grant
    assert most.delta == 1e-6 and 0.46 * PICO < most.rho < 0.463 * PICO  # tanh(1/2)
    assert abs(epsilon_of(most.rho, 1e-6) - most.epsilon) < 1e-9
    for _ in range(10):
        pay(ledger, "pure", PURE)
    assert ledger.balance("pure", "adult").left_epsilon == 0
    assert cap(ledger).spent_rho < most.rho // 2  # ten tenths cost less in rho than one whole
    pay(ledger, "other", rho(rho_of(0.1, 1e-6)))


def test_what_a_cap_in_rho_leaves_to_a_pure_grant_can_be_spent(ledger: Ledger) -> None:
    ledger.grant("pure", dataset="adult", epsilon=1, delta=0)
    ledger.cap("adult", epsilon=0.5, delta=1e-6)
    left = ledger.balance("pure", "adult").left_epsilon
    assert 0 < left < PICO
    pay(ledger, "pure", Laplace(1, 1, Fraction(PICO, left - left // 10**6)))
    assert ledger.balance("pure", "adult").left_epsilon < left // 100


def test_no_pure_cap_after_a_release_without_a_pure_epsilon(ledger: Ledger) -> None:
    ledger.grant("alice", dataset="adult", epsilon=1)
    pay(ledger)
    before = ledger.dump()
    with pytest.raises(UsageError, match="no cap at delta = 0 can hold"):
        ledger.cap("adult", epsilon=1, delta=0)
    assert ledger.dump() == before
    ledger.revoke("alice", dataset="adult")
    ledger.grant("pure", dataset="adult", epsilon=1, delta=0)
    assert cap(ledger).grant.delta == 1e-6
    pay(ledger, "pure", PURE)


def test_under_a_pure_cap_a_release_without_a_pure_epsilon_is_refused(ledger: Ledger) -> None:
    ledger.grant("alice", dataset="adult", epsilon=1)
    ledger.cap("adult", epsilon=1, delta=0)
    with pytest.raises(BudgetExceeded, match="all users of adult together is pure"):
        pay(ledger)
    pay(ledger, event=PURE)


def test_a_dataset_is_capped_by_its_own_users_alone(ledger: Ledger) -> None:
    for dataset in ("adult", "cps"):
        ledger.grant("alice", dataset=dataset, epsilon=1)
    whole = rho(rho_of(1, 1e-6))
    pay(ledger, "alice", whole, "adult")
    pay(ledger, "alice", whole, "cps")


def test_every_purse_pays_or_none(ledger: Ledger) -> None:
    ledger.grant("team", dataset="adult", epsilon=3)
    ledger.grant("alice", dataset="adult", epsilon=2)
    ledger.join("alice", "team", dataset="adult")
    ledger.cap("adult", epsilon=1)
    pay(ledger)
    for user, grant in (("alice", 2), ("team", 3)):
        assert spent(ledger, user) == CHEAP.rho
        assert ledger.balance(user, "adult").grant.epsilon == grant
    assert cap(ledger).spent_rho == CHEAP.rho
    entry = list(ledger.log())[-1]
    assert [payment.purse for payment in entry.payments] == ["alice", "team", EVERYBODY]
    assert {(p.before.rho, p.after.rho) for p in entry.payments} == {(0, CHEAP.rho)}
    before = ledger.dump()
    with pytest.raises(BudgetExceeded, match="all users of adult"):
        pay(ledger, event=rho(rho_of(1, 1e-6)))
    ledger_without_cap = ledger.cap("adult", epsilon=9)
    assert ledger_without_cap.epsilon == 9
    before = ledger.dump()
    with pytest.raises(BudgetExceeded, match="alice on adult has"):
        pay(ledger, event=rho(rho_of(2.5, 1e-6)))
    ledger.grant("alice", dataset="adult", epsilon=5)
    held = ledger.dump()
    with pytest.raises(BudgetExceeded, match="team on adult has"):
        pay(ledger, event=rho(rho_of(4, 1e-6)))
    assert ledger.dump() == held != before
