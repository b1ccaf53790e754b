"""What a notebook shows of a release: a table with intervals, a chart with error bars, the price.

The chart is an SVG in the page itself. Lines and letters have the colour of the text around them,
and the bars one that stands out from white and from black, so that both suit any theme.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from html import escape
from typing import TypeAlias

from dpsql.release import Budget, Plan, Release, ScriptPlan
from dpsql.surfaces.figures import grouped, plain
from dpsql.surfaces.formats import plan_lines, summary, table_grid, table_lines
from dpsql.surfaces.html.plot import short
from dpsql.surfaces.sheet import bare
from dpsql.surfaces.terminal import visible

ROWS = 60  # rows of a table
_COLUMNS = 100  # of lines as on a terminal
BARS = 40  # rows of a chart
_BAR = "#4c86c0"  # contrast 3.9 on white, 4.8 on black
_WIDTH, _LEFT, _HIGH = 560, 170, 20  # pixels: of the chart, of its labels, of a row
_PLAIN = 'class="tex2jax_ignore mathjax_ignore"'  # dollars in it are no formula
_LINE = 'stroke="currentColor"'
_Scale: TypeAlias = Callable[[float], float]


Told: TypeAlias = Release | Plan | ScriptPlan | Budget


def html(value: Told) -> str:
    """The value as HTML for a cell of a notebook; all but a release as on a terminal."""
    if isinstance(value, Release):
        return f"<div {_PLAIN}>{''.join(_release(value))}</div>"
    return (
        f'<pre {_PLAIN} style="line-height:1.25;overflow-x:auto">{escape(text(value, _COLUMNS))}'
        "</pre>"
    )


def text(value: Told, width: int | None = None) -> str:
    """The value as on a terminal, for IPython on one."""
    match value:
        case Release():
            lines = table_lines(_cut(value), width=width)
        case Plan():
            lines = plan_lines(value, width=width)
        case ScriptPlan():
            from dpsql.surfaces import pages

            lines = pages.plan_lines(value, width=width, drawn=True)
        case Budget():
            from dpsql.surfaces.purses import purse_lines

            lines = purse_lines(value, bar=True, width=width)
    return "\n".join(lines)


def _cut(release: Release) -> Release:
    """The release, or its first rows and a note of how many there are: a notebook keeps what it
    shows."""
    more = len(release.rows) - ROWS
    if more <= 0:
        return release
    return dataclasses.replace(
        release,
        rows=release.rows[:ROWS],
        stderr=release.stderr[:ROWS],
        low=release.low[:ROWS],
        high=release.high[:ROWS],
        notes=(f"{more:,} more rows are in .rows", *release.notes),
    )


def _release(release: Release) -> Iterator[str]:
    release = _cut(release)
    if release.columns and not bare(release):
        yield from _table(release)
    if bars := _bars(release):
        yield from _chart(release, bars)
    yield f'<p style="margin:.4em 0">{escape(" · ".join(summary(release)))}</p>'
    for note in release.notes:
        yield f'<p style="margin:.2em 0"><small>note: {escape(visible(note))}</small></p>'


def _table(release: Release) -> Iterator[str]:
    names, cells, right = table_grid(release)
    keys = [not any(release.noisy[: index + 1]) for index in range(len(names))]
    if all(keys) or len(keys) != len(release.columns):
        keys = [False] * len(names)
    sides = [
        f' style="padding:.15em .6em;text-align:{"right" if side else "left"}"' for side in right
    ]
    yield '<table style="margin:.4em 0;color:inherit"><thead><tr>'
    for name, side in zip(names, sides, strict=True):
        yield f'<th scope="col"{side}>{escape(name)}</th>'
    yield "</tr></thead><tbody>"
    for row in cells:
        yield "<tr>"
        for cell, side, key in zip(row, sides, keys, strict=True):
            tag = 'th scope="row"' if key else "td"
            yield f"<{tag}{side}>{escape(cell)}</{tag[:2]}>"
        yield "</tr>"
    yield "</tbody></table>"


# -- the chart ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Bar:
    """A row of the chart; an end of the interval is infinite or None where it has none."""

    label: str
    value: float
    low: float | None
    high: float | None

    @property
    def ends(self) -> list[float]:
        """The numbers that the chart has to have room for."""
        return [end for end in (self.value, self.low, self.high) if end and math.isfinite(end)]


def _bars(release: Release) -> list[_Bar]:
    """The first noisy column by the keys; none where there is nothing to compare."""
    at = next((index for index, noisy in enumerate(release.noisy) if noisy), None)
    if at is None or not 2 <= len(release.rows) <= BARS or all(release.noisy):
        return []
    keys = [index for index, noisy in enumerate(release.noisy) if not noisy]
    found: list[_Bar] = []
    for row, low, high in zip(release.rows, release.low, release.high, strict=True):
        value = row[at]
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal | None):
            return []
        number = math.nan if value is None else float(value)
        label = " · ".join(visible(plain(row[key]) or "NULL") for key in keys)
        found.append(_Bar(label, number, low[at], high[at]))
    return found if any(math.isfinite(bar.value) for bar in found) else []


def _chart(release: Release, bars: list[_Bar]) -> Iterator[str]:
    """Bars from 0 with their intervals, one below the other."""
    name = visible(release.columns[release.noisy.index(True)])
    ends = [end for bar in bars for end in bar.ends]
    ticks = _ticks(min(0.0, *ends, 0.0), max(0.0, *ends, 0.0))
    least, most = ticks[0], ticks[-1]
    scale = (_WIDTH - _LEFT - 30) / (most - least)
    bottom = len(bars) * _HIGH + 4

    def x(number: float) -> float:
        return round(_LEFT + (min(max(number, least), most) - least) * scale, 1)

    said = f"{name} with {100 * release.confidence:.4g} % intervals"
    yield (
        f'<svg viewBox="0 0 {_WIDTH} {bottom + 20}" width="{_WIDTH}" role="img" '
        f'style="max-width:100%;height:auto;display:block" font-family="sans-serif" font-size="12" '
        f'fill="currentColor"><title>{escape(said)}; the table has the numbers</title>'
    )
    for tick in ticks:
        faint = ".6" if tick == 0 else ".2"
        yield f'<path d="M{x(tick)} 0V{bottom}" {_LINE} opacity="{faint}"/>'
        number = grouped(tick) if len(grouped(tick)) <= 8 else f"{tick:g}"
        yield f'<text x="{x(tick)}" y="{bottom + 14}" text-anchor="middle">{number}</text>'
    for index, bar in enumerate(bars):
        yield from _bar(bar, index * _HIGH + 2, x)
    yield "</svg>"


def _bar(bar: _Bar, top: int, x: _Scale) -> Iterator[str]:
    middle, label = top + _HIGH // 2, escape(short(bar.label, _LEFT - 10))
    yield f'<text x="{_LEFT - 8}" y="{middle + 4}" text-anchor="end">{label}'
    yield f"<title>{escape(bar.label)}</title></text>"
    if not math.isfinite(bar.value):
        return
    left, right = sorted((x(0.0), x(bar.value)))
    yield (
        f'<rect x="{left}" y="{top + 3}" width="{round(right - left, 1)}" height="{_HIGH - 6}" '
        f'fill="{_BAR}"/>'
    )
    if bar.low is None or bar.high is None:
        return
    path = f"M{x(bar.low)} {middle}H{x(bar.high)}"
    for end in (bar.low, bar.high):
        if math.isfinite(end):  # an interval without an end has no stroke there
            path += f"M{x(end)} {middle - 4}v8"
    yield f'<path d="{path}" {_LINE} stroke-width="1.5" fill="none"/>'


def _ticks(least: float, most: float) -> list[float]:
    """Round numbers, about five, from at most `least` to at least `most`."""
    if not most > least:
        return [0.0, 1.0]
    step = 10.0 ** math.floor(math.log10((most - least) / 4))
    step *= next(by for by in (1, 2, 5, 10) if step * by >= (most - least) / 5)
    return [step * k for k in range(math.floor(least / step), math.ceil(most / step) + 1)]
