"""Multiplicative weights: the textbook steps on a factored distribution, and their loop.

Hardt and Rothblum 2010; Hardt, Ligett, McSherry 2012; Arora, Hazan, Kale 2012. A step multiplies p
by a function of one query and normalises. Over T steps of size sqrt(ln N / T) against functions in
[-1, 1] the regret is at most 2 sqrt(T ln N) on a universe of N cells; with steps of alpha / 2
towards answers that are off by more than alpha there are at most 4 ln N / alpha^2 of them, for each
lowers the divergence KL(D || p), ln N at first, by alpha^2 / 4 at least. Both errors are parts of
the total.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.domain import Domain
from dpsql.mechanisms.synopses.expectation import answers, indicator
from dpsql.mechanisms.synopses.factors import Factored
from dpsql.mechanisms.synopses.junction import CELLS, Floats
from dpsql.query.linear import Workload

_INSIDE = 1e-12  # of a share: targets are not nearer to 0 and 1


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A single query, as classes of codes of its columns and its value on each combination."""

    query: Workload
    classes: dict[str, NDArray[np.int64]]
    values: Floats

    @property
    def binary(self) -> bool:
        """Whether a row counts once or not at all."""
        return bool(np.isin(self.values, (0.0, 1.0)).all())

    def share(self, state: Factored) -> float:
        """The mean value of a row."""
        found = answers(state, self.query)
        return float(math.fsum(float(block.sum()) for block in found)) / state.total


def question(domain: Domain, query: Workload, most: int = CELLS) -> Question:
    """A workload of one query without groups. Raises ValueError for others, Entangled for one that
    mentions too many columns at once."""
    return Question(query, *indicator(domain, query, most))


# -- steps -----------------------------------------------------------------------------------------


def polynomial(state: Factored, asked: Question, step: float) -> Factored:
    """p times 1 + step x query; steps are below 1 over the largest value (Arora et al., 2.1)."""
    weights = 1 + step * asked.values
    if not (weights > 0).all():
        raise ValueError("a polynomial step leaves every weight above 0")
    return state.times(asked.classes, np.log(weights))


def exponential(state: Factored, asked: Question, step: float) -> Factored:
    """p times exp(step x query) (Hedge; Hardt et al. 2012)."""
    return state.times(asked.classes, step * asked.values)


def projected(state: Factored, asked: Question, target: float, slack: float = 0.0) -> Factored:
    """The distribution nearest to p, in KL(. || p), whose share is within `slack` of `target`.

    Of a 0/1 query that is a/g inside and (1-a)/(1-g) outside, with a the near edge and g the share
    by p: an information projection (Csiszar 1975). Nothing moves within the edges, nor where g is 0
    or 1: nothing of p is there to be scaled.
    """
    if not asked.binary:
        raise ValueError("what is projected on is a 0/1 query")
    share = asked.share(state)
    edge = min(max(share, target - slack), target + slack)
    edge = min(max(edge, _INSIDE), 1 - _INSIDE)
    if abs(target - share) <= slack + _INSIDE or not 0 < share < 1:
        return state
    inside, outside = math.log(edge / share), math.log((1 - edge) / (1 - share))
    return state.times(asked.classes, np.where(asked.values == 1.0, inside, outside))


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """A share that was measured, and its standard error."""

    asked: Question
    share: float
    stderr: float


def replayed(state: Factored, stored: Sequence[Measured], rounds: int = 1) -> Factored:
    """p projected on each stored measurement that it is off by more than a standard error, the
    latest first, so many times over."""
    for _ in range(rounds):
        before = state
        for one in reversed(stored):
            state = projected(state, one.asked, one.share, one.stderr)
        if state is before:
            break
    return state


# -- iterates --------------------------------------------------------------------------------------


def averaged(states: Sequence[Factored], query: Workload) -> list[Floats]:
    """What the mean of some states answers, as the theorems have it; a mixture, no product.

    In practice the last state answers better.
    """
    if not states:
        raise ValueError("a mean is of one state or more")
    blocks = zip(*(answers(state, query) for state in states), strict=True)
    return [np.mean(each, axis=0) for each in blocks]


def mistakes(cells: int, alpha: float) -> int:
    """The most steps of alpha / 2 towards answers that are off by more than alpha: 4 ln N / alpha^2
    (Hardt and Rothblum 2010, theorem 3.2)."""
    return math.floor(4 * math.log(cells) / alpha**2)


def learnt(
    domain: Domain, total: float, public: Iterable[tuple[Question, float]], alpha: float
) -> tuple[list[Factored], int]:
    """The states on the way to answer all queries within alpha, and the number of steps.

    Multiplicative weights without privacy, for public shares alone: of queries in [-1, 1], each is
    stepped towards while it is off by more than `alpha`, until none is. Raises ValueError where
    that does not end within `mistakes`, as no one table can have such shares.
    """
    if not 0 < alpha <= 1:
        raise ValueError("alpha is a share above 0 and at most 1")
    listed, states, most = list(public), [Factored(domain, total)], mistakes(domain.cells, alpha)
    steps, quiet = 0, 0
    while quiet < len(listed):
        for asked, share in listed:
            away = share - asked.share(states[-1])
            if abs(away) <= alpha:
                quiet += 1
            else:
                quiet, steps = 0, steps + 1
                if steps > most:
                    raise ValueError("no table has these shares")
                states.append(exponential(states[-1], asked, math.copysign(alpha / 2, away)))
            if quiet == len(listed):
                break
    return states, steps
