"""Rows of a factored distribution: drawn from it, or dealt out so that counts are kept.

Cliques are gone through from the roots on: each gives the columns that are new in it, given what it
shares with its parent (ancestral sampling; Koller and Friedman 2009, section 12.1). No table of the
universe is formed. Rows that are alike in the shared columns are dealt their new columns together:
independently, or as whole numbers nearest to what is expected of so many rows, rests of less than a
row going by systematic sampling (Madow 1949) in the order of cells, so that every run of cells has
its count within one row. A released distribution makes them: they cost nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpsql.curator.bits import SYSTEM, Bits
from dpsql.mechanisms.synopses.factors import Factored
from dpsql.mechanisms.synopses.junction import Floats

Ints = NDArray[np.int64]


def rows(
    state: Factored, count: int, *, dealt: bool = True, bits: Bits = SYSTEM
) -> dict[str, Ints]:
    """The codes of `count` rows in every column, in the order of the domain.

    Each row alone follows the distribution, in either way; `dealt` rows also share it out evenly.
    """
    if count < 0:
        raise ValueError(f"the number of rows is at least 0, not {count}")
    if not count:
        return {name: np.zeros(0, np.int64) for name in state.domain.names}
    atoms: dict[str, Ints] = {}
    for at, names in enumerate(state.tree.cliques):
        shared = state.tree.separators[at]
        own = tuple(name for name in names if name not in shared)
        if not own:
            continue
        order = [names.index(name) for name in (*shared, *own)]
        table = state.beliefs[at].transpose(order).reshape(*state.tree.shape(shared), -1)
        table = table.reshape(-1, table.shape[-1])
        given = np.zeros(count, np.int64)
        for name in shared:
            given = given * state.tree.sizes[name] + atoms[name]
        new = _dealt(table, given, bits) if dealt else _drawn(table, given, bits)
        codes = np.unravel_index(new, state.tree.shape(own))
        for name, of in zip(own, codes, strict=True):
            atoms[name] = of.astype(np.int64)
    names = state.domain.names
    return {n: _codes(state, n, atoms.get(n), bits, count, dealt) for n in names}


def uniform(count: int, bits: Bits) -> Floats:
    """Numbers in [0, 1), multiples of 2^-53."""
    found: Floats = (bits.words(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return found


def shuffled(count: int, bits: Bits) -> Ints:
    """A random order of so many."""
    return np.argsort(bits.words(count), kind="stable").astype(np.int64)


def _drawn(table: Floats, given: Ints, bits: Bits) -> Ints:
    """A cell of its line of the table for each row, independently, by inversion."""
    order = np.argsort(given, kind="stable")
    lines, first = np.unique(given[order], return_index=True)
    points = uniform(len(given), bits)
    found = np.empty(len(given), np.int64)
    for line, members in zip(lines, np.split(order, first[1:]), strict=True):
        steps = table[line].cumsum()
        cells = np.searchsorted(steps, points[members] * steps[-1], side="right")
        found[members] = np.minimum(cells, _last(table[line]))
    return found


def _dealt(table: Floats, given: Ints, bits: Bits) -> Ints:
    """A cell of its line of the table for each row, as many of each cell as expected.

    The rows of a line take equally spaced points of its cumulated probabilities, the first at
    random, in a random order.
    """
    order = shuffled(len(given), bits)
    order = order[np.argsort(given[order], kind="stable")]
    lines, first = np.unique(given[order], return_index=True)
    starts = uniform(len(lines), bits)
    found = np.empty(len(given), np.int64)
    for line, members, start in zip(lines, np.split(order, first[1:]), starts, strict=True):
        steps = table[line].cumsum()
        points = (np.arange(len(members)) + start) / len(members) * steps[-1]
        cells = np.searchsorted(steps, points, side="right")
        found[members] = np.minimum(cells, _last(table[line]))
    return found


def _last(line: Floats) -> int:
    """The last cell that has a probability: rounding does not lead beyond it."""
    return int(np.flatnonzero(line)[-1])


def _codes(
    state: Factored, name: str, own: Ints | None, bits: Bits, count: int, dealt: bool
) -> Ints:
    """A code within the atom of each row, all alike; None for a column that is one atom."""
    size = state.domain.size(name)
    of = np.zeros(size, np.int64) if own is None else state.atoms[name]
    own = np.zeros(count, np.int64) if own is None else own
    listed = np.argsort(of, kind="stable")  # codes by atom
    sizes = np.bincount(of)
    begin = sizes.cumsum() - sizes
    if not dealt:
        found: Ints = listed[begin[own] + (uniform(count, bits) * sizes[own]).astype(np.int64)]
        return found
    order = shuffled(count, bits)
    order = order[np.argsort(own[order], kind="stable")]
    many = np.bincount(own, minlength=len(sizes))
    turn = np.empty(count, np.int64)
    turn[order] = np.arange(count) - (many.cumsum() - many)[own[order]]
    shift = (uniform(len(sizes), bits) * sizes).astype(np.int64)
    found = listed[begin[own] + (turn + shift[own]) % sizes[own]]
    return found
