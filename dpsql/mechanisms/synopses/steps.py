"""The textbook's ways to learn from one query that a distribution got wrong: a step towards it.

Each of them starts from the fit to the first tables, and goes through the queries in the order in
which they were measured. `exponential` and `polynomial` take a step of alpha / 2 towards what was
measured, alpha being the gate's threshold as a part of the rows (Hardt, Rothblum 2010; Arora,
Hazan, Kale 2012); `projection` moves to within a standard error of it, and of all that was measured
before (`multiplicative.replayed`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpsql.accounting.events import Gaussian
from dpsql.accounting.kept.stored import Stored
from dpsql.domain import Domain
from dpsql.mechanisms.synopses.factors import Factored
from dpsql.mechanisms.synopses.junction import Entangled
from dpsql.mechanisms.synopses.multiplicative import (
    Measured,
    Question,
    exponential,
    polynomial,
    projected,
    replayed,
)
from dpsql.query.canon import Family
from dpsql.query.linear import Block, Grouping, Table, Term, Weight, Workload
from dpsql.query.predicate import And

STEPS = ("exponential", "polynomial", "projection")
MOST = 1 << 16  # cells of a query's columns
_REPLAYS = 4


def stepped(
    domain: Domain, state: Factored, releases: Sequence[Stored], step: str, threshold: int
) -> Factored:
    """A distribution after a step for each release of one count, the oldest first.

    `threshold` is the gate's, in rows. A count on more cells than `MOST`, or that would entangle
    too many columns, teaches nothing.
    """
    known: list[Measured] = []
    for stored in releases:
        one = _measured(domain, stored, state.total)
        if one is None:
            continue
        try:
            if step == "projection":
                after = projected(state, one.asked, one.share, one.stderr)
                known.append(one)
                state = replayed(after, known, _REPLAYS)
            else:
                way = exponential if step == "exponential" else polynomial
                half = min(threshold / max(state.total, 1.0), 1.0) / 2
                away = one.share - one.asked.share(state)
                state = way(state, one.asked, math.copysign(half, away))
        except Entangled:
            continue
    return state


def _measured(domain: Domain, stored: Stored, total: float) -> Measured | None:
    """A release of one count as a share of `total` rows; None for anything else."""
    if not isinstance(stored.law, Gaussian) or stored.apart or stored.mixes:
        return None
    if len(stored.families) != 1 or len(stored.values[0]) != 1:
        return None
    (family,), (noisy,) = stored.families, stored.values[0].tolist()
    asked = _question(domain, family)
    if asked is None or not asked.binary:
        return None
    rows = family.factor * max(total, 1.0)
    return Measured(asked, noisy / rows, math.sqrt(float(stored.law.variance)) / rows)


def _question(domain: Domain, family: Family) -> Question | None:
    """The query of a family with one group."""
    names = [name for name in domain.names if name in family.classes]
    own = domain.project(names)
    if own.cells > MOST:
        return None
    table = np.where(family.groups == 0, family.weights, 0).reshape(family.shape)
    order = list(family.classes)
    table = table.transpose([order.index(name) for name in names])
    classes = {name: family.classes[name] for name in names}
    each = table[np.ix_(*classes.values())] if names else table
    weights = Table(own, np.ascontiguousarray(each).reshape(-1).astype(np.int64))
    everyone = Grouping((), np.zeros(1, np.int64))
    weight = Weight((Term(And(()), weights),))
    query = Workload(domain, (Block(And(()), (weight,), (everyone,)),))
    return Question(query, classes, table.astype(np.float64))
