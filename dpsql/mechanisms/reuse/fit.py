"""Answers from all that was measured: estimates, covariances, and one table of whole numbers.

A `Model` is what families and their noise alone say (public before anything is measured): which
queries follow from them and how well. A `Fit` adds the noisy values. What is shown is computed
from a table of whole numbers, so it agrees to the last digit; the centre of an interval is the
unrounded estimate.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Gaussian, Laplace, Law
from dpsql.accounting.kept.mixes import Mix
from dpsql.accounting.kept.tabled import Tabled
from dpsql.mechanisms.intervals.blends import LEAST
from dpsql.mechanisms.intervals.drawn import chances, drawn, tried_mean
from dpsql.mechanisms.intervals.rounded import SURE, rounded, to_multiples
from dpsql.mechanisms.intervals.spread import Fitted, Spread, Spreads
from dpsql.mechanisms.reuse.design import Design
from dpsql.mechanisms.reuse.heavy import Measured, Placed
from dpsql.mechanisms.reuse.inverse import Inverse, inverse, large
from dpsql.mechanisms.reuse.nested import nested_part
from dpsql.mechanisms.reuse.precision import variance_of
from dpsql.mechanisms.reuse.residualrows import residual_rows
from dpsql.mechanisms.strategies.mixed import MixedRows
from dpsql.mechanisms.strategies.whole import GREEDY, alike, whole
from dpsql.query.canon import Family, families, parts
from dpsql.query.linear import Block, Workload

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

_SAFE = 1 << 62
_TABLES, _FEWEST = 1 << 15, 4  # atoms that are rounded to see what it does, and tables
_MOST, _UNLIKE = 512, 256  # tables, those of sums take longer
_SPAN = 1024.0  # of the counts that are tried
_LARGE = 1.0  # of a variance, whose rounding is independent
_NOTHING = 0.02  # of a precision: beside so much noise it makes no difference how sums are rounded
_SAME = 1e-6  # of a variance that nothing was added to


class Model:
    """Families measured with noise of given laws; `scales` are those of Laplace noise, by the
    number of the family. `kept` are the places of these among those that were measured, None for
    all of them.
    """

    def __init__(
        self,
        design: Design,
        solved: Inverse,
        precisions: list[float],
        least: float,
        mixed: Sequence[MixedRows] = (),
        scales: Mapping[int, float] = MappingProxyType({}),
        laws: Sequence[Law] = (),
    ) -> None:
        self.design, self.solved, self.precisions = design, solved, precisions
        self._laws = laws
        self.least, self.mixed = least, mixed
        self._measured = Measured(design, solved, precisions, scales)
        self.kept: Sequence[int] | None = None
        self._spreads = Spreads()
        self._placed: tuple[tuple[tuple[int, Family | None], ...], list[Placed]] = ((), [])

    @classmethod
    def of(
        cls,
        measured: Sequence[tuple[Family, Law]],
        mixes: Sequence[tuple[Mix | Tabled, int, Fraction]] = (),
    ) -> Model | None:
        """The model of families and their noise; None where it is too large.

        Of `mixes`, each with the number of its first family and a variance, the noise is that of
        the mixed values, or of those of residual tables.
        """
        design = Design.of([family for family, _ in measured])
        if design is None or not design.atoms:
            return None
        precisions = [float(family.factor**2 / variance_of(law)) for family, law in measured]
        if large(design.atoms, sum(mix.values.size for mix, _, _ in mixes)):
            return None
        mixed = [
            residual_rows(design, mix, first, variance)
            if isinstance(mix, Tabled)
            else MixedRows.of(design, mix, first, variance)
            for mix, first, variance in mixes
        ]
        for rows in mixed:
            for number in rows.families:
                precisions[number] = 0.0
        solved = inverse(design, precisions, [rows.matrix for rows in mixed])
        if solved is None:
            return None
        normal = [float(law.variance) for _, law in measured if isinstance(law, Gaussian)]
        least = min(normal, default=math.inf) ** 0.5
        for rows in mixed:  # what rounding goes by
            for number, size in zip(rows.families, rows.sizes, strict=True):
                precisions[number] = size * design.families[number].factor ** 2
        scales = {
            number: max(float(law.scale), LEAST)
            for number, (_, law) in enumerate(measured)
            if isinstance(law, Laplace)
        }
        laws = [law for _, law in measured] + [Gaussian(1, variance) for _, _, variance in mixes]
        return cls(design, solved, precisions, least, mixed, scales, laws)

    @classmethod
    def nested(cls, measured: Sequence[tuple[Family, Law]]) -> Model | None:
        """A model of those families that are nested, where all together are too large: what a
        ROLLUP over a calendar says, beside statements about other columns.
        """
        kept = nested_part([family for family, _ in measured])
        found = cls.of([measured[at] for at in kept]) if 1 < len(kept) < len(measured) else None
        if found is not None:
            found.kept = kept
        return found

    @property
    def independent(self) -> bool:
        """Whether no measured query follows from others: then fitting changes none of them."""
        return self.solved.rank == self.design.rows

    def spreads(self, workload: Workload) -> tuple[Spread, ...]:
        """What the model says of each SELECT of a workload."""
        return self._spreads.of(workload, self._spread)

    def _spread(self, block: Block, listed: Sequence[Family | None]) -> Spread:
        width = len(block.weights)
        covariance = np.zeros((block.groups, width, width))
        known = np.zeros((block.groups, width), bool)
        placed = []
        for start, size, together in by_grouping(block, listed):
            some = self.placed(together)
            placed.append((start, size, some))
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
        heavy = self._measured.heavy(placed, covariance) if self._measured.scales else None
        spread = Spread(covariance, known, self.least, heavy)
        whole = cache(lambda: self._whole(block, listed, spread))
        return dataclasses.replace(spread, whole=whole, multiples=True)

    def _whole(self, block: Block, listed: Sequence[Family | None], spread: Spread) -> Floats:
        """The mean squared errors of what is shown, rounding of all groups of a grouping alike.

        What no other release says anything about is shown as it was measured, and what noise cannot
        have moved is shown as the whole number that it is.
        """
        noise, found = spread.variances, spread.variances.copy()
        measured = {
            family.key: precision
            for family, precision in zip(self.design.families, self.precisions, strict=True)
        }
        for start, _, together in by_grouping(block, listed):
            for part in self.placed(together):
                inside = part.at >= 0
                if not inside.any():
                    continue
                factor, column = part.family.factor, part.column
                rows = start + np.unique(part.at[inside])
                found[rows, column] = (
                    self._rounded(part, noise[rows, column] / factor**2) * factor**2
                )
                rows = start + part.family.origin
                as_said = noise[rows, column] * measured.get(part.family.key, 0.0)
                own = rows[np.abs(as_said / factor**2 - 1.0) < _SAME]
                found[own, column] = to_multiples(noise[own, column], factor)
                found[rows[noise[rows, column] < SURE * factor**2], column] = 0.0
        return found

    def _rounded(self, part: Placed, noise: Floats) -> Floats:
        """The mean squared errors of the groups of a family, of these variances, in units of its
        factor: what rounding adds to large ones, and what is left of small ones.

        Between what is left of an estimate that is rounded by itself and what is off where all
        that is rounded is independent of the noise, or beyond, each is as far as all are; as far
        as these may be after so many tries.
        """
        if max(self.precisions) <= _NOTHING and self.design.atoms <= GREEDY:
            whole_ = self.independent and not self.mixed  # what follows from rows is whole, too
            return noise if whole_ else noise + 1.0 / 12.0
        inside = part.at >= 0
        at = np.unique(part.at[inside], return_inverse=True)[1]
        heavy = part.weights[inside].astype(np.float64)
        if not at.any():  # one group, of which most questions are
            both = [np.einsum("ta,a->t", each[:, inside], heavy)[:, None] for each in self.rounding]
        else:
            both = [[np.bincount(at, heavy * e[inside]) for e in each] for each in self.rounding]
        errors, shown = np.array(both)
        apart: Floats = noise + np.square(shown - errors).mean()
        tried, known = np.square(shown).mean(1), np.square(errors).mean(1) - noise.mean()
        mean, allowed = tried_mean(tried, known)
        least: Floats = np.minimum(rounded(noise), apart)
        room, most = float((apart - least).mean()), float(apart.mean())
        # what is seldom off may not be: a Poisson number of mean 3 is 0 once in twenty times
        left = mean if float(noise.min()) >= _LARGE else mean + allowed + 3.0 / shown.size
        between: Floats
        if left >= most or room <= 0.0 or float(noise.min()) >= _LARGE:
            between = apart + max(left - most, 0.0)
        else:
            between = least + max(left - float(least.mean()), 0.0) / room * (apart - least)
        return between.astype(np.float32).astype(np.float64)  # in whatever order sums were added

    @cached_property
    def rounding(self) -> tuple[Floats, Ints]:
        """The errors of some tables (tables, atoms), as if drawn, and what these become when tables
        are made whole.

        A table that is off by whole numbers is rounded as if it were not: so what is true is 0,
        or any table as if drawn where the atoms do not follow from what was measured.
        """
        families_ = self.design.families
        counts = [f.met for f in families_] + [rows.values.size for rows in self.mixed]
        most = _MOST if alike(self.design) else _UNLIKE
        turns = min(max(_TABLES // self.design.atoms, _FEWEST), most)
        values = drawn(list(zip(self._laws, counts, strict=True)), turns)
        true = np.zeros((1, self.design.atoms))
        if self.solved.rank < self.design.atoms:
            true = np.floor(chances(self.design.atoms, turns) * _SPAN)
            values = [v + t for v, t in zip(values, self._measured_of(true), strict=True)]
        table = self.table(values[: len(families_)], values[len(families_) :])
        return table - true, whole(self.design, table, self.precisions) - true.astype(np.int64)

    def _measured_of(self, tables: Floats) -> list[Floats]:
        """What was measured of some tables (tables, atoms), without noise."""
        found: list[Floats] = []
        for family, groups, weights in zip(
            self.design.families, self.design.groups, self.design.weights, strict=True
        ):
            inside, heavy = groups >= 0, weights * float(family.factor)
            each = [np.bincount(groups[inside], (heavy * t)[inside], family.met) for t in tables]
            found.append(np.array(each, np.float64))
        return found + [tables @ rows.matrix.T * rows.stddev for rows in self.mixed]

    def table(self, values: Sequence[NDArray[Any]], mixed: Sequence[NDArray[Any]]) -> Floats:
        """The estimate of the atoms, of noisy values of the families and of what was mixed.

        Or several, of values along the last axis.
        """
        design = self.design
        seen: Any = 0.0
        precisions = list(self.precisions)
        for rows, noisy in zip(self.mixed, mixed, strict=True):
            seen = seen + rows.seen(noisy)
            for number in rows.families:
                precisions[number] = 0.0
        for family, groups, weights, precision, noisy in zip(
            design.families, design.groups, design.weights, precisions, values, strict=True
        ):
            if not family.met:
                continue
            each = np.where(groups >= 0, noisy[..., groups] / family.factor, 0.0)
            seen = seen + precision * weights * each
        table: Floats = self.solved.solve(seen)
        near = np.rint(table)
        exact = np.abs(table - near) < 1e-9 * np.maximum(np.abs(near), 1.0)
        return np.where(exact, near, table)

    def placed(self, together: Sequence[tuple[int, Family | None]]) -> list[Placed]:
        """The families on the atoms, groups named by their place in the grouping.

        They are asked for again and again while an answer is made.
        """
        name = tuple(together)
        if self._placed[0] == name:
            return self._placed[1]
        found = []
        for column, family in together:
            on = None if family is None else self.design.on_atoms(family)
            if family is None or on is None:
                continue
            groups, weights, failed = on
            at = np.append(family.origin, -1)[groups]
            found.append(Placed(column, family, at, weights, failed))
        self._placed = name, found
        return found


class Fit:
    """A model with the noisy values of its families."""

    def __init__(self, model: Model, values: Sequence[NDArray[Any]]) -> None:
        self.model = model
        design = model.design
        values = values if model.kept is None else [values[at] for at in model.kept]
        self.table = model.table(values, [rows.values for rows in model.mixed])
        self.whole: Ints = whole(design, self.table, model.precisions)
        self._given = {
            family.key: noisy / family.factor
            for family, noisy in zip(design.families, values, strict=True)
        }

    def answers(self, workload: Workload) -> tuple[Fitted, ...]:
        """The answers of each SELECT of a workload that the model determines."""
        spreads = self.model.spreads(workload)
        kept = zip(workload.blocks, families(workload), spreads, strict=True)
        return tuple(Fitted(*self._block(b, listed, spread), spread) for b, listed, spread in kept)

    def _block(
        self, block: Block, listed: Sequence[Family | None], spread: Spread
    ) -> tuple[NDArray[Any], Floats]:
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
                rows = start + part.family.origin
                self._as_it_is(shown, centre, spread.variances, rows, part)
                self._as_given(shown, centre, rows, part)
        return shown, centre

    def _as_it_is(
        self, shown: NDArray[Any], centre: Floats, variances: Floats, rows: Ints, part: Placed
    ) -> None:
        """Where rounding an estimate finds what is true, that is what is shown.

        The table may be whole in many ways of which few keep all sums; what is true agrees anyway.
        """
        factor, column = part.family.factor, part.column
        picked = rows[variances[rows, column] < SURE * factor**2]
        shown[picked, column] = np.rint(centre[picked, column] / factor).astype(np.int64) * factor

    def _as_given(self, shown: NDArray[Any], centre: Floats, rows: Ints, part: Placed) -> None:
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
