"""Residual tables fitted with other releases, judged by dense least squares on what was measured.

Rows are what the curator measures of one person in each cell: no formula of the fit is used.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
import pytest

from dpsql.accounting.events import Gaussian
from dpsql.accounting.kept.stored import Stored
from dpsql.accounting.ledger import Ledger
from dpsql.mechanisms.reuse.archive import Archive
from dpsql.mechanisms.reuse.kept import Kept
from dpsql.mechanisms.strategies.factorization import factored
from dpsql.mechanisms.strategies.marginals import marginals
from dpsql.query.linear import Workload
from tests.mechanisms.measured import CELLS, CODES, matrix, workload

COUNTS = np.arange(CELLS) * 7 % 23
PLANNED = [
    "SELECT sex, region, age, COUNT(*) FROM town GROUP BY CUBE (sex, region, age)",
    "SELECT region, smoker, COUNT(*) FROM town GROUP BY CUBE (region, smoker)",
    "SELECT sex, region, age, AVG(smoker), COUNT(*) FROM town"
    " GROUP BY GROUPING SETS ((region, sex), (age), (age, sex))",
    "SELECT age // 2, region, SUM(age), COUNT(*) FROM town WHERE sex = 'm' GROUP BY CUBE (1, 2)",
]
MIXED = "SELECT sex, COUNT(*), COUNT_IF(age > 3), AVG(age) FROM town GROUP BY ROLLUP (sex)"
PLAIN = ["SELECT sex, COUNT(*) FROM town GROUP BY sex", "SELECT COUNT(*) FROM town WHERE age > 2"]
ASKED = [
    "SELECT COUNT(*) FROM town",
    "SELECT region, COUNT(*) FROM town WHERE sex = 'm' GROUP BY region",
    "SELECT age // 2 AS half, sex, COUNT(*) FROM town GROUP BY ALL",
    "SELECT SUM(age), COUNT(*) FROM town WHERE region <> 'n' AND sex = 'm'",
    "SELECT smoker, COUNT(*) FROM town GROUP BY ROLLUP (smoker)",
]


class History:
    """Releases with noise that was drawn, and their rows over all cells, of unit variance."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.archive = Archive(Kept(Ledger.memory().releases, ("alice", "town", "s")))
        self.rows, self.seen = list[np.ndarray](), list[np.ndarray]()
        self.seq = 0

    def noisy(self, rows: np.ndarray, law: Gaussian) -> np.ndarray:
        """What is measured on COUNTS, and remembered."""
        stddev = math.sqrt(law.variance)
        values = np.rint(rows @ COUNTS + self.rng.normal(0, stddev, len(rows))).astype(np.int64)
        self.rows.append(rows / stddev)
        self.seen.append(values / stddev)
        return values

    def plain(self, asked: Workload, variance: int) -> None:
        law = Gaussian(1, Fraction(variance))
        answers, values = [], self.noisy(matrix(asked), law)
        for block in asked.blocks:
            shape = block.groups, len(block.weights)
            answers.append(values[: math.prod(shape)].reshape(shape))
            values = values[math.prod(shape) :]
        self.add(Stored.of(asked, law, answers))

    def planned(self, plans: list[Any], times: int) -> None:
        """What plans measure, one person at a time, with noise so many times what one moves; it is
        kept as one release, of which the last plans are of residual tables."""
        listed = [[one_by_one(part) for part in plan.strategy.parts] for plan in plans]
        rows = [each.reshape(CELLS, -1).T for parts in listed for each in parts]
        law = Gaussian(1, Fraction(int((np.concatenate(rows) ** 2).sum(axis=0).max()) * times))
        kept = []
        for plan, parts in zip(plans, listed, strict=True):
            values = [
                self.noisy(each.reshape(CELLS, -1).T, law).reshape(each.shape[1:]) for each in parts
            ]
            kept.append(plan.stored(values, law, plan.answered(values, law).answers))
        stored = Stored.from_bytes(reduce(Stored.beside, kept).to_bytes())
        self.add(replace(stored, rests=tuple(range(1, self.seq + 1))))

    def add(self, stored: Stored | None) -> None:
        assert stored is not None
        self.seq += 1
        self.archive.add(self.seq, stored)

    def judged(self, asked: Workload) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Estimates, covariance, and which queries follow at all."""
        rows, queries = np.concatenate(self.rows), matrix(asked)
        back = np.linalg.pinv(rows, rcond=1e-11)
        known = abs(queries @ back @ rows - queries).max(axis=1) < 1e-7
        return (
            queries @ (back @ np.concatenate(self.seen)), queries @ back @ back.T @ queries.T, known
        )  # fmt: skip


def one_by_one(part: Any) -> np.ndarray:
    """What is measured of one person in each cell."""
    one = np.ones(1, np.int64)
    codes = [{name: c[cell : cell + 1] for name, c in CODES.items()} for cell in range(CELLS)]
    return np.array([part.matvec(each, one) for each in codes]).astype(np.float64)


@pytest.mark.parametrize("sql", [*PLANNED, "kinds"])
def test_they_are_fitted_with_others_as_dense_least_squares_does(sql: str) -> None:
    """Whatever they count, and two kinds of them beside a strategy."""
    history = History(len(sql))
    history.plain(workload(PLAIN[0]), 900)
    history.plain(workload(PLAIN[1]), 1600)
    plans = [marginals(workload(each)) for each in (PLANNED[1:4:2] if sql == "kinds" else [sql])]
    if sql == "kinds":
        plans.insert(0, factored(workload(MIXED)))
    history.planned(plans, 400)
    told = 0
    for text in ASKED:
        asked = workload(text)
        estimates, covariance, inside = history.judged(asked)
        found = history.archive.known(asked)
        if found is None or not inside.all():
            assert found is None or found.worst == math.inf
            continue
        told += 1
        assert found.used == (1, 2, 3), text
        answered, start = found.answered(), 0
        for spread, noise in zip(found.spreads, answered.noises, strict=True):
            groups, width = spread.known.shape
            for group in range(groups):
                mine = np.arange(start, start + width)
                start += width
                size = abs(covariance[np.ix_(mine, mine)]).max()
                np.testing.assert_allclose(
                    spread.covariance[group], covariance[np.ix_(mine, mine)], atol=1e-6 * size
                )
                np.testing.assert_allclose(
                    noise.centre(None)[group], estimates[mine], rtol=1e-6, atol=1e-4
                )
    assert told >= 1
