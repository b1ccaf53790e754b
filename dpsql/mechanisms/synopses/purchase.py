"""What a warm start buys: marginals of sets of columns, and how far they will be off.

All 1-way marginals and the sets that are chosen are measured by one residual plan (`residual`), so
each set's error is known before anything is bought. It is that of the unbiased estimates; a model
fitted to them errs less where cells are few or empty, by no known law.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dpsql.domain import Domain
from dpsql.mechanisms.strategies.axes import Identity
from dpsql.mechanisms.strategies.residual import plan
from dpsql.mechanisms.synopses.junction import Names
from dpsql.query.linear import Block, Grouping, Term, Weight, Workload
from dpsql.query.predicate import ALWAYS

CELLS = 1 << 16  # of a table
_SETS = 1 << 16


@dataclass(frozen=True, slots=True)
class Foreseen:
    """A set of columns, the cells of its marginal, and their standard error, in rows: root mean
    square over the cells, all alike for an ideal plan."""

    names: Names
    cells: int
    stderr: float


def bought(domain: Domain, sets: Iterable[Sequence[str]]) -> tuple[Names, ...]:
    """The sets that are measured: all columns by themselves, then those asked for, each once, with
    its columns in the order of the domain.

    Raises ValueError for a column that is not in the domain, or a set of none or with one twice.
    """
    found: dict[Names, None] = {(name,): None for name in domain.names}
    for asked in sets:
        names = tuple(name for name in domain.names if name in asked)
        if not names or len(names) != len(asked):
            raise ValueError(f"{tuple(asked)} is no set of columns of {domain.names}")
        found[names] = None
        if len(found) > _SETS:
            raise ValueError(f"at most {_SETS:,} marginals are planned together")
    return tuple(found)


def foreseen(domain: Domain, sets: Iterable[Sequence[str]], rho: float) -> tuple[Foreseen, ...]:
    """The errors of `bought` sets at a price of `rho` together, for one row that comes or goes."""
    if not 0 < rho < math.inf:
        raise ValueError("a price is a finite rho above 0")
    listed = bought(domain, sets)
    place = {name: at for at, name in enumerate(domain.names)}
    tables = [tuple(place[name] for name in names) for names in listed]
    found = plan([Identity(size) for size in domain.sizes], tables)
    errors = np.sqrt(found.average(rho)).tolist()
    cells = [domain.project(names).cells for names in listed]
    return tuple(Foreseen(*each) for each in zip(listed, cells, errors, strict=True))


def workload(domain: Domain, sets: Iterable[Sequence[str]]) -> Workload:
    """The counts of all cells of `bought` sets, a grouping each: what `marginals` plans."""
    return counted(domain, bought(domain, sets))


def counted(domain: Domain, sets: Iterable[Names], factor: int = 1) -> Workload:
    """The counts of all cells of some sets of columns, a grouping each, times a factor."""
    codes = {name: np.arange(domain.size(name)) for name in domain.names}
    own = {name: domain.project([name]) for name in domain.names}
    groupings = []
    for names in sets:
        keys, stride = [], domain.project(names).cells
        groups = np.arange(stride)
        for name in names:
            stride //= domain.size(name)
            keys.append((own[name], codes[name], stride))
        groupings.append(Grouping(tuple(keys), groups))
    weights = (Weight((Term(ALWAYS),), factor),)
    return Workload(domain, (Block(ALWAYS, weights, tuple(groupings)),))
