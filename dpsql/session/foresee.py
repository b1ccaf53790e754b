"""What EXPLAIN says where there is a purse: what earlier releases give, and what is left to pay."""

from __future__ import annotations

import math
from collections.abc import Callable

from dpsql.accounting.ledger import Ledger
from dpsql.mechanisms.intervals.noises import Noise, error
from dpsql.mechanisms.reuse.archive import Archive
from dpsql.planner import Choice, Terms
from dpsql.query.compile import Compiled
from dpsql.release import Budget, Candidate, Cost
from dpsql.session import tell
from dpsql.session.build import Head
from dpsql.session.reuse.earlier import REUSE, label, quoted
from dpsql.session.reuse.others import Reading
from dpsql.session.reuse.wanted import Wanted

Foreseen = tuple[Head, tuple[Noise, ...], tuple[Candidate, ...]]


def foreseen(
    ledger: Ledger,
    compiled: Compiled,
    archive: Archive | None,
    plan: Wanted,
    read: Reading | None,
    terms: Terms,
    left: Budget,
    charged: Callable[[Choice], Cost],
    listed: tuple[Candidate, ...],
) -> Foreseen:
    """The head of a plan, the noise of its answers, and the candidates with that of reuse first.

    Without an archive nothing is used again.
    """
    workload = compiled.workload
    found, rest = plan.found, plan.rest
    if rest is None:
        assert found is not None
        free, known = tell.nothing(terms), found.noises(workload)
        note = f"follows from {quoted(ledger, found.used)}: nothing will be charged"
        candidate = Candidate(REUSE, free, error(workload, known), free)
        return Head(REUSE, free, free, left, (note, *plan.notes)), known, (candidate, *listed)
    if read is not None:
        known = read.found.noises(workload)
        price, cost = (tell.price(p, terms) for p in (read.rise.price, read.rise.charged))
        candidate = Candidate(REUSE, price, error(workload, known), cost)
        return Head(REUSE, price, cost, left, read.notes), known, (candidate, *listed)
    then = None if plan.whole is None else plan.whole.then
    if archive is not None and then is None and not plan.raw:
        then = archive.planned(workload, rest.event, found, rest.unmeasured())
    others: tuple[int, ...] = ()
    noises = rest.noises(workload)
    if archive is not None and then is not None and then.worst < math.inf:
        noises, others = then.noises(workload), archive.held(then.used)
    if rest is not plan.choice:
        name = label(rest, len(others)) + (" (whole table)" if plan.whole else "")
        candidate = Candidate(name, rest.price, error(workload, noises), charged(rest))
        listed = (candidate, *listed)
    paid = next(c.charged for c in listed if c.backend.startswith(rest.backend))
    notes = (f"combined with {quoted(ledger, others)}",) if others else ()
    notes = (*plan.notes, *notes)
    return Head(label(rest, len(others)), rest.price, paid, left, notes), noises, listed
