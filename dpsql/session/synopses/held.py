"""What a user holds of a synopsis: releases, paid for once, and the distribution fitted to them."""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpsql.accounting.kept.stored import Stored
from dpsql.accounting.kept.synopses import HOLDOUT, ONLINE, TABLES, Synopsis
from dpsql.accounting.purse import Balance
from dpsql.errors import LedgerError, UsageError
from dpsql.mechanisms.intervals.uncertain import Floats
from dpsql.mechanisms.reuse.archive import Archive
from dpsql.mechanisms.synopses.expectation import answers
from dpsql.mechanisms.synopses.factors import Factored
from dpsql.mechanisms.synopses.growth import (
    FIRST,
    Growth,
    from_bytes,
    grown,
    rooted,
    to_bytes,
)
from dpsql.mechanisms.synopses.junction import CELLS, Entangled
from dpsql.mechanisms.synopses.steps import stepped
from dpsql.mechanisms.synopses.training import Training
from dpsql.mechanisms.synopses.verifier import count_unit, verifier
from dpsql.query.linear import Workload
from dpsql.release import figure
from dpsql.schema import Dataset
from dpsql.session.charge import Charge
from dpsql.session.reuse.earlier import NOT_KEPT

if TYPE_CHECKING:
    from dpsql.session.session import Session

EARLY = "the fit of the distribution stopped early"
_FITS = 8


@dataclass(frozen=True, slots=True)
class Read:
    """What reading a synopsis cost, in pico of rho: alone, and from the purse; what is left."""

    price: int
    charged: int
    balance: Balance
    notes: tuple[str, ...]


def read(
    session: Session,
    dataset: Dataset,
    archive: Archive,
    synopsis: Synopsis,
    text: str,
    balance: Balance,
    earlier: int = 0,
) -> Read:
    """Pay for what was measured for a synopsis, as far as this user has not.

    `earlier` is what the same statement paid before. Raises BudgetError and LedgerError, which say
    what was charged.
    """
    ledger, price, charged, notes = session.ledger, 0, 0, []
    others = session._earlier.others(ledger, *archive.name[1:])
    for seq in synopsis.charges:
        charge = Charge(ledger, balance, earlier + charged)
        failure: BaseException | None = None
        try:
            stored = None if archive.held([seq]) else others.stored(seq)
            if stored is None:
                continue  # held, or the ledger could not keep it
            rise = ledger.reads.rise(session.user, dataset.name, seq)
            receipt = ledger.reads.charge(
                session.user, dataset.name, seq, statement=text, grant=balance.grant,
                token=charge.token,
            )  # fmt: skip
            charge.take(receipt)
            price, charged = price + rise.price.rho, charged + receipt.charged.rho
            balance = receipt.after
            if not keep(archive, seq, dataclasses.replace(stored, rests=())):
                notes.append(NOT_KEPT)
        except BaseException as error:
            failure = charge.failure(error)
            session._calls.paid = charge.total
        if failure is not None:
            raise failure
    if price:
        notes.append(
            f"read what {synopsis.user} bought for the synopsis: your purse pays once for what you"
            " learn, the cap of all users does not pay again"
        )
    return Read(price, charged, balance, tuple(notes))


def keep(archive: Archive, seq: int, stored: Stored) -> bool:
    """Count on what charge `seq` released; whether the ledger keeps it, too."""
    archive.add(seq, stored)
    try:
        archive.keep(seq, ())
    except LedgerError:
        return False
    return True


def fit(session: Session, dataset: Dataset, archive: Archive, synopsis: Synopsis) -> Factored:
    """The distribution fitted to all that a user holds of a synopsis; the ledger keeps it."""
    fits = session._learned.fits
    seqs = archive.held(synopsis.charges)
    name = (archive.name, synopsis.name, seqs)
    if name not in fits:
        fits[name] = _fit(session, dataset, archive, synopsis, seqs)
        while len(fits) > _FITS:
            fits.pop(next(iter(fits)))
    return fits[name].state


def guesses(
    session: Session, dataset: Dataset, archive: Archive, synopsis: Synopsis, workload: Workload
) -> tuple[list[Floats], tuple[str, ...]] | None:
    """What a synopsis says of each query, by what its user holds of it, and a note of a fit that
    stopped early; None for what is too entangled, and where nothing of it was read."""
    if not archive.held(synopsis.charges):
        return None
    if synopsis.method == HOLDOUT:
        return _trained(session, archive, synopsis, workload), ()
    try:
        state = fit(session, dataset, archive, synopsis)
        return answers(state, workload), unfinished(state)
    except Entangled:
        return None


def unfinished(state: Factored) -> tuple[str, ...]:
    """A note of a fit that stopped early."""
    if not state.away:
        return ()
    return (
        f"{EARLY}, in the mean at most {figure(state.away)} standard errors of a count from the"
        " best one: its values may be as much further off; intervals hold as they are",
    )


def _trained(
    session: Session, archive: Archive, synopsis: Synopsis, workload: Workload
) -> list[Floats]:
    """What the training rows of a holdout say, in as many rows as were measured.

    Raises UsageError where they are lost.
    """
    fits = session._learned.trained
    name = (archive.name, synopsis.name, synopsis.charges[0])
    if name not in fits:
        kept = session.ledger.synopses.fit(synopsis)
        try:
            fits[name] = Training.from_bytes(kept or b"")
        except ValueError:
            raise UsageError(
                f"the training rows of synopsis {synopsis.name} are lost: drop it, and make another"
            ) from None
        while len(fits) > _FITS:
            fits.pop(next(iter(fits)))
    stored = archive.stored(synopsis.charges[0])
    if stored is None:  # it was read, and is damaged
        raise _lost(synopsis)
    return fits[name].answers(workload, max(float(stored.values[0][0]), 0.0))


def _fit(
    session: Session,
    dataset: Dataset,
    archive: Archive,
    synopsis: Synopsis,
    seqs: tuple[int, ...],
) -> Growth:
    """The fit to some charges: the same, but for rounding, whether it was kept, goes on from one
    that is known, or is made anew. What is damaged of them is left out."""
    listed = [(seq, archive.stored(seq)) for seq in seqs]
    releases = [stored for _, stored in listed if stored is not None]
    seqs = tuple([seq for seq, stored in listed if stored is not None])
    if not seqs:
        raise _lost(synopsis)
    domain = session._grid(dataset).domain(synopsis.columns)
    kept = session.ledger.synopses.fit(synopsis)
    if kept is not None:
        with contextlib.suppress(ValueError):  # damaged, or of other charges: fitted again
            return from_bytes(domain, kept, seqs, releases)
    found, known = None, len(seqs) if synopsis.step != "projection" else 0  # replays all
    while found is None and known > 1:
        known -= 1
        found = session._learned.fits.get((archive.name, synopsis.name, seqs[:known]))
    if found is None:
        most = FIRST if synopsis.method in ONLINE else CELLS
        found, known = rooted(domain, releases[0], most), 1
    later = releases[known:]
    if synopsis.step == TABLES:
        for stored in later:
            found = grown(found, stored)
    else:
        rho = max(synopsis.rho // 2, 1)
        gate = verifier(count_unit(dataset), rho, synopsis.gate, synopsis.threshold)
        state = stepped(domain, found.state, later, synopsis.step, gate.threshold)
        found = Growth(state, state)
    if seqs == synopsis.charges:
        with contextlib.suppress(LedgerError):  # it can be fitted again
            session.ledger.synopses.keep_fit(synopsis, to_bytes(found, seqs))
    return found


def _lost(synopsis: Synopsis) -> UsageError:
    return UsageError(
        f"what was measured for synopsis {synopsis.name} is lost: drop it, and make another"
    )
