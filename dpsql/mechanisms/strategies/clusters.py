"""Which SELECTs are planned together: those whose distinct columns of W can be listed.

Planned together they never err more than apart; but every column of W has to be looked at. More
queries than can be mixed, over fewer cells than they are, are planned on the cells.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.strategies.cells import Cells, cells_of
from dpsql.query.canon import Family, families, tables
from dpsql.query.distinct import Distinct, distinct, integers
from dpsql.query.linear import Block, Grouping, Workload

COLUMNS, PARTS = 1 << 19, 1 << 17  # of W that are listed, of all queries and of parts of them
WORK = 1 << 35  # columns times the square of the queries
HELD = 3 << 27  # bytes of columns
QUERIES = 600  # that are mixed together
SMALL, TRIED = 1 << 13, 2  # columns of a cluster that is put together with the nearest others
_ROUGH = 1 << 27  # combinations of classes, of which few are different

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """Blocks of a workload, by their places, that are planned together.

    `columns` are those of all their queries; for a block that is too large, of the weights of one
    group, and then `whole` is False. They are None where even these cannot be listed, and where
    the `cells` are what is mixed.
    """

    places: tuple[int, ...]
    workload: Workload
    columns: Distinct | None
    whole: bool
    cells: Cells | None = None


def clusters(workload: Workload, blocks: Sequence[int]) -> list[Cluster]:
    """These blocks of a workload, together as far as their columns can be listed."""
    found = _on_cells(workload, blocks)
    rest = set(blocks).difference(*(cluster.places for cluster in found))
    large = [at for at in sorted(rest) if _queries(workload.blocks[at]) > QUERIES]
    found += [alone(workload, at) for at in large]
    parts: list[Cluster] = []
    for places in _drafts(workload, sorted(rest.difference(large))):
        parts += _listed(workload, places, COLUMNS)
    return found + _merged(workload, parts)


def _merged(workload: Workload, parts: Sequence[Cluster]) -> list[Cluster]:
    """Small clusters as one with others, as far as the columns of both can be listed."""
    listed = families(workload)
    sizes = [_sizes([f for f in own if f is not None]) for own in listed]

    def cells(places: Sequence[int]) -> int:
        return math.prod(functools.reduce(_joined, (sizes[at] for at in places)).values())

    found = [part for part in parts if not part.whole or _size(part) > SMALL]
    left = [part for part in parts if part not in found]
    while left:
        left.sort(key=_size)
        one = left.pop(0)
        others = [part for part in (*left, *found) if part.whole]
        others.sort(key=lambda other: cells([*one.places, *other.places]))
        for near in others[:TRIED]:
            joined = _together(workload, [*one.places, *near.places])
            if joined is not None:
                (left if near in left else found).remove(near)
                (left if _size(joined) <= SMALL else found).append(joined)
                break
        else:
            found.append(one)
    return found


def _together(workload: Workload, places: Sequence[int]) -> Cluster | None:
    """Some blocks as one cluster; None where they are too many queries or columns."""
    some = part_of(workload, sorted(places))
    columns = distinct(some, min(_most(some), 2 * PARTS)) if some.size <= QUERIES else None
    return None if columns is None else Cluster(tuple(sorted(places)), some, columns, True)


def _size(cluster: Cluster) -> int:
    return 0 if cluster.columns is None else cluster.columns.size


def _on_cells(workload: Workload, blocks: Sequence[int]) -> list[Cluster]:
    """Blocks over the same columns, or some of them, that are too many queries for their cells."""
    listed = families(workload)
    names = {
        at: frozenset(
            name for family in listed[at] if family is not None for name in family.classes
        )
        for at in blocks
    }
    alike: dict[frozenset[str], list[int]] = {}
    largest = sorted(set(names.values()), key=lambda some: (-len(some), sorted(some)))
    for at, own in names.items():
        alike.setdefault(next(some for some in largest if own <= some), []).append(at)
    found = []
    for places in alike.values():
        if sum(_queries(workload.blocks[at]) for at in places) <= QUERIES:
            continue
        some = part_of(workload, places)
        cells = cells_of(some)
        if cells is not None and cells.full:
            found.append(Cluster(tuple(places), some, None, True, cells))
    return found


def _listed(workload: Workload, places: Sequence[int], listed: int) -> list[Cluster]:
    """Some blocks as one cluster of so many columns, or by halves until each can be listed."""
    some = part_of(workload, places)
    columns = distinct(some, min(_most(some), listed))
    if columns is not None:
        return [Cluster(tuple(places), some, columns, True)]
    if len(places) == 1:
        return [alone(workload, places[0])]
    one, other = _halves(workload, places)
    return [*_listed(workload, one, PARTS), *_listed(workload, other, PARTS)]


def _halves(workload: Workload, places: Sequence[int]) -> tuple[list[int], list[int]]:
    """Blocks that mention a column and blocks that do not: of few columns more can be listed.

    The column is one of many classes that about half of the blocks mention; else halves in order.
    """
    listed = families(workload)
    sizes = {at: _sizes([f for f in listed[at] if f is not None]) for at in places}
    classes: dict[str, int] = {}
    for own in sizes.values():
        classes = _joined(classes, own)
    best, chosen = 0.0, ""
    for name, number in sorted(classes.items()):
        some = sum(name in own for own in sizes.values())
        worth = min(some, len(places) - some) * math.log(number)
        if 5 * min(some, len(places) - some) >= len(places) and worth > best:
            best, chosen = worth, name
    if not chosen:
        half = len(places) // 2
        return list(places[:half]), list(places[half:])
    one = [at for at in places if chosen in sizes[at]]
    return one, [at for at in places if chosen not in sizes[at]]


def _most(some: Workload) -> int:
    """How many columns of a workload may be listed."""
    heaviest = max((w.largest for block in some.blocks for w in block.weights), default=0)
    held = HELD // (max(some.size, 1) * integers(heaviest).itemsize)
    return min(COLUMNS, WORK // max(some.size, 1) ** 2, held)


def alone(workload: Workload, at: int) -> Cluster:
    """A block by itself, mixed group by group."""
    some = part_of(workload, [at])
    (block,) = some.blocks
    group = Block(block.where, block.weights, (Grouping((), np.zeros(1, np.int64)),))
    weights = Workload(some.domain, (group,))
    return Cluster((at,), some, distinct(weights, _most(weights)), False)


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
