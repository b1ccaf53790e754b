"""What a residual plan measures: of each set of columns, whole numbers with independent noise.

The residual table of A is Q_A = kron of Q_i over i in A, applied to the A-marginal; all rows of A
have discrete Gaussian noise of one variance. A person in cell x moves it by Q_A e_x, whose squared
norm is the product of those of columns of the Q_i: the largest is known exactly.

**Nothing overflows.** Counts are at least 0 and sum to at most 2^40 rows. Entries of Q_A are
products of entries, at most 2^22 in all, whichever axes have been applied: every sum on the way,
and the sum of its terms' sizes, stays within 2^62. Where it stays within 2^53, doubles do the same
exactly and sooner; the time taken tells whether there are 2^31 rows. Noise has a stddev of at most
2^52, so that 64 bits hold the sum of both unless the noise is 500 stddevs wide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from dpsql.mechanisms.axes import Along, Floats, Ints
from dpsql.mechanisms.bases import Basis, basis, exact
from dpsql.mechanisms.centred import Optimum, optimum
from dpsql.mechanisms.residual import Columns, Plan

_EXACT = 1 << 53
ROWS = 1 << 40  # of a table that is measured
LARGEST = 1 << 22  # entry of a Q_A
FINEST = 1 << 14  # largest entry of a rounded Q_i: finer ones gain nothing
_STDDEV = 1 << 52
_FIXED = 128  # bits of rho after the point
_BITS = 32  # of a noise's variance, which is rounded up


@dataclass(frozen=True)
class Part:
    """The residual table of some columns: their strategies, and the variance of each row's noise,
    in units of Q_A's whole numbers."""

    columns: Columns
    bases: tuple[Basis, ...]
    variance: Fraction

    def __post_init__(self) -> None:
        if len(self.columns) != len(self.bases):
            raise ValueError("a part needs one strategy for each column")
        if math.prod([b.largest for b in self.bases]) > LARGEST:
            raise OverflowError(f"{self.columns}: entries beyond {LARGEST}")
        if not 0 < self.variance <= _STDDEV**2:
            raise OverflowError(f"{self.columns}: noise of variance {float(self.variance):g}")

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of rows along each axis."""
        return tuple([b.rows for b in self.bases])

    @property
    def squared(self) -> int:
        """L2 sensitivity^2 to a row that comes or goes: the largest squared norm of a column."""
        return math.prod([b.norm for b in self.bases])

    @property
    def rho(self) -> Fraction:
        """The most that this part costs a person who comes or goes."""
        return self.squared / (2 * self.variance)

    def measured(self, marginal: Ints) -> Ints:
        """Q_A applied to the counts of its columns: what the noise is added to.

        `marginal` has an axis for each column. Raises OverflowError beyond 2^40 rows.
        """
        if marginal.shape != tuple([b.size for b in self.bases]):
            raise ValueError(f"{self.columns}: counts of another shape, {marginal.shape}")
        if marginal.size and not (marginal.min() >= 0 and marginal.max() <= ROWS):
            raise OverflowError("counts must be at least 0 and at most 2^40")
        blocks = np.array_split(marginal.reshape(-1), 1 + (marginal.size >> 20))
        rows = sum([int(block.sum()) for block in blocks])
        if rows > ROWS:
            raise OverflowError("more than 2^40 rows")
        if rows * math.prod([b.largest for b in self.bases]) < _EXACT:
            floats: Floats = marginal.astype(np.float64)
            for axis, each in enumerate(self.bases):
                floats = each.measured(floats, axis)
            return floats.astype(np.int64)
        found = marginal
        for axis, each in enumerate(self.bases):
            found = each.measured(found, axis)
        return found


@dataclass(frozen=True)
class Strategy:
    """The parts of a plan with their noise."""

    axes: tuple[Along, ...]
    parts: tuple[Part, ...]

    @cached_property
    def of(self) -> dict[Columns, Part]:
        """The part of each set of columns that is measured."""
        return {part.columns: part for part in self.parts}

    @property
    def draws(self) -> int:
        """The number of noises."""
        return sum(math.prod(part.shape) for part in self.parts)

    def widened(self, factor: Fraction) -> Strategy:
        """The same parts with variances that are so many times as large."""
        return Strategy(
            self.axes,
            tuple(
                [
                    Part(p.columns, p.bases, rounded_up(*(p.variance * factor).as_integer_ratio()))
                    for p in self.parts
                ]
            ),
        )

    @property
    def rho(self) -> Fraction:
        """The most that all parts cost a person who comes or goes, each by its largest column.

        The sum is rounded up, by at most 2^-128 for each part.
        """
        whole = 0
        for part in self.parts:
            below = 2 * part.variance.numerator
            whole -= -(part.squared * part.variance.denominator << _FIXED) // below
        return Fraction(whole, 1 << _FIXED)


def strategy(plan: Plan, rho: Fraction, *, best: Optimum = optimum) -> Strategy:
    """The plan's parts with the least noise of which all cost at most rho together.

    Raises OverflowError where a set of columns has too many cells for whole numbers of 22 bits.
    """
    if not rho > 0:
        raise ValueError("rho must be more than 0")
    whole = Fraction(math.fsum(plan.roots)) * (1 + Fraction(1, 1 << 50)) / (2 * rho)
    parts = []
    for columns, root in zip(plan.closure.columns, plan.roots.tolist(), strict=True):
        if root > 0:
            used = strategies([plan.axes[i] for i in columns], best=best)
            squared = math.prod([b.norm for b in used])
            above, below = root.as_integer_ratio()
            variance = rounded_up(squared * whole.numerator * below, whole.denominator * above)
            parts.append(Part(columns, used, variance))
    return Strategy(plan.axes, tuple(parts))


def strategies(axes: Sequence[Along], *, best: Optimum = optimum) -> tuple[Basis, ...]:
    """Strategies of axes that are measured together; the more, the coarser those that are rounded.

    What entries of 22 bits leave beside exact strategies is parted evenly among the others.
    """
    fixed = [exact(along) for along in axes]
    left = LARGEST // math.prod([b.largest for b in fixed if b is not None])
    if left < 1:
        raise OverflowError(f"axes of {[along.size for along in axes]} values are too many cells")
    rough = sum(b is None for b in fixed)
    each = 1 if not rough else _stepped(min(FINEST, _root(left, rough)))
    return tuple(
        [basis(a, each, best) if b is None else b for a, b in zip(axes, fixed, strict=True)]
    )


def _stepped(number: int) -> int:
    """A number's first three bits: few strategies differ by their largest entries alone."""
    dropped = max(number.bit_length() - 3, 0)
    return number >> dropped << dropped


def _root(number: int, degree: int) -> int:
    """The largest whole number whose power is at most `number`."""
    found = int(number ** (1 / degree)) + 1
    while found**degree > number:
        found -= 1
    return found


def rounded_up(above: int, below: int) -> Fraction:
    """above / below with 32 significant bits, no less."""
    exponent = above.bit_length() - below.bit_length() - _BITS
    if exponent > 0:
        return Fraction(-(-above // (below << exponent)) << exponent)
    return Fraction(-(-(above << -exponent) // below), 1 << -exponent)
