"""Packs the codes of several columns into few integers, which databases group faster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dpsql.curator.cells import Cells
from dpsql.curator.engines.layout import code
from dpsql.curator.sealed import Sealed, unseal
from dpsql.schema import Column, Dataset

_LIMIT: Final = 2**62  # a word stays below this


@dataclass(frozen=True, slots=True)
class Packing:
    """Some columns of a dataset; each has a word and a place value in it."""

    columns: tuple[Column, ...]
    numbers: tuple[int, ...]
    words: tuple[int, ...]
    values: tuple[int, ...]

    def sql(self, relation: str) -> str:
        """A statement that counts the rows of each combination of codes: words w<i>, and n."""
        if not self.columns:
            return f"SELECT count(*) AS n FROM {relation}"
        terms: dict[int, list[str]] = {}
        for number, word, value in zip(self.numbers, self.words, self.values, strict=True):
            terms.setdefault(word, []).append(f"CAST({code(number)} AS BIGINT) * {value}")
        words = ", ".join(f"{' + '.join(parts)} AS w{word}" for word, parts in terms.items())
        names = ", ".join(f"w{word}" for word in terms)
        packed = f"(SELECT {words} FROM {relation})"
        return f"SELECT {names}, count(*) AS n FROM {packed} GROUP BY {names}"

    def cells(self, fetched: Sealed[dict[str, NDArray[Any]]]) -> Sealed[Cells]:
        """The cells that the rows of that statement are."""
        arrays = unseal(fetched)
        codes: dict[str, NDArray[np.int64]] = {
            column.name: arrays[f"w{word}"] // value % column.cells
            for column, word, value in zip(self.columns, self.words, self.values, strict=True)
        }
        return Sealed(Cells(codes, arrays["n"]))


def packing(dataset: Dataset, names: Sequence[str]) -> Packing:
    """How to pack these columns. Raises KeyError for a name that is not declared."""
    columns = tuple(dict.fromkeys(dataset.column(name) for name in names))
    numbers = tuple(dataset.columns.index(column) for column in columns)
    words, values = [], []
    word, value = 0, 1
    for column in columns:
        if value * column.cells > _LIMIT:
            word, value = word + 1, 1
        words.append(word)
        values.append(value)
        value *= column.cells
    return Packing(columns, numbers, tuple(words), tuple(values))
