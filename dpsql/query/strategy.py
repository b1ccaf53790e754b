"""Strategies: integer combinations of linear queries, measured in place of a workload's own.

The answers W h of a workload are estimated as R (A W h + z), for any R with W = R A W: what has to
be noised is A W, and the noise of the answers is R z (the matrix mechanism; Li et al. 2010). Its
parts are on one scale, so that the same noise suits all. Everything here is public.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.query.linear import Block, Workload
from dpsql.query.predicate import TRUE, Codes, truth

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

EXACT = 1 << 53  # sums of whole numbers below it are exact in floats


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Mixed:
    """The queries of `workload`, mixed by an integer `matrix` (rows, width).

    Either all of them together, in the order of blocks, groups and weights; or the weights of each
    group alone, in blocks of `width` weights each.
    """

    workload: Workload
    matrix: Ints

    def __post_init__(self) -> None:
        if self.matrix.ndim != 2 or not len(self.matrix):
            raise ValueError("a strategy mixes queries by a matrix")
        if not self.whole and {len(b.weights) for b in self.workload.blocks} != {self.width}:
            raise ValueError("a matrix mixes all queries, or the weights of each group")
        heaviest = max((w.largest for b in self.workload.blocks for w in b.weights), default=0)
        if not int(np.abs(self.matrix).sum(axis=1).max()) * max(heaviest, 1) < EXACT:
            raise ValueError("a strategy's weights are below 2^53")

    @property
    def width(self) -> int:
        return int(self.matrix.shape[1])

    @property
    def whole(self) -> bool:
        """Whether all queries are mixed together."""
        return self.width == self.workload.size

    @property
    def size(self) -> int:
        """The number of values that are measured."""
        return self.workload.size // self.width * len(self.matrix)

    def matvec(self, codes: Codes, counts: Ints) -> Ints:
        """What is measured, on a sparse histogram: (groups, rows), of one group where all are
        mixed together; exact, in Python integers where 64 bits might not hold them.
        """
        found = [block.reshape(-1) for block in self.workload.matvec(codes, counts)]
        values = np.concatenate(found).reshape(-1, self.width)
        reach = int(np.abs(values).max(initial=0)) * int(np.abs(self.matrix).sum(axis=1).max())
        exact = np.int64 if reach < 1 << 62 else object
        mixed: Ints = values.astype(exact, copy=False) @ self.matrix.T.astype(exact, copy=False)
        return mixed

    def columns(self, codes: Codes, count: int) -> list[tuple[int, Floats]]:
        """What a row in each of some cells adds to queries that are mixed, (width, count), and
        how often: all queries together, or the weights of one group of each block.
        """
        blocks = self.workload.blocks
        if not self.whole:
            return [(len(block.groupings), _weights(block, codes, count)) for block in blocks]
        found = np.zeros((self.width, count))
        start = 0
        for block in blocks:
            each = _weights(block, codes, count)
            cells = np.flatnonzero(each.any(axis=0))
            some = {name: c[cells] for name, c in codes.items()}
            for grouping in block.groupings:
                place = grouping.position(some, len(cells)) if grouping.keys else 0 * cells
                for row, weights in enumerate(each[:, cells]):
                    found[start + place * len(each) + row, cells] = weights
                start += grouping.size * len(each)
        return [(1, found)]


def _weights(block: Block, codes: Codes, count: int) -> Floats:
    """(weights, count): the weights of a block in each cell, 0 where its condition is not true."""
    holds = truth(block.where, codes, count) == TRUE
    found: Floats = np.stack([w.values(codes, count) * holds for w in block.weights]).astype(float)
    return found


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Strategy:
    """Parts that are measured together with noise of one law."""

    parts: tuple[Mixed, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError("a strategy measures something")

    @property
    def size(self) -> int:
        """The number of values that are measured."""
        return sum(part.size for part in self.parts)
