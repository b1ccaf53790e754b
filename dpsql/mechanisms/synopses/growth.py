"""A distribution that goes on learning: each table more is a step, and others are replayed.

What is minimised is as in `entropy`, over all tables, with the fit to the first release as `base`:

    sum_i |y_i - n m_i(p)|^2 / (2 v_i) + tau n KL(p | base).

The dual is climbed by one table at a time, each to the best potential that it can have beside the
others' (information projection): first the new one, then those that are furthest off, for as many
steps as the cells of the junction tree allow. So an update takes what a few sums over the tree
take, however many tables there are, and a state is, but for rounding, a function of its releases
and their order. Where a table leaves the tree as it was, sums go on from those that are known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpsql.accounting.kept.pack import pack, unpack
from dpsql.accounting.kept.stored import Stored
from dpsql.domain import Domain
from dpsql.mechanisms.synopses.ascent import Climb, cells
from dpsql.mechanisms.synopses.entropy import weight
from dpsql.mechanisms.synopses.factors import Factored
from dpsql.mechanisms.synopses.junction import CELLS as JUNCTION
from dpsql.mechanisms.synopses.junction import Entangled, Floats
from dpsql.mechanisms.synopses.layout import Layout, layout
from dpsql.mechanisms.synopses.learnt import chosen, fittable, fitted_to, tables
from dpsql.mechanisms.synopses.noisy import NoisyTable, total
from dpsql.mechanisms.threads import one_thread

VERSION = 3
FIRST = 1 << 19  # cells of a junction tree that is to grow: a step goes through all of them
CELLS = 1 << 17  # by which it grows at most
WORK, TABLE = 5 << 16, 1 << 10  # cells that are gone through for an update; so many a table costs
STEPS = 8
FAR = 1.0  # standard errors from the best fit that are told of


@dataclass(frozen=True, slots=True, eq=False)
class Growth:
    """A fit to some releases: `base` to the first, and a potential of each table since.

    `every` has all tables, also those that have no say in the fit; `tau` is the weight of the
    base, 0 while nothing was learnt. `place` is the layout of what was learnt.
    """

    base: Factored
    state: Factored
    every: tuple[NoisyTable, ...] = ()
    potentials: Mapping[NoisyTable, Floats] = field(default_factory=dict)
    tau: float = 0.0
    place: Layout | None = None


def rooted(domain: Domain, first: Stored, most: int = JUNCTION) -> Growth:
    """The fit to a first release, on a junction tree of `most` cells at most, or twice as many as
    single columns have."""
    every = tuple(tables(domain, first))
    alone = sum(table.values.size for table in every if len(table.names) == 1)
    kept = fittable(domain, every, max(most, min(2 * alone, JUNCTION)))
    if first.chosen is not None:
        base = chosen(domain, first.chosen)
    else:
        base = fitted_to(domain, every, kept)
    return Growth(base, base, every, {table: np.zeros(table.values.shape) for table in kept})


def grown(before: Growth, stored: Stored) -> Growth:
    """The fit to one release more.

    Tables that would entangle too many columns are left out: they answer by themselves.
    """
    domain = before.base.domain
    fresh = tables(domain, stored)
    every = (*before.every, *fresh)
    known, place = dict(before.potentials), before.place
    for table in fresh:
        if table.names:
            try:
                place = layout(domain, [*known, table], _most(before.base), place)
            except Entangled:
                continue
            known[table] = np.zeros(table.values.shape)
    if place is None or len(known) == len(before.potentials):
        return replace(before, every=every)
    rows = total(every)
    if not rows > 0:
        state = place.state(rows, known, before.base)
        return replace(before, state=state, every=every, potentials=known, place=place)
    new = [table for table in known if table not in before.potentials]
    with one_thread():
        if place.holds(before.state):
            start = before.state.calibration.copied()
        else:
            start = place.state(rows, known, before.base).calibration
        climb = Climb(place, rows, known, start, before.tau)
        climb.tau = climb.tau or weight(rows, new, [climb.chances(table) for table in new])
        work = sum(place.tree.cells) + TABLE * len(known)
        steps = max(min(STEPS, WORK // work), len(new))
        gap = climb.climbed(steps, new)
    away = math.sqrt(2 * gap / sum(map(cells, known)))
    made = replace(place.state(rows, known, before.base), away=away if away > FAR else 0.0)
    made.calibrated(start)
    return Growth(before.base, made, every, known, climb.tau, place)


def to_bytes(found: Growth, charges: Sequence[int]) -> bytes:
    """A fit as a ledger keeps it, and the charges whose releases it is fitted to."""
    base, state = found.base, found.state
    factors: list[Any] = [[list(names), _bits(told)] for names, told in base.factors.items()]
    atoms: dict[str, Any] = dict(base.atoms)
    place = {table: at for at, table in enumerate(found.every)}
    learnt: list[Any] = [[place[table], _bits(own)] for table, own in found.potentials.items()]
    numbers = _bits(np.array([base.total, base.away, state.total, state.away, found.tau]))
    return pack(
        {"version": VERSION, "charges": list(charges), "numbers": numbers, "atoms": atoms,
         "factors": factors, "learnt": learnt},
        plain=True,  # it is written anew with each table more
    )  # fmt: skip


def from_bytes(
    domain: Domain, data: bytes, charges: Sequence[int], releases: Sequence[Stored]
) -> Growth:
    """What `to_bytes` wrote. Raises ValueError for anything else, and for other charges."""
    found = unpack(data)
    try:
        if found["version"] != VERSION or found["charges"] != list(charges):
            raise ValueError("another fit")
        atoms = {name: found["atoms"][name] for name in domain.names if name in found["atoms"]}
        factors = {tuple(names): told.view(np.float64) for names, told in found["factors"]}
        if any(len(of) != domain.size(name) for name, of in atoms.items()):
            raise ValueError("another domain")
        total, away, rows, now, tau = found["numbers"].view(np.float64).tolist()
        base = Factored(domain, total, atoms, factors, away=away)
        if not found["learnt"]:
            return Growth(base, base)
        every = tuple(table for stored in releases for table in tables(domain, stored))
        known = {every[at]: told.view(np.float64) for at, told in found["learnt"]}
        if any(table.values.shape != told.shape for table, told in known.items()):
            raise ValueError("other releases")
        if not tau and rows > 0:  # nothing was learnt since
            return Growth(base, base, every, known)
        place = layout(domain, list(known), _most(base))
        state = replace(place.state(rows, known, base), away=now)
        return Growth(base, state, every, known, tau, place)
    except (KeyError, TypeError, AttributeError, IndexError):
        raise ValueError("no fit") from None


def _bits(told: Floats) -> Any:
    return told.astype(np.float64).view(np.int64)


def _most(base: Factored) -> int:
    return sum(base.tree.cells) + CELLS
