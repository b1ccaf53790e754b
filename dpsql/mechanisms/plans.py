"""Strategies of workloads, each looked for once.

What is remembered is the matrices, by the queries in their order. The strategy is made of the very
workload that is asked: the same queries may be told by other columns, tables and domains, and the
sensitivity is that of what is measured.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING

from dpsql.curator.quote import moved
from dpsql.query.canon import families
from dpsql.query.linear import Workload
from dpsql.schema import Dataset

if TYPE_CHECKING:  # most statements have no use for one
    from dpsql.mechanisms.factorization import Factored
    from dpsql.mechanisms.marginals import Marginals

_KEPT = 64  # plans that are remembered
_PLANNING = threading.Lock()
_PLANS: OrderedDict[object, Factored | None] = OrderedDict()
_TABLED: weakref.WeakKeyDictionary[Workload, Marginals | None] = weakref.WeakKeyDictionary()
_MADE: weakref.WeakKeyDictionary[Workload, Factored] = weakref.WeakKeyDictionary()


def factorized(workload: Workload, dataset: Dataset) -> Factored | None:
    """The strategy for a workload; None where its own queries are the best, or nearly.

    Those are when no row is counted in two of them.
    """
    heaviest = max((w.largest for b in workload.blocks for w in b.weights), default=0)
    if workload.size < 2:
        return None
    if moved(workload, dataset).squared <= (heaviest * dataset.unit.max_rows) ** 2:
        return None
    listed = families(workload)
    if any(family is None for block in listed for family in block):
        return None  # of too many cells
    asked = tuple(
        (
            len(block.weights),
            tuple(grouping.size for grouping in block.groupings),
            tuple((f.key, f.factor, f.origin.tobytes()) for f in own if f is not None),
        )
        for block, own in zip(workload.blocks, listed, strict=True)
    )
    with _PLANNING:
        if workload in _MADE:
            return _MADE[workload]
        if asked not in _PLANS:
            _PLANS[asked] = _factored(workload)
            if len(_PLANS) > _KEPT:
                _PLANS.popitem(last=False)
        plan = _PLANS[asked]
        if plan is None:
            return None
        _MADE[workload] = made = plan.made_for(workload)
        return made


def _factored(workload: Workload) -> Factored | None:
    from dpsql.mechanisms.factorization import factored

    try:
        return factored(workload)
    except ValueError:  # weights too large to be mixed
        return None


def tabled(workload: Workload) -> Marginals | None:
    """The residual plan for a workload; None where there is none."""
    if len(workload.blocks) > 1 or len(workload.blocks[0].groupings) < 2:
        return None
    from dpsql.mechanisms.marginals import marginals

    with _PLANNING:
        if workload not in _TABLED:
            _TABLED[workload] = marginals(workload)
        return _TABLED[workload]
