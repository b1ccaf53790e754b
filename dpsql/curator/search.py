"""The largest column of W by branch and bound, where its atoms are too many to visit one by one.

Columns of the table are fixed in turn, those of few atoms first. What is not fixed yet can take any
value, so a predicate has a least and a greatest truth, and a weight a greatest size: the sum of
these is a bound on every column that the choice can still become. Choices whose bound is no better
than a column that was found are dropped; what is left when all are fixed holds the maximum. Where
too many choices stay open the greatest of their bounds is a bound from above, marked as such.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.curator.columns import Family, Ints, Moved
from dpsql.domain import Domain
from dpsql.query.linear import TableOf, Term, Weight, atoms
from dpsql.query.predicate import FALSE, TRUE, And, Is, Leaf, Not, Or, Predicate, Truth

_SAFE = 1 << 62  # sums below it are computed in 64 bits
_SLICE = 1 << 15  # choices whose bounds are computed at a time
_BEAM = 64  # choices that are followed to find a good column first
_FOLLOWED = 1 << 15  # of them times the atoms of the next column; one choice is always followed
_WORK = 1 << 27  # choices times weights and tests, over the whole search: about a second

Objective: TypeAlias = Callable[[Ints], Ints]  # (weights, choices) of sizes -> one sum a choice


def search(families: Sequence[Family], domain: Domain) -> Moved | None:
    """The largest sums over the columns of some families; None where integers could overflow."""
    times = np.repeat([f.times for f in families], [len(f.weights) for f in families])
    if sum(f.times * f.squares for f in families) >= _SAFE:
        return None
    tree = _Tree.of(families, domain)
    squared, exact = tree.most(lambda sizes: times @ (sizes * sizes))
    magnitudes = {size for f in families for w in f.weights for size in _sizes(w)}
    if len(magnitudes) <= 1:  # all weights that count count alike
        size = magnitudes.pop() if magnitudes else 1
        return Moved(squared, squared // size, size if squared else 0, exact)
    absolute, too = tree.most(lambda sizes: times @ sizes)
    largest, also = tree.most(lambda sizes: sizes.max(axis=0, initial=0))
    return Moved(squared, absolute, largest, exact and too and also)


def _sizes(weight: Weight) -> set[int]:
    """The sizes that a weight can have, other than 0."""
    found: set[int] = set()
    for term in weight.terms:
        sizes = [1] if term.table is None else np.unique(np.abs(term.table.values)).tolist()
        found |= {weight.factor * size for size in sizes if size}
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Tree:
    """Families over the atoms of the columns that they mention, in the order of the search."""

    families: tuple[Family, ...]
    names: tuple[str, ...]
    codes: tuple[NDArray[np.int64], ...]  # the atoms of each column

    @classmethod
    def of(cls, families: Sequence[Family], domain: Domain) -> _Tree:
        mentioned = {name for family in families for name in family.names}
        tables = [table for family in families for table in family.tables]
        found = atoms(domain.project([n for n in domain.names if n in mentioned]), tables)
        names = tuple(sorted(found, key=lambda name: len(found[name])))
        return cls(tuple(families), names, tuple(found[name] for name in names))

    def most(self, objective: Objective) -> tuple[int, bool]:
        """The largest sum of a column, and whether it is one and not a bound from above."""
        root: NDArray[np.int64] = np.zeros((1, 0), np.int64)
        highest = int(self._bounds(root, objective)[0])
        found = self._followed(root, objective)
        work = _WORK // max(1, sum(len(f.weights) + len(f.tests) for f in self.families))
        open_ = root
        for codes in self.codes:
            work -= len(open_) * len(codes)
            if work < 0:
                return highest, False
            kept, highest = [], found
            each = max(1, _SLICE // len(codes))
            for start in range(0, len(open_), each):
                choices = _branch(open_[start : start + each], len(codes))
                bounds = self._bounds(choices, objective)
                better = bounds > found
                kept.append(choices[better])
                highest = max(highest, int(bounds.max(initial=0)))
            open_ = np.concatenate(kept)
            if not len(open_):
                return found, True
        return highest, True

    def _followed(self, root: NDArray[np.int64], objective: Objective) -> int:
        """The largest sum among columns that looked good on the way to them."""
        open_, bounds = root, self._bounds(root, objective)
        for codes in self.codes:
            choices = _branch(open_[: max(1, _FOLLOWED // len(codes))], len(codes))
            bounds = self._bounds(choices, objective)
            best = np.argsort(-bounds, kind="stable")[:_BEAM]
            open_, bounds = choices[best], bounds[best]
        return int(bounds.max())

    def _bounds(self, choices: NDArray[np.int64], objective: Objective) -> Ints:
        """What the columns that each choice can become sum to at most; 0 where no test can hold."""
        reach = _Reach(self, choices)
        sizes: list[Ints] = []
        for family in self.families:
            open_ = np.ones(len(choices), bool)
            for test in family.tests:
                open_ &= reach.greatest(test) == TRUE
            sizes += [reach.size(weight) * open_ for weight in family.weights]
        if not sizes:
            return np.zeros(len(choices), np.int64)
        found: Ints = objective(np.stack(sizes))
        return found


class _Reach:
    """What predicates and weights can still become under partial choices."""

    def __init__(self, tree: _Tree, choices: NDArray[np.int64]) -> None:
        self._tree, self._choices = tree, choices
        self._known: dict[tuple[int, bool], Truth] = {}

    def greatest(self, predicate: Predicate) -> Truth:
        """The greatest truth that a predicate can still have."""
        match predicate:
            case Leaf():
                return self._leaf(predicate, True)
            case And(parts=parts):
                return _combined(np.minimum, [self.greatest(part) for part in parts])
            case Or(parts=parts):
                return _combined(np.maximum, [self.greatest(part) for part in parts])
            case Not(part=part):
                return np.uint8(TRUE) - self.least(part)
            case Is(part=part, truth=wanted):
                can = (self.least(part) <= wanted) & (self.greatest(part) >= wanted)
                return np.where(can, np.uint8(TRUE), np.uint8(FALSE))

    def least(self, predicate: Predicate) -> Truth:
        """The least truth that a predicate can still have."""
        match predicate:
            case Leaf():
                return self._leaf(predicate, False)
            case And(parts=parts):
                return _combined(np.minimum, [self.least(part) for part in parts])
            case Or(parts=parts):
                return _combined(np.maximum, [self.least(part) for part in parts])
            case Not(part=part):
                return np.uint8(TRUE) - self.greatest(part)
            case Is(part=part, truth=wanted):
                must = (self.least(part) == wanted) & (self.greatest(part) == wanted)
                return np.where(must, np.uint8(TRUE), np.uint8(FALSE))

    def size(self, weight: Weight) -> Ints:
        """The greatest size that a weight can still have: that of one of its terms."""
        found = np.zeros(len(self._choices), np.int64)
        for term in weight.terms:
            np.maximum(found, self._term(term), out=found)
        found *= weight.factor
        return found

    def _term(self, term: Term) -> Ints:
        holds = self.greatest(term.predicate) == TRUE
        found: Ints = holds.astype(np.int64)
        if term.table is not None:
            found *= self._extreme((term.table.domain, np.abs(term.table.values)), np.max)
        return found

    def _leaf(self, leaf: Leaf, greatest: bool) -> Truth:
        found = self._known.get((id(leaf), greatest))
        if found is None:
            found = self._extreme((leaf.domain, leaf.table), np.max if greatest else np.min)
            self._known[id(leaf), greatest] = found
        return found

    def _extreme(self, table: TableOf, reduce: Callable[..., Any]) -> NDArray[Any]:
        """The extreme entry of a table over what is not fixed, for each choice."""
        domain, values = table
        names, fixed = self._tree.names, self._choices.shape[1]
        places = [names.index(name) for name in domain.names]
        shaped = values.reshape(domain.sizes)[np.ix_(*(self._tree.codes[p] for p in places))]
        free = tuple(axis for axis, place in enumerate(places) if place >= fixed)
        if free:
            shaped = reduce(shaped, axis=free)
        at = tuple(self._choices[:, place] for place in places if place < fixed)
        return shaped[at] if at else np.full(len(self._choices), shaped)


def _combined(by: np.ufunc, truths: Sequence[Truth]) -> Truth:
    found: Truth = by.reduce(truths)
    return found


def _branch(choices: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Each choice with every value of the next column."""
    kept = np.repeat(choices, count, axis=0)
    following = np.tile(np.arange(count, dtype=np.int64), len(choices))
    return np.concatenate([kept, following[:, None]], axis=1)
