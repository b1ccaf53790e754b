"""Strategies: integer combinations of linear queries, measured in place of a workload's own.

The answers W h of a workload are estimated as R (A W h + z), for any R with W = R A W: what has to
be noised is A W, and the noise of the answers is R z (the matrix mechanism; Li et al. 2010). Its
parts are on one scale, so that the same noise suits all. Everything here is public.

A part is an integer combination of answers (`Mixed`), the residual tables of what is grouped by
several sets of keys (`Residuals`; Xiao et al. 2023, arXiv:2305.08175), or a table that an integer
matrix is applied to along each axis (`Product`; McKenna et al. 2018, arXiv:1808.03537).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.query.axis import Axis
from dpsql.query.contrasts import Contrast
from dpsql.query.linear import Block, Workload
from dpsql.query.predicate import TRUE, Codes, truth

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

EXACT = 1 << 53  # sums of whole numbers below it are exact in floats
_PATTERNS = 1 << 16  # of keys in which two rows agree, times tables


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

    @property
    def scale(self) -> int:
        """By what the squares of `columns` are to be multiplied."""
        return 1

    @property
    def least(self) -> Fraction:
        """Of columns mixed group by group: how much of their inner product two rows share, at
        least, as a part of what they share in the same groups. In other groups that is nothing.
        """
        return Fraction(0)

    def repeats(self, block: Block) -> int:
        """How often a row is counted in a block that is mixed group by group."""
        return len(block.groupings)

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
        if self.whole:
            return [(1, self.workload.columns(codes, count).astype(np.float64))]
        blocks = self.workload.blocks
        return [(self.repeats(block), _weights(block, codes, count)) for block in blocks]


def _weights(block: Block, codes: Codes, count: int) -> Floats:
    """(weights, count): the weights of a block in each cell, 0 where its condition is not true."""
    holds = truth(block.where, codes, count) == TRUE
    found: Floats = np.stack([w.values(codes, count) * holds for w in block.weights]).astype(float)
    return found


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Residuals:
    """Residual tables: of each grouping factor x (kron of its keys' Q) x table x matrix'.

    `workload` is one block, whose groupings list all combinations of the groups of some keys, the
    last key running fastest: those of `sets`, each ascending, of keys that have `sizes` groups. A
    row is in one group of each grouping, and moves the values of all by the same length, whichever
    groups these are: `scale` x |matrix x its weights|^2 is the square.
    """

    workload: Workload
    sizes: tuple[int, ...]
    sets: tuple[tuple[int, ...], ...]
    factors: tuple[int, ...]
    matrix: Ints

    def __post_init__(self) -> None:
        (block,) = self.workload.blocks
        if self.matrix.ndim != 2 or self.matrix.shape[1] != len(block.weights):
            raise ValueError("a matrix mixes the weights of each group")
        if not (self.factors and min(self.factors) >= 1 and len(self.factors) == len(self.sets)):
            raise ValueError("each table has a whole factor")
        listed = zip(block.groupings, self.shapes, strict=True)
        if any(grouping.size != math.prod(shape) for grouping, shape in listed):
            raise ValueError("a table has all combinations of its keys' groups")
        heaviest = max(weight.largest for weight in block.weights)
        if not int(np.abs(self.matrix).sum(axis=1).max()) * max(heaviest, 1) < EXACT:
            raise ValueError("a strategy's weights are below 2^53")

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of each table the number of groups of its keys."""
        return tuple(tuple(self.sizes[key] for key in keys) for keys in self.sets)

    @property
    def whole(self) -> bool:
        return False

    @property
    def width(self) -> int:
        return int(self.matrix.shape[1])

    @property
    def size(self) -> int:
        """The number of values that are measured."""
        rows = [math.prod(Contrast(n).rows for n in shape) for shape in self.shapes]
        return sum(rows) * len(self.matrix)

    @property
    def scale(self) -> int:
        """The sum over all tables of factor^2 x prod |Q e_x|^2."""
        return self._shared(range(len(self.sizes)))

    @property
    def least(self) -> Fraction:
        """The least of sum factor^2 x prod <Q e_x, Q e_y> over pairs x, y, as a part of `scale`:
        of all sets of keys in which two rows agree, or -1, which is no more.
        """
        keys = range(len(self.sizes))
        if len(self.sets) << len(keys) > _PATTERNS:
            return Fraction(-1)
        agree = [some for r in range(len(keys) + 1) for some in itertools.combinations(keys, r)]
        return Fraction(min(self._shared(some) for some in agree), self.scale)

    def _shared(self, agree: Sequence[int]) -> int:
        """sum factor^2 x prod <Q e_x, Q e_y> for x and y that agree in these keys alone."""
        each = [
            (own.norm if key in agree else own.inner)
            for key, own in enumerate(map(Contrast, self.sizes))
        ]
        listed = zip(self.sets, self.factors, strict=True)
        return sum(factor**2 * math.prod(each[key] for key in keys) for keys, factor in listed)

    def repeats(self, block: Block) -> int:
        return 1

    def matvec(self, codes: Codes, counts: Ints) -> Ints:
        """What is measured, on a sparse histogram: (values, rows), one table after another; exact,
        in Python integers where 64 bits might not hold them.
        """
        (tables,) = self.workload.matvec(codes, counts)
        reach = int(np.abs(tables).max(initial=0)) * int(np.abs(self.matrix).sum(axis=1).max())
        found, start = [], 0
        for shape, factor in zip(self.shapes, self.factors, strict=True):
            stop = start + math.prod(shape)
            own = [Contrast(n) for n in shape]
            bound = reach * factor * math.prod(each.reach for each in own)
            exact: Any = np.int64 if bound < 1 << 62 else object
            table = tables[start:stop].astype(exact, copy=False) @ self.matrix.T.astype(exact)
            values = table.reshape(*shape, len(self.matrix))
            for axis, each in enumerate(own):
                values = each.measured(values, axis)
            found.append((values * factor).reshape(-1, len(self.matrix)))
            start = stop
        return np.concatenate(found)

    def columns(self, codes: Codes, count: int) -> list[tuple[int, Floats]]:
        """The weights of a row in each of some cells, (width, count)."""
        return [(1, _weights(block, codes, count)) for block in self.workload.blocks]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Product:
    """factor x (kron of a matrix for each axis) x table.

    `workload` is one block of one weight of 1, whose grouping counts all combinations of the groups
    of some keys, one for each of the `axes`, the last key running fastest. A row moves the values
    by a column of the product, whose length is that of its columns along each axis together.
    """

    workload: Workload
    axes: tuple[Axis, ...]
    factor: int

    def __post_init__(self) -> None:
        (block,) = self.workload.blocks
        (grouping,), (weight,) = block.groupings, block.weights
        if weight.largest != 1 or not self.factor >= 1:
            raise ValueError("a product counts rows, and has a whole factor")
        if grouping.size != self.size or len(grouping.keys) != len(self.axes):
            raise ValueError("a table has all combinations of its keys' groups")

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis.size for axis in self.axes)

    @property
    def size(self) -> int:
        """The number of values that are measured."""
        return math.prod(self.shape)

    def matvec(self, codes: Codes, counts: Ints) -> Ints:
        """What is measured, on a sparse histogram, (values, 1); exact, in Python integers where 64
        bits might not hold them.
        """
        (table,) = self.workload.matvec(codes, counts)
        reach = int(np.abs(table).max(initial=0)) * self.factor
        for axis in self.axes:
            reach *= axis.reach
        exact: Any = np.int64 if reach < 1 << 62 else object
        values = table.astype(exact, copy=False).reshape(self.shape)
        for at, axis in enumerate(self.axes):
            values = np.moveaxis(axis.measured(np.moveaxis(values, at, -1)), -1, at)
        found: Ints = (values * self.factor).reshape(-1, 1)
        return found


Part: TypeAlias = Mixed | Residuals | Product


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Strategy:
    """Parts that are measured together with noise of one law."""

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError("a strategy measures something")

    @property
    def size(self) -> int:
        """The number of values that are measured."""
        return sum(part.size for part in self.parts)
