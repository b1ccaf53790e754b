"""Scales of axes: round numbers or dates to mark, and how they are written."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAY = 86_400.0
_FAR = 1e200  # beyond, differences might overflow
_EPOCH = datetime.datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Scale:
    """A range of numbers, and the marks within it, each with what is written there."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]

    def part(self, value: float) -> float:
        """Where a number stands, from 0 at the low end to 1 at the high one; others are cut."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)


def numbers(low: float, high: float, most: int, *, tight: bool = False) -> Scale:
    """A scale of round numbers that holds `low` to `high`, with at most `most` steps.

    A `tight` one ends where they do, as does the part below 0 of any where a whole step would be
    more than half empty: noise a little below 0 takes no room.
    """
    low, high = (min(max(end, -_FAR), _FAR) for end in (low, high))
    if not high - low > 1e-9 * max(abs(low), abs(high)):  # else marks would be one number
        around = max(0.5, 1e-6 * abs(low))
        low, high = (low - around, high + around) if low or tight else (0.0, 1.0)
    step = _step((high - low) / most)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    if tight:
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    start = first * step
    if not tight and start < low < 0 <= high and low - start > step / 2:
        first, start = first + 1, low
    marks = [at * step for at in range(first, last + 1)]
    write = _writer(step, max(abs(low), abs(high)))
    ticks = tuple((mark, write(mark)) for mark in marks)
    return Scale(low, high, ticks) if tight else Scale(start, marks[-1], ticks)


def _step(rough: float) -> float:
    """The least of 1, 2, 5 times a power of ten that is not below a number."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(
        (times * power for times in (1, 2, 5) if times * power >= rough * 0.999), 10 * power
    )


def _writer(step: float, largest: float) -> Callable[[float], str]:
    """How marks are written: with as many decimals as tell them apart, thousands as k, M, G."""
    if not 1e-6 <= largest < 1e15:
        return lambda mark: f"{mark + 0.0:.3g}"
    for least, size, sign in ((1e9, 1e9, " G"), (1e6, 1e6, " M"), (1e4, 1e3, " k")):
        if largest >= least:
            return lambda mark: f"{mark / size:,.6g}{sign}" if mark else "0"
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return lambda mark: f"{mark + 0.0:,.{digits}f}"


# -- dates -------------------------------------------------------------------------------------


def seconds(moment: datetime.date) -> float:
    """A date or a time as seconds, for a scale of `dates`."""
    if not isinstance(moment, datetime.datetime):
        moment = datetime.datetime(moment.year, moment.month, moment.day)
    return (moment.replace(tzinfo=None) - _EPOCH).total_seconds()


def dates(low: float, high: float, most: int) -> Scale:
    """A scale of days, months or years (hours, where it is short) from `low` to `high`."""
    if not high > low:
        low, high = low - _DAY / 2, high + _DAY / 2
    for kind, step, wide in _CALENDAR:
        if (high - low) / wide <= most:
            return Scale(low, high, tuple(_marks(kind, step, low, high)))
    step = max(int(_step((high - low) / most / 365.2425 / _DAY)), 1)
    first = (_EPOCH + datetime.timedelta(seconds=low)).year
    marks = [
        (seconds(datetime.date(year, 1, 1)), str(year))
        for year in range(-(-first // step) * step, datetime.MAXYEAR + 1, step)
        if year >= datetime.MINYEAR
    ]
    return Scale(low, high, tuple(tick for tick in marks if low <= tick[0] <= high))


_CALENDAR = (
    ("minute", 5, 300.0), ("minute", 15, 900.0), ("minute", 60, 3_600.0), ("minute", 180, 10_800.0),
    ("minute", 360, 21_600.0), ("day", 1, _DAY), ("day", 2, 2 * _DAY), ("day", 7, 7 * _DAY),
    ("day", 14, 14 * _DAY),
    ("month", 1, 30.4 * _DAY), ("month", 2, 60.9 * _DAY), ("month", 3, 91.3 * _DAY),
    ("month", 6, 182.6 * _DAY), ("month", 12, 365.2 * _DAY),
)  # fmt: skip


def _day(moment: datetime.datetime) -> str:
    return f"{moment.day} {MONTHS[moment.month - 1]}"


def _marks(kind: str, step: int, low: float, high: float) -> Sequence[tuple[float, str]]:
    start = _EPOCH + datetime.timedelta(seconds=low)
    found: list[tuple[float, str]] = []
    if kind == "month":
        at = start.year * 12 + (start.month - 1) // step * step
        while (mark := seconds(datetime.date(at // 12, at % 12 + 1, 1))) <= high:
            year, month = divmod(at, 12)
            name = MONTHS[month]
            if step == 12:
                words = str(year)
            else:
                words = f"{name} {year}" if not month or not found else name
            if mark >= low:
                found.append((mark, words))
            at += step
        return found
    wide = step * (60.0 if kind == "minute" else _DAY)
    at_ = math.ceil(low / wide)
    while (mark := at_ * wide) <= high:
        moment = _EPOCH + datetime.timedelta(seconds=mark)
        if kind == "minute":
            midnight = found and not moment.hour + moment.minute
            words = _day(moment) if midnight else f"{moment:%H:%M}"
        else:
            words = _day(moment)
        found.append((mark, words))
        at_ += 1
    return found
