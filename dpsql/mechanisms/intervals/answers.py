"""What an output's expression says beyond its value: standard error and interval.

Outputs are expressions over noisy answers (`noises` says what is known of their noise). A linear
form has the quantile of its noise; a ratio of two linear forms has Fieller's interval, a variance
its own (`variance`). Anything else is computed from those by interval arithmetic (`uncertain`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Gaussian, Laplace, Law
from dpsql.mechanisms.intervals import uncertain as of
from dpsql.mechanisms.intervals.functions import MONOTONE, cast
from dpsql.mechanisms.intervals.noises import Alike, Noise, Slopes, size
from dpsql.mechanisms.intervals.quantile import simultaneous
from dpsql.mechanisms.intervals.ratio import Ratio
from dpsql.mechanisms.intervals.rounded import nearest, over, steps, unit_of, units
from dpsql.mechanisms.intervals.uncertain import CONSTANT, Bools, Floats, Form, Uncertain
from dpsql.mechanisms.intervals.variance import Parts
from dpsql.query.estimators import Count, Estimator, Mean, Spread, Sum
from dpsql.query.expr import Call, Cast, Const, Expr, Op, Slot

_ONE = Fraction(1)
_EVERYWHERE = (-math.inf, math.inf)
_SAFE = 1 << 62
_HIGHEST_POWER = 4
_ROUNDED = 1e-9  # of a unit, which floats may lack


class Answers:
    """The noisy answers of one SELECT, (groups, weights), and what is known of their noise.

    `factors` are those of the weights: an answer is so many times what its weight counts. Counts
    are cut to 0 where `clamp` says so, the ends of their intervals to `most` where that is given.
    """

    def __init__(
        self,
        noisy: NDArray[np.int64],
        noise: Law | Noise,
        estimators: tuple[Estimator, ...],
        factors: tuple[int, ...],
        clamp: bool,
        most: int | None = None,
    ) -> None:
        self._noise = Alike(noise) if isinstance(noise, Gaussian | Laplace) else noise
        self._noisy, self._estimators, self._factors = noisy, estimators, factors
        self._centre = self._noise.centre(noisy)
        self._ends = 0.0 if clamp else -math.inf, math.inf if most is None else float(most)

    def intervals(
        self, expr: Expr, confidence: float
    ) -> tuple[Floats, Floats, Floats, Bools | None] | None:
        """Standard error, low, high of an output in each group, and where it is doubtful.

        None for an output that has no error (a key) or none that can be computed. A standard error
        that is not known is infinite or NaN.
        """
        try:
            return self._intervals(expr, confidence)
        except OverflowError:  # a literal that floats cannot hold
            return None

    def predicted(self, expr: Expr) -> float | Floats | None:
        """The standard error of an output that is linear, whatever the answers; else None.

        One for all groups, or one a group.
        """
        found = self.of(expr)
        if found is None or found.linear is None or not found.gradient:
            return None
        return self._size(expr, self._slopes(found.linear))

    def _size(self, expr: Expr, slopes: Slopes) -> float | Floats:
        """The standard error of an output, by its slopes."""
        whole = steps(expr, self._estimators, self._factors)
        found: float | Floats = size(self._noise.shown(slopes, whole))
        return found

    def half_width(self, expr: Expr, level: float) -> float | None:
        """Half the interval of an output that is linear, whatever the answers; 0 without noise.

        None for an output that is not linear, whose interval depends on the answers.
        """
        found = self.of(expr)
        if found is None or not found.gradient:
            return 0.0
        if found.linear is None:
            return None
        half, unit = self._half(found.linear, level), unit_of(expr, self._estimators)
        if unit is not None:  # a whole number of units between the ends, wherever they fall
            half = np.floor(np.asarray(2 * half / unit, np.float64) + _ROUNDED) * float(unit) / 2
        return float(np.max(half, initial=0.0))

    def _intervals(
        self, expr: Expr, confidence: float
    ) -> tuple[Floats, Floats, Floats, Bools | None] | None:
        found = self.of(expr)
        if found is None or not found.gradient:
            return None
        parts = len(found.parts)
        level = confidence if parts == 1 else simultaneous(confidence, parts)
        low, high = found.bounds(level)
        with np.errstate(all="ignore"):
            slopes = {w: slope / self._factors[w] for w, slope in found.gradient.items()}
            errors: Floats = self._size(expr, slopes) + np.zeros(len(self._noisy))
        return errors, low, high, None if found.doubtful is None else found.doubtful(level)

    # -- expressions ---------------------------------------------------------------------------

    def of(self, expr: Expr) -> Uncertain | None:
        """The uncertain value of an expression, or None where it is not a number of ours."""
        match expr:
            case Slot(name=name) if name[0] == "a":
                return self._aggregate(self._estimators[int(name[1:])])
            case Const(kind="integer" | "decimal" | "double", text=text):
                known = math.isfinite(float(text))  # else floats cannot hold it
                return self._form({CONSTANT: Fraction(text)}) if known else None
            case Op(name="TRY", args=(arg,)) | Call(name="nullif", args=(arg, Const(text="0"))):
                return self.of(arg)
            case Op(name="COALESCE", args=(arg, *rest)):
                return self._coalesced(arg, rest)
            case Cast(arg=arg, type=type_):
                return cast(self.of(arg), type_)
            case Call(name=name, args=args):
                found = [a for a in map(self.of, args) if a is not None]
                return self._call(name, found) if len(found) == len(args) else None
            case _:
                return None

    def _call(self, name: str, args: Sequence[Uncertain]) -> Uncertain | None:
        match name, args:
            case "+", [a]:
                return a
            case "-", [a]:
                return self._scaled(a, Fraction(-1))
            case "+", [a, b]:
                return self._sum(a, b)
            case "-", [a, b]:
                return self._sum(a, self._scaled(b, Fraction(-1)))
            case "*", [a, b]:
                return self._product(a, b)
            case "/", [a, b]:
                return self._quotient(a, b)
            case "//", [a, b]:
                return of.monotone(self._quotient(a, b), np.trunc)
            case "**" | "^" | "pow" | "power", [a, b]:
                return self._power(a, b)
            case "abs", [a]:
                return of.absolute(a)
            case "round" | "trunc", [a]:
                return of.rounded(a, 0)
            case "round" | "trunc", [a, b] if b.constant is not None:
                return of.rounded(a, int(b.constant))
            case "greatest" | "least", [a, *rest]:
                for b in rest:
                    a = of.extreme(a, b, greatest=name == "greatest")
                return a
            case _, [a] if name in MONOTONE:
                return of.monotone(a, *MONOTONE[name])
            case _:
                return None

    def _scaled(self, a: Uncertain, by: Fraction) -> Uncertain:
        if a.linear is not None:
            return self._form(of.scaled(a.linear, by))
        if a.ratio is not None and by != 0:
            ends = sorted(end * float(by) for end in a.clip)
            return self.ratio(of.scaled(a.ratio[0], by), a.ratio[1], (ends[0], ends[1]))
        return of.multiple(a, float(by))

    def _sum(self, a: Uncertain, b: Uncertain) -> Uncertain:
        if a.linear is not None and b.linear is not None:
            return self._form(of.added(a.linear, b.linear))
        for one, c in ((a, b.constant), (b, a.constant)):
            if one.ratio is not None and c is not None:
                top, bottom = one.ratio
                clip = (one.clip[0] + float(c), one.clip[1] + float(c))
                return self.ratio(of.added(top, of.scaled(bottom, c)), bottom, clip)
        return of.total(a, b)

    def _product(self, a: Uncertain, b: Uncertain) -> Uncertain:
        for one, c in ((a, b.constant), (b, a.constant)):
            if c is not None:
                return self._scaled(one, c)
        return of.product(a, b)

    def _quotient(self, a: Uncertain, b: Uncertain) -> Uncertain:
        if b.constant:
            return self._scaled(a, 1 / b.constant)
        if a.linear is not None and b.linear is not None:
            least = self._ends[0] if self._counted(a.linear, b.linear) else -math.inf
            return self.ratio(a.linear, b.linear, (least, math.inf))
        return of.quotient(a, b)

    def _counted(self, *forms: Form) -> bool:
        """Whether forms are sums of counts, which are not negative."""
        counts = {e.weight for e in self._estimators if isinstance(e, Count)} | {CONSTANT}
        return all(w in counts and c >= 0 for form in forms for w, c in form.items())

    def _power(self, a: Uncertain, b: Uncertain) -> Uncertain | None:
        power = b.constant
        if power is None or power.denominator != 1 or not 1 <= power <= _HIGHEST_POWER:
            return None
        found = a
        for _ in range(int(power) - 1):
            found = of.product(found, a)
        return found

    def _coalesced(self, arg: Expr, rest: Sequence[Expr]) -> Uncertain | None:
        """COALESCE of an aggregate: the next value where the aggregate is withheld."""
        found = self.of(arg)
        if found is None or found.doubtful is None:
            return found
        instead = self.of(rest[0]) if rest and isinstance(arg, Slot) else None
        if instead is None or instead.constant is None:
            return None
        return of.otherwise(found, instead.constant)

    # -- forms ---------------------------------------------------------------------------------

    def _whole(self, form: Form) -> tuple[NDArray[Any], int]:
        """The value of a linear form as integers over a common denominator, exactly."""
        each = {w: c / self._factors[w] for w, c in form.items() if w != CONSTANT}
        constant = form.get(CONSTANT, Fraction(0))
        below = math.lcm(constant.denominator, *(c.denominator for c in each.values()))
        times = {w: int(c * below) for w, c in each.items()}
        bound = abs(int(constant * below)) + sum(
            abs(t) * int(np.abs(self._noisy[:, w]).max(initial=0)) for w, t in times.items()
        )
        exact: Any = np.int64 if bound < _SAFE and below < _SAFE else object
        found = np.full(len(self._noisy), int(constant * below), exact)
        for weight, t in times.items():
            found = found + self._noisy[:, weight].astype(exact) * t
        return found, below

    def _form(self, form: Form) -> Uncertain:
        form = {w: c for w, c in form.items() if c != 0}
        whole, below = self._whole(form)
        gradient = {w: float(c) for w, c in form.items() if w != CONSTANT}

        def bounds(level: float) -> tuple[Floats, Floats]:
            half = self._half(form, level)
            if isinstance(half, np.ndarray):
                return self._around(form, half, over(whole, below))
            width = half * below
            if width.denominator != 1:  # a bound that is no multiple of the weights
                return over(whole - float(width), below), over(whole + float(width), below)
            exact = whole if width < _SAFE else whole.astype(object)
            return over(exact - int(width), below), over(exact + int(width), below)

        parts = frozenset([_name(form)] if gradient else [])
        return Uncertain(over(whole, below), gradient, bounds, parts, linear=form)

    def _half(self, form: Form, level: float) -> Any:
        """The half width of a form's noise: an integer where it is whole, or one a group."""
        half = self._noise.half(self._scales(form), level)
        return int(half) if isinstance(half, Fraction) and half.denominator == 1 else half

    def _scales(self, form: Form) -> dict[int, Fraction]:
        """The coefficients of the answers themselves."""
        return {w: c / self._factors[w] for w, c in form.items() if w != CONSTANT}

    def _slopes(self, form: Form) -> dict[int, float]:
        return {w: float(c) for w, c in self._scales(form).items()}

    def _estimate(self, form: Form) -> Floats:
        """The value of a form of the estimates that are not rounded."""
        found = np.full(len(self._centre), float(form.get(CONSTANT, 0)))
        for weight, slope in self._slopes(form).items():
            found = found + self._centre[:, weight].astype(np.float64) * slope
        return found

    def _around(self, form: Form, half: Floats, shown: Floats) -> tuple[Floats, Floats]:
        """The interval about a form's estimate, and the value that is shown, in it."""
        middle = self._estimate(form)
        return np.minimum(middle - half, shown), np.maximum(middle + half, shown)

    def ratio(
        self, top: Form, bottom: Form, clip: tuple[float, float] = (-math.inf, math.inf)
    ) -> Uncertain:
        """The ratio of two linear forms, with Fieller's interval."""
        weights = sorted({w for w in (*top, *bottom) if w != CONSTANT})
        n, d, moment = self._slopes(top), self._slopes(bottom), self._noise.moment
        moments = (moment(n, n), moment(n, d), moment(d, d))
        signed = any(coefficient < 0 for coefficient in bottom.values())
        above, under = over(*self._whole(top)), over(*self._whole(bottom))
        ends = (above, under)
        if not isinstance(self._noise, Alike):
            ends = (self._estimate(top), self._estimate(bottom))
        found = Ratio(*ends, moments, signed)
        with np.errstate(all="ignore"):
            value = above / under
            gradient = {
                w: (float(top.get(w, 0)) - value * float(bottom.get(w, 0))) / under for w in weights
            }

        def bounds(level: float) -> tuple[Floats, Floats]:
            low, high = found.bounds(self._noise.reach(level, len(weights)))
            low, high = np.fmin(low, value), np.fmax(high, value)
            return np.clip(low, *clip), np.clip(high, *clip)

        def doubtful(level: float) -> Bools:
            return found.doubtful(self._noise.reach(level, len(weights)))

        parts = frozenset([(_name(top), _name(bottom))])
        return Uncertain(value, gradient, bounds, parts, None, (top, bottom), clip, doubtful)

    # -- aggregates ----------------------------------------------------------------------------

    def _aggregate(self, estimator: Estimator) -> Uncertain:
        match estimator:
            case Count(weight=weight):
                return self._multiple(weight, _ONE, self._ends)
            case Sum(weight=weight, unit=unit) if estimator.exact:
                return self._multiple(weight, unit, (-math.inf, math.inf))
            case Sum(weight=weight, unit=unit):
                return self._form({weight: unit})
            case Mean(above=above, below=below, lo=lo, hi=hi):
                clip = (float(lo), float(hi))
                if lo == hi:
                    return self.ratio({below: lo}, {below: Fraction(1)}, clip)
                rows = of.added({above: Fraction(1)}, {below: Fraction(1)})  # they may be one
                return self.ratio(of.added({above: hi}, {below: lo}), rows, clip)
            case Spread():
                return self._spread(estimator)

    def _multiple(self, weight: int, unit: Fraction, ends: tuple[float, float]) -> Uncertain:
        """A number of rows, or a sum of whole units: ends of a finer measure move inwards."""
        form, alone = {weight: unit}, {weight: _ONE}
        noisy, factor = self._noisy[:, weight], self._factors[weight]
        shown, rows = nearest(noisy, factor), unit == 1

        def bounds(level: float) -> tuple[Floats, Floats]:
            half: Any = self._noise.half(alone, level)  # of the answers, which count `factor` a row
            if isinstance(half, np.ndarray):
                middle = self._centre[:, weight]
                low, high = np.ceil((middle - half) / factor), np.floor((middle + half) / factor)
            else:
                low, high = noisy - int(half), noisy + int(half)
                if factor > 1:
                    low, high = -(-low // factor), high // factor
            low, high = np.fmin(low, shown), np.fmax(high, shown)
            told = np.array([low, high] if rows else [units(low, unit), units(high, unit)], float)
            if ends != _EVERYWHERE:  # np.clip takes five times as long
                told = np.minimum(np.maximum(told, ends[0]), ends[1])
            return told[0], told[1]

        exact = (noisy, factor) if rows else self._whole(form)
        value, parts = np.maximum(over(*exact), ends[0]), frozenset([_name(form)])
        return Uncertain(value, {weight: 1.0 if rows else float(unit)}, bounds, parts, linear=form)

    def _spread(self, spread: Spread) -> Uncertain:
        weights = (spread.low, spread.middle, spread.high)
        times = [
            k * spread.steps**2 * self._factors[w] for k, w in zip((4, 15, 4), weights, strict=True)
        ]
        moments = {
            (i, j): self._noise.moment({weights[i]: 1.0 / times[i]}, {weights[j]: 1.0 / times[j]})
            for i in range(3) for j in range(i, 3)
        }  # fmt: skip
        sample = spread.kind.endswith("samp")
        middle, parts = (
            Parts(a, b, c, moments, sample, lambda level: self._noise.reach(level, 3))
            for a, b, c in (
                [(found[:, w] / t).astype(np.float64) for w, t in zip(weights, times, strict=True)]
                for found in (self._centre, self._noisy)
            )
        )
        root = spread.kind.startswith("stddev")
        scale = float(spread.hi - spread.lo) ** 2
        value = parts.value() * scale
        with np.errstate(all="ignore"):
            outer = scale * (0.5 / np.sqrt(value) if root else np.ones_like(value))
            gradient: dict[int, Floats] = {}
            for w, slope, t in zip(weights, parts.slopes(), times, strict=True):
                each = slope * outer * self._factors[w] / t
                gradient[w] = gradient[w] + each if w in gradient else each  # two may be one

        def bounds(level: float) -> tuple[Floats, Floats]:
            low, high = (end * scale for end in middle.bounds(level))
            low, high = (np.sqrt(low), np.sqrt(high)) if root else (low, high)
            if not isinstance(self._noise, Alike):
                low, high = np.fmin(low, value), np.fmax(high, value)
            return low, high

        value = np.sqrt(value) if root else value
        return Uncertain(value, gradient, bounds, frozenset([spread]), doubtful=middle.doubtful)


def _name(form: Form) -> frozenset[tuple[int, int, int]]:
    return frozenset([(w, *c.as_integer_ratio()) for w, c in form.items() if c])  # soon hashed
