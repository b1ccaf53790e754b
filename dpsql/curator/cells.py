"""The non-empty cells of a projection of the data, and their sums over fewer columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpsql.curator.sealed import Sealed, unseal

_WORD: Final = 2**63  # what a key of several codes must stay below
_DENSE: Final = 2**16  # keys below this are summed in a table of all of them


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Cells:
    """The non-empty cells of a set of columns, in no order: one code a column, and the rows there.

    `codes` has one array for each column, in the order of the projection; all have the length of
    `counts`. Of no columns there is one cell, the whole table, even when it is empty.
    """

    codes: Mapping[str, NDArray[np.int64]]
    counts: NDArray[np.int64]

    def __post_init__(self) -> None:
        for array in (*self.codes.values(), self.counts):
            if array.dtype != np.int64 or array.shape != (len(self.counts),):
                raise ValueError("codes and counts are int64 arrays of one length")
            array.setflags(write=False)
        object.__setattr__(self, "codes", MappingProxyType(dict(self.codes)))

    @property
    def nbytes(self) -> int:
        """The memory that the arrays take, in bytes."""
        return self.counts.nbytes + sum(array.nbytes for array in self.codes.values())


def project(sealed: Sealed[Cells], columns: Sequence[str]) -> Sealed[Cells]:
    """The cells of some of the columns, summed exactly. Raises KeyError for another column."""
    cells = unseal(sealed)
    kept = {name: cells.codes[name] for name in columns}
    keys = np.zeros(len(cells.counts), np.int64)
    sizes: list[int] = []
    for codes in kept.values():
        size = int(codes.max(initial=0)) + 1
        if math.prod(sizes) * size >= _WORD:  # number the keys that occur, and go on from there
            keys = np.unique(keys, return_inverse=True)[1].astype(np.int64).reshape(-1)
            sizes = [len(keys)]
        keys, sizes = keys * size + codes, [*sizes, size]
    first, counts = _sums(keys, cells.counts, math.prod(sizes))
    if not kept:
        return Sealed(Cells({}, np.array([counts.sum()], np.int64)))
    return Sealed(Cells({name: codes[first] for name, codes in kept.items()}, counts))


def _sums(
    keys: NDArray[np.int64], counts: NDArray[np.int64], size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each key that occurs, where it does (once), and the sum of its counts."""
    if size <= _DENSE:
        place = np.full(size, -1, np.int64)
        place[keys] = np.arange(len(keys))
        table = np.zeros(size, np.int64)
        np.add.at(table, keys, counts)
        occurring = np.flatnonzero(place >= 0)
        return place[occurring], table[occurring]
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    sums = np.zeros(len(first), np.int64)
    np.add.at(sums, inverse.reshape(-1), counts)
    return first.astype(np.int64), sums
