"""Never pay twice: what follows from earlier releases is free; else what is missing is bought."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.curator.curator import Curator
from dpsql.release import Release
from dpsql.session import Session

Row = tuple[object, ...]
CUBE = "SELECT sex, region, smoker, COUNT(*) AS n FROM town GROUP BY CUBE (sex, region, smoker)"


@pytest.fixture
def session(path: Path, ledger: Ledger) -> Iterator[Session]:
    with Session(path, user="alice", ledger=ledger, settings={"reuse": True}) as opened:
        yield opened


def free(release: Release) -> bool:
    assert release.charged is not None
    return release.reused and release.charged.rho == 0


def test_the_same_question_again_is_free_in_whatever_words(session: Session) -> None:
    first = "SELECT sex, COUNT(*) AS n FROM town WHERE age > 4 GROUP BY sex"
    asked = session.answer(first, rho=0.01)
    assert not asked.reused
    for sql in (
        first,
        "SELECT sex, SUM(1) AS n FROM town WHERE NOT age <= 4 GROUP BY 1 ORDER BY 1",
        "SELECT sex, COUNT_IF(age IN (5, 6, 7, 8, 9)) AS n FROM town GROUP BY ALL",
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Curator, "measure", None)  # nothing private is read
            plan = session.explain(sql, rho=0.01)
            again = session.answer(sql, rho=0.01)
        assert free(again) and sorted(again.rows) == sorted(asked.rows)
        assert plan.charged == again.charged and plan.backend == again.backend == "reuse"
        assert again.stderr == asked.stderr
    assert session.last_charge is None


BOUGHT = (
    CUBE,
    "SELECT sex, COUNT(*), SUM(age) FROM town GROUP BY sex",
    "SELECT COUNT(*) FILTER (WHERE age < 3), COUNT(*) FILTER (WHERE age < 6), COUNT(*) FROM town",
)
NO_GROUPS = (
    "SELECT sex, COUNT(*) FROM town WHERE sex IS NULL GROUP BY sex",
    "SELECT sex, region, COUNT_IF(smoker), AVG(age) FROM town WHERE sex <> sex GROUP BY ALL",
    "SELECT age, STDDEV(age) FROM town WHERE age > NULL GROUP BY age",
    "SELECT region, COUNT(*) FROM town WHERE region IS NULL GROUP BY GROUPING SETS ((region), ())",
)


@pytest.mark.parametrize("first", BOUGHT)
@pytest.mark.parametrize("sql", NO_GROUPS)
def test_a_question_without_groups_may_follow_any_other(first: str, sql: str, path: Path) -> None:
    ledger = Ledger.memory()
    ledger.grant("alice", dataset="town", epsilon=5)
    with Session(path, user="alice", ledger=ledger, settings={"reuse": True}) as session:
        session.answer(first, rho=0.01)
        plan = session.explain(sql, rho=0.01)
        assert len(session.answer(sql, rho=0.01).rows) == len(plan.rows) == ("SETS" in sql)


def test_another_session_finds_what_was_kept_and_another_user_pays_for_it(
    path: Path, ledger: Ledger, session: Session
) -> None:
    sql = "SELECT COUNT(*) FROM town WHERE smoker"
    asked = session.answer(sql, rho=0.01)
    with Session(path, user="alice", ledger=ledger, settings={"reuse": True}) as other:
        again = other.answer(sql, rho=0.01)
        assert free(again) and again.rows == asked.rows
    with Session(path, user="bob", ledger=ledger, settings={"reuse": True}) as other:
        assert not free(other.answer(sql, rho=0.01))
    with Session(path, user="alice", ledger=ledger) as other:
        assert not other.answer(sql, rho=0.01).reused, "reuse is asked for"


def test_other_data_is_another_question(
    town: Any, crowd: Callable[..., list[Row]], ledger: Ledger
) -> None:
    sql = "SELECT COUNT(*) FROM town"
    for number, head in enumerate(['unit = "row"', 'unit = "row"\nappend_only = true'] * 2):
        path = town.database("b", crowd(100 + number, number), head)
        with Session(path, user="alice", ledger=ledger, settings={"reuse": True}) as session:
            assert not session.answer(sql, rho=0.001).reused


def test_after_a_cube_what_it_contains_is_free_and_the_same_to_the_last_digit(
    session: Session,
) -> None:
    cube = session.answer(CUBE, rho=0.05)
    shown = {row[:3]: row[3] for row in cube.rows}
    for names in itertools.chain.from_iterable(
        itertools.combinations(("sex", "region", "smoker"), size) for size in range(4)
    ):
        listed = ", ".join(names)
        by = f" GROUP BY {listed}" if names else ""
        found = session.answer(
            f"SELECT {listed}{',' if names else ''} COUNT(*) FROM town{by}", rho=0.001
        )
        assert free(found)
        for row in found.rows:
            key = dict(zip(names, row, strict=False))
            assert row[-1] == shown[tuple(map(key.get, ("sex", "region", "smoker")))] or None in row
    for where, keys in (
        ("sex = 'male'", [("male", None, None)]),
        ("region IN ('N', 'S')", [(None, "N", None), (None, "S", None)]),
        ("sex <> 'male'", [("female", None, None)]),
        ("sex = 'male' AND region <> 'N'", [("male", r, None) for r in "ESW"]),
    ):
        found = session.answer(f"SELECT COUNT(*) FROM town WHERE {where}", rho=0.001)
        assert free(found)
        assert found.rows[0][0] == sum(shown[key] for key in keys)


def test_a_report_that_is_asked_twice_costs_once(session: Session) -> None:
    report = [
        f"SELECT {aggregate} FROM town WHERE {column} = {value}{by}"
        for aggregate in ("COUNT(*)", "SUM(age)")
        for column, values in (("sex", ["'male'"]), ("region", ["'N'", "'E'"]), ("age", range(6)))
        for value in values
        for by in ("", " GROUP BY smoker")
    ]  # fmt: skip
    for sql in report:
        session.answer(sql, rho=0.001)
    spent = session.budget().spent
    for sql in report:
        assert free(session.answer(sql, rho=0.001)), sql
    assert session.budget().spent == spent


@pytest.mark.parametrize("more", [2.0, 5.0])
def test_only_the_missing_accuracy_is_bought(session: Session, more: float) -> None:
    sql = "SELECT region, COUNT(*) FROM town GROUP BY region"
    first = session.answer(sql, rho=0.01)
    plan = session.explain(sql, rho=0.01 * more)
    second = session.answer(sql, rho=0.01 * more)
    assert second.reused and second.backend == "gaussian + reuse"
    assert plan.charged == second.charged and plan.price == second.price
    assert second.price.rho == pytest.approx(0.01 * (more - 1), rel=1e-3)
    wanted = first.stderr[0][1] / more**0.5
    assert wanted * (1 - 1e-3) <= second.stderr[0][1] <= math.hypot(wanted, 0.5)  # whole numbers
    assert session.answer(sql, rho=0.005).charged.rho == 0


def test_intervals_of_what_is_combined_cover_the_truth(path: Path) -> None:
    """Four regions a trial, of which each is combined from noises of its own: 120 at 80 %.

    A false alarm has a chance below 1e-6; intervals of half the width cover 48 %, and pass in 0.3 %
    of all runs.
    """
    men = "SELECT region, COUNT(*) FROM town WHERE sex = 'male' GROUP BY region"
    truth: list[tuple[object, ...]] = []
    inside = trials = 0
    while trials < 120:
        ledger = Ledger.memory()
        ledger.grant("alice", dataset="town", epsilon=1e6)
        with Session(path, user="alice", ledger=ledger, settings={"reuse": True}) as session:
            truth = truth or session.answer(men, rho=1e4, reuse=False).rows
            session.answer("SELECT sex, region, COUNT(*) FROM town GROUP BY sex, region", rho=0.02)
            session.answer("SELECT region, COUNT(*) FROM town GROUP BY region", rho=0.05)
            session.answer(men.replace("male", "female"), rho=0.01)
            found = session.answer(men, rho=0.001, confidence=0.8)
            assert free(found) and len(found.rows) == 4
            for (_, low), (_, high), (_, true) in zip(found.low, found.high, truth, strict=True):
                inside, trials = inside + (low <= true <= high), trials + 1
    assert inside >= 73  # P(Bin(120, 0.8) < 73) = 4e-07
    assert inside < trials, "an interval that always covers is no interval of 80 %"


def test_accuracy_is_bought_as_far_as_it_is_missing(session: Session) -> None:
    sql = "SELECT COUNT(*) FROM town WHERE smoker"
    session.answer(sql, accuracy=240)
    plan = session.explain(sql, accuracy=200)
    fresh = session.explain(sql, accuracy=200, reuse=False)
    found = session.answer(sql, accuracy=200)
    assert plan.price == found.price and found.price.rho < 0.5 * fresh.price.rho
    assert (found.high[0][0] - found.low[0][0]) / 2 <= 200
    for accuracy in (200, 210):
        assert free(session.answer(sql, accuracy=accuracy))


def test_an_accuracy_that_is_cheaper_alone_is_bought_alone(session: Session) -> None:
    """The interval of few small noises together is a bound, and may cost more than it saves."""
    sql = "SELECT COUNT(*) FROM town WHERE smoker"
    session.answer(sql, accuracy=12)
    fresh = session.explain(sql, accuracy=5, reuse=False)
    found = session.answer(sql, accuracy=5)
    assert found.price.rho <= fresh.price.rho
    assert (found.high[0][0] - found.low[0][0]) / 2 <= 5
    assert free(session.answer(sql, accuracy=5))


def test_a_plan_names_the_statements_that_help(session: Session) -> None:
    men = "SELECT COUNT(*) FROM town WHERE sex = 'male'"
    for sql in ("SELECT COUNT(*) FROM town", men.replace(" WHERE", "\n  WHERE")):
        session.answer(sql, rho=0.01)
    plan = session.explain("SELECT COUNT(*) FROM town WHERE sex = 'female'", rho=0.001)
    assert plan.backend == "reuse"
    named = f'"SELECT COUNT(*) FROM town" and "{men}"'
    assert plan.notes == (f"follows from {named}: nothing will be charged",)


LAPLACE = [
    "SELECT region, COUNT(*) FROM town GROUP BY region",
    "SELECT sex, AVG(age) FROM town GROUP BY sex",
    "SELECT COUNT(*), COUNT_IF(smoker), COUNT_IF(age > 4) FROM town",
]


def test_what_follows_from_a_release_and_a_later_one_is_found(session: Session) -> None:
    """Whatever was asked between them: each look knows all releases that there are by then."""
    for sql in ("age > 4 AND sex = 'male'", "age > 4"):
        assert not session.answer(f"SELECT COUNT(*) FROM town WHERE {sql}", rho=0.01).reused
    rest = session.answer("SELECT COUNT(*) FROM town WHERE age > 4 AND sex <> 'male'", rho=0.005)
    assert free(rest)


@pytest.mark.parametrize("sql", LAPLACE)
@pytest.mark.parametrize("pure", [True, False])
def test_laplace_releases_are_kept_and_repeated(sql: str, pure: bool, path: Path) -> None:
    ledger = Ledger.memory()
    ledger.grant("alice", dataset="town", epsilon=10, delta=0 if pure else 1e-6)
    with Session(path, user="alice", ledger=ledger, settings={"reuse": True}) as session:
        asked: dict[str, Any] = {"epsilon": 0.2} | ({} if pure else {"backend": "laplace"})
        plan = session.explain(sql, **asked)
        found = session.answer(sql, **asked)
        assert (plan.price, plan.charged) == (found.price, found.charged)
        again = session.answer(sql, **asked)
        assert free(again) and again.rows == found.rows


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT age, region, sex, month, COUNT(*) FROM town GROUP BY ALL",
        "SELECT age, COUNT(*) FROM town GROUP BY CUBE (age)",
        "SELECT COUNT(*) FROM town WHERE age < 7",
    ],
)
def test_what_is_missing_is_bought_once(sql: str, session: Session) -> None:
    """The second time it is as accurate as was asked for, and then it is free."""
    session.answer(sql, rho=0.01)
    session.answer("SELECT COUNT(*) FROM town WHERE age BETWEEN 2 AND 6", rho=0.002)
    second = session.answer(sql, rho=0.02)
    most = max(error for line in second.stderr for error in line if error is not None)
    alone = session.explain(sql, rho=0.02, reuse=False)
    told = max(error for line in alone.stderr for error in line if error is not None)
    assert most <= math.hypot(told, 0.5)  # what is combined is rounded
    assert free(session.answer(sql, rho=0.02))


@pytest.mark.parametrize(
    ("sql", "accuracy"),
    [
        ("SELECT month, COUNT(*) FROM town GROUP BY CUBE (month)", 5),
        ("SELECT smoker, COUNT(*), COUNT(age) FROM town WHERE age > 4 GROUP BY CUBE (smoker)", 5),
        ("SELECT smoker, month, COUNT(*), COUNT(age) FROM town GROUP BY smoker, month", 60),
    ],
)
def test_an_accuracy_never_costs_more_with_reuse_and_is_bought_once(
    sql: str, accuracy: float, session: Session
) -> None:
    fresh = session.explain(sql, accuracy=accuracy, reuse=False).price
    assert session.explain(sql, accuracy=accuracy).price.rho <= fresh.rho
    session.answer("SELECT COUNT(*) FROM town", rho=0.003)
    plan = session.explain(sql, accuracy=accuracy)
    found = session.answer(sql, accuracy=accuracy)
    assert plan.price == found.price and found.price.rho <= fresh.rho
    widths = [
        (high - low) / 2
        for lows, highs in zip(found.low, found.high, strict=True)
        for low, high in zip(lows, highs, strict=True)
        if low is not None
    ]
    assert max(widths) <= accuracy
    assert free(session.answer(sql, accuracy=accuracy))
