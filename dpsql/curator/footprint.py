"""What a measurement costs each person, from the integers that are really measured.

The answers of a block move by its weights, once for each of its groupings, wherever its condition
holds; which group a person is in makes no difference. So only the columns of conditions and weights
are touched, and a histogram of the whole table costs everybody the same.

Where the classes of all blocks together are too many for one table, each block has its own; where
those of one block are too many, the conditions that tell most apart count as true, and weights of
too many classes as their largest value. All these are bounds from above; the largest loss stays.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import PICO
from dpsql.accounting.footprints.footprint import MOST_ENTRIES, Footprint, Loss
from dpsql.accounting.losses import shifted
from dpsql.accounting.purse import LIMIT, Price
from dpsql.curator.columns import Family, weight_names
from dpsql.curator.norms import family
from dpsql.curator.quote import GaussianNoise, LaplaceNoise, Noise, quote
from dpsql.curator.reduced import reduced
from dpsql.query.canon import families as canonical
from dpsql.query.linear import Workload, classes, product
from dpsql.query.predicate import mentioned
from dpsql.schema import Dataset, Neighbours

_WORK = 1 << 22  # entries of a table times weights and tests
_KEPT = 1 << 16  # entries of tables times weights that are remembered of a workload
_NOISES = 4  # whose footprints are remembered of a workload

Ints: TypeAlias = NDArray[np.int64]
Exact: TypeAlias = "NDArray[np.int64] | NDArray[np.object_]"


@dataclass(frozen=True, slots=True, eq=False)
class _Weights:
    """Absolute weights (weights, cells) that each count in `times` answers."""

    values: Ints
    times: int
    signed: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Weights on the combinations of the classes of some columns.

    With `least` classes all losses tell them apart: those of a canonical query without signs.
    """

    classes: Mapping[str, Ints]
    shape: tuple[int, ...]
    weights: tuple[_Weights, ...]
    least: bool = False

    @property
    def size(self) -> int:
        return sum(weights.values.size for weights in self.weights)


_Made: TypeAlias = dict[tuple[Neighbours, int, Noise], Footprint]
_KNOWN: weakref.WeakKeyDictionary[Workload, tuple[_Part, ...]] = weakref.WeakKeyDictionary()
_MADE: weakref.WeakKeyDictionary[Workload, _Made] = weakref.WeakKeyDictionary()


def footprint(workload: Workload, dataset: Dataset, noise: Noise) -> Footprint:
    """What measuring the workload with this noise costs a person in each cell.

    Its largest loss is the price of the event, wherever that is exact, and never more.
    """
    key = (dataset.neighbours, dataset.unit.max_rows, noise)
    made = _MADE.get(workload, {})
    found = made.get(key)
    if found is None:
        found = _footprint(workload, dataset, noise)
        _MADE[workload] = dict([*made.items(), (key, found)][-_NOISES:])
    return found


def _footprint(workload: Workload, dataset: Dataset, noise: Noise) -> Footprint:
    price = Price.of(quote(workload, dataset, noise))
    if price.rho > LIMIT:  # which no purse holds
        return Footprint(Loss(LIMIT), None)
    parts = _parts(workload)
    pairs = dataset.neighbours is Neighbours.REPLACE_ONE
    rows = dataset.unit.max_rows
    match noise:
        case GaussianNoise(variance=variance):

            def rho(part: _Part) -> Ints:
                top, bottom = PICO * variance.denominator, 2 * variance.numerator
                return _ceiling(_squares(part, rows, pairs), top, bottom)

            return Footprint(_loss(parts, rho, price.rho, pairs), None)
        case LaplaceNoise(scale=scale):

            def divergence(part: _Part) -> Ints:
                return _divergences(part, rows, pairs, scale)

            def epsilon(part: _Part) -> Ints:
                return _ceiling(_sizes(part, rows), PICO * scale.denominator, scale.numerator)

            return Footprint(
                _loss(parts, divergence, price.rho, pairs),
                None if price.epsilon is None else _loss(parts, epsilon, price.epsilon, pairs),
            )


def touched(workload: Workload, dataset: Dataset, price: Price) -> Footprint:
    """What a gate or a selection over these queries costs: `price` where some query counts a row.

    A person in no query moves no score, and loses nothing. Of units of several rows everybody pays:
    their rows may lie in cells of different releases, and these prices are no sums over rows.
    """
    if price.rho > LIMIT:  # which no purse holds
        return Footprint(Loss(LIMIT), None)
    if dataset.unit.max_rows > 1:
        return Footprint.constant(price)
    parts = _parts(workload)
    pairs = dataset.neighbours is Neighbours.REPLACE_ONE

    def loss(each: int) -> Loss:
        def losses(part: _Part) -> Ints:
            return np.where(_sizes(part, 1) > 0, each, 0).astype(np.int64)

        return _loss(parts, losses, each, pairs)

    return Footprint(loss(price.rho), None if price.epsilon is None else loss(price.epsilon))


# -- the loss of each cell -------------------------------------------------------------------------


def _squares(part: _Part, rows: int, pairs: bool) -> Exact:
    """The sum of the squares of what a person's rows in a cell can move; for pairs, S_j's."""
    largest = sum(w.times * len(w.values) * int(w.values.max(initial=0)) ** 2 for w in part.weights)
    kind: Any = np.int64 if 2 * rows**2 * largest < 1 << 62 else object
    found: Exact = np.zeros(math.prod(part.shape), kind)
    for weights in part.weights:
        factor = weights.times * rows**2 * (2 if pairs and weights.signed else 1)
        for values in weights.values:
            found = found + values.astype(kind, copy=False) ** 2 * factor
    return found


def _sizes(part: _Part, rows: int) -> Exact:
    """The sum of the sizes of what a person's rows in a cell can move."""
    largest = sum(w.times * len(w.values) * int(w.values.max(initial=0)) for w in part.weights)
    kind: Any = np.int64 if rows * largest < 1 << 62 else object
    found: Exact = np.zeros(math.prod(part.shape), kind)
    for weights in part.weights:
        for values in weights.values:
            found = found + values.astype(kind, copy=False) * (weights.times * rows)
    return found


def _ceiling(whole: Exact, top: int, bottom: int) -> Ints:
    """whole x top / bottom, rounded up; at most LIMIT."""
    values = whole.tolist()
    costs = {value: min(-(-value * top // bottom), LIMIT) for value in set(values)}
    return np.array([costs[value] for value in values], np.int64)


def _divergences(part: _Part, rows: int, pairs: bool, scale: Fraction) -> Ints:
    """The sum of f(moved) over the answers with Laplace noise, rounded up; at most LIMIT."""
    cost = np.zeros(math.prod(part.shape))
    terms = 1
    for weights in part.weights:
        doubled = 2 if pairs and weights.signed else 1
        for values in weights.values:
            moves, place = np.unique(values, return_inverse=True)
            each = [shifted(int(move) * rows * doubled, scale) / doubled for move in moves]
            cost += np.array(each)[place.reshape(-1)] * weights.times
            terms += 1
    upwards = 1.0 + (terms + 8) * 2.0**-52  # more than the roundings of the sum and what follows
    found: Ints = np.minimum(np.ceil(cost * PICO * upwards), float(LIMIT)).astype(np.int64)
    return found


# -- tables ----------------------------------------------------------------------------------------


def _loss(parts: Sequence[_Part], losses: Callable[[_Part], Ints], price: int, pairs: bool) -> Loss:
    """The loss whose table on each part is `losses`, and which costs nobody more than `price`."""
    constant, factors = 0, []
    for part in parts:
        table = np.minimum(losses(part), LIMIT if pairs else price)
        least, factor = reduced(part.classes, table.reshape(part.shape), part.least)
        constant += least
        factors += [factor] if factor is not None else []
    if pairs:
        constant *= 2
    if constant >= price:
        return Loss(price)
    most = price - constant
    if not pairs:
        most = min(most, sum(factor.largest for factor in factors))
    elif not factors:
        return Loss(constant)
    return Loss(constant, tuple(factors), most, pairs)


def _parts(workload: Workload) -> tuple[_Part, ...]:
    """The tables that hold the weights of all blocks; known for workloads that are kept."""
    found = _KNOWN.get(workload) or _lone(workload)
    if found is None:
        families = [family(block) for block in workload.blocks if block.groups]
        whole = _part(families, workload)
        found = (whole,) if whole is not None else tuple(_fitting(f, workload) for f in families)
        if sum(part.size for part in found) <= _KEPT:
            _KNOWN[workload] = found
    return found


def _lone(workload: Workload) -> tuple[_Part] | None:
    """The table of a workload of one query, from its canonical form; None for any other."""
    if workload.size != 1:
        return None
    (family,) = (f for block in canonical(workload) for f in block if f is None or f.origin.size)
    if family is None or len(family.weights) > MOST_ENTRIES:
        return None
    weights = family.weights[None] * family.factor
    signed = bool((weights < 0).any())
    kept = (_Weights(np.abs(weights), 1, signed),)
    return (_Part(family.classes, family.shape, kept, not signed),)


def _part(families: Sequence[Family], workload: Workload) -> _Part | None:
    """The weights of some families on their common classes; None where these are too many."""
    touched = {name for f in families for name in f.names}
    names = [name for name in workload.domain.names if name in touched]
    tables = [table for f in families for table in f.tables]
    found = classes(workload.domain.project(names), tables)
    cells, width = 1, sum(len(f.weights) + len(f.tests) for f in families)
    for of_column in found.values():
        cells *= of_column.number
    if cells > MOST_ENTRIES or cells * width > _WORK:
        return None
    codes, count = product({name: of_column.first for name, of_column in found.items()})
    return _Part(
        {name: of_column.of for name, of_column in found.items()},
        tuple(of_column.number for of_column in found.values()),
        tuple(_Weights(np.abs(f.values(codes, count)), f.times, f.signed) for f in families),
    )


def _fitting(whole: Family, workload: Workload) -> _Part:
    """A family with as many of its tests as fit, or a bound on its weights."""
    found = _part([whole], workload)
    if found is not None:
        return found
    kept = Family((), whole.weights, whole.times)
    found = _part([kept], workload)
    if found is None:
        largest = np.array([[weight.largest] for weight in whole.weights], np.int64)
        bounds = _Weights(largest, whole.times, whole.signed)
        return _Part({}, (), (bounds,))
    own = {name for weight in whole.weights for name in weight_names(weight)}
    for test in sorted(whole.tests, key=lambda test: len(mentioned(test) - own)):
        more = Family((*kept.tests, test), whole.weights, whole.times)
        larger = _part([more], workload)
        if larger is not None:
            kept, found = more, larger
    return found
