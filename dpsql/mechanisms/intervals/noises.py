"""The noise of one SELECT's answers: second moments of their sums, and how far these reach.

`Alike`: independent noise of one law on every answer, whose sums have exact quantiles. `Joint`:
estimates from several measurements, with a covariance in each group; their sums are sums of many
noises: Gaussian ones, bounded in every direction (`directions.normals`), and Laplace ones, by
what is known of their weights (`blends`). Sums are given by their float (or exact) coefficients of
the answers.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Law
from dpsql.mechanisms.intervals.blends import half_widths, reaches
from dpsql.mechanisms.intervals.directions import normals, reach
from dpsql.mechanisms.intervals.law import nominal, stddev
from dpsql.mechanisms.intervals.quantile import half_width, sum_half_width
from dpsql.mechanisms.intervals.rounded import Steps, in_multiples, to_multiples
from dpsql.mechanisms.intervals.spread import Fitted, Spread
from dpsql.query.linear import Workload

Floats: TypeAlias = NDArray[np.float64]
Slopes: TypeAlias = "Mapping[int, float | Floats]"

WORTH = 0.01  # less error than that is not worth a strategy
_WORSE = 0.02  # more error than that is worth another purchase
_UNSEEN = 1e-4  # of a mean square: one count in 10,000 is off by a row


@dataclass(frozen=True, slots=True, eq=False)
class Alike:
    """Answers with independent noise of one law."""

    law: Law

    @property
    def sigma(self) -> float:
        return stddev(self.law)

    @property
    def worst(self) -> float:
        """The largest variance of an answer."""
        return nominal(self.law)

    def centre(self, noisy: NDArray[Any]) -> NDArray[Any]:
        """The estimates, which are the noisy answers themselves."""
        return noisy

    def moment(self, a: Slopes, b: Slopes) -> float | Floats:
        """The covariance of two sums, the same in every group unless the coefficients differ."""
        found: float | Floats = 0.0
        for weight in a:
            if weight in b:
                found = found + a[weight] * b[weight]
        return found * self.sigma**2

    def shown(self, slopes: Slopes, steps: Steps) -> float | Floats:
        """The mean squared error of a sum of what is shown, whole numbers of `steps` each."""
        found: float | Floats = 0.0
        for weight, slope in slopes.items():
            found = found + slope * slope * in_multiples(self.law, steps.get(weight, 1))
        return found

    def half(self, form: Mapping[int, Fraction], level: float) -> Fraction:
        """The half width of a sum, as exact as can be."""
        if len(form) == 1:
            (only,) = form.values()
            return abs(only) * half_width(self.law, level)
        return sum_half_width([(c, self.law) for c in form.values()], level)

    def reach(self, level: float, terms: int) -> float:
        return reach(self.law, level, max(terms, 1))


@dataclass(frozen=True, slots=True, eq=False)
class Joint:
    """Answers that were fitted to measurements."""

    fitted: Fitted

    @property
    def worst(self) -> float:
        """The largest variance of an answer."""
        return self.fitted.spread.worst()

    def times(self, size: float) -> Joint:
        """The same of Gaussian noise of so many times the size, but for rounding."""
        spread = self.fitted.spread
        assert spread.heavy is None
        covariance = spread.covariance * size**2
        more = Spread(covariance, spread.known, spread.least * size)
        return Joint(dataclasses.replace(self.fitted, spread=more))

    def centre(self, noisy: NDArray[Any]) -> Floats:
        """The estimates before they were rounded."""
        return self.fitted.centre

    def moment(self, a: Slopes, b: Slopes) -> Floats:
        covariance = self.fitted.spread.covariance
        found = np.zeros(len(covariance))
        for i, x in a.items():
            for j, y in b.items():
                found = found + x * y * covariance[:, i, j]
        return found

    def shown(self, slopes: Slopes, steps: Steps) -> Floats:
        """The mean squared error of a sum of what is shown, whole numbers of `steps` each.

        Rounding that adds error is independent; one that takes it away does so in all directions.
        """
        spread, near = self.fitted.spread, dict[int, Floats]()
        more = np.zeros(len(spread.covariance))
        for weight, slope in slopes.items():
            noise = spread.variances[:, weight]
            after = self._shown(weight, steps.get(weight, 1))
            ratio = np.divide(after, noise, out=np.ones_like(noise), where=noise > after)
            near[weight] = slope * np.sqrt(ratio)
            more += slope * slope * np.maximum(after - noise, 0.0)
        return self.moment(near, near) + more

    def _shown(self, weight: int, step: int) -> Floats:
        """The mean squared errors of one weight's answers in whole numbers of `step`."""
        spread = self.fitted.spread
        if step == 1 or spread.multiples:
            return spread.shown[:, weight]
        if spread.whole is None:  # to whole numbers, then to multiples: as to multiples at once
            return to_multiples(spread.variances[:, weight], step)
        return to_multiples(spread.shown[:, weight], step)

    def half(self, form: Mapping[int, Fraction], level: float) -> Floats:
        slopes = {weight: float(c) for weight, c in form.items()}
        spread, variances = self.fitted.spread, np.maximum(self.moment(slopes, slopes), 0.0)
        size: Floats = np.sqrt(variances)
        found: Floats = size * (self.reach(level, len(form)) * (1.0 + 1e-9))
        heavy = spread.heavy
        if heavy is not None and len(heavy.weights):
            weights = np.tensordot([*slopes.values()], heavy.weights[:, list(slopes)], (0, 1))
            known, first = np.unique(heavy.kind, return_index=True)
            first = first[known >= 0]
            widths = half_widths(weights, heavy.scales, variances[first], spread.least, level)
            each = widths / np.where(size[first] > 0.0, size[first], 1.0)
            found = np.where(heavy.kind >= 0, size * each[heavy.kind], found)
        return found

    def reach(self, level: float, terms: int) -> float | Floats:
        spread = self.fitted.spread
        if spread.heavy is None:
            return normals(spread.least, level)
        return reaches(spread.heavy.share, spread.heavy.scales, spread.least, level)


@dataclass(frozen=True, slots=True, eq=False)
class Bounded:
    """Answers that are off by at most `most`, all of them at once, at the level that was asked for.

    Of `terms` answers together |sum c e| <= most sum |c| <= most sqrt(terms) |c|: what is added up
    as moments bounds every sum, so that ratios have Fieller's interval with a reach of 1.
    """

    most: int
    terms: int

    @property
    def sigma(self) -> float:
        """A bound on the standard error, too."""
        return float(self.most)

    @property
    def worst(self) -> float:
        """The square of what an answer may be off."""
        return float(self.most**2)

    def centre(self, noisy: NDArray[Any]) -> NDArray[Any]:
        return noisy

    def moment(self, a: Slopes, b: Slopes) -> float | Floats:
        found: float | Floats = 0.0
        for weight in a:
            if weight in b:
                found = found + a[weight] * b[weight]
        return found * float(self.terms * self.most**2)

    def shown(self, slopes: Slopes, steps: Steps) -> float | Floats:
        """The same bound: what is shown is whole, and the guess itself."""
        return self.moment(slopes, slopes)

    def half(self, form: Mapping[int, Fraction], level: float) -> Fraction:
        if len(form) == 1:
            (only,) = form.values()
            return Fraction(abs(only.numerator) * self.most, only.denominator)
        return self.most * sum((abs(c) for c in form.values()), Fraction(0))

    def reach(self, level: float, terms: int) -> float:
        return 1.0


Noise: TypeAlias = Alike | Joint | Bounded


def size(found: float | Floats) -> Any:
    """The root of a second moment."""
    return np.sqrt(np.maximum(found, 0.0)) if isinstance(found, np.ndarray) else math.sqrt(found)


def error(workload: Workload, noises: Sequence[Noise]) -> float:
    """Root of the mean squared error of the linear queries, each in units of its largest weight.

    They are whole numbers as they are shown. For counts that is in rows.
    """
    counts = [block.groups for block in workload.blocks for _ in block.weights]
    squares = zip(counts, _squares(workload, noises), strict=True)
    total, count = sum((count * each for count, each in squares), 0.0), sum(counts)
    return math.sqrt(total / count) if count else 0.0


def no_worse(workload: Workload, noises: Sequence[Noise], others: Sequence[Noise]) -> bool:
    """Whether what is shown errs no more than with other noise, in any weight over its groups.

    By no more than a fiftieth, that is, or by as little as nobody will see.
    """
    return excess(workload, noises, others) <= 1.0


def excess(workload: Workload, noises: Sequence[Noise], others: Sequence[Noise]) -> float:
    """The mean squared error of what is shown, in units of the most that is no worse."""
    both = (_squares(workload, each, whole=True) for each in (noises, others))
    return max(
        (own / max(other * (1.0 + _WORSE) ** 2, _UNSEEN) for own, other in zip(*both, strict=True)),
        default=0.0,
    )


def _squares(
    workload: Workload, noises: Sequence[Noise], *, whole: bool = False
) -> Iterator[float]:
    """The mean squared error of what is shown for each weight, in units of its largest.

    What was measured as so many times a count is shown as a `whole` one.
    """
    for block, noise in zip(workload.blocks, noises, strict=True):
        for at, weight in enumerate(block.weights):
            scale = {at: 1.0 / max(weight.largest, 1)}
            steps = {at: weight.factor} if whole else {}
            each = np.broadcast_to(noise.shown(scale, steps), block.groups)
            yield float(each.mean()) if block.groups else 0.0
