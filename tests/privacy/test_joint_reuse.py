"""Record and replay with reuse on: what is answered from earlier releases costs nobody anything.

As in `test_joint_audit`, an analyst who sees released values alone chooses every next statement.
Here what was released is kept and used again, whole or in part, and released values decide what is
asked next. The loss of each person is summed over what was really measured.
"""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpsql.curator import noise as samplers
from dpsql.curator.engines.duckdb import DuckDBEngine
from dpsql.errors import BudgetExceeded
from tests.privacy.test_joint_audit import (
    PERSONS,
    Row,
    Watched,
    chosen,
    divergence,
    rows,
)

LENGTH = 40  # the releases that a plan looks at grow with it, and so does each plan


def charges(town: Watched) -> int:
    return sum(entry.kind == "charge" for entry in town.session.ledger.log())


@pytest.mark.parametrize("trial", range(2))
def test_with_reuse_nobody_loses_more_than_is_spent(
    tmp_path: Path, trial: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over random small tables: for each neighbour the loss by what was measured is within what
    the purse says, and a statement that is free draws no noise and reads nothing."""
    draw = random.Random(trial)
    head, table = 'unit = "row"', rows(draw.randint(5, 40), 100 + trial)
    people: list[Row] = [*PERSONS, *rows(4, 200 + trial)]
    town = Watched.over(tmp_path, "town", head, table)
    others = [
        Watched.over(tmp_path, f"other{i}", head, [*table, person])
        for i, person in enumerate(people)
    ]
    touched: list[str] = []

    def watch(where: Any, name: str) -> None:
        found = getattr(where, name)

        def noted(*arguments: Any) -> Any:
            touched.append(name)
            return found(*arguments)

        monkeypatch.setattr(where, name, noted)

    for name in ("gaussian", "laplace"):
        watch(samplers, name)
    for name in ("counts", "ready"):
        watch(DuckDBEngine, name)

    lost: list[Any] = [Fraction(0)] * len(people)
    transcript: list[Any] = [trial]
    free = combined = refused = 0
    asked: list[tuple[str, dict[str, Any]]] = []
    for number in range(LENGTH):
        if number % 4 == 3:  # one that was asked already, perhaps more exactly
            sql, settings = asked[draw.randrange(len(asked))]
            settings = {**settings, "rho": settings["rho"] * (1 + number % 8 // 4)}
        else:
            sql, settings = chosen(transcript)
            asked.append((sql, settings))
        touched.clear()
        before, measured = town.balance.spent_rho, charges(town)
        try:
            found = town.session.answer(sql, reuse=True, **settings)
        except BudgetExceeded:
            assert not {"gaussian", "laplace", "counts"} & set(touched)
            refused += 1
            continue
        assert found.charged is not None
        if charges(town) == measured:
            assert found.reused and found.charged.rho == 0 and touched == []
            assert town.balance.spent_rho == before
            free += 1
        else:
            combined += found.reused
            assert {"gaussian", "laplace"} & set(touched)
            for i, other in enumerate(others):
                other.true = other.truth(town.workload)
                lost[i] += divergence(town, other)
                assert lost[i] <= town.balance.spent_rho
        transcript.append(list(found.rows))
    assert free >= 5 and combined >= 2
    assert 0 < max(lost) <= town.balance.spent_rho <= town.balance.grant.rho
