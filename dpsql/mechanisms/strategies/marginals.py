"""Residual plans: CUBE, ROLLUP, GROUPING SETS and single tables, measured by what they share.

Every grouping that lists all combinations of its keys' groups is a table; a plan of least weighted
squared error (`residual`) says how much of the price each residual table gets, and whole factors
realise it with noise of one law (Xiao et al. 2023, arXiv:2305.08175). Several aggregates of a group
are mixed as the best strategy for one group alone mixes them.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Gaussian
from dpsql.accounting.kept.stored import Stored
from dpsql.accounting.kept.tabled import Tabled
from dpsql.mechanisms.intervals.law import stddev
from dpsql.mechanisms.intervals.noises import Joint, Noise
from dpsql.mechanisms.intervals.spread import Fitted, Spread
from dpsql.mechanisms.reuse.found import Answered
from dpsql.mechanisms.strategies.axes import Identity
from dpsql.mechanisms.strategies.clusters import part_of
from dpsql.mechanisms.strategies.full import Read, Same, read
from dpsql.mechanisms.strategies.mixing import importance, mixing
from dpsql.mechanisms.strategies.residual import even, plan
from dpsql.mechanisms.strategies.tables import Floats, Ints, Keys, Precisions, Rebuilt
from dpsql.query.canon import families, nobody
from dpsql.query.contrasts import Contrast
from dpsql.query.linear import Block, Workload
from dpsql.query.strategy import Residuals, Strategy

_LEAST = 1 << 6  # factor of a residual table: the plan is realised within 1 / 128
_SCALE = 1 << 88  # of the square of what a row moves: noise for it can be drawn at any price
_HEAVIEST = 1 << 22  # weight: sums of 2^40 rows have 62 bits
_GAP = 1e-2  # that the largest error may be above the least
_SETS = 1 << 10  # of keys, all subsets of the groupings
_KEYS = 12  # of a grouping
_KEPT = 8  # noises whose spreads are remembered


@dataclass(frozen=True, slots=True, eq=False)
class Marginals:
    """A residual plan for a workload, and how answers are made of its values.

    Its blocks count the same, so many `times`, by other keys. Of each grouping of all blocks
    `places` has its table's keys, and where in the table each group is. `ratio` is the error to
    that of the best strategy; None where not everybody counts alike in all tables.
    """

    workload: Workload
    part: Residuals
    places: tuple[tuple[Keys, Ints], ...]
    times: tuple[int, ...]
    strategy: Strategy
    ratio: float | None
    _known: dict[Gaussian, tuple[Spread, ...]] = dataclasses.field(
        default_factory=dict, init=False, repr=False
    )

    def made_for(self, workload: Workload) -> Marginals:
        """The same for another workload of the same queries in the same order. Raises ValueError
        where they are no tables of the same keys there.
        """
        same, every = Same.of(workload), range(len(workload.blocks))
        found = read(workload, every)
        if same is None or same.times != self.times or found.sizes != self.part.sizes:
            raise ValueError("other tables")
        if len(found.places) != len(self.places) or not all(
            keys == known and np.array_equal(at, place)
            for (keys, at), (known, place) in zip(found.places, self.places, strict=True)
        ):
            raise ValueError("other tables")
        part = dataclasses.replace(
            self.part, workload=_measured(workload, same, found, self.part.sets)
        )
        return dataclasses.replace(
            self, workload=workload, part=part, places=found.places, strategy=Strategy((part,))
        )

    def _blocks(self) -> Iterator[tuple[tuple[tuple[Keys, Ints], ...], int]]:
        """Of each block its groupings' places, and its times."""
        start = 0
        for block, times in zip(self.workload.blocks, self.times, strict=True):
            stop = start + len(block.groupings)
            yield self.places[start:stop], times
            start = stop

    def spreads(self, law: Gaussian) -> tuple[Spread, ...]:
        """What will be known of the answers of each block, before anything is measured."""
        found = self._known.get(law)
        if found is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            found = self._known[law] = self._spreads(law)
        return found

    def _spreads(self, law: Gaussian) -> tuple[Spread, ...]:
        part = self.part
        told = Precisions(part.sizes, part.sets, part.factors, float(law.variance))
        inverse = np.linalg.inv(part.matrix.astype(np.float64))
        inner = inverse @ inverse.T
        return tuple(
            _spread(told, inner, places, times, stddev(law)) for places, times in self._blocks()
        )

    def noises(self, law: Gaussian) -> tuple[Noise, ...]:
        """The noise of the answers, whatever they are."""
        found = []
        for spread in self.spreads(law):
            shape = spread.known.shape
            found.append(Joint(Fitted(np.zeros(shape, np.int64), np.zeros(shape), spread)))
        return tuple(found)

    def fitted(self, noisy: NDArray[Any], law: Gaussian) -> list[Fitted]:
        """The answers of each block from the noisy values."""
        rebuilt, width = Rebuilt(self._tabled(noisy)), self.part.width
        found = []
        for (places, times), spread in zip(self._blocks(), self.spreads(law), strict=True):
            centre = [rebuilt.cells(keys).reshape(-1, width)[at] for keys, at in places]
            shown = [rebuilt.whole(keys).reshape(-1, width)[at] for keys, at in places]
            found.append(
                Fitted(np.concatenate(shown) * times, np.concatenate(centre) * times, spread)
            )
        return found

    def answered(self, values: Sequence[NDArray[Any]], law: Gaussian) -> Answered:
        """The answers from the noisy values."""
        (noisy,) = values
        found = self.fitted(noisy, law)
        return Answered(tuple(some.shown for some in found), tuple(map(Joint, found)), 1)

    def tables(self, noisy: NDArray[Any]) -> Ints:
        """The whole numbers of all tables, (groups, weights)."""
        rebuilt, width = Rebuilt(self._tabled(noisy)), self.part.width
        return np.concatenate([rebuilt.whole(keys).reshape(-1, width) for keys in self.part.sets])

    def stored(
        self, values: Sequence[NDArray[Any]], law: Gaussian, shown: Sequence[NDArray[Any]]
    ) -> Stored | None:
        """What a ledger keeps of it; None where it cannot. What is `shown` follows from that."""
        (noisy,) = values
        return Stored.residuals(self.part, noisy, law, self.tables(noisy))

    def unmeasured(self, law: Gaussian) -> Stored | None:
        """What a ledger would keep if all values were 0."""
        return self.stored([self.zeros()], law, [])

    def zeros(self) -> Ints:
        """As many values as are measured, all 0."""
        rows = len(self.part.matrix)
        return np.zeros((self.part.size // rows, rows), np.int64)

    def _tabled(self, noisy: NDArray[Any]) -> Tabled:
        part = self.part
        return Tabled(part.sizes, part.sets, part.factors, part.matrix, noisy)


def _spread(
    told: Precisions,
    inner: Floats,
    places: Sequence[tuple[Keys, Ints]],
    times: int,
    least: float,
) -> Spread:
    """What is known of a block; `inner` (weights, weights) is what is mixed in a group."""
    each = [np.full(len(at), told.variance(keys)) for keys, at in places]
    covariance = np.concatenate(each)[:, None, None] * (inner * times**2)
    scales = np.diag(inner).tolist()

    @functools.cache
    def whole() -> Floats:
        errors = [
            np.stack([told.whole(keys, scale)[at] for scale in scales], axis=1)
            for keys, at in places
        ]
        return np.concatenate(errors) * float(times**2)

    return Spread(covariance, np.ones(covariance.shape[:2], bool), least, whole=whole)


@dataclass(frozen=True, slots=True, eq=False)
class Ideal:
    """A residual plan that is still to be put into whole numbers.

    `workload` is what is answered, and `made` what is measured of it: with the factors `ideal` and
    a row whose weights the matrix makes `squared` long the sensitivity is 1. `much` is what the
    variance of a grouping's groups adds to the error: the weighted sum of squares, or the `largest`
    square, at a variance of 1. No plan has less than `lower`; 0 where none is known.
    """

    workload: Workload
    made: Workload
    found: Read
    times: tuple[int, ...]
    sets: tuple[Keys, ...]
    ideal: tuple[float, ...]
    matrix: Ints
    squared: float
    much: tuple[float, ...]
    largest: bool
    error: float
    lower: float

    @property
    def least(self) -> float:
        """The smallest factor at a sensitivity of 1."""
        return min(self.ideal)

    def solved(self, scale: float) -> Marginals:
        """The plan at about this sensitivity. Raises ValueError where it cannot be measured."""
        factors = tuple(max(round(each * scale), 1) for each in self.ideal)
        part = Residuals(self.made, self.found.sizes, self.sets, factors, self.matrix)
        heaviest = max(weight.largest for weight in self.made.blocks[0].weights)
        moved = sum((heaviest * int(row)) ** 2 for row in np.abs(self.matrix).sum(axis=1))
        if part.scale * moved > _SCALE:
            raise ValueError("a row moves the values too far")
        ratio = None
        if self.lower:
            told = Precisions(part.sizes, part.sets, factors, part.scale * self.squared)
            error = _error(told, self.found, self.much, self.largest)
            ratio = max(1.0, math.sqrt(error / self.lower))
        places, strategy = self.found.places, Strategy((part,))
        return Marginals(self.workload, part, places, self.times, strategy, ratio)


def marginals(workload: Workload, *, largest: bool = False) -> Marginals | None:
    """The residual plan for a workload with several sets of keys: that of least total squared
    error, or of the least `largest` one.

    None where its groupings are no full tables of the same counts, where these are too large, or
    where the weights of a group cannot be mixed.
    """
    found = ideal_of(workload, importance(workload, largest=largest), largest=largest)
    try:
        return None if found is None else found.solved(_LEAST / found.least)
    except ValueError:
        return None


def ideal_of(
    workload: Workload, wanted: Sequence[Floats], *, largest: bool = False
) -> Ideal | None:
    """The residual plan, as the weights of errors (groups, weights) of each block have it."""
    same, every = Same.of(workload), range(len(workload.blocks))
    if same is None:
        return None
    found = read(workload, every)
    heaviest = max(weight.largest for weight in same.weights)
    deepest = max((len(keys) for keys, _ in found.places), default=0)
    if len(found.blocks) < len(every) or found.number < 2:
        return None
    if deepest > _KEYS or heaviest > _HEAVIEST:
        return None
    counts = _measured(workload, same, found, [()])
    if all(nobody(counts)):
        return None
    try:
        matrix, squared = mixing(counts)
    except ValueError:  # weights too large to be mixed, or that cannot be told apart
        return None
    much = _much(workload, same, matrix, wanted, largest)
    answers = {keys: len(at) for keys, at in found.places}
    tables, each = list(answers), [Identity(n) for n in found.sizes]
    if largest:
        worst: dict[Keys, float] = {}
        for (keys, _), own in zip(found.places, much, strict=True):
            worst[keys] = max(worst.get(keys, 0.0), own)
        best = even(each, tables, 1 / np.array([worst[keys] for keys in tables]), gap=_GAP)
        chosen, error, lower = best.plan, best.worst, best.bound
    else:
        weights = dict.fromkeys(tables, 0.0)
        for (keys, _), own in zip(found.places, much, strict=True):
            weights[keys] += own / answers[keys]
        chosen = plan(each, tables, np.array([weights[keys] for keys in tables]))
        error = lower = chosen.total(0.5)
    sets = chosen.closure.columns
    if len(sets) > _SETS:
        return None
    made = _measured(workload, same, found, sets)
    (listed,) = families(made)
    if None in listed:
        return None
    norms = [math.prod(Contrast(found.sizes[key]).norm for key in keys) for keys in sets]
    shares = zip(chosen.shares.tolist(), norms, strict=True)
    ideal = tuple(math.sqrt(share / norm / squared) for share, norm in shares)
    alike = matrix.size == 1 and listed[0] is not None and not listed[0].classes  # the total
    return Ideal(
        workload, made, found, same.times, sets, ideal, matrix, squared, much, largest,
        error * squared, lower * squared if alike else 0.0,
    )  # fmt: skip


def _measured(workload: Workload, same: Same, found: Read, sets: Sequence[Keys]) -> Workload:
    """What all blocks of a workload count, by all groups of these sets of keys."""
    groupings = tuple(found.grouping(keys) for keys in sets)
    block = Block(workload.blocks[0].where, same.weights, groupings)
    return part_of(Workload(workload.domain, (block,)), [0])


def _much(
    workload: Workload, same: Same, matrix: Ints, wanted: Sequence[Floats], largest: bool
) -> tuple[float, ...]:
    """By how much the variance of its groups counts for each grouping."""
    inverse = np.linalg.inv(matrix.astype(np.float64))
    inner = (inverse**2).sum(axis=1)
    found = []
    for block, times, own in zip(workload.blocks, same.times, wanted, strict=True):
        start = 0
        for grouping in block.groupings:
            each = own[start : start + grouping.size] * (inner * times**2)
            found.append(float(each.max() if largest else each.sum()))
            start += grouping.size
    return tuple(found)


def _error(told: Precisions, found: Read, much: Sequence[float], largest: bool) -> float:
    """The weighted sum of squared errors, or the largest one."""
    places = zip(found.places, much, strict=True)
    errors = [own * told.variance(keys) for (keys, _), own in places]
    return max(errors) if largest else math.fsum(errors)
