"""Which tables are fitted together, where a junction tree of all of them has too many cells.

A pair of columns that no table has together any more leaves a clique of c cells as two of c / m
and c / n, for m and n atoms. What its tables tell beyond single columns is lost to the fit. So that
pair goes which tells least for the logarithm of what is saved, as far as that is wanted, until the
tree is small enough, and of single columns those of most values; then tables that tell most come
back where there is room. Only released values have a say.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from dpsql.domain import Domain
from dpsql.mechanisms.synopses.ascent import cells, centred
from dpsql.mechanisms.synopses.entropy import fitted
from dpsql.mechanisms.synopses.junction import CELLS, Entangled, Floats, Names
from dpsql.mechanisms.synopses.layout import Layout, layout
from dpsql.mechanisms.synopses.noisy import NoisyTable, total

Pair: TypeAlias = tuple[str, str]

_ANY = 1 << 10_000  # cells of a tree that is looked at, not summed
_FAR, _PART = 1 << 10, 16  # times too large, and of the pairs of a clique at once, until it is not
_BACK = 64


def tractable(
    domain: Domain, tables: Sequence[NoisyTable], most: int = CELLS
) -> tuple[list[NoisyTable], list[NoisyTable]]:
    """Tables whose junction tree has `most` cells at most, and those left out, which answer by
    themselves."""
    listed = sorted(tables, key=lambda t: (len(t.names), t.values.size))
    taken = dict.fromkeys(listed)
    told: dict[NoisyTable, float] | None = None
    while sum((place := layout(domain, list(taken), _ANY)).tree.cells) > most:
        told = _told(domain, listed) if told is None else told
        going: list[Names] = [*_least(place, told, most)]
        for gone in going or [max(taken, key=lambda t: t.values.size).names]:
            for table in [t for t in taken if set(gone) <= set(t.names)]:
                del taken[table]
    if told is not None:
        left = sorted((t for t in listed if t not in taken), key=told.__getitem__, reverse=True)
        for table in left[:_BACK]:
            try:
                layout(domain, [*taken, table], most)
            except Entangled:
                continue
            taken[table] = None
    return [t for t in listed if t in taken], [t for t in listed if t not in taken]


def _least(place: Layout, told: dict[NoisyTable, float], most: int) -> list[Pair]:
    """The pairs that tell least for what is saved without them; none of single columns."""
    tree, every = place.tree, sum(place.tree.cells)
    lost: dict[Pair, float] = {}
    for table in place.homes:
        for pair in itertools.combinations(table.names, 2):
            lost[pair] = lost.get(pair, 0.0) + told[table]
    shares = dict.fromkeys(lost, 0.0)  # of all cells, those of the cliques that have the pair
    for clique, many in zip(tree.cliques, tree.cells, strict=True):
        for pair in itertools.combinations(clique, 2):
            if pair in shares:
                shares[pair] += many / every
    wanted = math.log(every) - math.log(most)

    def each(pair: Pair) -> float:
        m, n = tree.shape(pair)
        saved = -math.log1p(-shares[pair] * (1 - 1 / m - 1 / n))
        return lost[pair] / min(saved, wanted) if saved > 0.0 else math.inf  # more is of no use

    many = max(1, len(lost) // _PART) if every > _FAR * most else 1
    return sorted(lost, key=lambda pair: (each(pair), lost[pair], pair))[:many]


def _told(domain: Domain, tables: Sequence[NoisyTable]) -> dict[NoisyTable, float]:
    """How far tables are off what single columns tell, beyond noise: in standard errors, the root
    of the sum over cells."""
    try:
        rows = total(tables)
    except ValueError:
        rows = 0.0
    ones = [table for table in tables if len(table.names) == 1]
    state = fitted(domain, rows, ones, most=_ANY).state  # columns by themselves
    alone: dict[str, Floats] = {}
    found = {}
    for table in tables:
        guess = np.array(rows)
        for name, classes in zip(table.names, table.classes, strict=True):
            if name not in alone:
                alone[name] = state.marginal((name,)) / rows if rows else np.zeros(len(classes))
            guess = np.multiply.outer(guess, np.bincount(classes, weights=alone[name]))
        off = (centred(guess) if table.centred else guess) - table.values
        off = off if table.seen is None else off * table.seen
        square = float(np.vdot(off, off)) / table.variance
        found[table] = math.sqrt(max(square - cells(table), 0.0))
    return found
