"""What was measured through a strategy, as rows over atoms and as answers of its own."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.mixes import Mix
from dpsql.accounting.stored import Stored
from dpsql.mechanisms.design import Design
from dpsql.mechanisms.found import Answered
from dpsql.mechanisms.law import stddev
from dpsql.mechanisms.noises import Joint
from dpsql.mechanisms.spread import Fitted, Spread
from dpsql.query.canon import families, parts
from dpsql.query.linear import Workload

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class MixedRows:
    """The rows of a strategy over a design's atoms, (rows, atoms), scaled by 1 / stddev.

    `families` are the numbers of those that it mixes, `size` the mean precision of an answer.
    """

    matrix: Floats
    families: tuple[int, ...]
    size: float
    mix: Mix
    stddev: float

    @classmethod
    def of(cls, design: Design, mix: Mix, first: int, variance: Fraction) -> MixedRows:
        """The rows of a mix whose first family has this number in the design."""
        numbers = tuple(range(first, first + len(mix.places)))
        answers = np.zeros((mix.values.size, design.atoms))
        for number, places in zip(numbers, mix.places, strict=True):
            family, groups = design.families[number], design.groups[number]
            inside = np.flatnonzero(groups >= 0)
            rows = places[groups[inside]]
            answers[rows, inside] = design.weights[number][inside] * family.factor
        stddev = math.sqrt(variance)
        runs = answers.reshape(len(mix.values), -1, design.atoms)
        rows_ = np.einsum("rw,gwa->gra", mix.matrix.astype(np.float64), runs) / stddev
        spread = float(np.mean(np.diag(covariance(mix)))) * float(variance)
        return cls(rows_.reshape(-1, design.atoms), numbers, 1.0 / spread, mix, stddev)

    def seen(self) -> Floats:
        """A'y of the values."""
        found: Floats = self.matrix.T @ (self.mix.values.reshape(-1) / self.stddev)
        return found


@functools.lru_cache(64)  # an inverse of some hundred rows takes milliseconds
def root(mix: Mix) -> Floats:
    """R (width, rows): the answers of a run are R times its values."""
    found: Floats = np.linalg.inv(mix.matrix.astype(np.float64))
    return found


@functools.lru_cache(64)
def covariance(mix: Mix) -> Floats:
    """That of the answers of a run, (width, width), at a variance of 1."""
    inverse = root(mix)
    found: Floats = inverse @ inverse.T
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Again:
    """Answers that a strategy was measured for; `numbers` are those of its families, by block."""

    workload: Workload
    stored: Stored
    numbers: list[list[int]]

    def spreads(self) -> tuple[Spread, ...]:
        """What is known of each SELECT's answers."""
        variance, least = stddev(self.stored.law) ** 2, stddev(self.stored.law)
        found = []
        for block, where in zip(self.workload.blocks, self._places(), strict=True):
            width = len(block.weights)
            inner = np.zeros((block.groups, width, width))
            for i, (mix, here) in enumerate(where):
                for j, (other, there) in enumerate(where):
                    if mix is not other:
                        continue
                    size = len(mix.matrix)
                    each = covariance(mix)[here % size, there % size]
                    inner[:, i, j] = np.where(here // size == there // size, each, 0.0)
            found.append(Spread(inner * variance, np.ones((block.groups, width), bool), least))
        return tuple(found)

    def __call__(self) -> Answered:
        shown, noises = [], []
        places = self._places()
        for at, (block, spread) in enumerate(
            zip(self.workload.blocks, self.spreads(), strict=True)
        ):
            values = np.zeros((block.groups, len(block.weights)), np.int64)
            centre = np.zeros(values.shape)
            listed = families(self.workload)[at]
            for (start, _, column, _), family, number in zip(
                parts(block), listed, self.numbers[at], strict=True
            ):
                assert family is not None
                values[start + family.origin, column] = self.stored.values[number]
            for column, (mix, where) in enumerate(places[at]):
                estimates = mix.values.astype(np.float64) @ root(mix).T
                centre[:, column] = estimates.reshape(-1)[where]
            shown.append(values)
            noises.append(Joint(Fitted(values, centre, spread)))
        return Answered(tuple(shown), tuple(noises), 1)

    def _places(self) -> list[list[tuple[Mix, Ints]]]:
        """Of each block's weights the mix, and where in it the answer of each group is.

        Raises LookupError where the groupings of a weight are in different mixes.
        """
        found = []
        for at, block in enumerate(self.workload.blocks):
            own: list[tuple[Mix, Ints] | None] = [None] * len(block.weights)
            for (start, _, column, _), family, number in zip(
                parts(block), families(self.workload)[at], self.numbers[at], strict=True
            ):
                assert family is not None
                mix = next(
                    m for m in self.stored.mixes if m.first <= number < m.first + len(m.places)
                )
                before = own[column] or (mix, np.zeros(block.groups, np.int64))
                if before[0] is not mix:
                    raise LookupError("in different mixes")
                before[1][start + family.origin] = mix.places[number - mix.first]
                own[column] = before
            found.append([each for each in own if each is not None])
        return found
