"""What is asked twice is said twice in the same words, free, and as EXPLAIN foretold it.

Random statements and scripts, one after another, so that earlier releases answer parts of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from dpsql.release import Plan, Release
from dpsql.session import Session

Crowd = Callable[..., list[tuple[object, ...]]]
HEADS = {
    "row": 'unit = "row"',
    "replace-one": 'unit = "row"\nneighbours = "replace-one"',
    "unit": 'unit = {column = "region", max_rows = 9}',  # its key is made with the first answer
}
PREDICATES = [
    "sex = 'male'", "age > 4", "age % 3 = month % 3", "smoker", "smoker IS NULL",
    "region IN ('N', 'S') AND age < 7", "month = 5 OR NOT smoker", "age > 9",
]  # fmt: skip
AGGREGATES = [
    "COUNT(*)", "COUNT(smoker)", "SUM(age)", "SUM(age * month)", "COUNT(*) + SUM(month)",
    "SUM(CASE WHEN smoker THEN age ELSE -1 END)", "SUM(CASE WHEN age > 9 THEN 1 ELSE 0 END)",
]  # fmt: skip
KEYS = ["sex", "region", "smoker", "age // 4", "month > 6"]


def statement(draw: random.Random) -> str:
    """Of sums, whose errors EXPLAIN knows; sometimes of nothing at all (age is at most 9)."""

    def aggregate(at: int) -> str:
        if draw.random() < 0.4:
            return f"COUNT(*) FILTER (WHERE {draw.choice(PREDICATES)}) AS x{at}"
        return f"{draw.choice(AGGREGATES)} AS x{at}"

    listed = ", ".join(aggregate(at) for at in range(draw.randint(1, 3)))
    where = f" WHERE {draw.choice(PREDICATES)}" if draw.random() < 0.4 else ""
    keys = draw.sample(KEYS, draw.choice([0, 1, 1, 2]))
    if not keys:
        return f"SELECT {listed} FROM town{where}"
    grouping = draw.choice(["({})", "ROLLUP ({})", "CUBE ({})"]).format(", ".join(keys))
    return f"SELECT {', '.join(keys)}, {listed} FROM town{where} GROUP BY {grouping}"


def said(session: Session, asked: list[str], **settings: Any) -> tuple[list[Plan], list[Release]]:
    if len(asked) == 1:
        return [session.explain(asked[0], **settings)], [session.answer(asked[0], **settings)]
    script = ";\n".join(asked)
    return list(session.explain_script(script, **settings).plans), session.run(script, **settings)


def errors(some: Plan | Release) -> list[float]:
    return [cell for row in some.stderr for cell in row if cell is not None]


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("seed", range(3))
def test_what_is_asked_twice_is_said_twice(seed: int, head: str, town: Any, crowd: Crowd) -> None:
    draw = random.Random(f"{seed} {head}")
    path = town.database("a", crowd(300, seed), HEADS[head])
    with Session(path, user="alice", ledger=town.ledger, settings={"reuse": True}) as session:
        for turn in range(6):
            asked = [statement(draw) for _ in range(draw.choice([1, 1, 2, 3]))]
            rho = draw.choice([0.05, 0.5, 5.0])
            settings = {"rho": rho, "backend": draw.choice(["auto", "gaussian"])}
            plans, first = said(session, asked, **settings)
            again, second = said(session, asked, **settings)
            for at, (one, other) in enumerate(zip(first, second, strict=True)):
                name = f"turn {turn}, statement {at} of {asked} at {settings}"
                assert (one.rows, one.stderr) == (other.rows, other.stderr), name
                assert (one.low, one.high) == (other.low, other.high), name
                assert other.charged is not None and other.charged.rho == 0, name
                for foretold in (plans[at], again[at]):
                    assert errors(foretold) == pytest.approx(errors(one), rel=1e-9, abs=1e-9), name


@pytest.mark.parametrize("backend", ["gaussian", "laplace"])
@pytest.mark.parametrize("asked", [{"accuracy": 15}, {"rho": 0.02}])
def test_groups_whose_sum_was_measured_are_said_twice(
    backend: str, asked: dict[str, Any], town: Any, crowd: Crowd
) -> None:
    """Their sum makes each more accurate: said at once, not when it is asked again."""
    with town.open(town.database("a", crowd(300, 3))) as session:
        session.answer(
            "SELECT age // 5, COUNT(*) FROM town GROUP BY ROLLUP (age // 5)",
            backend=backend, reuse=True, rho=0.02,
        )  # fmt: skip
        sql = "SELECT sex, COUNT_IF(age > 4) AS n FROM town WHERE age > 4 GROUP BY sex"
        first, again = (session.answer(sql, backend=backend, reuse=True, **asked) for _ in range(2))
        assert first.backend == f"{backend} + reuse" and again.backend == "reuse"
        assert (first.rows, first.stderr) == (again.rows, again.stderr)


@pytest.mark.parametrize(
    "prior", ["SELECT COUNT(*) FROM town", "SELECT sex, COUNT(*) FROM town GROUP BY 1"]
)
@pytest.mark.parametrize("backend", ["auto", "factorization"])
def test_an_accuracy_through_a_strategy_is_kept_beside_earlier_releases(
    prior: str, backend: str, town: Any, crowd: Crowd
) -> None:
    """What is combined may be wider than what was measured: then that is said, twice the same."""
    path = town.database("a", crowd(1500, 1))
    sql = (
        "SELECT region, COUNT(*) AS n, COUNT_IF(smoker) AS k, COUNT_IF(sex = 'male') AS m FROM town"
        " GROUP BY ROLLUP (region)"
    )
    with Session(path, user="alice", ledger=town.ledger, settings={"reuse": True}) as session:
        session.answer(prior, rho=0.002)
        for confidence in (0.95, 0.99):
            given = {"accuracy": 30, "backend": backend, "confidence": confidence}
            (plan,), (first,) = said(session, [sql], **given)
            assert plan.backend == first.backend and plan.charged == first.charged
            assert errors(plan) == pytest.approx(errors(first))
            _, (again,) = said(session, [sql], **given)
            assert again.charged is not None and again.charged.rho == 0
            assert again.rows == first.rows
            halves = [
                (high - low) / 2
                for lows, highs in zip(first.low, first.high, strict=True)
                for low, high in zip(lows, highs, strict=True)
                if low is not None and high is not None
            ]
            assert len(halves) == 15 and max(halves) <= 30.5  # whole ends


@pytest.mark.parametrize("backend", ["gaussian", "laplace"])
def test_a_question_that_is_twice_in_a_statement_is_said_twice(
    backend: str, town: Any, crowd: Crowd
) -> None:
    """The only group and the total are one question, measured twice: both say what both tell."""
    sql = "SELECT sex, COUNT(*) AS n FROM town WHERE sex = 'male' GROUP BY ROLLUP (sex)"
    path = town.database("a", crowd(300, 3))
    with Session(path, user="alice", ledger=town.ledger, settings={"reuse": True}) as session:
        given = {"rho": 0.002, "backend": backend}
        (plan,), (first,) = said(session, [sql], **given)
        _, (again,) = said(session, [sql], **given)
        assert errors(plan) == pytest.approx(errors(first), rel=1e-9)
        assert (first.rows, first.stderr) == (again.rows, again.stderr)
        assert (first.low, first.high) == (again.low, again.high)
        counts = {row[0]: row[1] for row in first.rows}
        assert counts["male"] == counts[None]
