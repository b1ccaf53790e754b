"""The dual of `entropy` climbed by one table at a time: information projection, with replay.

Each step gives a table the best potential that it can have beside the others'; the table that is
furthest off goes next. No step is wrong by its length, as one of a descent may be, and it goes
through what hangs together with its table once, and once more to see how far all are off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.synopses.calibration import Calibration
from dpsql.mechanisms.synopses.descent import Point, least
from dpsql.mechanisms.synopses.junction import Floats
from dpsql.mechanisms.synopses.lattice import lattice
from dpsql.mechanisms.synopses.layout import Layout
from dpsql.mechanisms.synopses.noisy import NoisyTable

GAP = 1e-3  # for each cell that was measured: 4.5 % of a standard error
_STEPS, _LAST = 20, 1e-7  # a last step: what is left is as its square
_NEWTON, _SHIFTS = 8, 60
_EVEN = 1e-9  # of the rows
_TINY = 1e-9  # rows
_FAINT, _HUGE = 200.0, 700.0
_DESCENT = 50

Seen: TypeAlias = "NDArray[np.bool_] | bool"


class Climb:
    """What is known of the potentials, and the rows and the gap of each table beside them.

    `calibration` is that of the distribution that has them: it goes along with the steps, each of
    which changes what hangs together with its table. `tau`, the weight of the base, is set before
    the first.
    """

    def __init__(
        self,
        place: Layout,
        total: float,
        known: dict[NoisyTable, Floats],
        calibration: Calibration,
        tau: float = 0.0,
    ) -> None:
        self.place, self.total, self.known, self.tau = place, total, known, tau
        self.calibration = calibration
        self._tables = list(known)
        self._cells = np.array([cells(table) for table in known])
        self._gaps = np.zeros(len(known))
        self._rows: dict[NoisyTable, Floats] = {}
        self._best: dict[NoisyTable, Floats] = {}  # rows with which a potential is the best
        self._within: list[list[tuple[int, NoisyTable]]] = [[] for _ in place.tree.cliques]
        for at, table in enumerate(known):
            self._within[place.homes[table]].append((at, table))

    def climbed(self, steps: int, new: Sequence[NoisyTable] = ()) -> float:
        """Set what is known, step by step, new tables first; the gap that is left."""
        given = new[:steps]
        for table in given:
            self._step(table, self.chances(table))
        for left in reversed(range(steps - len(given) + 1)):
            self._renew()
            each = self._gaps / self._cells
            at = int(np.argmax(each))
            if not left or each[at] <= GAP:
                break
            table = self._tables[at]
            self._step(table, self._rows[table] / self.total)
        return float(self._gaps.sum())

    def chances(self, table: NoisyTable, found: Calibration | None = None) -> Floats:
        """The chances of a table's cells, in another product if one is given; of the others
        nothing is summed."""
        at = self.place.homes[table]
        clique, belief = self.place.tree.cliques[at], (found or self.calibration).beliefs[at]
        steps = lattice(clique, belief.shape, (table.names,))
        return self.place.gathered(table, steps.down(belief)[table.names])

    def _renew(self) -> None:
        """Sum what has changed."""
        lattices = self.place.lattices(tuple(self._tables))
        for clique in self.calibration.renewed():
            if not self._within[clique]:
                continue
            down = lattices[clique].down(self.calibration.beliefs[clique])
            for at, table in self._within[clique]:
                rows = self.total * self.place.gathered(table, down[table.names])
                self._rows[table], self._gaps[at] = rows, self._gap(table, rows)

    def _gap(self, table: NoisyTable, rows: Floats) -> float:
        """What a table has of the gap of both values."""
        best = self._best.get(table)
        if best is None:
            best = table.values - (self.tau * table.variance) * self.known[table]
            self._best[table] = best
        off = (centred(rows) if table.centred else rows) - best
        if table.seen is not None:
            off *= table.seen
        return float(np.vdot(off, off)) / (2 * table.variance)

    def _step(self, table: NoisyTable, now: Floats) -> None:
        """Give a table, whose cells have these chances, its best potential."""
        known = self.known[table]
        beside = self._beside(table, now)
        theta = potential(self.total, table, beside, self.tau, now, known)
        self.calibration.multiply(table.names, self.place.spread(table, theta - known))
        self.known[table] = theta
        self._best.pop(table, None)

    def _beside(self, table: NoisyTable, chances: Floats) -> Floats:
        """The chances of a table's cells without its potential."""
        theta = self.known[table]
        turned = float(theta.max()) - theta
        if not float(turned.max()) <= _FAINT:  # cells may have no chance that could be told
            other = Calibration(self.place.tree, self.calibration.factors)
            other.multiply(table.names, self.place.spread(table, turned))
            chances = self.chances(table, other)
        else:
            chances = chances * np.exp(turned)
        found: Floats = chances / chances.sum()
        return found


def potential(
    total: float, table: NoisyTable, chances: Floats, tau: float, now: Floats, theta: Floats
) -> Floats:
    """The best theta of a table beside the others, in whose distribution its cells have these
    `chances`, where with `theta` they are `now`.

    Of a centred table of two axes or more it is found by a descent from `theta`: its margins move
    with it, and what is best for the margins as they are may be worse than `theta`.
    """
    if not table.centred or table.values.ndim == 1:
        return alone(total, table, chances, tau, now)
    # laid out as what is read from a ledger: sums are the same to the last bit
    logs = np.ascontiguousarray(np.log(chances + _TINY / total))
    pull = tau * table.variance

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
    near = guess if now is None else total * now
    margins = near - centred(near) if table.centred else 0.0
    pull, seen = tau * table.variance, True if table.seen is None else table.seen
    target = (table.values + margins) / pull
    known = target + np.log(guess / pull)
    start = np.where(seen, np.log(np.maximum(near + _TINY, table.values + margins) / pull), known)
    u = _near(known, start, total / pull, seen)
    if u is None:
        u = _sure(known, total / pull, seen)
    found = (target - np.exp(u)) * seen
    # laid out as what is read from a ledger: sums are the same to the last bit
    return np.ascontiguousarray(centred(found) if table.centred else found)


def _near(known: Floats, u: Floats, full: float, seen: Seen) -> Floats | None:
    """The solution by Newton's steps for u and a at once, from one that is near; None where these
    do not find it soon."""
    for _ in range(_STEPS):
        if not float(u.max()) <= _HUGE:
            return None
        w = np.exp(u)
        slope = 1.0 / (w * seen + 1.0)
        off, weights = w * seen + u - known, w * slope
        whole = float(weights.sum())
        if not whole > 0.0:
            return None
        a = (float(w.sum()) - full - float((weights * off).sum())) / whole
        step = (off + a) * slope
        u = u - step
        if float(np.abs(step).max()) <= _LAST:
            return u
    return None


def _sure(known: Floats, full: float, seen: Seen) -> Floats:
    """The same from where one cell has all rows, as convex functions are solved."""
    shift = float((known - np.where(seen, full, 0.0)).max()) - math.log(full)
    for _ in range(_SHIFTS):
        c = known - shift
        u = np.where((c > 1.0) & seen, np.log(np.maximum(c, 1.0)), c)
        for _ in range(_NEWTON):
            w = np.exp(u)
            u = np.where(seen, u - (w + u - c) / (w + 1.0), c)
        w = np.exp(u)
        over = float(w.sum()) - full
        if abs(over) <= _EVEN * full:
            break
        shift += over / float((w / np.where(seen, w + 1.0, 1.0)).sum())
    return u


def cells(table: NoisyTable) -> int:
    return table.values.size if table.seen is None else int(table.seen.sum())


def centred(table: Floats) -> Floats:
    """A table without its margins: the mean along each axis is taken off."""
    for axis in range(table.ndim):
        table = table - table.sum(axis=axis, keepdims=True) / table.shape[axis]
    return table
