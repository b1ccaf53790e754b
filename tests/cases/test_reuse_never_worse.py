"""Earlier answers never harm: no handed statement is told worse than its price buys alone, unless
it was bought at that price before."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.release import Plan
from dpsql.session import Session
from dpsql.session.reuse.wanted import AGAIN
from tests.cases.published import NAMES, Published, cases

MORE = 1.02  # of a standard error
UNSEEN = 0.011  # rows, and of a sum as many times what a row adds at most
KEPT = 1 << 20  # cells: a release about more is bought again
CASES = cases("accept.csv")
PER = 8  # statements in a script


def opened(database: Path, *, reuse: bool = True) -> Session:
    ledger = Ledger.memory()
    for name in NAMES:
        ledger.grant("alice", dataset=name, epsilon=1e7)
    schemas = Path(__file__).parents[2] / "schemas"
    return Session(database, schema=schemas, user="alice", ledger=ledger, settings={"reuse": reuse})


@pytest.fixture
def alone(database: Path) -> Iterator[Session]:
    """Nothing is ever bought here."""
    with opened(database) as found:
        yield found


@pytest.fixture
def session(database: Path) -> Iterator[Session]:
    with opened(database) as found:
        yield found


def columns(plan: Plan) -> list[float]:
    """Of each output that is told before, the root of the mean square of its standard errors."""
    known = [
        [cell for cell in cells if cell is not None] for cells in zip(*plan.stderr, strict=True)
    ]
    return [math.sqrt(sum(cell**2 for cell in each) / max(len(each), 1)) for each in known]


def worse(told: Plan, bought: Plan, more: float = MORE) -> list[float]:
    """By how much outputs err more than as they are bought alone, where that is too much."""
    largest = told.sensitivity  # of the counts and sums of a statement, at least
    return [
        own / max(other, 1e-12)
        for own, other in zip(columns(told), columns(bought), strict=True)
        if own > max(more * other, UNSEEN * max(largest, 1.0))
    ]


def paid(told: Plan) -> bool:
    """Whether it was bought at its price, among other questions, which is said again, free."""
    return told.charged is not None and told.charged.rho == 0.0 and AGAIN in told.notes


@pytest.mark.parametrize("rho", [2.0])
def test_no_statement_is_told_worse_than_it_is_bought_alone(
    alone: Session, session: Session, rho: float
) -> None:
    reused = 0
    for case in CASES:
        bought = alone.explain(case["sql"], rho=rho)
        told = session.explain(case["sql"], rho=rho)
        assert paid(told) or worse(told, bought) == [], case["id"]
        found = session.answer(case["sql"], rho=rho)
        assert (found.backend, found.charged) == (told.backend, told.charged)
        shown = [
            [cell for cell in cells if cell is not None]
            for cells in zip(*found.stderr, strict=True)
        ]
        for errors, cells in zip(shown, zip(*told.stderr, strict=True), strict=True):
            known = [cell for cell in cells if cell is not None]
            if len(known) == len(errors):
                assert sorted(errors) == pytest.approx(sorted(known), rel=1e-9, abs=1e-9)
        reused += found.backend.endswith("reuse")
        if told.cells <= KEPT:
            again = session.answer(case["sql"], rho=rho)
            assert again.charged is not None and again.charged.rho == 0.0, case["id"]
            assert (again.rows, again.stderr) == (found.rows, found.stderr), case["id"]
    assert reused > 5, "it could not fail"


@pytest.mark.parametrize("rho", [2.0])
def test_no_script_is_told_worse_than_it_is_bought_alone(
    alone: Session, session: Session, rho: float
) -> None:
    """As it is measured, or as it is made to agree; each statement twice, beside others.

    A strategy for what is missing keeps the largest error of a statement, not that of each output.
    """
    reused = 0
    for name in ("titanic", "crash"):
        listed = [case["sql"] for case in CASES if case["table"] == name]
        for start in range(0, len(listed), PER // 2):
            script = ";\n".join((listed[start:] + listed[:start])[:PER])
            told = session.explain_script(script, rho=rho).plans
            agreed, raw = (
                alone.explain_script(script, rho=rho, reuse=reuse).plans for reuse in (True, False)
            )
            for at, plan in enumerate(told):
                least = min((worse(plan, plans[at], 1.1) for plans in (agreed, raw)), key=len)
                assert paid(plan) or least == [], f"statement {at} of {script}"
            reused += sum(one.backend.endswith("reuse") for one in session.run(script, rho=rho))
    assert reused > 5, "it could not fail"


def test_a_deviation_errs_no_more_than_it_says(database: Path, published: Published) -> None:
    """Where it is fitted through a strategy, beside sums: the lattice of its answers is coarse.

    The mean of 108 squares of normal errors is above twice what is said once in 10^8.
    """
    select = """SELECT physically_active_7d AS k, STDDEV(age) AS a,
        AVG(CASE WHEN (grade <> '11') IS NOT TRUE THEN 1 ELSE 0 END) AS b FROM yrbss GROUP BY 1"""
    true = {row[0]: row[1] for row in published.truth(select)[2]}
    squares = []
    for _ in range(12):
        with opened(database) as session:
            session.answer("SELECT physically_active_7d AS k, SUM(age), COUNT(*) FROM yrbss"
                           " GROUP BY CUBE (k)", rho=1000)  # fmt: skip
            found = session.answer(select, rho=1000)
        for (key, shown, _), (_, said, _) in zip(found.rows, found.stderr, strict=True):
            assert shown is not None and said is not None
            squares.append(((shown - true[key]) / said) ** 2)
    assert len(squares) == 108 and sum(squares) / len(squares) < 2.0
