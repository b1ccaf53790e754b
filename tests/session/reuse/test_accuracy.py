"""Asking by accuracy: every interval is that narrow, at the least price, as EXPLAIN says."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.errors import UsageError
from dpsql.release import Release
from dpsql.session import Session
from tests.session.conftest import Row, Town

STATEMENTS = [
    "SELECT COUNT(*) FROM town WHERE smoker",
    "SELECT region, COUNT(*), COUNT_IF(sex = 'male') FROM town GROUP BY region",
    "SELECT region, sex, SUM(age) FROM town GROUP BY CUBE (region, sex)",
    "SELECT SUM(age) - 3 * COUNT(*), COUNT(*) / 2 FROM town",
    "SELECT month, COUNT(*) AS n FROM town GROUP BY month HAVING n > 3 ORDER BY n DESC LIMIT 3",
    "SELECT COUNT(*) FROM town WHERE age > 4 UNION ALL SELECT SUM(age) FROM town",
]
FINER = STATEMENTS[-1:]
ACCURACIES = [0.5, 2, 7.25, 60, 5_000, 1e5]


@pytest.fixture
def session(town: Town, crowd: Callable[..., list[Row]]) -> Session:
    town.ledger.grant("alice", dataset="town", epsilon=1e6)
    return town.open(town.database("a", crowd(50, 1)))


def widest(release: Release) -> float:
    """The largest half-width of the intervals shown."""
    ends = zip(itertools.chain(*release.low), itertools.chain(*release.high), strict=True)
    return max((high - low) / 2 for low, high in ends if low is not None and high is not None)


@pytest.mark.parametrize("backend", ["gaussian", "laplace"])
@pytest.mark.parametrize("sql", STATEMENTS)
def test_every_interval_is_that_narrow_at_the_least_price(
    session: Session, sql: str, backend: str
) -> None:
    prices = []
    for accuracy in ACCURACIES:
        plan = session.explain(sql, accuracy=accuracy, backend=backend)
        found = session.answer(sql, accuracy=accuracy, backend=backend)
        assert widest(found) <= accuracy * (1 + 1e-12)
        assert (plan.price, plan.charged) == (found.price, found.charged)
        cheaper = session.answer(sql, rho=found.price.rho * 0.999, backend=backend)
        # ends on a finer scale than whole numbers may fall so that one more is not between them
        lucky = 0.5 if sql in FINER else 0.0
        assert widest(cheaper) + lucky > accuracy, "less would not do"
        prices.append(found.price.rho)
    assert prices == sorted(prices, reverse=True) and len(set(prices)) == len(prices)


def test_a_higher_confidence_costs_more_at_the_same_accuracy(session: Session) -> None:
    prices = [
        session.explain(STATEMENTS[1], accuracy=20, confidence=level).price.rho
        for level in (0.5, 0.9, 0.99, 0.9999)
    ]
    assert prices == sorted(prices) and len(set(prices)) == 4


def test_a_pure_grant_gives_accuracy_by_laplace_noise(
    town: Town, crowd: Callable[..., list[Row]]
) -> None:
    ledger = Ledger.memory()
    ledger.grant("alice", dataset="town", epsilon=5, delta=0)
    session = town.open(town.database("a", crowd(50, 1)), ledger=ledger)
    found = session.answer(STATEMENTS[0], accuracy=12)
    assert found.backend == "laplace" and 10 <= widest(found) <= 12


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"accuracy": "2%"}, "no earlier release tells the counts"),
        ({"accuracy": "0%"}, "accuracy is a number from"),
        ({"accuracy": "much%"}, "accuracy is a number, or a percentage as '2%', not 'much'"),
        ({"accuracy": 5, "epsilon": 1}, "each decide what a statement costs"),
        ({"accuracy": -1}, "accuracy is a number from"),
        ({"accuracy": float("nan")}, "accuracy is a number from"),
        ({"accuracy": "narrow"}, "accuracy is a number, or a percentage as '2%', not 'narrow'"),
        ({"accuracy": 1e-12, "backend": "gaussian"}, "ε"),
    ],
)
def test_what_is_no_accuracy_is_refused(
    session: Session, given: dict[str, Any], words: str
) -> None:
    spent = session.ledger.balance("alice", "town")
    if words == "ε":  # as fine as it can be: noise that is nearly always 0, at its price
        assert session.explain(STATEMENTS[0], **given).price.epsilon > 10
        return
    with pytest.raises(UsageError, match=words):
        session.answer(STATEMENTS[0], **given)
    assert session.ledger.balance("alice", "town") == spent


@pytest.mark.parametrize("output", ["AVG(age)", "STDDEV(age)", "COUNT(*) * SUM(age)"])
def test_an_interval_that_depends_on_the_answer_cannot_be_asked_for(
    session: Session, output: str
) -> None:
    sql = f"SELECT {output} AS x, COUNT(*) FROM town"
    for ask in (session.answer, session.explain):
        with pytest.raises(UsageError, match="the interval of x depends on the answer"):
            ask(sql, accuracy=3)
    assert session.ledger.balance("alice", "town").spent_rho == 0


@pytest.mark.parametrize("backend", ["gaussian", "laplace"])
def test_a_wider_interval_never_costs_more_however_little_wider(
    backend: str, session: Session
) -> None:
    sql = "SELECT COUNT(*) FROM town"
    prices = [
        session.explain(sql, accuracy=9 + step / 50, backend=backend).price.rho
        for step in range(60)
    ]
    assert prices == sorted(prices, reverse=True)
