"""WITH COUNTS: the numbers of groups that were found, by fresh noise (Dwork, Roth: NumericSparse).

The noisy numbers that were compared never come out: they would tell the noise of the threshold, and
be too large, having been found. Half of the price is for these instead. Their noise is fixed before
anything is known, such that any so many of the counts cost at most that half: D2^2 of some of them
is at most that of all, and at most their number times D^2. What is charged is computed from those
that were found. The noise is drawn after they were, so that an interval holds whatever found them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.events import PICO, AboveThreshold, Gaussian, Selection
from dpsql.accounting.kept.stored import Stored
from dpsql.accounting.purse import Balance, Price, Rise
from dpsql.curator.quote import GaussianNoise, moved
from dpsql.curator.rises import counted_rise, rise, told_rise
from dpsql.errors import UsageError
from dpsql.mechanisms import gaussian
from dpsql.mechanisms.intervals.noises import Alike, Noise
from dpsql.mechanisms.reuse.found import Found
from dpsql.mechanisms.synopses.guesses import queries
from dpsql.planner import Asked, Terms, cost, in_rho
from dpsql.query.compile import Compiled
from dpsql.query.linear import Workload
from dpsql.query.parse import Ask
from dpsql.release import Budget, Cost, Release, figure
from dpsql.schema import Dataset
from dpsql.session import tell
from dpsql.session.charge import Charge
from dpsql.session.comparing.listed import counts
from dpsql.session.reuse.earlier import NOT_KEPT
from dpsql.session.settings import Settings
from dpsql.session.synopses import held

if TYPE_CHECKING:
    from dpsql.session.session import Session


@dataclass(frozen=True, slots=True)
class Halves:
    """The noise of the counts, and the most they cost; the rest of a price is for finding them."""

    noise: GaussianNoise
    most: Gaussian
    rest: int  # in pico of rho


@dataclass(frozen=True, slots=True)
class Numbers:
    """Of each group that was found its count, standard error and interval."""

    values: tuple[int, ...]
    stderr: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    price: int  # in pico of rho
    charged: Price
    notes: tuple[str, ...]


def halves(workload: Workload, dataset: Dataset, count: int, asked: Asked, terms: Terms) -> Halves:
    """Of what is asked for, for up to `count` counts. Raises UsageError."""
    if terms.pure:
        raise UsageError(
            "WITH COUNTS measures with Gaussian noise, which a pure grant (delta = 0) cannot keep:"
            " leave it out, and ask for the counts of what is found"
        )
    rho, known = in_rho(asked, terms), moved(workload, dataset)
    squared = min(known.squared, count * known.largest**2)
    noise = gaussian.noise(max(squared, 1), max(rho // 2, 1))
    most = Gaussian(max(squared, 1), noise.variance)
    return Halves(noise, most, rho - most.rho)


def some(workload: Workload, places: Sequence[int]) -> Workload:
    """The queries at some places."""
    wanted = set(places)
    found = [query for at, query in enumerate(queries(workload)) if at in wanted]
    return Workload(workload.domain, tuple(block for query in found for block in query.blocks))


def _plus(price: Cost, half: Halves, terms: Terms) -> Cost:
    """A price with that of the counts, at most."""
    return tell.price(Price(_pico(price) + half.most.rho, None), terms)


def _meant(half: Halves) -> str:
    """What the counts will be, in words."""
    return (
        f"the counts of what is found have a standard error of {figure(stddev(half.noise))}, and"
        f" cost rho {figure(half.most.rho / PICO)} at most"
    )


def bought(
    session: Session,
    compiled: Compiled,
    half: Halves,
    event: AboveThreshold | Selection,
    settings: Settings,
    *,
    look: bool = False,
) -> Rise:
    """What finding groups and measuring their counts is charged together, at most.

    Which groups are found makes no difference to it, unless some of them were asked about before.
    """
    dataset, workload = compiled.bound.dataset, compiled.workload
    place = session.ledger, session.user, dataset, session._snapshot(dataset, look=look)
    if _known(session, dataset, workload, half, settings) is not None:
        return told_rise(*place, event, workload)
    return counted_rise(*place, event, workload, half.noise, half.most)


@dataclass(frozen=True, slots=True)
class Priced:
    """What a statement costs alone, what is charged and left then, and notes of it."""

    price: Cost
    charged: Cost | None
    after: Budget | None
    notes: tuple[str, ...]


def priced(
    session: Session,
    compiled: Compiled,
    half: Halves | None,
    event: AboveThreshold | Selection,
    kept: Sequence[int] | None,
    settings: Settings,
    balance: Balance | None,
    terms: Terms,
) -> Priced:
    """What finding groups costs, with their counts where `half` of the price is for these.

    Of the groups whose places were `kept` the counts alone are bought. Without a grant nothing is
    charged.
    """
    price = cost(event, terms) if kept is None else tell.nothing(terms)
    taken: Rise | None = None
    if kept is not None:
        if half is not None and balance is not None:
            taken = _beside(session, compiled, half, kept, settings)
            price = price if taken is None else tell.price(taken.price, terms)
    elif half is not None and balance is not None:
        taken = bought(session, compiled, half, event, settings, look=True)
        if taken.price.rho > event.rho:
            price = _plus(price, half, terms)
    elif half is not None:
        price = _plus(price, half, terms)
    elif balance is not None:
        dataset = compiled.bound.dataset
        taken = told_rise(
            session.ledger, session.user, dataset, session._snapshot(dataset, look=True), event,
            compiled.workload,
        )  # fmt: skip
    notes = () if half is None else (_meant(half),)
    if taken is not None:
        notes = (*notes, *tell.shortage(taken))
        return Priced(price, tell.price(taken.charged, terms), tell.budget(taken.after), notes)
    left = None if balance is None else tell.budget(balance)
    return Priced(price, None if balance is None else tell.nothing(terms), left, notes)


def _beside(
    session: Session, compiled: Compiled, half: Halves, places: Sequence[int], settings: Settings
) -> Rise | None:
    """What the counts of groups that are known to be found are charged; None for nothing."""
    dataset, asked = compiled.bound.dataset, some(compiled.workload, places)
    if not places or _known(session, dataset, asked, half, settings) is not None:
        return None
    snapshot = session._snapshot(dataset, look=True)
    return rise(session.ledger, session.user, dataset, snapshot, asked, half.noise)


def _known(
    session: Session, dataset: Dataset, asked: Workload, half: Halves, settings: Settings
) -> Found | None:
    """What earlier releases say of counts, where that is as good as what would be bought."""
    found = session._archive(dataset).find(asked) if settings.reuse else None
    good = found is not None and found.worst <= float(half.noise.variance) * (1 + 1e-9)
    return found if good else None


def _pico(cost: Cost) -> int:
    return round(cost.rho * PICO)


def stddev(noise: GaussianNoise) -> float:
    return math.sqrt(float(noise.variance))


def with_counts(
    session: Session,
    ask: Ask,
    compiled: Compiled,
    places: Sequence[int],
    half: Halves,
    settings: Settings,
    release: Release,
    earlier: Price,
) -> Release:
    """A release of the groups at `places` with their counts, for which `earlier` was paid so far.

    Raises as `Curator.measure` does; errors say what was charged.
    """
    if not places:
        return release
    dataset = compiled.bound.dataset
    balance = session.ledger.balance(session.user, dataset.name)
    terms = Terms.of(balance.grant)
    charge = Charge(session.ledger, balance, earlier.rho)
    failure: BaseException
    try:
        found = _numbers(session, dataset, some(compiled.workload, places), half, settings,
                         ask.text.sql.strip(), charge, balance)  # fmt: skip
    except BaseException as error:
        failure = charge.failure(error)
        session._calls.paid = charge.total
    else:
        session._calls.paid = charge.total
        assert release.price is not None
        paid = earlier + found.charged
        masks = counts(compiled)
        lines = [masks[place] for place in places]
        price = release.price
        if found.price:
            price = tell.price(Price(_pico(price) + found.price, None), terms)
        return dataclasses.replace(
            release,
            rows=_filled(release.rows, lines, found.values),
            stderr=_filled(release.stderr, lines, found.stderr),
            low=_filled(release.low, lines, found.low),
            high=_filled(release.high, lines, found.high),
            price=price,
            charged=tell.price(paid, terms) if paid.rho else tell.nothing(terms),
            left=tell.budget(session.ledger.balance(session.user, dataset.name)),
            reused=not paid.rho,
            backend="gaussian" if release.reused and paid.rho else release.backend,
            notes=(*release.notes, *found.notes),
        )
    raise failure


def _filled(lines: Sequence[Any], masks: Sequence[Sequence[bool]], values: Sequence[Any]) -> Any:
    """The same cells, with a value of its own in the counts of each line."""
    return tuple(
        tuple(value if count else cell for cell, count in zip(line, mask, strict=True))
        for line, mask, value in zip(lines, masks, values, strict=True)
    )


def _numbers(
    session: Session,
    dataset: Dataset,
    asked: Workload,
    half: Halves,
    settings: Settings,
    text: str,
    charge: Charge,
    balance: Balance,
) -> Numbers:
    """From what was released where that is as good, else bought."""
    known = _known(session, dataset, asked, half, settings)
    if known is not None:
        told = known.answered()
        note = "the counts are told by an earlier release"
        return _told(told.answers, told.noises, settings, 0, Price(0, 0), (note,))
    measured = session._curator(dataset).measure(
        asked, half.noise, text, charge.take, balance.grant, charge.token
    )
    stored = Stored.of(asked, measured.event, measured.answers)
    notes: tuple[str, ...] = ()
    if settings.reuse and stored is not None:
        archive = session._archive(dataset, measured.snapshot)
        notes = () if held.keep(archive, measured.receipt.seq, stored) else (NOT_KEPT,)
    noises = (Alike(measured.event),) * len(measured.answers)
    charged = measured.receipt.charged
    return _told(measured.answers, noises, settings, measured.event.rho, charged, notes)


def _told(
    blocks: Sequence[NDArray[Any]],
    noises: Sequence[Noise],
    settings: Settings,
    price: int,
    charged: Price,
    notes: tuple[str, ...],
) -> Numbers:
    one, errors, low, high = {0: Fraction(1)}, [], [], []
    values = [int(block.reshape(-1)[0]) for block in blocks]
    for value, block, noise in zip(values, blocks, noises, strict=True):
        half = float(np.max(np.asarray(noise.half(one, settings.confidence), np.float64)))
        centre = float(np.asarray(noise.centre(block), np.float64).reshape(-1)[0])
        errors.append(math.sqrt(float(np.max(np.asarray(noise.moment({0: 1.0}, {0: 1.0}))))))
        low.append(max(min(centre - half, value), 0.0))
        high.append(max(centre + half, value, 0.0))
    return Numbers(tuple(values), tuple(errors), tuple(low), tuple(high), price, charged, notes)
