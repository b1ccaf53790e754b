"""Numbers and values as people read them, and as files hold them."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

from dpsql.release import Budget, Cost, Value, figure

__all__ = [
    "Style", "ceiling", "figure", "floor", "grouped", "measured", "percent", "plain", "share",
]  # fmt: skip

Measured: TypeAlias = "tuple[Value, float | None, float | None]"


def plain(value: Value) -> str | None:
    """The value as a text file holds it, in DuckDB's spelling; None for NULL."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case float():
            return repr(value)
        case datetime.datetime():
            return value.isoformat(" ")
        case datetime.date() | datetime.time():
            return value.isoformat()
        case datetime.timedelta():
            return _interval(value)
        case _:
            return str(value)


@dataclass(frozen=True, slots=True)
class Style:
    """How the values of one column are shown: decimals, and `[low, high]` instead of `± half`."""

    digits: int
    brackets: bool

    @classmethod
    def of(cls, cells: Sequence[Measured]) -> Style:
        """The style that suits a column: the median half-width has two figures; intervals that
        are not about the value need brackets."""
        known = [_halves(*cell) for cell in cells if _bounded(*cell)]
        if not known:
            ends = [end for _, *both in cells for end in both if end is not None]
            finite = [end for end in ends if math.isfinite(end)]
            return cls(0 if finite and all(map(float.is_integer, finite)) else 6, False)
        halves = sorted(max(pair) for pair in known)
        brackets = any(
            abs(below - above) > 0.1 * max(below, above) or max(below, above) < 0
            for below, above in known
        )
        whole = all(_whole(*cell) for cell in cells if _bounded(*cell))
        return cls(0 if whole else _digits(halves[len(halves) // 2]), brackets)


def measured(
    value: Value, low: float | None, high: float | None, style: Style | None = None
) -> tuple[str, str]:
    """The value with thousands separators, and its error: ` ± 47`, ` [0.21, 0.28]` or nothing.

    The interval shown always holds the released one.
    """
    if value is None:
        return "NULL", ""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return plain(value) or "", ""
    if low is None or high is None or not math.isfinite(value):
        return grouped(value), ""
    if math.isinf(low) or math.isinf(high):
        return grouped(
            value
        ), f" [{_infinite(low) or grouped(low)}, {_infinite(high) or grouped(high)}]"
    style = style or Style.of([(value, low, high)])
    text = _rounded(value, style.digits)
    if style.brackets:
        return text, f" [{floor(low, style.digits)}, {ceiling(high, style.digits)}]"
    return text, f" ± {_half(value, low, high, style.digits)}"


def floor(bound: float, digits: int) -> str:
    """A lower bound, rounded down."""
    return _infinite(bound) or _rounded(bound, digits, "ROUND_FLOOR")


def ceiling(bound: float, digits: int) -> str:
    """An upper bound, rounded up."""
    return _infinite(bound) or _rounded(bound, digits, "ROUND_CEILING")


def grouped(value: int | float | Decimal) -> str:
    """A number with thousands separators, to at most 15 figures."""
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return str(value)
    if isinstance(value, Decimal):
        return f"{value:,f}"
    if value and not 1e-6 <= abs(value) < 1e15:
        return f"{value:.6g}"
    shown = f"{value:,.15g}" if value.is_integer() else f"{value:,.6f}".rstrip("0").rstrip(".")
    return "0" if shown == "-0" else shown


def share(cost: Cost, budget: Budget) -> float:
    """The part of the grant that the cost takes, in the currency of the grant."""
    granted = budget.granted
    if granted.delta > 0:
        return cost.rho / granted.rho if granted.rho else math.inf
    return cost.epsilon / granted.epsilon if granted.epsilon else math.inf


def percent(part: float) -> str:
    """A share in percent: `1.0 %`."""
    if part >= 0.1:
        return f"{100 * part:,.0f} %"
    return f"{100 * part:.1f} %" if part >= 0.0095 or part == 0 else f"{100 * part:.1g} %"


def _digits(half: float) -> int:
    """Decimals at which the half-width has two figures."""
    return min(max(1 - math.floor(math.log10(half)), 0), 15) if half > 0 else 6


def _rounded(value: float | Decimal, digits: int, rounding: str = "ROUND_HALF_EVEN") -> str:
    if isinstance(value, int) and digits == 0:
        return f"{value:,}"
    if isinstance(value, float) and not abs(value) < 1e15:
        return f"{value:.6g}"
    if rounding == "ROUND_HALF_EVEN" and isinstance(value, float):
        shown = f"{value:,.{digits}f}"
    else:
        shown = f"{_exact(value, digits, rounding):,f}"
    return shown[1:] if shown.startswith("-") and not shown.strip("-0.") else shown


def _half(value: float | Decimal, low: float, high: float, digits: int) -> str:
    """The least half-width, at `digits` decimals, that holds the interval about the value shown."""
    largest = max(abs(low), abs(high))
    if not largest < 1e15:
        return f"{max(high - float(value), float(value) - low):.2g}"
    if largest * 10**digits < 1e6:  # floats are exact to 1e-9 of the last digit
        middle = round(float(value), digits)
        steps = math.ceil(max(high - middle, middle - low) * 10**digits - 1e-9)
        return f"{max(steps, 0) / 10**digits:,.{digits}f}"
    exact = _exact(value, digits, "ROUND_HALF_EVEN")
    with decimal.localcontext(prec=60):
        half = max(Decimal(high) - exact, exact - Decimal(low))
    return f"{_exact(max(half, Decimal(0)), digits, 'ROUND_CEILING'):,f}"


def _exact(value: float | Decimal, digits: int, rounding: str) -> Decimal:
    """The value at `digits` decimals; one part in 10^9 of the last forgives a float's rounding."""
    with decimal.localcontext(prec=60):
        step = Decimal(1).scaleb(-digits)
        near = Decimal(value).quantize(step)
        if abs(near - Decimal(value)) <= step * Decimal("1e-9"):
            return near
        return Decimal(value).quantize(step, rounding=rounding)


def _bounded(value: Value, low: float | None, high: float | None) -> bool:
    number = isinstance(value, int | float | Decimal) and math.isfinite(value)
    return (
        number and None not in (low, high) and math.isfinite(low or 0) and math.isfinite(high or 0)
    )


def _halves(value: Any, low: Any, high: Any) -> tuple[float, float]:
    return float(value) - low, high - float(value)


def _whole(value: Value, low: Any, high: Any) -> bool:
    return isinstance(value, int) and float(low).is_integer() and float(high).is_integer()


def _infinite(bound: float) -> str:
    if not math.isinf(bound):
        return ""
    return "-infinity" if bound < 0 else "infinity"


def _interval(value: datetime.timedelta) -> str:
    days = f"{value.days} day{'' if value.days == 1 else 's'}" if value.days else ""
    rest = value - datetime.timedelta(days=value.days)
    clock = (datetime.datetime.min + rest).time().isoformat() if rest or not days else ""
    return " ".join(part for part in (days, clock) if part)
