"""The largest column of W by branch and bound, where its atoms are too many to visit one by one.

Columns of the table are fixed in turn, those of few atoms first. What is not fixed yet can take any
value, so a predicate has a least and a greatest truth, and a weight a greatest size: the sum of
these is a bound on every column that the choice can still become. Choices whose bound is no better
than a column that was found are dropped; what is left when all are fixed holds the maximum. Where
too many choices stay open the greatest of their bounds is a bound from above, marked as such.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.curator.columns import Family, Ints, Moved
from dpsql.domain import Domain
from dpsql.query.linear import Term, Weight, atoms
from dpsql.query.predicate import FALSE, TRUE, And, Is, Leaf, Not, Or, Predicate, Truth

_SAFE = 1 << 62  # sums below it are computed in 64 bits
_SLICE = 1 << 15  # choices whose bounds are computed at a time
_HELD = 1 << 23  # and what is looked at of them: fewer choices of more weights and tests
_BEAM = 64  # choices that are followed to find a good column first
_FOLLOWED = 1 << 15  # of them times the atoms of the next column; one choice is always followed
_WORK = 1 << 27  # choices times weights and tests, over the whole search: about a second

Objective: TypeAlias = Callable[[Ints, Ints, int], None]  # take so many sizes, one a choice, in


def search(families: Sequence[Family], domain: Domain, largest: int | None = None) -> Moved | None:
    """The largest sums over the columns of some families; None where integers could overflow.

    The `largest` weight of all columns may be known, from each family by itself.
    """
    if sum(f.times * f.squares for f in families) >= _SAFE:
        return None
    tree = _Tree.of(families, domain)
    squared, exact = tree.most(_squares)
    sizes = [_size(weight) for family in families for weight in family.weights]
    told = {size for size in sizes if size != 0}
    if len(told) <= 1 and None not in told:  # all weights that count count alike
        size = told.pop() if told else 1
        assert size is not None
        return Moved(squared, squared // size, size if squared else 0, exact)
    absolute, too = tree.most(_sums)
    exact = exact and too
    if largest is None:
        largest, also = tree.most(_largest)
        exact = exact and also
    return Moved(squared, absolute, largest, exact)


def _squares(found: Ints, sizes: Ints, times: int) -> None:
    found += sizes * sizes * times


def _sums(found: Ints, sizes: Ints, times: int) -> None:
    found += sizes * times


def _largest(found: Ints, sizes: Ints, _: int) -> None:
    np.maximum(found, sizes, out=found)


def _size(weight: Weight) -> int | None:
    """The one size other than 0 that a weight can have, 0 for none; None where it has several."""
    found = 0
    for values in (v for term in weight.terms for v in _parts(term)):
        sizes = np.abs(values)
        size = int(sizes.max(initial=0))
        if (size and found not in (0, size)) or ((sizes != 0) & (sizes != size)).any():
            return None
        found = found or size
    return found * weight.factor


def _parts(term: Term) -> Iterator[Ints]:
    """The weights of a term, some at a time."""
    values = np.ones(1, np.int64) if term.table is None else term.table.values
    for start in range(0, len(values), _SLICE):
        yield values[start : start + _SLICE]


@dataclass(frozen=True, slots=True, eq=False)
class _Tree:
    """Families over the atoms of the columns that they mention, in the order of the search.

    `extremes` has what tables can still become when so many columns are fixed, of one such number.
    """

    families: tuple[Family, ...]
    names: tuple[str, ...]
    codes: tuple[NDArray[np.int64], ...]  # the atoms of each column
    extremes: dict[int, dict[object, NDArray[Any]]] = field(default_factory=dict)

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
        work = _WORK // self._each
        open_ = root
        for codes in self.codes:
            work -= len(open_) * len(codes)
            if work < 0:
                return highest, False
            kept, highest = [], found
            for choices in self._branches(open_, len(codes)):
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
            kept, values = [], []
            some = open_[: max(1, _FOLLOWED // len(codes))]
            for choices in self._branches(some, len(codes)):
                bounds = self._bounds(choices, objective)
                best = np.argsort(-bounds, kind="stable")[:_BEAM]
                kept.append(choices[best])
                values.append(bounds[best])
            open_, bounds = np.concatenate(kept), np.concatenate(values)
            best = np.argsort(-bounds, kind="stable")[:_BEAM]
            open_, bounds = open_[best], bounds[best]
        return int(bounds.max())

    def _bounds(self, choices: NDArray[np.int64], objective: Objective) -> Ints:
        """What the columns that each choice can become sum to at most; 0 where no test can hold."""
        reach = _Reach(self, choices)
        found: Ints = np.zeros(len(choices), np.int64)
        for family in self.families:
            open_ = np.ones(len(choices), bool)
            for test in family.tests:
                open_ &= reach.greatest(test) == TRUE
            for weight in family.weights:
                objective(found, reach.size(weight) * open_, family.times)
        return found

    @property
    def _each(self) -> int:
        """What is looked at of a choice: weights and tests."""
        return max(1, sum(len(f.weights) + len(f.tests) for f in self.families))

    def _branches(self, choices: NDArray[np.int64], count: int) -> Iterator[NDArray[np.int64]]:
        """Each choice with every value of the next column, some at a time."""
        most = max(1, min(_SLICE, _HELD // self._each))
        each, some = max(1, most // count), min(count, most)
        for start in range(0, len(choices), each):
            part = choices[start : start + each]
            for low in range(0, count, some):
                following = np.arange(low, min(low + some, count), dtype=np.int64)
                kept = np.repeat(part, len(following), axis=0)
                yield np.concatenate([kept, np.tile(following, len(part))[:, None]], axis=1)


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
        table = term.table
        if table is not None:
            found *= self._extreme(id(table), table.domain, lambda: np.abs(table.values), np.max)
        return found

    def _leaf(self, leaf: Leaf, greatest: bool) -> Truth:
        found = self._known.get((id(leaf), greatest))
        if found is None:
            reduce = np.max if greatest else np.min
            found = self._extreme((id(leaf), greatest), leaf.domain, lambda: leaf.table, reduce)
            self._known[id(leaf), greatest] = found
        return found

    def _extreme(
        self,
        key: object,
        domain: Domain,
        values: Callable[[], NDArray[Any]],
        reduce: Callable[..., Any],
    ) -> NDArray[Any]:
        """The extreme entry of a table over what is not fixed, for each choice."""
        fixed = self._choices.shape[1]
        places = [self._tree.names.index(name) for name in domain.names]
        if fixed not in self._tree.extremes:
            self._tree.extremes.clear()
        known = self._tree.extremes.setdefault(fixed, {})
        if key not in known:
            codes = np.ix_(*(self._tree.codes[place] for place in places))
            shaped = values().reshape(domain.sizes)[codes]
            free = tuple(axis for axis, place in enumerate(places) if place >= fixed)
            known[key] = np.asarray(reduce(shaped, axis=free)) if free else shaped
        at = tuple(self._choices[:, place] for place in places if place < fixed)
        return known[key][at] if at else np.full(len(self._choices), known[key])


def _combined(by: np.ufunc, truths: Sequence[Truth]) -> Truth:
    found: Truth = by.reduce(truths)
    return found
