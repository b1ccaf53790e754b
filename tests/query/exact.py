"""The answer of a statement without noise: compiled, applied to given counts, finished."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Gaussian
from dpsql.mechanisms.intervals.estimate import estimate
from dpsql.query.bind import Bound, Probe, bind
from dpsql.query.compile import Compiled, compile_bound
from dpsql.query.finish import finish
from dpsql.query.grid import Grid
from dpsql.query.parse import Ask, parse
from dpsql.schema import Dataset

Cells = tuple[Mapping[str, NDArray[np.int64]], NDArray[np.int64]]
Counts = Callable[[tuple[str, ...]], Cells]

_NO_NOISE = Gaussian(1, Fraction(1, 10**12))


@dataclass(frozen=True)
class Answer:
    """Rows without noise, with the statement that they answer."""

    compiled: Compiled
    rows: list[tuple[Any, ...]]


def compiled(
    sql: str, dataset: Dataset, grid: Grid, params: Sequence[Any] = ()
) -> Compiled | Probe:
    """A SELECT over one dataset, compiled."""
    from dpsql.session.params import literals

    statement = parse(sql)
    assert isinstance(statement, Ask)
    values, _ = literals(params)
    bound = bind(statement, {dataset.name: dataset}, values)
    if isinstance(bound, Bound):
        return compile_bound(bound, grid, params)
    return bound


def answer(
    sql: str, dataset: Dataset, grid: Grid, counts: Counts, params: Sequence[Any] = ()
) -> Answer:
    """The answer of a SELECT over one dataset."""
    found = compiled(sql, dataset, grid, params)
    assert isinstance(found, Compiled), "a probe counts nothing"
    codes, rows = counts(found.workload.domain.names)
    answers = found.workload.matvec(codes, rows)
    released = [
        estimate(select, noisy, _NO_NOISE, factors, 0.95, clamp=False)
        for select, noisy, factors in zip(found.selects, answers, found.factors, strict=True)
    ]
    return Answer(found, list(finish(found, grid, released).rows))


def counted(dataset: Dataset, rows: Iterable[Sequence[Any]]) -> Counts:
    """The counts of rows whose values lie in the dataset's domain."""
    columns = {column.name: column for column in dataset.columns}
    places = {name: place for place, name in enumerate(columns)}
    kept = [tuple(row) for row in rows]

    def counts(names: tuple[str, ...]) -> Cells:
        found: Counter[tuple[int, ...]] = Counter()
        for row in kept:
            codes = []
            for name in names:
                value, column = row[places[name]], columns[name]
                code = column.size if value is None else column.code(value)
                assert code is not None, (name, value)
                codes.append(code)
            found[tuple(codes)] += 1
        listed = list(found)
        arrays = {
            name: np.array([codes[at] for codes in listed], np.int64)
            for at, name in enumerate(names)
        }
        return arrays, np.array([found[codes] for codes in listed], np.int64)

    return counts
