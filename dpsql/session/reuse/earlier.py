"""Answers from earlier releases: what is free, what is still to buy, and what is kept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpsql.accounting.events import Gaussian
from dpsql.accounting.kept.stored import Stored
from dpsql.accounting.ledger import Ledger
from dpsql.curator.curator import Measurement
from dpsql.errors import LedgerError
from dpsql.mechanisms.intervals.noises import Alike
from dpsql.mechanisms.reuse.archive import Archive
from dpsql.mechanisms.reuse.found import Answered, Found
from dpsql.mechanisms.reuse.kept import Kept
from dpsql.planner import Choice
from dpsql.query.compile import Compiled
from dpsql.query.linear import Workload

if TYPE_CHECKING:
    from dpsql.mechanisms.strategies.plans import Plan

REUSE = "reuse"
QUOTED, LONGEST = 3, 60  # statements that are named, and characters of each
NOT_KEPT = "the ledger could not keep this answer: asked again, it will cost again"
NOT_SAID = "the ledger could not keep what this is made of: asked again, it may cost something"


class Earlier:
    """The archives of one user, a dataset and snapshot each; the newest snapshot's is kept."""

    def __init__(self, user: str) -> None:
        self._user = user
        self._archives: dict[str, Archive] = {}
        self._others: dict[str, Archive] = {}

    def archive(self, ledger: Ledger, dataset: str, snapshot: str) -> Archive:
        """The releases of a snapshot."""
        name = (self._user, dataset, snapshot)
        found = self._archives.get(dataset)
        if found is None or found.name != name:
            found = self._archives[dataset] = Archive(Kept(ledger.releases, name))
        return found

    def others(self, ledger: Ledger, dataset: str, snapshot: str) -> Archive:
        """The releases of all other users."""
        name = (self._user, dataset, snapshot)
        found = self._others.get(dataset)
        if found is None or found.name != name:
            kept = Kept(ledger.releases, name, others=True)
            found = self._others[dataset] = Archive(kept)
        return found


def words(releases: int) -> str:
    """From how many earlier releases, in words."""
    return "an earlier release" if releases == 1 else f"{releases} earlier releases"


def quoted(ledger: Ledger, used: Sequence[int]) -> str:
    """From which earlier releases, by their statements."""
    listed = [" ".join(ledger.releases.statement(seq).split()) for seq in used[:QUOTED]]
    texts = [text if len(text) <= LONGEST else f"{text[:LONGEST]}..." for text in listed if text]
    more = len(used) - len(texts)
    if not texts:
        return words(len(used))
    others = [words(more)] if more else []
    return " and ".join([*(f'"{text}"' for text in texts), *others])


def unbought(archive: Archive | None, workload: Workload, found: Found) -> tuple[str, ...]:
    """The notes of an answer that is `found` free; of what it is made is kept."""
    note = f"answered from {words(len(found.used))}: nothing was charged"
    try:
        if archive is not None:
            archive.say(workload, found)
    except LedgerError:
        return note, NOT_SAID
    return (note,)


def settled(
    archive: Archive | None,
    before: Found | None,
    compiled: Compiled,
    measured: Measurement,
    plan: Plan | None = None,
    *,
    alone: bool,
) -> tuple[Answered, int, list[str]]:
    """The answers after a measurement, how many earlier releases they rest on as well, and notes.

    The release is kept in the archive, for reuse; without one the answers are what was measured.
    `before` is what the archive said of the statement before it was bought. `alone` shows what was
    measured as it is.
    """
    workload = compiled.workload
    law, seq = measured.event, measured.receipt.seq
    if plan is not None and isinstance(law, Gaussian):
        as_it_is = plan.answered(measured.answers, law)
        stored = None
        if archive is not None:
            stored = plan.stored(measured.answers, law, as_it_is.answers)
    else:
        as_it_is = Answered(measured.answers, (Alike(law),) * len(workload.blocks), 1)
        stored = None if archive is None else Stored.of(workload, law, measured.answers)
    if archive is None or stored is None:
        return as_it_is, 0, []
    archive.add(seq, stored)
    found = None if alone else archive.after(workload, seq, before)
    if found is None:
        found = archive.repeat(workload, seq)
    if found is not None and found.worst == math.inf:
        found = None
    others = [] if found is None else [used for used in found.used if used != seq]
    notes = [f"combined with {words(len(others))}"] if others else []
    try:
        archive.keep(seq, others or ([] if alone else [seq]))
    except LedgerError:
        notes.append(NOT_KEPT)
    return as_it_is if found is None else found.answered(), len(others), notes


def label(choice: Choice, others: int) -> str:
    """The backend of an answer that rests on so many earlier releases as well."""
    return f"{choice.backend} + {REUSE}" if others else choice.backend
