"""Who pays: caps, groups and grants that end, in every book."""

from __future__ import annotations

import datetime
import threading
from fractions import Fraction

import pytest

from dpsql.accounting.convert import epsilon_of, rho_of
from dpsql.accounting.events import PICO, Event, Gaussian, Laplace
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.purse import EVERYBODY, Balance
from dpsql.errors import BudgetError, BudgetExceeded, LedgerError, NoGrant, UsageError

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


# -- the cap -----------------------------------------------------------------------------------


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
        f" ρ=0.0{grant.rho} (ε=1) at δ=1e-06 (the dataset's cap; the owner moves it:"
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


# -- groups ------------------------------------------------------------------------------------


def test_members_share_the_purse_of_their_group(ledger: Ledger) -> None:
    for user in ("bob", "carol"):
        ledger.join(user, "team", dataset="adult")
    with pytest.raises(NoGrant, match=r"team, a group of bob, has no grant on adult.*--remove bob"):
        pay(ledger, "bob")
    ledger.grant("team", dataset="adult", epsilon=1)
    assert ledger.members("team", dataset="adult") == ("bob", "carol")
    pay(ledger, "bob")
    pay(ledger, "carol")
    for user in ("bob", "carol", "team"):
        assert spent(ledger, user) == 2 * CHEAP.rho
        assert ledger.balance(user, "adult").grant.user == "team"
    with pytest.raises(NoGrant):
        pay(ledger, "dave")
    with pytest.raises(BudgetExceeded, match="team on adult has"):
        pay(ledger, "bob", rho(rho_of(1, 1e-6)))


def test_a_members_own_grant_bounds_them_within_the_group(ledger: Ledger) -> None:
    ledger.grant("team", dataset="adult", epsilon=2)
    for user in ("bob", "carol"):
        ledger.join(user, "team", dataset="adult")
    ledger.grant("bob", dataset="adult", epsilon=0.5)
    pay(ledger, "bob", rho(rho_of(0.5, 1e-6)))
    with pytest.raises(BudgetExceeded, match="bob on adult has"):
        pay(ledger, "bob")
    pay(ledger, "carol")
    assert spent(ledger, "team") == rho_of(0.5, 1e-6) + CHEAP.rho


def test_groups_of_groups_pay_as_well_and_once(ledger: Ledger) -> None:
    for user, group in [("bob", "team"), ("bob", "floor"), ("team", "house"), ("floor", "house")]:
        ledger.join(user, group, dataset="adult")
    ledger.join("house", "bob", dataset="adult")  # a ring does no harm
    for group in ("team", "floor", "house"):
        ledger.grant(group, dataset="adult", epsilon=1)
    pay(ledger, "bob")
    paid = {balance.grant.user: balance.spent_rho for balance in ledger.purses()}
    assert paid == dict.fromkeys(("team", "floor", "house"), CHEAP.rho)
    assert cap(ledger).spent_rho == CHEAP.rho


def test_who_leaves_a_group_does_not_pay_from_it(ledger: Ledger) -> None:
    ledger.grant("team", dataset="adult", epsilon=1)
    ledger.join("bob", "team", dataset="adult")
    pay(ledger, "bob")
    ledger.leave("bob", "team", dataset="adult")
    with pytest.raises(NoGrant, match="bob has no grant on adult"):
        pay(ledger, "bob")
    assert ledger.members("team", dataset="adult") == ()
    assert spent(ledger, "team") == CHEAP.rho


def test_whoever_is_revoked_gets_nothing_from_groups_either(ledger: Ledger) -> None:
    ledger.grant("team", dataset="adult", epsilon=1)
    ledger.join("bob", "team", dataset="adult")
    ledger.revoke("bob", dataset="adult")
    with pytest.raises(NoGrant):
        pay(ledger, "bob")
    with pytest.raises(NoGrant):
        ledger.revoke("bob", dataset="adult")
    ledger.join("bob", "team", dataset="adult")
    ledger.revoke("team", dataset="adult")
    with pytest.raises(NoGrant, match="a group of bob"):
        pay(ledger, "bob")


def test_membership_is_of_one_dataset(ledger: Ledger) -> None:
    for dataset in ("adult", "cps"):
        ledger.grant("team", dataset=dataset, epsilon=1)
    ledger.join("bob", "team", dataset="cps")
    pay(ledger, "bob", dataset="cps")
    with pytest.raises(NoGrant):
        pay(ledger, "bob")


def test_wrong_moves_are_refused_and_change_nothing(ledger: Ledger) -> None:
    ledger.join("bob", "team", dataset="adult")
    before = ledger.dump()
    for wrong in (
        lambda: ledger.join("bob", "team", dataset="adult"),
        lambda: ledger.join("bob", "bob", dataset="adult"),
        lambda: ledger.leave("bob", "other", dataset="adult"),
        lambda: ledger.leave("carol", "team", dataset="adult"),
        lambda: ledger.join("bob", "", dataset="adult"),
        lambda: ledger.join("bob", "a\nb", dataset="adult"),
        lambda: ledger.join("", "team", dataset="adult"),
        lambda: ledger.cap("", epsilon=1),
    ):
        with pytest.raises(UsageError):
            wrong()
    assert ledger.dump() == before


def test_the_log_of_a_user_or_group_is_what_concerns_them(ledger: Ledger) -> None:
    ledger.grant("team", dataset="adult", epsilon=1)
    ledger.grant('q"team', dataset="adult", epsilon=1)
    ledger.join("bob", "team", dataset="adult")
    pay(ledger, "bob")
    pay(ledger, 'q"team')
    kinds = {user: [entry.kind for entry in ledger.log(user)] for user in ("bob", "team", 'q"team')}
    assert kinds == {
        "bob": ["join", "charge"],
        "team": ["grant", "join", "charge"],
        'q"team': ["grant", "charge"],
    }
    assert [balance.grant.user for balance in ledger.paying("bob")] == ["team"]
    assert ledger.paying("nobody") == []


# -- grants that end ---------------------------------------------------------------------------


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = "2026-06-01T12:00:00.000+00:00"

    def __call__(self) -> str:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr("dpsql.accounting.ledger._now", found)
    return found


def test_a_grant_ends_with_the_last_second_of_its_day(ledger: Ledger, clock: Clock) -> None:
    grant = ledger.grant("alice", dataset="adult", epsilon=1, until="2026-06-30")
    assert grant.until == "2026-07-01T00:00:00.000+00:00"
    assert ledger.balance("alice", "adult").grant == grant
    clock.now = "2026-06-30T23:59:59.999+00:00"
    pay(ledger)
    clock.now = "2026-07-01T00:00:00.000+00:00"
    with pytest.raises(NoGrant) as refusal:
        pay(ledger)
    assert str(refusal.value) == (
        "the grant of alice on adult ended: it was until 2026-06-30; the owner gives another:"
        " dpsql budget grant DB alice --dataset adult --epsilon E"
    )
    with pytest.raises(NoGrant, match="ended"):
        ledger.balance("alice", "adult")
    (told,) = ledger.purses()
    assert told.ended and told.left_rho == told.left_epsilon == 0


def test_a_clock_set_back_opens_nothing_again(ledger: Ledger, clock: Clock) -> None:
    ledger.grant("alice", dataset="adult", epsilon=1, until="2026-06-30")
    clock.now = "2026-07-05T00:00:00.000+00:00"
    for _ in range(3):
        with pytest.raises(NoGrant, match="ended"):
            pay(ledger)
    clock.now = "2026-06-02T00:00:00.000+00:00"
    with pytest.raises(NoGrant, match="ended"):
        pay(ledger)
    with pytest.raises(NoGrant, match="ended"):
        ledger.balance("alice", "adult")
    assert [entry.kind for entry in ledger.log()] == ["grant", "end"]


def test_what_anybody_does_later_ends_it_too(ledger: Ledger, clock: Clock) -> None:
    ledger.grant("alice", dataset="adult", epsilon=1, until="2026-06-30")
    ledger.grant("bob", dataset="cps", epsilon=1)
    clock.now = "2026-07-01T00:00:00.000+00:00"
    pay(ledger, "bob", dataset="cps")
    clock.now = "2026-06-02T00:00:00.000+00:00"
    with pytest.raises(NoGrant, match="ended"):
        pay(ledger)
    assert [entry.kind for entry in ledger.log()] == ["grant", "grant", "charge"]


def test_a_new_grant_opens_what_has_ended_and_remembers_what_was_spent(
    ledger: Ledger, clock: Clock
) -> None:
    ledger.grant("alice", dataset="adult", epsilon=1, until="2026-06-30")
    pay(ledger)
    clock.now = "2026-07-05T00:00:00.000+00:00"
    with pytest.raises(UsageError, match="has passed"):
        ledger.grant("alice", dataset="adult", epsilon=1, until="2026-07-04")
    ledger.grant("alice", dataset="adult", epsilon=1, until="2026-07-05")
    pay(ledger)
    assert spent(ledger, "alice") == 2 * CHEAP.rho


def test_a_group_that_has_ended_pays_nothing(ledger: Ledger, clock: Clock) -> None:
    ledger.grant("team", dataset="adult", epsilon=1, until="2026-06-30")
    ledger.grant("bob", dataset="adult", epsilon=1)
    ledger.join("bob", "team", dataset="adult")
    pay(ledger, "bob")
    clock.now = "2026-07-01T00:00:00.000+00:00"
    with pytest.raises(NoGrant, match="the grant of team on adult ended"):
        pay(ledger, "bob")


def test_an_end_is_a_day_or_a_time_with_its_zone(ledger: Ledger, clock: Clock) -> None:
    zone = datetime.timezone(datetime.timedelta(hours=2))
    for until, end in [
        (datetime.date(2026, 6, 30), "2026-07-01T00:00:00.000+00:00"),
        (datetime.datetime(2026, 6, 30, 9, tzinfo=zone), "2026-06-30T07:00:00.000+00:00"),
        ("2026-06-30T07:00:00Z", "2026-06-30T07:00:00.000+00:00"),
    ]:
        assert ledger.grant("alice", dataset="adult", epsilon=1, until=until).until == end
    before = ledger.dump()
    for wrong in (
        "tomorrow",
        "",
        "2026-13-01",
        "2026-06-30T07:00:00",
        "9999-12-31",
        7,
        "2026-05-31",
    ):
        with pytest.raises(UsageError, match="until"):
            ledger.grant("alice", dataset="adult", epsilon=1, until=wrong)  # type: ignore[arg-type]
    assert ledger.dump() == before


# -- at the same time --------------------------------------------------------------------------


@pytest.mark.usefixtures("restless")
def test_fifty_users_at_once_spend_no_more_than_the_cap(ledger: Ledger) -> None:
    for number in range(50):
        ledger.grant(f"user{number}", dataset="adult", epsilon=0.35, delta=0)
    gate = threading.Barrier(50)
    outcomes: list[str] = []

    def buy(number: int) -> None:
        gate.wait()
        try:
            pay(ledger, f"user{number}", PURE)
            outcomes.append("paid")
        except BudgetError as refusal:
            outcomes.append(type(refusal).__name__)

    threads = [threading.Thread(target=buy, args=(number,)) for number in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["BudgetExceeded"] * 47 + ["paid"] * 3
    assert cap(ledger).spent_epsilon == 3 * PICO // 10


def test_a_ledger_without_its_cap_answers_nothing() -> None:
    ledger = Ledger.memory()
    ledger.grant("alice", dataset="adult", epsilon=1)
    kept = ledger._book._kept  # type: ignore[attr-defined]
    del kept[EVERYBODY, "adult"]
    with pytest.raises(LedgerError, match="has grants on adult and no cap"):
        pay(ledger)
