"""Residual tables fitted with other releases, judged by dense least squares on what was measured.

Rows are what the curator measures of one person in each cell: no formula of the fit is used.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpsql.accounting.events import Gaussian
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.stored import Stored
from dpsql.mechanisms.archive import Archive
from dpsql.mechanisms.factorization import factored
from dpsql.mechanisms.kept import Kept
from dpsql.mechanisms.marginals import marginals
from dpsql.query.linear import Workload
from tests.mechanisms.measured import CELLS, CODES, DOMAIN, matrix, workload

COUNTS = np.arange(CELLS) * 7 % 23
PLANNED = [
    "SELECT sex, region, age, COUNT(*) FROM town GROUP BY CUBE (sex, region, age)",
    "SELECT region, smoker, COUNT(*) FROM town GROUP BY CUBE (region, smoker)",
    "SELECT sex, region, age, AVG(smoker), COUNT(*) FROM town"
    " GROUP BY GROUPING SETS ((region, sex), (age), (age, sex))",
    "SELECT age // 2, region, SUM(age), COUNT(*) FROM town WHERE sex = 'm' GROUP BY CUBE (1, 2)",
]
MIXED = (  # a strategy, and residual tables of two kinds beside it
    "SELECT sex, COUNT(*), COUNT_IF(age > 3), AVG(age) FROM town GROUP BY ROLLUP (sex)",
    "SELECT sex, region, COUNT(*) FROM town GROUP BY CUBE (sex, region)",
)
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

    def planned(self, plan, times: int) -> None:
        """What a plan measures, one person at a time, with noise so many times what one moves."""
        shapes, rows = [], []
        for part in plan.strategy.parts:
            each = [
                part.matvec({name: c[cell : cell + 1] for name, c in CODES.items()}, np.ones(1, int))
                for cell in range(CELLS)
            ]
            shapes.append(each[0].shape)
            rows.append(np.array([one.reshape(-1) for one in each], np.float64).T)
        law = Gaussian(1, Fraction(int((np.concatenate(rows) ** 2).sum(axis=0).max()) * times))
        values = [self.noisy(m, law).reshape(shape) for m, shape in zip(rows, shapes, strict=True)]
        stored = plan.stored(values, law, plan.answered(values, law).answers)
        rests = tuple(range(1, self.seq + 1))
        self.add(replace(Stored.from_bytes(stored.to_bytes()), rests=rests))

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


def both() -> Workload:
    """Both statements of MIXED, as a script asks them."""
    one, other = map(workload, MIXED)
    return Workload(DOMAIN, (*one.blocks, *other.blocks))


@pytest.mark.parametrize("sql", [*PLANNED, "both"])
def test_they_are_fitted_with_others_as_dense_least_squares_does(sql: str) -> None:
    history = History(len(sql))
    history.plain(workload(PLAIN[0]), 900)
    history.plain(workload(PLAIN[1]), 1600)
    plan = factored(both()) if sql == "both" else marginals(workload(sql))
    assert plan is not None
    history.planned(plan, 400)
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
