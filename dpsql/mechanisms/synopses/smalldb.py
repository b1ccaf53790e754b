"""SmallDB: one small database that answers all queries of a list (Blum, Ligett, Roth 2008).

The exponential mechanism chooses a database y of m rows, of all over the grid of some columns, by
its largest error over the queries q, |q(D) - n q(y) / m| rows for a table of n rows. By sampling,
some y errs by no more than n sqrt(ln(2k) / 2m) on k queries (Hoeffding), and of M databases one is
chosen that errs by more than the best by b (ln M + ln(1 / beta)) / m with probability beta at most,
where b is the scale of the mechanism on errors times m (McSherry, Talwar 2007). That is the
theorem; it looks at M = C(N + m - 1, m) databases, so N cells are few.

The number of rows and the error of the database that was chosen are measured, too: what that says
is nearly always much less than the theorem, and the lesser of both bounds all answers at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Exponential, Gaussian, Rounds
from dpsql.accounting.kept.chosen import Chosen
from dpsql.accounting.kept.stored import Stored
from dpsql.curator import small
from dpsql.domain import Domain
from dpsql.errors import UsageError
from dpsql.mechanisms import gaussian
from dpsql.mechanisms.intervals.quantile import half_width
from dpsql.mechanisms.synopses.guesses import queries
from dpsql.mechanisms.synopses.mwem import scale_of
from dpsql.query.canon import families
from dpsql.query.linear import Workload, whole

SIZE = 8  # rows of a database, where that is not said and so many can be looked at
TOTAL, DISTANCE = 0.1, 0.2  # of the price; the rest is for the choice

Ints: TypeAlias = NDArray[np.int64]


class Buys(Protocol):
    """What was paid for (`curator.chooser.Chooser`)."""

    def first(self, asked: Workload) -> tuple[NDArray[Any], ...]: ...
    def database(self, domain: Domain, size: int) -> int: ...
    def distance(self) -> int: ...


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What is bought: a database of `size` rows over a domain, for the queries of `listed`."""

    listed: Workload
    domain: Domain
    size: int
    event: Rounds

    @property
    def many(self) -> int:
        """How many databases there are."""
        return small.databases(self.domain.cells, self.size)

    @property
    def all_rows(self) -> Workload:
        """The number of rows of the grid."""
        (block,) = whole(self.domain.project(())).blocks
        return Workload(self.domain, (block,))

    def better(self, level: float) -> float:
        """By how many rows more than the best database the one that is chosen errs, at most, at a
        level; the best one errs by no more than `sampled`."""
        return beyond(self.event.pick.scale, self.many, self.size, 1 - level)


def sampled(rows: float, number: int, size: int) -> float:
    """How far the best database of a size errs on so many queries, at most, in rows."""
    return rows * math.sqrt(math.log(2 * number) / (2 * size))


def beyond(scale: Fraction, many: int, size: int, beta: float) -> float:
    """By how much more the one that is chosen errs, in rows, but for a chance of beta."""
    return float(scale) * (math.log(many) + math.log(1 / beta)) / size


def planned(
    listed: Workload,
    domain: Domain,
    size: int | None,
    rho: int,
    squared: Callable[[Workload], int],
    unit: int,
) -> Plan:
    """A database at a price (in pico): 70 % are for the choice. Raises UsageError where there are
    too many databases to look at, or the price is too small."""
    if size is None:
        sizes = range(SIZE, 0, -1)
        within = (m for m in sizes if small.fits(domain.cells, m, listed.size))
        size = next(within, 1)
    small.require(domain.cells, size, listed.size)
    total, distance = int(TOTAL * rho), int(DISTANCE * rho)
    if not (total > 0 and distance > 0):
        raise UsageError("the price is too small for a database")
    count = squared(whole(domain.project(())))
    laws = [Gaussian(count, gaussian.noise(count, share).variance) for share in (total, distance)]
    pick = Exponential(size * unit, scale_of(size * unit, rho - total - distance))
    return Plan(listed, domain, size, Rounds(laws[0], pick, laws[1], 1))


def learnt(plan: Plan, buys: Buys) -> Stored:
    """The database that was chosen, with the number of rows, and how far it errs."""
    noisy = buys.first(plan.all_rows)
    place = buys.database(plan.domain, plan.size)
    distance = buys.distance()
    law = plan.event.first
    total = Stored.of(plan.all_rows, law, noisy)
    assert total is not None
    cells = np.array(small.database(plan.domain.cells, plan.size, place))
    codes = np.stack(np.unravel_index(cells, plan.domain.sizes), axis=1).astype(np.int64)
    keys = dict.fromkeys(_key(query) for query in queries(plan.listed))
    found = Chosen(
        plan.domain.names, codes, tuple(keys), plan.many, plan.event.pick.scale,
        int(noisy[0].item()), distance, (law, plan.event.each),
    )  # fmt: skip
    return Stored(total.families, law, total.values, picked=(), chosen=found)


def _key(query: Workload) -> str:
    ((family,),) = families(query)
    assert family is not None  # on a grid of few cells
    return family.key


# -- answers ---------------------------------------------------------------------------------------


def told(found: Chosen, workload: Workload) -> bool:
    """Whether the database was chosen for all queries of a workload."""
    known = set(found.keys)
    return all(
        family is not None and family.key in known and family.factor == 1
        for query in queries(workload)
        for listed in families(query)
        for family in listed
    )


def answers(found: Chosen, workload: Workload) -> list[NDArray[np.int64]]:
    """What the database answers to each block, in whole rows of the table."""
    size, total = len(found.codes), max(found.total, 0)
    codes = {name: np.zeros(size, np.int64) for name in workload.domain.names}
    codes |= {name: found.codes[:, at] for at, name in enumerate(found.names)}
    blocks = workload.matvec(codes, np.ones(size, np.int64))
    return [(2 * total * block + size) // (2 * size) for block in blocks]


def most(found: Chosen, level: float) -> int:
    """How far answers are off, at most, in rows, all of them at once, at a level.

    |q(D) - n q(y) / m| is at most the distance that was measured, but for its noise; n is the total
    that was measured, but for its noise. The theorem bounds the former, too.
    """
    beta = (1 - level) / 3
    rows, far = (half_width(law, 1 - beta) for law in found.laws)
    measured = max(found.distance + far, 0)
    size = len(found.codes)
    theorem = sampled(max(found.total, 0) + rows, len(found.keys), size)
    theorem += beyond(found.scale, found.many, size, beta)
    return math.ceil(min(measured, theorem) + rows + 0.5)  # what is shown is whole


def at_best(found: Chosen, level: float) -> int:
    """The same of a database that errs on no query: known before anybody has paid for it."""
    beta = (1 - level) / 3
    return math.ceil(sum(half_width(law, 1 - beta) for law in found.laws) + 0.5)
