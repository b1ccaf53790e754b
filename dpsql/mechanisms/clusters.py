"""Which SELECTs are planned together: those whose distinct columns of W can be listed.

Planned together they never err more than apart; but every column of W has to be looked at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.query.canon import Family, families, tables
from dpsql.query.distinct import Distinct, distinct
from dpsql.query.linear import Block, Grouping, Workload

COLUMNS = 1 << 20  # of W that are listed
WORK = 1 << 35  # columns times the square of the queries
QUERIES = 600  # that are mixed together
_ROUGH = 1 << 27  # combinations of classes, of which few are different

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """Blocks of a workload, by their places, that are planned together.

    `columns` are those of all their queries; for a block that is too large, of the weights of one
    group, and then `whole` is False.
    """

    places: tuple[int, ...]
    workload: Workload
    columns: Distinct
    whole: bool


def clusters(workload: Workload) -> list[Cluster]:
    """The blocks of a workload, together as far as their columns can be listed."""
    large = [at for at, block in enumerate(workload.blocks) if _queries(block) > QUERIES]
    found = [alone(workload, at) for at in large]
    for places in _drafts(workload, [at for at in range(len(workload.blocks)) if at not in large]):
        found += _listed(workload, places)
    return found


def _listed(workload: Workload, places: Sequence[int]) -> list[Cluster]:
    """Some blocks as one cluster, or by halves until each can be listed."""
    some = part_of(workload, places)
    columns = distinct(some, min(COLUMNS, WORK // some.size**2))
    if columns is not None:
        return [Cluster(tuple(places), some, columns, True)]
    if len(places) == 1:
        return [alone(workload, places[0])]
    half = len(places) // 2
    return [*_listed(workload, places[:half]), *_listed(workload, places[half:])]


def alone(workload: Workload, at: int) -> Cluster:
    """A block by itself, mixed group by group. Raises ValueError where its weights tell too much
    apart."""
    some = part_of(workload, [at])
    (block,) = some.blocks
    group = Block(block.where, block.weights, (Grouping((), np.zeros(1, np.int64)),))
    columns = distinct(Workload(some.domain, (group,)), COLUMNS)
    if columns is None:
        raise ValueError("the weights of a SELECT tell too much apart")
    return Cluster((at,), some, columns, False)


def part_of(workload: Workload, places: Sequence[int]) -> Workload:
    """Some blocks, over the columns that they mention."""
    blocks = tuple(workload.blocks[at] for at in places)
    names = {name for domain, _ in tables(blocks) for name in domain.names}
    domain = workload.domain.project([n for n in workload.domain.names if n in names])
    return Workload(domain, blocks)


def _drafts(workload: Workload, places: Sequence[int]) -> list[list[int]]:
    """Blocks with columns in common together, while they have few classes of these together."""
    listed = families(workload)
    drafts: list[tuple[dict[str, int], list[int], int]] = []
    sizes = {at: _sizes([f for f in listed[at] if f is not None]) for at in places}
    for at in sorted(places, key=lambda at: -len(sizes[at])):
        own, queries = sizes[at], _queries(workload.blocks[at])
        best: tuple[float, int] | None = None
        for number, (held, _, size) in enumerate(drafts):
            cells = math.prod(_joined(held, own).values())
            if cells <= _ROUGH and size + queries <= QUERIES:
                grown = cells / math.prod(held.values())
                best = min(best or (math.inf, 0), (grown, number))
        if best is None:
            drafts.append((own, [at], queries))
            continue
        held, some, size = drafts[best[1]]
        drafts[best[1]] = (_joined(held, own), [*some, at], size + queries)
    return [sorted(some) for _, some, _ in drafts]


def _queries(block: Block) -> int:
    return block.groups * len(block.weights)


def _sizes(listed: Sequence[Family]) -> dict[str, int]:
    """How many classes of each column some families tell apart, at least."""
    found: dict[str, int] = {}
    for family in listed:
        found = _joined(found, dict(zip(family.classes, family.shape, strict=True)))
    return found


def _joined(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {n: max(one.get(n, 1), other.get(n, 1)) for n in one | other}
