"""A small database that was chosen, as a ledger keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Exponential, Gaussian

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """The codes of the rows of a database, (rows, columns), that was chosen of so `many`.

    `keys` are the queries that it was chosen for, as canonical ones (`query.canon`). `total` is the
    noisy number of rows of the table, `distance` the noisy largest error of a query on the
    database, in rows; `laws` are their noises. `scale` is that of the exponential mechanism over
    scores that are errors, in rows, times the rows of the database.
    """

    names: tuple[str, ...]
    codes: Ints
    keys: tuple[str, ...]
    many: int
    scale: Fraction
    total: int
    distance: int
    laws: tuple[Gaussian, Gaussian]

    def __post_init__(self) -> None:
        if self.codes.ndim != 2 or self.codes.shape[1] != len(self.names) or not len(self.codes):
            raise ValueError("a small database has a row or more, with a code for each column")
        if not self.many >= 1 or not self.keys:
            raise ValueError("a small database is chosen of one or more, for a query or more")
        Exponential(1, self.scale)

    def to_list(self) -> list[Any]:
        noises = [str(law.variance) for law in self.laws]
        numbers = np.array([self.many, self.total, self.distance], np.int64)
        return [list(self.names), self.codes, list(self.keys), numbers, str(self.scale), noises]

    @classmethod
    def from_list(cls, fields: Sequence[Any]) -> Chosen:
        names, codes, keys, numbers, scale, noises = fields
        many, total, distance = numbers.tolist()
        first, second = (Gaussian(1, Fraction(text)) for text in noises)
        return cls(
            tuple(names), codes, tuple(keys), many, Fraction(scale), total, distance,
            (first, second),
        )  # fmt: skip
