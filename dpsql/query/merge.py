"""Equal linear queries of a SELECT become one: spelt in different ways, they are measured once."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpsql.domain import Domain
from dpsql.query.estimators import Count, Estimator, Mean, Spread, Sum
from dpsql.query.linear import Block, TableOf, Weight, atoms, combinations, product, tables_of
from dpsql.query.predicate import TRUE, truth

MAX_CELLS = 1 << 18  # values of weights that are compared
MAX_TOLD = 1 << 20  # cells of the tables that tell values apart


def merged(
    domain: Domain, block: Block, scales: Sequence[int], estimators: Sequence[Estimator]
) -> tuple[Block, list[int], tuple[Estimator, ...]]:
    """The same with one weight for all that are equal wherever the block's condition holds.

    Weights are compared on every public cell that their tables tell apart; where those are too
    many they are left as they are. Nothing but the schema and the text decides.
    """
    same = _same(domain, block)
    if same is None:
        return block, list(scales), tuple(estimators)
    kept = sorted(set(same))
    place = [kept.index(first) for first in same]
    weights = tuple(block.weights[index] for index in kept)
    renamed = tuple(_renamed(estimator, place) for estimator in estimators)
    return dataclasses.replace(block, weights=weights), [scales[i] for i in kept], renamed


def _same(domain: Domain, block: Block) -> list[int] | None:
    """For each weight the first that equals it; None when there is nothing to merge."""
    weights = block.weights
    if len(weights) < 2:
        return None
    predicates = [block.where, *(term.predicate for w in weights for term in w.terms)]
    tables: list[TableOf] = tables_of(predicates)
    tables += [(t.table.domain, t.table.values) for w in weights for t in w.terms if t.table]
    if sum(len(values) for _, values in tables) > MAX_TOLD:
        return None
    names = sorted({name for told, _ in tables for name in told.names})
    part = Domain(tuple(names), tuple(domain.sizes[domain.names.index(n)] for n in names))
    told_apart = atoms(part, tables)
    if combinations(told_apart) * len(weights) > MAX_CELLS:
        return None
    codes, count = product(told_apart)
    holds: NDArray[np.bool_] = truth(block.where, codes, count) == TRUE
    first: dict[bytes, int] = {}
    found = [
        first.setdefault(_values(weight, codes, count, holds), index)
        for index, weight in enumerate(weights)
    ]
    return found if len(first) < len(weights) else None


def _values(
    weight: Weight, codes: dict[str, NDArray[np.int64]], count: int, holds: NDArray[np.bool_]
) -> bytes:
    return weight.values(codes, count)[holds].tobytes()


def _renamed(estimator: Estimator, place: Sequence[int]) -> Estimator:
    match estimator:
        case Count() | Sum():
            return dataclasses.replace(estimator, weight=place[estimator.weight])
        case Mean(above=above, below=below):
            return dataclasses.replace(estimator, above=place[above], below=place[below])
        case Spread(low=low, middle=middle, high=high):
            return dataclasses.replace(
                estimator, low=place[low], middle=place[middle], high=place[high]
            )
