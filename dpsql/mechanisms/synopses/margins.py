"""Margins of functions of tables, handed on to the tables of fewer columns.

The potential of a centred table is a function of its columns that has no margins. A sum of such
functions stays what it is where one gets margins, and the functions of fewer columns give them up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from dpsql.mechanisms.synopses.junction import Floats, Names
from dpsql.mechanisms.synopses.noisy import NoisyTable

_T = TypeVar("_T")


class _Step(NamedTuple):
    """The mean of a table along an axis goes to another; nowhere where there is none."""

    table: int
    axis: int
    to: int | None


class Margins:
    """What is handed on between some tables, as steps from those of many columns to those of few.

    Both functions change the arrays that they are given, one for each table.
    """

    def __init__(self, tables: Sequence[NoisyTable]) -> None:
        whole: dict[Names, int] = {}
        for at, table in enumerate(tables):
            if table.seen is None:
                whole.setdefault(table.names, at)
        self._steps = []
        for at, table in sorted(enumerate(tables), key=lambda each: -len(each[1].names)):
            for axis in range(len(table.names) if table.centred else 0):
                to = whole.get(_without(table.names, axis))
                same = to is not None and all(
                    map(np.array_equal, _without(table.classes, axis), tables[to].classes)
                )
                self._steps.append(_Step(at, axis, to if same else None))

    def handed(self, functions: Sequence[Floats]) -> None:
        """Leave each centred that is to be so, and their sum as it is but for a constant."""
        for at, axis, to in self._steps:
            table = functions[at]
            mean = table.sum(axis=axis, keepdims=True)
            mean /= table.shape[axis]
            table -= mean
            if to is not None:
                functions[to] += mean.reshape(functions[to].shape)

    def adjoint(self, functions: Sequence[Floats]) -> None:
        """The adjoint of `handed`: gradients by functions that may have margins."""
        for at, axis, to in reversed(self._steps):
            table = functions[at]
            mean = table.sum(axis=axis, keepdims=True)
            if to is not None:
                mean -= functions[to].reshape(mean.shape)
            mean /= table.shape[axis]
            table -= mean


def _without(of: tuple[_T, ...], axis: int) -> tuple[_T, ...]:
    return of[:axis] + of[axis + 1 :]
