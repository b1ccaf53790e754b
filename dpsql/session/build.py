"""Puts a release together: values finished by DuckDB, intervals by the law of the noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.curator.sensitivity import Sensitivity
from dpsql.errors import UsageError
from dpsql.mechanisms.intervals.answers import Answers
from dpsql.mechanisms.intervals.estimate import estimate
from dpsql.mechanisms.intervals.noises import Alike, Noise
from dpsql.mechanisms.intervals.quantile import simultaneous
from dpsql.mechanisms.intervals.uncertain import Bools
from dpsql.mechanisms.reuse.found import Answered
from dpsql.query.compile import Compiled, unit_of
from dpsql.query.estimators import Spread
from dpsql.query.expr import Expr, Slot, walk
from dpsql.query.finish import Finished, Values, finish, planned
from dpsql.query.grid import Grid
from dpsql.release import Budget, Candidate, Cost, Plan, Release, Row
from dpsql.session.population import Population
from dpsql.session.settings import Settings
from dpsql.session.shown import Shown

Floats: TypeAlias = NDArray[np.float64]
Lines: TypeAlias = "tuple[tuple[float | None, ...], ...]"
Grids: TypeAlias = tuple[Lines, Lines, Lines]

_NUMBERS = (int, float, Decimal)
_SMALLEST = 1e-10  # what may fail of one interval, before it is shared with that of a mean


@dataclass(frozen=True, slots=True)
class Paid:
    """How an answer was come by: backend, prices, what is left, whether from earlier releases."""

    backend: str
    price: Cost
    charged: Cost
    left: Budget
    reused: bool = False
    notes: tuple[str, ...] = ()


def build(
    compiled: Compiled,
    grid: Grid,
    answered: Answered,
    settings: Settings,
    paid: Paid,
    shown: Shown | None = None,
    drawn: Population | None = None,
) -> Release:
    """The release of a statement that was answered; with `drawn` its intervals are about that.

    Where other values are `shown`, errors and intervals are those of the noisy answers, cut to what
    a table can give and reaching to what is shown: so they cover as often, or oftener.
    """
    level, notes = _level(compiled, settings.confidence)
    notes += paid.notes
    instead = (None,) * len(compiled.selects) if shown is None else shown.answers
    released = [
        estimate(select, noisy, noise, factors, level, clamp=settings.clamp, shown=other)
        for select, noisy, noise, factors, other in zip(
            compiled.selects, answered.answers, answered.noises, compiled.factors, instead,
            strict=True,
        )
    ]  # fmt: skip
    done = finish(compiled, grid, released)
    answers = _answers(
        compiled,
        answered.answers,
        answered.noises,
        clamp=settings.clamp or shown is not None,
        most=None if shown is None else shown.total,
    )
    if drawn is not None:
        notes += (drawn.note(answered.noises, level),)

    def interval(at: int, expr: Expr) -> tuple[Floats, Floats, Floats, Bools | None] | None:
        if drawn is None:
            return answers[at].intervals(expr, level)
        return drawn.intervals(at, answers[at], answered.noises[at], expr, level)

    columns = [_column(compiled, interval, at) for at in range(len(compiled.names))]
    rows, (stderr, low, high), withheld = _errors(done, columns)
    if _sunk(compiled, released):
        notes += ("a variance that noise made negative is shown as 0",)
    if shown is not None:
        notes += shown.notes
    if shown is not None or not all(isinstance(noise, Alike) for noise in answered.noises):
        # around the estimates, whose rounding may be wider than they are
        low, high = _reaching(rows, low, min), _reaching(rows, high, max)
    if withheld:
        notes.append(
            f"{withheld} ratio{'s are' if withheld > 1 else ' is'} NULL: too few rows stand below "
            "to tell the denominator from 0 at this noise"
        )
    if settings.clamp and shown is None:
        notes.append("negative counts are shown as 0 (clamp = on), which biases them")
    return Release(
        compiled.names,
        compiled.types,
        rows,
        stderr,
        low,
        high,
        confidence=settings.confidence,
        backend=paid.backend,
        price=paid.price,
        charged=paid.charged,
        left=paid.left,
        reused=paid.reused,
        notes=tuple(notes),
        dataset=compiled.bound.dataset.name,
        noisy=tuple(column is not None for column in columns),
        intervals=settings.intervals,
    )


def _sunk(compiled: Compiled, released: Sequence[Sequence[Values]]) -> bool:
    """Whether a variance, or its root, came to nothing."""
    return any(
        isinstance(estimator, Spread)
        and bool(np.any((values.values == 0) & ~(False if values.null is None else values.null)))
        for select, found in zip(compiled.selects, released, strict=True)
        for estimator, values in zip(select.estimators, found, strict=True)
    )


@dataclass(frozen=True, slots=True)
class Head:
    """What a plan says first: as `Paid`, before anything is paid, with or without a purse."""

    backend: str
    price: Cost
    charged: Cost | None
    left: Budget | None
    notes: tuple[str, ...] = ()
    after: Budget | None = None


def build_plan(
    compiled: Compiled,
    grid: Grid,
    noises: Sequence[Noise],
    candidates: tuple[Candidate, ...],
    moved: Sensitivity,
    settings: Settings,
    head: Head,
    drawn: Population | None = None,
) -> Plan:
    """The plan of a statement that was not measured: keys, predicted errors, candidates."""
    level, notes = _level(compiled, settings.confidence)
    notes += head.notes
    if drawn is not None:
        notes.append(drawn.note(noises, level))
    done = planned(compiled, grid)
    scale, unit = unit_of(compiled)
    stderr = _predicted(compiled, done, noises)
    return Plan(
        compiled.names,
        compiled.types,
        done.rows,
        stderr,
        backend=head.backend,
        price=head.price,
        candidates=candidates,
        sensitivity=float(scale) * math.sqrt(moved.squared),
        sensitivity_exact=moved.exact,
        cells=compiled.workload.domain.cells,
        queries=compiled.workload.size,
        left=head.left,
        notes=tuple(notes),
        dataset=compiled.bound.dataset.name,
        charged=head.charged,
        unit=unit,
        after=head.after,
    )


def require_bound(
    drawn: Population | None, compiled: Compiled, noises: Sequence[Noise], confidence: float
) -> None:
    """Raise UsageError where intervals about the population would say nothing."""
    if drawn is not None:
        drawn.require(noises, _level(compiled, confidence)[0])


def require_level(compiled: Compiled, confidence: float) -> None:
    """Raise UsageError where the intervals' share of what may fail is beyond what is computed.

    It is shared by the rows that are picked from, and by the aggregates that an output is made of.
    """
    rows = compiled.rows if _picked(compiled) else 1
    exprs = [expr for select in compiled.bound.selects for expr, _ in select.items]
    parts = max(sum(isinstance(p, Slot) and p.name[0] == "a" for p in walk(e)) for e in exprs)
    if not (1.0 - confidence) / (max(rows, 1) * max(parts, 1)) >= _SMALLEST:
        among = f" for all of {rows:,} rows together" if rows > 1 else ""
        raise UsageError(
            f"confidence {confidence!r}{among} is closer to 1 than intervals are computed: "
            "SET confidence to less"
        )


def widest(compiled: Compiled, confidence: float) -> Callable[[Sequence[Noise]], float]:
    """The largest half-width of all intervals under a noise of each SELECT, in the outputs' units.

    Raises UsageError where one cannot be told before: a ratio's depends on the answers.
    """
    level, _ = _level(compiled, confidence)

    def found(noises: Sequence[Noise]) -> float:
        widths = [0.0]
        nothing = _zeros(compiled, noises)
        made = _answers(compiled, nothing, noises, clamp=False)
        for select, answers in zip(compiled.selects, made, strict=True):
            for (expr, _), name in zip(select.bound.items, compiled.names, strict=True):
                width = answers.half_width(expr, level)
                if width is None:
                    raise UsageError(
                        f"the interval of {name} depends on the answer, so no accuracy can be asked"
                        " for: give a price (epsilon), or ask for its counts and sums"
                    )
                widths.append(width)
        return max(widths)

    return found


def _picked(compiled: Compiled) -> bool:
    """Whether rows are picked by what their noise made of them."""
    bound = compiled.bound
    return (
        bound.limit is not None
        or bound.offset is not None
        or any(select.having is not None for select in bound.selects)
    )


def _level(compiled: Compiled, confidence: float) -> tuple[float, list[str]]:
    """The level of each interval: higher where rows are picked."""
    if not _picked(compiled) or compiled.rows < 2:
        return confidence, []
    note = (
        f"rows were picked by their noisy values, so intervals hold for all {compiled.rows:,} "
        "candidate rows of a column together"
    )
    return simultaneous(confidence, compiled.rows), [note]


@dataclass(frozen=True, slots=True)
class _Column:
    """Of one output, a group each: standard errors, ends, and where it says nothing, if it does."""

    stderr: Floats
    low: Floats
    high: Floats
    doubtful: NDArray[np.bool_] | None


def _errors(
    done: Finished, columns: Sequence[_Column | None]
) -> tuple[tuple[Row, ...], Grids, int]:
    """Rows with doubtful ratios withheld, the errors and ends of every cell, how many withheld."""
    order = np.array(done.sources, np.int64)
    rows = list(done.rows)
    nothing = [None] * len(rows)
    grids: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    withheld = 0
    for column, found in enumerate(columns):
        if found is None:
            for grid in grids:
                grid.append(nothing)
            continue
        if found.doubtful is not None:
            for at in found.doubtful[order].nonzero()[0].tolist():
                rows[at] = (*rows[at][:column], None, *rows[at][column + 1 :])
                withheld += 1
        errors = zip(rows, found.stderr[order].tolist(), strict=True)
        grids[0].append(
            [e if math.isfinite(e) and row[column] is not None else None for row, e in errors]
        )
        for grid, ends in ((grids[1], found.low), (grids[2], found.high)):  # -0.0 is told as 0.0
            grid.append([None if math.isnan(end) else end + 0.0 for end in ends[order].tolist()])
    lines = [tuple(zip(*grid, strict=True)) for grid in grids]
    return tuple(rows), (lines[0], lines[1], lines[2]), withheld


def _reaching(rows: Sequence[Row], ends: Lines, farther: Callable[..., float]) -> Lines:
    """The ends of intervals, moved out to what is shown where that is a number beyond them."""
    found: list[tuple[float | None, ...]] = []
    for line, row in zip(ends, rows, strict=True):
        pairs = zip(line, row, strict=True)
        moved = [
            e if e is None or not isinstance(v, _NUMBERS) else farther(e, float(v))
            for e, v in pairs
        ]
        found.append(tuple(moved))
    return tuple(found)


def _column(
    compiled: Compiled,
    interval: Callable[[int, Expr], tuple[Floats, Floats, Floats, Bools | None] | None],
    column: int,
) -> _Column | None:
    """The errors of one output in every group of every SELECT; None where it has none."""
    parts = [
        interval(at, select.bound.items[column][0]) for at, select in enumerate(compiled.selects)
    ]
    if len(parts) == 1:
        return None if parts[0] is None else _Column(*parts[0])
    if not any(parts):
        return None
    found = []
    for select, part in zip(compiled.selects, parts, strict=True):
        empty = np.full(select.groups.size, np.nan)
        stderr, low, high, doubtful = part or (empty, empty, empty, None)
        nowhere = np.zeros(select.groups.size, bool)
        found.append((stderr, low, high, nowhere if doubtful is None else doubtful))
    stderr, low, high, doubtful = (np.concatenate(pieces) for pieces in zip(*found, strict=True))
    return _Column(stderr, low, high, doubtful)


def _answers(
    compiled: Compiled,
    noisy: Sequence[NDArray[Any]],
    noises: Sequence[Noise],
    *,
    clamp: bool,
    most: int | None = None,
) -> list[Answers]:
    """The answers of each SELECT, ready for its outputs."""
    return [
        Answers(some, noise, select.estimators, factors, clamp, most)
        for select, some, noise, factors in zip(
            compiled.selects, noisy, noises, compiled.factors, strict=True
        )
    ]


def _zeros(compiled: Compiled, noises: Sequence[Noise]) -> list[NDArray[Any]]:
    """Answers of each SELECT, all 0; of one group where all are alike."""
    return [
        np.zeros((1 if isinstance(n, Alike) else b.groups, len(b.weights)), np.int64)
        for b, n in zip(compiled.workload.blocks, noises, strict=True)
    ]


def _predicted(compiled: Compiled, done: Finished, noises: Sequence[Noise]) -> Lines:
    """Standard errors that can be told before measuring: those of linear outputs."""
    nothing = _zeros(compiled, noises)
    lines: list[tuple[float | None, ...]] = []
    for select, answers in zip(
        compiled.selects, _answers(compiled, nothing, noises, clamp=False), strict=True
    ):
        size = select.groups.size
        columns: list[list[float | None]] = []
        for expr, _ in select.bound.items:
            found = answers.predicted(expr)
            if isinstance(found, np.ndarray):
                columns.append(found.tolist())
            else:
                columns.append([found] * size)
        lines.extend(zip(*columns, strict=True))
    return tuple(lines[source] for source in done.sources)
