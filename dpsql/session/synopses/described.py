"""One synopsis in full, as items and values: free, of what was released or is public alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dpsql.accounting.clock import shown
from dpsql.accounting.convert import epsilon_of
from dpsql.accounting.events import PICO
from dpsql.accounting.kept.synopses import HOLDOUT, ONLINE, TABLES, Synopsis
from dpsql.errors import LedgerError, NoGrant
from dpsql.mechanisms.reuse.archive import Archive
from dpsql.mechanisms.synopses.marginal import marginal
from dpsql.mechanisms.synopses.smalldb import most
from dpsql.mechanisms.synopses.verifier import LEVEL, count_unit, verifier
from dpsql.release import figure
from dpsql.schema import Dataset

if TYPE_CHECKING:
    from dpsql.session.session import Session

SHOWN = 40  # tables
_METHODS = {
    "marginals": "its tables were measured at once",
    "pmw": "it guesses what its tables do not tell, and learns what it gets far wrong",
    "mwem": "its tables were chosen in rounds, for the queries of a script",
    "smalldb": "one small database was chosen, for the queries of a script",
    HOLDOUT: "it guesses by a public training table",
}

Item = tuple[str, str]


def described(session: Session, dataset: Dataset, synopsis: Synopsis) -> Iterator[Item]:
    """What a synopsis holds and on which terms, for a user who may ask it. Reads no data."""
    archive = session._earlier.archive(session.ledger, dataset.name, synopsis.snapshot)
    archive.refresh()
    current = session._snapshot(dataset) == synopsis.snapshot
    gone = lost(session, dataset, synopsis)
    yield "dataset", dataset.name
    yield "method", f"{synopsis.method}: {_METHODS.get(synopsis.method, 'unknown')}"
    yield "bought by", f"{synopsis.user}, {shown(synopsis.at)}"
    yield "asked by", whom(synopsis)
    said = "yes" if current else "no: the data changed since, so it answers nothing"
    yield "current", "no: what was measured for it is lost; drop it" if gone else said
    yield "columns", ", ".join(synopsis.columns)
    yield from _tables(session, dataset, synopsis, archive)
    if synopsis.method in ONLINE and not gone:
        yield from _gates(session, dataset, synopsis)
    yield "to read it", _reading(session, dataset, synopsis, archive)


def whom(synopsis: Synopsis) -> str:
    """Who may ask it, in words."""
    if synopsis.users is None:
        return "everybody with a grant"
    return ", ".join(dict.fromkeys((synopsis.user, *synopsis.users)))


def lost(session: Session, dataset: Dataset, synopsis: Synopsis) -> bool:
    """Whether nothing is kept of what was measured for it, as where its buyer's process ended
    between the charge and that."""
    place = session.ledger, dataset.name, synopsis.snapshot
    archive, others = session._earlier.archive(*place), session._earlier.others(*place)
    archive.refresh()
    return not any(archive.stored(seq) or others.stored(seq) for seq in synopsis.charges)


def _tables(
    session: Session, dataset: Dataset, synopsis: Synopsis, archive: Archive
) -> Iterator[Item]:
    """Its tables, with the errors of those that this user has paid for, or its database."""
    sets, hidden, told = list(synopsis.sets), synopsis.rounds, list[str]()
    for stored in filter(None, map(archive.stored, archive.held(synopsis.charges))):
        if stored.tabled is None and stored.picked is None and synopsis.method == "pmw":
            told += [
                f"{', '.join(names)}: {len(family.origin):,} cells, which a question told apart"
                for family in stored.families
                if (names := tuple(c for c in synopsis.columns if c in family.classes)) not in sets
            ]
        if stored.picked is not None and hidden:
            chosen = stored.families[len(synopsis.columns) :]
            listed = [tuple(c for c in synopsis.columns if c in f.classes) for f in chosen]
            sets, hidden = list(dict.fromkeys([*sets, *listed])), 0
        if stored.chosen is not None:
            found = stored.chosen
            yield (
                "database",
                f"{len(found.codes):,} rows; it answers the {len(found.keys):,} counts that it was"
                f" chosen for, all within {most(found, LEVEL):,} rows at {100 * LEVEL:.4g} %",
            )
    for names in sets[:SHOWN]:
        yield "table", _table(session, dataset, synopsis, archive, names)
    for line in told[: max(SHOWN - len(sets), 0)]:
        yield "table", line
    if (more := len(sets) + len(told) - SHOWN) > 0:
        yield "table", f"and {more:,} more"
    if hidden:
        yield "table", f"and {hidden:,} more, which are told to whoever has read it"


def _table(
    session: Session,
    dataset: Dataset,
    synopsis: Synopsis,
    archive: Archive,
    names: tuple[str, ...],
) -> str:
    """A table's columns, its cells, and the standard error of a cell, which is public where the
    tables are."""
    domain = session._grid(dataset).domain(names)
    asked, held = marginal(domain).workload, archive.held(synopsis.charges)
    others = session._earlier.others(session.ledger, *archive.name[1:])
    said = [archive.alone(asked, seq) for seq in held]
    unread = [seq for seq in synopsis.charges if seq not in held and others.stored(seq)]
    said += [others.alone(asked, seq) for seq in unread]  # nothing where tables were picked
    least = min((found.worst for found in said if found is not None), default=math.inf)
    told = f"{', '.join(names)}: {domain.cells:,} cells"
    return told if least == math.inf else f"{told}, standard error {figure(math.sqrt(least))} rows"


def _gates(session: Session, dataset: Dataset, synopsis: Synopsis) -> Iterator[Item]:
    """What it may still learn, at which price, and what its gates are asked."""
    each = f", each {priced(session, dataset, synopsis.rho)} with its gate, by who asks"
    yield "updates", f"{synopsis.updates:,} left{each}" if synopsis.updates else "none left"
    rho = max(synopsis.rho // 2, 1)
    gate = verifier(count_unit(dataset), rho, synopsis.gate, synopsis.threshold)
    yield "gate", f"is a guess {gate.threshold:,} rows off? ({synopsis.gate} noise)"
    if synopsis.step != TABLES:
        yield "step", synopsis.step


def _reading(session: Session, dataset: Dataset, synopsis: Synopsis, archive: Archive) -> str:
    """What this user pays to read what was measured for it."""
    held = archive.held(synopsis.charges)
    others = session._earlier.others(session.ledger, *archive.name[1:])
    missing = [seq for seq in synopsis.charges if seq not in held and others.stored(seq)]
    if not missing:
        return f"free: {session.user} has paid for what it holds" if held else "nothing: it is lost"
    try:
        rise = session.ledger.reads.rise(session.user, dataset.name, *missing)
    except NoGrant:
        return f"{session.user} needs a grant"
    except LedgerError:
        return "not possible: what it cost is not known any more"
    return f"{priced(session, dataset, rise.charged.rho)}, once"


def priced(session: Session, dataset: Dataset, rho: int) -> str:
    """A price in pico of rho, as epsilon too where the user has a grant with a delta."""
    epsilon = in_epsilon(session, dataset, rho)
    if epsilon is None:
        return f"ρ {figure(rho / PICO)}"
    return f"ε {figure(epsilon)} (ρ {figure(rho / PICO)})"


def in_epsilon(session: Session, dataset: Dataset, rho: int) -> float | None:
    """A price in pico of rho at the delta of the user's grant; None without one above 0."""
    try:
        delta = session.ledger.balance(session.user, dataset.name).grant.delta
    except NoGrant:
        return None
    return epsilon_of(rho, delta) if delta else None
