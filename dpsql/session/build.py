"""Puts a release together: values finished by DuckDB, intervals by the law of the noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Event
from dpsql.curator.curator import Measurement
from dpsql.curator.sensitivity import Sensitivity
from dpsql.mechanisms.estimate import estimate
from dpsql.mechanisms.quantile import simultaneous
from dpsql.mechanisms.uncertain import Answers
from dpsql.planner import Choice, Terms
from dpsql.query.compile import Compiled
from dpsql.query.finish import Finished, finish, planned
from dpsql.query.grid import Grid
from dpsql.release import Budget, Candidate, Cost, Plan, Release
from dpsql.session import tell
from dpsql.session.settings import Settings

Cells = list[list[float | None]]


def build(
    compiled: Compiled,
    grid: Grid,
    measured: Measurement,
    choice: Choice,
    settings: Settings,
    terms: Terms,
) -> Release:
    """The release of a measured statement."""
    level, notes = _level(compiled, settings.confidence)
    released = [
        estimate(select, noisy, measured.event, factors, level, clamp=settings.clamp)
        for select, noisy, factors in zip(
            compiled.selects, measured.answers, compiled.factors, strict=True
        )
    ]
    done = finish(compiled, grid, released)
    columns = _columns(
        compiled, done, measured.answers, measured.event, level, clamp=settings.clamp
    )
    rows, stderr, low, high, withheld = _errors(done, columns, len(compiled.names))
    if withheld:
        notes.append(
            f"{withheld} ratio{'s are' if withheld > 1 else ' is'} NULL: too few rows stand below "
            "to tell the denominator from 0 at this noise"
        )
    if settings.clamp:
        notes.append("negative counts are shown as 0 (clamp = on), which biases them")
    return Release(
        compiled.names,
        compiled.types,
        rows,
        stderr,
        low,
        high,
        confidence=settings.confidence,
        backend=choice.backend,
        price=choice.price,
        charged=tell.price(measured.receipt.charged, terms),
        left=tell.budget(measured.receipt.after),
        notes=tuple(notes),
        dataset=compiled.bound.dataset.name,
        noisy=tuple(column in columns for column in range(len(compiled.names))),
        intervals=settings.intervals,
    )


def build_plan(
    compiled: Compiled,
    grid: Grid,
    choice: Choice,
    candidates: tuple[Candidate, ...],
    moved: Sensitivity,
    settings: Settings,
    left: Budget | None,
    charged: Cost | None,
) -> Plan:
    """The plan of a statement that was not measured: keys, predicted errors, candidates."""
    _, notes = _level(compiled, settings.confidence)
    done = planned(compiled, grid)
    nothing = tuple(
        np.zeros((select.groups.size, len(block.weights)), np.int64)
        for select, block in zip(compiled.selects, compiled.workload.blocks, strict=True)
    )
    stderr = _predicted(compiled, done, nothing, choice.event)
    return Plan(
        compiled.names,
        compiled.types,
        done.rows,
        stderr,
        backend=choice.backend,
        price=choice.price,
        candidates=candidates,
        sensitivity=math.sqrt(moved.squared),
        sensitivity_exact=moved.exact,
        cells=compiled.workload.domain.cells,
        queries=compiled.workload.size,
        left=left,
        notes=tuple(notes),
        dataset=compiled.bound.dataset.name,
        charged=charged,
    )


def _level(compiled: Compiled, confidence: float) -> tuple[float, list[str]]:
    """The level of each interval: higher where rows are picked by what their noise made of them."""
    bound = compiled.bound
    picked = (
        bound.limit is not None
        or bound.offset is not None
        or any(select.having is not None for select in bound.selects)
    )
    if not picked or compiled.rows < 2:
        return confidence, []
    note = (
        f"rows were picked by their noisy values, so intervals hold for all {compiled.rows:,} "
        "candidate rows of a column together"
    )
    return simultaneous(confidence, compiled.rows), [note]


def _errors(
    done: Finished, columns: dict[int, tuple[Any, Any, Any, Any]], width: int
) -> tuple[Any, Any, Any, Any, int]:
    """Rows with doubtful ratios withheld, and the errors and intervals of every cell."""
    rows = [list(row) for row in done.rows]
    grids: list[Cells] = [[[None] * width for _ in rows] for _ in range(3)]
    withheld = 0
    for column, (errors, low, high, doubtful) in columns.items():
        for at, row in enumerate(rows):
            unsure = doubtful is not None and bool(doubtful[at])
            if unsure:
                withheld += 1
                row[column] = None
            grids[0][at][column] = None if unsure or row[column] is None else _finite(errors[at])
            grids[1][at][column] = _end(low[at])
            grids[2][at][column] = _end(high[at])
    frozen = [tuple(tuple(line) for line in grid) for grid in grids]
    return tuple(tuple(row) for row in rows), frozen[0], frozen[1], frozen[2], withheld


def _columns(
    compiled: Compiled,
    done: Finished,
    answers: Sequence[NDArray[np.int64]],
    law: Event,
    level: float,
    *,
    clamp: bool,
) -> dict[int, tuple[Any, Any, Any, Any]]:
    """For each output with an error: standard error, low, high and doubt, in the rows' order."""
    order = np.array(done.sources, np.int64)
    found: dict[int, tuple[Any, Any, Any, Any]] = {}
    for column in range(len(compiled.names)):
        parts: list[Any] = []
        for select, noisy, factors in zip(compiled.selects, answers, compiled.factors, strict=True):
            uncertain = Answers(noisy, law, select.estimators, factors, clamp)
            parts.append(uncertain.intervals(select.bound.items[column][0], level))
        if all(part is None for part in parts):
            continue
        sizes = [select.groups.size for select in compiled.selects]
        joined: list[Any] = []
        for which in range(4):
            pieces = [
                np.full(size, np.nan) if part is None
                else np.zeros(size, bool) if part[which] is None
                else part[which]
                for part, size in zip(parts, sizes, strict=True)
            ]  # fmt: skip
            joined.append(np.concatenate(pieces)[order])
        doubt = joined[3] if any(p is not None and p[3] is not None for p in parts) else None
        found[column] = (joined[0], joined[1], joined[2], doubt)
    return found


def _predicted(
    compiled: Compiled, done: Finished, nothing: Sequence[NDArray[np.int64]], law: Event
) -> tuple[tuple[float | None, ...], ...]:
    """Standard errors that can be told before measuring: those of linear outputs."""
    width = len(compiled.names)
    columns: list[list[float | None]] = []
    for select, answers, factors in zip(compiled.selects, nothing, compiled.factors, strict=True):
        uncertain = Answers(answers, law, select.estimators, factors, False)
        line: list[float | None] = []
        for expr, _ in select.bound.items:
            value = uncertain.of(expr)
            known = value is not None and value.linear is not None and value.gradient
            found = uncertain.intervals(expr, 0.95) if known else None
            line.append(float(found[0][0]) if found is not None and len(found[0]) else None)
        columns.extend([line] * select.groups.size)
    return tuple(tuple(columns[source][:width]) for source in done.sources)


def _finite(value: Any) -> float | None:
    found = float(value)
    return found if math.isfinite(found) else None


def _end(value: Any) -> float | None:
    """An end of an interval; None for the NaN of a cell that has none."""
    found = float(value)
    return None if math.isnan(found) else found
