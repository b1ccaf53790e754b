"""A distribution over a product domain as a product of small factors; the domain is never formed.

p(x) is the product over factors of exp F(x), normalised. Each factor is a table over the *atoms* of
a few columns: classes of codes that no factor has told apart. Within an atom, and along columns
that no factor touches, p is uniform. It costs what its junction tree costs, on 10^79 cells as on
10^6; where that is too much, `Entangled` is raised and the state stays as it was.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpsql.domain import Domain
from dpsql.mechanisms.synopses.calibration import Calibration
from dpsql.mechanisms.synopses.contraction import Tensor, contracted
from dpsql.mechanisms.synopses.elimination import eliminated
from dpsql.mechanisms.synopses.junction import CELLS, Entangled, Floats, Names, Tree
from dpsql.mechanisms.synopses.junction import tree as junction
from dpsql.query.linear import numbered

Ints = NDArray[np.int64]

_LARGE = 1 << 16  # cells of a joint distribution that is not kept
_KEPT = 512


@dataclass(frozen=True, eq=False)
class Factored:
    """`total` rows spread as the product of `factors`, logarithms over atoms.

    `atoms` has the atom of each code, of every touched column; columns are in the domain's order.
    A fit that stopped early says how far `away` it is from the best one (`entropy.Fit`); else 0.
    """

    domain: Domain
    total: float
    atoms: Mapping[str, Ints] = field(default_factory=dict)
    factors: Mapping[Names, Floats] = field(default_factory=dict)
    most: int = CELLS
    away: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.total < math.inf:
            raise ValueError("a distribution has a finite number of rows, not below 0")
        for names, table in self.factors.items():
            if table.shape != tuple(len(self.counts[name]) for name in names):
                raise ValueError("a factor has one entry for each combination of atoms")

    @cached_property
    def counts(self) -> dict[str, Ints]:
        """The number of codes in each atom, by column."""
        return {name: np.bincount(self.atoms[name]) for name in self.touched}

    @cached_property
    def touched(self) -> Names:
        return tuple(name for name in self.domain.names if name in self.atoms)

    @cached_property
    def tree(self) -> Tree:
        sizes = {name: len(found) for name, found in self.counts.items()}
        return junction(sizes, self.factors, self.most)

    @cached_property
    def calibration(self) -> Calibration:
        """The sums of the product; not to be multiplied."""
        return Calibration(self.tree, product(self.domain, self.counts, self.factors))

    def calibrated(self, found: Calibration) -> None:
        """Take the sums of the product as known, and its tree."""
        self.__dict__.update(tree=found.tree, calibration=found)

    @property
    def beliefs(self) -> list[Floats]:
        """The probabilities of each clique's atoms."""
        return self.calibration.beliefs

    def mass(self, at: int) -> Floats:
        """The probabilities of what a clique shares with its parent."""
        return self.calibration.shared[at]

    def conditional(self, at: int) -> Floats:
        """A clique given what it shares with its parent; 0 where that has no probability."""
        tree, belief = self.tree, self.beliefs[at]
        names, shared = tree.cliques[at], tree.separators[at]
        gone = tuple(axis for axis, name in enumerate(names) if name not in shared)
        mass = belief.sum(axis=gone, keepdims=True)
        found: Floats = np.divide(belief, mass, out=np.zeros_like(belief), where=mass > 0)
        return found

    @cached_property
    def _joints(self) -> dict[Names, Floats]:
        return {}

    def joint(self, names: Names) -> Floats:
        """The probabilities of the atoms of touched columns, an axis each; to be read."""
        found = self._joints.get(names)
        if found is None:
            if math.prod(self.tree.shape(names)) > self.most:
                raise Entangled(f"{', '.join(names)} have more than {self.most:,} cells together")
            found = self.sums((), names)
            if found.size <= _LARGE and len(self._joints) < _KEPT:
                self._joints[names] = found
        return found

    def sums(self, tensors: Sequence[Tensor], kept: Names) -> Floats:
        """The sum of the probabilities times tensors over all axes that are not kept.

        Raises Entangled where a table on the way would be too large.
        """
        try:
            return eliminated(self.tree, self.beliefs, self.mass, tensors, kept)
        except Entangled:  # another order may do with less
            asked = {*kept, *(name for tensor in tensors for name in tensor.names)}
            columns = tuple(name for name in self.touched if name in asked)
            return contracted([*self.parts(columns), *tensors], kept)

    def parts(self, names: Names) -> list[Tensor]:
        """Tables whose product, summed, is the joint distribution of some touched columns."""
        cliques = self.tree.within(names)
        found = []
        for at in cliques:
            top = self.tree.parents[at] not in cliques
            table = self.beliefs[at] if top else self.conditional(at)
            found.append(Tensor(self.tree.cliques[at], table))
        return found or [Tensor((), np.ones(()))]

    def refined(self, told: Mapping[str, Ints]) -> Factored:
        """The same distribution on atoms that also tell these classes of codes apart."""
        atoms = dict(self.atoms)
        turned: dict[str, Ints] = {}
        for name, classes in told.items():
            before = atoms.get(name, np.zeros(self.domain.size(name), np.int64))
            finer = numbered(before * (int(classes.max()) + 1) + classes)
            if name not in atoms or finer.number > int(before.max()) + 1:
                atoms[name], turned[name] = finer.of, before[finer.first]
        if not turned:
            return self
        factors = {
            names: _taken(table, [turned.get(name) for name in names])
            for names, table in self.factors.items()
        }
        return replace(self, atoms=atoms, factors=factors)

    def times(self, told: Mapping[str, Ints], table: Floats) -> Factored:
        """The product with exp of a table over classes of codes, an axis for each of `told`.

        Raises Entangled where the product would be too large.
        """
        names = tuple(name for name in self.domain.names if name in told)
        given = list(told)
        found = self.refined(told)
        places = []
        for name in names:
            of_atom = np.empty(len(found.counts[name]), np.int64)
            of_atom[found.atoms[name]] = told[name]
            places.append(of_atom)
        factor = _taken(table.transpose([given.index(name) for name in names]), places)
        factors = dict(found.factors)
        factors[names] = factors[names] + factor if names in factors else factor
        made = replace(found, factors=factors)
        made.tree  # noqa: B018  raises where it is too large
        return made

    def marginal(self, names: Sequence[str]) -> Floats:
        """The rows of each cell of some columns, an axis each, in the order given."""
        domain = self.domain.project(names)
        if domain.cells > self.most:
            raise Entangled(f"a table of {domain.cells:,} cells is over {self.most:,}")
        kept = tuple(name for name in self.domain.names if name in set(names))
        found = self.joint(tuple(name for name in kept if name in self.atoms))
        for axis, name in enumerate(kept):
            size = domain.size(name)
            if name in self.atoms:
                of = self.atoms[name]
                share = 1.0 / self.counts[name][of]
                found = np.take(found, of, axis=axis)
            else:
                share = np.full(size, 1.0 / size)
                found = np.repeat(np.expand_dims(found, axis), size, axis=axis)
            found = found * share.reshape([-1 if k == axis else 1 for k in range(found.ndim)])
        return self.total * found.transpose([kept.index(name) for name in names])

    def dense(self) -> Floats:
        """The rows of every cell, an axis for each column; for small domains."""
        return self.marginal(self.domain.names)


def product(
    domain: Domain, counts: Mapping[str, Ints], factors: Mapping[Names, Floats]
) -> dict[Names, Floats]:
    """Factors with those of the uniform distribution over atoms of so many codes."""
    found = dict(factors)
    for name, count in counts.items():
        uniform = np.log(count / domain.size(name))
        found[name,] = found[name,] + uniform if (name,) in found else uniform
    return found


def of_dense(domain: Domain, rows: Floats, most: int = CELLS) -> Factored:
    """The distribution that a table of rows is, an axis for each column; exact."""
    if rows.shape != domain.sizes or not (rows >= 0).all():
        raise ValueError("a table has rows, not below 0, for each cell of its domain")
    total = float(rows.sum())
    atoms = {name: np.arange(size) for name, size in zip(domain.names, domain.sizes, strict=True)}
    with np.errstate(divide="ignore"):
        factor = np.log(rows / total) if total else np.zeros(rows.shape)
    return Factored(domain, total, atoms, {domain.names: factor}, most)


def _taken(table: Floats, places: Sequence[Ints | None]) -> Floats:
    """A table with each axis read at `places`; an axis without stays."""
    for axis, place in enumerate(places):
        if place is not None:
            table = np.take(table, place, axis=axis)
    return table
