"""The charts of a release: one a measure, each with its legend and its description."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from typing import Any

from dpsql.release import Release, Value
from dpsql.session.chart import AUTO, MOST_BARS, MOST_SERIES, Chart, Shape, chosen, x_of
from dpsql.surfaces.figures import Style, measured, plain
from dpsql.surfaces.html import bars, heat, lines
from dpsql.surfaces.html.markup import Html, el
from dpsql.surfaces.html.plot import Mark
from dpsql.surfaces.html.scale import Scale, dates, numbers, seconds

_SPOKEN = 12  # values that a description lists


def drawn(release: Release, chart: Chart | str, name: str) -> Html | None:
    """The figure of an answer, None where none suits it; `name` begins the ids within it."""
    found = chosen(Shape.of(release)) if chart == AUTO else chart
    if not isinstance(found, Chart) or not release.rows:
        return None
    if found.kind == "bar" and not found.keys:
        made = [_columns(release, found, f"{name}c0")]
    else:
        made = [
            one
            for at, measure in enumerate(found.measures)
            for one in _one(release, found, measure, f"{name}c{at}")
        ]
    if not made:
        return None
    several = " two" if len(made) > 1 and found.kind != "heat" else ""
    return el("div", made, class_=f"charts{several}")


def _one(release: Release, chart: Chart, measure: int, name: str) -> Iterator[Html]:
    """The chart of one measure; nothing where too few rows are left of those that were expected."""
    marks = _marks(release, measure)
    match chart.kind:
        case "bar":
            yield _bars(release, chart, measure, marks, name)
        case "line":
            yield from _lines(release, chart, measure, marks, name)
        case "heat":
            yield _heat(release, chart, measure, marks, name)


def _bars(release: Release, chart: Chart, measure: int, marks: Sequence[Mark], name: str) -> Html:
    labels = [label(row[chart.keys[0]]) for row in release.rows[:MOST_BARS]]
    title = _title(release, chart, measure)
    picture = bars.bars(
        labels, marks[:MOST_BARS], name=name, title=title,
        description=_described("Bars", release, chart, measure, labels),
    )  # fmt: skip
    return _figure(title, picture, None)


def _columns(release: Release, chart: Chart, name: str) -> Html:
    """A bar a column, of an answer of one row."""
    labels = [release.columns[at] for at in chart.measures]
    marks = [_marks(release, at)[0] for at in chart.measures]
    title = ", ".join(labels)
    spoken = [_spoken(release, at)[0] for at in chart.measures]
    listed = "; ".join(f"{a} {b}" for a, b in zip(labels, spoken, strict=True))
    said = f"Bars with {_level(release)} intervals: {listed}."
    return _figure(title, bars.bars(labels, marks, name=name, title=title, description=said), None)


def _lines(
    release: Release, chart: Chart, measure: int, marks: Sequence[Mark], name: str
) -> Iterator[Html]:
    keys = [tuple(row[at] for at in chart.keys) for row in release.rows]
    along = x_of(Shape(release.columns, chart.keys, chart.measures, tuple(keys)))
    if along is None:
        return
    series: dict[Value, list[tuple[float, Mark]]] = {}
    for key, mark in zip(keys, marks, strict=True):
        if key[along] is not None:
            series.setdefault(key[1 - along] if len(key) > 1 else None, []).append(
                (_place(key[along]), mark)
            )
    if not series or len(series) > MOST_SERIES:
        return
    drawn_ = [
        lines.Line(label(value), tuple(sorted(points, key=lambda point: point[0])))
        for value, points in series.items()
    ]
    xs = [x for line in drawn_ for x, _ in line.points]
    dated = isinstance(next(key[along] for key in keys if key[along] is not None), datetime.date)
    low, high = min(xs), max(xs)
    scale = dates(low, high, 6) if dated else numbers(low, high, 8, tight=True)
    if not dated and _years(xs):
        scale = Scale(scale.low, scale.high, tuple((x, f"{x:g}") for x, _ in scale.ticks))
    labels = [", ".join(label(value) for value in key) for key in keys]
    title = _title(release, chart, measure)
    picture = lines.lines(
        drawn_, scale, name=name, title=title,
        description=_described("Line", release, chart, measure, labels),
    )  # fmt: skip
    below = release.columns[chart.keys[along]]
    if any(key[along] is None for key in keys):
        below += " (NULL is in the table alone)"
    yield _figure(title, picture, lines.legend(drawn_), below)


def _years(xs: Sequence[float]) -> bool:
    """Whether numbers are written without separators, for they seem to be years."""
    return all(x.is_integer() and 1800 <= x <= 2100 for x in xs)


def _heat(release: Release, chart: Chart, measure: int, marks: Sequence[Mark], name: str) -> Html:
    first, second = (_sides(release, at) for at in chart.keys)
    if len(second) > len(first) and len(second) > 12:  # the longer side goes down
        chart = Chart("heat", chart.keys[::-1], chart.measures)
        first, second = second, first
    spoken = _values(release, measure)
    cells = {
        (first[row[chart.keys[0]]], second[row[chart.keys[1]]]): (mark, words)
        for row, mark, words in zip(release.rows, marks, spoken, strict=True)
    }
    title = _title(release, chart, measure)
    down, across = ([label(value) for value in side] for side in (first, second))
    labels = [", ".join(label(row[at]) for at in chart.keys) for row in release.rows]
    picture = heat.heat(
        down, across, cells, name=name, title=title,
        description=_described("Heat map", release, chart, measure, labels),
    )  # fmt: skip
    digits = _style(release, measure).digits
    low, high = (f"{end:,.{digits}f}" for end in heat.span(cells))
    return _figure(title, picture, heat.legend(cells, (low, high)))


def _sides(release: Release, at: int) -> dict[Value, int]:
    """The values of a key by their place: numbers and dates in order, others as they came."""
    values = list(dict.fromkeys(row[at] for row in release.rows))
    known = [value for value in values if value is not None]
    if all(isinstance(value, datetime.date) for value in known) or all(
        not isinstance(value, str | datetime.date | datetime.time | datetime.timedelta)
        for value in known
    ):
        found: list[Any] = list(known)
        values = [*sorted(found), *([None] if len(known) < len(values) else [])]
    return {value: place for place, value in enumerate(values)}


# -- words -------------------------------------------------------------------------------------


def label(value: Value) -> str:
    """A key as a label."""
    return "NULL" if value is None else plain(value) or "''"


def _figure(title: str, picture: Html, legend: Html | None, below: str = "") -> Html:
    axis = el("p", below, class_="axis", aria_hidden="true") if below else None
    return el("figure", el("figcaption", title), el("div", picture, class_="draw"), axis, legend)


def _title(release: Release, chart: Chart, measure: int) -> str:
    return f"{release.columns[measure]} by {' and '.join(release.columns[k] for k in chart.keys)}"


def _described(
    kind: str, release: Release, chart: Chart, measure: int, labels: Sequence[str]
) -> str:
    """What a picture shows, in words; long ones by their least and largest values."""
    start = f"{kind} of {_title(release, chart, measure)}, with {_level(release)} intervals"
    spoken = _spoken(release, measure)
    if len(labels) <= _SPOKEN:
        return f"{start}: {'; '.join(f'{a} {b}' for a, b in zip(labels, spoken, strict=False))}."
    values = [row[measure] for row in release.rows]
    known = [(v, at) for at, v in enumerate(map(_float, values[: len(labels)])) if v is not None]
    if not known:
        return f"{start}; the table below has the values."
    least, most = min(known)[1], max(known)[1]
    return (
        f"{start}: {len(labels):,} values from {spoken[least]} ({labels[least]}) to {spoken[most]}"
        f" ({labels[most]}); the table below has the values."
    )


def _level(release: Release) -> str:
    return f"{100 * release.confidence:.4g} %"


def _style(release: Release, measure: int) -> Style:
    return Style.of(_triples(release, measure))


def _triples(release: Release, measure: int) -> list[tuple[Value, float | None, float | None]]:
    return [
        (row[measure], low[measure], high[measure])
        for row, low, high in zip(release.rows, release.low, release.high, strict=True)
    ]


def _spoken(release: Release, measure: int) -> list[str]:
    """Each value with its interval."""
    style = _style(release, measure)
    return ["".join(measured(*triple, style)) for triple in _triples(release, measure)]


def _values(release: Release, measure: int) -> list[str]:
    """Each value as it is written; nothing for NULL."""
    style = _style(release, measure)
    return [
        "" if triple[0] is None else measured(*triple, style)[0]
        for triple in _triples(release, measure)
    ]


def _marks(release: Release, measure: int) -> list[Mark]:
    triples = _triples(release, measure)
    return [Mark(_float(value), low, high) for value, low, high in triples]


def _float(value: Any) -> float | None:
    """A finite number; None for anything else."""
    if value is None or isinstance(value, str | bool | datetime.date | datetime.timedelta):
        return None
    found = float(value)
    return found if math.isfinite(found) else None


def _place(value: Any) -> float:
    return seconds(value) if isinstance(value, datetime.date) else float(value)
