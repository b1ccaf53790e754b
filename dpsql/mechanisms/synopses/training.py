"""A public table of training rows: what it says of a question, in rows of the private table.

For the reusable holdout (Dwork, Feldman, Hardt, Pitassi, Reingold, Roth 2015): questions that were
chosen by the training rows may fit these better than the people whom both tables were drawn from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.kept.pack import pack, unpack
from dpsql.mechanisms.intervals.uncertain import Floats
from dpsql.query.linear import Workload

MOST = 1 << 20  # different rows that are kept
VERSION = 1

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """The different rows of a table, as codes, (cells, columns), and how often each is there."""

    names: tuple[str, ...]
    codes: Ints
    counts: Ints

    def __post_init__(self) -> None:
        if self.codes.shape != (len(self.counts), len(self.names)):
            raise ValueError("training rows have a code for each column, and a count")
        if not len(self.counts) or self.counts.min() < 1:
            raise ValueError("training rows are one or more")

    def answers(self, workload: Workload, total: float) -> list[Floats]:
        """What it says of each block, (groups, weights), if the private table has `total` rows.

        Columns that are mentioned and that it does not have are to make no difference.
        """
        codes = {name: np.zeros(len(self.counts), np.int64) for name in workload.domain.names}
        codes |= {name: self.codes[:, at] for at, name in enumerate(self.names)}
        scale = total / float(self.counts.sum())
        found = workload.matvec(codes, self.counts)
        return [block.astype(np.float64) * scale for block in found]

    def to_bytes(self) -> bytes:
        """As a ledger keeps it."""
        return pack(
            {
                "version": VERSION,
                "training": list(self.names),
                "codes": self.codes,
                "counts": self.counts,
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Training:
        """What `to_bytes` wrote. Raises ValueError for anything else."""
        found = unpack(data)
        try:
            if found["version"] != VERSION:
                raise ValueError("training rows of another version")
            return cls(tuple(found["training"]), found["codes"], found["counts"])
        except (KeyError, TypeError, AttributeError, IndexError):
            raise ValueError("no training rows") from None
