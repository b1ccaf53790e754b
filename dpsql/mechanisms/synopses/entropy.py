"""The distribution of most entropy that noisy tables allow, fitted order by order.

Of tables y_i = m_i(p) + noise of variance v_i, over all distributions p of n rows, minimise

    sum_i |y_i - n m_i(p)|^2 / (2 v_i) + tau n KL(p | base).

The minimum has p = base x exp(sum_i theta_i) / Z, a product of factors over the measured columns,
and theta maximises a concave dual (Dudik, Phillips, Schapire 2007, relaxed by l2). At any theta the
distance of both values, the duality gap, is sum_i v_i g_i^2 / 2 with the gradient
g_i = (y_i - n m_i(p)) / v_i - tau theta_i; the sum of squares is 1-strongly convex in standard
errors, so the fitted cells are within sqrt(2 gap / cells) of the best, root mean square.

`base` is the uniform distribution for tables of one column, then the fit to these for tables of two
columns, and so on: what few columns tell is the best guess of what more tell. The weight tau of the
guess is estimated for each order: with counts that are spread about the guess m by m / tau, the
misfits' squares, each divided by v + m / tau, add up to their number (Paule and Mandel 1982).

theta is found by a quasi-Newton descent on residual tables, into which whole ones are taken apart.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpsql.domain import Domain
from dpsql.mechanisms.synopses.ascent import GAP, cells, centred, potential
from dpsql.mechanisms.synopses.descent import Point, least
from dpsql.mechanisms.synopses.factors import Factored
from dpsql.mechanisms.synopses.folded import Folded, functions
from dpsql.mechanisms.synopses.junction import CELLS, Floats, Names
from dpsql.mechanisms.synopses.layout import Layout, layout
from dpsql.mechanisms.synopses.margins import Margins
from dpsql.mechanisms.synopses.noisy import NoisyTable
from dpsql.mechanisms.synopses.parts import Parts
from dpsql.mechanisms.threads import one_thread

STEPS, _MANY, _WORK = 300, 3000, 1 << 27  # more where a sum takes few exponentials
_LEAST, _MOST = 1e-9, 1.0  # tau; at 1 counts are spread about the guess as Poisson's are
_LOOSE = 2.0  # times tau: errors hardly differ from 1 to 3, and it is found sooner
_BISECTIONS = 25


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """What tables of up to so many columns add to the fit of fewer: theta of each."""

    columns: int
    tau: float
    potentials: Mapping[NoisyTable, Floats]
    gap: float
    steps: int


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A distribution fitted to tables, and how each order was found."""

    state: Factored
    tables: tuple[NoisyTable, ...]
    orders: tuple[Order, ...]

    @property
    def away(self) -> float:
        """What cells of the tables are away from the best fit, in standard errors, at most, root
        mean square."""
        many = sum(cells(table) for table in self.tables if table.names)
        return math.sqrt(2 * self.orders[-1].gap / many) if self.orders else 0.0

    @property
    def ended(self) -> bool:
        """Whether the last order came as near to the best fit as it was to come, or nearly so."""
        return self.away <= 2 * math.sqrt(2 * GAP)


def fitted(
    domain: Domain,
    total: float,
    tables: Sequence[NoisyTable],
    *,
    before: Fit | None = None,
    steps: int | None = None,
    most: int = CELLS,
) -> Fit:
    """The fit of `total` rows to tables; tables without columns have no say.

    An order takes up to so many `steps`, by the size of the junction tree unless they are given.
    `before` is a fit to the first of these tables, from which this one starts; orders below those
    of the new tables stay. Raises Entangled where the junction tree has more than `most` cells.
    """
    known, fresh = _known(before, tables)
    listed = [table for table in tables if table.names]
    orders = sorted({len(table.names) for table in listed})
    orders = [*range(1, orders[0]), *orders] if orders else []
    given: dict[int, list[NoisyTable]] = {}
    for columns in orders:
        if columns < fresh and columns in known:
            given[columns] = list(known[columns].potentials)
        else:
            own = [table for table in listed if len(table.names) <= columns]
            given[columns] = own + guides(listed, columns)
    every = list(dict.fromkeys(t for own in given.values() for t in own))
    place = layout(domain, every, most)
    found: list[Order] = []
    potentials: dict[NoisyTable, Floats] = {}
    met: dict[NoisyTable, None] = {}
    with one_thread():
        for columns, own in given.items():
            met.update(dict.fromkeys(own))
            old = known.get(columns)
            if old is None or columns >= fresh:
                # tables of few columns are told by smaller cliques than those of many
                small = place if len(met) == len(every) else layout(domain, list(met), most)
                old = _order(small, total, columns, own, potentials, old, steps)
            found.append(old)
            for table, theta in old.potentials.items():
                potentials[table] = potentials[table] + theta if table in potentials else theta
    return Fit(place.state(total, potentials), tuple(tables), tuple(found))


def _steps(cells: int) -> int:
    return min(max(STEPS, _WORK // cells), _MANY)


def _known(before: Fit | None, tables: Sequence[NoisyTable]) -> tuple[dict[int, Order], int]:
    """The orders of an earlier fit, and the first that new tables change."""
    if before is None:
        return {}, 0
    given = len(before.tables)
    if len(tables) < given or any(a is not b for a, b in zip(before.tables, tables, strict=False)):
        raise ValueError("a fit goes on from a fit to the first of its tables")
    fresh = min((len(t.names) for t in tables[given:] if t.names), default=1 << 30)
    return {order.columns: order for order in before.orders}, fresh


def guides(tables: Sequence[NoisyTable], columns: int) -> list[NoisyTable]:
    """The margins, over so many columns or fewer, of tables of more columns that were measured
    whole: what these tell of the guess that they are then fitted beside.

    Margins that several tables tell are averaged by precision.
    """
    found: dict[Names, NoisyTable] = {}
    for table in tables:
        if len(table.names) <= columns or table.centred or table.seen is not None:
            continue
        for size in range(1, columns + 1):
            for kept in itertools.combinations(range(len(table.names)), size):
                one = _margin(table, kept)
                other = found.get(one.names)
                if other is None:
                    found[one.names] = one
                elif all(map(np.array_equal, one.classes, other.classes)):
                    part = other.variance / (one.variance + other.variance)
                    values = part * one.values + (1 - part) * other.values
                    found[one.names] = replace(other, values=values, variance=part * one.variance)
    return list(found.values())


def _margin(table: NoisyTable, kept: tuple[int, ...]) -> NoisyTable:
    gone = tuple(axis for axis in range(len(table.names)) if axis not in kept)
    many = math.prod(table.values.shape[axis] for axis in gone)
    names = tuple(table.names[axis] for axis in kept)
    classes = tuple(table.classes[axis] for axis in kept)
    return NoisyTable(names, classes, table.values.sum(axis=gone), table.variance * many)


def _order(
    place: Layout,
    total: float,
    columns: int,
    tables: Sequence[NoisyTable],
    before: Mapping[NoisyTable, Floats],
    old: Order | None,
    steps: int | None,
) -> Order:
    """The fit to tables of up to so many columns, relative to that of fewer, by its potentials."""
    if not total > 0:
        return Order(columns, _MOST, {}, 0.0, 0)
    own = [table for table in tables if len(table.names) == columns]
    base, parts = functions(place, before), Parts(tables)
    # margins of tables that came since took the place of those that guided before
    kept = {t: old.potentials[t] for t in tables if t in old.potentials} if old else {}
    guesses = Folded(place, tables, base).chances(kept)
    tau = old.tau if old else weight(total, own, [guesses[table] for table in own])
    place = layout(place.domain, [*dict.fromkeys([*place.homes, *parts.tables])], place.most)
    folded = Folded(place, parts.tables, base)
    dual = _Dual(folded, total, parts.tables, tau)
    start = dual.joined({})
    if old is None and columns == 1:  # columns are independent: of a table each that is the fit
        best = {table.names: table for table in sorted(parts.tables, key=lambda t: -t.variance)}
        start = dual.joined(_alone(total, [*best.values()], folded.chances({}), tau))
    elif old is not None:
        fresh = [table for table in tables if table not in old.potentials]
        start = dual.joined(parts.apart({**kept, **_alone(total, fresh, guesses, tau)}))
    gap = GAP * sum(map(cells, tables)) / tau
    most = _steps(folded.cells) if steps is None else steps
    point, taken = least(dual, start, first=1 / len(parts.tables), gap=gap, steps=most)
    found = parts.together(dual.split(point.x), total, tau)
    return Order(columns, tau, found, tau * point.gap, taken)


def _alone(
    total: float, tables: Sequence[NoisyTable], guesses: Mapping[NoisyTable, Floats], tau: float
) -> dict[NoisyTable, Floats]:
    """theta of each table if it were the only one beside a guess of the chances of its cells."""
    found = {}
    for table in tables:
        guess = guesses[table]
        found[table] = potential(total, table, guess, tau, guess, np.zeros(guess.shape))
    return found


def weight(total: float, tables: Sequence[NoisyTable], guesses: Sequence[Floats]) -> float:
    """tau of an order, by the misfits of its tables beside what is guessed: their chances."""
    squares, noise, means = [], [], []
    for table, chances in zip(tables, guesses, strict=True):
        if not table.spread:  # of a column of one value, which says nothing
            continue
        guess, part = total * chances, table.spread / table.variance
        seen = ... if table.seen is None else table.seen
        misfit = centred(guess) - table.values if table.centred else guess - table.values
        squares.append((misfit**2)[seen].reshape(-1))
        means.append((part * guess)[seen].reshape(-1))
        noise.append(np.full(means[-1].size, table.spread))
    if not squares:
        return _MOST
    square, mean, own = (np.concatenate(some) for some in (squares, means, noise))
    low, high = min(max(_LEAST, 1 / total), _MOST), _MOST
    for _ in range(_BISECTIONS):
        middle = math.sqrt(low * high)
        if float((square / (own + mean / middle)).sum()) > len(square):
            high = middle
        else:
            low = middle
    return min(_LOOSE * low, _MOST)


class _Dual:
    """The dual divided by tau, as a function to be minimised: its value and gradient at theta.

    n log sum base exp(theta) - theta y + tau theta^2 v / 2, with gradient n m - y + tau v theta.
    """

    def __init__(
        self, base: Folded, total: float, tables: Sequence[NoisyTable], tau: float
    ) -> None:
        self.base, self.total, self.tables, self.tau = base, total, tables, tau
        self.variances = np.concatenate([np.full(t.values.size, t.variance) for t in tables])
        self.seen = np.concatenate(
            [np.ones(t.values.size) if t.seen is None else t.seen.reshape(-1) for t in tables]
        )
        self.margins = Margins(tables)
        self.given = self.joined({table: table.values for table in tables})

    def joined(self, values: Mapping[NoisyTable, Floats]) -> Floats:
        """Values of the tables as one vector; nothing for those that are not there."""
        found = [
            values[table].reshape(-1) if table in values else np.zeros(table.values.size)
            for table in self.tables
        ]
        return np.concatenate(found)

    def split(self, vector: Floats) -> dict[NoisyTable, Floats]:
        found, start = {}, 0
        for table in self.tables:
            stop = start + table.values.size
            found[table] = vector[start:stop].reshape(table.values.shape)
            start = stop
        return found

    def measured(self, vector: Floats) -> Floats:
        """What was measured of a vector: its seen cells, its centred tables."""
        found: Floats = vector * self.seen
        for table, values in self.split(found).items():  # parts of `found`
            if table.centred:
                values[...] = centred(values)
        return found

    def __call__(self, theta: Floats) -> Point:
        chances, mass = self.base.summed(self.split(theta))
        rows = self.total * np.concatenate([table.reshape(-1) for table in chances])
        pulled = self.tau * self.variances * theta
        gradient = self.measured(rows) - self.given + pulled
        value = self.total * mass - float(theta @ self.given) + float(theta @ pulled) / 2
        # the gap of the primal and the dual is sum v g^2 / 2; here both are divided by tau
        gap = float((gradient**2 / self.variances).sum()) / 2 / self.tau
        lacking = -gradient
        self.margins.adjoint([*self.split(lacking).values()])
        diagonal = self.seen / (rows + np.maximum(lacking, 0) + self.tau * self.variances)
        return Point(theta, value, gradient, lambda v: self.scaled(diagonal, v), gap)

    def scaled(self, diagonal: Floats, gradient: Floats) -> Floats:
        """The gradient by functions that may have margins, each value by its own scale.

        Were margins dropped instead, cells with few rows, whose potentials are free, would move all
        others of their table.
        """
        found = gradient.copy()
        self.margins.adjoint([*self.split(found).values()])  # parts of `found`
        found *= diagonal
        self.margins.handed([*self.split(found).values()])
        return found
