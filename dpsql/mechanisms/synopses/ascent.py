"""The dual of `entropy` climbed by one table at a time: information projection, with replay.

Each step gives a table the best potential that it can have beside the others'; the table that is
furthest off goes next. No step is wrong by its length, as one of a descent may be, and it takes two
sums over the junction tree at most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpsql.mechanisms.synopses.descent import Point, least
from dpsql.mechanisms.synopses.junction import Floats
from dpsql.mechanisms.synopses.layout import Layout
from dpsql.mechanisms.synopses.noisy import NoisyTable

GAP = 1e-3  # for each cell that was measured: 4.5 % of a standard error
_NEWTON, _SHIFTS = 8, 60
_EVEN = 1e-9  # of the rows
_TINY = 1e-9  # rows
_FAINT = 200.0
_DESCENT = 50


def climbed(
    place: Layout,
    total: float,
    known: dict[NoisyTable, Floats],
    logs: list[Floats],
    tau: float,
    steps: int,
    new: Sequence[NoisyTable] = (),
) -> float:
    """Set what is `known` of the potentials, step by step, new tables first; the gap that is left.

    `logs` are those of the distribution that has them.
    """
    listed, left = list(known), list(new)
    while True:
        chances, _ = place.summed(logs, listed)
        gaps = [
            _gap(table, total * chance, known[table], tau)
            for table, chance in zip(listed, chances, strict=True)
        ]
        each = [gap / cells(table) for table, gap in zip(listed, gaps, strict=True)]
        at = listed.index(left.pop(0)) if left else int(np.argmax(each))
        if not steps or each[at] <= GAP:
            return math.fsum(gaps)
        steps -= 1
        table = listed[at]
        beside = _beside(place, logs, table, known[table], chances[at])
        theta = best(total, table, beside, tau, chances[at], known[table])
        logs = place.added(logs, {table: theta - known[table]})
        known[table] = theta


def _beside(
    place: Layout, logs: list[Floats], table: NoisyTable, theta: Floats, chances: Floats
) -> Floats:
    """The chances of a table's cells without its potential."""
    turned = float(theta.max()) - theta
    if not float(turned.max()) <= _FAINT:  # cells may have no chance that could be told
        (chances,), _ = place.summed(place.added(logs, {table: turned}), [table])
    else:
        chances = chances * np.exp(turned)
    found: Floats = chances / chances.sum()
    return found


def _gap(table: NoisyTable, guess: Floats, theta: Floats, tau: float) -> float:
    """What a table has of the gap of both values."""
    off = (centred(guess) if table.centred else guess) - table.values
    off = off + tau * table.variance * theta
    if table.seen is not None:
        off = off * table.seen
    return float((off**2).sum()) / table.variance / 2


def best(
    total: float, table: NoisyTable, chances: Floats, tau: float, now: Floats, theta: Floats
) -> Floats:
    """The best theta of a table beside the others, in whose distribution its cells have these
    `chances`, where with `theta` they are `now`.

    Of a centred table of two axes or more it is found by a descent from `theta`: its margins move
    with it, and what is best for the margins as they are may be worse than `theta`.
    """
    if not table.centred or table.values.ndim == 1:
        return alone(total, table, chances, tau, now)
    logs, pull = np.log(chances + _TINY / total), tau * table.variance

    def at(x: Floats) -> Point:
        own = x.reshape(theta.shape)
        most = float((logs + own).max())
        rows = np.exp(logs + own - most)
        mass = float(rows.sum())
        rows *= total / mass
        gradient = (centred(rows) - table.values + pull * own).reshape(-1)
        value = total * (most + math.log(mass)) + float(np.vdot(own, pull * own / 2 - table.values))
        near = 1 / (rows + pull)
        return Point(
            x, value, gradient, lambda v: centred(near * v.reshape(near.shape)).reshape(-1),
            float(gradient @ gradient) / (2 * pull),
        )  # fmt: skip

    gap = GAP / 10 * cells(table) / tau
    point, _ = least(at, theta.reshape(-1), first=1.0, gap=gap, steps=_DESCENT)
    return point.x.reshape(theta.shape)


def alone(
    total: float, table: NoisyTable, chances: Floats, tau: float, now: Floats | None = None
) -> Floats:
    """The best theta of a table beside a distribution in which its cells have these `chances`.

    n m exp(theta - a) + tau v theta = y, where a is such that these rows sum to n: for u = log of
    the rows over tau v that is exp(u) + u = c, and both that and the sum, which falls in a, are
    convex: so Newton's steps find them from the right, and from the left. A cell that was not
    measured has u = c; of a centred table the margins are taken as they are, or are `now`.
    """
    guess = total * chances + _TINY
    margin = guess if now is None else total * now
    margins = margin - centred(margin) if table.centred else 0.0
    pull, seen = tau * table.variance, True if table.seen is None else table.seen
    target = table.values + margins
    known = target / pull + np.log(guess / pull)
    # one cell has all rows
    shift = float((known - np.where(seen, total / pull, 0.0)).max()) - math.log(total / pull)
    for _ in range(_SHIFTS):
        c = known - shift
        u = np.where((c > 1.0) & seen, np.log(np.maximum(c, 1.0)), c)
        for _ in range(_NEWTON):
            u = np.where(seen, u - (np.exp(u) + u - c) / (np.exp(u) + 1.0), c)
        w = np.exp(u)
        over = pull * float(w.sum()) - total
        if abs(over) <= _EVEN * total:
            break
        shift += over / (pull * float((w / np.where(seen, w + 1.0, 1.0)).sum()))
    found = (target / pull - w) * seen
    return centred(found) if table.centred else found


def cells(table: NoisyTable) -> int:
    return table.values.size if table.seen is None else int(table.seen.sum())


def centred(table: Floats) -> Floats:
    """A table without its margins: the mean along each axis is taken off."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table
