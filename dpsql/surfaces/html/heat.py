"""Heat maps: a cell for each pair of keys, the darker the more; what may be nothing is dashed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from dpsql.surfaces.html.markup import Html, el
from dpsql.surfaces.html.plot import Mark, breadth, margin, percent, short, svg

STEPS = 7
_ROW = 30
_WIDE, _NARROW = 640, 230  # pixels of the picture on a large and on a small screen


def heat(
    rows: Sequence[str],
    columns: Sequence[str],
    marks: Mapping[tuple[int, int], tuple[Mark, str]],
    *,
    name: str,
    title: str,
    description: str,
) -> Html:
    """`marks` has by row and column what stands there, and how its value is written."""
    low, high = span(marks)
    height, width = _ROW * len(rows), 1.0 / len(columns)
    fits = max((breadth(words) for _, words in marks.values()), default=0) + 6
    room = "" if fits < _NARROW / len(columns) else " w"
    made: list[Html] = []
    for at, label in enumerate(rows):
        made.append(el("text", short(label), x=-8, y=at * _ROW + 19, class_="y"))
    for (row, column), (mark, words) in sorted(marks.items()):
        kind = _kind(mark, low, high)
        x, y = column * width, row * _ROW
        tip = el("title", f"{rows[row]}, {columns[column]}: {words or 'no value'}")
        made.append(el(
            "rect", tip, x=percent(x), y=y + 1, width=percent(width), height=_ROW - 2, class_=kind,
        ))  # fmt: skip
        if fits < _WIDE / len(columns):
            middle = percent(x + width / 2)
            made.append(el("text", words, x=middle, y=y + 19, class_=f"{kind}t{room}"))
    labels, below = _below([short(label) for label in columns], width, height)
    return svg(
        *made, *labels, name=name, title=title, description=description,
        height=height, left=margin(rows), bottom=below,
    )  # fmt: skip


def _below(labels: Sequence[str], width: float, height: int) -> tuple[list[Html], int]:
    """The names of columns, slanted where they are long, and the pixels that they take."""
    longest = max(map(breadth, labels))
    slanted = longest > _NARROW * width
    made = []
    for at, label in enumerate(labels):
        x = percent((at + 0.5) * width)
        if not slanted:
            made.append(el("text", label, x=x, y=height + 17, class_="x"))
            continue
        turned = el("text", label, x=4, y=8, class_="y", transform="rotate(-35)")
        made.append(el("svg", turned, x=x, y=height + 4, width=1, height=1, class_="o"))
    return made, round(longest * 0.58) + 22 if slanted else 24


def legend(marks: Mapping[tuple[int, int], tuple[Mark, str]], ends: tuple[str, str]) -> Html:
    """What the colours say."""
    low, high = span(marks)
    swatches = [
        el("span", class_=f"sw h{at}", aria_hidden="true") for at in range(STEPS)
    ]  # fmt: skip
    listed = [el("li", ends[0], " ", swatches, " ", ends[1], class_="ramp")]
    if any(_kind(mark, low, high) == "hu" for mark, _ in marks.values()):
        listed.append(el(
            "li", el("span", class_="sw hu", aria_hidden="true"), "the interval holds 0",
        ))  # fmt: skip
    return el("ul", listed, class_="key")


def span(marks: Mapping[tuple[int, int], tuple[Mark, str]]) -> tuple[float, float]:
    """The least and the largest value that is told from 0, or of all."""
    known = [mark.value for mark, _ in marks.values() if mark.value is not None]
    sure = [m.value for m, _ in marks.values() if m.value is not None and not _doubtful(m)]
    found = sure or known or [0.0]
    return min(found), max(found)


def _doubtful(mark: Mark) -> bool:
    """Whether noise may have made all of a value."""
    return mark.ends is not None and mark.ends[0] <= 0 <= mark.ends[1]


def _kind(mark: Mark, low: float, high: float) -> str:
    """The class of a cell: `h0` to `h6`, `hu` where it may be nothing, `hn` without a value."""
    if mark.value is None:
        return "hn"
    if _doubtful(mark):
        return "hu"
    part = (mark.value - low) / (high - low) if high > low else 1.0
    return f"h{min(max(math.floor(part * STEPS), 0), STEPS - 1)}"
