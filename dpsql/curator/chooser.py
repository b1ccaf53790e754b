"""Rounds of a selection and a measurement, bought at once: what is measured is chosen as it goes.

The exponential mechanism tells on which of some listed queries a public guess is furthest off, more
or less, and something is then measured with Gaussian noise; what was seen decides on the next guess
(Hardt, Ligett, McSherry 2012; McKenna, Mullins, Sheldon, Miklau 2022, arXiv:2201.12677). All of it
is charged before anything is read, so that an interrupted run wastes what it did not use. Nobody
knows beforehand which queries will be chosen, so everybody pays for all rounds.

A score is |q(D) - guess|, of whole numbers: it moves by no more than q(D) does, whatever the guess.
Instead of a query a small database may be chosen, of all of a size (`small`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Never, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import Rounds
from dpsql.accounting.ledger import Receipt
from dpsql.curator import gate, select, small
from dpsql.curator import noise as samplers
from dpsql.curator.quiet import quiet
from dpsql.curator.quote import GaussianNoise, moved, quote
from dpsql.curator.sealed import Sealed, unseal
from dpsql.domain import Domain
from dpsql.errors import UsageError
from dpsql.query.linear import Workload, whole
from dpsql.schema import Dataset

Ints: TypeAlias = NDArray[np.int64]
Noisy: TypeAlias = Callable[[Workload, GaussianNoise], tuple[NDArray[Any], ...]]


@final
class Chooser:
    """What is left of some rounds; `Curator.rounds` sells it. It lives in one process, as gates do.

    `receipt` is that of its price, `snapshot` the state of the data that it is about.
    """

    __slots__ = (
        "_answers", "_dataset", "_distance", "_left", "_listed", "_lock", "_noisy", "_owner",
        "_true", "event", "receipt", "snapshot",
    )  # fmt: skip

    def __init__(
        self,
        event: Rounds,
        receipt: Receipt,
        snapshot: str,
        dataset: Dataset,
        listed: Workload,
        answers: Callable[[Workload], gate.Answers],
        noisy: Noisy,
    ) -> None:
        self.event, self.receipt, self.snapshot = event, receipt, snapshot
        self._dataset, self._listed = dataset, listed
        self._answers, self._noisy = answers, noisy
        self._owner = gate.process()
        self._lock = threading.Lock()
        self._left = {"first": 1, "pick": event.times, "each": event.times}
        self._true: Sealed[list[int]] | None = None
        self._distance: Sealed[int] | None = None

    def first(self, asked: Workload) -> tuple[NDArray[Any], ...]:
        """The measurement before all rounds, as `Curator.measure` gives it. Raises as `pick`."""
        return self._measured("first", asked)

    def measure(self, asked: Workload) -> tuple[NDArray[Any], ...]:
        """The measurement of a round. Raises as `pick`."""
        return self._measured("each", asked)

    def pick(self, guesses: Ints, among: Ints) -> int:
        """Of the listed queries at places `among`, one whose guess is far off: its place.

        There is a guess for each listed query. Raises UsageError, before anything is drawn, for
        what was not bought or has been used; SourceError or InternalError when counting fails.
        """
        known = range(self._listed.size)
        places, guess = among.tolist(), guesses.tolist()
        if len(guess) != len(known) or not places or not all(at in known for at in places):
            raise UsageError("a guess for each listed query, and one at least to pick from")
        self._take("pick")

        def work() -> int:
            true = self._counted()
            scores = [abs(true[at] - guess[at]) for at in places]
            return int(places[select.exponential(scores, self.event.pick.scale)])

        return quiet(work)

    def database(self, domain: Domain, size: int) -> int:
        """The place of a database of `size` rows over the cells of a domain (`small.multisets`)
        that answers the listed queries nearly as well as any. Raises as `pick`.
        """
        small.require(domain.cells, size, self._listed.size)
        queries = small.matrix(self._listed, domain)
        cells = whole(domain)
        if size * moved(cells, self._dataset).largest > self.event.pick.sensitivity:
            raise UsageError("these databases move further than what was bought allows")
        self._take("pick")

        def work() -> int:
            (table,) = unseal(self._answers(cells))
            found = small.distances(queries, table.reshape(-1), size)
            place = select.exponential([-int(far) for far in found], self.event.pick.scale)
            self._distance = Sealed(-(-int(found[place]) // size))
            return place

        return quiet(work)

    def distance(self) -> int:
        """By how many rows, at most, the database that was chosen errs on a query; with the noise
        of a round's measurement. Raises as `pick`.

        It moves by no more than a count: the score by its size times that.
        """
        if self._distance is None:
            raise UsageError("no database was chosen yet")
        law = self.event.each
        if moved(whole(Domain((), ())), self._dataset).squared > law.sensitivity_squared:
            raise UsageError("this distance moves further than what was bought allows")
        self._take("each")
        true = self._distance
        return quiet(lambda: unseal(true) + int(samplers.gaussian(law.variance, 1)[0]))

    def _counted(self) -> list[int]:
        """The true answers of the listed queries, counted once."""
        with self._lock:
            if self._true is None:
                blocks = unseal(self._answers(self._listed))
                self._true = Sealed([int(v) for block in blocks for v in block.reshape(-1)])
            return unseal(self._true)

    def _measured(self, part: str, asked: Workload) -> tuple[NDArray[Any], ...]:
        bought = self.event.first if part == "first" else self.event.each
        noise = GaussianNoise(bought.variance)
        if quote(asked, self._dataset, noise).rho > bought.rho:
            raise UsageError("these answers move further than what was bought allows")
        self._take(part)
        return quiet(lambda: self._noisy(asked, noise))

    def _take(self, part: str) -> None:
        if self._owner != gate.process():
            raise UsageError("these rounds belong to another process: buy some here")
        with self._lock:
            if not self._left[part]:
                raise UsageError("these rounds are used up: buy some more")
            self._left[part] -= 1

    def _refuse(self, *asked: object) -> Never:
        raise TypeError("rounds are neither copied nor kept: they live in one process")

    __copy__ = __deepcopy__ = __reduce__ = __reduce_ex__ = __getstate__ = _refuse


def require(event: Rounds, listed: Workload, dataset: Dataset) -> None:
    """Raise UsageError for queries that move further than the selections say."""
    if listed.size == 0:
        raise UsageError("there is nothing to choose from")
    gate.require(event.pick, listed, dataset)
