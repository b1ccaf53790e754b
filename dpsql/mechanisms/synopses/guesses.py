"""Guesses of a distribution beside what was measured, and the queries that they are about."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from dpsql.mechanisms.intervals.noises import Noise
from dpsql.mechanisms.intervals.uncertain import Floats
from dpsql.query.canon import families
from dpsql.query.linear import Block, Grouping, Workload
from dpsql.query.predicate import FALSE, TRUE, And, Leaf, Predicate

_ONE = Fraction(1)


def within(noisy: Any, noise: Noise, guess: Floats, level: float) -> Any:
    """The guesses, rounded, where they are within the intervals of the noisy answers; the nearest
    ends elsewhere."""
    centre = np.asarray(noise.centre(noisy), np.float64)
    found = np.empty(noisy.shape, np.int64)
    for weight in range(noisy.shape[1]):
        half = np.asarray(noise.half({weight: _ONE}, level), np.float64)
        least, most = np.ceil(centre[:, weight] - half), np.floor(centre[:, weight] + half)
        near = np.clip(np.rint(guess[:, weight]), least, most)
        found[:, weight] = np.where(least <= most, near, noisy[:, weight])
    return np.maximum(found, 0)


def queries(workload: Workload) -> Iterator[Workload]:
    """The queries of a workload one by one, in the order of its answers."""
    match workload.blocks:
        case (Block(weights=(_,), groupings=(Grouping(keys=(), size=1),)),):
            yield workload  # of which more is known already
            return
    everyone = (Grouping((), np.zeros(1, np.int64)),)
    for block in workload.blocks:
        for grouping in block.groupings:
            for group in grouping.listed.tolist():
                where = block.where if not grouping.keys else _of_group(block, grouping, group)
                for weight in block.weights:
                    yield Workload(workload.domain, (Block(where, (weight,), everyone),))


def meaning(query: Workload) -> tuple[str, int]:
    """The same for the same query, in whatever words."""
    ((family,),) = families(query)
    assert family is not None  # no cell of it is looked at one by one
    return family.key, family.factor


def _of_group(block: Block, grouping: Grouping, group: int) -> And:
    """The condition of being in one group of a block."""
    conditions: list[Predicate] = [block.where]
    for domain, table, stride in sorted(grouping.keys, key=lambda key: -key[2]):
        code, group = divmod(group, stride)
        conditions.append(Leaf(domain, np.where(table == code, TRUE, FALSE).astype(np.uint8)))
    return And(tuple(conditions))
