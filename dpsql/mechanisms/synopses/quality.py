"""How near synthetic rows are to what was released; the data is not looked at again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.synopses.ascent import centred
from dpsql.mechanisms.synopses.junction import Floats, Names
from dpsql.mechanisms.synopses.noisy import NoisyTable


@dataclass(frozen=True, slots=True)
class Quality:
    """Of a released table: its noise's standard error, and the mean and largest distance of the
    rows' counts from its values, in rows; `ratio` is the root mean square of the distance, divided
    by the standard error: about 1 where the rows are as near as the truth is.
    """

    names: Names
    cells: int
    stderr: float
    mean: float
    largest: float
    ratio: float


def quality(
    codes: Mapping[str, NDArray[np.int64]], total: float, tables: Sequence[NoisyTable]
) -> tuple[Quality, ...]:
    """The quality of rows, given by the codes of each column, that stand for `total` rows."""
    return tuple(_quality(codes, total, table) for table in tables)


def _quality(codes: Mapping[str, NDArray[np.int64]], total: float, table: NoisyTable) -> Quality:
    many = len(next(iter(codes.values())))
    at = np.zeros(many, np.int64)
    for name, classes, size in zip(table.names, table.classes, table.values.shape, strict=True):
        at = at * size + classes[codes[name]]
    scale = total / many if many else 0.0
    found: Floats = np.bincount(at, minlength=table.values.size).astype(np.float64)
    counts: Floats = (scale * found).reshape(table.values.shape)
    away = (centred(counts) if table.centred else counts) - table.values
    away = np.abs(away if table.seen is None else away[table.seen])
    stderr = math.sqrt(table.spread)
    ratio = math.sqrt(float((away**2).mean())) / stderr
    return Quality(table.names, away.size, stderr, float(away.mean()), float(away.max()), ratio)
