"""LARGEST 1, and WITH COUNTS: what a selection or a gate found, and its number."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from dpsql.accounting.events import Exponential, NoisyMax
from dpsql.errors import BudgetExceeded, Interrupted, Refused, UsageError
from dpsql.mechanisms import choice
from dpsql.session import Session
from dpsql.session.comparing import compared
from dpsql.surfaces.dbapi import Connection
from tests.session.synopses.test_synopsis import filled, opened, spent

REGIONS = "SELECT region, COUNT(*) AS n FROM town GROUP BY region"
COUNTS = {"N": 11000, "E": 5000, "S": 3000, "W": 1000}


@pytest.fixture
def session(town: Any) -> Iterator[Session]:
    """Regions of 11,000, 5,000, 3,000 and 1,000 people."""
    where = "CASE WHEN i < 11000 THEN 0 WHEN i < 16000 THEN 1 WHEN i < 19000 THEN 2 ELSE 3 END"
    with opened(town, filled(town, "r", "i % 2 = 0", where)) as found:
        yield found


def test_the_largest_group_is_found_and_no_number_comes_out(session: Session) -> None:
    plan = session.explain(f"{REGIONS} LARGEST 1", rho=0.01)
    assert spent(session) == 0
    found = session.answer(f"{REGIONS} LARGEST 1", rho=0.01)
    assert found.rows == (("N", None),) and found.stderr == ((None, None),)
    assert found.low == ((None, 0.0),) and found.high == ((None, math.inf),)
    assert found.backend == plan.backend == "selection"
    assert (found.price, found.charged) == (plan.price, plan.charged)
    assert found.notes[0] == plan.notes[0]
    assert "at 95 % the group that is found is at most" in found.notes[0]
    assert 0.999e10 < spent(session) <= 1e10
    again = session.answer(f"{REGIONS} LARGEST 1", rho=0.005)
    assert again.reused and again.rows == found.rows and spent(session) <= 1e10
    better = session.answer(f"{REGIONS} LARGEST 1", rho=0.02)
    assert not better.reused and spent(session) > 1e10
    with opened_again(session) as other:
        assert other.answer(f"{REGIONS} LARGEST 1", rho=0.02).reused


def opened_again(session: Session) -> Session:
    return Session(session.database, user="alice", ledger=session.ledger, settings={"reuse": True})


def test_its_number_is_measured_by_fresh_noise_at_half_the_price(session: Session) -> None:
    asked = f"{REGIONS} LARGEST 1 WITH COUNTS"
    plan = session.explain(asked, rho=0.01)
    found = session.answer(asked, rho=0.01)
    assert found.rows[0][0] == "N" and abs(found.rows[0][1] - 11_000) < 100
    assert found.stderr[0][1] == pytest.approx(10.0, rel=1e-3)  # of rho = 0.005
    low, high = found.low[0][1], found.high[0][1]
    assert low is not None and high is not None and 38 <= high - low <= 42
    assert plan.charged is not None and found.charged is not None
    assert 0.999 * plan.charged.rho <= found.charged.rho <= plan.charged.rho <= 0.01
    assert spent(session) == round(found.charged.rho * 1e12)
    assert any("standard error of 10" in note for note in plan.notes)
    paid = spent(session)
    again = session.answer(asked, rho=0.01)
    assert again.rows == found.rows and again.low == found.low and spent(session) == paid
    assert again.charged is not None and again.charged.rho == 0 and again.reused
    plain = session.answer("SELECT COUNT(*) AS n FROM town WHERE region = 'N'", rho=0.005)
    assert plain.reused and plain.rows[0][0] == found.rows[0][1]


def test_what_is_first_above_is_told_with_counts(session: Session) -> None:
    asked = f"{REGIONS} FIRST 2 ABOVE 2000 WITH COUNTS"
    plan = session.explain(asked, rho=0.01)
    found = session.answer(asked, rho=0.01)
    assert [row[0] for row in found.rows] == ["N", "E"]
    for (name, value), (_, low), (_, high) in zip(found.rows, found.low, found.high, strict=True):
        assert abs(value - COUNTS[name]) < 100 and low <= value <= high
    assert plan.charged is not None and found.charged is not None
    assert 0 < found.charged.rho <= plan.charged.rho <= 0.01
    paid = spent(session)
    assert session.answer(asked, rho=0.01).rows == found.rows and spent(session) == paid
    none = session.answer(f"{REGIONS} FIRST 2 ABOVE 19000 WITH COUNTS", rho=0.01)
    assert none.rows == () and none.charged is not None and none.charged.rho <= 0.0051


USED = {
    "nothing": (),
    "everybody": ("SELECT age, COUNT(*) FROM town GROUP BY age",),
    "everybody, by these": (f"{REGIONS} ORDER BY region",),
    "those who are found": ("SELECT COUNT(*) FROM town WHERE region IN ('N', 'E')",),
}


@pytest.mark.parametrize("clause", ["LARGEST 1", "FIRST 1 ABOVE 2000", "FIRST 2 ABOVE 2000"])
@pytest.mark.parametrize("used", USED)
@pytest.mark.parametrize("shared", [False, True])
def test_what_counts_will_cost_is_told_to_the_last_digit(
    town: Any, session: Session, clause: str, used: str, shared: bool
) -> None:
    """In every purse that pays, after what each of them paid before."""
    ledger, asked = town.ledger, f"{REGIONS} {clause} WITH COUNTS"
    if shared:  # a group that has paid for another member, and a cap that is set
        ledger.grant("team", dataset="town", epsilon=50.0)
        ledger.cap("town", epsilon=90.0)
        for user in ("alice", "carol"):
            ledger.grant(user, dataset="town", epsilon=20.0)
            ledger.join(user, "team", dataset="town")
        with opened(town, session.database, "carol") as carol:
            carol.answer("SELECT sex, region, COUNT(*) FROM town GROUP BY ALL", rho=0.003)
    for sql in USED[used]:
        session.answer(sql, rho=0.02 if sql.startswith(REGIONS) else 0.002)
    plan = session.explain(asked, rho=0.01)
    found = session.answer(asked, rho=0.01)
    assert plan.charged == found.charged and plan.price == found.price
    assert plan.after == found.left and plan.after == session.budget("town")


def test_which_groups_are_found_may_make_counts_cheaper_than_was_told(session: Session) -> None:
    session.answer("SELECT COUNT(*) FROM town WHERE region = 'W'", rho=0.5)
    asked = f"{REGIONS} LARGEST 1 WITH COUNTS"
    plan, found = session.explain(asked, rho=0.01), session.answer(asked, rho=0.01)
    assert plan.charged is not None and found.charged is not None
    assert 0 < found.charged.rho < plan.charged.rho <= 0.01  # W was asked about, and not found


def test_counts_of_what_is_known_to_be_found_are_all_that_is_bought(session: Session) -> None:
    session.answer(f"{REGIONS} FIRST 2 ABOVE 2000", rho=0.01)
    session.answer("SELECT COUNT(*) FROM town WHERE region = 'W'", rho=0.001)
    asked = f"{REGIONS} FIRST 2 ABOVE 2000 WITH COUNTS"
    for free in (False, True):
        plan, found = session.explain(asked, rho=0.01), session.answer(asked, rho=0.01)
        assert plan.charged == found.charged and plan.backend == found.backend
        assert found.backend == ("reuse" if free else "gaussian")
        assert (found.charged == plan.price) is free or found.charged.rho > 0
        assert (plan.charged.rho == 0) is free and plan.after == found.left


def test_what_fits_a_purse_jointly_is_not_refused(town: Any, session: Session) -> None:
    """A gate and counts that cost others what the purse has lost already."""
    town.ledger.grant("bob", dataset="town", epsilon=1.0)
    with opened(town, session.database, "bob") as bob:
        whole = bob.budget("town").left.rho
        bob.answer("SELECT COUNT(*) FROM town WHERE region = 'W' AND sex = 'male'", rho=0.5 * whole)
        where = REGIONS.replace("town", "town WHERE sex = 'female'")
        asked = f"{where} FIRST 1 ABOVE 2000 WITH COUNTS"
        plan, found = bob.explain(asked, rho=0.6 * whole), bob.answer(asked, rho=0.6 * whole)
        assert plan.charged == found.charged


def test_a_refused_number_costs_nothing_at_all(town: Any, session: Session) -> None:
    """What finds the group is not paid where its count cannot be."""
    town.ledger.grant("bob", dataset="town", epsilon=1.0)
    with opened(town, session.database, "bob") as bob:
        whole = bob.budget("town").left.rho
        for clause in ("LARGEST 1 WITH COUNTS", "FIRST 1 ABOVE 2000 WITH COUNTS"):
            with pytest.raises(BudgetExceeded):
                bob.answer(f"{REGIONS} {clause}", rho=1.5 * whole)
            assert spent(bob) == 0 and bob.last_charge is None


def test_intervals_of_numbers_hold_as_often_as_they_say(session: Session) -> None:
    """160 of 95 %: fewer than 133 have a probability below 1e-6."""
    hits = 0
    for _ in range(80):
        found = session.answer(f"{REGIONS} FIRST 2 ABOVE 2000 WITH COUNTS", rho=1e-3, reuse=False)
        for (name, _), (_, low), (_, high) in zip(found.rows, found.low, found.high, strict=True):
            assert low is not None and high is not None
            hits += low <= COUNTS[str(name)] <= high
    assert hits >= 133


def test_pure_grants_pay_in_epsilon_and_have_no_counts(town: Any, session: Session) -> None:
    town.ledger.grant("bob", dataset="town", epsilon=1.0, delta=0.0)
    with opened(town, session.database, "bob") as bob:
        found = bob.answer(f"{REGIONS} LARGEST 1", epsilon=0.5)
        assert found.charged is not None and found.charged.epsilon == pytest.approx(0.5, rel=1e-5)
        (entry,) = [e for e in bob.ledger.log("bob") if e.event]
        assert entry.event is not None and entry.event["event"] == "noisy_max"
        with pytest.raises(UsageError, match="pure grant"):
            bob.answer(f"{REGIONS} LARGEST 1 WITH COUNTS", epsilon=0.1)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (f"{REGIONS} LARGEST 3", "LARGEST 3"),
        (f"{REGIONS} ORDER BY n LARGEST 1", "ORDER BY beside LARGEST"),
        (f"{REGIONS} LIMIT 2 LARGEST 1", "LIMIT or OFFSET beside LARGEST"),
        ("SELECT region, SUM(age) FROM town GROUP BY 1 LARGEST 1", "LARGEST of SUM"),
        ("SELECT region, COUNT(*) + 1 FROM town GROUP BY 1 LARGEST 1", "an expression of counts"),
    ],
)
def test_what_is_no_list_of_counts_is_refused(session: Session, sql: str, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        session.answer(sql, rho=0.01)
    assert spent(session) == 0


@pytest.mark.parametrize("noise", ["exponential", "noisy max"])
def test_what_is_chosen_is_no_further_behind_than_is_said(noise: str) -> None:
    """By the exact law of the worst list for it: one largest, all others just too far behind."""
    event: Exponential | NoisyMax = choice.at_rho(1, True, 10**9)
    if noise == "noisy max":
        event = choice.at_epsilon(1, True, 10**11)
    far = choice.behind(event, 50, 0.95) + 1
    b = float(event.scale)
    heads = math.exp(-far / b)
    if noise == "exponential":
        missed = 49 * heads / (1 + 49 * heads)
    else:  # of all heads one: the largest always shows heads
        missed = sum(
            math.comb(49, k) * heads**k * (1 - heads) ** (49 - k) * k / (k + 1) for k in range(50)
        )
    assert missed <= 0.05 < 2.2 * missed  # a bound that is not far off


def test_prices_are_met_and_nearly_spent() -> None:
    for rho in (10**6, 10**9, 3 * 10**11):
        assert 0.999 * rho <= choice.at_rho(1, True, rho).rho <= rho
        assert 0.999 * rho <= choice.at_rho(4, False, rho).rho <= rho
    assert 0.999e11 <= choice.at_epsilon(3, True, 10**11).epsilon <= 10**11


def test_who_is_in_no_group_pays_nothing(session: Session) -> None:
    """A selection is paid by those whom the list counts: disjoint lists do not add up."""
    for region in "NES":
        list_of = f"SELECT age, COUNT(*) AS n FROM town WHERE region = '{region}' GROUP BY age"
        plan = session.explain(f"{list_of} LARGEST 1", rho=0.01)
        found = session.answer(f"{list_of} LARGEST 1", rho=0.01)
        assert found.charged == plan.charged and found.charged is not None
        assert (found.charged.rho == 0) == (region != "N")
    assert spent(session) <= 10**10


@pytest.mark.parametrize("clause", ["LARGEST 1", "LARGEST 1 WITH COUNTS", "FIRST 1 ABOVE 9"])
def test_what_is_stopped_while_it_is_planned_is_not_charged(
    clause: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Connection(session) as connection:
        check = compared.check_delta

        def stopped(*asked: Any) -> None:
            check(*asked)
            connection.interrupt()

        monkeypatch.setattr(compared, "check_delta", stopped)
        with pytest.raises(Interrupted, match="nothing was charged"):
            connection.execute(f"{REGIONS} {clause}", rho=0.01)
        assert spent(session) == 0
