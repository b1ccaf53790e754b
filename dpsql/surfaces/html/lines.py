"""Lines over numbers or dates, each in the band of its intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpsql.surfaces.html.markup import Html, el
from dpsql.surfaces.html.plot import Mark, columns, extent, margin, percent, rows, svg
from dpsql.surfaces.html.scale import Scale, numbers

_HEIGHT = 220
_DOTS = 40  # points of a line that are dotted, too
_GRAIN = 1000  # units of the picture's own grid, for shapes cannot have percent


@dataclass(frozen=True, slots=True)
class Line:
    """A line of points along x, in that order; `step` keeps each value until the next."""

    label: str
    points: tuple[tuple[float, Mark], ...]
    step: bool = False


def lines(
    drawn: Sequence[Line],
    along: Scale,
    *,
    name: str,
    title: str,
    description: str,
    zero: bool = True,
    limit: float | None = None,
    limit_words: str = "",
) -> Html:
    """Lines on one picture; `limit` is one across it that they should stay below."""
    marks = [mark for line in drawn for _, mark in line.points]
    more = [] if limit is None else [Mark(limit)]
    scale = numbers(*extent([*marks, *more], zero=zero), 5)
    grid = columns(along, _HEIGHT) + rows(scale, _HEIGHT)
    shapes = [shape for at, line in enumerate(drawn) for shape in _shapes(line, at, along, scale)]
    inner = el(
        "svg", *shapes, viewBox=f"0 0 {_GRAIN} {_GRAIN}", preserveAspectRatio="none",
        width="100%", height=_HEIGHT,
    )  # fmt: skip
    dots = [dot for at, line in enumerate(drawn) for dot in _dots(line, at, along, scale)]
    if limit is not None:
        y = _HEIGHT * (1.0 - scale.part(limit))
        dots.append(el("line", x1=0, x2="100%", y1=y, y2=y, class_="lim"))
        dots.append(el("text", limit_words, x="100%", y=y + 15, class_="r"))
    return svg(
        *grid, inner, *dots,
        name=name, title=title, description=description, height=_HEIGHT,
        left=margin([words for _, words in scale.ticks]), bottom=24, top=12, right=30,
    )  # fmt: skip


def legend(drawn: Sequence[Line]) -> Html | None:
    """Which line is which, where there are several."""
    if len(drawn) < 2:
        return None
    return el(
        "ul",
        (
            el("li", el("span", class_=f"sw s{at}", aria_hidden="true"), line.label)
            for at, line in enumerate(drawn)
        ),
        class_="key",
    )


def _runs(line: Line) -> Iterator[list[tuple[float, Mark]]]:
    """The points between those that have no value."""
    run: list[tuple[float, Mark]] = []
    for x, mark in line.points:
        if mark.value is None:
            if run:
                yield run
            run = []
        else:
            run.append((x, mark))
    if run:
        yield run


def _shapes(line: Line, at: int, along: Scale, scale: Scale) -> Iterator[Html]:
    def place(x: float, y: float) -> tuple[int, int]:
        return round(_GRAIN * along.part(x)), round(_GRAIN * (1.0 - scale.part(y)))

    for run in _runs(line):
        ends = [(x, mark.ends) for x, mark in run if mark.ends is not None]
        if len(ends) > 1:
            upper = [place(x, both[1]) for x, both in ends if both]
            lower = [place(x, both[0]) for x, both in reversed(ends) if both]
            yield el("polygon", points=_listed([*upper, *lower]), class_=f"band s{at}")
        places = [place(x, mark.value or 0.0) for x, mark in run]
        if line.step:
            places = [
                (x, y)
                for before, after in zip(places, [*places[1:], places[-1]], strict=True)
                for x, y in (before, (after[0], before[1]))
            ]
        yield el("polyline", points=_listed(places), class_=f"l s{at}")


def _dots(line: Line, at: int, along: Scale, scale: Scale) -> Iterator[Html]:
    if line.step or len(line.points) > _DOTS:
        return
    for x, mark in line.points:
        if mark.value is None:
            continue
        cx, cy = percent(along.part(x)), _HEIGHT * (1.0 - scale.part(mark.value))
        yield el("circle", cx=cx, cy=cy, r=2.5, class_=f"d s{at}")


def _listed(places: Sequence[tuple[int, int]]) -> str:
    return " ".join(f"{x},{y}" for x, y in places)
