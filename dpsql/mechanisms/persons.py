"""What a residual strategy costs a person, in zCDP, from the whole numbers that are measured.

A person in cell x who comes or goes costs, with N_A(x) = prod over i in A of |Q_i e_x_i|^2,

    L(x) = sum over A of N_A(x) / (2 variance_A),

and one who moves from x to y the same with |Q_A (e_x - e_y)|^2 = N_A(x) + N_A(y) - 2 I_A(x, y),
I_A the product of <Q_i e_x_i, Q_i e_y_i>; under replace-one a person may also come from outside the
domain. Parts have independent noise, so costs add. Losses are tables over the columns of each part,
in whole 1e-12, rounded up for each part; an axis has one class of values (or of pairs) for all that
no strategy tells apart. Their largest sum is found by elimination, or bounded by the sum of maxima.

**Pairs that are too many.** With the largest norms M_i, and t_i = <Q_i e_x, Q_i e_y> / M_i of the
finest strategy of each axis, those of its other strategies are within d_i of t_i, and sizes of all
are at most 1, so that a move costs at most

    sum over A of 2 rho_A (1 - prod t_i + sum d_i),    rho_A = prod M_i / (2 variance_A).

That is linear in each t_i: over the box from the least t_i to 1 it is largest at a corner, and each
axis has two classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.elimination import greatest
from dpsql.accounting.events import PICO
from dpsql.mechanisms.axes import Floats, Ints
from dpsql.mechanisms.bases import Basis, Centred
from dpsql.mechanisms.parts import Part, Strategy
from dpsql.mechanisms.residual import Columns

_PARTS = 1 << 12  # which are looked at together
_CELLS = 1 << 20  # of a part's table
_TOUCHED = 1 << 26  # entries of tables while the largest sum is looked for
_ROUNDING = 1e-9  # more than what doubles lose
_PAIRS = 1 << 10  # values of an axis whose pairs are looked at


@dataclass(frozen=True, slots=True)
class Most:
    """The most that a person costs, in 1e-12 of rho; `exact` up to 1e-12 for each part, or a bound
    from above."""

    rho: int
    exact: bool


@dataclass(frozen=True, slots=True, eq=False)
class Cost:
    """What one part costs a person who comes or goes: factor x the product of `norms`.

    `norms` has for each of the columns the squared norms of its strategy's columns, (size,).
    """

    columns: Columns
    norms: tuple[Ints, ...]
    factor: Fraction

    @property
    def even(self) -> bool:
        """Whether it is the same wherever the person is."""
        return all(bool((norm == norm[0]).all()) for norm in self.norms)

    def at(self, cell: Sequence[int]) -> Fraction:
        """The cost in a cell: codes of the columns, in their order."""
        product = math.prod([int(n[code]) for n, code in zip(self.norms, cell, strict=True)])
        return self.factor * product


def costs(strategy: Strategy) -> list[Cost]:
    """The cost of each part; L(x) is their sum."""
    return [
        Cost(p.columns, tuple([b.norms for b in p.bases]), 1 / (2 * p.variance))
        for p in strategy.parts
    ]


def add_remove(strategy: Strategy) -> Most:
    """The most that one row which comes or goes costs: max L(x)."""
    bound = math.ceil(strategy.rho * PICO)
    classes = _classes(strategy, pairs=False) or {}
    if all(len(told) == 1 for told in classes.values()):
        return Most(bound, True)
    found = _largest(strategy, classes)
    return Most(bound, False) if found is None else Most(found, True)


def replace_one(strategy: Strategy) -> Most:
    """The most that one row which becomes another costs, or one that comes from no cell."""
    alone = add_remove(strategy)
    classes = _classes(strategy, pairs=True)
    found = None if classes is None else _largest(strategy, classes)
    if found is None:
        bound = sum(_pico(farthest(p), p) for p in strategy.parts)
        return Most(max(min(bound, _angled(strategy) or bound), alone.rho), False)
    return Most(max(found, alone.rho), alone.exact or found >= alone.rho)


def farthest(part: Part) -> int:
    """A bound on |Q_A (e_x - e_y)|^2 over pairs of cells, in whole numbers.

    Twice the largest norm, less twice the least product of inner products; exact for strategies
    whose columns have all one norm and one product with others.
    """
    if not part.columns:
        return 0
    low, high = 1, 1
    for used in part.bases:
        least, most = _products(used)
        ends = [low * least, low * most, high * least, high * most]
        low, high = min(ends), max(ends)
    return 2 * part.squared - 2 * low


def _products(used: Basis) -> tuple[int, int]:
    """The least and the largest inner product of two columns."""
    if isinstance(used, Centred) or used.even is not None:
        return (used.even if used.even is not None else 0), used.norm
    if used.size > _PAIRS:
        return -used.norm, used.norm  # Cauchy, Schwarz
    products = used.matrix.T @ used.matrix
    return int(products.min()), int(products.max())


def _pico(squared: int, part: Part) -> int:
    below = 2 * part.variance.numerator
    return -(-PICO * squared * part.variance.denominator // below)


def _angled(strategy: Strategy) -> int | None:
    """The bound by corners, in 1e-12; None where the axes are too many or too long."""
    made = _strategies(strategy)
    least: dict[int, float] = {}
    apart: dict[Basis, float] = {}
    for i, some in made.items():
        if strategy.axes[i].size > _PAIRS and any(used.even is None for used in some):
            return None
        finest = _cosines(max(some, key=lambda used: used.largest))
        least[i] = float(finest.min())
        for used in some:
            apart[used] = float(np.abs(_cosines(used) - finest).max()) + _ROUNDING
    order = sorted(made)
    if len(strategy.parts) > _PARTS:
        return None
    tables = []
    for part in strategy.parts:
        product = np.ones(())
        for i in part.columns:
            product = product[..., None] * np.array([1.0, least[i]])
        moved = 1.0 - product + sum([apart[used] for used in part.bases])
        each = np.ceil(moved * (2 * float(part.rho) * PICO * (1 + _ROUNDING)))
        if part.columns:
            tables.append((sum(1 << order.index(i) for i in part.columns), each.astype(np.int64)))
    found = greatest(tables, [2] * len(order), -1, _TOUCHED)
    return None if found is None else found.high


def _cosines(used: Basis) -> Floats:
    """<Q e_x, Q e_y> / the largest squared norm: (size, size), or for even strategies (2,)."""
    if used.even is not None:
        return np.array([1.0, used.even / used.norm])
    if isinstance(used, Centred):
        raise AssertionError("a centred strategy is even")
    cosines: Floats = (used.matrix.T @ used.matrix) / used.norm
    return cosines


def _strategies(strategy: Strategy) -> dict[int, dict[Basis, None]]:
    """The strategies of each axis that is measured."""
    made: dict[int, dict[Basis, None]] = {}
    for part in strategy.parts:
        for i, used in zip(part.columns, part.bases, strict=True):
            made.setdefault(i, {})[used] = None
    return made


# -- classes of values and pairs -------------------------------------------------------------------


def _classes(strategy: Strategy, *, pairs: bool) -> dict[int, Ints] | None:
    """A value, or a pair, of each class of each axis that is measured; None for too many."""
    found: dict[int, Ints] = {}
    for i, some in _strategies(strategy).items():
        size = strategy.axes[i].size
        if all(used.even is not None for used in some):
            found[i] = np.array([[0, 0], [0, 1]]) if pairs else np.zeros(1, np.int64)
        elif not pairs:
            told = np.stack([used.norms for used in some])
            found[i] = np.unique(told, axis=1, return_index=True)[1].astype(np.int64)
        elif size > _PAIRS:
            return None
        else:
            first, second = (at.reshape(-1) for at in np.indices((size, size)))
            told = np.concatenate([_pair(used, first, second) for used in some])
            at = np.unique(told, axis=1, return_index=True)[1]
            found[i] = np.stack([first[at], second[at]], axis=1)
    return found


def _pair(used: Basis, first: Ints, second: Ints) -> Ints:
    """(3, pairs): the squared norms of two columns, and their inner product."""
    norms = used.norms
    if used.even is not None:
        inner = np.where(first == second, used.norm, used.even)
    elif isinstance(used, Centred):
        raise AssertionError("a centred strategy is even")
    else:
        inner = (used.matrix.T @ used.matrix)[first, second]
    return np.stack([norms[first], norms[second], inner])


def _largest(strategy: Strategy, classes: dict[int, Ints]) -> int | None:
    """The largest sum of all parts' costs over the classes; None where that is too much."""
    cells = [math.prod([len(classes[i]) for i in part.columns]) for part in strategy.parts]
    if len(cells) > _PARTS or sum(cells) > _CELLS:
        return None
    order = [i for i in sorted(classes) if len(classes[i]) > 1]
    sizes = [len(classes[i]) for i in order]
    pairs = any(told.ndim == 2 for told in classes.values())
    constant, tables = 0, []
    for part in strategy.parts:
        each = _table(part, classes, pairs)
        kept = [order.index(i) for i in part.columns if i in order]
        if kept:
            inside = each.reshape([sizes[at] for at in kept])
            tables.append((sum(1 << at for at in kept), inside))
        else:
            constant += int(each.sum())
    found = greatest(tables, sizes, -1, _TOUCHED)
    return None if found is None else constant + found.high


def _table(part: Part, classes: dict[int, Ints], pairs: bool) -> Ints:
    """What a part costs each combination of classes of its columns, in 1e-12, rounded up."""
    told = [classes[i] for i in part.columns]
    if pairs:
        first, second, inner = (
            _product([_pair(b, *at.T)[row] for b, at in zip(part.bases, told, strict=True)])
            for row in range(3)
        )
        squared = np.asarray(first + second - 2 * inner, object)
    else:
        squared = _product([b.norms[at] for b, at in zip(part.bases, told, strict=True)])
    found = [_pico(int(value), part) for value in squared.reshape(-1).tolist()]
    return np.array(found, np.int64).reshape([len(at) for at in told])


def _product(sides: Sequence[Ints]) -> NDArray[np.object_]:
    """The products of Python integers of one side each, an axis a side."""
    found = np.ones((), object)
    for side in sides:
        found = np.asarray(found[..., None] * side.astype(object), object)
    return found
