"""Kronecker strategies for workloads of products: one for each column, and unions of such products.

OPT_x and OPT_+ of McKenna, Miklau, Hay, Machanavajjhala 2018 (arXiv:1808.03537). Queries that are
products of rows along each column (`separable`) are answered through a product of matrices
(`grids`), of which each is the best one there while the others stay: a family f errs by w_f times
the product over its axes of tr(G_f,i X_i^-1), so that along one axis its rows count with the
product of the others. For each axis `formulas` has the matrices, so that a workload on one column
is a product as well, through a matrix of any length that is never written out.

Families of different columns may have products of their own, each with its part of the price: in
proportion to the root of its error for the least sum, to the error for the least largest. Products
are put together as long as that errs less.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Gaussian
from dpsql.accounting.kept.gridded import Gridded
from dpsql.accounting.kept.stored import Stored
from dpsql.mechanisms.intervals.noises import Joint, Noise
from dpsql.mechanisms.intervals.spread import Fitted, Spread
from dpsql.mechanisms.reuse.found import Answered
from dpsql.mechanisms.strategies.cells import ANSWERS
from dpsql.mechanisms.strategies.cells import CELLS as FEW
from dpsql.mechanisms.strategies.formulas import BOUND, OPTIMAL, Along, along
from dpsql.mechanisms.strategies.grids import Grids, Told, scaled, told_by
from dpsql.mechanisms.strategies.mixing import importance
from dpsql.mechanisms.strategies.optimum import svd_bound
from dpsql.mechanisms.strategies.separable import Atoms, Bundle, Rows, Separable, separable
from dpsql.mechanisms.threads import one_thread
from dpsql.query.axis import LONGEST
from dpsql.query.canon import placed
from dpsql.query.linear import Workload, counted
from dpsql.query.strategy import Product, Strategy

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

CELLS = 1 << 20  # of a table
PARTS = 6  # sets of columns for which unions of products are looked for
_ROUNDS = 2  # in which the strategies of all axes are looked for
_MIXED = 64  # queries of some columns, which are soon mixed with those of others
_FINE = 1 << 6  # of the smallest factor: parts of the price are realised within 1 / 64


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A family by its columns, and how much the squared error of each of its answers counts."""

    split: Separable
    worth: float


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """A product for some families, by their numbers: their columns' atoms, the strategies along
    each, and the error at a sensitivity of 1; and by name that of all products that were compared.
    No strategy errs less than `below`, which is 0 where the families are no product themselves.
    """

    places: tuple[int, ...]
    atoms: Mapping[str, Atoms]
    along: Mapping[str, Along]
    error: float
    priced: Mapping[str, float]
    below: float

    @property
    def moved(self) -> int:
        """The largest squared length of a column."""
        return math.prod(int(each.axis.norms.max()) for each in self.along.values())


@dataclass(frozen=True, slots=True, eq=False)
class Products:
    """Products that are measured in place of a workload, and its answers from them.

    `rmse` is the root of the mean squared error at noise that costs rho = 1/2, as `importance`
    weighs the queries, or of the `largest`; `ratio` what it is to a bound on that of any strategy.
    `priced` has the strategies that were compared by name, with the same error of each.
    """

    workload: Workload
    strategy: Strategy
    told: Told
    rmse: float
    ratio: float | None
    largest: bool
    priced: tuple[tuple[str, float], ...]

    @property
    def lone(self) -> bool:
        """Whether it is about one column."""
        return len({name for grid in self.told.grids for name in grid.classes}) == 1

    def spreads(self, law: Gaussian, asked: Workload | None = None) -> tuple[Spread, ...]:
        """What will be known of each SELECT's answers, or of a part, as it is `asked`."""
        return tuple(scaled(unit, law) for unit in self.told.spreads(asked or self.workload))

    def noises(self, law: Gaussian, asked: Workload | None = None) -> tuple[Noise, ...]:
        """The noise of each SELECT's answers, whatever they are; or of a part, as it is `asked`."""
        found = []
        for spread in self.spreads(law, asked):
            shape = spread.known.shape
            found.append(Joint(Fitted(np.zeros(shape, np.int64), np.zeros(shape), spread)))
        return tuple(found)

    def stored(
        self, values: Sequence[NDArray[Any]], law: Gaussian, shown: Sequence[NDArray[Any]]
    ) -> Stored | None:
        """What a ledger keeps of it; None where it cannot. What is `shown` follows from that."""
        try:
            grids = _gridded(self.strategy, values)
        except ValueError:
            return None
        bare = Stored((), law, (), grids=grids)
        kept, answers = [], []
        with one_thread():
            found = [fitted.shown for fitted in Grids(bare).answers(self.workload)]
        flat = np.concatenate([shown.reshape(-1) for shown in found])
        for family, place in placed(self.workload):
            if family is None:
                return None
            kept.append(family)
            answers.append(flat[place])
        return Stored(tuple(kept), law, tuple(answers), grids=grids)

    def unmeasured(self, law: Gaussian) -> Stored | None:
        """What a ledger would keep if all values were 0."""
        return self.stored([np.zeros((p.size, 1), np.int64) for p in self.strategy.parts], law, [])

    def answered(self, values: Sequence[NDArray[Any]], law: Gaussian) -> Answered:
        """The answers of each SELECT from the noisy values of each product."""
        found = Grids(Stored((), law, (), grids=_gridded(self.strategy, values)))
        each = found.answers(self.workload)
        return Answered(tuple(some.shown for some in each), tuple(map(Joint, each)), 1)


def _gridded(strategy: Strategy, values: Sequence[NDArray[Any]]) -> tuple[Gridded, ...]:
    parts = [part for part in strategy.parts if isinstance(part, Product)]
    return tuple(Gridded.of(part, noisy) for part, noisy in zip(parts, values, strict=True))


def products(workload: Workload, moved: int, *, largest: bool = False) -> Products | None:
    """The products of least weighted, or `largest`, squared error for a workload, which a row moves
    by the root of `moved`.

    None where a query is no product, where a table would be too large, where the optimum over all
    cells is soon found or a residual plan is, where few are asked of each of many sets of columns,
    and where no row counts twice: then the questions err least as they are.
    """
    heaviest = max((w.largest for block in workload.blocks for w in block.weights), default=0)
    groupings = [grouping for block in workload.blocks for grouping in block.groupings]
    disjoint = len(groupings) == 1 and groupings[0].keys  # groups, which share nothing
    asked = None if disjoint or moved <= heaviest**2 else _asked(workload, largest)
    if asked is None or not _crossing(asked) or _scattered(asked):
        return None
    sizes = dict(zip(workload.domain.names, workload.domain.sizes, strict=True))
    cells = math.prod(each.count for each in _all_atoms(asked, sizes).values())
    if cells <= (OPTIMAL if largest else FEW) and workload.size <= ANSWERS:
        return None
    found = _union(asked, sizes, largest)
    if found is None:
        return None
    best, priced, below = found
    strategy = _strategy(workload, best, largest)
    told = told_by(_gridded(strategy, [np.zeros((p.size, 1), np.int64) for p in strategy.parts]))
    rmse = math.sqrt(_together(best, largest))
    lower = best[0].below if len(best) == 1 else 0.0
    if not lower:
        lower = below if largest else max(below, _bound(asked, sizes))
    ratio = max(1.0, rmse / math.sqrt(lower)) if lower else None
    listed = sorted(priced.items(), key=lambda item: item[1])
    return Products(workload, strategy, told, rmse, ratio, largest, tuple(listed))


def _asked(workload: Workload, largest: bool) -> list[Asked] | None:
    """The families of a workload by their columns; None where one is no product."""
    flat = np.concatenate([own.reshape(-1) for own in importance(workload, largest=largest)])
    found = []
    for family, place in placed(workload):
        split = None if family is None else separable(family)
        if family is None or split is None:
            return None
        if not family.met:  # counts nobody
            continue
        worth = float(flat[place[: family.met]].mean()) * (family.factor * split.times) ** 2
        found.append(Asked(split, worth))
    return found


def _crossing(asked: Sequence[Asked]) -> bool:
    """Whether rows differ along some column: of tables by the same keys a residual plan is the
    best, and of one table the best noise for a group."""
    found: dict[str, set[bytes]] = {}
    for each in asked:
        for name, bundle in each.split.along.items():
            found.setdefault(name, set()).add(bundle.key)
    return any(len(keys) > 1 for keys in found.values())


def _scattered(asked: Sequence[Asked]) -> bool:
    """Whether they are of many sets of columns, few of each: mixed with others they err less."""
    found: dict[tuple[str, ...], int] = {}
    for each in asked:
        names = tuple(each.split.along)
        found[names] = found.get(names, 0) + len(each.split.place)
    return len(found) > PARTS and max(found.values()) <= _MIXED


def _together(drafts: Sequence[Draft], largest: bool) -> float:
    """The error of some products, each with its part of the price."""
    errors = [draft.error for draft in drafts]
    return sum(errors) if largest else sum(map(math.sqrt, errors)) ** 2


def _union(
    asked: Sequence[Asked], sizes: Mapping[str, int], largest: bool
) -> tuple[list[Draft], dict[str, float], float] | None:
    """The best union of products that is found, the root of the error of all that were tried, and
    what no strategy's error is below: on each set of columns it errs no less than one for these.

    Products of families of the same columns are put together, two at a time.
    """
    alike: dict[tuple[str, ...], list[int]] = {}
    for at, each in enumerate(asked):
        alike.setdefault(tuple(each.split.along), []).append(at)
    priced: dict[str, float] = {}
    found = [_draft(asked, places, sizes, largest) for places in alike.values()]
    drafts = [draft for draft in found if draft is not None]
    if len(drafts) < len(found):
        return None
    bounds = [draft.below for draft in drafts]
    below = max(bounds) if largest else sum(bounds)

    def price(listed: Sequence[Draft]) -> float:
        error = _together(listed, largest)
        named = {f"union of {len(listed)} products": error} if listed[1:] else listed[0].priced
        for name, each in named.items():
            priced[name] = min(priced.get(name, math.inf), math.sqrt(each))
        return error

    best = price(drafts)
    while 1 < len(drafts) <= PARTS:
        tried = []
        for one, other in itertools.combinations(range(len(drafts)), 2):
            joined = _draft(asked, drafts[one].places + drafts[other].places, sizes, largest)
            if joined is not None:
                rest = [d for at, d in enumerate(drafts) if at not in (one, other)]
                tried.append([joined, *rest])
        listed = min(tried, key=price, default=drafts)
        if not _together(listed, largest) < best:
            break
        drafts, best = listed, _together(listed, largest)
    return drafts, priced, below


def _draft(
    asked: Sequence[Asked], places: Sequence[int], sizes: Mapping[str, int], largest: bool
) -> Draft | None:
    """The best product for some families; None where its table would be too large."""
    some = [asked[at] for at in places]
    names = sorted({name for each in some for name in each.split.along})
    atoms: dict[str, Atoms] = {}
    rows: dict[str, Rows] = {}
    where: dict[str, list[slice]] = {}
    for name in names:
        atoms[name], rows[name], where[name] = _along(some, name, sizes[name])
    if math.prod(each.count for each in atoms.values()) > CELLS:
        return None
    if any(each.count > LONGEST for each in atoms.values()):
        return None
    chosen: dict[str, Along] = {}
    priced, used = dict[str, float](), dict[str, Floats]()
    worth = np.array([each.worth for each in some])
    error = float(worth.max() if largest else worth.sum())  # of a total alone
    factors = {name: np.ones(len(some)) for name in names}  # of each family along each axis
    for _ in range(_ROUNDS if len(names) > 1 else 1):
        for name in names:
            others = [factors[other] for other in names if other != name]
            each = np.multiply.reduce([worth, *others])
            weights = np.zeros(rows[name].count)
            for own, much in zip(where[name], each, strict=True):
                weights[own] += much
            used[name] = weights
            for tried in reversed(along(rows[name], weights, largest)):
                added = (tried.errors[own] for own in where[name])
                factors[name] = np.array([some.max() if largest else some.sum() for some in added])
                chosen[name] = tried
                errors = np.multiply.reduce([worth, *factors.values()])
                error = float(errors.max() if largest else errors.sum())
                if len(chosen) == len(names):
                    priced[" x ".join(f"{chosen[of].name} on {of}" for of in names)] = error
    below, kinds = 0.0, [len({own.start for own in where[name]}) for name in names]
    if math.prod(kinds) == len(some) and np.allclose(worth, worth[0], rtol=1e-9):
        # all combinations of some rows of each column: gamma_F, and gamma_2, multiply
        below = error * (1.0 - 1e-9)
        for name in names:
            each = chosen[name]
            below *= each.below / each.error(used[name], largest)
    return Draft(tuple(places), atoms, chosen, error, priced, below)


def _all_atoms(asked: Sequence[Asked], sizes: Mapping[str, int]) -> dict[str, Atoms]:
    """The atoms of each column that is asked about."""
    names = sorted({name for each in asked for name in each.split.along})
    return {name: _along(asked, name, sizes[name])[0] for name in names}


def _along(some: Sequence[Asked], name: str, size: int) -> tuple[Atoms, Rows, list[slice]]:
    """The atoms of a column, all rows over them, and those of each family."""
    one = np.ones(1, np.int64)
    every = Bundle(0 * one, size * one, 0 * one, np.ones(1), 1)
    bundles: dict[bytes, Bundle] = {}
    keys = []
    for each in some:
        bundle = each.split.along.get(name, every)
        key = bundle.key
        bundles.setdefault(key, bundle)
        keys.append(key)
    atoms = Atoms.told_by([*bundles.values()], size)
    over = [atoms.bundle(bundle) for bundle in bundles.values()]
    start, slices = 0, {}
    for key, bundle in bundles.items():
        slices[key] = slice(start, start + bundle.rows)
        start += bundle.rows
    rows = Rows.of([bundle for bundle in over if bundle is not None], atoms.count)
    return atoms, rows, [slices[key] for key in keys]


def _strategy(workload: Workload, drafts: Sequence[Draft], largest: bool) -> Strategy:
    """The products in whole numbers, each with its part of the price."""
    shares = [draft.error if largest else math.sqrt(draft.error) for draft in drafts]
    ideal = [
        math.sqrt(share / sum(shares) / draft.moved)
        for share, draft in zip(shares, drafts, strict=True)
    ]
    fine = _FINE if len(drafts) > 1 else 1
    parts = []
    for draft, factor in zip(drafts, ideal, strict=True):
        axes = tuple(each.axis for each in draft.along.values())
        every = counted(workload.domain, {name: own.of for name, own in draft.atoms.items()})
        parts.append(Product(every, axes, round(factor / min(ideal) * fine)))
    return Strategy(tuple(parts))


def _bound(asked: Sequence[Asked], sizes: Mapping[str, int]) -> float:
    """A bound from below on the weighted squared error of every strategy: the one at equal weights
    on some of the cells, evenly spread."""
    listed = _all_atoms(asked, sizes)
    names = list(listed)
    chosen: dict[str, Ints] = {}
    most = BOUND
    for left, name in enumerate(sorted(names, key=lambda name: listed[name].count)):
        share = max(int(most ** (1 / (len(names) - left)) + 1e-9), 1)
        first = listed[name].first
        chosen[name] = first[np.linspace(0, len(first) - 1, min(share, len(first))).astype(int)]
        most //= len(chosen[name])
    cells = {name: chosen[name] for name in names}
    shape = [len(cells[name]) for name in names]
    gram, held = np.zeros((math.prod(shape),) * 2), list[Floats]()
    for at, each in enumerate(asked, 1):
        held.append(_on_cells(each, cells, shape))
        if sum(map(len, held)) >= BOUND or at == len(asked):  # a family may have as many rows
            rows = np.concatenate(held)
            gram += rows.T @ rows
            held.clear()
    return float(svd_bound(gram, 1.0) ** 2)


def _on_cells(asked: Asked, cells: Mapping[str, Ints], shape: Sequence[int]) -> Floats:
    """The rows of a family on some cells, (rows, cells), times the root of what they are worth."""
    place, weight = np.zeros((1,) * len(shape), np.int64), np.ones((1,) * len(shape))
    for axis, (name, codes) in enumerate(cells.items()):
        if name not in asked.split.along:
            continue
        bundle, along = asked.split.along[name], [1] * len(shape)
        along[axis] = len(codes)
        labels, sizes = (part.reshape(along) for part in bundle.read(codes))
        place = np.where((place < 0) | (labels < 0), -1, place * bundle.rows + labels)
        weight = weight * sizes
    flat = np.broadcast_to(place, shape).reshape(-1)
    kept, row = np.unique(flat, return_inverse=True)
    found = np.zeros((len(kept), len(flat)))
    found[row.reshape(-1), np.arange(len(flat))] = np.broadcast_to(weight, shape).reshape(-1)
    return found[kept >= 0] * math.sqrt(asked.worth)
