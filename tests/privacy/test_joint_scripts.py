"""Record and replay of scripts: what one person loses by what was really measured is paid for.

As in `test_joint_audit`; every strategy that scripts have is measured: on the answers, and in
residual tables, alone and beside others.
"""

from __future__ import annotations

import hashlib
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpsql.errors import BudgetExceeded
from dpsql.mechanisms.strategies import clusters, drafts, formulas, levels, plans, products
from dpsql.query.axis import Haar, Listed, Toeplitz
from dpsql.query.linear import Workload
from dpsql.query.strategy import Mixed, Product, Residuals, Strategy
from tests.privacy.test_joint_audit import CONDITIONS, RELATIONS, SHAPES, TOWN, Watched, divergence

LENGTH = 14
TABLES = [
    "SELECT sex, region, COUNT(*) FROM town{0} GROUP BY sex, region",
    "SELECT region, age, COUNT(*) FROM town{0} GROUP BY region, age",
    "SELECT sex, age, COUNT(*) FROM town{0} GROUP BY CUBE (sex, age)",
    "SELECT COUNT(*) FROM town{0}",
]


def chosen(transcript: list[Any]) -> tuple[str, dict[str, Any]]:
    """The next script and its price: a function of what was released, and of nothing else.

    The first two have tables alone, and tables beside other questions.
    """
    if len(transcript) <= 2:
        more = [shape.format(*CONDITIONS[:2]) for shape in SHAPES[:2]] if transcript[1:] else []
        return ";\n".join([sql.format("") for sql in TABLES] + more), {"rho": 0.01, "reuse": False}
    draw = random.Random(hashlib.sha256(repr(transcript).encode()).digest())
    where = draw.choice(["", "", f" WHERE {draw.choice(CONDITIONS)}"])
    listed = [sql.format(where) for sql in draw.sample(TABLES, draw.randint(2, 4))]
    for shape in draw.sample(SHAPES[:-1], draw.randint(0, 2)):
        listed.append(shape.format(draw.choice(CONDITIONS), draw.choice(CONDITIONS)))
    weight = draw.choice(["", "-- weight: 4\n"])
    script = ";\n".join([weight + listed[0], *listed[1:]])
    return script, {"rho": draw.choice([0.002, 0.01, 0.03]), "reuse": draw.choice([True, False])}


def run(watched: Watched, script: str, settings: dict[str, Any]) -> Any:
    """What is released, None when refused."""
    watched.true, watched.workload = [], None
    try:
        return [list(release.rows) for release in watched.session.run(script, **settings)]
    except BudgetExceeded:
        return None


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("trial", range(2))
def test_nobody_loses_more_than_is_spent_on_scripts(
    tmp_path: Path, relation: str, trial: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is measured of the one table is replayed on its neighbours, value by value."""
    monkeypatch.setattr(drafts, "FEW", 0)
    monkeypatch.setattr(clusters, "COLUMNS", 12)
    head, neighbours = RELATIONS[relation]
    town = Watched.over(tmp_path, "town", head, TOWN)
    others = [Watched.over(tmp_path, f"o{i}", head, rows) for i, rows in enumerate(neighbours)]
    lost: list[Any] = [0] * len(others)
    transcript: list[Any] = [trial]
    kinds: set[frozenset[type]] = set()
    for _ in range(LENGTH):
        script, settings = chosen(transcript)
        released = run(town, script, settings)
        if released is not None and town.workload is not None:
            if isinstance(town.workload, Strategy):
                kinds.add(frozenset(type(part) for part in town.workload.parts))
            for i, other in enumerate(others):
                other.true = other.truth(town.workload)
                lost[i] += divergence(town, other)
                assert lost[i] <= town.balance.spent_rho
        transcript.append(released)
    assert frozenset({Residuals}) in kinds and frozenset({Mixed, Residuals}) in kinds
    assert 0 < max(lost) <= town.balance.spent_rho <= town.balance.grant.rho


RUNNING = ";\n".join(
    "SELECT " + ", ".join(f"COUNT_IF(age {sign} {age})" for age in range(6)) + " FROM town"
    for sign in ("<=", ">")
)


@pytest.mark.parametrize("relation", RELATIONS)
def test_nobody_loses_more_than_is_spent_on_a_tree(
    tmp_path: Path, relation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Running counts of more values than an optimum is found for, bought twice and in parts."""
    monkeypatch.setattr(plans, "MANY", 3)
    monkeypatch.setattr(levels, "MANY", 3)
    monkeypatch.setattr(levels, "CELLS", 2)
    head, neighbours = RELATIONS[relation]
    town = Watched.over(tmp_path, "town", head, TOWN)
    others = [Watched.over(tmp_path, f"o{i}", head, rows) for i, rows in enumerate(neighbours)]
    lost: list[Any] = [0] * len(others)
    for rho, reuse in ((0.01, True), (0.01, False), (0.03, True)):
        run(town, RUNNING, {"rho": rho, "reuse": reuse})
        assert isinstance(town.workload, Workload)
        factors = [weight.factor for block in town.workload.blocks for weight in block.weights]
        assert 1 < len(factors) == len(town.workload.blocks)
        for i, other in enumerate(others):
            other.true = other.truth(town.workload)
            lost[i] += divergence(town, other)
            assert lost[i] <= town.balance.spent_rho
    assert 0 < max(lost) <= town.balance.spent_rho <= town.balance.grant.rho


CROSSED = ";\n".join(
    [f"SELECT region, COUNT(*) FROM town WHERE age <= {age} GROUP BY region" for age in range(6)]
    + ["SELECT COUNT(*) FROM town", "SELECT COUNT(*) FROM town WHERE age BETWEEN 2 AND 4"]
)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    ("script", "axes"),
    [
        (RUNNING, {Listed}),
        (RUNNING, {Toeplitz}),
        (RUNNING, {Haar}),
        (CROSSED, {Listed}),
        (CROSSED, {Listed, Toeplitz}),
    ],
)
def test_nobody_loses_more_than_is_spent_on_products(
    tmp_path: Path,
    relation: str,
    script: str,
    axes: set[type],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each matrix along a column, bought twice and in parts; as if columns were too long."""
    monkeypatch.setattr(plans, "MANY", 3)
    monkeypatch.setattr(products, "FEW", 1)
    monkeypatch.setattr(formulas, "FIRST", 1 << 11 if axes == {Listed} else 3)
    if axes == {Haar}:
        one = np.ones(6, np.int64)
        monkeypatch.setattr(formulas, "root", lambda size, even: Toeplitz(one[:size], one[:size]))
    head, neighbours = RELATIONS[relation]
    town = Watched.over(tmp_path, "town", head, TOWN)
    others = [Watched.over(tmp_path, f"o{i}", head, rows) for i, rows in enumerate(neighbours)]
    lost: list[Any] = [0] * len(others)
    for rho, reuse in ((0.01, True), (0.01, False), (0.03, True)):
        run(town, script, {"rho": rho, "reuse": reuse})
        assert isinstance(town.workload, Strategy)
        measured = [part for part in town.workload.parts if isinstance(part, Product)]
        assert {type(axis) for part in measured for axis in part.axes} == axes
        for i, other in enumerate(others):
            other.true = other.truth(town.workload)
            lost[i] += divergence(town, other)
            assert lost[i] <= town.balance.spent_rho
    assert 0 < max(lost) <= town.balance.spent_rho <= town.balance.grant.rho
