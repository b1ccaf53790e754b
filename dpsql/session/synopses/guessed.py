"""What EXPLAIN says of a statement that is asked of a synopsis; free, and reads no data."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpsql.accounting.kept.synopses import Synopsis
from dpsql.accounting.purse import Balance
from dpsql.curator.quote import moved, quote
from dpsql.curator.rises import rise
from dpsql.mechanisms.intervals.noises import Bounded, Noise, error
from dpsql.mechanisms.intervals.uncertain import Floats
from dpsql.mechanisms.synopses.marginal import marginal
from dpsql.mechanisms.synopses.verifier import Verifier
from dpsql.planner import Asked, Terms, choose
from dpsql.query.bind import Bound
from dpsql.query.compile import Compiled
from dpsql.release import Budget, Candidate, Cost, Plan
from dpsql.session import tell
from dpsql.session.build import Head, build_plan
from dpsql.session.settings import Settings
from dpsql.session.synopses import held
from dpsql.session.synopses.bypass import foreseen, record_of
from dpsql.session.synopses.learned import SYNOPSIS, UNVERIFIED
from dpsql.session.synopses.picked import ENTANGLED, check, exact, fitting, nothing, outlook, pick
from dpsql.session.synopses.taught import lesson

if TYPE_CHECKING:
    from dpsql.session.session import Session


_BOUND = (
    "the error of the synopsis is what its answers are off at most, all together, and no standard"
    " error"
)


@dataclass(frozen=True, slots=True)
class Foreseen:
    """Price and error of what a synopsis says, its noise, notes, and what is left then.

    Of a guess that nothing verifies no noise is known.
    """

    candidate: Candidate
    noises: tuple[Noise, ...] | None
    notes: tuple[str, ...]
    after: Budget


def guessed(
    session: Session, bound: Bound, compiled: Compiled, settings: Settings, balance: Balance
) -> Plan | str:
    """The plan of a statement by a synopsis; in words why it would be bought in another way.

    Raises UsageError where no synopsis is about the columns.
    """
    check(settings)
    dataset = bound.dataset
    snapshot = session._archive(dataset).name[2]
    synopsis = pick(session, dataset, compiled.workload, snapshot)
    found = _foretold(session, compiled, settings, balance, synopsis)
    if isinstance(found, str):
        return found
    candidate, noises = found.candidate, found.noises
    left, charged = tell.budget(balance), candidate.charged
    head = Head(SYNOPSIS, candidate.price, charged, left, found.notes, after=found.after)
    listed: tuple[Candidate, ...] = (candidate,)
    if settings.accuracy is None:  # beside what plain noise at the price asked for would say
        terms, asked = Terms.of(balance.grant), Asked(settings.epsilon, settings.rho)
        choice = choose(compiled.workload, dataset, asked, terms)
        rmse = error(compiled.workload, choice.noises(compiled.workload))
        listed = (candidate, Candidate(choice.backend, choice.price, rmse))
    plan = build_plan(
        compiled, session._grid(dataset), noises or exact(compiled.workload), listed,
        moved(compiled.workload, dataset), settings, head,
    )  # fmt: skip
    if noises is None:
        plan = dataclasses.replace(plan, stderr=nothing(plan.stderr))
    return plan


def offered(
    session: Session, compiled: Compiled, settings: Settings, balance: Balance
) -> tuple[tuple[Candidate, ...], tuple[str, ...]]:
    """What a synopsis would say of a statement that is answered in another way, and a note of it.

    Nothing of both where no synopsis is about the columns.
    """
    dataset, workload = compiled.bound.dataset, compiled.workload
    if settings.postprocess != "none":
        return (), ()
    snapshot = session._archive(dataset).name[2]
    synopsis = fitting(session, dataset, workload, snapshot)
    if synopsis is None:
        return (), ()
    found = _foretold(session, compiled, settings, balance, synopsis)
    if isinstance(found, str):
        return (), (f"synopsis {synopsis.name} does not answer: {found}",)
    bound = (_BOUND,) if _BOUND in found.notes else ()
    return (found.candidate,), (
        *bound, f"synopsis {synopsis.name} would answer, too: SET backend = synopsis",
    )  # fmt: skip


def _foretold(
    session: Session, compiled: Compiled, settings: Settings, balance: Balance, synopsis: Synopsis
) -> Foreseen | str:
    """What a synopsis says of a statement; in words why it says nothing."""
    workload, archive = compiled.workload, session._archive(compiled.bound.dataset)
    said = outlook(session, compiled, settings, archive, synopsis, balance)
    if isinstance(said, str):
        return said
    notes = [f"synopsis {synopsis.name}"]
    if said.reads:
        notes.append(f"reads what {synopsis.user} bought for it, once")
    if said.note:
        notes.append(said.note)
    if said.noises is None:
        notes.append(UNVERIFIED)
    if said.told is not None:
        if not said.reads:  # what its user has not read yet makes no guesses
            found = held.guesses(session, compiled.bound.dataset, archive, synopsis, workload)
            if found is None:
                return ENTANGLED
            straight = _straight(session, compiled, balance, synopsis, said.told, found[0])
            if straight is not None:
                return straight
        if said.new:
            notes.append("buys a gate for the guesses of this session")
        price_of = _cost(balance, synopsis.rho // 2)
        given = lesson(session, compiled, synopsis)
        buys = "is bought by itself"
        if not isinstance(given, str):
            what = "its answer" if given.what == "it" else given.what
            buys = f"buys {what} for {price_of} more"
        notes.append(
            "not told by its tables: a guess, free where a gate finds it near; one that is far off"
            f" {buys}"
        )
    rmse = math.inf if said.noises is None else error(workload, said.noises)
    if any(isinstance(noise, Bounded) for noise in said.noises or ()):
        notes.append(_BOUND)
    taken = said.taken
    price, charged = (0, 0) if taken is None else (taken.price.rho, taken.charged.rho)
    candidate = Candidate(SYNOPSIS, _cost(balance, price), rmse, _cost(balance, charged))
    after = tell.budget(balance if taken is None else taken.after)
    return Foreseen(candidate, said.noises, tuple(notes), after)


def _cost(balance: Balance, rho: int) -> Cost:
    terms = Terms.of(balance.grant)
    if not rho:
        return tell.nothing(terms)
    return tell.price(dataclasses.replace(balance.spent, rho=rho, epsilon=None), terms)


def _straight(
    session: Session,
    compiled: Compiled,
    balance: Balance,
    synopsis: Synopsis,
    told: Verifier,
    guesses: Sequence[Floats],
) -> Foreseen | None:
    """The table that is bought without asking a gate; None where one would be asked."""
    workload, archive = compiled.workload, session._archive(compiled.bound.dataset)
    record = record_of(session, synopsis, workload)
    why = foreseen(session, archive, synopsis, compiled, guesses, told, record)
    if not why:
        return None
    given = lesson(session, compiled, synopsis)
    assert not isinstance(given, str) and given.names is not None
    table = marginal(session._grid(compiled.bound.dataset).domain(given.names))
    noise = given.noise(compiled.bound.dataset, synopsis)
    known = archive.once_measured(table.unmeasured(noise.variance)).known(workload)
    noises = None if known is None else known.noises(workload)
    event = quote(given.asked, compiled.bound.dataset, noise)
    taken = rise(
        session.ledger, session.user, compiled.bound.dataset, archive.name[2], given.asked, noise
    )  # fmt: skip
    alone, charged = _cost(balance, event.rho), _cost(balance, taken.charged.rho)
    rmse = math.inf if noises is None else error(workload, noises)
    notes = (f"synopsis {synopsis.name}", f"{why}: {given.what} is measured, and learnt")
    candidate = Candidate(SYNOPSIS, alone, rmse, charged)
    return Foreseen(candidate, noises, notes, tell.budget(taken.after))
