"""Earlier releases of one user and dataset, and what follows from them for a new question.

All releases that are linked by common columns are fitted together while they fit; else those that
share most with the question, the most precise and newest first. Gaussian releases are combined by
least squares; a Laplace release answers the very queries that it measured. Nothing here reads
private data: what is used was released to the same user, of the same snapshot.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.book import Name
from dpsql.accounting.events import Event, Gaussian, Laplace
from dpsql.accounting.releases import Releases
from dpsql.accounting.stored import Stored
from dpsql.mechanisms.fit import Fit, Fitted, Model, Spread
from dpsql.mechanisms.law import stddev
from dpsql.mechanisms.noises import Alike, Joint, Noise
from dpsql.query.canon import families, parts
from dpsql.query.linear import Workload

MOST = 256  # releases that are fitted together
READ = 2048  # releases of a snapshot that are looked at: the newest
_LATE = 64  # charges within which another process will have kept its release
_MODELS = 16  # sets of releases whose fit is remembered

Columns: TypeAlias = frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """Noisy answers of each SELECT, what is known of their noise, and from how many releases."""

    answers: tuple[NDArray[Any], ...]
    noises: tuple[Noise, ...]
    releases: int


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What earlier releases say: the largest variance of a query, and the answers on demand."""

    worst: float
    used: tuple[int, ...]
    answered: Callable[[], Answered]
    spreads: tuple[Spread, ...] | None = None
    law: Event | None = None

    def better(self, variance: float) -> bool:
        """Whether some query has less than this variance, all being determined."""
        if self.spreads is None or self.worst == math.inf:
            return False
        each = [np.einsum("gii->gi", spread.covariance) for spread in self.spreads]
        least = [float(block[block > 0].min(initial=math.inf)) for block in each]
        return min(least, default=math.inf) < variance * (1.0 - 1e-9)

    def noises(self, workload: Workload) -> tuple[Noise, ...]:
        """What is known of the noise of each SELECT, without any value."""
        if self.spreads is None:
            assert self.law is not None
            return (Alike(self.law),) * len(workload.blocks)
        shapes = [(block.groups, len(block.weights)) for block in workload.blocks]
        return tuple(
            Joint(Fitted(np.zeros(shape, np.int64), np.zeros(shape), spread))
            for shape, spread in zip(shapes, self.spreads, strict=True)
        )


class Archive:
    """The releases of one user, dataset and snapshot; read when they are first asked for."""

    def __init__(self, releases: Releases, name: Name) -> None:
        self.name = name
        self._releases = releases
        self._seen = 0
        self._columns: OrderedDict[int, Columns] = OrderedDict()
        self._stored: dict[int, Stored | None] = {}
        self._models: OrderedDict[tuple[int, ...], Model | None] = OrderedDict()
        self._fits: OrderedDict[tuple[int, ...], Fit] = OrderedDict()
        self._lock = threading.RLock()

    def keep(self, seq: int, stored: Stored) -> None:
        """Keep what charge `seq` released, here and in the ledger. Raises LedgerError."""
        with self._lock:
            self._columns[seq], self._stored[seq] = frozenset(stored.columns), stored
        self._releases.keep(self.name, seq, stored)

    def find(self, workload: Workload) -> Found | None:
        """What the releases kept so far say of a workload; None for nothing."""
        with self._lock:
            self._refresh()
            return self._found(workload)

    def _found(self, workload: Workload) -> Found | None:
        with self._lock:
            repeat = self._repeat(workload)
            fitted = self._fitted(workload)
            if repeat is None or fitted is None:
                return repeat or fitted
            # a repeat is preferred where fitting adds nothing: its intervals are exact
            return fitted if fitted.better(repeat.worst) else repeat

    def planned(self, workload: Workload, law: Event) -> Found | None:
        """What will be said of a workload once it is measured with this noise as well."""
        zeros = [np.zeros((b.groups, len(b.weights)), np.int64) for b in workload.blocks]
        stored = Stored.of(workload, law, zeros)
        if stored is None:
            return None
        with self._lock:
            self._refresh()
            then = Archive(self._releases, self.name)
            then._columns, then._stored = self._columns.copy(), self._stored.copy()
            seq = max(self._columns, default=0) + 1
            then._columns[seq], then._stored[seq] = frozenset(stored.columns), stored
        return then._found(workload)

    def _refresh(self) -> None:
        for seq, columns in self._releases.listed(self.name, self._seen - _LATE):
            self._columns[seq] = columns
            self._seen = max(self._seen, seq)
        while len(self._columns) > READ:
            seq, _ = self._columns.popitem(last=False)
            self._stored.pop(seq, None)

    def _read(self, seq: int) -> Stored | None:
        if seq not in self._stored:
            self._stored[seq] = self._releases.read(self.name, seq)
        return self._stored[seq]

    # -- the very same queries -----------------------------------------------------------------

    def _repeat(self, workload: Workload) -> Found | None:
        """A single release that measured every query of the workload, on the same scale."""
        asked = families(workload)
        if any(family is None for block in asked for family in block):
            return None
        names = frozenset(n for block in asked for f in block if f for n in f.classes)
        best: Found | None = None
        for seq, columns in reversed(self._columns.items()):
            stored = self._read(seq) if names <= columns else None
            if stored is None:
                continue
            known = {family.key: at for at, family in enumerate(stored.families)}
            places = [[known.get(f.key, -1) if f else -1 for f in block] for block in asked]
            if any(at < 0 for block in places for at in block):
                continue
            if any(
                f is None or stored.families[at].factor != f.factor
                for block, listed in zip(asked, places, strict=True)
                for f, at in zip(block, listed, strict=True)
            ):
                continue
            worst = stddev(stored.law) ** 2
            if isinstance(stored.law, Gaussian):
                worst = float(stored.law.variance)
            if best is None or worst < best.worst:
                answered = _Repeated(workload, stored, places)
                best = Found(worst, (seq,), answered, law=stored.law)
        return best

    # -- least squares -------------------------------------------------------------------------

    def _fitted(self, workload: Workload) -> Found | None:
        asked = frozenset(
            name
            for block in families(workload)
            for family in block
            for name in (workload.domain.names if family is None else family.classes)
        )
        for chosen in self._choices(asked):
            model = self._model(chosen)
            if model is None:
                continue
            spreads = model.spreads(workload)
            worst = max((spread.worst() for spread in spreads), default=0.0)
            return Found(worst, chosen, _Fitted(self, chosen, workload), spreads)
        return None

    def _choices(self, asked: Columns) -> Sequence[tuple[int, ...]]:
        """Sets of releases to try, the one that says most first."""
        linked = self._linked(asked)
        if not linked:
            return []
        found = [tuple(sorted(linked))] if len(linked) <= MOST else []
        order = sorted(linked, key=lambda seq: self._rank(seq, asked))[:MOST]
        size = len(order)
        while size > 1:
            size = max(1, size // 2) if size < 8 else size * 2 // 3
            found.append(tuple(sorted(order[:size])))
        return found

    def _linked(self, asked: Columns) -> list[int]:
        """The Gaussian releases that share columns with the question, directly or through others.

        What depends on no column, a total, is linked with everything.
        """
        whole = not asked or any(not columns for columns in self._columns.values())
        reached = set(asked)
        left = OrderedDict(self._columns)
        found: list[int] = []
        grown = True
        while grown:
            grown = False
            for seq, columns in list(left.items()):
                if whole or columns & reached:
                    reached |= columns
                    found.append(seq)
                    del left[seq]
                    grown = True
        return [seq for seq in found if self._gaussian(seq)]

    def _gaussian(self, seq: int) -> bool:
        stored = self._read(seq)
        return stored is not None and isinstance(stored.law, Gaussian)

    def _rank(self, seq: int, asked: Columns) -> tuple[Any, ...]:
        columns, stored = self._columns[seq], self._read(seq)
        assert stored is not None
        covers = columns >= asked or columns <= asked
        return (
            not columns >= asked,
            not covers,
            -len(columns & asked),
            len(columns - asked),
            stddev(stored.law),
            -seq,
        )

    def _model(self, chosen: tuple[int, ...]) -> Model | None:
        if chosen not in self._models:
            measured = []
            for seq in chosen:
                stored = self._read(seq)
                assert stored is not None
                measured += [(family, _variance(stored.law)) for family in stored.families]
            self._models[chosen] = Model.of(measured)
            if len(self._models) > _MODELS:
                self._models.popitem(last=False)
        return self._models[chosen]

    def fit(self, chosen: tuple[int, ...]) -> Fit:
        """The fit of some releases, which have a model."""
        with self._lock:
            if chosen not in self._fits:
                model = self._model(chosen)
                assert model is not None
                values: list[NDArray[Any]] = []
                for seq in chosen:
                    stored = self._read(seq)
                    assert stored is not None
                    values += stored.values
                self._fits[chosen] = Fit(model, values)
                if len(self._fits) > _MODELS:
                    self._fits.popitem(last=False)
            return self._fits[chosen]


@dataclass(frozen=True, slots=True, eq=False)
class _Repeated:
    """The answers of a release that measured the same queries; `places` tells where."""

    workload: Workload
    stored: Stored
    places: list[list[int]]

    def __call__(self) -> Answered:
        answers = []
        for block, listed, asked in zip(
            self.workload.blocks, self.places, families(self.workload), strict=True
        ):
            found = np.zeros((block.groups, len(block.weights)), np.int64)
            for (start, _, column, _), at, family in zip(parts(block), listed, asked, strict=True):
                assert family is not None
                found[start + family.origin, column] = self.stored.values[at]
            answers.append(found)
        noise = Alike(self.stored.law)
        return Answered(tuple(answers), (noise,) * len(answers), 1)


@dataclass(frozen=True, slots=True, eq=False)
class _Fitted:
    """The answers that follow from some releases."""

    archive: Archive
    chosen: tuple[int, ...]
    workload: Workload

    def __call__(self) -> Answered:
        found = self.archive.fit(self.chosen).answers(self.workload)
        return Answered(
            tuple(fitted.shown for fitted in found),
            tuple(Joint(fitted) for fitted in found),
            len(self.chosen),
        )


def _variance(law: Event) -> Fraction:
    match law:
        case Gaussian(variance=variance):
            return variance
        case Laplace():
            raise AssertionError("Laplace releases are not fitted")
