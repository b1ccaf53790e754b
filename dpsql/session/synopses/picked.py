"""Which synopsis a statement is asked of, and what it would say of it; from public values."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpsql.accounting.events import AboveThreshold
from dpsql.accounting.kept.stored import Stored
from dpsql.accounting.kept.synopses import ONLINE, TABLES, Synopsis
from dpsql.accounting.purse import Balance, Rise
from dpsql.curator.quote import moved
from dpsql.curator.rises import read_rise
from dpsql.errors import LedgerError, UsageError
from dpsql.mechanisms.intervals.noises import Bounded, Noise
from dpsql.mechanisms.reuse.archive import Archive
from dpsql.mechanisms.reuse.found import Answered, better
from dpsql.mechanisms.reuse.linked import columns
from dpsql.mechanisms.reuse.several import at_best
from dpsql.mechanisms.synopses import smalldb
from dpsql.mechanisms.synopses.guesses import queries
from dpsql.mechanisms.synopses.verifier import QUESTIONS, Verifier, count_unit, measured, verifier
from dpsql.planner import Terms
from dpsql.query.canon import families
from dpsql.query.compile import Compiled
from dpsql.query.linear import Workload
from dpsql.schema import Dataset
from dpsql.session.affordable import fits
from dpsql.session.build import Lines, widest
from dpsql.session.reuse.wanted import accuracy, wanted
from dpsql.session.settings import Settings
from dpsql.session.synopses.passed import Whole, again

if TYPE_CHECKING:
    from dpsql.session.session import Session
    from dpsql.session.synopses.owned import Opened

PURE = "the grant is pure (delta = 0), and what was measured for it has no pure price"
TOO_LITTLE = (
    "too little is left for all that it may come to: what is read, a gate, and a table or answer"
)
ENTANGLED = "its columns are too entangled for the synopsis"
NOT_ACCURATE = "its tables are not as accurate as was asked"
_CHOSEN = (
    "which tables were chosen for it is known once they are read: what follows from none of them is"
    " then bought in another way"
)
_AT_BEST = "at best: how far its database errs is known once it is read"
_PASSED = "it passed a gate of this session, and is said again: nothing will be charged"
_GUESSES = 256  # guesses of a statement that a gate is asked about


def check(settings: Settings) -> None:
    """Raises UsageError for settings that a synopsis cannot follow."""
    if not settings.reuse:
        raise UsageError("backend = synopsis answers from what was released: it needs reuse = on")
    if settings.postprocess != "none":
        raise UsageError(
            "backend = synopsis shows the values of its own distribution: RESET postprocess"
        )


def pick(session: Session, dataset: Dataset, workload: Workload, snapshot: str) -> Synopsis:
    """The smallest synopsis of the columns of a workload. Raises UsageError where there is none."""
    found = fitting(session, dataset, workload, snapshot)
    if found is not None:
        return found
    mine = _asked(session, dataset, snapshot)
    known = "; ".join(f"{s.name} has {', '.join(s.columns)}" for s in mine)
    older = [s.name for s in _known(session, dataset) if s.snapshot != snapshot]
    if older and not mine:
        known = f"the data have changed since {', '.join(older)} was made; make one of these data"
    names = sorted(columns(workload))
    lacking = f" has all of {', '.join(names)}" if names else ""
    raise UsageError(
        f"no synopsis of {dataset.name} that {session.user} may ask{lacking}:"
        f" {known or 'there is none; dpsql synopsis create makes one'}"
    )


def fitting(
    session: Session, dataset: Dataset, workload: Workload, snapshot: str
) -> Synopsis | None:
    """The smallest synopsis of the columns of a workload, if there is one.

    One whose tables tell it goes before others, then one that may learn it, and of these one that
    this user has paid for.
    """
    names = set(columns(workload))
    fit = [s for s in _asked(session, dataset, snapshot) if names <= set(s.columns)]
    if len(fit) < 2:
        return fit[0] if fit else None
    archive = session._archive(dataset, snapshot)
    return min(
        fit,
        key=lambda s: (
            not any(names <= set(table) for table in s.sets), not s.updates,
            not archive.held(s.charges), len(s.columns), s.name,
        ),
    )  # fmt: skip


def _asked(session: Session, dataset: Dataset, snapshot: str) -> list[Synopsis]:
    """The synopses of a state of the data that this user may ask."""
    return [s for s in _known(session, dataset) if s.snapshot == snapshot]


def _known(session: Session, dataset: Dataset) -> list[Synopsis]:
    listed = session.ledger.synopses.listed(dataset.name)
    return [s for s in listed if s.may_ask(session.user)]


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a synopsis would say: the noise of it, None for a guess that nothing verifies.

    `reads` are the charges that are to be read for it, that this user has not paid yet; where what
    was chosen is known only then, the noise is what it is at best, and a `note` says so. `told` is
    the gate of a guess that is to be verified, `new` where it is to be bought. `taken` is what
    these take together. `again` is what passed a gate before.
    """

    noises: tuple[Noise, ...] | None
    reads: tuple[int, ...] = ()
    taken: Rise | None = None
    told: Verifier | None = None
    new: bool = False
    note: str = ""
    again: list[Whole] | None = None


def outlook(
    session: Session,
    compiled: Compiled,
    settings: Settings,
    archive: Archive,
    synopsis: Synopsis,
    balance: Balance,
) -> Outlook | str:
    """What a synopsis would say of a statement; in words why it has nothing to say."""
    workload, name = compiled.workload, compiled.bound.dataset.name
    if balance.grant.pure:
        return PURE
    own = found = archive.find(workload)
    others = session._earlier.others(session.ledger, *archive.name[1:])
    held, unread = set(archive.held(synopsis.charges)), list[int]()
    for seq in synopsis.charges:
        if seq in held or others.stored(seq) is None:
            continue  # held, or the ledger could not keep it
        try:
            session.ledger.reads.rise(session.user, name, seq)
        except LedgerError:
            continue  # what it cost is not known any more
        unread.append(seq)
        if not synopsis.rounds:
            found = better(found, others.alone(workload, seq))
    if not unread and not held:
        return "what was measured for it is lost: drop it, and make another"
    reads = tuple(unread)
    taken = _taken(session, compiled, archive, reads) if reads else None
    if synopsis.method == "smalldb":
        (seq,) = synopsis.charges
        stored = others.stored(seq) if unread else archive.stored(seq)
        said = of_database(stored, compiled, settings, archive, read=not unread)
        if isinstance(said, Answered):
            if taken is not None and not _affordable(session, compiled, settings, taken):
                return TOO_LITTLE
            return Outlook(said.noises, reads, taken, note=_AT_BEST if unread else "")
        if found is None or found.worst == math.inf:
            return said
    if found is not None and found.worst < math.inf:
        noises = found.noises(workload)
        if narrow(compiled, stricter(session, settings, synopsis, found.used), archive, noises):
            if found is own or taken is None:
                return Outlook(noises)
            return Outlook(noises, reads, taken) if fits(taken, 0) else TOO_LITTLE
        return NOT_ACCURATE
    if synopsis.rounds and unread:  # which tables there are was chosen by what was seen
        stored = others.stored(max(unread))
        assert stored is not None
        best = at_best(workload, stored, len(synopsis.columns))
        if best is None or not narrow(compiled, settings, archive, best):
            return NOT_ACCURATE
        assert taken is not None
        if not _affordable(session, compiled, settings, taken):
            return TOO_LITTLE
        return Outlook(best, reads, taken, note=_CHOSEN)
    why = refused(compiled, synopsis)
    if not why and (known := again(session, archive, synopsis, workload)) is not None:
        near = promised(compiled, settings, archive, known[1])
        if near is not None:
            return Outlook(near, note=_PASSED, again=known[0])
    if not settings.strict and settings.accuracy is None:
        if taken is not None and not fits(taken, 0):
            return TOO_LITTLE
        return Outlook(None, reads, taken)
    if why:
        return why
    gate = verified(session, compiled, settings, archive, synopsis)
    if isinstance(gate, str):
        return gate
    told, noises = gate
    new = opened(session, synopsis, workload.size) is None
    if new:
        taken = _taken(session, compiled, archive, reads, told.event)
    table = max(synopsis.rho // 2, 1)
    if taken is not None and not _affordable(session, compiled, settings, taken, table):
        return TOO_LITTLE
    return Outlook(noises, reads, taken, told, new)


def _taken(
    session: Session,
    compiled: Compiled,
    archive: Archive,
    reads: tuple[int, ...],
    gate: AboveThreshold | None = None,
) -> Rise:
    """What reading and a gate would take from the purses of a session."""
    dataset, snapshot = compiled.bound.dataset, archive.name[2]
    return read_rise(session.ledger, session.user, dataset, snapshot, reads, gate)


def _affordable(
    session: Session, compiled: Compiled, settings: Settings, taken: Rise, table: int = 0
) -> bool:
    """Whether what is taken first, and what that may show to be wanted, can all be paid.

    That is a table, or the statement by itself: a statement is paid as a whole or not at all.
    """
    dataset = compiled.bound.dataset
    terms = Terms.of(taken.before.grant)
    plain = dataclasses.replace(settings, backend="auto")
    alone = wanted(compiled, dataset, plain, terms, session._archive(dataset)).choice.event.rho
    return fits(taken, max(table, alone))


def stricter(
    session: Session, settings: Settings, synopsis: Synopsis, used: Iterable[int] | None
) -> Settings:
    """The settings for an answer that rests on charges, or on one that is bought now.

    Where a gate of the session might have let a guess pass in its stead, part of what may miss is
    that gate's (`mechanisms.verifier`); what the first tables tell is asked of none.
    """
    first = used is not None and set(used) <= set(synopsis.charges[:1])
    if first or not session._learned.bought:
        return settings
    return dataclasses.replace(settings, confidence=measured(settings.confidence))


def narrow(
    compiled: Compiled, settings: Settings, archive: Archive, noises: tuple[Noise, ...]
) -> bool:
    """Whether the intervals are as narrow as was asked."""
    if settings.accuracy is None:
        return True
    half = accuracy(settings.accuracy, compiled, archive.find(compiled.workload))
    return widest(compiled, settings.confidence)(noises) <= half


def opened(session: Session, synopsis: Synopsis, guesses: int) -> Opened | None:
    """The gate of a session that is open for so many guesses of a synopsis."""
    known = session._learned.gates.get((synopsis.dataset, synopsis.name))
    if known is None or known.gate.closed or known.gate.snapshot != synopsis.snapshot:
        return None
    if known.told.event.noise == "laplace" and known.asked + guesses > QUESTIONS:
        return None  # what it promises is about so many guesses
    return known


def bounds(workload: Workload, most: int) -> tuple[Noise, ...]:
    """What is known of guesses that passed."""
    return tuple(Bounded(most, max(len(block.weights), 1)) for block in workload.blocks)


def exact(workload: Workload) -> tuple[Noise, ...]:
    """The noise of guesses that are shown as they are; what they are off by is not known."""
    return tuple(Bounded(0, max(len(block.weights), 1)) for block in workload.blocks)


def nothing(lines: Lines) -> Lines:
    """Errors or ends of as many cells, of which none is known."""
    return tuple((None,) * len(line) for line in lines)


def refused(compiled: Compiled, synopsis: Synopsis) -> str:
    """In words why no gate is asked about the guesses of a statement; else nothing."""
    workload, dataset = compiled.workload, compiled.bound.dataset
    if workload.size > _GUESSES:
        return f"a gate is asked about at most {_GUESSES} guesses of a statement"
    each = list(queries(workload))
    if any(None in listed for query in each for listed in families(query)):
        return "a query depends on more cells of its columns than can be kept"
    most = max((moved(query, dataset).largest for query in each), default=0)
    if most > 1 and most > count_unit(dataset):  # which is 1 at least
        return "a gate is asked about counts, and this statement adds up values"
    if synopsis.step != TABLES and workload.size > 1:
        return f"it learns by {synopsis.step} steps, from one count at a time"
    return ""


def verified(
    session: Session,
    compiled: Compiled,
    settings: Settings,
    archive: Archive,
    synopsis: Synopsis,
) -> tuple[Verifier, tuple[Noise, ...]] | str:
    """What the gate for the guesses of a statement is, or is to be, and what it promises of them;
    in words why there is none.

    Gates can be asked about them (`refused`).
    """
    known = opened(session, synopsis, compiled.workload.size)
    if known is None and not synopsis.updates:
        if synopsis.method in ONLINE:
            return "it has no updates left"
        return "its tables do not tell it, and it learns no others"
    told = known.told if known else following(session, compiled.bound.dataset, synopsis)
    noises = promised(compiled, settings, archive, told)
    return "its gate is not as accurate as was asked" if noises is None else (told, noises)


def promised(
    compiled: Compiled, settings: Settings, archive: Archive, gate: Verifier
) -> tuple[Noise, ...] | None:
    """What is known of guesses that a gate let pass; None where that is not as was asked."""
    found = bounds(compiled.workload, gate.most(settings.confidence))
    return found if narrow(compiled, settings, archive, found) else None


def following(session: Session, dataset: Dataset, synopsis: Synopsis) -> Verifier:
    """The next gate of a session."""
    rho = max(synopsis.rho // 2, 1)
    found = verifier(count_unit(dataset), rho, synopsis.gate, synopsis.threshold)
    return found.nth(session._learned.bought + 1)


def of_database(
    stored: Stored | None,
    compiled: Compiled,
    settings: Settings,
    archive: Archive,
    *,
    read: bool = True,
) -> Answered | str:
    """What a small database says of a statement; in words why it says nothing.

    Where it is not `read`, and so not paid for, only what is known without it: no values, and the
    interval if it erred on no query.
    """
    found = None if stored is None else stored.chosen
    if found is None:
        return "what was chosen for it is lost"
    workload, level = compiled.workload, settings.confidence
    if not smalldb.told(found, workload):
        return "it was not made for this question"
    most = smalldb.most(found, level) if read else smalldb.at_best(found, level)
    noises = bounds(workload, most)
    own = archive.find(workload)
    if own is not None and own.worst <= most**2:
        return "what is held already is more accurate"
    if not narrow(compiled, settings, archive, noises):
        return "it is not as accurate as was asked"
    values = tuple(smalldb.answers(found, workload)) if read else ()
    return Answered(values, noises, 1)
