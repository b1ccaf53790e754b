"""How far the values of a strategy move between neighbours, from the integers that are measured.

A row in cell x moves the values of a part by A w_x, the matrix applied to its column of W: where it
is applied group by group, once for each grouping. Sums of whole numbers below 2^53 are exact in
floats; above that they are rounded up by more than all their roundings. Parts are measured on the
same people, so their largest squares add: a bound, where there are several. In residual tables all
groups are moved alike (`query.contrasts`), so that the square is a whole number, their scale, times
|A w_x|^2, whichever groups a row is in; and what two rows share is at least a known part of that.

A column of a product of matrices is as long as its columns along each axis together, so that the
longest is that of the longest ones; which pairs of columns are farthest apart is bounded.

Under replace-one a pair moves the values by the difference of two columns. These are compared where
they are few; else such a difference is at most twice the longest.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Gaussian
from dpsql.accounting.footprints.footprint import MOST_ENTRIES, Factor, Footprint, Loss
from dpsql.accounting.purse import LIMIT, Price
from dpsql.curator.columns import slices
from dpsql.curator.reduced import reduced
from dpsql.errors import UsageError
from dpsql.query.axis import Axis
from dpsql.query.canon import tables
from dpsql.query.distinct import Distinct, distinct
from dpsql.query.linear import Classes, classes, combinations, product
from dpsql.query.strategy import EXACT, Mixed, Part, Product, Residuals, Strategy
from dpsql.schema import Dataset, Neighbours

Floats = NDArray[np.float64]
_Alike: TypeAlias = Mixed | Residuals  # whose columns are a matrix times those of the queries
Ints = NDArray[np.int64]

WORK = 1 << 36  # multiplications that are made to look at every column
HELD = 1 << 22  # entries of columns at a time
COLUMNS = 1 << 21  # that are listed
CELLS = 1 << 23  # combinations of classes that are visited where columns are not listed
PAIRS = 1 << 11  # columns that are compared with each other
PAIRED = 1 << 33  # and multiplications that compare different ones
GRADES = 64  # different losses of a part
_LARGEST = 1 << 127  # events hold integers below it


class Reach(NamedTuple):
    """How far a strategy's values move: the square of their L2 sensitivity; not `exact`: at most.

    `parts` has the same for each part, and `alone` is the square for a row more or less.
    """

    squared: int
    exact: bool
    parts: tuple[int, ...]
    alone: int


_KNOWN: weakref.WeakKeyDictionary[Strategy, tuple[object, Reach]] = weakref.WeakKeyDictionary()
_TOLD: weakref.WeakKeyDictionary[Part, Mapping[str, Classes]] = weakref.WeakKeyDictionary()


def reach(strategy: Strategy, dataset: Dataset) -> Reach:
    """How far a strategy's values move between neighbours; computed once a strategy.

    Raises UsageError for one beyond the integers that are computed and noised exactly.
    """
    rows, relation = dataset.unit.max_rows, dataset.neighbours
    known = _KNOWN.get(strategy)
    if known is None or known[0] != (rows, relation):
        found = [_longest(part) for part in strategy.parts]
        squared = [max(size, 1) for size, _ in found]
        alone = sum(squared) * rows**2
        exact = len(found) == 1 and found[0][1]
        if relation is Neighbours.REPLACE_ONE:
            apart = [_farthest(p, size) for p, size in zip(strategy.parts, squared, strict=True)]
            squared, exact = [size for size, _ in apart], exact and apart[0][1]
        total = sum(squared) * rows**2
        if total >= _LARGEST:
            raise UsageError(f"a unit of {rows:,} rows can move the values by more than is noised")
        parts = tuple(n * rows**2 for n in squared)
        known = (rows, relation), Reach(total, exact, parts, alone)
        _KNOWN[strategy] = known
    return known[1]


def footprint(strategy: Strategy, dataset: Dataset, variance: Fraction) -> Footprint:
    """What measuring a strategy with noise of this variance costs a person in each cell.

    Its largest loss is the price of the event.
    """
    moved = reach(strategy, dataset)
    price = Price.of(Gaussian(moved.squared, variance))
    if price.rho > LIMIT or dataset.neighbours is Neighbours.REPLACE_ONE:
        return Footprint(Loss(min(price.rho, LIMIT)), None)
    constant, factors = 0, list[Factor]()
    for part, squared in zip(strategy.parts, moved.parts, strict=True):
        top = Gaussian(squared, variance).rho
        told = _told(part)
        if math.prod(of.number for of in told.values()) > MOST_ENTRIES:
            constant += top
            continue
        rows = dataset.unit.max_rows**2
        if isinstance(part, Product):
            lengths = _lengthwise(part, told)
        else:
            rows, lengths = part.scale * rows, _squares(part, told)
        grades = np.ceil(lengths * (GRADES * rows / squared))
        losses = [-(-top * int(grade) // GRADES) for grade in np.minimum(grades, GRADES)]
        table = np.array(losses, np.int64).reshape([of.number for of in told.values()])
        least, factor = reduced({name: of.of for name, of in told.items()}, table, False)
        constant += least
        factors += [factor] if factor is not None else []
    if constant >= price.rho or not factors:
        return Footprint(Loss(price.rho if constant >= price.rho else constant), None)
    most = min(price.rho - constant, sum(factor.largest for factor in factors))
    return Footprint(Loss(constant, tuple(factors), most), None)


def _told(part: Part) -> Mapping[str, Classes]:
    """The classes of the codes of each column that a part tells apart."""
    if part not in _TOLD:
        blocks = part.workload.blocks
        kept = tables(blocks)
        if (
            not isinstance(part, Product) and not part.whole
        ):  # which group a row is in makes no difference
            keys = {id(t) for block in blocks for g in block.groupings for _, t, _ in g.keys}
            kept = [(domain, table) for domain, table in kept if id(table) not in keys]
        names = {name for domain, _ in kept for name in domain.names}
        domain = part.workload.domain
        told = domain.project([name for name in domain.names if name in names])
        _TOLD[part] = classes(told, kept)
    return _TOLD[part]


def _lengthwise(part: Product, told: Mapping[str, Classes]) -> Floats:
    """Bounds on the squared length of the column of each combination of classes, last one fastest;
    a single key of a column tells the same classes apart as that column.
    """
    (block,) = part.workload.blocks
    found: Floats = np.full((1,) * len(told), float(part.factor) ** 2)
    places = {name: place for place, name in enumerate(told)}
    for axis, (domain, group, _) in zip(part.axes, block.groupings[0].keys, strict=True):
        (name,) = domain.names
        along = [1] * len(told)
        along[places[name]] = told[name].number
        found = found * axis.norms[group[told[name].first]].reshape(along)
    return found.reshape(-1) * (1.0 + 2.0**-40)  # more than all roundings


def _squares(part: _Alike, told: Mapping[str, Classes]) -> Floats:
    """The squared length of the column of each combination of classes, last column fastest; the
    part's scale is left out."""
    codes, count = product({name: of.first for name, of in told.items()})
    return np.concatenate([_lengths(part, some, n) for some, n in _cut(codes, count, part.width)])


def _cut(codes: dict[str, Ints], count: int, width: int) -> Iterator[tuple[dict[str, Ints], int]]:
    step = max(1, HELD // width)
    for start in range(0, count, step):
        stop = min(start + step, count)
        yield {name: c[start:stop] for name, c in codes.items()}, stop - start


def _lengths(part: _Alike, codes: Mapping[str, Ints], count: int) -> Floats:
    """Upper bounds on the squared lengths of A w of some cells, without the part's scale; exact
    below 2^53."""
    matrix = part.matrix.astype(np.float64)
    listed = part.columns(codes, count)
    found = np.zeros(count)
    for times, columns in listed:
        found += times * _squared(matrix @ columns)
    return _rounded(found, part, len(listed))


def _doubt(part: _Alike, terms: int) -> float:
    """More than all roundings of a sum of squares, as a part of it."""
    return (len(part.matrix) + terms + 8) * 2.0**-51


def _longest(part: Part) -> tuple[int, bool]:
    """The largest squared length of a column, and whether it is just that."""
    if isinstance(part, Product):
        return part.factor**2 * math.prod(int(axis.norms.max()) for axis in part.axes), True
    if part.whole:
        columns = distinct(part.workload, min(WORK // part.matrix.size, COLUMNS))
        if columns is not None:
            matrix, some = part.matrix.astype(np.float64), columns.slices(HELD)
            found = [_rounded(_squared(matrix @ each), part, 1) for each in some]
            most = max(float(each.max()) for each in found)
            return math.ceil(most), most < EXACT
    told = {name: of.first for name, of in _told(part).items()}
    times = 1 if part.whole else len(part.workload.blocks)
    cells = combinations(told)
    if cells > CELLS or cells * part.matrix.size * times > WORK:
        return _bound(part), False
    best = 0.0
    for codes, count in slices(told, max(1, HELD // part.width)):
        best = max(best, float(_lengths(part, codes, count).max(initial=0.0)))
    return math.ceil(best) * part.scale, best < EXACT


def _least_inner(axes: Sequence[Axis]) -> int:
    """No two columns of a product have an inner product below it; at most 0."""
    low, high = 1, 1
    for axis in axes:
        most = int(axis.norms.max())
        ends = [one * other for one in (low, high) for other in (axis.inner, most)]
        low, high = min(ends), max(ends)
    return min(low, 0)


def _squared(mixed: Floats) -> Floats:
    found: Floats = np.einsum("rc,rc->c", mixed, mixed)
    return found


def _rounded(squares: Floats, part: _Alike, terms: int) -> Floats:
    """Upper bounds on what some sums of squares of whole numbers are; exact below 2^53."""
    return np.where(squares < EXACT, squares, squares * (1.0 + _doubt(part, terms)))


def _bound(part: _Alike) -> int:
    """A bound that looks at no column: no row moves a query by more than its largest weight."""
    listed = [
        ([float(weight.largest) for weight in block.weights], block.groupings)
        for block in part.workload.blocks
    ]
    if part.whole:  # a row is in one group of each grouping
        squares = _most(part, [(sizes, g.size) for sizes, own in listed for g in own])
    else:
        squares = sum(
            part.repeats(block) * _most(part, [(sizes, 1)])
            for block, (sizes, _) in zip(part.workload.blocks, listed, strict=True)
        )
    return math.ceil(squares * (1.0 + 2.0**-20)) * part.scale


def _most(part: _Alike, listed: Sequence[tuple[Sequence[float], int]]) -> float:
    """The most that the squared length of A w can be, of weights of these sizes in so many groups.

    It is at most the sum of what the queries move the values, as vectors; and each value is moved
    by at most the sum of what moves it, which is less where few queries are mixed in a value.
    """
    entries, start = np.abs(part.matrix).astype(np.float64), 0
    norms = np.sqrt(np.einsum("rk,rk->k", entries, entries))
    together, each = 0.0, np.zeros(len(entries))
    for sizes, groups in listed:
        stop = start + groups * len(sizes)
        if groups:
            together += float((norms[start:stop].reshape(groups, -1) @ sizes).max())
            moved = entries[:, start:stop].reshape(len(entries), groups, -1) @ np.asarray(sizes)
            each += moved.max(axis=1)
        start = stop
    return min(together**2, float(each @ each))


def _farthest(part: Part, longest: int) -> tuple[int, bool]:
    """The largest squared distance of two columns, or of one and nothing; whether it is exact."""
    if isinstance(part, Product):
        return 2 * (longest - part.factor**2 * _least_inner(part.axes)), False
    if part.whole:
        different = distinct(part.workload, math.isqrt(PAIRED // len(part.matrix)))
        if different is not None:
            return _apart(part, different, longest)
    told = {name: of.first for name, of in _told(part).items()}
    if combinations(told) > PAIRS:
        return 4 * longest, False
    codes, count = product(told)
    matrix = part.matrix.astype(np.float64)
    listed = part.columns(codes, count)
    least = math.nextafter(float(part.least), -math.inf)
    apart = np.zeros((count, count))
    for times, columns in listed:
        mixed = matrix @ columns
        inner = mixed.T @ mixed
        size = np.diag(inner)
        near = -2.0 * inner
        if not part.whole:  # or in other groups
            near = np.maximum(near, near * least)
        apart += times * (size + size[:, None] + near)
    most = float(apart.max(initial=0.0))
    if most >= EXACT or not part.whole:
        most += 4.0 * longest / part.scale * _doubt(part, len(listed))
    return max(math.ceil(Fraction(most) * part.scale), longest), part.whole and most < EXACT


def _apart(part: _Alike, columns: Distinct, longest: int) -> tuple[int, bool]:
    """The largest squared distance of two of some columns, or of one and nothing."""
    matrix = part.matrix.astype(np.float64)
    mixed = np.concatenate([matrix @ some for some in columns.slices(HELD)], axis=1)
    size, step = _squared(mixed), max(1, HELD // columns.size)
    most = 0.0
    for start in range(0, columns.size, step):
        some = slice(start, start + step)
        apart = size[some, None] + size - 2.0 * (mixed[:, some].T @ mixed)
        most = max(most, float(apart.max()))
    exact = max(most, longest) < EXACT
    most += 0.0 if exact else 4.0 * longest * _doubt(part, 1)
    return max(math.ceil(most), longest), exact
