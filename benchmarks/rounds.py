"""Tables that are chosen in rounds (MWEM), beside Gaussian noise on each question by itself.

Noise and choices are drawn here: what a synopsis pays and how it is asked are not part of this.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.figures import Figure
from benchmarks.marginals import Codes, noise
from dpsql.accounting.events import PICO
from dpsql.curator.sensitivity import sensitivity
from dpsql.mechanisms.synopses import mwem
from dpsql.mechanisms.synopses.expectation import answers
from dpsql.mechanisms.synopses.learnt import learnt
from dpsql.query.linear import Workload
from dpsql.schema import Neighbours
from dpsql.session.synopses.rounds import ROUNDS

Floats = NDArray[np.float64]


class Bought:
    """Rounds over rows, with noise drawn here."""

    def __init__(self, plan: mwem.Plan, codes: Codes) -> None:
        self._plan, self._codes = plan, codes
        self._counts = np.ones(len(codes[plan.domain.names[0]]), np.int64)
        self._draw = np.random.default_rng()
        self.true = self._flat(plan.listed.workload)

    def _flat(self, asked: Workload) -> NDArray[np.int64]:
        return np.concatenate([b.reshape(-1) for b in asked.matvec(self._codes, self._counts)])

    def measure(self, asked: Workload) -> tuple[NDArray[Any], ...]:
        variance = float(self._plan.event.each.variance)
        found = asked.matvec(self._codes, self._counts)
        return tuple(b + np.rint(noise(variance, b.shape)).astype(np.int64) for b in found)

    first = measure

    def pick(self, guesses: NDArray[np.int64], among: NDArray[np.int64]) -> int:
        scores = np.abs(self.true - guesses)[among] / float(self._plan.event.pick.scale)
        return int(among[(scores + self._draw.gumbel(size=len(among))).argmax()])


def figures(workload: Workload, codes: Codes, rho: float, name: str) -> Iterator[Figure]:
    """Errors of a workload's answers by the distribution that the rounds end with."""

    def squared(asked: Workload) -> int:
        return sensitivity(asked, Neighbours.ADD_REMOVE, 1).squared

    listed = mwem.Listed.of(workload, 1 << 16)
    times = min(ROUNDS, listed.rounds)
    plan = mwem.planned(listed, workload.domain, int(rho * PICO), times, 1, squared)
    bought = Bought(plan, codes)
    start = time.process_time()
    state = learnt(workload.domain, [mwem.learnt(plan, bought)])
    told = np.concatenate([block.reshape(-1) for block in answers(state, workload)])
    spent = time.process_time() - start
    error = np.abs(told - bought.true)
    alone = np.abs(noise(workload.size / (2 * rho), (workload.size,)))
    one, beside = float(alone.mean()), "rows one by one"
    title = f"{name} by {times} rounds of MWEM, mean error"
    yield Figure(title, float(error.mean()), "rows", one, beside, 0.2 * one)
    yield Figure("largest error", float(error.max()), "rows", float(alone.max()), beside)
    yield Figure("choosing, fitting and answering, CPU", spent, "s", None, "")
