"""What every book keeps: grants, charges, refusals and the log."""

import dataclasses
import itertools
import threading
from fractions import Fraction

import pytest

from dpsql.accounting.convert import rho_of
from dpsql.accounting.events import PICO, Event, Gaussian, Laplace
from dpsql.accounting.ledger import Ledger, Price
from dpsql.accounting.purse import LIMIT
from dpsql.errors import BudgetError, BudgetExceeded, LedgerError, NoGrant, UsageError

TENTH = Gaussian(1, Fraction(5))  # rho = 1/(2 * 5)
PURE_TENTH = Laplace(1, 1, Fraction(10))  # epsilon = 1/10
VAST = Gaussian(2**62, Fraction(1, 2**64))


def pay(ledger: Ledger, event: Event = TENTH, user: str = "alice", dataset: str = "adult") -> int:
    return ledger.charge(user, dataset, event, statement="SELECT COUNT(*) FROM adult").seq


def test_without_a_grant_nothing_is_charged(ledger: Ledger) -> None:
    with pytest.raises(NoGrant) as refusal:
        pay(ledger)
    assert str(refusal.value) == (
        "alice has no grant on adult; the owner gives one:"
        " dpsql budget grant DB alice --epsilon E --dataset adult"
    )
    assert ledger.dump() == []


def test_the_command_of_a_refusal_can_be_pasted(ledger: Ledger) -> None:
    with pytest.raises(NoGrant, match=r"grant DB 'o'\"'\"'neil; ls' .*--dataset 'my visits'"):
        ledger.balance("o'neil; ls", "my visits")


def test_a_grant_holds_its_rho_rounded_down(ledger: Ledger) -> None:
    grant = ledger.grant("alice", dataset="adult", epsilon=2)
    assert (grant.epsilon, grant.delta, grant.rho) == (2.0, 1e-6, rho_of(2.0, 1e-6))
    assert abs(grant.rho / PICO - 0.088152688) < 1e-8  # the table of the design
    assert ledger.balance("alice", "adult").left_rho == grant.rho


def test_a_charge_moves_the_balance_by_its_price_exactly(ledger: Ledger) -> None:
    ledger.grant("alice", dataset="adult", epsilon=10)
    receipt = ledger.charge("alice", "adult", TENTH, statement="SELECT 1")
    assert receipt.price == Price(PICO // 10, None)
    assert receipt.before.spent_rho == 0
    assert receipt.after.spent_rho == PICO // 10
    assert receipt.after == ledger.balance("alice", "adult")
    assert receipt.after.left_rho == receipt.before.left_rho - PICO // 10
    assert receipt.after.left_epsilon < receipt.before.left_epsilon


def test_sums_are_exact_where_floats_are_not(ledger: Ledger) -> None:
    ledger.grant("alice", dataset="adult", epsilon=0.3, delta=0)
    for _ in range(3):
        pay(ledger, PURE_TENTH)
    assert ledger.balance("alice", "adult").left_epsilon == 0
    with pytest.raises(BudgetExceeded):
        pay(ledger, Laplace(1, 1, Fraction(10**12)))


def test_a_purse_can_be_spent_to_the_last_pico_and_not_beyond(ledger: Ledger) -> None:
    grant = ledger.grant("alice", dataset="adult", epsilon=1)
    last = Gaussian(grant.rho - 1, Fraction(PICO, 2))
    assert last.rho == grant.rho - 1
    pay(ledger, last)
    with pytest.raises(BudgetExceeded):
        pay(ledger, Gaussian(2, Fraction(PICO, 2)))
    pay(ledger, Gaussian(1, Fraction(PICO, 2)))
    assert ledger.balance("alice", "adult").left_rho == 0


def test_the_least_price_is_one_pico(ledger: Ledger) -> None:
    ledger.grant("alice", dataset="adult", epsilon=1)
    assert pay(ledger, Odd(0, 0)) == 2
    balance = ledger.balance("alice", "adult")
    assert balance.spent_rho == balance.spent_epsilon == 1


def test_a_million_tiny_charges_are_not_lost() -> None:
    price, spent = Price(1, 1), Price(PICO, PICO)
    for _ in range(1000):
        spent = spent + price
    assert spent == Price(PICO + 1000, PICO + 1000)


def test_a_refused_charge_changes_nothing(ledger: Ledger) -> None:
    ledger.grant("alice", dataset="adult", epsilon=1)
    pay(ledger, Gaussian(1, Fraction(100)))
    before = ledger.dump()
    for event in (TENTH, VAST, Laplace(2**62, 1, Fraction(1, 2**64))):
        with pytest.raises(BudgetExceeded, match="nothing was charged"):
            pay(ledger, event)
    with pytest.raises(NoGrant):
        pay(ledger, user="bob")
    assert ledger.dump() == before
    pay(ledger, Gaussian(1, Fraction(100)))


def test_a_refusal_says_the_price_and_what_is_left(ledger: Ledger) -> None:
    ledger.grant("alice", dataset="adult", epsilon=1)
    with pytest.raises(BudgetExceeded) as refusal:
        pay(ledger)
    text = str(refusal.value)
    assert text.startswith("release costs ρ=0.1 (ε=2.14), alice on adult has ρ=0.02435")
    assert "left of ρ=0.02435" in text
    assert text.endswith(
        "(ε=1) at δ=1e-06; nothing was charged; a price up to ρ=0.02435 can be paid, or the owner"
        " can grant more: dpsql budget grant DB alice --dataset adult --epsilon E"
    )


def test_a_refusal_tells_costs_apart_that_differ_by_the_last_digit(ledger: Ledger) -> None:
    ledger.grant("alice", dataset="adult", epsilon=1)
    whole = ledger.balance("alice", "adult").grant.rho
    with pytest.raises(BudgetExceeded, match=r"costs ρ=0.02436 .*has ρ=0.02435 "):
        pay(ledger, Gaussian(1, Fraction(10**12, 2 * (whole + 1))))
    pay(ledger, Gaussian(1, Fraction(10**12, 2 * whole)))
    with pytest.raises(BudgetExceeded, match="charged; the owner can grant more: dpsql budget"):
        pay(ledger)


def test_a_pure_refusal_speaks_of_epsilon(ledger: Ledger) -> None:
    ledger.grant("alice", dataset="adult", epsilon=0.05, delta=0)
    with pytest.raises(BudgetExceeded) as refusal:
        pay(ledger, PURE_TENTH)
    assert str(refusal.value) == (
        "release costs ε=0.1, alice on adult has ε=0.05 left of 0.05 (pure, δ=0);"
        " nothing was charged; a price up to ε=0.05 can be paid, or the owner can grant more:"
        " dpsql budget grant DB alice --dataset adult --epsilon E"
    )


def test_a_pure_purse_refuses_a_release_without_a_pure_epsilon(ledger: Ledger) -> None:
    ledger.grant("alice", dataset="adult", epsilon=1e6, delta=0)
    with pytest.raises(BudgetExceeded, match=r"no pure ε.*laplace.*nothing was charged"):
        pay(ledger)
    assert ledger.balance("alice", "adult").spent_epsilon == 0


def test_what_is_spent_stays_spent_when_terms_change(ledger: Ledger) -> None:
    ledger.grant("alice", dataset="adult", epsilon=1, delta=0)
    pay(ledger, PURE_TENTH)
    spent = ledger.balance("alice", "adult")
    assert (spent.spent_epsilon, spent.spent_rho) == (PICO // 10, PURE_TENTH.rho)
    for epsilon, delta in [(2, 1e-6), (0.01, 1e-9), (3, 0)]:
        ledger.grant("alice", dataset="adult", epsilon=epsilon, delta=delta)
        balance = ledger.balance("alice", "adult")
        assert (balance.spent_epsilon, balance.spent_rho) == (PICO // 10, PURE_TENTH.rho)
    assert balance.left_epsilon == 29 * PICO // 10
    ledger.revoke("alice", dataset="adult")
    ledger.grant("alice", dataset="adult", epsilon=0.05, delta=0)
    assert ledger.balance("alice", "adult").left_epsilon == 0
    with pytest.raises(BudgetExceeded):
        pay(ledger, PURE_TENTH)


def test_no_pure_grant_after_a_release_without_a_pure_epsilon(ledger: Ledger) -> None:
    ledger.grant("alice", dataset="adult", epsilon=10)
    pay(ledger, PURE_TENTH)
    assert ledger.balance("alice", "adult").spent_epsilon == PICO // 10
    pay(ledger)
    pay(ledger, PURE_TENTH)
    assert ledger.balance("alice", "adult").spent_epsilon is None
    before = ledger.dump()
    with pytest.raises(UsageError, match="alice has paid on adult for a release that has no pure"):
        ledger.grant("alice", dataset="adult", epsilon=10, delta=0)
    assert ledger.dump() == before


def test_a_revoked_grant_answers_nothing(ledger: Ledger) -> None:
    ledger.grant("alice", dataset="adult", epsilon=1)
    ledger.revoke("alice", dataset="adult")
    for refused in (
        lambda: ledger.balance("alice", "adult"),
        lambda: pay(ledger),
        lambda: ledger.revoke("alice", dataset="adult"),
    ):
        with pytest.raises(NoGrant):
            refused()
    assert ledger.purses() == []


def test_purses_are_of_a_user_and_a_dataset(ledger: Ledger) -> None:
    names = [("alice", "adult"), ("alice", "b"), ("al", "iceadult"), ("é", "x y"), ("'\";--", "☃")]
    for user, dataset in reversed(names):
        ledger.grant(user, dataset=dataset, epsilon=5)
    pay(ledger, user="alice", dataset="b")
    spent = {(p.grant.user, p.grant.dataset): p.spent_rho for p in ledger.purses()}
    assert spent == {name: PICO // 10 * (name == ("alice", "b")) for name in names}
    assert list(spent) == sorted(spent)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    "epsilon",
    [NAN, INF, -INF, -1, -0.0, 0, 5e-324, 1e-310, 1e308, 1.1e7, 10**400, "1", None, True],
    ids=lambda value: str(value)[:9],
)
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_an_epsilon_that_is_no_budget_is_refused(
    ledger: Ledger, epsilon: float, delta: float
) -> None:
    with pytest.raises(UsageError, match=r"^epsilon is "):
        ledger.grant("alice", dataset="adult", epsilon=epsilon, delta=delta)
    assert ledger.dump() == []


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-13, 0), (1e-300, 0), (1e-9, 1e-30)])
def test_a_grant_worth_less_than_the_least_price_is_refused(
    ledger: Ledger, epsilon: float, delta: float
) -> None:
    with pytest.raises(UsageError, match="worth less than the least price"):
        ledger.grant("alice", dataset="adult", epsilon=epsilon, delta=delta)
    assert ledger.dump() == []


@pytest.mark.parametrize("delta", [NAN, INF, -1, -1e-9, 5e-324, 0.6, 1, 1e308, "0", None, False])
def test_a_delta_that_is_no_probability_is_refused(ledger: Ledger, delta: float) -> None:
    with pytest.raises(UsageError, match=r"^delta is "):
        ledger.grant("alice", dataset="adult", epsilon=1, delta=delta)
    assert ledger.dump() == []


@pytest.mark.parametrize("delta", [0, 1e-12, 1e-6, 0.5])
@pytest.mark.parametrize("epsilon", [1e-3, 1, 1e6, 1e7])
def test_large_grants_fit_in_64_bits(ledger: Ledger, epsilon: float, delta: float) -> None:
    grant = ledger.grant("alice", dataset="adult", epsilon=epsilon, delta=delta)
    assert max(grant.rho, grant.epsilon_pico) <= LIMIT < 2**63
    assert min(grant.epsilon_pico / PICO, grant.rho / PICO) <= epsilon
    pay(ledger, Laplace(1, 1, Fraction(10**4)) if delta == 0 else Gaussian(1, Fraction(10**10)))


@pytest.mark.parametrize("user", ["", "  ", "a\nb", "a\0", "\x85", "\u2028", "\ud800", "a" * 256])
def test_a_name_that_cannot_be_told_is_refused(ledger: Ledger, user: str) -> None:
    for refused in (
        lambda: ledger.grant(user, dataset="adult", epsilon=1),
        lambda: ledger.grant("alice", dataset=user, epsilon=1),
        lambda: ledger.balance(user, "adult"),
        lambda: ledger.charge(user, "adult", TENTH, statement=""),
        lambda: ledger.revoke(user, dataset="adult"),
    ):
        with pytest.raises(UsageError, match="name"):
            refused()


class Odd:
    """An event that claims any price."""

    def __init__(self, rho: object, epsilon: object = None) -> None:
        self.rho, self.epsilon = rho, epsilon

    def to_dict(self) -> dict[str, object]:
        return {"event": "odd", "version": 1}


@pytest.mark.parametrize("price", [NAN, INF, -INF, -1, 0.5, "1", None, True])
def test_a_price_that_is_no_number_of_pico_is_never_charged(ledger: Ledger, price: object) -> None:
    ledger.grant("alice", dataset="adult", epsilon=1e6)
    before = ledger.dump()
    with pytest.raises(ValueError, match="not a price"):
        pay(ledger, Odd(price))
    if price is not None:
        with pytest.raises(ValueError, match="not a price"):
            pay(ledger, Odd(1, price))
    assert ledger.dump() == before


@pytest.mark.parametrize("rho", [LIMIT + 1, 2**63, 2**64, 2**64 + 1, 10**40])
def test_a_price_beyond_64_bits_is_refused_like_any_other(ledger: Ledger, rho: int) -> None:
    ledger.grant("alice", dataset="adult", epsilon=1e7)
    with pytest.raises(BudgetExceeded):
        pay(ledger, Odd(rho))
    pay(ledger, Odd(1, 2**64))
    assert ledger.balance("alice", "adult").spent_epsilon is None


def test_the_log_tells_all_in_order(ledger: Ledger) -> None:
    ledger.grant("alice", dataset="adult", epsilon=1, delta=0)
    ledger.grant("bob", dataset="adult", epsilon=1)
    ledger.charge("alice", "adult", PURE_TENTH, statement="SELECT\n'ünï\0\ud800'")
    ledger.revoke("alice", dataset="adult")
    log = list(ledger.log())
    assert [(e.seq, e.kind, e.user) for e in log] == [
        (1, "grant", "alice"),
        (2, "grant", "bob"),
        (3, "charge", "alice"),
        (4, "revoke", "alice"),
    ]
    paid = log[2]
    assert paid.statement == "SELECT\n'ünï\0\\ud800'"
    assert paid.event == PURE_TENTH.to_dict()
    assert paid.price == paid.after == Price(PURE_TENTH.rho, PICO // 10)
    assert paid.before == Price(0, 0)
    assert log[3].before == log[3].after == paid.after
    assert log[0].grant is not None and log[0].grant.at == log[0].at
    assert all(entry.at.endswith("+00:00") for entry in log)
    assert [e.seq for e in ledger.log("alice")] == [1, 3, 4]
    assert [e.seq for e in ledger.log(dataset="adult")] == [1, 2, 3, 4]
    assert list(ledger.log("bob", "other")) == []


def test_a_long_log_comes_whole(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.accounting.ledger.BATCH", 3)
    ledger.grant("alice", dataset="adult", epsilon=100)
    for _ in range(9):
        pay(ledger)
    assert [entry.seq for entry in ledger.log()] == list(range(1, 11))
    lines = ledger.log()
    first = next(lines)
    pay(ledger)  # a log that is being read holds nobody up
    assert [first.seq, *(entry.seq for entry in lines)] == list(range(1, 12))


def test_the_order_is_not_the_clocks(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    hours = itertools.count(23, -1)
    monkeypatch.setattr(
        "dpsql.accounting.ledger._now", lambda: f"2026-01-01T{next(hours):02}:00:00.000+00:00"
    )
    grant = ledger.grant("alice", dataset="adult", epsilon=1)
    pay(ledger, Gaussian(grant.rho, Fraction(PICO, 2)))
    with pytest.raises(BudgetExceeded):  # and no clock fills a purse
        pay(ledger)
    assert [entry.seq for entry in ledger.log()] == [1, 2]
    assert [entry.at for entry in ledger.log()] == sorted(
        (entry.at for entry in ledger.log()), reverse=True
    )


def test_a_closed_ledger_answers_nothing(ledger: Ledger) -> None:
    ledger.grant("alice", dataset="adult", epsilon=1)
    ledger.close()
    ledger.close()
    for refused in (lambda: pay(ledger), lambda: ledger.balance("alice", "adult")):
        with pytest.raises(LedgerError, match="the ledger is closed"):
            refused()


@pytest.mark.usefixtures("restless")
def test_fifty_threads_spend_exactly_what_is_there(ledger: Ledger) -> None:
    for number in range(20):
        dataset = f"data{number}"
        ledger.grant("alice", dataset=dataset, epsilon=0.35, delta=0)
        gate = threading.Barrier(50)
        outcomes: list[str] = []

        def buy(
            dataset: str = dataset, gate: threading.Barrier = gate, kept: list[str] = outcomes
        ) -> None:
            gate.wait()
            try:
                pay(ledger, PURE_TENTH, dataset=dataset)
                kept.append("paid")
            except BudgetError as refusal:
                kept.append(type(refusal).__name__)

        threads = [threading.Thread(target=buy) for _ in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == ["BudgetExceeded"] * 47 + ["paid"] * 3
        assert ledger.balance("alice", dataset).spent_epsilon == 3 * PICO // 10


def test_receipts_and_grants_cannot_be_changed(ledger: Ledger) -> None:
    grant = ledger.grant("alice", dataset="adult", epsilon=1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        grant.rho = 10**18
