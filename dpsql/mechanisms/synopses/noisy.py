"""Noisy tables: what a model of the data is fitted to; values that were released, nothing else.

A table counts rows by classes of codes of a few columns. Either its cells were measured as they
are, all or some of them, or only what the table tells beyond its margins (`centred`): then `values`
is C (m + z) with C = I - 11'/n along each axis and independent z, as residual tables have it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.kept.tabled import Tabled
from dpsql.domain import Domain
from dpsql.mechanisms.strategies.tables import Rebuilt
from dpsql.mechanisms.synopses.junction import Floats, Names
from dpsql.query.contrasts import Contrast

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class NoisyTable:
    """`values` of a table over `classes`, an axis each in order; noise of a variance, rows squared.

    `classes[i]` has the class of each code of `names[i]`; `seen` says which cells were measured,
    None for all.
    """

    names: Names
    classes: tuple[Ints, ...]
    values: Floats
    variance: float
    centred: bool = False
    seen: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        shape = tuple(int(own.max()) + 1 for own in self.classes)
        if len(self.names) != len(self.classes) or self.values.shape != shape:
            raise ValueError("a table has one value for each combination of its columns' classes")
        if not 0 < self.variance < math.inf:
            raise ValueError("noise has a finite variance above 0")
        if self.seen is not None and (self.centred or self.seen.shape != shape):
            raise ValueError(
                "the cells that were measured are those of a table that is not centred"
            )

    @property
    def spread(self) -> float:
        """The variance of one value: less than that of z where the table is centred."""
        lost = [1 - 1 / n for n in self.values.shape] if self.centred else []
        return float(self.variance * math.prod(lost))


def whole(domain: Domain, names: Sequence[str], values: Floats, variance: float) -> NoisyTable:
    """A table of all codes of some columns, in the order of the domain."""
    classes = tuple(np.arange(domain.size(name)) for name in names)
    return NoisyTable(tuple(names), classes, values, variance)


def single(
    domain: Domain, classes: dict[str, Ints], indicator: Floats, value: float, variance: float
) -> NoisyTable:
    """One count of a single combination of classes, such as a conjunction is.

    Raises ValueError for a query that is no count of one combination: its columns' marginal is
    measured instead.
    """
    cells = np.flatnonzero(indicator)
    if len(cells) != 1 or indicator.flat[cells[0]] != 1:
        raise ValueError("a count of one combination of classes is fitted as a single cell")
    names = tuple(name for name in domain.names if name in classes)
    order = [list(classes).index(name) for name in names]
    seen = indicator.transpose(order) != 0
    own = tuple(classes[name] for name in names)
    return NoisyTable(names, own, np.where(seen, value, 0.0), variance, seen=seen)


def residuals(
    domain: Domain, kept: Tabled, names: Sequence[str], variance: float
) -> list[NoisyTable]:
    """The residual tables of a release whose keys are these columns, of one count a group; the
    noise of what was measured has `variance`.

    With Q'Q = s C of each key, Q^+ of values with noise of variance v is C z with z of v / prod s.
    """
    if kept.matrix.shape != (1, 1):
        raise ValueError("tables of one count a group are fitted")
    told = Rebuilt(kept).residuals
    found = []
    for keys, factor in zip(kept.sets, kept.factors, strict=True):
        size = math.prod(Contrast(kept.sizes[key]).multiple for key in keys)
        scale = float(factor * int(kept.matrix[0, 0])) ** 2 * size
        each = tuple(names[key] for key in keys)
        classes = tuple(np.arange(domain.size(name)) for name in each)
        found.append(NoisyTable(each, classes, told[keys][..., 0], variance / scale, bool(keys)))
    return found


def total(tables: Sequence[NoisyTable]) -> float:
    """The number of rows by all tables that tell it, weighted by precision; at least 0.

    Raises ValueError where none does.
    """
    told = [t for t in tables if not t.centred and t.seen is None]
    if not told:
        raise ValueError("the number of rows needs a table of all rows")
    weights = [1 / (t.values.size * t.variance) for t in told]
    sums = [w * float(t.values.sum()) for w, t in zip(weights, told, strict=True)]
    return max(math.fsum(sums) / math.fsum(weights), 0.0)


def linear(tables: Sequence[NoisyTable], names: Names) -> Floats:
    """The table of some columns as all residual tables within it give it, without a model."""
    by_names = {table.names: table for table in tables if table.centred or not table.names}
    sizes = dict(zip(names, by_names[names].values.shape, strict=True))
    found = np.zeros(tuple(sizes.values()))
    for r in range(len(names) + 1):
        for some in itertools.combinations(names, r):
            shape = [sizes[name] if name in some else 1 for name in names]
            others = math.prod(size for name, size in sizes.items() if name not in some)
            found += by_names[some].values.reshape(shape) / others
    return found
