"""Parts of a strategy before they are put into whole numbers: which ones err least together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.strategies.cells import Cells
from dpsql.mechanisms.strategies.clusters import Cluster, alone, clusters, part_of
from dpsql.mechanisms.strategies.formulas import OPTIMAL
from dpsql.mechanisms.strategies.full import kinds, read
from dpsql.mechanisms.strategies.largest import smallest_largest
from dpsql.mechanisms.strategies.marginals import Ideal, ideal_of
from dpsql.mechanisms.strategies.mixing import AWAY, GAP, covariance, square
from dpsql.mechanisms.strategies.optimum import Optimum, optimum, weighted_gram
from dpsql.mechanisms.strategies.rows import Listed
from dpsql.mechanisms.strategies.solved import Solved, Tables
from dpsql.mechanisms.strategies.strategy_cache import StrategyCache, folder, key
from dpsql.query.canon import nobody
from dpsql.query.linear import Workload

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

GRIDS = (1 << 20, 1 << 16, 1 << 12)  # of a strategy's largest entry; less for large weights
FACTORS = 1 << 6  # of a residual table: its share of the price is realised within 1 / 64
MOST = 1 << 34  # of a strategy's largest entry, for the sake of residual tables beside it
FEW = 150  # queries that are soon mixed together
WORTH = 0.01  # less error than that is not worth what cannot be fitted with other releases
CLOSE, FIRST = 5e-4, 3e-3  # the same of a strategy on cells; on very many that of a step
MANY = 256  # cells for which finding one takes longer than reading it


def rmse(drafts: Sequence[Draft | TableDraft], largest: bool) -> float:
    """The root of the error of some parts together, each with its share of the price."""
    errors = [draft.error for draft in drafts]
    return math.sqrt(sum(errors)) if largest else sum(map(math.sqrt, errors))


def drafted(
    workload: Workload, wanted: Sequence[Floats], largest: bool, grouped: bool
) -> list[Draft | TableDraft]:
    """The parts of least error that are found; if `grouped`, of those that mix the aggregates of
    each group alone. What counts nobody is left out of all others.
    """
    none = nobody(workload)
    every = [at for at, each in enumerate(none) if not each]
    found = (_by_group if grouped else _best)(workload, every, wanted, largest)
    return [*found, *(_free(alone(workload, at)) for at, each in enumerate(none) if each)]


def _best(
    workload: Workload, every: Sequence[int], wanted: Sequence[Floats], largest: bool
) -> Sequence[Draft | TableDraft]:
    """The parts of least error that are found for some blocks.

    All queries mixed together are the best, and are looked for where they are few. A residual plan
    is as good for tables alone, and is looked at where these are a quarter of all queries or more;
    where they are most of many nothing else is tried beside the best noise for the others.
    """
    listed = clusters(workload, every)
    queries = sum(each.workload.size for each in listed)
    together = len(listed) == 1 and listed[0].whole
    tables: list[TableDraft] = []
    if not (together and queries <= FEW):
        tables = _tables(workload, wanted, largest)
    if not tables:
        return _drafts(listed, wanted, largest)
    size = sum(kind.ideal.workload.size for kind in tables)
    rest = sorted(set(every).difference(*(kind.places for kind in tables)))
    all_in_one = not rest and len(tables) == 1 and tables[0].lower
    if size < queries // 4 or (together and not all_in_one):
        return _drafts(listed, wanted, largest)
    others = [*tables, *_drafts(clusters(workload, rest), wanted, largest)]
    if size > max(FEW, queries // 2):
        return others
    plain = _drafts(listed, wanted, largest)
    return others if rmse(others, largest) < rmse(plain, largest) * (1 - WORTH) else plain


def _by_group(
    workload: Workload, every: Sequence[int], wanted: Sequence[Floats], largest: bool
) -> Sequence[Draft | TableDraft]:
    """The best noise for the aggregates of each group alone, the same for all groups of a block."""
    return _drafts([alone(workload, at) for at in every], wanted, largest)


def _drafts(
    listed: Sequence[Cluster], wanted: Sequence[Floats], largest: bool
) -> list[Draft | TableDraft]:
    """The best noise for each cluster."""
    found: list[Draft | TableDraft] = []
    for cluster in listed:
        mine = np.concatenate([wanted[at].reshape(-1) for at in cluster.places])
        found.append(_draft(cluster, mine, largest))
    return found


def _tables(workload: Workload, wanted: Sequence[Floats], largest: bool) -> list[TableDraft]:
    """Residual plans for blocks that are full tables of the same counts: for those of the most
    tables, and for others of more than few queries.
    """
    every = [read(workload, places) for places in kinds(workload)]
    found: list[TableDraft] = []
    for kind in sorted(every, key=lambda some: -some.number):
        some = part_of(workload, kind.blocks)
        if kind.number < 2 or (found and some.size <= FEW):
            continue
        ideal = ideal_of(some, [wanted[at] for at in kind.blocks], largest=largest)
        if ideal is not None:
            found.append(TableDraft(kind.blocks, ideal))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """A cluster with T (rows, width) of sensitivity 1, the error of its answers and a bound on it.

    The error is the weighted sum of squares, or the largest, at a variance of 1. It is 0 where
    nobody is counted: nothing moves T then.
    """

    cluster: Cluster
    root: Floats
    error: float
    lower: float

    @property
    def largest(self) -> float:
        """The largest entry at a sensitivity of 1."""
        return float(np.abs(self.root).max())

    def solved(self, scale: float) -> Solved:
        """The part in whole numbers, at this scale. Raises ValueError where they are too large."""
        root = square(self.root) * scale
        return Solved.of(self.cluster, np.rint(root).astype(np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class TableDraft:
    """A residual plan for the blocks at these places, its error and a bound on it."""

    places: tuple[int, ...]
    ideal: Ideal

    @property
    def error(self) -> float:
        return self.ideal.error

    @property
    def lower(self) -> float:
        return self.ideal.lower

    def solved(self, scale: float) -> Tables:
        """The part in whole numbers, at this scale. Raises ValueError where it is too large."""
        return Tables(self.places, self.ideal.solved(scale))


def solved(
    drafts: Sequence[Draft | TableDraft], scales: Sequence[float]
) -> tuple[Solved | Tables, ...]:
    """All parts on the finest grid that holds them. Raises ValueError where none does.

    Residual tables have factors as fine as theirs alone where that takes no grid too fine. Parts
    of scale 0 have no share of the price, and need none.
    """
    mixed, finest = 0.0, 0.0
    for draft, scale in zip(drafts, scales, strict=True):
        match draft:
            case Draft():
                mixed = max(mixed, draft.largest * scale)
            case TableDraft():
                finest = max(finest, FACTORS / (draft.ideal.least * scale))
    units = [grid / mixed for grid in GRIDS] if mixed else [finest]
    if mixed and finest > units[0]:
        units.insert(0, min(finest, MOST / mixed))
    for unit in units:
        try:
            listed = zip(drafts, scales, strict=True)
            return tuple(draft.solved((scale or 1.0) * unit) for draft, scale in listed)
        except ValueError:
            if unit == units[-1]:
                raise
    raise AssertionError("there is a grid")


def _draft(cluster: Cluster, wanted: Floats, largest: bool) -> Draft:
    """The best noise for one cluster; of a SELECT that is too large, for the weights of a group.

    Where these cannot be listed they are measured as they are: at most their largest sizes come
    together in a row, and as `importance` weighs them equal noise is the best for that.
    """
    columns, times = cluster.columns, 1
    if not cluster.whole:
        (block,) = cluster.workload.blocks
        times = len(block.groupings)
        wanted = wanted.reshape(-1, len(block.weights)).sum(axis=0)
    size = (1.0 if largest else float(wanted.sum())) * times
    if cluster.cells is not None:
        best = _on_cells(cluster.cells, None if largest else wanted)
        return Draft(cluster, best.matrix, size * best.rmse**2, size * best.lower**2)
    if columns is None:
        squared = sum(float(w.largest) ** 2 for b in cluster.workload.blocks for w in b.weights)
        plain = np.eye(len(wanted)) / math.sqrt(squared * times)
        return Draft(cluster, plain, size * squared, 0.0)
    found = covariance(columns, None if largest else wanted)
    return Draft(
        cluster, found.root / math.sqrt(times), size * found.rmse**2, size * found.lower**2
    )


def _free(cluster: Cluster) -> Draft:
    """Queries that count nobody: with so much weight that their noise does not matter."""
    (block,) = cluster.workload.blocks
    heaviest = max((weight.largest for weight in block.weights), default=0)
    return Draft(cluster, np.eye(len(block.weights)) * (AWAY / max(heaviest, 1)), 0.0, 0.0)


def _on_cells(cells: Cells, wanted: Floats | None) -> Optimum:
    """The strategy on the cells of least weighted error; without weights of the least largest.

    On many cells it is looked for in the cache on disk.
    """
    name, cache = "", StrategyCache(folder())
    gap = CLOSE if cells.count <= OPTIMAL else FIRST
    if cells.count >= MANY:
        parts: dict[str, NDArray[Any]] = {} if wanted is None else {"wanted": wanted}
        objective = "largest error on cells" if wanted is None else "weighted error on cells"
        name = key(objective, gap=GAP if wanted is None else gap, rows=cells.rows, **parts)
        known = cache.optimum(name)
        if known is not None:
            return known
    if wanted is None:
        found = smallest_largest(Listed(cells.rows.astype(np.float64)), gap=GAP)
    else:
        found = optimum(weighted_gram(cells.rows, wanted), float(wanted.sum()), gap=gap)
    if name:
        cache.keep_optimum(name, found)
    return found
