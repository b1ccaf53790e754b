"""What an output's expression says beyond its value: standard error and interval.

Outputs are expressions over noisy answers with independent noise of one law. A linear form has the
exact quantile of its noise; a ratio of two linear forms has Fieller's interval; a variance the
extremes over the joint interval of its three parts. Anything else is bounded by interval
arithmetic over those, which share the level by the union bound, so it covers at least as often.
Standard errors of what is not linear are first-order (delta method).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Event
from dpsql.mechanisms.quantile import simultaneous, sum_half_width
from dpsql.mechanisms.ratio import factor, fieller, spread
from dpsql.query.compile import Count, Estimator, Mean, Spread, Sum
from dpsql.query.expr import Call, Cast, Const, Expr, Op, Slot

Floats: TypeAlias = NDArray[np.float64]
Gradient: TypeAlias = "dict[int, Floats]"
Bounds: TypeAlias = "Callable[[float], tuple[Floats, Floats]]"
Form: TypeAlias = "Mapping[int, Fraction]"  # coefficients of answers; -1 is the constant


@dataclass(frozen=True, slots=True)
class Uncertain:
    """A value in each group, its gradient over the answers, and its bounds at a level.

    `parts` counts the intervals among which the level is shared. `linear` and `ratio` are set
    while the value is such a form. `doubtful` marks ratios whose denominator may be 0.
    """

    value: Floats
    gradient: Gradient
    bounds: Bounds
    parts: int = 1
    linear: Form | None = None
    ratio: tuple[Form, Form] | None = None
    clip: tuple[float, float] = (-math.inf, math.inf)
    doubtful: Callable[[float], NDArray[np.bool_]] | None = None


class Answers:
    """The noisy answers of one SELECT, (groups, weights), and the law of their noise."""

    def __init__(
        self,
        noisy: NDArray[np.int64],
        law: Event,
        estimators: tuple[Estimator, ...],
        factors: tuple[int, ...],
        clamp: bool,
    ) -> None:
        self._noisy = noisy.astype(np.float64) / np.array(factors, np.float64)
        self._law, self._estimators, self._clamp = law, estimators, clamp
        self._factors = factors
        self._sigma = spread(law)

    def intervals(
        self, expr: Expr, confidence: float
    ) -> tuple[Floats, Floats, Floats, NDArray[np.bool_] | None] | None:
        """Standard error, low, high of an output in each group, and where it is doubtful.

        None for an output that has no error (a key) or none that can be computed.
        """
        found = self.of(expr)
        if found is None or not found.gradient:
            return None
        level = confidence if found.parts == 1 else simultaneous(confidence, found.parts)
        low, high = found.bounds(level)
        squares = np.zeros(len(self._noisy))
        for weight, slope in found.gradient.items():
            squares = squares + (slope / self._factors[weight]) ** 2
        doubtful = None if found.doubtful is None else found.doubtful(level)
        return self._sigma * np.sqrt(squares), low, high, doubtful

    # -- expressions ---------------------------------------------------------------------------

    def of(self, expr: Expr) -> Uncertain | None:
        """The uncertain value of an expression, or None where it is not a number of ours."""
        match expr:
            case Slot(name=name) if name[0] == "a":
                return self._aggregate(self._estimators[int(name[1:])])
            case Const(kind="integer" | "decimal" | "double", text=text):
                return self._form(
                    {-1: Fraction(text) if "e" not in text.lower() else Fraction(float(text))}
                )
            case Op(name="TRY", args=(arg,)):
                return self.of(arg)
            case Call(name="nullif", args=(arg, Const(text="0"))):
                return self.of(arg)
            case Cast(arg=arg, type=type_):
                inner = self.of(arg)
                if inner is None or type_ in ("DOUBLE", "FLOAT", "HUGEINT"):
                    return inner
                return None if not _numeric(type_) else _monotone(inner, np.floor, np.ceil)
            case Call(name=name, args=args):
                inner_args = [self.of(arg) for arg in args]
                if any(arg is None for arg in inner_args):
                    return None
                return self._call(name, [arg for arg in inner_args if arg is not None], args)
            case _:
                return None

    def _call(
        self, name: str, args: list[Uncertain], written: tuple[Expr, ...]
    ) -> Uncertain | None:
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
                for one, other in ((a, b), (b, a)):
                    if (c := _constant(other)) is not None:
                        return self._scaled(one, c)
                return _product(a, b)
            case "/", [a, b]:
                if (c := _constant(b)) is not None and c != 0:
                    return self._scaled(a, 1 / c)
                if a.linear is not None and b.linear is not None:
                    return self._ratio(a.linear, b.linear)
                return _quotient(a, b)
            case "abs", [a]:
                return _absolute(a)
            case "floor", [a]:
                return _monotone(a, np.floor, np.floor)
            case "ceil" | "ceiling", [a]:
                return _monotone(a, np.ceil, np.ceil)
            case "round" | "trunc", [a, *_] if len(args) == 1 or isinstance(written[1], Const):
                digits = 0 if len(args) == 1 else int(_constant(args[1]) or 0)
                return _rounded(a, digits)
            case "sqrt", [a]:
                return _root(a)
            case _:
                return None

    # -- forms ---------------------------------------------------------------------------------

    def _apply(self, form: Form) -> Floats:
        found = np.full(len(self._noisy), float(form.get(-1, 0)))
        for weight, coefficient in form.items():
            if weight >= 0:
                found = found + float(coefficient) * self._noisy[:, weight]
        return found

    def _form(self, form: Form) -> Uncertain:
        form = {w: c for w, c in form.items() if c != 0}
        value = self._apply(form)
        ones = np.ones(len(self._noisy))
        gradient = {w: float(c) * ones for w, c in form.items() if w >= 0}

        def bounds(level: float) -> tuple[Floats, Floats]:
            terms = [(c / self._factors[w], self._law) for w, c in form.items() if w >= 0]
            half = float(sum_half_width(terms, level)) if terms else 0.0
            return value - half, value + half

        return Uncertain(value, gradient, bounds, 1 if gradient else 0, linear=form)

    def _ratio(
        self, top: Form, bottom: Form, clip: tuple[float, float] = (-math.inf, math.inf)
    ) -> Uncertain:
        numerator, denominator = self._apply(top), self._apply(bottom)
        weights = sorted({w for w in (*top, *bottom) if w >= 0})
        n = np.array([float(top.get(w, 0)) for w in weights])
        d = np.array([float(bottom.get(w, 0)) for w in weights])
        f = np.array([self._factors[w] for w in weights], np.float64)
        n_, d_ = n / f, d / f
        moments = (float(n_ @ n_), float(n_ @ d_), float(d_ @ d_))
        with np.errstate(all="ignore"):
            value = numerator / denominator
            gradient = {w: (n[i] - value * d[i]) / denominator for i, w in enumerate(weights)}

        def bounds(level: float) -> tuple[Floats, Floats]:
            z = factor(self._law, level, max(len(weights), 1))
            low, high = fieller(numerator, denominator, moments, z * self._sigma)
            return np.clip(low, *clip), np.clip(high, *clip)

        def doubtful(level: float) -> NDArray[np.bool_]:
            z = factor(self._law, level, max(len(weights), 1))
            return ~(denominator > z * self._sigma * math.sqrt(moments[2]))

        return Uncertain(value, gradient, bounds, 1, None, (top, bottom), clip, doubtful)

    def _aggregate(self, estimator: Estimator) -> Uncertain:
        match estimator:
            case Count(weight=weight):
                found = self._form({weight: Fraction(1)})
                if self._factors[weight] != 1:  # a whole number within a finer interval
                    found = _monotone(found, np.ceil, np.floor)
                return _clamped(found) if self._clamp else found
            case Sum(weight=weight, unit=unit):
                return self._form({weight: unit})
            case Mean(above=above, below=below, lo=lo, hi=hi):
                if lo == hi:
                    return self._ratio({below: lo}, {below: Fraction(1)}, (float(lo), float(hi)))
                return self._ratio(
                    {above: hi, below: lo},
                    {above: Fraction(1), below: Fraction(1)},
                    (float(lo), float(hi)),
                )
            case Spread():
                return self._spread(estimator)

    def _spread(self, spread_: Spread) -> Uncertain:
        low, middle, high = (self._noisy[:, w] for w in (spread_.low, spread_.middle, spread_.high))
        scale, steps = float(spread_.hi - spread_.lo) ** 2, float(spread_.steps) ** 2
        a, b, c = low / (4 * steps), middle / (15 * steps), high / (4 * steps)
        sample, root = spread_.kind.endswith("samp"), spread_.kind.startswith("stddev")
        with np.errstate(all="ignore"):
            n = a + 2 * b + c
            inner = a * c - b * b
            slopes = {
                spread_.low: (c / n**2 - 2 * inner / n**3) / (4 * steps),
                spread_.middle: (-2 * b / n**2 - 4 * inner / n**3) / (15 * steps),
                spread_.high: (a / n**2 - 2 * inner / n**3) / (4 * steps),
            }
            times = n / (n - 1) if sample else np.ones_like(n)
            value = np.maximum(inner / n**2, 0.0) * scale * times
            outer = scale * times * (0.5 / np.sqrt(value) if root else 1.0)
            gradient = {w: np.nan_to_num(s * outer, posinf=0, neginf=0) for w, s in slopes.items()}
            value = np.sqrt(value) if root else value

        one = Fraction(1, self._factors[spread_.low])

        def box(level: float) -> float:
            return float(sum_half_width([(one, self._law)], simultaneous(level, 3)))

        def bounds(level: float) -> tuple[Floats, Floats]:
            h = box(level)
            lows = [np.maximum(x - h / (k * steps), 0) for x, k in ((a, 4), (b, 15), (c, 4))]
            highs = [np.maximum(x + h / (k * steps), 0) for x, k in ((a, 4), (b, 15), (c, 4))]
            below, above = _variance_range(lows, highs)
            fewest = lows[0] + 2 * lows[1] + lows[2]
            most = highs[0] + 2 * highs[1] + highs[2]
            if sample:  # N / (N - 1), for N >= 2 rows
                with np.errstate(all="ignore"):
                    below = below * np.where(most > 2, most / (most - 1), 1.0)
                    above = above * np.where(fewest > 2, fewest / (fewest - 1), 2.0)
            below, above = below * scale, above * scale
            return (np.sqrt(below), np.sqrt(above)) if root else (below, above)

        def doubtful(level: float) -> NDArray[np.bool_]:
            h = box(level) / steps
            return ~(n > h * (1 / 4 + 2 / 15 + 1 / 4) + (1 if sample else 0))

        return Uncertain(value, gradient, bounds, doubtful=doubtful)

    # -- arithmetic ----------------------------------------------------------------------------

    def _scaled(self, a: Uncertain, by: Fraction) -> Uncertain:
        if a.linear is not None:
            return self._form({w: c * by for w, c in a.linear.items()})
        if a.ratio is not None:
            top = {w: c * by for w, c in a.ratio[0].items()}
            ends = sorted((a.clip[0] * float(by), a.clip[1] * float(by))) if by else [0.0, 0.0]
            return self._ratio(top, a.ratio[1], (ends[0], ends[1]))
        factor_ = float(by)

        def bounds(level: float) -> tuple[Floats, Floats]:
            low, high = a.bounds(level)
            return (
                (low * factor_, high * factor_) if factor_ >= 0 else (high * factor_, low * factor_)
            )

        return Uncertain(
            a.value * factor_, {w: g * factor_ for w, g in a.gradient.items()}, bounds, a.parts,
            doubtful=a.doubtful,
        )  # fmt: skip

    def _sum(self, a: Uncertain, b: Uncertain) -> Uncertain:
        if a.linear is not None and b.linear is not None:
            return self._form(_added(a.linear, b.linear))
        for one, other in ((a, b), (b, a)):
            c = _constant(other)
            if one.ratio is not None and c is not None:
                shifted = {w: c * d for w, d in one.ratio[1].items()}
                clip = (one.clip[0] + float(c), one.clip[1] + float(c))
                return self._ratio(_added(one.ratio[0], shifted), one.ratio[1], clip)

        def bounds(level: float) -> tuple[Floats, Floats]:
            (low_a, high_a), (low_b, high_b) = a.bounds(level), b.bounds(level)
            return low_a + low_b, high_a + high_b

        return Uncertain(
            a.value + b.value,
            _gradient([(a, np.ones_like(a.value)), (b, np.ones_like(b.value))]),
            bounds,
            a.parts + b.parts,
            doubtful=_either(a, b),
        )


def _variance_range(lows: list[Floats], highs: list[Floats]) -> tuple[Floats, Floats]:
    """The extremes of (ac - b^2) / (a + 2b + c)^2 over a box of nonnegative a, b, c.

    It falls with b. In a, for fixed b and c, it rises up to 2b + c + 2b^2/c and falls after; in c
    alike. So the least is at a corner with the largest b, the largest at the least b, at a corner
    or at the turning point on an edge.
    """

    def value(a: Floats, b: Floats, c: Floats) -> Floats:
        n = a + 2 * b + c
        with np.errstate(all="ignore"):
            return np.where(n > 0, np.maximum(a * c - b * b, 0) / n**2, 0.0)

    corners = [(a, c) for a in (lows[0], highs[0]) for c in (lows[2], highs[2])]
    least = np.minimum.reduce([value(a, highs[1], c) for a, c in corners])
    b = lows[1]
    found = [value(a, b, c) for a, c in corners]
    with np.errstate(all="ignore"):
        for c in (lows[2], highs[2]):
            turn = np.where(c > 0, 2 * b + c + 2 * b * b / c, lows[0])
            found.append(value(np.clip(turn, lows[0], highs[0]), b, c))
        for a in (lows[0], highs[0]):
            turn = np.where(a > 0, 2 * b + a + 2 * b * b / a, lows[2])
            found.append(value(a, b, np.clip(turn, lows[2], highs[2])))
    return least, np.minimum(np.maximum.reduce(found), 0.25)


def _added(a: Form, b: Form) -> Form:
    return {w: a.get(w, Fraction(0)) + b.get(w, Fraction(0)) for w in {**a, **b}}


def _constant(a: Uncertain) -> Fraction | None:
    if a.linear is None or any(w >= 0 for w in a.linear):
        return None
    return a.linear.get(-1, Fraction(0))


def _numeric(type_: str) -> bool:
    return type_ in (
        "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
    )  # fmt: skip


def _gradient(parts: list[tuple[Uncertain, Floats]]) -> Gradient:
    found: Gradient = {}
    for part, slope in parts:
        for weight, inner in part.gradient.items():
            found[weight] = found.get(weight, np.zeros_like(slope)) + inner * slope
    return found


def _either(a: Uncertain, b: Uncertain) -> Callable[[float], NDArray[np.bool_]] | None:
    """Where one of two values is doubtful."""
    tests = [x.doubtful for x in (a, b) if x.doubtful is not None]
    if not tests:
        return None
    return lambda level: np.logical_or.reduce([test(level) for test in tests])


def _monotone(
    a: Uncertain, down: Callable[[Floats], Floats], up: Callable[[Floats], Floats]
) -> Uncertain:
    """A rounding: it keeps order, so the ends of the interval are rounded outwards."""

    def bounds(level: float) -> tuple[Floats, Floats]:
        low, high = a.bounds(level)
        return down(low), up(high)

    return Uncertain(a.value, a.gradient, bounds, a.parts, doubtful=a.doubtful)


def _rounded(a: Uncertain, digits: int) -> Uncertain:
    unit = 10.0**digits
    return _monotone(a, lambda x: np.floor(x * unit) / unit, lambda x: np.ceil(x * unit) / unit)


def _clamped(a: Uncertain) -> Uncertain:
    """A count that is shown as 0 when its noise made it negative; the truth is not negative."""

    def bounds(level: float) -> tuple[Floats, Floats]:
        low, high = a.bounds(level)
        return np.maximum(low, 0.0), np.maximum(high, 0.0)

    return Uncertain(np.maximum(a.value, 0.0), a.gradient, bounds, a.parts)


def _product(a: Uncertain, b: Uncertain) -> Uncertain:
    def bounds(level: float) -> tuple[Floats, Floats]:
        (low_a, high_a), (low_b, high_b) = a.bounds(level), b.bounds(level)
        with np.errstate(all="ignore"):
            ends = np.nan_to_num(
                np.stack([low_a * low_b, low_a * high_b, high_a * low_b, high_a * high_b]),
                nan=0.0, posinf=np.inf, neginf=-np.inf,
            )  # fmt: skip
        return ends.min(axis=0), ends.max(axis=0)

    gradient = _gradient([(a, b.value), (b, a.value)])
    return Uncertain(a.value * b.value, gradient, bounds, a.parts + b.parts, doubtful=_either(a, b))


def _quotient(a: Uncertain, b: Uncertain) -> Uncertain:
    def bounds(level: float) -> tuple[Floats, Floats]:
        (low_a, high_a), (low_b, high_b) = a.bounds(level), b.bounds(level)
        apart = (low_b > 0) | (high_b < 0)
        with np.errstate(all="ignore"):
            ends = np.stack([low_a / low_b, low_a / high_b, high_a / low_b, high_a / high_b])
        return (
            np.where(apart, ends.min(axis=0), -np.inf),
            np.where(apart, ends.max(axis=0), np.inf),
        )

    with np.errstate(all="ignore"):
        value = a.value / b.value
        gradient = _gradient([(a, 1 / b.value), (b, -value / b.value)])
    return Uncertain(value, gradient, bounds, a.parts + b.parts, doubtful=_either(a, b))


def _absolute(a: Uncertain) -> Uncertain:
    def bounds(level: float) -> tuple[Floats, Floats]:
        low, high = a.bounds(level)
        crosses = (low <= 0) & (high >= 0)
        least = np.where(crosses, 0.0, np.minimum(np.abs(low), np.abs(high)))
        return least, np.maximum(np.abs(low), np.abs(high))

    return Uncertain(np.abs(a.value), a.gradient, bounds, a.parts, doubtful=a.doubtful)


def _root(a: Uncertain) -> Uncertain:
    def bounds(level: float) -> tuple[Floats, Floats]:
        low, high = a.bounds(level)
        return np.sqrt(np.maximum(low, 0)), np.sqrt(np.maximum(high, 0))

    with np.errstate(all="ignore"):
        value = np.sqrt(np.maximum(a.value, 0))
        gradient = _gradient([(a, np.where(value > 0, 0.5 / value, 0.0))])
    return Uncertain(value, gradient, bounds, a.parts, doubtful=a.doubtful)
