"""Bars with error bars, one below the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpsql.surfaces.html.markup import Html, el
from dpsql.surfaces.html.plot import Mark, columns, extent, margin, percent, short, svg
from dpsql.surfaces.html.scale import Scale, numbers

_ROW = 26
_BAR = 14
_CAP = 4


def bars(
    labels: Sequence[str], marks: Sequence[Mark], *, name: str, title: str, description: str
) -> Html:
    """A bar for each value from 0, and over it a line from end to end of its interval."""
    scale = numbers(*extent(marks, zero=True), 5)
    height = _ROW * len(labels)
    made = columns(scale, height)
    for at, (label, mark) in enumerate(zip(labels, marks, strict=True)):
        y = at * _ROW + _ROW // 2
        shown = short(label)
        whole = None if shown == label else el("title", label)
        made.append(el("text", shown, whole, x=-8, y=y + 4, class_="y"))
        made += _bar(mark, scale, y)
    return svg(
        *made,
        name=name,
        title=title,
        description=description,
        height=height,
        left=margin(labels),
        bottom=24,
    )


def _bar(mark: Mark, scale: Scale, y: int) -> Iterator[Html]:
    if mark.value is None:
        yield el("text", "no value", x=percent(scale.part(0.0)), dx=6, y=y + 4, class_="n")
        return
    start, end = sorted((scale.part(0.0), scale.part(mark.value)))
    yield el(
        "rect", x=percent(start), y=y - _BAR // 2, width=percent(end - start), height=_BAR,
        class_="b",
    )  # fmt: skip
    if mark.ends is None:
        return
    low, high = mark.ends
    x1, x2 = percent(scale.part(low)), percent(scale.part(high))
    yield el("line", x1=x1, x2=x2, y1=y, y2=y, class_="e")
    for end, x in ((low, x1), (high, x2)):
        if scale.low <= end <= scale.high:  # else it goes on beyond the picture
            yield el("line", x1=x, x2=x, y1=y - _CAP, y2=y + _CAP, class_="e")
