"""One table of whole numbers for the answers of a strategy on cells, so that all of them agree.

Its estimates of the answers are sums over one estimated table, and so are the answers shown over
that table rounded (`whole`). What rounding adds to a squared error is seen on tables whose
fractions are anything; of errors that are small themselves it may take some away, which is not
said.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.intervals.drawn import chances
from dpsql.mechanisms.intervals.rounded import SURE, rounded
from dpsql.mechanisms.reuse.design import Design
from dpsql.mechanisms.strategies.cells import over_atoms
from dpsql.mechanisms.strategies.whole import whole
from dpsql.query.canon import Family

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

_FAMILIES = 64  # more than that are rounded each by itself
_TRIED, _FEWEST = 1 << 13, 4  # atoms that are rounded to see what it does, and tables


@dataclass(frozen=True, slots=True, eq=False)
class OneTable:
    """Answers over the atoms of a `design`: `rows` (answers, atoms), of which `order` are the
    cells; each is a multiple of its factor, and rounding adds `more` to its mean squared error.
    """

    design: Design
    order: Ints
    rows: Ints
    factors: Ints
    more: Floats

    def shown(self, cells: Floats, answers: Floats, variances: Floats) -> Ints:
        """The answers of an estimated table of the cells, with their estimates and variances.

        What noise cannot have moved is shown as it is: it agrees with the rest where that is true.
        """
        table = np.zeros(len(cells))
        table[self.order] = cells
        found = self.rows @ _rounded(self.design, table)
        nearest = np.rint(answers / self.factors).astype(np.int64) * self.factors
        near: Ints = np.where(self._sure(variances), nearest, found)
        return near

    def errors(self, variances: Floats) -> Floats:
        """The mean squared errors of what is shown, of the estimates' variances."""
        alone = rounded(variances / self.factors**2) * self.factors**2
        found: Floats = np.where(self._sure(variances), alone, variances + self.more)
        return found

    def _sure(self, variances: Floats) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = variances < SURE * self.factors**2
        return found


def one_table(listed: Sequence[Family], places: Sequence[Ints]) -> OneTable | None:
    """Of the families of a strategy on cells, with the place of each group among all answers; None
    for very many families.
    """
    if len(listed) > _FAMILIES:
        return None
    return _one_table(tuple(listed), tuple(place.tobytes() for place in places))


@functools.lru_cache(16)
def _one_table(listed: tuple[Family, ...], places: tuple[bytes, ...]) -> OneTable | None:
    where = [np.frombuffer(place, np.int64) for place in places]
    size = sum(map(len, where))
    found = over_atoms(listed, where, size)
    if found is None:
        return None
    design, rows, order = found
    factors = np.ones(size, np.int64)
    for family, place in zip(listed, where, strict=True):
        factors[place] = family.factor
    tables = chances(design.atoms, max(_TRIED // design.atoms, _FEWEST))
    off = np.square((_rounded(design, tables) - tables) @ rows.T).mean(axis=0)
    more = np.zeros(size)
    for place in where:  # all groups of a family alike
        more[place] = off[place].mean()
    return OneTable(design, order, rows, factors, more)


def _rounded(design: Design, tables: Floats) -> Ints:
    return whole(design, tables, [1.0] * len(design.families))
