"""Answers from all that was measured: estimates, covariances, and one table of whole numbers.

A `Model` is what families and their noise alone say (public before anything is measured): which
queries follow from them and how well. A `Fit` adds the noisy values. What is shown is computed
from a table of whole numbers, so it agrees to the last digit; the centre of an interval is the
unrounded estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.mixes import Mix
from dpsql.mechanisms.design import Design
from dpsql.mechanisms.inverse import Inverse, inverse
from dpsql.mechanisms.mixed import MixedRows
from dpsql.mechanisms.spread import Fitted, Spread
from dpsql.mechanisms.whole import whole
from dpsql.query.canon import Family, families, parts
from dpsql.query.linear import Block, Workload

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

_SAFE = 1 << 62
_KEPT = 64  # workloads whose covariances are remembered by a model


@dataclass(frozen=True, slots=True, eq=False)
class _Placed:
    """A family on the atoms: its column, the group and weight of each, which of its groups fail."""

    column: int
    family: Family
    at: Ints
    weights: Ints
    failed: NDArray[np.bool_]


class Model:
    """Families measured with Gaussian noise of given variances."""

    def __init__(
        self,
        design: Design,
        solved: Inverse,
        precisions: list[float],
        least: float,
        mixed: Sequence[MixedRows] = (),
    ) -> None:
        self.design, self.solved, self.precisions = design, solved, precisions
        self.least, self.mixed = least, mixed
        self._spreads: dict[Workload, tuple[Spread, ...]] = {}

    @classmethod
    def of(
        cls,
        measured: Sequence[tuple[Family, Fraction]],
        mixes: Sequence[tuple[Mix, int, Fraction]] = (),
    ) -> Model | None:
        """The model of families and the variance of their noise; None where it is too large.

        Of `mixes`, each with the number of its first family and a variance, the noise is that of
        the mixed values.
        """
        design = Design.of([family for family, _ in measured])
        if design is None or not design.atoms:
            return None
        precisions = [float(family.factor**2 / variance) for family, variance in measured]
        mixed = [MixedRows.of(design, mix, first, variance) for mix, first, variance in mixes]
        for rows in mixed:
            for number in rows.families:
                precisions[number] = 0.0
        solved = inverse(design, precisions, [rows.matrix for rows in mixed])
        if solved is None:
            return None
        least = min(float(variance) for _, variance in measured) ** 0.5
        for rows in mixed:  # what rounding goes by
            for number in rows.families:
                precisions[number] = rows.size * design.families[number].factor ** 2
        return cls(design, solved, precisions, least, mixed)

    @property
    def independent(self) -> bool:
        """Whether no measured query follows from others: then fitting changes none of them."""
        return self.solved.rank == self.design.rows

    def spreads(self, workload: Workload) -> tuple[Spread, ...]:
        """What the model says of each SELECT of a workload."""
        found = self._spreads.get(workload)
        if found is None:
            kept = zip(workload.blocks, families(workload), strict=True)
            found = tuple(self._spread(block, listed) for block, listed in kept)
            if len(self._spreads) >= _KEPT:
                self._spreads.clear()
            self._spreads[workload] = found
        return found

    def _spread(self, block: Block, listed: Sequence[Family | None]) -> Spread:
        width = len(block.weights)
        covariance = np.zeros((block.groups, width, width))
        known = np.zeros((block.groups, width), bool)
        for start, size, together in by_grouping(block, listed):
            some = self.placed(together)
            if not some:
                continue
            columns = np.array([part.column for part in some])
            at = np.max([part.at for part in some], axis=0)
            weights = np.stack([part.weights for part in some]).astype(np.float64)
            factors = np.array([float(part.family.factor) for part in some])
            inner, surely = self.solved.said(at, weights, size)
            inner = inner * factors * factors[:, None]
            for place, part in enumerate(some):
                surely[part.family.origin[part.failed], place] = False
            rows = np.arange(start, start + size)
            covariance[np.ix_(rows, columns, columns)] = inner
            known[np.ix_(rows, columns)] = surely
        return Spread(covariance, known, self.least)

    def placed(self, together: Sequence[tuple[int, Family | None]]) -> list[_Placed]:
        """The families on the atoms, groups named by their place in the grouping."""
        found = []
        for column, family in together:
            on = None if family is None else self.design.on_atoms(family)
            if family is None or on is None:
                continue
            groups, weights, failed = on
            at = np.append(family.origin, -1)[groups]
            found.append(_Placed(column, family, at, weights, failed))
        return found


class Fit:
    """A model with the noisy values of its families."""

    def __init__(self, model: Model, values: Sequence[NDArray[Any]]) -> None:
        self.model = model
        design = model.design
        seen = np.zeros(design.atoms)
        precisions = list(model.precisions)
        for rows in model.mixed:
            seen += rows.seen()
            for number in rows.families:
                precisions[number] = 0.0
        for family, groups, weights, precision, noisy in zip(
            design.families, design.groups, design.weights, precisions, values, strict=True
        ):
            each = np.append(noisy.astype(np.float64) / family.factor, 0.0)[groups]
            seen += precision * weights * each
        self.table: Floats = model.solved.solve(seen)
        near = np.rint(self.table)
        exact = np.abs(self.table - near) < 1e-9 * np.maximum(np.abs(near), 1.0)
        self.whole: Ints = whole(design, np.where(exact, near, self.table), model.precisions)
        self._given = {
            family.key: noisy / family.factor
            for family, noisy in zip(design.families, values, strict=True)
        }

    def answers(self, workload: Workload) -> tuple[Fitted, ...]:
        """The answers of each SELECT of a workload that the model determines."""
        spreads = self.model.spreads(workload)
        kept = zip(workload.blocks, families(workload), spreads, strict=True)
        return tuple(Fitted(*self._block(b, listed), spread) for b, listed, spread in kept)

    def _block(self, block: Block, listed: Sequence[Family | None]) -> tuple[NDArray[Any], Floats]:
        width = len(block.weights)
        heaviest = max((w.largest for w in block.weights), default=1)
        reach = int(np.abs(self.whole).sum()) * max(heaviest, 1)
        exact: Any = np.int64 if reach < _SAFE else object
        shown = np.zeros((block.groups, width), exact)
        centre = np.zeros((block.groups, width))
        for start, _, together in by_grouping(block, listed):
            for part in self.model.placed(together):
                inside = part.at >= 0
                rows = start + part.at[inside]
                heavy = part.weights[inside] * part.family.factor
                np.add.at(centre[:, part.column], rows, heavy * self.table[inside])
                values = heavy.astype(exact) * self.whole[inside].astype(exact)
                np.add.at(shown[:, part.column], rows, values)
                self._as_given(shown, centre, start + part.family.origin, part)
        return shown, centre

    def _as_given(self, shown: NDArray[Any], centre: Floats, rows: Ints, part: _Placed) -> None:
        """Where fitting left the value of a measured query alone, that value is what is shown."""
        given = self._given.get(part.family.key)
        if given is None:
            return
        factor, column = part.family.factor, part.column
        near = 1e-9 * np.maximum(np.abs(given), 1e3)
        alone = np.abs(centre[rows, column] / factor - given) <= near
        picked = rows[alone]
        shown[picked, column] = np.rint(given[alone]).astype(np.int64) * factor


def by_grouping(
    block: Block, listed: Sequence[Family | None]
) -> list[tuple[int, int, list[tuple[int, Family | None]]]]:
    """The families of a block by grouping: its first row, its size, and each weight's family."""
    found: list[tuple[int, int, list[tuple[int, Family | None]]]] = []
    for (start, grouping, column, _), family in zip(parts(block), listed, strict=True):
        if column == 0:
            found.append((start, grouping.size, []))
        found[-1][2].append((column, family))
    return found
