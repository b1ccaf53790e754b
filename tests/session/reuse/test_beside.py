"""What follows from a CUBE that was bought beside other releases agrees with it, and is free."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.release import Release
from dpsql.session import Session
from tests.session.reuse.test_laplace import KEYS, errors, pure, where

CUBE = (
    "SELECT sex, region, smoker, GROUPING(sex), GROUPING(region), GROUPING(smoker), COUNT(*) AS n"
    " FROM town GROUP BY CUBE (sex, region, smoker)"
)
BEFORE = [
    "SELECT sex, COUNT(*) FROM town GROUP BY sex",
    "SELECT COUNT(*) FROM town WHERE smoker AND region = 'N'",
    "SELECT region, smoker, COUNT(*) FROM town GROUP BY 1, 2",
    "SELECT COUNT(*) FROM town WHERE sex = 'male' AND region IN ('E', 'S')",
    "SELECT COUNT(*) FROM town",
    "SELECT region, COUNT_IF(sex = 'male'), COUNT(*) FROM town GROUP BY 1",
    "SELECT sex, COUNT(*) FROM town WHERE age > 4 GROUP BY sex",  # says nothing of the CUBE
    "SELECT age, COUNT(*) FROM town GROUP BY age",  # of its total alone
]


ALONE = {BEFORE[0]: ("sex",), BEFORE[2]: ("region", "smoker"), BEFORE[4]: ()}  # as the CUBE asks


def gaussian() -> Ledger:
    ledger = Ledger.memory()
    ledger.grant("alice", dataset="town", epsilon=100)
    return ledger


def foretold(session: Session, sql: str, epsilon: float) -> Release:
    """The answer, as EXPLAIN said it, and as it is said again free."""
    plan = session.explain(sql, epsilon=epsilon)
    found, again = (session.answer(sql, epsilon=epsilon) for _ in range(2))
    assert (plan.price, plan.charged) == (found.price, found.charged), sql
    assert errors(plan) == pytest.approx(errors(found)), sql
    assert (again.rows, again.stderr, again.low) == (found.rows, found.stderr, found.low), sql
    assert (again.charged.rho, again.charged.epsilon) == (0, 0), sql
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("granted", [gaussian, pure])
def test_it_is_consistent_to_the_last_digit_whatever_was_bought_before(
    seed: int, granted: Callable[[], Ledger], town: Any, crowd: Callable[..., Any]
) -> None:
    """But for what was bought before by itself at more: that may be said again as it was said."""
    draw = random.Random(seed)
    path, reuse = town.database("a", crowd(900, 1)), {"reuse": True}
    with Session(path, user="alice", ledger=granted(), settings=reuse) as session:
        dear: list[tuple[str, ...]] = []
        for sql in draw.sample(BEFORE, draw.randint(2, 5)):
            epsilon = draw.choice([0.2, 0.5, 2.0])
            session.answer(sql, epsilon=epsilon)
            dear += [ALONE[sql]] if sql in ALONE and epsilon == 2.0 else []
        cube = {row[:6]: row[6] for row in foretold(session, CUBE, draw.choice([0.5, 3])).rows}
        for keys in itertools.chain.from_iterable(
            itertools.combinations(KEYS, count) for count in range(4)
        ):
            by = f" GROUP BY {', '.join(keys)}" if keys else ""
            found = foretold(
                session, f"SELECT {', '.join([*keys, 'COUNT(*)'])} FROM town{by}", 0.02
            )
            told = [(found, row[:-1], row[-1]) for row in found.rows]
            for values in [row[:-1] for row in found.rows if keys and draw.random() < 0.4]:
                sql = f"SELECT COUNT(*) FROM town WHERE {where(keys, values)}"
                one = session.answer(sql, epsilon=0.02)
                told.append((one, values, one.rows[0][0]))
            for release, values, count in told:
                assert (release.charged.rho, release.charged.epsilon) == (0, 0)
                of = dict(zip(keys, values, strict=True))
                name = (*map(of.get, KEYS), *(int(key not in of) for key in KEYS))
                assert count == cube[name] or keys in dear, (keys, values)


def test_a_residual_plan_is_better_beside_what_was_bought(
    town: Any, crowd: Callable[..., Any]
) -> None:
    """As EXPLAIN says: the total is known from both, and so is every table."""
    path = town.database("a", crowd(900, 1))
    worst = []
    for before in (
        [],
        ["SELECT COUNT(*) FROM town", "SELECT region, COUNT(*) FROM town GROUP BY 1"],
    ):
        with Session(path, user="alice", ledger=gaussian(), settings={"reuse": True}) as session:
            for sql in before:
                session.answer(sql, epsilon=1)
            found = foretold(session, CUBE, 1)
            assert found.backend.startswith("factorization")
            worst.append(
                {row[:6]: err[6] for row, err in zip(found.rows, found.stderr, strict=True)}
            )
    total = (None, None, None, 1, 1, 1)
    alone, beside = worst
    assert beside[total] < 0.7 * alone[total]
    assert all(beside[name] <= alone[name] for name in alone)
