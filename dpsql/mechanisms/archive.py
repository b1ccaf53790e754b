"""Earlier releases of one user and dataset, and what follows from them for a new question.

All releases that are linked by common columns are fitted together while they fit; else those that
share most with the question, the most precise and newest first. Gaussian releases are combined by
least squares; a Laplace release answers the very queries that it measured, and one of residual
tables alone all that follows from its tables. Nothing here reads
private data: what is used was released to the same user, of the same snapshot.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.book import Name
from dpsql.accounting.events import Event
from dpsql.accounting.stored import Stored
from dpsql.mechanisms.found import Answered, Found, Repeated, better
from dpsql.mechanisms.kept import Columns, Kept
from dpsql.mechanisms.law import nominal
from dpsql.mechanisms.linked import MOST, columns, is_few, is_whole, rank, tables
from dpsql.mechanisms.noises import Joint
from dpsql.mechanisms.precision import variance_of
from dpsql.mechanisms.threads import one_thread
from dpsql.query.canon import Family, families
from dpsql.query.linear import Block, Weight, Workload

if TYPE_CHECKING:  # most answers need no fit
    from dpsql.mechanisms.coarser import Coarser
    from dpsql.mechanisms.fit import Fit, Model

WORK = 1 << 19  # families of releases fitted together, times the combinations of their classes
FEW, SMALL = 1 << 15, 64  # the same for a query or two; of their rows or combinations the fewer
SINGLES = 4  # releases that may answer alone
_MODELS = 16  # sets of releases whose fit is remembered


class Archive:
    """The releases of one user, dataset and snapshot, and what follows from them."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._models: OrderedDict[tuple[int, ...], Model | Coarser | None] = OrderedDict()
        self._fits: OrderedDict[tuple[int, ...], Fit | Coarser] = OrderedDict()
        self._said_last: weakref.WeakKeyDictionary[Workload, tuple[object, Found | None]] = (
            weakref.WeakKeyDictionary()
        )
        self._lock = threading.RLock()

    @property
    def name(self) -> Name:
        return self._kept.name

    def add(self, seq: int, stored: Stored) -> None:
        """Count on what charge `seq` released, in this process."""
        with self._lock:
            self._kept.add(seq, stored)

    def keep(self, seq: int, rests: Sequence[int]) -> None:
        """Keep it in the ledger, with what the answer rested on. Raises LedgerError."""
        with self._lock:
            self._kept.keep(seq, tuple(rests))

    def find(self, workload: Workload) -> Found | None:
        """What the releases kept so far say of a workload; None for nothing."""
        with self._lock:
            self._kept.refresh()
            return self.known(workload)

    def known(self, workload: Workload) -> Found | None:
        """As `find`, of the releases that were looked for already."""
        with self._lock:
            known = self._said_last.get(workload)
            if known is not None and known[0] == self._kept.state:
                return known[1]
            if not is_few(workload) or self._may_follow(workload):
                found = self._found(workload, None)
            else:
                found = self._repeat(workload, self._measured(workload))
            self._said_last[workload] = self._kept.state, found
            return found

    def alone(self, workload: Workload, seq: int) -> Found | None:
        """What charge `seq` says of a workload by itself."""
        with self._lock:
            return self._said(workload, (seq,))

    def about(self, asked: Columns) -> list[int]:
        """The charges whose releases are about these columns and no others, as found last."""
        with self._lock:
            return [seq for seq, own in self._kept.columns.items() if own <= asked]

    def measured(self, workload: Workload) -> dict[int, Fraction]:
        """The charges that measured a whole table and nothing else, and the noise's variances."""
        with self._lock:
            found = [(seq, self._kept.read(seq)) for seq in self._measured(workload)]
            return {
                seq: variance_of(stored.law)
                for seq, stored in found
                if stored is not None and is_whole(stored)
            }

    def again(self, workload: Workload) -> list[Found]:
        """What was said of a workload when it was bought: raw, alone, or with others."""
        with self._lock:
            seqs = self._measured(workload)
            found = [self._said(workload, c) for c in self._before(seqs, is_few(workload))]
            return [said for said in (self._repeat(workload, seqs), *found) if said is not None]

    def singles(self, workload: Workload, enough: Callable[[Found], bool]) -> list[Found]:
        """Single releases that were measured, and say `enough` of a workload; the best few."""
        with self._lock:
            self._kept.refresh()
            if not self._kept.columns:
                return []
            order: list[int] = []
            if not is_few(workload) or self._may_follow(workload):
                asked = columns(workload)
                linked = self._kept.linked(asked)
                order = sorted(linked, key=lambda seq: rank(self._kept, seq, asked))[:SINGLES]
            each = dict.fromkeys([*self._measured(workload), *order])
            found = [self._found(workload, seq) for seq in each]
            return [
                said for said in found
                if said is not None and said.worst < math.inf and enough(said)
            ]  # fmt: skip

    def holds(self, seq: int) -> bool:
        """Whether what charge `seq` released is here."""
        with self._lock:
            return seq in self._kept.columns

    def stored(self, seq: int) -> Stored | None:
        """What charge `seq` released."""
        with self._lock:
            return self._kept.read(seq)

    def after(self, workload: Workload, seq: int, before: Found | None) -> Found | None:
        """What is to be said of a workload that charge `seq` measured, and that was added.

        Where nothing was said `before`, the release stands alone; then None for a query or two
        without a strategy, of which nothing is to be said but what was measured.
        """
        with self._lock:
            if before is None and is_few(workload) and not self._kept.mixed(seq):
                return None
            return self._found(workload, seq if before is None else None)

    def planned(
        self, workload: Workload, law: Event, before: Found | None, stored: Stored | None = None
    ) -> Found | None:
        """What will be said of a workload once it is measured with this noise as well.

        Through a strategy that would be kept as `stored`.
        """
        if stored is None:
            zeros = [np.zeros((b.groups, len(b.weights)), np.int64) for b in workload.blocks]
            stored = Stored.of(workload, law, zeros)
        if stored is None:
            return None
        seq = self._next
        return self._with(seq, stored).after(workload, seq, before)

    def once_measured(self, stored: Stored) -> Archive:
        """The archive as it will be once a measurement is kept as well."""
        return self._with(self._next, stored)

    def once_read(
        self, workload: Workload, seq: int, stored: Stored, before: Found | None
    ) -> Found | None:
        """What will be said of a workload once charge `seq`, of another user, is read as well."""
        return self._with(seq, stored).after(workload, seq, before)

    @property
    def _next(self) -> int:
        return max(self._kept.columns, default=0) + 1

    def _with(self, seq: int, stored: Stored) -> Archive:
        with self._lock:
            then = Archive(self._kept.copy())
        then._kept.add(seq, stored)
        return then

    def _found(self, workload: Workload, alone: int | None) -> Found | None:
        """What all releases say, or one `alone`."""
        seqs = [seq for seq in self._measured(workload) if alone in (None, seq)]
        repeat = self._repeat(workload, seqs)
        fitted = self._fitted(workload, seqs, alone)
        if repeat is None or fitted is None:
            return repeat or fitted
        if repeat.law is None:  # what a strategy was planned for agrees when it is fitted
            return fitted if fitted.worst <= repeat.worst * (1.0 + 1e-6) else repeat
        # a repeat is preferred where fitting adds nothing: its intervals are exact
        return fitted if fitted.better(repeat) else repeat

    def _may_follow(self, workload: Workload) -> bool:
        """Whether a combination of a few queries may be one of those that were measured.

        Of two queries of one block that is one of them, or else their sum.
        """
        listed = [family for block in families(workload) for family in block]
        if any(family is None or self._kept.may_follow(family) for family in listed):
            return True
        block = workload.blocks[0]
        if len(listed) < 2:
            return False
        if len(block.weights) < 2 or len({weight.factor for weight in block.weights}) > 1:
            return True
        both = Weight(tuple(term for weight in block.weights for term in weight.terms))
        summed = Workload(workload.domain, (Block(block.where, (both,), block.groupings),))
        family = families(summed)[0][0]
        return family is None or self._kept.may_follow(family)

    # -- the very same queries -----------------------------------------------------------------

    def _measured(self, workload: Workload) -> list[int]:
        """The charges that measured every query of a workload, the newest first."""
        listed = [family for block in families(workload) for family in block]
        seqs: set[int] | None = None
        for family in listed:
            found = () if family is None else self._kept.measured(family)
            seqs = set(found) if seqs is None else seqs & set(found)
            if not seqs:
                return []
        return sorted(seqs or (), reverse=True)

    def _repeat(self, workload: Workload, seqs: Sequence[int]) -> Found | None:
        """Of these releases the best one whose scale is that of the workload."""
        best: Found | None = None
        for seq in seqs:
            stored = self._kept.read(seq)
            assert stored is not None
            if stored.tabled is not None:  # its tables say that
                continue
            if stored.mixes:
                from dpsql.mechanisms.mixed import again

                best = better(best, again(workload, seq, stored))
                continue
            known = {family.key: at for at, family in enumerate(stored.families)}
            asked = [[f for f in block if f is not None] for block in families(workload)]
            if any(stored.families[known[f.key]].factor != f.factor for b in asked for f in b):
                continue
            places = [[known[f.key] for f in block] for block in asked]
            worst = nominal(stored.law)
            if best is None or worst < best.worst:
                answered = Repeated(workload, stored, places)
                best = Found(worst, (seq,), answered, law=stored.law)
        return best

    # -- least squares -------------------------------------------------------------------------

    def _fitted(self, workload: Workload, seqs: Sequence[int], alone: int | None) -> Found | None:
        """The best of what fits of several sets of releases say; `seqs` measured the workload."""
        if alone is not None:
            return self._said(workload, (alone,))
        few, asked = is_few(workload), columns(workload)
        best: Found | None = None
        tabled = [seq for seq in self._kept.linked(asked) if self._kept.tabled(seq)]
        tabled = sorted(tabled, key=lambda seq: rank(self._kept, seq, asked))[:SINGLES]
        for chosen in dict.fromkeys([*self._before(seqs, few), *((seq,) for seq in tabled)]):
            best = better(best, self._said(workload, chosen))
        for chosen in self._choices(asked, few):
            said = self._said(workload, chosen)
            best = better(best, said)
            if said is not None and not few:
                break
        for chosen in tables(self._kept, asked):  # that were too large to fit in
            if best is None or not set(chosen) <= set(best.used):
                said = self._said(workload, chosen)
                if said is not None and (best is None or said.worst < best.worst * (1.0 - 1e-9)):
                    best = said
        return best

    def _before(self, seqs: Sequence[int], few: bool) -> list[tuple[int, ...]]:
        """From what the answers of some releases were made when they were bought."""
        found = [self._kept.rests(seq) or ((seq,) if not few else ()) for seq in seqs]
        return [chosen for chosen in dict.fromkeys(found) if chosen]

    def _said(self, workload: Workload, some: tuple[int, ...]) -> Found | None:
        chosen = tuple(sorted(some))
        if not all(self._kept.gaussian(seq) for seq in chosen):
            return None
        model = self._model(chosen)
        if model is None:
            return None
        spreads = model.spreads(workload)
        worst = max((spread.worst() for spread in spreads), default=0.0)
        return Found(worst, chosen, _Fitted(self, chosen, workload), spreads)

    def _choices(self, asked: Columns, few: bool) -> Iterator[tuple[int, ...]]:
        """Sets of linked releases to fit together, those first that say most.

        For a query or two, which are soon bought, the small ones together, and large ones alone.
        """
        linked = [seq for seq in self._kept.linked(asked) if not self._kept.tabled(seq)]
        order = sorted(linked, key=lambda seq: rank(self._kept, seq, asked))
        if few:
            large = [seq for seq in order if self._rows(seq) > SMALL]
            yield self._together([seq for seq in order if seq not in large], FEW, SMALL)
            yield from ((seq,) for seq in large[:SINGLES])
            return
        chosen = self._together(order, WORK, math.inf) or tuple(order[:1])
        while chosen:
            yield chosen
            chosen = chosen[: len(chosen) // 2]

    def _together(self, order: Sequence[int], work: int, small: float) -> tuple[int, ...]:
        """As many of the first releases as can be fitted together."""
        from dpsql.mechanisms.design import CELLS, meet, size

        classes: dict[str, NDArray[np.int64]] = {}
        chosen: list[int] = []
        count = rows = 0
        for seq in order[:MOST]:
            listed = self._kept.families(seq)
            met = meet(listed, CELLS, classes)
            count, rows = count + len(listed), rows + self._rows(seq)
            if met is None or count * size(met) > work or min(rows, size(met)) > small:
                break
            classes = met
            chosen.append(seq)
        return tuple(chosen)

    def _rows(self, seq: int) -> int:
        return sum(family.met for family in self._kept.families(seq))

    def _model(self, chosen: tuple[int, ...]) -> Model | Coarser | None:
        if chosen not in self._models:
            with one_thread():
                self._models[chosen] = self._made(chosen)
            if len(self._models) > _MODELS:
                self._models.popitem(last=False)
        return self._models[chosen]

    def _made(self, chosen: tuple[int, ...]) -> Model | Coarser | None:
        from dpsql.mechanisms.coarser import Coarser
        from dpsql.mechanisms.fit import Model

        measured: list[tuple[Family, Fraction]] = []
        mixes = []
        for seq in chosen:
            stored = self._kept.read(seq)
            assert stored is not None
            if stored.tabled is not None:
                return Coarser(stored) if len(chosen) == 1 else None
            variance = variance_of(stored.law)
            mixes += [(mix, len(measured) + mix.first, variance) for mix in stored.mixes]
            measured += [(family, variance) for family in stored.families]
        return Model.of(measured, mixes)

    def fit(self, chosen: tuple[int, ...]) -> Fit | Coarser:
        """The fit of some releases, which have a model; tables of one release are both."""
        with self._lock:
            if chosen not in self._fits:
                from dpsql.mechanisms.fit import Fit, Model

                model = self._model(chosen)
                if not isinstance(model, Model):
                    assert model is not None
                    return model
                values: list[NDArray[Any]] = []
                for seq in chosen:
                    stored = self._kept.read(seq)
                    assert stored is not None
                    values += stored.values
                with one_thread():
                    self._fits[chosen] = Fit(model, values)
                if len(self._fits) > _MODELS:
                    self._fits.popitem(last=False)
            return self._fits[chosen]


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
