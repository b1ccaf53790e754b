"""Several statements as one measurement: what is measured, and how their answers are made of it.

All queries are brought to one scale by whole factors, so that one noise suits all: counts, sums
and means each in units of the most that one row adds to them, times the root of the statement's
weight, for the variance of an answer falls as the square of its factor. Equal queries are measured
once. What is measured is all that is left, through the strategy that errs least.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Gaussian
from dpsql.accounting.kept.stored import Stored
from dpsql.curator.quote import Noise as Drawn
from dpsql.domain import Domain
from dpsql.errors import UsageError
from dpsql.mechanisms.gaussian import short
from dpsql.mechanisms.intervals.noises import Alike, Noise
from dpsql.mechanisms.intervals.noises import Joint as Noisy
from dpsql.mechanisms.intervals.spread import Fitted
from dpsql.mechanisms.reuse.coarser import Coarser
from dpsql.mechanisms.reuse.found import Answered
from dpsql.mechanisms.strategies.mixed import Again
from dpsql.planner import Asked, Choice, Terms, as_precise, choose, chosen
from dpsql.query.canon import Family, families, parts, remember
from dpsql.query.compile import Compiled
from dpsql.query.estimators import Count, Estimator, Mean, Spread, Sum
from dpsql.query.linear import MAX_WEIGHT, Block, Workload
from dpsql.schema import Dataset

_FINE = 16  # of the largest scale: factors are then within 3 % of what they are meant to be

Column: TypeAlias = tuple[int, int, int]  # statement, SELECT, weight
Places: TypeAlias = "tuple[tuple[tuple[_Place, ...], ...], ...]"  # of each family of each block


@dataclass(frozen=True, eq=False)
class Joint:
    """One measurement for several workloads: what, with how much noise, at which price."""

    workload: Workload
    choice: Choice
    asked: tuple[Workload, ...]
    places: Places

    @cached_property
    def noises(self) -> list[tuple[Noise, ...]]:
        """The noise of the answers of each workload, before anything is measured."""
        law, plan = self.choice.event, self.choice.plan
        if plan is None:
            return [(Alike(law),) * len(workload.blocks) for workload in self.asked]
        from dpsql.mechanisms.strategies.levels import Leveled
        from dpsql.mechanisms.strategies.products import Products

        if isinstance(plan, Leveled | Products) and isinstance(law, Gaussian):
            return [plan.noises(law, workload) for workload in self.asked]
        return [answered.noises for answered in self._again(self.choice.unmeasured())]

    def alone(
        self, workload: Workload, noises: Sequence[Noise], dataset: Dataset, terms: Terms
    ) -> Choice:
        """What as much noise would cost for one of the workloads without the others."""
        noise: Drawn = self.choice.noise
        if self.choice.plan is not None:
            worst = max(each.worst for each in noises)
            noise = short(Fraction(worst)) if worst > 0 else noise  # nothing is counted
        return chosen(self.choice.backend, noise, workload, dataset, terms)

    def stored(self, measured: Sequence[NDArray[Any]]) -> Stored | None:
        """What a ledger keeps of what was measured, None for what it cannot."""
        plan, law = self.choice.plan, self.choice.event
        if plan is not None and isinstance(law, Gaussian):
            from dpsql.mechanisms.strategies.factorization import Factored

            shown = plan.answered(measured, law).answers if isinstance(plan, Factored) else []
            return plan.stored(measured, law, shown)
        return self._plain(measured)

    def unmeasured(self) -> Stored | None:
        """What a ledger would keep, of values that are all 0."""
        if self.choice.plan is not None:
            return self.choice.unmeasured()
        blocks = self.workload.blocks
        return self._plain([np.zeros((b.groups, len(b.weights)), np.int64) for b in blocks])

    def _plain(self, measured: Sequence[NDArray[Any]]) -> Stored | None:
        blocks = self.workload.blocks  # but for those with queries of too many cells
        sound = [at for at, own in enumerate(families(self.workload)) if None not in own]
        kept = Workload(self.workload.domain, tuple(blocks[at] for at in sound))
        return Stored.of(kept, self.choice.event, [measured[at] for at in sound]) if sound else None

    def answers(self, measured: Sequence[NDArray[Any]]) -> list[Answered]:
        """The answers of each workload, of what was measured."""
        if self.choice.plan is not None:
            return self._again(self.stored(measured))
        return [
            Answered(
                tuple(
                    _gathered(block, listed, measured)
                    for block, listed in zip(workload.blocks, places, strict=True)
                ),
                noises,
                1,
            )
            for workload, places, noises in zip(self.asked, self.places, self.noises, strict=True)
        ]

    def _again(self, stored: Stored | None) -> list[Answered]:
        """The answers of each workload, of a strategy's values."""
        assert stored is not None  # no strategy is planned for what cannot be kept
        if stored.grids:
            from dpsql.mechanisms.strategies.grids import Grids

            told = map(Grids(stored).answers, self.asked)
            return [_answered(fitted) for fitted in told]
        if not stored.mixes and stored.tabled is None:
            from dpsql.mechanisms.strategies.levels import Levels

            levels = Levels(stored)
            return [levels.answers(workload) for workload in self.asked]
        if stored.tabled is None:
            return [Again.of(workload, stored)() for workload in self.asked]
        return [_answered(fitted) for fitted in map(Coarser(stored).answers, self.asked)]


def _answered(fitted: Sequence[Fitted]) -> Answered:
    return Answered(tuple(f.shown for f in fitted), tuple(map(Noisy, fitted)), 1)


def joint(workloads: Sequence[Workload], dataset: Dataset, asked: Asked, terms: Terms) -> Joint:
    """The measurement of workloads of one scale at the price that is asked for all of them.

    Raises UsageError.
    """
    stacked, places = _stacked(workloads)
    choice = choose(stacked, dataset, asked, terms)
    return Joint(stacked, choice, tuple(workloads), places)


def of_some(whole: Joint, kept: Sequence[int], dataset: Dataset, terms: Terms) -> Joint:
    """Some of the workloads alone, with the noise that all together would have."""
    workloads = [whole.asked[index] for index in kept]
    if len(workloads) == len(whole.asked):
        return whole
    stacked, places = _stacked(workloads)
    choice = chosen(whole.choice.backend, whole.choice.noise, stacked, dataset, terms)
    if whole.choice.plan is not None:
        choice = as_precise(whole.choice, stacked, dataset, terms)
    return Joint(stacked, choice, tuple(workloads), places)


# -- one scale ---------------------------------------------------------------------------------


def scaled(statements: Sequence[Compiled], weights: Sequence[float]) -> list[Compiled]:
    """The statements with factors that put all their queries on one scale, by their weights.

    Raises UsageError for weights that no factors can tell apart.
    """
    scales = {
        (index, at, column): scale
        for index, statement in enumerate(statements)
        for at, select in enumerate(statement.selects)
        for column, scale in enumerate(_scales(statement.workload.blocks[at], select.estimators))
    }
    least, largest = min(weights), max(scales.values(), default=1)
    gains = [math.sqrt(weight / least) for weight in weights]
    alike = len(set(gains)) == 1 and len(set(scales.values())) == 1
    fine = 1 if alike else _FINE
    while fine > 1 and fine * largest * max(gains) > MAX_WEIGHT:
        fine //= 2
    if not fine * largest * max(gains) <= 2 * MAX_WEIGHT:
        raise UsageError(
            f"weights from {least:g} to {max(weights):g} are too far apart for values as large as "
            "these: give weights that are closer, or sum a coarser value"
        )
    factors = {
        column: max(1, round(fine * largest * gains[column[0]] / scale))
        for column, scale in scales.items()
    }
    factors = _agreed(statements, factors)
    return [_with(statement, index, factors) for index, statement in enumerate(statements)]


def _scales(block: Block, estimators: Sequence[Estimator]) -> list[int]:
    """The most that a row adds to each weight; the weights of one estimator share theirs."""
    found = [max(weight.largest // weight.factor, 1) for weight in block.weights]
    for estimator in estimators:
        match estimator:
            case Count() | Sum():
                continue
            case Mean(above=above, below=below):
                together: tuple[int, ...] = (above, below)
            case Spread(low=low, middle=middle, high=high):
                together = (low, middle, high)
        most = max(found[column] for column in together)
        for column in together:
            found[column] = most
    return found


def _agreed(statements: Sequence[Compiled], factors: dict[Column, int]) -> dict[Column, int]:
    """The factors, those of equal queries as large as the largest, so that they are one."""
    alike: dict[frozenset[str], list[Column]] = {}
    for index, statement in enumerate(statements):
        listed = families(statement.workload)
        for at, block in enumerate(statement.workload.blocks):
            width = len(block.weights)
            for column in range(width):
                own = listed[at][column::width]
                keys = frozenset(family.key for family in own if family is not None)
                if len(keys) == len(own):
                    alike.setdefault(keys, []).append((index, at, column))
    found = dict(factors)
    for columns in alike.values():
        most = max(factors[column] for column in columns)
        found.update(dict.fromkeys(columns, most))
    return found


def _with(statement: Compiled, index: int, factors: dict[Column, int]) -> Compiled:
    """A statement with these factors; itself where it has them already."""
    workload = statement.workload
    blocks = []
    for at, (block, listed) in enumerate(zip(workload.blocks, families(workload), strict=True)):
        columns = range(len(block.weights))
        weights = tuple(
            dataclasses.replace(block.weights[column], factor=factors[index, at, column])
            for column in columns
        )
        made = dataclasses.replace(block, weights=weights)
        changed = [(weights[c].factor, block.weights[c].factor) for c in columns]
        if all(new == old for new, old in changed):
            made = block
        blocks.append(made)
        remember(
            made,
            tuple(
                _times(family, new, old)
                for family, (new, old) in zip(listed, changed * len(block.groupings), strict=True)
            ),
        )
    if all(made is block for made, block in zip(blocks, workload.blocks, strict=True)):
        return statement
    return dataclasses.replace(statement, workload=Workload(workload.domain, tuple(blocks)))


def _times(family: Family | None, new: int, old: int) -> Family | None:
    """The family of a weight whose factor is `new` instead of `old`."""
    if family is None or new == old or not family.weights.any():
        return family
    return dataclasses.replace(family, factor=family.factor // old * new)


# -- one stack ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """Where a family was measured: its block, first row and column.

    `groups` are the measured groups and those they are, where their order is another.
    """

    block: int
    row: int
    column: int
    groups: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None


def _stacked(workloads: Sequence[Workload]) -> tuple[Workload, Places]:
    """The queries of all workloads, equal ones once, and where those of each family are.

    In an order of what they ask: in whatever order a script has them, it has the same plan.
    """
    blocks: list[Block] = []
    known: dict[Any, _Place] = {}
    first: dict[Any, Family | None] = {}
    places: dict[int, tuple[tuple[_Place, ...], ...]] = {}
    for index in sorted(range(len(workloads)), key=lambda at: _order(workloads[at])):
        workload, of_workload = workloads[index], []
        for block, listed in zip(workload.blocks, families(workload), strict=True):
            names = _names(block, listed)
            for name, family in zip(names, listed, strict=True):
                first.setdefault(name, family)
            for made, columns, groupings in _new(block, names, known):
                width, row = len(block.weights), 0
                own = tuple(listed[at * width + c] for at in groupings for c in columns)
                remember(made, own)
                for at in groupings:
                    for place, column in enumerate(columns):
                        name = names[at * width + column]
                        known[name] = _Place(len(blocks), row, place)
                    row += block.groupings[at].size
                blocks.append(made)
            of_workload.append(
                tuple(
                    _placed(known[name], first[name], family)
                    for name, family in zip(names, listed, strict=True)
                )
            )
        places[index] = tuple(of_workload)
    sizes = {
        name: size
        for workload in workloads
        for name, size in zip(workload.domain.names, workload.domain.sizes, strict=True)
    }
    domain = Domain(tuple(sorted(sizes)), tuple(sizes[name] for name in sorted(sizes)))
    return Workload(domain, tuple(blocks)), tuple(places[at] for at in range(len(workloads)))


def _order(workload: Workload) -> list[tuple[str, int, bytes]]:
    """What comes before others: queries of too many cells first."""
    return [
        ("", 0, b"") if family is None else (family.key, family.factor, family.origin.tobytes())
        for listed in families(workload)
        for family in listed
    ]


def _names(block: Block, listed: Sequence[Family | None]) -> list[Any]:
    """What tells each family of a block from others; one of too many cells is like no other."""
    return [
        (block, index) if family is None else (family.key, family.factor)
        for index, family in enumerate(listed)
    ]


def _new(
    block: Block, names: Sequence[Any], known: dict[Any, _Place]
) -> list[tuple[Block, tuple[int, ...], list[int]]]:
    """The part of a block that was not measured yet: blocks with their weights and groupings."""
    seen, width = set(known), len(block.weights)
    alike: dict[tuple[int, ...], list[int]] = {}
    for at in range(len(block.groupings)):
        columns = []
        for column in range(width):
            name = names[at * width + column]
            if name not in seen:
                seen.add(name)
                columns.append(column)
        if columns:
            alike.setdefault(tuple(columns), []).append(at)
    all_columns, all_groupings = tuple(range(width)), list(range(len(block.groupings)))
    if alike == {all_columns: all_groupings}:
        return [(block, all_columns, all_groupings)]
    return [
        (
            Block(
                block.where,
                tuple(block.weights[column] for column in columns),
                tuple(block.groupings[at] for at in groupings),
            ),
            columns,
            groupings,
        )
        for columns, groupings in alike.items()
    ]


def _placed(place: _Place, first: Family | None, family: Family | None) -> _Place:
    """The place of a family that was measured as another one."""
    if first is family or first is None or family is None:
        return place
    return dataclasses.replace(place, groups=(first.origin, family.origin))


def _gathered(
    block: Block, places: Sequence[_Place], measured: Sequence[NDArray[Any]]
) -> NDArray[Any]:
    """The answers of a block, (groups, weights), each from where it was measured."""
    exact: Any = object if any(some.dtype == object for some in measured) else np.int64
    found = np.zeros((block.groups, len(block.weights)), exact)
    for (start, grouping, column, _), place in zip(parts(block), places, strict=True):
        values = measured[place.block][place.row : place.row + grouping.size, place.column]
        if place.groups is None:
            found[start : start + grouping.size, column] = values
        else:
            origin, groups = place.groups
            found[start + groups, column] = values[origin]
    return found
