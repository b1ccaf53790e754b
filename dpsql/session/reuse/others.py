"""Answers that another user has paid for: read from that release, at its footprint's price."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from dpsql.accounting.filter import holds
from dpsql.accounting.kept.stored import Stored
from dpsql.accounting.ledger import Ledger, Receipt, Rise
from dpsql.accounting.purse import Balance
from dpsql.curator.rises import rise
from dpsql.errors import LedgerError
from dpsql.mechanisms.reuse.archive import Archive
from dpsql.mechanisms.reuse.found import Answered, Found
from dpsql.planner import Terms
from dpsql.query.compile import Compiled
from dpsql.schema import Dataset
from dpsql.session import tell
from dpsql.session.build import Paid
from dpsql.session.charge import Charge
from dpsql.session.reuse.earlier import NOT_KEPT, REUSE, Earlier, words
from dpsql.session.reuse.wanted import Wanted

READ = (
    "read from a release that another user paid for: your purse pays for what you learn, the cap "
    "of all users does not pay again"
)


@dataclass(frozen=True, slots=True)
class Reading:
    """A release of another user that answers a statement, and what reading it takes.

    `seq` is the charge that paid for it, `found` what is said with it: by it alone, or combined
    with one's own releases, as it will be when the same is asked again.
    """

    seq: int
    stored: Stored
    found: Found
    rise: Rise

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say of it."""
        own = self.rests
        return (READ, f"combined with {words(len(own))}") if own else (READ,)

    @property
    def rests(self) -> tuple[int, ...]:
        """One's own releases that it is combined with."""
        return tuple(seq for seq in self.found.used if seq != self.seq)


def reading(
    ledger: Ledger,
    earlier: Earlier,
    archive: Archive | None,
    dataset: Dataset,
    compiled: Compiled,
    plan: Wanted,
    balance: Balance,
) -> Reading | None:
    """The cheapest release of others that answers a statement, unless it is cheaper to buy afresh.

    It is read all the same where a purse holds what reading takes and not what buying does: the
    cap of all users has paid for it. Without an archive of one's own nothing is used again.
    """
    if archive is None or plan.rest is None:
        return None
    user, pure = archive.name[0], balance.grant.pure
    others = earlier.others(ledger, *archive.name[1:])
    best: Reading | None = None
    for found in others.singles(compiled.workload, plan.enough):
        if archive.held([found.used[0]]):
            continue
        try:
            seq = found.used[0]
            stored = others.stored(seq)
            assert stored is not None
            rested = dataclasses.replace(stored, rests=())
            read = Reading(seq, rested, found, ledger.reads.rise(user, dataset.name, seq))
        except LedgerError:
            continue  # what it cost is not known any more
        if pure and read.rise.price.epsilon is None:
            continue
        if best is None or _rank(read.rise, pure) < _rank(best.rise, pure):
            best = read
    if best is None:
        return None
    asked, noise = plan.rest.measured(compiled.workload), plan.rest.noise
    fresh = rise(ledger, user, dataset, archive.name[2], asked, noise)
    if _cost(best.rise, pure) <= _cost(fresh, pure) or (_held(best.rise) and not _held(fresh)):
        then = archive.once_read(compiled.workload, best.seq, best.stored)
        return dataclasses.replace(best, found=then) if then and plan.enough(then) else best
    return None


def taken(
    ledger: Ledger, archive: Archive, read: Reading, charge: Charge, text: str, balance: Balance
) -> tuple[Receipt, Answered, Paid]:
    """Charge for a reading; its receipt, what it says, and how it was paid."""
    grant, terms = balance.grant, Terms.of(balance.grant)
    user, dataset, _ = archive.name
    receipt = ledger.reads.charge(
        user, dataset, read.seq, statement=text, grant=grant, token=charge.token
    )
    charge.take(receipt)
    answered, notes = read.found.answered(), list(read.notes)
    archive.add(read.seq, read.stored)  # under its own number: only once
    try:
        archive.keep(read.seq, read.rests)
    except LedgerError:
        notes.append(NOT_KEPT)
    price, charged = (tell.price(p, terms) for p in (read.rise.price, receipt.charged))
    paid = Paid(REUSE, price, charged, tell.budget(receipt.after), True, tuple(notes))
    return receipt, answered, paid


def _held(rise: Rise) -> bool:
    """Whether every purse that has to pay can."""
    after = rise.after
    return all(holds(each.grant, each.spent) for each in (after, *after.others))


def _rank(found: Rise, pure: bool) -> tuple[bool, tuple[int, int]]:
    """What can be paid first, and of that the cheapest."""
    return not _held(found), _cost(found, pure)


def _cost(found: Rise, pure: bool) -> tuple[int, int]:
    """What is taken, and among equals what is learnt, which later charges may have to pay for."""
    charged, price = found.charged, found.price
    return (charged.epsilon or 0, price.epsilon or 0) if pure else (charged.rho, price.rho)
