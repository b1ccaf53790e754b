"""In what order earlier releases are tried for a question: kept, as most come to stay."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

from dpsql.mechanisms.reuse.kept import Kept
from dpsql.mechanisms.reuse.linked import columns, rank, rows
from dpsql.query.canon import families
from dpsql.query.linear import Workload

SMALL = 64  # of the rows of a small release, or their combinations, the fewer
_ORDERS = 64  # sets of columns whose releases are kept in order
_INSERTED = 64  # new ones that are put in their places one by one


@dataclass(frozen=True, slots=True)
class Order:
    """The releases that are linked with a question, those first that say most: all of them, those
    of few queries and of many, and those whose tables can answer alone."""

    linked: Sequence[int]
    every: tuple[int, ...]
    small: tuple[int, ...]
    large: tuple[int, ...]
    tabled: tuple[int, ...]


def ordered(kept: Kept, workload: Workload) -> Order:
    """The releases that are linked with a question; all with one that asks for a total among
    others, which depends on no column.

    What was in order when it was asked before stays so: only new ones are put in their places.
    """
    asked = columns(workload)
    total = any(f is not None and not f.classes for block in families(workload) for f in block)
    linked = kept.linked(frozenset() if total else asked)
    name = (asked, total)
    known = kept.orders.get(name)
    if known is not None and known.linked is linked:
        return known
    order = [] if known is None else list(known.every)
    before, now = set(order), set(linked)
    if not before <= now:
        order = [seq for seq in order if seq in now]
    more = [seq for seq in linked if seq not in before]
    if len(more) > _INSERTED:
        order = sorted(linked, key=lambda seq: rank(kept, seq, asked))
    else:
        for seq in more:
            bisect.insort(order, seq, key=lambda seq: rank(kept, seq, asked))
    tabled = [seq for seq in order if kept.tabled(seq)]
    large = [seq for seq in order if rows(kept, seq) > SMALL and not kept.tabled(seq)]
    others = {*tabled, *large}
    small = tuple(seq for seq in order if seq not in others)
    found = Order(linked, tuple(order), small, tuple(large), tuple(tabled))
    kept.orders[name] = found
    while len(kept.orders) > _ORDERS:
        kept.orders.pop(next(iter(kept.orders)))
    return found
