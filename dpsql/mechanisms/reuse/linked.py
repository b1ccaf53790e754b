"""Which earlier releases are tried for a question: in what order, and how many."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.reuse.kept import Columns, Kept
from dpsql.mechanisms.reuse.lines import interacts
from dpsql.mechanisms.reuse.precision import variance_of
from dpsql.query.canon import families
from dpsql.query.linear import Block, Grouping, Weight, Workload

TABLES = 4  # whole tables that are tried for a question
MOST = 256  # releases that are fitted together


def is_few(workload: Workload) -> bool:
    """Whether a workload is of one query, or of two of one block that are not the same."""
    if workload.size == 1 or workload.size > 2 or len(workload.blocks) > 1:
        return workload.size == 1
    keys = [family.key for family in families(workload)[0] if family is not None]
    return len(set(keys)) == len(keys)


def columns(workload: Workload) -> Columns:
    """The columns on which some query depends."""
    return frozenset(
        name
        for block in families(workload)
        for family in block
        for name in (workload.domain.names if family is None else family.classes)
    )


def joined(workload: Workload) -> Columns:
    """The columns that a lone query links: it follows only from what is about all of them.

    Empty for other queries.
    """
    listed = families(workload)
    family = listed[0][0] if workload.size == 1 else None
    return frozenset() if family is None or not interacts(family) else frozenset(family.classes)


def may_follow(kept: Kept, workload: Workload) -> bool:
    """Whether a combination of a few queries may be one of those that were measured.

    Of two queries of one block that is one of them, or else their sum.
    """
    listed = [family for block in families(workload) for family in block]
    if any(family is None or kept.may_follow(family) for family in listed):
        return True
    if workload.size < 2:
        return False
    (block,) = workload.blocks
    if len(block.groupings) > 1 or len({weight.factor for weight in block.weights}) > 1:
        return True
    both = Weight(tuple(term for weight in block.weights for term in weight.terms))
    all_of = (Grouping((), np.zeros(1, np.int64)),)  # whoever is counted is in a group
    summed = Workload(workload.domain, (Block(block.where, (both,), all_of),))
    family = families(summed)[0][0]
    return family is None or kept.may_follow(family)


def rank(kept: Kept, seq: int, asked: Columns) -> tuple[Any, ...]:
    """The less, the more a release says of a question about some columns, in all likelihood."""
    return (*_apart(kept.columns[seq], asked), kept.facts(seq).stddev, -seq)


@functools.lru_cache(1 << 12)  # the same for all releases about these columns
def _apart(own: Columns, asked: Columns) -> tuple[Any, ...]:
    covers = own >= asked or own <= asked
    return (not own >= asked, not covers, -len(own & asked), len(own - asked))


def tables(kept: Kept, asked: Columns) -> list[tuple[int, ...]]:
    """The whole tables of all columns asked about, each with all its measurements; the best first.

    Their rows are disjoint, so that they can be fitted however large they are.
    """
    found: dict[str, list[tuple[int, float]]] = {}
    for seq, own in reversed(kept.columns.items()):
        if seq in kept.whole and own >= asked and own:
            stored = kept.read(seq)
            assert stored is not None
            variance = float(variance_of(stored.law))
            found.setdefault(stored.families[0].key, []).append((seq, 1.0 / variance))
    listed = [measured[:MOST] for measured in found.values()]
    listed.sort(key=lambda some: (len(kept.columns[some[0][0]] - asked), -sum(p for _, p in some)))
    return [tuple(sorted(seq for seq, _ in some)) for some in itertools.islice(listed, TABLES)]


def fitted(kept: Kept, seq: int) -> bool:
    """Whether a release may be fitted with others: its residual tables, if it has any, are few
    enough, and were not chosen in rounds, nor measured through a matrix along each axis."""
    from dpsql.mechanisms.reuse.design import CELLS, meet, size
    from dpsql.mechanisms.reuse.inverse import large

    stored = kept.read(seq)
    assert stored is not None
    if not stored.apart:
        return True
    met = None if stored.picked is not None or stored.grids else meet(stored.families, CELLS)
    return met is not None and not large(size(met), sum(own.values.size for own in stored.kinds))


def together(
    kept: Kept, order: Iterable[int], work: int, small: float, *, past: bool = False
) -> tuple[int, ...]:
    """As many of the first releases as can be fitted together; `past` the first that cannot be
    fitted at all."""
    from dpsql.mechanisms.reuse.design import CELLS, meet, size

    classes: dict[str, NDArray[np.int64]] = {}
    chosen: list[int] = []
    count = known = 0
    for seq in itertools.islice(order, MOST):
        listed = kept.families(seq)
        met = meet(listed, CELLS, classes)
        count, known = count + len(listed), known + rows(kept, seq)
        cells = math.inf if met is None else size(met)
        if met is None or count * cells > work or min(known, cells) > small:
            if past and not chosen:
                count = known = 0
                continue
            break
        classes = met
        chosen.append(seq)
    return tuple(chosen)


def rows(kept: Kept, seq: int) -> int:
    """How many queries a release measured, of which somebody may be counted in."""
    return kept.facts(seq).rows
