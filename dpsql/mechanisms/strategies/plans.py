"""Strategies of workloads, each looked for once.

What is remembered is the matrices, by the queries in their order. The strategy is made of the very
workload that is asked: the same queries may be told by other columns, tables and domains, and the
sensitivity is that of what is measured.
"""

from __future__ import annotations

import dataclasses
import math
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dpsql.curator.quote import moved
from dpsql.curator.sensitivity import sensitivity
from dpsql.mechanisms.threads import one_thread
from dpsql.query.canon import families
from dpsql.query.linear import Block, Grouping, Workload
from dpsql.query.renewed import Renewed
from dpsql.schema import Dataset, Neighbours

if TYPE_CHECKING:  # most statements have no use for one
    from dpsql.mechanisms.strategies.factorization import Factored
    from dpsql.mechanisms.strategies.levels import Leveled
    from dpsql.mechanisms.strategies.marginals import Marginals
    from dpsql.mechanisms.strategies.products import Products

    Implicit: TypeAlias = Leveled | Products
    Written: TypeAlias = Factored | Marginals
    Plan: TypeAlias = Written | Implicit

MANY = 600  # queries: no more are mixed together
_KEPT, _HELD = 64, 1 << 24  # plans that are remembered, and entries of their matrices
_NEAR = 1.1  # times a bound on all strategies: nothing that is written out is looked for then
_ALIKE = 1.1  # of the largest weights of two queries: what whole factors leave of one scale
_PLANNING = Renewed()
_PLANS: OrderedDict[object, Factored | None] = OrderedDict()
_Tabled: TypeAlias = "dict[bool, Marginals | None]"
_TABLED: weakref.WeakKeyDictionary[Workload, _Tabled] = weakref.WeakKeyDictionary()
_Formulas: TypeAlias = "dict[bool, Implicit | None]"
_IMPLICIT: weakref.WeakKeyDictionary[Workload, _Formulas] = weakref.WeakKeyDictionary()
_Made: TypeAlias = "dict[tuple[bool, bool], Factored]"
_MADE: weakref.WeakKeyDictionary[Workload, _Made] = weakref.WeakKeyDictionary()


def factorized(
    workload: Workload, dataset: Dataset, *, largest: bool = False, grouped: bool = False
) -> Factored | None:
    """The strategy of least mean, or `largest`, squared error for a workload, of those that mix
    the aggregates of each group alone if `grouped`.

    None where its own queries are the best, or nearly: no row is counted in two of them, and all
    are on one scale (else those that count less can have less noise, at no price).
    """
    sizes = [w.largest for b in workload.blocks for w in b.weights if w.largest]
    if workload.size < 2:
        return None
    heaviest, lightest = max(sizes, default=0), min(sizes, default=0)
    alone = moved(workload, dataset).squared <= (heaviest * dataset.unit.max_rows) ** 2
    if alone and heaviest <= lightest * _ALIKE:
        return None
    listed = families(workload)
    if any(family is None for block in listed for family in block):
        return None  # of too many cells
    asked = (
        largest,
        grouped,
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
        made = _MADE.setdefault(workload, {})
        if (largest, grouped) in made:
            return made[largest, grouped]
        if asked not in _PLANS:
            _PLANS[asked] = _factored(workload, largest, grouped)
            while len(_PLANS) > 1 and (len(_PLANS) > _KEPT or _entries() > _HELD):
                _PLANS.popitem(last=False)
        plan = _PLANS[asked]
        if plan is None:
            return None
        try:
            own = plan.made_for(workload)
        except ValueError:  # the same queries by other keys
            again = _factored(workload, largest, grouped)
            if again is None:
                return None
            own = _PLANS[asked] = again
        made[largest, grouped] = own
        return own


def _entries() -> int:
    plans = [plan for plan in _PLANS.values() if plan is not None]
    return sum(each.part.matrix.size for plan in plans for each in plan.solved)


def _factored(workload: Workload, largest: bool, grouped: bool) -> Factored | None:
    from dpsql.mechanisms.strategies.factorization import factored

    try:
        with one_thread():
            return factored(workload, largest=largest, grouped=grouped)
    except ValueError:  # weights too large to be mixed, or nobody is counted
        return None


def least_possible(plan: Plan, dataset: Dataset) -> float | None:
    """The error to a bound on that of any strategy, as people are told it; None without a bound.

    Bounds are for a row more or less, which moves no strategy more than a row that is replaced may:
    before or after it may be one that nothing counts.
    """
    if plan.ratio is None:
        return plan.ratio
    from dpsql.curator.mixed import reach

    if isinstance(plan.strategy, Workload):
        alone = sensitivity(plan.strategy, Neighbours.ADD_REMOVE, dataset.unit.max_rows).squared
        return plan.ratio * math.sqrt(moved(plan.strategy, dataset).squared / alone)
    found = reach(plan.strategy, dataset)
    return plan.ratio * math.sqrt(found.squared / found.alone)


def tabled(workload: Workload, *, largest: bool = False) -> Marginals | None:
    """The residual plan of least mean, or `largest`, squared error; None where there is none."""
    if sum(len(block.groupings) for block in workload.blocks) < 2:
        return None
    from dpsql.mechanisms.strategies.marginals import marginals

    with _PLANNING.held():
        known = _TABLED.setdefault(workload, {})
        if largest not in known:
            known[largest] = marginals(workload, largest=largest)
        return known[largest]


def best(workload: Workload, dataset: Dataset, *, largest: bool = False) -> Plan | None:
    """The strategy of least mean, or `largest`, squared error that is found, but for residual
    plans: one that is written out, unless one that is not is known to be near the best of all.
    """
    found = implicit(workload, dataset, largest=largest)
    if found is not None and settled(found):
        return found
    return better(found, factorized(workload, dataset, largest=largest))


def better(found: Implicit | None, written: Written | None) -> Plan | None:
    """The one that errs less: residual plans, as they are the best for tables, come first."""
    from dpsql.mechanisms.strategies.marginals import Marginals

    if found is None or written is None or isinstance(written, Marginals):
        return written or found
    return found if found.rmse < written.rmse else written


def settled(found: Implicit) -> bool:
    """Whether nothing that is written out is worth a look beside it."""
    return found.lone or (found.ratio is not None and found.ratio <= _NEAR)


def implicit(workload: Workload, dataset: Dataset, *, largest: bool = False) -> Implicit | None:
    """A strategy that is never written out, for more queries or cells than an optimum is found
    for: a product of matrices along columns, or a tree on one; or None.
    """
    if workload.size <= MANY:
        return None
    from dpsql.mechanisms.strategies.levels import leveled
    from dpsql.mechanisms.strategies.products import products

    with _PLANNING.held():
        known = _IMPLICIT.setdefault(workload, {})
        if largest not in known:
            squared = moved(workload, dataset).squared // dataset.unit.max_rows**2
            with one_thread():
                found = products(workload, squared, largest=largest)
                tree = leveled(workload, squared, largest=largest)
            known[largest] = _of_both(found, tree)
        return known[largest]


def _of_both(found: Products | None, tree: Leveled | None) -> Implicit | None:
    """The better one, which has both errors to show."""
    if found is None or tree is None:
        return found or tree
    if found.largest:
        return found
    tried = dict([*found.priced, *tree.priced])
    priced = tuple(sorted(tried.items(), key=lambda item: item[1]))
    better: Implicit = found if found.rmse < tree.rmse else tree
    lower = found.rmse / found.ratio if found.ratio else 0.0
    ratio = max(1.0, better.rmse / lower) if lower else None
    return dataclasses.replace(better, priced=priced, ratio=ratio)


def compared(plan: Plan, rms: float) -> tuple[tuple[str, float], ...]:
    """The strategies by formula that were compared, with the error of each where that of the one
    that was taken is `rms`; the best first."""
    from dpsql.mechanisms.strategies.levels import Leveled
    from dpsql.mechanisms.strategies.products import Products

    if not isinstance(plan, Leveled | Products):
        return ()
    return tuple((name, rms * error / plan.rmse) for name, error in plan.priced)


def soon(workload: Workload, queries: int, most: int) -> bool:
    """Whether a strategy that is written out is soon found: of so many queries, whose square times
    what cells they tell apart, about, is no more than `most`."""
    if workload.size > queries:
        return False
    sizes: dict[str, int] = {}
    for family in (f for listed in families(workload) for f in listed if f is not None):
        for name, size in zip(family.classes, family.shape, strict=True):
            sizes[name] = max(size, sizes.get(name, 1))
    return math.prod(sizes.values()) * workload.size**2 <= most


def of_one_group(workload: Workload) -> Workload | None:
    """What each block counts of a group, whatever its groups are; None for one thing each."""
    if max((len(block.weights) for block in workload.blocks), default=0) < 2:
        return None
    every = (Grouping((), np.zeros(1, np.int64)),)
    blocks = tuple(Block(block.where, block.weights, every) for block in workload.blocks)
    return Workload(workload.domain, blocks)
