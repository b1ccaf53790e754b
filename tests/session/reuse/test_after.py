"""EXPLAIN tells what would be left, and that is what is left after the answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.session import Session

ONE = "SELECT sex, COUNT(*) AS n FROM town GROUP BY sex"
STATEMENTS = [
    (ONE, {"rho": 0.004}),  # bought
    (ONE, {"rho": 0.004}),  # free
    (ONE, {"rho": 0.008}),  # the missing accuracy
    ("SELECT age, sex, COUNT(*) FROM town GROUP BY CUBE (age, sex)", {"rho": 0.01}),
    ("SELECT COUNT(*) FROM town WHERE age > 4", {"accuracy": 30}),
    ("SELECT age, COUNT(*) FROM town WHERE sex = 'female' GROUP BY age", {"whole": "on"}),
    ("SELECT COUNT(*) FROM town WHERE sex = 'female'", {"rho": 0.02, "reuse": False}),
    ("SELECT age, COUNT(*) AS n FROM town GROUP BY age FIRST 1 ABOVE 10", {"epsilon": 0.1}),
    ("SELECT age, COUNT(*) AS n FROM town GROUP BY age FIRST 1 ABOVE 10", {"epsilon": 0.1}),
]


@pytest.mark.parametrize("pure", [False, True])
def test_what_would_be_left_is_what_is_left(path: Path, pure: bool) -> None:
    with Ledger.memory() as ledger:
        for user in ("alice", "bob", "team"):
            ledger.grant(user, dataset="town", epsilon=9, delta=0 if pure else 1e-6)
        ledger.join("bob", "team", dataset="town")
        for user in ("alice", "bob"):  # bob reads what alice has bought
            with Session(path, user=user, ledger=ledger, settings={"reuse": True}) as session:
                for sql, settings in STATEMENTS:
                    if pure and "whole" in settings:
                        continue
                    plan = session.explain(sql, **settings)
                    found = session.answer(sql, **settings)
                    assert plan.after == found.left, sql
                    assert plan.charged is not None
                    free = not (plan.charged.rho or plan.charged.epsilon)
                    assert (plan.after == plan.left) == free, sql
                    shown = dict(session.run(f"EXPLAIN {ONE}")[0].rows)
                    assert {"left before", "left after"} <= set(shown)


def test_without_a_purse_nothing_is_left(path: Path) -> None:
    with Ledger.memory() as ledger, Session(path, user="dave", ledger=ledger) as session:
        plan = session.explain(ONE, rho=0.01)
    assert (plan.left, plan.after) == (None, None)


def test_show_budget_names_each_purse_and_counts_what_it_can_still_pay(path: Path) -> None:
    with Ledger.memory() as ledger:
        for user in ("bob", "team"):
            ledger.grant(user, dataset="town", epsilon=2)
        ledger.join("bob", "team", dataset="town")
        with Session(path, user="bob", ledger=ledger) as session:
            for _ in range(3):
                session.answer("SELECT COUNT(*) FROM town")
            [shown] = session.run("SHOW BUDGET")
            purse = session.budget()
    lines = [dict(zip(shown.columns, row, strict=True)) for row in shown.rows]
    assert [line["purse"] for line in lines] == ["bob", "team"]
    for line in lines:
        assert line["default_queries_left"] == 97 == purse.default_queries_left
        assert (line["rho_spent"], line["rho_left"]) == (purse.spent.rho, purse.left.rho)
