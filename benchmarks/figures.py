"""What a benchmark finds: one figure a line, beside another measured in the same run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """`ours` in `unit`, `beside` the same of what is named, `target` the most it should be."""

    what: str
    ours: float
    unit: str
    beside: float | None = None
    named: str = ""
    target: float | None = None

    def cells(self) -> tuple[str, ...]:
        """The figure as a line of the table."""
        compared = ratio = aim = ""
        if self.beside is not None:
            compared = f"{_shown(self.beside)} {self.named}"
            ratio = f"{self.ours / self.beside:.3g} x" if self.beside else ""
        if self.target is not None:
            met = "met" if self.ours <= self.target else "missed"
            aim = f"<= {_shown(self.target)} {met}"
        return self.what, f"{_shown(self.ours)} {self.unit}", compared, ratio, aim


@dataclass(frozen=True, slots=True)
class Note:
    """A line of words between the figures: a heading, or why something was not measured."""

    words: str


HEAD = ("figure", "ours", "beside", "ratio", "target")
WIDTHS = (64, 12, 24, 8, 14)


def printed(found: Iterable[Figure | Note]) -> Iterator[str]:
    """The lines of the table, each as soon as it is known."""
    yield _line(HEAD)
    yield "-" * (sum(WIDTHS) + 2 * (len(WIDTHS) - 1))
    for figure in found:
        yield figure.words if isinstance(figure, Note) else _line(figure.cells())


def _line(cells: tuple[str, ...]) -> str:
    padded = [
        text.ljust(size) if index in (0, 2, 4) else text.rjust(size)
        for index, (text, size) in enumerate(zip(cells, WIDTHS, strict=True))
    ]
    return "  ".join(padded).rstrip()


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
