"""How an answer is drawn: by the shape of its columns, or as its script asks.

A chart has measures, which are columns of noisy numbers, over no more than two keys, the columns
that have no noise. All that decides about one is public and known before anything is charged.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from dpsql.release import Release, Row, Value
from dpsql.schema.sqltypes import numeric

Kind: TypeAlias = Literal["bar", "line", "heat"]
KINDS: tuple[Kind, ...] = get_args(Kind)
AUTO, NONE = "auto", "none"
NAMES = (*KINDS, NONE)

MOST_BARS = 40
MOST_POINTS = 1_000
MOST_SERIES = 5
MOST_CELLS = 800
MOST_SIDE = 50  # cells of a heat map in a row or a column
MOST_MEASURES = 4


@dataclass(frozen=True, slots=True)
class Chart:
    """A kind of chart, the columns of its keys, and those of its measures."""

    kind: Kind
    keys: tuple[int, ...]
    measures: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """What is known of an answer's columns: its measures, its keys, and the keys of its rows.

    `rows` are all rows that may come, each with its values in the columns `keys`; at most `most`
    of them will, where that is known. `totals` tells that some of them are totals of others.
    """

    columns: tuple[str, ...]
    keys: tuple[int, ...]
    measures: tuple[int, ...]
    rows: tuple[Row, ...]
    totals: bool = False
    most: int | None = None

    @property
    def size(self) -> int:
        """The most rows that there will be."""
        return len(self.rows) if self.most is None else min(len(self.rows), self.most)

    @classmethod
    def of(cls, release: Release) -> Shape:
        """The shape of an answer that is there."""
        numbers = [numeric(kind) for kind in release.types]
        noisy = release.noisy or (False,) * len(release.columns)
        keys = tuple(at for at, is_noisy in enumerate(noisy) if not is_noisy)
        measures = tuple(at for at, is_noisy in enumerate(noisy) if is_noisy and numbers[at])
        rows = tuple(tuple(row[at] for at in keys) for row in release.rows)
        return cls(release.columns, keys, measures, rows)


def chosen(shape: Shape) -> Chart | None:
    """The chart that suits an answer best; None where none does.

    A line for one ordered key, bars for another one, a heat map for two keys.
    """
    if len(shape.measures) > MOST_MEASURES or len(shape.rows) < 2:
        return None
    for kind in ("line", "bar") if len(shape.keys) == 1 else ("heat",) if shape.keys else ():
        if unsuited(shape, kind) is None:
            return Chart(kind, shape.keys, shape.measures)
    return None


def unsuited(shape: Shape, kind: Kind) -> tuple[str, str] | None:
    """Why an answer cannot be drawn so, and what would do; None where it can be."""
    if not shape.measures:
        return "there is no noisy number to draw", "-- chart: none, or a COUNT in the SELECT"
    if len(shape.measures) > MOST_MEASURES:
        return (
            f"{len(shape.measures)} columns of noisy numbers; at most {MOST_MEASURES} are drawn",
            "several statements: together they cost no more",
        )
    if shape.totals:
        return (
            "totals and their parts do not go into one chart",
            "-- chart: none, or GROUP BY without subtotals",
        )
    if shape.keys and len(set(shape.rows)) < len(shape.rows):
        return (
            f"several rows have the same {_named(shape, shape.keys)}",
            "-- chart: none, or all keys of GROUP BY in the SELECT",
        )
    return {"bar": _bar, "line": _line, "heat": _heat}[kind](shape)


def _bar(shape: Shape) -> tuple[str, str] | None:
    if not shape.keys:
        if shape.size == 1 and len(shape.measures) > 1:
            return None  # a bar a column
        return "no column says which bar is which", "GROUP BY a column, and the column in SELECT"
    if len(shape.keys) > 1:
        return _too_many(shape, "bars have one key")
    if shape.size > MOST_BARS:
        return (
            f"{shape.size:,} bars; at most {MOST_BARS} are drawn",
            "GROUP BY something coarser, or -- chart: line for an ordered key",
        )
    return None


def _line(shape: Shape) -> tuple[str, str] | None:
    if len(shape.keys) not in (1, 2):
        if shape.keys:
            return _too_many(shape, "a line has one key, and lines beside each other two")
        return "a line has an ordered key", "GROUP BY a number or a date"
    along = x_of(shape)
    if along is None:
        if len(shape.keys) == 1:
            named = _named(shape, shape.keys)
            return f"a line has an ordered key, and {named} is no number or date", "-- chart: bar"
        return (
            f"lines have one ordered key (numbers or dates), and there are at most {MOST_SERIES}",
            "-- chart: heat",
        )
    points = {row[along] for row in shape.rows if row[along] is not None}
    if len(points) < 2 or shape.size > MOST_POINTS:
        return (
            f"a line has 2 to {MOST_POINTS:,} points, not {min(len(points), shape.size):,}",
            "-- chart: none, or GROUP BY something coarser",
        )
    return None


def x_of(shape: Shape) -> int | None:
    """Which key, 0 or 1, a line runs along; None where there is no such key."""
    ordered = [_ordered([row[at] for row in shape.rows]) for at in range(len(shape.keys))]
    if len(shape.keys) == 1:
        return 0 if ordered[0] else None
    found = [
        at
        for at in (0, 1)
        if ordered[at] and len({row[1 - at] for row in shape.rows}) <= MOST_SERIES
    ]
    return found[0] if found else None


def _ordered(values: Sequence[Value]) -> bool:
    """Whether values are numbers, or dates, but for NULL."""
    kinds = {_order(value) for value in values if value is not None}
    return kinds in ({"number"}, {"time"})


def _order(value: Value) -> str:
    match value:
        case bool() | str() | datetime.time() | datetime.timedelta() | None:
            return ""
        case datetime.date():
            return "time"
        case _:
            return "number"


def _heat(shape: Shape) -> tuple[str, str] | None:
    if len(shape.keys) > 2:
        return _too_many(shape, "a heat map has two keys")
    if len(shape.keys) < 2:
        return "a heat map has two keys", "GROUP BY two columns, and both in SELECT; or bar, line"
    sides = [len({row[at] for row in shape.rows}) for at in (0, 1)]
    if max(sides) > MOST_SIDE or sides[0] * sides[1] > MOST_CELLS:
        return (
            f"a heat map of {sides[0]:,} by {sides[1]:,} cells; at most {MOST_SIDE} a side and"
            f" {MOST_CELLS:,} together are drawn",
            "GROUP BY something coarser",
        )
    return None


def _too_many(shape: Shape, rule: str) -> tuple[str, str]:
    return f"{rule}, not {len(shape.keys)}: {_named(shape, shape.keys)}", "-- chart: none"


def _named(shape: Shape, columns: Sequence[int]) -> str:
    return ", ".join(shape.columns[at] for at in columns)
