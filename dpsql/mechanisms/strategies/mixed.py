"""What was measured through a strategy, as rows over atoms and as answers of its own."""

from __future__ import annotations

import dataclasses
import functools
import math
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Gaussian
from dpsql.accounting.kept.mixes import Mix
from dpsql.accounting.kept.stored import Stored
from dpsql.mechanisms.intervals.law import stddev
from dpsql.mechanisms.intervals.noises import Joint
from dpsql.mechanisms.intervals.rounded import rounded
from dpsql.mechanisms.intervals.spread import Fitted, Spread
from dpsql.mechanisms.reuse.design import Design
from dpsql.mechanisms.reuse.found import Answered, Found
from dpsql.mechanisms.threads import one_thread
from dpsql.query.canon import families, parts
from dpsql.query.linear import Block, Workload
from dpsql.query.renewed import Renewed

if TYPE_CHECKING:  # it looks at what was measured as it is
    from dpsql.mechanisms.strategies.margins import Margins
    from dpsql.mechanisms.strategies.tabled import OneTable

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_KEPT = 1 << 24  # entries of covariances that are remembered
_ENTRIES = 1 << 22  # of covariances at a time


@dataclass(frozen=True, slots=True, eq=False)
class MixedRows:
    """The rows of a strategy over a design's atoms, (rows, atoms), scaled by 1 / stddev.

    `families` are the numbers of those that it mixes, `sizes` the mean precision of an answer of
    each; `values` is what was measured, with noise of this stddev.
    """

    matrix: Floats
    families: tuple[int, ...]
    sizes: tuple[float, ...]
    values: Ints
    stddev: float

    @classmethod
    def of(cls, design: Design, mix: Mix, first: int, variance: Fraction) -> MixedRows:
        """The rows of a mix whose first family has this number in the design."""
        numbers = tuple(range(first, first + len(mix.places)))
        answers = np.zeros((len(mix.values) * mix.answers, design.atoms))
        for number, places in zip(numbers, mix.places, strict=True):
            family, groups = design.families[number], design.groups[number]
            inside = np.flatnonzero(groups >= 0)
            rows = places[groups[inside]]
            answers[rows, inside] = design.weights[number][inside] * family.factor
        stddev = math.sqrt(variance)
        runs = answers.reshape(len(mix.values), -1, design.atoms)
        if mix.cells is not None:
            runs = _on_cells(mix.cells, answers)[None]
        rows_ = np.einsum("rw,gwa->gra", mix.matrix.astype(np.float64), runs) / stddev
        spread = float(np.mean(np.diag(covariance(mix)))) * float(variance)
        sizes = (1.0 / spread,) * len(numbers)
        return cls(rows_.reshape(-1, design.atoms), numbers, sizes, mix.values.reshape(-1), stddev)

    def seen(self, values: NDArray[Any]) -> Floats:
        """A'y of the values, or of several, along the last axis."""
        found: Floats = (values / self.stddev) @ self.matrix
        return found


def _on_cells(cells: Ints, answers: Floats) -> Floats:
    """(cells, atoms): in which cell each atom is, of the columns of answers that both have."""
    known = {column.tobytes(): at for at, column in enumerate(np.ascontiguousarray(cells.T))}
    found = np.zeros((cells.shape[1], answers.shape[1]))
    for atom, column in enumerate(np.ascontiguousarray(answers.T.astype(np.int64))):
        if column.any():
            found[known[column.tobytes()], atom] = 1.0
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Undone:
    """R of a `matrix` on answers or `cells`, and the covariance of the answers of a run."""

    matrix: Ints
    cells: Ints | None
    root: Floats
    covariance: Floats

    @classmethod
    def of(cls, mix: Mix) -> _Undone:
        with one_thread():
            root = np.linalg.inv(mix.matrix.astype(np.float64))
            root = root if mix.cells is None else mix.cells @ root
            return cls(mix.matrix, mix.cells, root, root @ root.T)


_UNDONE: OrderedDict[tuple[int, int], _Undone] = OrderedDict()
_UNDOING = Renewed()


def _undone(mix: Mix) -> _Undone:
    """Found once for a matrix, which takes up to a second, while it is among the last ones used."""
    name = (id(mix.matrix), id(mix.cells))  # of what is held, so that it names nothing else
    with _UNDOING.held():
        if name not in _UNDONE:
            _UNDONE[name] = _Undone.of(mix)
        _UNDONE.move_to_end(name)
        while len(_UNDONE) > 1 and sum(u.covariance.size for u in _UNDONE.values()) > _KEPT:
            _UNDONE.popitem(last=False)
        return _UNDONE[name]


def root(mix: Mix) -> Floats:
    """R (answers, rows): the answers of a run are R times its values."""
    return _undone(mix).root


def covariance(mix: Mix) -> Floats:
    """That of the answers of a run, (answers, answers), at a variance of 1."""
    return _undone(mix).covariance


_NUMBERS: weakref.WeakKeyDictionary[Stored, Mapping[str, int]] = weakref.WeakKeyDictionary()


def _numbers(stored: Stored) -> Mapping[str, int]:
    """The numbers of the families that were mixed, by key; listed once, as a script asks for those
    of each of its statements."""
    known = _NUMBERS.get(stored)
    if known is None:
        mixed = stored.families[: len(stored.families) - sum(map(len, stored.of_tables()))]
        known = _NUMBERS[stored] = {family.key: at for at, family in enumerate(mixed)}
    return known


@dataclass(frozen=True, slots=True, eq=False)
class Again:
    """Answers that a strategy was measured for; `numbers` are those of its families, by block, -1
    for others.

    A query may be on another scale than it was then.
    """

    workload: Workload
    stored: Stored
    numbers: list[list[int]]

    @classmethod
    def of(cls, workload: Workload, stored: Stored) -> Again:
        """The queries of a workload that are among those of a release that were mixed."""
        known = _numbers(stored)
        return cls(
            workload,
            stored,
            [
                [-1 if family is None else known.get(family.key, -1) for family in block]
                for block in families(workload)
            ],
        )

    @property
    def full(self) -> bool:
        """Whether every query is among them."""
        return all(number >= 0 for own in self.numbers for number in own)

    def spreads(self) -> tuple[Spread, ...]:
        """What is known of each SELECT's answers."""
        least = stddev(self.stored.law)
        found = []
        for block, (of, at, scale) in zip(self.workload.blocks, self._places(), strict=True):
            width = len(block.weights)
            inner = np.zeros((block.groups, width, width))
            for number, mix in self._mixes(of):
                mine = np.flatnonzero((of == number).any(axis=1))
                step = max(1, _ENTRIES // width**2)
                share = self._share(mix)
                for rows in (mine[start : start + step] for start in range(0, len(mine), step)):
                    inside, here = of[rows] == number, at[rows] % mix.answers
                    run = np.where(inside, at[rows] // mix.answers, -1 - np.arange(width))
                    alike = (run[:, :, None] == run[:, None, :]) & inside[:, :, None]
                    each = covariance(mix)[here[:, :, None], here[:, None, :]]
                    each = each * share[np.where(inside, run, 0)][:, :, None]
                    sides = scale[rows, :, None] * scale[rows, None, :]
                    inner[rows] += np.where(alike, each * sides, 0.0)
            spread = Spread(inner * least**2, of >= 0, least)
            found.append(self._agreed(spread, block, of, at, scale))
        return tuple(found)

    def _agreed(self, spread: Spread, block: Block, of: Ints, at: Ints, scale: Floats) -> Spread:
        """With what becomes of errors where answers are made to agree and shown as one table."""
        mixes = self.stored.mixes
        agreed = {n: g for n, mix in self._mixes(of) if (g := self._margins(mix))}
        tables = {n: t for n, mix in self._mixes(of) if (t := self._table(mix))}
        if not agreed and not tables:
            return spread

        @functools.cache
        def whole() -> Floats:
            factors = np.array([weight.factor for weight in block.weights])
            more: Floats = rounded(spread.variances / factors**2) * factors**2
            for number, groups in agreed.items():
                own = groups.shown(*self._scales(mixes[number])).reshape(-1)
                picked = of == number
                more[picked] = own[at[picked]] * scale[picked] ** 2
            for number, table in tables.items():
                noise = np.diag(covariance(mixes[number])) * stddev(self.stored.law) ** 2
                picked = of == number
                more[picked] = table.errors(noise)[at[picked]] * scale[picked] ** 2
            return more

        return dataclasses.replace(spread, whole=whole, multiples=True)

    def _mixes(self, of: Ints) -> list[tuple[int, Mix]]:
        """The mixes that some answers are in, by number."""
        numbers = set(of.reshape(-1).tolist())
        return [(at, self.stored.mixes[at]) for at in sorted(numbers) if at >= 0]

    def _margins(self, mix: Mix) -> Margins | None:
        """Of the groups of a SELECT whose aggregates were mixed group by group."""
        if mix.cells is not None or len(mix.values) < 2:
            return None
        from dpsql.mechanisms.strategies.margins import margins

        listed = self.stored.families[mix.first : mix.first + len(mix.places)]
        return margins(listed, mix.answers)

    def _table(self, mix: Mix) -> OneTable | None:
        """Of a strategy on cells."""
        if mix.cells is None:
            return None
        from dpsql.mechanisms.strategies.tabled import one_table

        listed = self.stored.families[mix.first : mix.first + len(mix.places)]
        return one_table(listed, mix.places)

    def _share(self, mix: Mix) -> Floats:
        """Of the variance of each run, what agreement leaves."""
        found = self._margins(mix)
        return np.ones(len(mix.values)) if found is None else found.share

    def _scales(self, mix: Mix) -> tuple[list[float], list[int]]:
        """The variance of each answer of a run, and of what it is a multiple."""
        law = self.stored.law
        assert isinstance(law, Gaussian)  # as all strategies
        listed = self.stored.families[mix.first : mix.first + mix.answers]
        variances = np.diag(covariance(mix)) * float(law.variance)
        return variances.tolist(), [family.factor for family in listed]

    def _estimates(self, mix: Mix) -> Floats:
        """The answers of all runs, one after another."""
        found: Floats = mix.values.astype(np.float64) @ root(mix).T
        groups = self._margins(mix)
        if groups is not None:
            found = groups.fitted(found, *self._scales(mix))[1]
        return found.reshape(-1)

    def __call__(self) -> Answered:
        found = self.fitted()
        return Answered(tuple(some.shown for some in found), tuple(map(Joint, found)), 1)

    def fitted(self) -> tuple[Fitted, ...]:
        """The answers of each SELECT."""
        found = []
        for block, listed, numbers, spread, (of, at, scale) in zip(
            self.workload.blocks,
            families(self.workload),
            self.numbers,
            self.spreads(),
            self._places(),
            strict=True,
        ):
            values = np.zeros((block.groups, len(block.weights)), np.int64)
            centre = np.zeros(values.shape)
            for (start, _, column, _), family, number in zip(
                parts(block), listed, numbers, strict=True
            ):
                if family is not None and number >= 0:
                    values[start + family.origin, column] = self.stored.values[number]
            for number, mix in self._mixes(of):
                centre[of == number] = self._estimates(mix)[at[of == number]]
            centre *= scale
            values = np.where(scale == 1.0, values, np.rint(centre).astype(np.int64))
            found.append(Fitted(values, centre, spread))
        return tuple(found)

    def _places(self) -> list[tuple[Ints, Ints, Floats]]:
        """Of each block (groups, weights): in which mix an answer is (-1: in none), where, and how
        many times what was measured it is.
        """
        found = []
        firsts = np.array([mix.first for mix in self.stored.mixes])
        for block, listed, numbers in zip(
            self.workload.blocks, families(self.workload), self.numbers, strict=True
        ):
            of = np.full((block.groups, len(block.weights)), -1)
            at, scale = np.zeros_like(of), np.ones(of.shape)
            for (start, _, column, _), family, number in zip(
                parts(block), listed, numbers, strict=True
            ):
                if family is None or number < 0:
                    continue
                mix = int(np.searchsorted(firsts, number, "right")) - 1
                of[start + family.origin, column] = mix
                where = self.stored.mixes[mix].places[number - int(firsts[mix])]
                at[start + family.origin, column] = where
                scale[start + family.origin, column] = (
                    family.factor / self.stored.families[number].factor
                )
            found.append((of, at, scale))
        return found


def again(workload: Workload, seq: int, stored: Stored) -> Found | None:
    """The answers that a strategy was measured for, by charge `seq`."""
    answered = Again.of(workload, stored)
    if not answered.full:
        return None
    spreads = answered.spreads()
    worst = max((spread.worst() for spread in spreads), default=0.0)
    return Found(worst, (seq,), answered, spreads)
