"""Gates: whether a sum reaches a threshold, with noise; booleans come out, and nothing else.

AboveThreshold, and Sparse, which is several of it in a row (Dwork, Roth 2014, Alg. 1 and 2; the
proof is in `accounting.events`). A gate is bought before its threshold's noise is drawn, and closes
for good with its last "above". One gate lives in one process: were it continued in two, by a fork
or a copy, more could come out under one noisy threshold than was paid for.

NumericSparse is a gate, and `Curator.measure` of what it found: fresh noise, at a price of its own.
The noisy number that a gate compared never comes out: it would tell the threshold's noise.

With exponential noise no noise is negative. So every sum that is told to be below is below
T + Z, all of them at once, whatever was asked and how often (`mechanisms.sparse`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, Never, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import AboveThreshold, Selection
from dpsql.accounting.ledger import Receipt
from dpsql.curator import noise as samplers
from dpsql.curator.quiet import quiet
from dpsql.curator.quote import moved
from dpsql.curator.sealed import Sealed, unseal
from dpsql.errors import UsageError
from dpsql.query.linear import Workload
from dpsql.schema import Dataset, Neighbours

Answers: TypeAlias = "Sealed[Sequence[NDArray[Any]]]"

_process = object()  # another one in every forked child, whatever its number


def _reborn() -> None:
    global _process
    _process = object()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reborn)


def process() -> tuple[int, object]:
    """What tells this process from all others, its own forks included."""
    return os.getpid(), _process


@final
class Gate:
    """Open until its last "above"; `Curator.gate` sells it.

    `receipt` is that of its price, `snapshot` the state of the data that it is about.
    """

    __slots__ = (
        "_answers", "_dataset", "_left", "_listed", "_lock", "_owner", "_threshold",
        "event", "receipt", "snapshot",
    )  # fmt: skip

    def __init__(
        self,
        event: AboveThreshold,
        receipt: Receipt,
        snapshot: str,
        dataset: Dataset,
        answers: Callable[[Workload], Answers],
        listed: Workload | None,
    ) -> None:
        self.event, self.receipt, self.snapshot = event, receipt, snapshot
        self._dataset, self._answers, self._listed = dataset, answers, listed
        self._owner = process()
        self._lock = threading.Lock()
        self._left = event.runs * event.positives
        self._threshold = self._drawn()

    @property
    def closed(self) -> bool:
        """Whether nothing more may be asked."""
        return self._left == 0 or self._owner != process()

    def exceeds(self, query: Workload, threshold: int, guess: int | None = None) -> bool:
        """Whether the answer of one query, or its distance from a `guess`, reaches `threshold`.

        Raises UsageError for a gate that is closed or that belongs to another process, and for a
        query that the gate was not bought for: nothing is drawn then. Raises SourceError or
        InternalError when counting fails.
        """
        if query.size != 1:
            raise UsageError(f"a gate is asked one query at a time, not {query.size}")
        (answer,) = self._asked(query, threshold, guess)
        return answer

    def first(self, queries: Workload, threshold: int) -> tuple[bool, ...]:
        """As `exceeds`, of one query after another until the gate closes: all answers so far."""
        return self._asked(queries, threshold, None)

    def _asked(self, queries: Workload, threshold: int, guess: int | None) -> tuple[bool, ...]:
        if type(threshold) is not int or not (guess is None or type(guess) is int):
            raise UsageError("a threshold and a guess are whole numbers")
        self._require_open()
        if self._listed is not None and queries is not self._listed:
            raise UsageError("this gate was bought for other queries")
        require(self.event, queries, self._dataset)
        if self.event.monotone and guess is not None:
            raise UsageError("distances do not all move the same way: buy a gate that allows that")

        def work() -> tuple[bool, ...]:
            found: list[bool] = []
            for block in unseal(self._answers(queries)):
                for value in block.reshape(-1).tolist():
                    if self._left == 0:
                        return tuple(found)
                    far = value if guess is None else abs(value - guess)
                    found.append(self._reached(far, threshold))
            return tuple(found)

        with self._lock:
            self._require_open()  # another thread may have had the last answer
            return quiet(work)

    def _require_open(self) -> None:
        if self._owner != process():
            raise UsageError("this gate belongs to another process: buy one here")
        if self._left == 0:
            raise UsageError("this gate has closed: buy another one")

    def _reached(self, value: int, threshold: int) -> bool:
        scale = self.event.query_scale
        above = value + _draw(self.event.noise, scale) >= threshold + unseal(self._threshold)
        if above:
            self._left -= 1
            if self._left and self._left % self.event.positives == 0:  # a run has ended
                self._threshold = self._drawn()
        return above

    def _drawn(self) -> Sealed[int]:
        return Sealed(_draw(self.event.noise, self.event.threshold_scale))

    def _refuse(self, *asked: object) -> Never:
        raise TypeError("a gate is neither copied nor kept: it lives in one process")

    __copy__ = __deepcopy__ = __reduce__ = __reduce_ex__ = __getstate__ = _refuse


def require(event: AboveThreshold | Selection, queries: Workload, dataset: Dataset) -> None:
    """Raise UsageError for queries that move further, or otherwise, than an event says."""
    largest = moved(queries, dataset).largest
    if largest > event.sensitivity:
        raise UsageError(
            f"a query moves by {largest:,}, and what was to be bought allows {event.sensitivity:,}"
        )
    if event.monotone and not monotone(queries, dataset):
        raise UsageError("these queries do not all move the same way, as was said")


def monotone(queries: Workload, dataset: Dataset) -> bool:
    """Whether between neighbours all queries rise, or all fall."""
    weights = [weight for block in queries.blocks for weight in block.weights]
    tables = [term.table.values for w in weights for term in w.terms if term.table is not None]
    least = min((int(np.min(values, initial=0)) for values in tables), default=0)
    return (
        dataset.neighbours is Neighbours.ADD_REMOVE
        and least >= 0
        and min((weight.factor for weight in weights), default=0) >= 0
    )


def _draw(noise: str, scale: Any) -> int:
    law = samplers.exponential if noise == "exponential" else samplers.laplace
    return int(law(scale, 1)[0])
