"""Factorization: a workload W answered through a strategy A, W h estimated as R (A W h + z).

The matrix mechanism (Li et al. 2010; Edmonds, Nikolov, Ullman 2020). Of all linear estimates from
Gaussian noise the total squared error over the queries is least for the strategies of `querycov`.
The strategy that is measured has integer entries, and R is made of these, so R A W = W and what is
released has no bias.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Gaussian
from dpsql.accounting.kept.stored import Stored
from dpsql.mechanisms.intervals.noises import Joint, Noise
from dpsql.mechanisms.intervals.spread import Fitted, Spread
from dpsql.mechanisms.reuse.found import Answered
from dpsql.mechanisms.strategies.drafts import drafted, rmse, solved
from dpsql.mechanisms.strategies.mixing import importance
from dpsql.mechanisms.strategies.solved import Solved, Tables
from dpsql.query.linear import Workload
from dpsql.query.strategy import Strategy

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, eq=False)
class Factored:
    """A strategy for a workload, and how answers are made of its values.

    `lower` is a bound from below on the root of the mean squared error of any strategy, and `rmse`
    this one's, at noise that costs rho = 1/2; both as `importance` weighs the queries. With
    `largest` they are of the largest squared error.
    """

    workload: Workload
    strategy: Strategy
    solved: tuple[Solved | Tables, ...]
    rmse: float
    lower: float
    largest: bool

    @property
    def ratio(self) -> float | None:
        """The error to the bound on that of any strategy, at least 1; None without a bound."""
        return max(1.0, self.rmse / self.lower) if self.lower else None

    def made_for(self, workload: Workload) -> Factored:
        """The same for another workload of the same queries in the same order."""
        if workload is self.workload:
            return self
        solved = tuple(each.made_for(workload) for each in self.solved)
        strategy = Strategy(tuple(each.part for each in solved))
        return dataclasses.replace(self, workload=workload, strategy=strategy, solved=solved)

    def spreads(self, law: Gaussian) -> tuple[Spread, ...]:
        """What will be known of each SELECT's answers, before anything is measured."""
        return self._placed([solved.spreads(law) for solved in self.solved])

    def stored(
        self, values: Sequence[NDArray[Any]], law: Gaussian, shown: Sequence[NDArray[Any]]
    ) -> Stored | None:
        """What a ledger keeps of it, with the answers that were shown; None where it cannot."""
        measured, answers = [], []
        tabled: list[Stored] = []
        for each, noisy in zip(self.solved, values, strict=True):
            match each:
                case Tables(made=made):
                    kept = made.stored([noisy], law, [])
                    if kept is None:
                        return None
                    tabled.append(kept)
                case Solved(cluster=cluster, matrix=matrix):
                    rows = None if cluster.cells is None else cluster.cells.rows
                    measured.append((cluster.workload, matrix, noisy, rows))
                    answers.append([shown[place] for place in each.places])
        found = Stored.mixed(measured, law, answers) if measured else tabled.pop(0)
        return None if found is None else functools.reduce(Stored.beside, tabled, found)

    def unmeasured(self, law: Gaussian) -> Stored | None:
        """What a ledger would keep if all values were 0."""
        values = []
        for each in self.solved:
            rows = len(each.part.matrix)
            values.append(np.zeros((each.part.size // rows, rows), np.int64))
        return self.stored(values, law, self.answered(values, law).answers)

    def noises(self, law: Gaussian) -> tuple[Noise, ...]:
        """The noise of each SELECT's answers, whatever they are."""
        found = []
        for spread in self.spreads(law):
            shape = spread.known.shape
            found.append(Joint(Fitted(np.zeros(shape, np.int64), np.zeros(shape), spread)))
        return tuple(found)

    def answered(self, values: Sequence[NDArray[Any]], law: Gaussian) -> Answered:
        """The answers of each SELECT from the noisy values of each part."""
        each = zip(self.solved, values, strict=True)
        fitted = self._placed([solved.fitted(noisy, law) for solved, noisy in each])
        return Answered(tuple(some.shown for some in fitted), tuple(map(Joint, fitted)), 1)

    def _placed(self, found: Sequence[Sequence[_T]]) -> tuple[_T, ...]:
        """What each part has of its blocks, in the order of all blocks."""
        by_place = {
            place: some
            for solved, own in zip(self.solved, found, strict=True)
            for place, some in zip(solved.places, own, strict=True)
        }
        return tuple(by_place[place] for place in range(len(self.workload.blocks)))


def factored(workload: Workload, *, largest: bool = False, grouped: bool = False) -> Factored:
    """The strategy of least weighted squared error, or least `largest` one, that is found; if
    `grouped`, of those that mix the aggregates of each group alone.

    Clusters of SELECTs that cannot be planned together have a part each; at rho_c they err by
    e_c / rho_c, so that rho_c is in proportion to sqrt(e_c) for the least sum, to e_c for the least
    of the largest. Nothing depends on how fast the machine is: a plan that is made again is the
    same. Raises ValueError where nobody is counted, and for weights too large to be mixed.
    """
    wanted = importance(workload, largest=largest)
    drafts = drafted(workload, wanted, largest, grouped)
    parts = [draft.error if largest else math.sqrt(draft.error) for draft in drafts]
    if not any(parts):
        raise ValueError("a strategy is for queries that count somebody")
    made = solved(drafts, [math.sqrt(part / sum(parts)) for part in parts])
    lower = [draft.lower for draft in drafts]
    return Factored(
        workload,
        Strategy(tuple(each.part for each in made)),
        made,
        rmse(drafts, largest),
        math.sqrt(max(lower) if largest else sum(lower)),
        largest,
    )
