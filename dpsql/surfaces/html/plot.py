"""The frame of a chart: an SVG whose picture grows with the page, and whose letters do not.

Places along the page are parts of its width, in percent, and places down it are pixels; labels
stand in the padding, which is outside of what percent count.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from unicodedata import east_asian_width

from dpsql.surfaces.html.markup import Html, el
from dpsql.surfaces.html.scale import Scale

LONGEST = 132  # pixels of a label
_NARROW, _BROAD = frozenset("iljtfrI.,:;'|!()[]/ "), frozenset("mwMW%@—…")


@dataclass(frozen=True, slots=True)
class Mark:
    """A value and its interval, None or infinite where there is none."""

    value: float | None
    low: float | None = None
    high: float | None = None

    @property
    def ends(self) -> tuple[float, float] | None:
        """The interval, if it has one."""
        if self.value is None or self.low is None or self.high is None:
            return None
        return self.low, self.high


def extent(marks: Sequence[Mark], *, zero: bool) -> tuple[float, float]:
    """The range that holds values and intervals, and 0 if asked.

    An interval that is much wider than all values does not make them small: it is cut.
    """
    values = [mark.value for mark in marks if mark.value is not None] + [0.0] * zero
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    room = 1.5 * (high - low) or abs(high) or 1.0
    ends = [mark.ends for mark in marks if mark.ends is not None]
    lows = [end for end, _ in ends if math.isfinite(end)]
    highs = [end for _, end in ends if math.isfinite(end)]
    return max(min([low, *lows]), low - room), min(max([high, *highs]), high + room)  # inf is cut


def percent(part: float) -> str:
    """A part of the width."""
    return f"{100 * part:.2f}".rstrip("0").rstrip(".") + "%"


def breadth(label: str) -> float:
    """Pixels that a label takes in a broad typeface, about."""
    return sum(map(_pixels, label))


def _pixels(sign: str) -> float:
    if east_asian_width(sign) in "WF":
        return 12.5
    if sign in _NARROW:
        return 4.6
    if sign in _BROAD:
        return 12.0
    return 8.8 if sign.isupper() else 7.7


def short(label: str, room: float = LONGEST) -> str:
    """A label, or the beginning of one that is broader than `room` pixels."""
    if breadth(label) <= room:
        return label
    room -= _pixels("…")
    ends = itertools.accumulate(map(_pixels, label))
    return label[: sum(end <= room for end in ends)].rstrip() + "…"


def margin(labels: Sequence[str]) -> int:
    """Pixels that labels at the left take."""
    return round(max((breadth(short(label)) for label in labels), default=0)) + 10


def svg(
    *content: Html, name: str, title: str, description: str, height: int,
    left: int, bottom: int, top: int = 6, right: int = 18,
) -> Html:  # fmt: skip
    """A picture of `height` pixels with labels around it, named for who does not see it."""
    padding = f"padding:{top}px {right}px {bottom}px {left}px"
    return el(
        "svg",
        el("title", title, id=f"{name}-t"),
        el("desc", description, id=f"{name}-d"),
        *content,
        class_="plot",
        role="img",
        aria_labelledby=f"{name}-t",
        aria_describedby=f"{name}-d",
        height=top + height + bottom,
        style=padding,
    )


def columns(scale: Scale, height: int) -> list[Html]:
    """Lines down the picture at each mark of a scale along it, and what is written below."""
    made = []
    for at, (mark, words) in enumerate(scale.ticks):
        x = percent(scale.part(mark))
        made.append(el("line", x1=x, x2=x, y1=0, y2=height, class_="z" if mark == 0 else "g"))
        kind = "x w" if at % 2 and len(scale.ticks) > 4 else "x"  # w: where there is room
        made.append(el("text", words, x=x, y=height + 17, class_=kind))
    return made


def rows(scale: Scale, height: int) -> list[Html]:
    """Lines along the picture at each mark of a scale that goes up, and what is written beside."""
    made = []
    for mark, words in scale.ticks:
        y = height * (1.0 - scale.part(mark))
        made.append(el("line", x1=0, x2="100%", y1=y, y2=y, class_="z" if mark == 0 else "g"))
        made.append(el("text", words, x=-8, y=y + 4, class_="y"))
    return made
