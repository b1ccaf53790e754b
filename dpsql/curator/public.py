"""Counts of a table that its owner declares to be public: nothing of them is a secret."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpsql.curator.engines.protocol import Engine
from dpsql.curator.sealed import unseal
from dpsql.errors import UsageError

Ints = NDArray[np.int64]


def rows_of(engine: Engine, columns: Sequence[str]) -> tuple[Ints, Ints]:
    """The codes of the non-empty cells of some columns, (cells, columns), and the rows in each.

    Raises UsageError for a dataset that is not declared public, SourceError as counting does.
    """
    if not engine.dataset.public:
        raise UsageError(f"{engine.dataset.name} is not declared public")
    cells = unseal(engine.counts(tuple(columns)))
    return np.stack([cells.codes[name] for name in columns], axis=1), cells.counts
