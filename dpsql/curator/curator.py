"""Charge, look, noise: the only way from true counts to anything else.

What comes out is noisy values (`measure`), booleans (`gate`), a place (`select`), or places and
values in turn (`rounds`). Each first has the engine see that every row can be read, whatever is
asked, and tells nothing else of them; then the ledger records the price of the noise, durably; then
it reads the counts; then it adds the noise. What goes wrong after the charge is an InternalError or
a SourceError of ours that says nothing about the data and holds no frame that saw it, and the
charge stands.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.book import Page
from dpsql.accounting.events import AboveThreshold, Event, Law, NoisyMax, Rounds, Selection
from dpsql.accounting.footprints.footprint import Footprint
from dpsql.accounting.ledger import Grant, Ledger, Receipt
from dpsql.accounting.purse import Price
from dpsql.curator import chooser, select
from dpsql.curator import noise as samplers
from dpsql.curator.cells import Cells, project
from dpsql.curator.engines.protocol import Engine
from dpsql.curator.footprint import touched
from dpsql.curator.gate import Gate, require
from dpsql.curator.quiet import quiet
from dpsql.curator.quote import GaussianNoise, LaplaceNoise, Noise, quote
from dpsql.curator.rises import footprint_of, people, people_of
from dpsql.curator.sealed import Sealed, unseal
from dpsql.errors import SourceError, UsageError
from dpsql.query.linear import Workload
from dpsql.query.strategy import Strategy
from dpsql.schema import Neighbours

T = TypeVar("T")

_CACHE_BYTES = 256 << 20
Also = Callable[[Page, int], None]


@dataclass(frozen=True, slots=True, eq=False)
class Measurement:
    """Noisy answers, one array of (groups, weights) a block, or of (groups, rows) a part of a
    strategy; the event that paid; the receipt.

    They are of the data in the state `snapshot`.
    """

    answers: tuple[NDArray[np.int64], ...]
    event: Law
    receipt: Receipt
    snapshot: str


@dataclass(frozen=True, slots=True)
class Selected:
    """The place of a query in a workload; the event that paid; the receipt; the data's state."""

    place: int
    event: Selection
    receipt: Receipt
    snapshot: str


class Curator:
    """Holds the true counts of one dataset for one user's purse, and answers with noise."""

    def __init__(self, engine: Engine, ledger: Ledger, user: str) -> None:
        self._engine, self._ledger, self._user = engine, ledger, user
        self._counts: OrderedDict[tuple[str, ...], Sealed[Cells]] = OrderedDict()
        self._bytes = 0
        self._snapshot = ""
        self._lock = threading.RLock()

    def measure(
        self,
        asked: Workload | Strategy,
        noise: Noise,
        statement: str,
        paid: Callable[[Receipt], None] | None = None,
        grant: Grant | None = None,
        token: str = "",
        also: Also | None = None,
    ) -> Measurement:
        """The answers of a workload, or the values of a strategy, with noise, after its price is
        paid; `paid` gets the receipt.

        `grant` is what the noise was chosen under; under another one Regranted is raised. By its
        `token` the charge is found in the log; `also` writes on its page (`Ledger.charge`).

        Raises SourceError before the charge when the source cannot be read as a whole. Raises
        BudgetError when the ledger refuses: then nothing was counted. Raises SourceError or
        InternalError when counting fails: then the charge stands and nothing is released.
        """
        self._engine.ready()  # a source that is gone, was changed or cannot be read costs nothing
        dataset = self._engine.dataset
        event = quote(asked, dataset, noise)
        snapshot = self._engine.snapshot()

        def work(receipt: Receipt) -> Measurement:
            noisy = tuple(self._noisy(asked, noise, snapshot))
            return Measurement(noisy, event, receipt, snapshot)

        told = footprint_of(asked, dataset, noise)
        return self._charged(event, told, snapshot, statement, paid, grant, token, work, also)

    def gate(
        self,
        event: AboveThreshold,
        statement: str,
        paid: Callable[[Receipt], None] | None = None,
        grant: Grant | None = None,
        token: str = "",
        listed: Workload | None = None,
    ) -> Gate:
        """A gate, open, after its price is paid; its noise is drawn then.

        What will be asked is not known, so everybody pays; with `listed`, which is then all that
        may be asked, who is counted by some of these queries. Raises as `measure` does, and
        UsageError for queries that the event is not about.
        """
        self._engine.ready()
        dataset = self._engine.dataset
        if event.monotone and dataset.neighbours is not Neighbours.ADD_REMOVE:
            raise UsageError("where rows are replaced queries do not all move the same way")
        told = Footprint.constant(Price.of(event))
        if listed is not None:
            require(event, listed, dataset)
            told = touched(listed, dataset, Price.of(event))
        snapshot = self._engine.snapshot()

        def work(receipt: Receipt) -> Gate:
            return Gate(
                event,
                receipt,
                snapshot,
                dataset,
                lambda asked: Sealed(self._answers(asked, snapshot)),
                listed,
            )

        return self._charged(event, told, snapshot, statement, paid, grant, token, work)

    def select(
        self,
        asked: Workload,
        event: Selection,
        statement: str,
        paid: Callable[[Receipt], None] | None = None,
        grant: Grant | None = None,
        token: str = "",
    ) -> Selected:
        """The place of the largest answer, or nearly so, after the price of `event` is paid.

        Raises as `measure` does, and UsageError for queries that the event is not about.
        """
        self._engine.ready()
        dataset = self._engine.dataset
        if asked.size == 0:
            raise UsageError("there is nothing to select from")
        require(event, asked, dataset)
        snapshot = self._engine.snapshot()

        def work(receipt: Receipt) -> Selected:
            blocks = self._answers(asked, snapshot)
            scores = [value for block in blocks for value in block.reshape(-1).tolist()]
            law = select.noisy_max if isinstance(event, NoisyMax) else select.exponential
            return Selected(law(scores, event.scale), event, receipt, snapshot)

        told = touched(asked, dataset, Price.of(event))
        return self._charged(event, told, snapshot, statement, paid, grant, token, work)

    def rounds(
        self,
        listed: Workload,
        event: Rounds,
        statement: str,
        paid: Callable[[Receipt], None] | None = None,
        grant: Grant | None = None,
        token: str = "",
        also: Also | None = None,
    ) -> chooser.Chooser:
        """Rounds over listed queries, after the price of all of them is paid, by everybody.

        Raises as `measure` does, and UsageError for queries that the event is not about.
        """
        self._engine.ready()
        dataset = self._engine.dataset
        chooser.require(event, listed, dataset)
        snapshot = self._engine.snapshot()

        def work(receipt: Receipt) -> chooser.Chooser:
            return chooser.Chooser(
                event,
                receipt,
                snapshot,
                dataset,
                listed,
                lambda asked: Sealed(self._answers(asked, snapshot)),
                lambda asked, noise: tuple(self._noisy(asked, noise, snapshot)),
            )

        told = Footprint.constant(Price.of(event))
        return self._charged(event, told, snapshot, statement, paid, grant, token, work, also)

    def _charged(
        self,
        event: Event,
        told: Footprint,
        snapshot: str,
        statement: str,
        paid: Callable[[Receipt], None] | None,
        grant: Grant | None,
        token: str,
        work: Callable[[Receipt], T],
        also: Also | None = None,
    ) -> T:
        """What `work` gives, after the charge stands."""
        dataset = self._engine.dataset
        receipt = self._ledger.charge(
            self._user,
            dataset.name,
            event,
            statement=statement,
            footprint=told,
            snapshot=people_of(dataset, snapshot),
            people=people(dataset),
            grant=grant,
            token=token,
            also=also,
        )

        def after() -> T:
            if paid is not None:
                paid(receipt)
            return work(receipt)

        return quiet(after)

    # -- behind the wall -----------------------------------------------------------------------

    def _noisy(
        self, asked: Workload | Strategy, noise: Noise, snapshot: str
    ) -> Sequence[NDArray[np.int64]]:
        true = self._answers(asked, snapshot)
        size = sum(block.size for block in true)
        match noise:
            case GaussianNoise(variance=variance):
                drawn = samplers.gaussian(variance, size)
            case LaplaceNoise(scale=scale):
                drawn = samplers.laplace(scale, size)
        noisy = []
        start = 0
        for block in true:
            stop = start + block.size
            noisy.append(block + drawn[start:stop].reshape(block.shape))
            start = stop
        return noisy

    def _answers(self, asked: Workload | Strategy, snapshot: str) -> list[NDArray[np.int64]]:
        """The true answers of a workload, or what a strategy measures."""
        parts = (asked,) if isinstance(asked, Workload) else asked.parts
        true: list[NDArray[np.int64]] = []
        for part in parts:
            workload = part if isinstance(part, Workload) else part.workload
            cells = unseal(self._cells(workload.domain.names, snapshot))
            found = part.matvec(cells.codes, cells.counts)
            true += found if isinstance(found, list) else [found]
        return true

    def _cells(self, columns: tuple[str, ...], snapshot: str) -> Sealed[Cells]:
        """The counts of a column set on a snapshot: kept, summed from a superset, or read."""
        with self._lock:
            self._require(snapshot)
            if snapshot != self._snapshot:
                self._counts.clear()
                self._bytes, self._snapshot = 0, snapshot
            found = self._counts.get(columns)
            if found is not None:
                self._counts.move_to_end(columns)
                return found
            wider = [kept for kept in self._counts if set(columns) < set(kept)]
            if wider:
                found = project(self._counts[min(wider, key=len)], columns)
            else:
                found = self._engine.counts(columns)
                self._require(snapshot)
            self._keep(columns, found)
            return found

    def _require(self, snapshot: str) -> None:
        """Raise SourceError unless the data are those that were paid for."""
        if self._engine.snapshot() != snapshot:
            raise SourceError(
                "the file was touched while it was asked, so nothing is released: ask again"
            )

    def _keep(self, columns: tuple[str, ...], cells: Sealed[Cells]) -> None:
        self._counts[columns] = cells
        self._bytes += unseal(cells).nbytes
        while self._bytes > _CACHE_BYTES and len(self._counts) > 1:
            _, dropped = self._counts.popitem(last=False)
            self._bytes -= unseal(dropped).nbytes
