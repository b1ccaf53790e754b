"""Strategies of workloads, each looked for once.

What is remembered is the matrices, by the queries in their order. The strategy is made of the very
workload that is asked: the same queries may be told by other columns, tables and domains, and the
sensitivity is that of what is measured.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, TypeAlias

from dpsql.curator.quote import moved
from dpsql.mechanisms.threads import one_thread
from dpsql.query.canon import families
from dpsql.query.linear import Workload
from dpsql.query.renewed import Renewed
from dpsql.schema import Dataset

if TYPE_CHECKING:  # most statements have no use for one
    from dpsql.mechanisms.factorization import Factored
    from dpsql.mechanisms.marginals import Marginals

_KEPT = 64  # plans that are remembered
_PLANNING = Renewed()
_PLANS: OrderedDict[object, Factored | None] = OrderedDict()
_Tabled: TypeAlias = "dict[bool, Marginals | None]"
_TABLED: weakref.WeakKeyDictionary[Workload, _Tabled] = weakref.WeakKeyDictionary()
_MADE: weakref.WeakKeyDictionary[Workload, Factored] = weakref.WeakKeyDictionary()


def factorized(workload: Workload, dataset: Dataset, *, largest: bool = False) -> Factored | None:
    """The strategy of least mean, or `largest`, squared error for a workload.

    None where its own queries are the best, or nearly: no row is counted in two of them.
    """
    heaviest = max((w.largest for b in workload.blocks for w in b.weights), default=0)
    if workload.size < 2:
        return None
    if moved(workload, dataset).squared <= (heaviest * dataset.unit.max_rows) ** 2:
        return None
    listed = families(workload)
    if any(family is None for block in listed for family in block):
        return None  # of too many cells
    asked = (
        largest,
        tuple(
            (
                len(block.weights),
                tuple(grouping.size for grouping in block.groupings),
                tuple((f.key, f.factor, f.origin.tobytes()) for f in own if f is not None),
            )
            for block, own in zip(workload.blocks, listed, strict=True)
        ),
    )
    with _PLANNING.held():
        known = _MADE.get(workload)
        if known is not None and known.largest == largest:
            return known
        if asked not in _PLANS:
            _PLANS[asked] = _factored(workload, largest)
            if len(_PLANS) > _KEPT:
                _PLANS.popitem(last=False)
        plan = _PLANS[asked]
        if plan is None:
            return None
        _MADE[workload] = made = plan.made_for(workload)
        return made


def _factored(workload: Workload, largest: bool) -> Factored | None:
    from dpsql.mechanisms.factorization import factored

    try:
        with one_thread():
            return factored(workload, largest=largest)
    except ValueError:  # weights too large to be mixed
        return None


def tabled(workload: Workload, *, largest: bool = False) -> Marginals | None:
    """The residual plan of least mean, or `largest`, squared error; None where there is none."""
    if len(workload.blocks) > 1 or len(workload.blocks[0].groupings) < 2:
        return None
    from dpsql.mechanisms.marginals import marginals

    with _PLANNING.held():
        known = _TABLED.setdefault(workload, {})
        if largest not in known:
            known[largest] = marginals(workload, largest=largest)
        return known[largest]
