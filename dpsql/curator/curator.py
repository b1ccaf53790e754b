"""Charge, look, noise: the only way from true counts to anything else.

`measure` first has the engine see that every row can be read, whatever is asked, and tells nothing
else of them; then the ledger records the price of the noise, durably; then it reads the counts;
then it adds the noise. What goes wrong after the charge is an InternalError or a SourceError of
ours that says nothing about the data and holds no frame that saw it, and the charge stands.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Event
from dpsql.accounting.footprint import Footprint
from dpsql.accounting.ledger import Grant, Ledger, Receipt, Rise
from dpsql.curator import noise as samplers
from dpsql.curator.cells import Cells, project
from dpsql.curator.engines.protocol import Engine
from dpsql.curator.footprint import footprint
from dpsql.curator.quote import GaussianNoise, LaplaceNoise, Noise, quote
from dpsql.curator.sealed import Sealed, unseal
from dpsql.errors import InternalError, SourceError
from dpsql.query.linear import Workload
from dpsql.query.strategy import Strategy
from dpsql.schema import Dataset

_CACHE_BYTES = 256 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Measurement:
    """Noisy answers, one array of (groups, weights) a block, or of (groups, rows) a part of a
    strategy; the event that paid; the receipt.

    They are of the data in the state `snapshot`.
    """

    answers: tuple[NDArray[np.int64], ...]
    event: Event
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
    ) -> Measurement:
        """The answers of a workload, or the values of a strategy, with noise, after its price is
        paid; `paid` gets the receipt.

        `grant` is what the noise was chosen under; under another one Regranted is raised. By its
        `token` the charge is found in the log.

        Raises SourceError before the charge when the source cannot be read as a whole. Raises
        BudgetError when the ledger refuses: then nothing was counted. Raises SourceError or
        InternalError when counting fails: then the charge stands and nothing is released.
        """
        self._engine.ready()  # a source that is gone, was changed or cannot be read costs nothing
        dataset = self._engine.dataset
        event = quote(asked, dataset, noise)
        snapshot = self._engine.snapshot()
        receipt = self._ledger.charge(
            self._user,
            dataset.name,
            event,
            statement=statement,
            footprint=_footprint(asked, dataset, noise),
            snapshot=_people_of(dataset, snapshot),
            people=_people(dataset),
            grant=grant,
            token=token,
        )
        failure: BaseException
        try:
            if paid is not None:
                paid(receipt)
            noisy = tuple(self._noisy(asked, noise, snapshot))
            return Measurement(noisy, event, receipt, snapshot)
        except (SourceError, InternalError) as error:
            failure = type(error)(str(error))
        except Exception:
            failure = InternalError(
                "reading the data failed; the price was charged and nothing is released"
            )
        except BaseException as stopped:  # Ctrl-C may come while true counts are at hand
            failure = stopped.with_traceback(None)
            failure.__cause__ = failure.__context__ = None
        raise failure  # out here, so that it does not carry what it was made from

    # -- behind the wall -----------------------------------------------------------------------

    def _noisy(
        self, asked: Workload | Strategy, noise: Noise, snapshot: str
    ) -> Sequence[NDArray[np.int64]]:
        parts = (asked,) if isinstance(asked, Workload) else asked.parts
        true: list[NDArray[np.int64]] = []
        for part in parts:
            workload = part if isinstance(part, Workload) else part.workload
            cells = unseal(self._cells(workload.domain.names, snapshot))
            found = part.matvec(cells.codes, cells.counts)
            true += found if isinstance(found, list) else [found]
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


def rise(
    ledger: Ledger,
    user: str,
    dataset: Dataset,
    snapshot: str,
    asked: Workload | Strategy,
    noise: Noise,
) -> Rise:
    """What `measure` would take from the purses of `user` on this snapshot; free, reads no row.

    Raises NoGrant.
    """
    return ledger.rise(
        user,
        dataset.name,
        quote(asked, dataset, noise),
        footprint=_footprint(asked, dataset, noise),
        snapshot=_people_of(dataset, snapshot),
        people=_people(dataset),
    )


def _footprint(asked: Workload | Strategy, dataset: Dataset, noise: Noise) -> Footprint:
    if isinstance(asked, Workload):
        return footprint(asked, dataset, noise)
    from dpsql.curator import mixed

    assert isinstance(noise, GaussianNoise)  # `quote` refused others
    return mixed.footprint(asked, dataset, noise.variance)


def _people_of(dataset: Dataset, snapshot: str) -> str:
    """What releases must share for their losses to be those of the same people.

    Where rows are only added, a row keeps its cell in every later state of the table.
    """
    return f"append-only {dataset.digest}" if dataset.append_only else snapshot


def _people(dataset: Dataset) -> str:
    """Whose losses the ledger adds up. Another bound on their rows makes them no other people."""
    unit = dataset.unit.column
    each = "each row" if unit is None else f"all rows of each {unit}"
    return f"{each} ({dataset.neighbours.value})"
