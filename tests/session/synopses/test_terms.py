"""The terms of a synopsis that learns: by accuracy, by threshold, or by price alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from dpsql.errors import UsageError
from dpsql.mechanisms.synopses.verifier import verifier
from dpsql.release import Release
from dpsql.session import Session
from tests.session.synopses.test_synopsis import COLUMNS, filled, opened, spent

MADE: dict[str, Any] = {"method": "pmw", "ways": 1, "rho": 1.0}


@pytest.fixture
def session(town: Any) -> Iterator[Session]:
    with opened(town, filled(town, "a", "i * 31 // 11 % 2 = 0", "i * 17 // 13 % 4")) as found:
        yield found


def figures(told: Release) -> tuple[int, int, float, int, int]:
    """How far off guesses may be by the first and the last gate, level, updates, threshold."""
    text = " ".join(told.notes).replace(",", "")
    first = re.search(r"off by (\d+) rows at most", text)
    last = re.search(r"\((\d+) by gate", text)
    level, more = (
        re.search(r"together at ([\d.]+) %", text),
        re.search(r"price (\d+) that (?:is|are) far", text),
    )
    asked = re.search(r"whether a guess is (\d+) rows off", text)
    assert first and level and more and asked
    most = int(first[1])
    return most, int(last[1]) if last else most, float(level[1]), int(more[1]), int(asked[1])


def planned(session: Session, **given: Any) -> Release:
    return session.synopses.create("main", COLUMNS, explain=True, **{**MADE, **given})


@pytest.mark.parametrize("questions", [1000])  # as many as usual
@pytest.mark.parametrize("gate", ["exponential", "laplace"])
def test_an_accuracy_holds_to_the_last_gate_and_leaves_as_many_as_are_paid(
    session: Session, gate: Any
) -> None:
    first, last, level, updates, threshold = figures(planned(session, accuracy=200, gate=gate))
    assert first < last <= 200 and level == 99 and 0 < threshold < first
    assert gate == "laplace" or 1.1 * last > 200
    more = figures(planned(session, accuracy=200, rho=2.0, gate=gate))
    assert updates < more[3] <= 2 * updates  # each of them has less that may miss
    seldom = figures(planned(session, accuracy=200, beta=1e-4, gate=gate))
    assert seldom[2] == 99.99 and seldom[1] <= 200 and seldom[3] < updates
    often = figures(planned(session, accuracy=200, beta=0.1, gate=gate))
    assert often[2] == 90 and often[3] > updates


def test_a_share_is_of_the_rows_that_were_released(session: Session) -> None:
    with pytest.raises(UsageError, match="of which nothing was released"):
        planned(session, accuracy="2%")
    count = session.answer("SELECT COUNT(*) AS n FROM town", rho=0.01).rows[0][0]
    assert planned(session, accuracy="2%").notes == planned(session, accuracy=0.02 * count).notes


def test_a_threshold_is_asked_as_it_was_stated(session: Session) -> None:
    usual = figures(planned(session, updates=4))
    told = figures(planned(session, updates=4, threshold=usual[4] + 50))
    assert told[4] == usual[4] + 50 and told[0] == usual[0] + 50
    session.synopses.create("main", COLUMNS, **MADE, updates=4, threshold=3000)
    far = "SELECT COUNT(*) AS n FROM town WHERE sex = 'male' AND region = 'N'"
    found = session.answer(far, backend="synopsis")
    low, value, high = (each[0][0] for each in (found.low, found.rows, found.high))
    assert low is not None and high is not None
    assert high - value == 3000 + verifier(1, round(0.85e12 / 8)).nth(1).most(0.95) - (
        verifier(1, round(0.85e12 / 8)).threshold
    )
    (kept,) = session.synopses.listed()
    assert kept.threshold == 3000


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"threshold": 5, "updates": 500}, "would let no guess pass"),
        ({"threshold": 0}, "threshold is a whole number of rows above 0"),
        ({"threshold": 50, "accuracy": 100}, "an accuracy gives the threshold"),
        ({"beta": 0.01}, "beta is how seldom"),
        ({"beta": 0.5, "accuracy": 100}, "beta is at least 1e-9 and below 0.2"),
        ({"beta": 0.01, "accuracy": 0.1}, "more than the price leaves"),
        ({"accuracy": "2"}, "a number of rows, or one such as 2%"),
        ({"accuracy": "x%"}, "a number of rows, or one such as 2%"),
        ({"accuracy": 50, "updates": 4}, "give one"),
        ({"method": "marginals", "threshold": 50}, "threshold is of method pmw"),
        ({"delta": 1e-3}, "delta is the grant's, 1e-06"),
        ({"users": ["zoe"]}, "zoe has no grant for town"),
    ],
)
def test_terms_that_cannot_be_are_refused(
    session: Session, given: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        session.synopses.create("main", COLUMNS, **{**MADE, **given})
    assert spent(session) == 0 and session.synopses.listed() == []


def test_the_delta_of_the_grant_may_be_said(session: Session) -> None:
    assert planned(session, delta=1e-6).notes == planned(session).notes


@pytest.mark.parametrize(
    "given", [{"columns": "sex"}, {"users": "bob"}, {"sets": "sex"}, {"sets": ["sex", "region"]}]
)
def test_a_text_is_no_list_of_names(session: Session, given: dict[str, Any]) -> None:
    ((what, _),) = given.items()
    with pytest.raises(UsageError, match=f"{what} is a list such as"):
        session.synopses.create("main", **{"columns": ["sex", "region"], **given})
    with pytest.raises(UsageError, match="which synopsis"):
        session.synopses.described()
