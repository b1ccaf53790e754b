"""A small chart of an answer in text: a bar a row, and over its end the interval."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from dpsql.errors import UsageError
from dpsql.release import Release, Row, Value
from dpsql.surfaces.figures import Measured, Style, measured, plain
from dpsql.surfaces.terminal import cells, cut, joined, spelt, visible

WIDTH = 80  # where nothing says how wide it may be
NARROWEST = 10  # columns of the bars; below that numbers are left out


@dataclass(frozen=True)
class Signs:
    """What a chart is drawn with: a bar, an interval's ends, inside and value, the zero line."""

    bar: str
    low: str
    inside: str
    value: str
    high: str
    zero: str
    ellipsis: str


DRAWN = Signs("█", "├", "─", "┼", "┤", "│", "…")
PLAIN = Signs("#", "[", "-", "+", "]", "|", "...")


def chart_lines(
    release: Release, column: str = "", *, width: int | None = None, drawn: bool = True
) -> Iterator[str]:
    """The chart of one noisy column, the first unless it is named.

    One row without keys has a bar for each of its noisy columns. Raises UsageError where there is
    nothing to draw, or no such column.
    """
    index = _index(release, column)
    keys = [i for i, noisy in enumerate(release.noisy) if not noisy]
    if not column and not keys and len(release.rows) == 1:
        places = [(0, i) for i in range(len(release.columns))]
        labels = [visible(name) for name in release.columns]
        title = ""
    else:
        places = [(number, index) for number in range(len(release.rows))]
        labels = [_label(row, keys) or visible(release.columns[index]) for row in release.rows]
        title = visible(release.columns[index])
    triples = [(release.rows[r][i], release.low[r][i], release.high[r][i]) for r, i in places]
    parts = [title] * bool(title) + [f"{100 * release.confidence:.4g} % intervals"]
    if not drawn:
        labels, parts = [spelt(label) for label in labels], [spelt(part) for part in parts]
    yield from _bars(labels, triples, width or WIDTH, DRAWN if drawn else PLAIN)
    yield joined(parts, width, " · " if drawn else " | ")


def _index(release: Release, column: str) -> int:
    noisy = [i for i, is_noisy in enumerate(release.noisy) if is_noisy]
    if not noisy or not release.rows:
        raise UsageError("the last answer has no noisy values to draw")
    named = [i for i in noisy if release.columns[i].casefold() == column.casefold()]
    if column and not named:
        listed = ", ".join(dict.fromkeys(release.columns[i] for i in noisy))
        raise UsageError(f"no noisy column {column!r} in the last answer: {listed}")
    return named[0] if column else noisy[0]


def _label(row: Row, keys: Sequence[int]) -> str:
    texts = [plain(row[i]) for i in keys]
    return visible(", ".join("NULL" if text is None else text for text in texts))


def _bars(labels: list[str], triples: list[Measured], width: int, signs: Signs) -> Iterator[str]:
    style = Style.of(triples)
    figures = ["".join(measured(*triple, style)) for triple in triples]
    if signs is PLAIN:
        figures = [spelt(text) for text in figures]
    most = max(width // 3, 4)
    labels = [cut(label, most, signs.ellipsis) for label in labels]
    wide = max(map(cells, labels))
    numbers = max(map(cells, figures))
    room = width - wide - numbers - 2
    if room < NARROWEST:  # the bars matter more here; the answer above has the numbers
        room, figures = max(width - wide - 1, NARROWEST), [""] * len(figures)
    scale = Scale.of(triples, room)
    for label, triple, text in zip(labels, triples, figures, strict=True):
        line = label + " " * (wide - cells(label)) + " " + scale.bar(triple, signs) + " " + text
        yield line.rstrip()


@dataclass(frozen=True)
class Scale:
    """Values from `low` to `high`, 0 among them, on `room` columns."""

    low: float
    high: float
    room: int

    @classmethod
    def of(cls, triples: Sequence[Measured], room: int) -> Scale:
        """The scale that holds all values, and the ends of intervals that have one."""
        known = [n for triple in triples for value in triple if (n := _number(value)) is not None]
        low, high = min([0.0, *known]), max([0.0, *known])
        return cls(low, high if high > low else low + 1.0, room)

    def at(self, value: float) -> int:
        """The column of a value, from 0; those outside are at the ends."""
        part = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return min(int(part * self.room), self.room - 1)

    def bar(self, triple: Measured, signs: Signs) -> str:
        """The bar of a value from 0, with its interval over it; nothing for NULL."""
        value, (_, low, high) = _number(triple[0]), triple
        drawn = [" "] * self.room
        zero = self.at(0.0)
        if self.low < 0:
            drawn[zero] = signs.zero
        if value is None:
            return "".join(drawn)
        end = self.at(value)
        if value:
            for place in range(min(zero, end), max(zero, end) + 1):
                drawn[place] = signs.bar
        if low is not None and high is not None:
            first, last = self.at(low), self.at(high)
            for place in range(first, last + 1):
                drawn[place] = signs.inside
            drawn[end] = signs.value
            if first < end and math.isfinite(low):
                drawn[first] = signs.low
            if last > end and math.isfinite(high):
                drawn[last] = signs.high
        return "".join(drawn)


def _number(value: Value) -> float | None:
    """A finite number, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    return float(value) if math.isfinite(value) else None
