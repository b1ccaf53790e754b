"""Earlier releases of one user and dataset, and what follows from them for a new question.

All releases that are linked by common columns are fitted together while they fit; else those that
share most with the question, the most precise and newest first. Releases are combined by least
squares, by their variances; one of large residual tables, or of tables chosen in rounds, answers
alone what follows from its tables. Nothing here reads private data: what is used was released to
the same user, of the same snapshot.
"""

from __future__ import annotations

import itertools
import math
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.book import Name
from dpsql.accounting.events import Law
from dpsql.accounting.kept.stored import Stored
from dpsql.mechanisms.intervals.noises import Joint
from dpsql.mechanisms.reuse.bought import Due, bought
from dpsql.mechanisms.reuse.choices import SINGLES, before, beside, choices
from dpsql.mechanisms.reuse.found import Answered, Enough, Found, better
from dpsql.mechanisms.reuse.kept import Columns, Kept
from dpsql.mechanisms.reuse.linked import columns, is_few, joined, may_follow, tables
from dpsql.mechanisms.reuse.ordered import ordered
from dpsql.mechanisms.reuse.repeats import lone, measured, named, repeat, whole
from dpsql.mechanisms.reuse.witness import unfitted
from dpsql.mechanisms.threads import one_thread
from dpsql.query.canon import families
from dpsql.query.linear import Workload

if TYPE_CHECKING:  # most answers need no fit
    from dpsql.mechanisms.reuse.alone import Alone
    from dpsql.mechanisms.reuse.fit import Fit, Model

EARLIER = 16  # states of the past that are looked at
_MODELS, _PLANNED = 16, 32  # sets of releases whose fit is remembered, and measurements


class Archive:
    """The releases of one user, dataset and snapshot, and what follows from them."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._models: OrderedDict[tuple[int, ...], Model | Alone | None] = OrderedDict()
        self._fits: OrderedDict[tuple[int, ...], Fit | Alone] = OrderedDict()
        self._said_last: weakref.WeakKeyDictionary[Workload, tuple[object, Found | None]] = (
            weakref.WeakKeyDictionary()
        )
        self._planned: OrderedDict[tuple[object, ...], Found | None] = OrderedDict()
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
        self.refresh()
        return self.known(workload)

    def known(self, workload: Workload) -> Found | None:
        """As `find`, of the releases that were looked for already."""
        with self._lock:
            known = self._said_last.get(workload)
            if known is not None and known[0] == self._kept.state:
                return known[1]
            seqs = measured(self._kept, workload)
            if seqs and self._stands_alone(workload, seqs[0]):
                found = self._by_itself(workload, seqs[:1])
            elif not is_few(workload) or may_follow(self._kept, workload):
                found = self._found(workload, None)
            else:
                found = repeat(self._kept, workload, seqs)
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

    def repeat(self, workload: Workload, seq: int) -> Found | None:
        """What charge `seq` measured of a workload, as it is said again."""
        with self._lock:
            return repeat(self._kept, workload, (seq,))

    def whole(self, workload: Workload) -> dict[int, Fraction]:
        """The charges that measured a whole table and nothing else, and the noise's variances."""
        with self._lock:
            return whole(self._kept, workload)

    def said(self, workload: Workload, enough: Enough) -> Found | None:
        """What the releases kept so far say that is `enough`, if anything is.

        What all of them say, or else what was said before some of them were bought: more of them
        say less where what is shown is rounded in more places.
        """
        self.refresh()
        with self._lock:
            found = self.known(workload)
            if found is None or enough(found):
                return found
            each = self._again(workload, found, enough)
            return next((said for said in each if enough(said)), None)

    def _again(self, workload: Workload, found: Found, enough: Enough) -> Iterator[Found]:
        """What was said of a workload when it was answered free, or bought: raw, alone, or with
        others; and before the newest releases were, where what is `found` now is nearly enough.
        """
        seqs = measured(self._kept, workload)
        each = (repeat(self._kept, workload, (seq,)) for seq in seqs)
        yield from (said for said in each if said is not None)
        then = before(self._kept, seqs, is_few(workload))
        for chosen in dict.fromkeys([*then, *((seq,) for seq in seqs)]):
            said = self._said(workload, chosen)
            if said is not None:
                yield said
        linked = sorted(ordered(self._kept, workload).linked) if enough.near(found) else []
        for seq in itertools.islice(reversed(linked), EARLIER):
            said = self._until(seq)._found(workload, None)
            if said is not None:
                yield said
        name = named(workload)
        for chosen in [] if name is None else self._kept.said(name):
            said = self._said(workload, chosen)
            if said is not None:
                yield said

    def bought(self, workload: Workload, due: Due) -> Found | None:
        """What is said again, with whatever error, of a workload of which each query was bought for
        what is due; None where one was not.

        As it was said by the newest release that has all queries, so that it agrees with the rest
        of that, unless what was bought since says more.
        """
        with self._lock:
            seqs = bought(self._kept, workload, due)
            if seqs is None:
                return None
            found = self.known(workload)
            if seqs:
                rests = self._kept.rests(seqs[0])
                then = self._said(workload, rests) if rests else self._found(workload, seqs[0])
                known = bool(rests) or self._kept.stood_alone(seqs[0])
                if not (known and self._last(workload, seqs[0])):
                    then = better(then, found, workload, then)
                found = then or found
            return None if found is None or found.worst == math.inf else found

    def _until(self, seq: int) -> Archive:
        """The archive as it was before charge `seq`."""
        then = Archive(self._kept.until(seq))
        then._models, then._fits, then._lock = self._models, self._fits, self._lock
        return then

    def singles(self, workload: Workload, enough: Callable[[Found], bool]) -> list[Found]:
        """Single releases that were measured, and say `enough` of a workload; the best few."""
        with self._lock:
            self._kept.refresh()
            if not self._kept.columns:
                return []
            order: tuple[int, ...] = ()
            if not is_few(workload) or may_follow(self._kept, workload):
                order = ordered(self._kept, workload).every[:SINGLES]
            each = dict.fromkeys([*measured(self._kept, workload), *order])
            found = [self._found(workload, seq) for seq in each]
            return [said for said in found if said and said.worst < math.inf and enough(said)]

    def refresh(self) -> None:
        """Look for what was kept meanwhile."""
        with self._lock:
            self._kept.refresh()

    def say(self, workload: Workload, found: Found) -> None:
        """Keep of what a free answer is made, which may say less beside what is bought later.

        Raises LedgerError where that cannot be written.
        """
        name = named(workload)
        with self._lock:
            if name is not None and found.law is None:  # else it is measured, and kept so
                self._kept.say(name, found.used)

    def held(self, seqs: Iterable[int]) -> tuple[int, ...]:
        """Those of some charges whose releases are here."""
        with self._lock:
            return tuple([seq for seq in seqs if seq in self._kept.columns])

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
            if is_few(workload) and not self._kept.mixed(seq):
                if before is None:
                    return None
                if before.worst == math.inf and (said := lone(self._kept, workload, seq)):
                    return said
            return self._found(workload, seq if before is None else None)

    def planned(
        self, workload: Workload, law: Law, before: Found | None, stored: Stored | None = None
    ) -> Found | None:
        """What will be said of a workload once it is measured with this noise as well, through a
        strategy that would be kept as `stored`."""
        with self._lock:
            name = (workload, law, before is None, self._kept.state, stored and stored.strategy)
            if name not in self._planned:
                if stored is None:
                    zeros = [
                        np.zeros((b.groups, len(b.weights)), np.int64) for b in workload.blocks
                    ]
                    stored = Stored.of(workload, law, zeros)
                seq = self._next
                then = None if stored is None else self._with(seq, stored)
                self._planned[name] = None if then is None else then.after(workload, seq, before)
                if len(self._planned) > _PLANNED:
                    self._planned.popitem(last=False)
            return self._planned[name]

    def once_measured(self, stored: Stored) -> Archive:
        """The archive as it will be once a measurement is kept as well."""
        return self._with(self._next, stored)

    def by_last(self, workload: Workload) -> Found | None:
        """What would be said of a workload if only what was added last were here."""
        return self.after(workload, max(self._kept.columns), None)

    def once_read(self, workload: Workload, seq: int, stored: Stored) -> Found | None:
        """What will be said of a workload once charge `seq`, of another user, is read as well.

        It may be about more columns than were asked about, and link what was not linked before.
        """
        return self._with(seq, stored).known(workload)

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
        seqs = [seq for seq in measured(self._kept, workload) if alone in (None, seq)]
        raw = repeat(self._kept, workload, seqs)
        fitted = self._fitted(workload, seqs, alone, raw)
        if raw is None or fitted is None:
            return raw or fitted
        if raw.law is None:  # what a strategy was planned for agrees when it is fitted
            return fitted if fitted.worst <= raw.worst * (1.0 + 1e-6) else raw
        # a repeat is preferred where fitting adds nothing: its intervals are exact
        return fitted if fitted.better(raw) else raw

    def _fitted(
        self, workload: Workload, seqs: Sequence[int], alone: int | None, repeat: Found | None
    ) -> Found | None:
        """The best of what fits of several sets of releases say; `seqs` measured the workload.

        Fits are shown in whole numbers, which may lose more than they gain: none counts that is
        shown to err more than a measurement of the workload by itself, of which `repeat` is best.
        """
        if alone is not None:
            return self._said(workload, (alone,))
        few, asked = is_few(workload), columns(workload)
        best: Found | None = None
        own = self._by_itself(workload, seqs if repeat is None else repeat.used)
        linked = joined(workload)

        def said(chosen: tuple[int, ...]) -> Found | None:
            if linked and not any(self._kept.links(seq, linked) for seq in chosen):
                return None
            return self._said(workload, chosen)

        besides = {chosen: said(chosen) for chosen in beside(self._kept, workload)}
        then = {chosen: said(chosen) for chosen in before(self._kept, seqs, few)}
        for each in (then | besides).values():
            best = better(best, each, workload, own)
        fitted = [set(chosen) for chosen, each in besides.items() if each]
        for chosen in choices(self._kept, workload):
            if any(set(chosen) <= others for others in fitted):
                continue
            found = said(chosen)
            best = better(best, found, workload, own)
            if found is not None and not few:
                break
        for chosen in tables(self._kept, asked):  # that were too large to fit in
            if best is None or not set(chosen) <= set(best.used):
                best = better(best, said(chosen), workload, own)
        return best

    def _by_itself(self, workload: Workload, seqs: Sequence[int]) -> Found | None:
        """What is said of a workload by a measurement of it alone, the first of these; None where
        there is none."""
        if not seqs:
            return None
        few = is_few(workload) and not self._kept.mixed(seqs[0])
        own = self.repeat(workload, seqs[0]) if few else self._found(workload, seqs[0])
        return None if own is None or own.worst == math.inf else own

    def _stands_alone(self, workload: Workload, seq: int) -> bool:
        """Whether a workload is all that charge `seq` measured, which stood alone, and nothing was
        bought since: then it is said as it was, and not beside what was not looked at then."""
        if not (self._kept.stood_alone(seq) and self._last(workload, seq)):
            return False
        asked = {f.key for listed in families(workload) for f in listed if f is not None}
        return asked == {family.key for family in self._kept.families(seq)}

    def _last(self, workload: Workload, seq: int) -> bool:
        """Whether nothing that is linked with a workload was released after charge `seq`."""
        return max(ordered(self._kept, workload).linked, default=seq) <= seq

    def _said(self, workload: Workload, some: tuple[int, ...]) -> Found | None:
        chosen = tuple(sorted(some))
        if not all(self._kept.fits(seq) for seq in chosen):
            return None
        answered = partial(self._answered, chosen, workload)
        if chosen not in self._models:
            found = unfitted(self._kept, workload, chosen, answered)
            if found is not None:
                return found
        model = self._model(chosen)
        if model is None:
            return None
        with one_thread():
            spreads = model.spreads(workload)
        worst = max((spread.worst() for spread in spreads), default=0.0)
        return Found(worst, chosen, answered, spreads)

    def _model(self, chosen: tuple[int, ...]) -> Model | Alone | None:
        if chosen not in self._models:
            from dpsql.mechanisms.reuse.models import model

            with one_thread():
                self._models[chosen] = model(self._kept, chosen)
            if len(self._models) > _MODELS:
                self._models.popitem(last=False)
        return self._models[chosen]

    def fit(self, chosen: tuple[int, ...]) -> Fit | Alone:
        """The fit of some releases, which have a model; tables of one release are both."""
        with self._lock:
            if chosen not in self._fits:
                from dpsql.mechanisms.reuse.fit import Fit, Model

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

    def _answered(self, chosen: tuple[int, ...], workload: Workload) -> Answered:
        """The answers that follow from some releases."""
        found = self.fit(chosen).answers(workload)
        shown, noises = [fitted.shown for fitted in found], [Joint(fitted) for fitted in found]
        return Answered(tuple(shown), tuple(noises), len(chosen))
