"""A quick look at whether a query can be a combination of a few releases, on some cells only.

A combination of rows is one on any cells; so a query that is none on a few of them follows from
nothing, and least squares on all classes of cells need not be asked. One that passes may still not
follow. Where it was measured as well, the others do not make its error less: an unbiased estimate
counts its own measurement once and the others so that they cancel, which adds only their noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.intervals.spread import NOTHING
from dpsql.mechanisms.reuse.found import Answered, Found
from dpsql.mechanisms.reuse.kept import Kept
from dpsql.mechanisms.reuse.lines import stay
from dpsql.mechanisms.reuse.repeats import measured, repeat
from dpsql.mechanisms.threads import one_thread
from dpsql.query.canon import Family, families
from dpsql.query.linear import Workload

ROWS = 64  # that are looked at
_MORE = 32  # cells than twice the rows
_FAR = 1e-3  # of a query: so much is no rounding

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]


def unfitted(
    kept: Kept, workload: Workload, chosen: tuple[int, ...], answered: Callable[[], Answered]
) -> Found | None:
    """What some releases say of a lone query together, where that is sure without a fit.

    Nothing, or what one says that measured it, where the others say nothing of it; else None.
    """
    own = [seq for seq in measured(kept, workload) if seq in chosen] if workload.size == 1 else []
    others = [seq for seq in chosen if seq not in own]
    if own[1:] or not others or may_combine(kept, workload, others):
        return None
    if not own:
        return Found(math.inf, chosen, answered, NOTHING)
    said = repeat(kept, workload, own)
    return None if said is None or said.law is None else said


def may_combine(kept: Kept, workload: Workload, chosen: Sequence[int]) -> bool:
    """Whether a lone query may be a combination of what some releases measured.

    True where that is not looked at: for many queries, many rows, or a strategy.
    """
    if workload.size != 1 or any(kept.mixed(seq) for seq in chosen):
        return True
    listed = [family for block in families(workload) for family in block]
    asked = listed[0]
    if asked is None or listed[1:] or sum(kept.facts(seq).rows for seq in chosen) > ROWS:
        return True
    return _may_combine(asked, [family for seq in chosen for family in kept.families(seq)])


def _may_combine(query: Family, listed: Sequence[Family]) -> bool:
    """Whether no cell that is looked at speaks against a lone query being a combination of rows."""
    if not query.met:
        return True  # it counts nobody
    count = 2 * sum(family.met for family in listed) + _MORE
    codes = _cells(query, count)
    for family in listed:
        for name, classes in family.classes.items():
            if name not in codes:
                codes[name] = stay(name, len(classes), count)
    asked = _rows(query, codes, count)
    rows = np.concatenate([asked, *(_rows(family, codes, count) for family in listed)])
    size = np.sqrt(np.einsum("rc,rc->r", rows, rows))
    if not size[0] > 0.0:
        return True
    even = rows[size > 0.0] / size[size > 0.0, None]
    with one_thread():
        basis = np.linalg.qr(even[1:].T)[0]  # it holds whatever they span
        rest = even[0] - basis @ (even[0] @ basis)
    return not float(rest @ rest) > _FAR**2


def _cells(query: Family, count: int) -> dict[str, Ints]:
    """The codes of some cells, half of them where the query counts somebody."""
    half, inside = count // 2, np.flatnonzero(query.groups >= 0)
    combinations = stay("combinations", len(query.groups), count)
    if len(inside):
        combinations[:half] = inside[combinations[:half] * len(inside) // len(query.groups)]
    codes = {}
    places = np.unravel_index(combinations, query.shape) if query.shape else ()
    for (name, classes), place in zip(query.classes.items(), places, strict=True):
        sizes = np.bincount(classes)
        within = stay(name, len(classes), count) * sizes[place] // len(classes)
        codes[name] = np.argsort(classes, kind="stable")[np.cumsum(sizes)[place] - 1 - within]
    return codes


def _rows(family: Family, codes: dict[str, Ints], count: int) -> Floats:
    """The queries of a family on some cells."""
    place: Ints = np.zeros(count, np.int64)
    for size, (name, classes) in zip(family.shape, family.classes.items(), strict=True):
        place = place * size + classes[codes[name]]
    groups, weights = family.groups[place], family.weights[place]
    found = np.zeros((family.met, count))
    inside = np.flatnonzero(groups >= 0)
    found[groups[inside], inside] = weights[inside]
    return found
