"""Where noisy tables stand in one junction tree: atoms, cliques, and lattices of marginals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpsql.domain import Domain
from dpsql.mechanisms.synopses.factors import Factored
from dpsql.mechanisms.synopses.junction import Floats, Names, Tree, tree
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

    def factors(self, base: Factored) -> dict[Names, Floats]:
        """The factors of a distribution whose atoms tables of this layout told apart."""
        first = {}
        for name, of in self.atoms.items():
            first[name] = np.empty(self.tree.sizes[name], np.int64)
            first[name][of[::-1]] = np.arange(len(of))[::-1]
        return {
            names: told[np.ix_(*(base.atoms[name][first[name]] for name in names))]
            for names, told in base.factors.items()
        }

    def state(
        self,
        total: float,
        potentials: Mapping[NoisyTable, Floats],
        base: Factored | None = None,
    ) -> Factored:
        """The distribution with these potentials, each a factor; and those of `base`, whose atoms
        tables of this layout told apart."""
        factors = {} if base is None else self.factors(base)
        for table in self.homes:
            if table in potentials:
                own = self.spread(table, potentials[table])
                factors[table.names] = factors.get(table.names, 0.0) + own
            elif table.names not in factors:
                factors[table.names] = np.zeros(self.tree.shape(table.names))
        return Factored(self.domain, total, self.atoms, factors, self.most)

    def holds(self, state: Factored) -> bool:
        """Whether a distribution is on these atoms and this tree."""
        tree, atoms = state.tree, state.atoms
        if (tree.cliques, tree.parents) != (self.tree.cliques, self.tree.parents):
            return False
        return all(np.array_equal(atoms[name], of) for name, of in self.atoms.items())

    def lattices(self, tables: tuple[NoisyTable, ...]) -> list[Lattice]:
        """How marginals of each clique are summed that have these tables."""
        if tables not in self._lattices:
            sets: list[dict[Names, None]] = [{} for _ in self.tree.cliques]
            for table in tables:
                sets[self.homes[table]][table.names] = None
            listed = zip(self.tree.cliques, sets, strict=True)
            self._lattices[tables] = [
                lattice(top, self.tree.shape(top), tuple(some)) for top, some in listed
            ]
        return self._lattices[tables]

    def spread(self, table: NoisyTable, theta: Floats) -> Floats:
        """A function of a table's classes on atoms."""
        for axis, place in enumerate(self.places[table]):
            if place is not None:
                theta = np.take(theta, place, axis=axis)
        return theta

    def gathered(self, table: NoisyTable, cells: Floats) -> Floats:
        """A table of atoms summed over the classes."""
        for axis, place in enumerate(self.places[table]):
            if place is not None:
                inside = np.zeros((int(place.max()) + 1, len(place)))
                inside[place, np.arange(len(place))] = 1.0
                cells = np.moveaxis(np.tensordot(inside, cells, axes=(1, axis)), 0, axis)
        return cells


def layout(
    domain: Domain, tables: Sequence[NoisyTable], most: int, before: Layout | None = None
) -> Layout:
    """The layout of tables of one column or more, which are in the order of the domain.

    `before` is that of the first of them, from which this one goes on. Raises Entangled where the
    tree has more than `most` cells.
    """
    if before is None:
        before = Layout(domain, {}, Tree({}, (), ()), {}, {}, most)
    atoms, sizes = dict(before.atoms), dict(before.tree.sizes)
    for table in tables[len(before.homes) :]:
        if table.names != tuple(name for name in domain.names if name in table.names):
            raise ValueError("the columns of a table are in the order of the domain")
        for name, classes in zip(table.names, table.classes, strict=True):
            if classes.shape != (domain.size(name),):
                raise ValueError("a table has a class for each code of its columns")
            of = atoms.get(name)
            if of is classes or sizes.get(name) == len(classes):
                continue  # no more codes are told apart
            joint = classes if of is None else of * (int(classes.max()) + 1) + classes
            finer = numbered(joint)
            if finer.number > sizes.get(name, 0):
                atoms[name], sizes[name] = finer.of, finer.number
    order = {name: atoms[name] for name in domain.names if name in atoms}
    scopes = dict.fromkeys(table.names for table in tables)
    found = tree({name: sizes[name] for name in order}, scopes, most)
    homes, places = {}, {}
    for table in tables:
        home = found.home(table.names)
        assert home is not None  # every table has a clique
        homes[table] = home
        if all(order[name] is before.atoms.get(name) for name in table.names):
            known = before.places.get(table)
        else:
            known = None  # finer atoms
        listed = zip(table.names, table.classes, strict=True)
        places[table] = known or tuple(_place(order[name], classes) for name, classes in listed)
    return Layout(domain, order, found, homes, places, most)


def _place(atoms: Ints, classes: Ints) -> Ints | None:
    """The class of each atom; None where both are numbered alike."""
    found = np.empty(int(atoms.max()) + 1, np.int64)
    found[atoms] = classes
    return None if np.array_equal(found, np.arange(len(found))) else found
