"""Where noisy tables stand in one junction tree: atoms, cliques, and lattices of marginals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpsql.domain import Domain
from dpsql.mechanisms.synopses.factors import Factored
from dpsql.mechanisms.synopses.junction import Floats, Names, Tree, calibrated, tree
from dpsql.mechanisms.synopses.lattice import Lattice, lattice
from dpsql.mechanisms.synopses.noisy import NoisyTable
from dpsql.query.linear import numbered

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Layout:
    """Tables on the atoms that they tell apart, each within a clique of `tree`.

    `homes` has the clique of each table; `places` the class of each atom along each of its axes,
    None where the classes are the atoms.
    """

    domain: Domain
    atoms: Mapping[str, Ints]
    tree: Tree
    homes: Mapping[NoisyTable, int]
    places: Mapping[NoisyTable, tuple[Ints | None, ...]]
    most: int
    _lattices: dict[tuple[NoisyTable, ...], list[Lattice]] = field(default_factory=dict)

    @cached_property
    def uniform(self) -> list[Floats]:
        """The uniform distribution: the logarithm of a factor for each clique."""
        return Factored(self.domain, 0.0, self.atoms, self._empty, self.most).logs

    @property
    def _empty(self) -> dict[Names, Floats]:
        """Factors of 1 that give the same tree."""
        return {names: np.zeros(self.tree.shape(names)) for names in self._scopes}

    @property
    def _scopes(self) -> dict[Names, None]:
        return dict.fromkeys(table.names for table in self.homes)

    def added(self, base: list[Floats], potentials: Mapping[NoisyTable, Floats]) -> list[Floats]:
        """The product with exp of functions of some tables."""
        onto: list[dict[Names, Floats]] = [{} for _ in base]
        for table, theta in potentials.items():
            own, names = onto[self.homes[table]], table.names
            spread = self._spread(table, theta)
            own[names] = own[names] + spread if names in own else spread
        found = []
        steps = self._steps(tuple(potentials))
        for logs, functions, lower in zip(base, onto, steps, strict=True):
            found.append(logs + lower.up(functions) if functions else logs)
        return found

    def summed(
        self, logs: list[Floats], tables: Sequence[NoisyTable]
    ) -> tuple[list[Floats], float]:
        """The probabilities of some tables' cells, and the logarithm of the sum of the product."""
        beliefs, mass = calibrated(self.tree, logs)
        steps = self._steps(tuple(tables))
        down = [lower.down(belief) for lower, belief in zip(steps, beliefs, strict=True)]
        return [self._gathered(t, down[self.homes[t]][t.names]) for t in tables], mass

    def state(
        self,
        total: float,
        potentials: Mapping[NoisyTable, Floats],
        base: Factored | None = None,
    ) -> Factored:
        """The distribution with these potentials, each a factor; and those of `base`, whose atoms
        tables of this layout told apart."""
        factors = self._empty
        if base is not None:
            first = {n: np.unique(of, return_index=True)[1] for n, of in self.atoms.items()}
            for names, told in base.factors.items():
                spread = np.ix_(*(base.atoms[name][first[name]] for name in names))
                factors[names] = told[spread] + factors.get(names, 0.0)
        for table, theta in potentials.items():
            factors[table.names] = factors[table.names] + self._spread(table, theta)
        return Factored(self.domain, total, self.atoms, factors, self.most)

    def _steps(self, tables: tuple[NoisyTable, ...]) -> list[Lattice]:
        if tables not in self._lattices:
            sets: list[dict[Names, None]] = [{} for _ in self.tree.cliques]
            for table in tables:
                sets[self.homes[table]][table.names] = None
            listed = zip(self.tree.cliques, sets, strict=True)
            self._lattices[tables] = [lattice(self.tree, top, some) for top, some in listed]
        return self._lattices[tables]

    def _spread(self, table: NoisyTable, theta: Floats) -> Floats:
        """A function of a table's classes on atoms."""
        for axis, place in enumerate(self.places[table]):
            if place is not None:
                theta = np.take(theta, place, axis=axis)
        return theta

    def _gathered(self, table: NoisyTable, cells: Floats) -> Floats:
        """A table of atoms summed over the classes."""
        for axis, place in enumerate(self.places[table]):
            if place is not None:
                inside = np.zeros((int(place.max()) + 1, len(place)))
                inside[place, np.arange(len(place))] = 1.0
                cells = np.moveaxis(np.tensordot(inside, cells, axes=(1, axis)), 0, axis)
        return cells


def layout(domain: Domain, tables: Sequence[NoisyTable], most: int) -> Layout:
    """The layout of tables of one column or more, which are in the order of the domain.

    Raises Entangled where the tree has more than `most` cells.
    """
    atoms: dict[str, Ints] = {}
    for table in tables:
        if table.names != tuple(name for name in domain.names if name in table.names):
            raise ValueError("the columns of a table are in the order of the domain")
        for name, classes in zip(table.names, table.classes, strict=True):
            if classes.shape != (domain.size(name),):
                raise ValueError("a table has a class for each code of its columns")
            known = atoms.get(name)
            if known is None:
                atoms[name] = numbered(classes).of
            elif known is not classes:
                atoms[name] = numbered(known * (int(classes.max()) + 1) + classes).of
    order = {name: atoms[name] for name in domain.names if name in atoms}
    sizes = {name: int(of.max()) + 1 for name, of in order.items()}
    found = tree(sizes, dict.fromkeys(table.names for table in tables), most)
    homes, places = {}, {}
    for table in tables:
        home = found.home(table.names)
        assert home is not None  # every table has a clique
        homes[table] = home
        listed = zip(table.names, table.classes, strict=True)
        places[table] = tuple(_place(order[name], classes) for name, classes in listed)
    return Layout(domain, order, found, homes, places, most)


def _place(atoms: Ints, classes: Ints) -> Ints | None:
    """The class of each atom; None where both are numbered alike."""
    found = np.empty(int(atoms.max()) + 1, np.int64)
    found[atoms] = classes
    return None if np.array_equal(found, np.arange(len(found))) else found
