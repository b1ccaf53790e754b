"""A product of functions of few columns, summed without a table for each of its largest cliques.

A column that one clique alone has is summed out by a matrix product, where the functions that have
it fall into two sides which share no column but that one:

    m(a, b) = sum_e exp(u(a, e) + v(b, e)) is the matrix exp(u) exp(v)'.

What is left is a clique without that column, whose marginal p(a, b) gives those of both sides:
p(a, e) = exp(u(a, e)) sum_b exp(v(b, e)) p(a, b) / m(a, b), a matrix product again. So where tables
are of two columns, no exponentials are taken of all cells of a clique of five, but of three columns
at a time, and of four.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpsql.mechanisms.synopses.calibration import swept
from dpsql.mechanisms.synopses.factors import product
from dpsql.mechanisms.synopses.junction import Floats, Names, Tree
from dpsql.mechanisms.synopses.lattice import Lattice, lattice
from dpsql.mechanisms.synopses.layout import Layout
from dpsql.mechanisms.synopses.noisy import NoisyTable

LARGE = 1 << 12  # cells of a clique that is folded: smaller ones are summed as soon
_FAINT = 1e-250  # less than that, and parts of a sum may be lost


class Folded:
    """The product of functions of some tables with `base`, functions of columns; each is within a
    clique of `place`."""

    def __init__(
        self, place: Layout, tables: Sequence[NoisyTable], base: Mapping[Names, Floats]
    ) -> None:
        self.place, self.tables, self.base = place, tables, base
        whole = place.tree
        self._homes = {}
        scopes: list[dict[Names, None]] = [{} for _ in whole.cliques]
        for names in [*base, *(table.names for table in tables)]:
            at = whole.home(names)
            assert at is not None  # that of a table of `place`
            self._homes[names] = at
            scopes[at][names] = None
        self._folds = [fold(whole, at, tuple(some)) for at, some in enumerate(scopes)]
        cliques = tuple(
            names if found is None else found.left
            for names, found in zip(whole.cliques, self._folds, strict=True)
        )
        self.tree = Tree(whole.sizes, cliques, whole.parents)
        self._rest = [
            lattice(top, self.tree.shape(top), tuple(n for n in some if set(n) <= set(top)))
            for top, some in zip(cliques, scopes, strict=True)
        ]

    @property
    def cells(self) -> int:
        """How many exponentials a sum takes."""
        sides = [side for found in self._folds if found for side in found.sides]
        return sum(self.tree.cells) + sum(math.prod(side.shape) for side in sides)

    def summed(self, potentials: Mapping[NoisyTable, Floats]) -> tuple[list[Floats], float]:
        """The probabilities of the tables' cells, and the logarithm of the sum of the product."""
        own = self._functions(potentials)
        products = [
            found.product(told) if found else None
            for found, told in zip(self._folds, own, strict=True)
        ]
        logs = [self._logs(at, own[at], product) for at, product in enumerate(products)]
        beliefs, mass = swept(self.tree, logs)
        down = []
        for at, belief in enumerate(beliefs):
            down.append(self._rest[at].down(belief))
            found, product = self._folds[at], products[at]
            if found and product:
                down[-1].update(found.down(product, belief))
        chances = [self.place.gathered(t, down[self._homes[t.names]][t.names]) for t in self.tables]
        return chances, mass

    def chances(self, potentials: Mapping[NoisyTable, Floats]) -> dict[NoisyTable, Floats]:
        """The probabilities of the cells of each table."""
        return dict(zip(self.tables, self.summed(potentials)[0], strict=True))

    def _functions(self, potentials: Mapping[NoisyTable, Floats]) -> list[dict[Names, Floats]]:
        """The functions of each clique, those of the same columns added."""
        found: list[dict[Names, Floats]] = [{} for _ in self._folds]
        for names, table in self.base.items():
            found[self._homes[names]][names] = table
        for told, theta in potentials.items():
            own, spread = found[self._homes[told.names]], self.place.spread(told, theta)
            own[told.names] = own[told.names] + spread if told.names in own else spread
        return found

    def _logs(self, at: int, own: Mapping[Names, Floats], product: Product | None) -> Floats:
        """The logarithm of the product in what is left of a clique."""
        found, top = self._folds[at], self.tree.cliques[at]
        kept = {n: table for n, table in own.items() if not found or found.column not in n}
        logs = np.zeros(self.tree.shape(top))
        self._rest[at].up(kept, logs)
        if found and product:
            logs += found.logs(product)
        return logs


def functions(place: Layout, potentials: Mapping[NoisyTable, Floats]) -> dict[Names, Floats]:
    """The uniform distribution with some potentials, as functions of columns."""
    counts = {name: np.bincount(of) for name, of in place.atoms.items()}
    found: dict[Names, Floats] = {}
    for table, theta in potentials.items():
        found[table.names] = found.get(table.names, 0.0) + place.spread(table, theta)
    return product(place.domain, counts, found)


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """Functions `own` of some columns of a clique and of the one that is folded, at `axis`."""

    own: tuple[Names, ...]
    steps: Lattice
    shape: tuple[int, ...]
    axis: int

    def up(self, given: Mapping[Names, Floats]) -> Floats:
        """Their sum, with the column that is folded along the last of two axes."""
        own = {names: given[names] for names in self.own if names in given}
        table = np.zeros(self.shape)
        self.steps.up(own, table)
        found: Floats = np.moveaxis(table, self.axis, -1).reshape(-1, self.shape[self.axis])
        return found

    def down(self, table: Floats) -> dict[Names, Floats]:
        """The marginals of such a table."""
        shape = (*self.shape[: self.axis], *self.shape[self.axis + 1 :], -1)
        found = self.steps.down(np.moveaxis(table.reshape(shape), -1, self.axis))
        return {names: found[names] for names in self.own}


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """A clique without a `column`: `left`, of which `order` has those of the first side first, then
    of this `shape`."""

    column: str
    left: Names
    sides: tuple[Side, Side]
    order: tuple[int, ...]
    shape: tuple[int, ...]

    def product(self, given: Mapping[Names, Floats]) -> Product:
        return Product(*(side.up(given) for side in self.sides))

    def logs(self, product: Product) -> Floats:
        """The sum over the column, in the order of the clique."""
        found: Floats = product.logs.reshape(self.shape).transpose(np.argsort(self.order))
        return found

    def down(self, product: Product, belief: Floats) -> dict[Names, Floats]:
        """The marginals that have the column."""
        chances = belief.transpose(self.order).reshape(product.logs.shape)
        found: dict[Names, Floats] = {}
        for side, table in zip(self.sides, product.beliefs(chances), strict=True):
            found.update(side.down(table))
        return found


def fold(tree: Tree, at: int, scopes: Sequence[Names]) -> Fold | None:
    """How a clique is folded for functions of these columns of it, so that the fewest cells are
    left; None where that saves nothing."""
    names, best, least = tree.cliques[at], None, tree.cells[at]
    if least < LARGE:
        return None
    others = {n for other, some in enumerate(tree.cliques) if other != at for n in some}
    for column in names:
        if column in others:
            continue
        left = tuple(name for name in names if name != column)
        sides = _sides(tree, column, left, scopes)
        cells = sum(math.prod(side.shape) for side in sides) + math.prod(tree.shape(left))
        if cells < least and sides[1].shape != (tree.sizes[column],):
            least = cells
            place = [left.index(n) for side in sides for n in side.steps.top if n != column]
            shape = tuple(tree.sizes[left[axis]] for axis in place)
            best = Fold(column, left, sides, tuple(place), shape)
    return best


def _sides(tree: Tree, column: str, left: Names, scopes: Sequence[Names]) -> tuple[Side, Side]:
    """Two sides of about as many cells: columns that share a function with `column` stay together,
    the largest of them first."""
    touched = [scope for scope in scopes if column in scope]
    groups: list[set[str]] = []
    for some in [{name} for name in left] + [set(scope) - {column} for scope in touched]:
        met = [group for group in groups if group & some]
        groups = [group for group in groups if not group & some] + [some.union(*met)]
    one, two = set[str](), set[str]()
    for group in sorted(groups, key=lambda group: -_cells(tree, group)):
        (one if _cells(tree, one) <= _cells(tree, two) else two).update(group)
    inside = {scope: set(scope) - {column} <= one for scope in touched}
    return (
        _side(tree, column, left, one, [scope for scope in touched if inside[scope]]),
        _side(tree, column, left, two, [scope for scope in touched if not inside[scope]]),
    )


def _side(tree: Tree, column: str, left: Names, kept: set[str], own: Sequence[Names]) -> Side:
    top = tuple(name for name in tree.sizes if name == column or name in kept)
    shape = tree.shape(top)
    return Side(tuple(own), lattice(top, shape, tuple(own)), shape, top.index(column))


def _cells(tree: Tree, names: Iterable[str]) -> int:
    return math.prod(tree.sizes[name] for name in names)


class Product:
    """The sum over a column of exp of the functions of both sides, as a logarithm, and what it
    tells of each side."""

    def __init__(self, left: Floats, right: Floats) -> None:
        tops = left.max(axis=1, keepdims=True), right.max(axis=1, keepdims=True)
        self._sides = np.exp(left - tops[0]), np.exp(right - tops[1])
        self._mass = self._sides[0] @ self._sides[1].T
        self._parts: Floats | None = None
        if self._mass.min() > _FAINT:
            self.logs = np.log(self._mass)
            self.logs += tops[0]
            self.logs += tops[1].T
            return
        table = left[:, np.newaxis] + right
        top = table.max(axis=2, keepdims=True)
        self._parts = np.exp(np.subtract(table, top, out=table), out=table)
        mass = table.sum(axis=2, keepdims=True)
        self._parts /= mass
        self.logs = (np.log(mass) + top)[..., 0]

    def beliefs(self, chances: Floats) -> tuple[Floats, Floats]:
        """The probabilities of both sides, by those of what is left."""
        if self._parts is not None:
            table = self._parts * chances[..., np.newaxis]
            return table.sum(axis=1), table.sum(axis=0)
        (left, right), share = self._sides, chances / self._mass
        return left * (share @ right), right * (share.T @ left)
