"""Record and replay: what one person loses along an adaptively chosen transcript is paid for.

An analyst, who sees released values alone, chooses every next statement from them. The same
transcript is then asked of neighbouring tables. On each, the same must be charged and refused, to
the last digit; and the divergence between the laws of what was released, summed over the
transcript for that pair of tables, must not exceed what the ledger says is spent.
"""

from __future__ import annotations

import hashlib
import math
import random
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from dpsql.accounting.events import PICO, Gaussian, Laplace
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.purse import Balance, Price, difference
from dpsql.curator.sealed import unseal
from dpsql.errors import BudgetExceeded
from dpsql.query.strategy import Part, Strategy
from dpsql.session import Session
from tests.rows import fill

SCHEMA = """
dataset = "town"
{head}
[source]
table = "people"

[columns]
sex = {{type = "category", values = ["f", "m"]}}
region = {{type = "category", values = ["N", "E", "S"]}}
age = {{type = "integer", min = 0, max = 5}}
smoker = {{type = "boolean", nullable = true}}
"""
Row = tuple[object, ...]
LENGTH = 40

CONDITIONS = [
    "sex = 'f'",
    "sex = 'm'",
    "age < 3",
    "age >= 3",
    "age IN (0, 2, 4)",
    "region = 'N'",
    "region <> 'N'",
    "smoker",
    "NOT smoker",
    "smoker IS NULL OR age = 5",
    "(sex = 'f' OR region = 'S')",
]
SHAPES = [
    "SELECT COUNT(*) FROM town WHERE {0} AND {1}",
    "SELECT COUNT(*) FROM town WHERE {0} OR {1}",
    "SELECT region, COUNT(*) FROM town WHERE {0} GROUP BY region",
    "SELECT sex, AVG(age) FROM town WHERE {0} GROUP BY ROLLUP (sex)",
    "SELECT SUM(age), COUNT(*) FILTER (WHERE {1}) FROM town WHERE {0}",
    "SELECT VARIANCE(age) FROM town WHERE {0} AND {1}",
    "SELECT COUNT(*) FROM town WHERE {0} UNION ALL SELECT COUNT(smoker) FROM town WHERE {1}",
]


def chosen(transcript: list[Any]) -> tuple[str, dict[str, Any]]:
    """The next statement and its price: a function of what was released, and of nothing else."""
    draw = random.Random(hashlib.sha256(repr(transcript).encode()).digest())
    sql = draw.choice(SHAPES).format(draw.choice(CONDITIONS), draw.choice(CONDITIONS))
    backend = draw.choice(["gaussian", "gaussian", "laplace"])
    return sql, {"rho": draw.choice([0.002, 0.01, 0.03]), "backend": backend}


@dataclass
class Watched:
    """A session whose measurements are noted: the true answers, and the law of their noise."""

    session: Session
    true: list[np.ndarray]
    law: Gaussian | Laplace | None = None
    workload: Any = None

    @classmethod
    def over(cls, folder: Path, name: str, head: str, rows: list[Row]) -> Watched:
        path = folder / f"{name}.duckdb"
        with duckdb.connect(str(path)) as made:
            made.execute("CREATE TABLE people (sex TEXT, region TEXT, age INT, smoker BOOLEAN)")
            fill(made, "people", rows)
        path.with_suffix(".toml").write_text(SCHEMA.format(head=head))
        ledger = Ledger.memory()
        ledger.grant("alice", dataset="town", epsilon=4)
        watched = cls(Session(path, user="alice", ledger=ledger), [])
        curator = watched.session._curator(watched.session.datasets["town"])
        measure = curator.measure

        def noted(workload: Any, noise: Any, *more: Any) -> Any:
            found = measure(workload, noise, *more)
            watched.true = watched.truth(workload)
            watched.workload, watched.law = workload, found.event
            return found

        curator.measure = noted
        return watched

    def truth(self, workload: Any) -> list[np.ndarray]:
        """The answers, or the values of a strategy, without noise."""
        if isinstance(workload, Strategy):
            return [self._part(part) for part in workload.parts]
        curator = self.session._curator(self.session.datasets["town"])
        cells = unseal(curator._cells(workload.domain.names, curator._engine.snapshot()))
        found: list[np.ndarray] = workload.matvec(cells.codes, cells.counts)
        return found

    def _part(self, part: Part) -> np.ndarray:
        curator = self.session._curator(self.session.datasets["town"])
        names = part.workload.domain.names
        cells = unseal(curator._cells(names, curator._engine.snapshot()))
        return part.matvec(cells.codes, cells.counts)

    @property
    def balance(self) -> Balance:
        return self.session.ledger.balance("alice", "town")

    def ask(self, sql: str, settings: dict[str, Any]) -> tuple[list[Row] | None, Price]:
        """What is released, None when refused; what was charged."""
        before = self.balance
        try:
            rows = list(self.session.answer(sql, **settings).rows)
        except BudgetExceeded:
            rows = None
        return rows, difference(before.spent, self.balance.spent)


def divergence(one: Watched, other: Watched) -> Fraction | float:
    """What the last answers tell between the two tables, in pico of rho."""
    moves = [
        int(move)
        for a, b in zip(one.true, other.true, strict=True)
        for move in np.abs(a.astype(object) - b.astype(object)).ravel()
    ]
    match one.law:
        case Gaussian(variance=variance):
            return PICO * sum(m * m for m in moves) / (2 * variance)
        case Laplace(scale=scale):
            q = math.exp(-1 / scale)
            costs = [(m - 2 * q * (1 - q**m) / (1 - q * q)) / float(scale) for m in moves]
            return PICO * sum(costs) * (1 - 1e-9)
        case _:
            raise AssertionError("nothing was measured")


def rows(count: int, seed: int) -> list[Row]:
    draw = random.Random(seed)
    return [
        (draw.choice("fm"), draw.choice("NES"), draw.randrange(6), draw.choice([True, False, None]))
        for _ in range(count)
    ]


PERSONS: list[Row] = [
    ("f", "N", 0, True),
    ("m", "S", 5, None),
    ("f", "E", 4, False),
    ("m", "N", 3, True),
]
TOWN = rows(60, 4)
RELATIONS = {
    "add-remove": ('unit = "row"', [[*TOWN, person] for person in PERSONS]),
    "replace-one": (
        'unit = "row"\nneighbours = "replace-one"',
        [[*TOWN[1:], person] for person in PERSONS],
    ),
}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("trial", range(2))
def test_nobody_loses_more_than_is_spent(tmp_path: Path, relation: str, trial: int) -> None:
    head, neighbours = RELATIONS[relation]
    town = Watched.over(tmp_path, "town", head, TOWN)
    others = [
        Watched.over(tmp_path, f"other{i}", head, rows_) for i, rows_ in enumerate(neighbours)
    ]
    lost: list[Any] = [0] * len(others)
    transcript: list[Any] = [trial]
    for _ in range(LENGTH):
        sql, settings = chosen(transcript)
        released, charged = town.ask(sql, settings)
        for i, other in enumerate(others):
            replayed, paid = other.ask(sql, settings)
            assert (replayed is None, paid) == (released is None, charged)
            if released is not None:
                lost[i] += divergence(town, other)
            assert lost[i] <= town.balance.spent_rho
        transcript.append(released)
    alone = sum(entry.price.rho for entry in town.session.ledger.log() if entry.price)
    assert 0 < max(lost) <= town.balance.spent_rho <= min(alone, town.balance.grant.rho)
