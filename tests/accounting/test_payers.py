"""Who pays: groups and grants that end, in every book."""

from __future__ import annotations

import datetime
import threading
from fractions import Fraction

import pytest

from dpsql.accounting.convert import rho_of
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


def test_what_a_member_asked_counts_when_they_are_granted_something_of_their_own(
    ledger: Ledger,
) -> None:
    ledger.grant("team", dataset="adult", epsilon=1)
    ledger.join("bob", "team", dataset="adult")
    pay(ledger, "bob", rho(rho_of(0.5, 1e-6)))
    ledger.leave("bob", "team", dataset="adult")
    ledger.cap("adult", epsilon=9)
    ledger.grant("bob", dataset="adult", epsilon=0.5)
    assert spent(ledger, "bob") == rho_of(0.5, 1e-6)
    with pytest.raises(BudgetExceeded, match="bob on adult has"):
        pay(ledger, "bob")
    ledger.revoke("bob", dataset="adult")
    ledger.join("bob", "team", dataset="adult")
    pay(ledger, "bob")
    ledger.grant("bob", dataset="adult", epsilon=2)
    assert spent(ledger, "bob") == rho_of(0.5, 1e-6) + CHEAP.rho


def test_a_release_without_a_pure_epsilon_in_a_group_bars_a_pure_grant(ledger: Ledger) -> None:
    ledger.grant("team", dataset="adult", epsilon=1)
    ledger.join("bob", "team", dataset="adult")
    pay(ledger, "bob")
    with pytest.raises(UsageError, match="no pure epsilon"):
        ledger.grant("bob", dataset="adult", epsilon=1, delta=0)


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
    with pytest.raises(NoGrant, match="ended") as refusal:
        ledger.balance("alice", "adult")
    assert str(refusal.value).endswith(
        "(the latest time that the ledger has seen is 2026-07-05 00:00 UTC, this clock says"
        " 2026-06-02 00:00 UTC; if the clock was wrong then, the owner has time begin anew:"
        " dpsql budget verify DB --accept REASON)"
    )
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
        ("9999-12-31", "9999-12-31T23:59:59.999+00:00"),
    ]:
        assert ledger.grant("alice", dataset="adult", epsilon=1, until=until).until == end
    before = ledger.dump()
    for wrong in (
        "tomorrow",
        "",
        "2026-13-01",
        "2026-06-30T07:00:00",
        "9999-12-31T23:00-05:00",
        7,
        "2026-05-31",
    ):
        with pytest.raises(UsageError, match="until"):
            ledger.grant("alice", dataset="adult", epsilon=1, until=wrong)
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
    kept = ledger._book._kept
    del kept[EVERYBODY, "adult"]
    with pytest.raises(LedgerError, match="has grants on adult and no cap"):
        pay(ledger)
