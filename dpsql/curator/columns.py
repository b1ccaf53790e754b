"""The columns of W, visited a slice of bounded memory at a time; in integers alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.query.linear import TableOf, Weight, combinations, product, tables_of
from dpsql.query.predicate import TRUE, Codes, Predicate, mentioned, truth

Ints: TypeAlias = NDArray[np.int64]

SLICE = 1 << 17  # cells of a slice, about
_SAFE = 1 << 62  # sums below it are computed in 64 bits


@dataclass(frozen=True, slots=True)
class Moved:
    """The largest sum of squares, the largest sum of sizes, the largest size; or bounds on them."""

    squared: int
    absolute: int
    largest: int
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Family:
    """Weights that count where all tests hold, each in `times` queries."""

    tests: tuple[Predicate, ...]
    weights: tuple[Weight, ...]
    times: int

    @property
    def names(self) -> set[str]:
        """The columns of the table that the family mentions."""
        found: set[str] = set()
        for test in self.tests:
            found |= mentioned(test)
        for weight in self.weights:
            found |= weight_names(weight)
        return found

    @property
    def tables(self) -> list[TableOf]:
        """The tables that tell its cells apart."""
        terms = [term for weight in self.weights for term in weight.terms]
        return [
            *tables_of([*self.tests, *(term.predicate for term in terms)]),
            *((t.table.domain, t.table.values) for t in terms if t.table is not None),
        ]

    @property
    def signed(self) -> bool:
        """Whether a weight may be negative."""
        return any(
            term.table is not None and int(term.table.values.min(initial=0)) < 0
            for weight in self.weights
            for term in weight.terms
        )

    @property
    def squares(self) -> int:
        """A bound on the sum of the squares of the weights of one cell in one group."""
        return sum(weight.largest**2 for weight in self.weights)

    def holds(self, codes: Codes, count: int) -> NDArray[np.bool_]:
        """Where all tests hold."""
        found = np.ones(count, bool)
        for test in self.tests:
            found &= truth(test, codes, count) == TRUE
        return found

    def values(self, codes: Codes, count: int) -> Ints:
        """(weights, cells): the weights of each cell, 0 where a test does not hold."""
        found = np.zeros((len(self.weights), count), np.int64)
        holds = self.holds(codes, count)
        if holds.any():
            for row, weight in enumerate(self.weights):
                found[row] = weight.values(codes, count) * holds
        return found


def weight_names(weight: Weight) -> set[str]:
    """The columns of the table that a weight mentions."""
    found: set[str] = set()
    for term in weight.terms:
        found |= mentioned(term.predicate)
        if term.table is not None:
            found |= set(term.table.domain.names)
    return found


def slices(
    representatives: Mapping[str, NDArray[np.int64]], cells: int = SLICE
) -> Iterator[tuple[dict[str, NDArray[np.int64]], int]]:
    """The combinations of representatives, about `cells` at a time: their codes, and how many."""
    if not representatives:
        yield {}, 1
        return
    widest = max(representatives, key=lambda name: len(representatives[name]))
    codes = representatives[widest]
    each = max(1, cells * len(codes) // combinations(representatives))
    for start in range(0, len(codes), each):
        yield product({**representatives, widest: codes[start : start + each]})


def most(families: Sequence[Family], codes: Codes, count: int) -> Moved:
    """The largest column over the cells of a slice."""
    sizes = np.abs(np.concatenate([family.values(codes, count) for family in families]))
    if not sizes.any():
        return Moved(0, 0, 0)
    times = np.repeat([f.times for f in families], [len(f.weights) for f in families])
    return Moved(_squares(sizes, times), int((times @ sizes).max()), int(sizes.max()))


def _squares(sizes: Ints, times: Ints) -> int:
    """The largest of times @ sizes^2, exactly; floats only tell which cells to look at."""
    rows = list(zip(times.tolist(), sizes.max(axis=1).tolist(), strict=True))
    if sum(n * top * top for n, top in rows) < _SAFE:
        return int((times @ (sizes * sizes)).max())
    rough = times.astype(np.float64) @ sizes.astype(np.float64) ** 2
    doubt = (len(sizes) + 4) * 2.0**-51  # more than the roundings of two such sums
    near = np.unique(sizes[:, rough >= rough.max() * (1.0 - doubt)], axis=1)
    listed: list[int] = times.tolist()
    columns: list[list[int]] = near.T.tolist()
    return max(sum(n * x * x for n, x in zip(listed, c, strict=True)) for c in columns)
