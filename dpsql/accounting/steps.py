"""What charges do to the purses that pay: one, and several after each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dpsql.accounting import payers
from dpsql.accounting.book import Page
from dpsql.accounting.footprint import Footprint
from dpsql.accounting.purse import NOTHING, Price, Rise
from dpsql.accounting.states import Known, States, Trial


@dataclass(frozen=True, slots=True)
class Step:
    """What a purse will have spent, and its state then, where the release has a footprint."""

    after: Price
    trial: Trial | None

    @property
    def exact(self) -> bool | None:
        return None if self.trial is None else self.trial.exact


def taken(
    states: States,
    page: Page,
    paying: Sequence[payers.Payer],
    price: Price,
    footprint: Footprint | None,
    snapshot: str,
    seq: int,
    known: Mapping[str, Known] | None = None,
) -> list[Step]:
    """What each purse will have spent. Purses that paid for the same so far share the work.

    By its holder, `known` has the state of a purse that the page has not.
    """
    done: dict[tuple[str, Price], Step] = {}
    steps = []
    for payer in paying:
        purse = payer.purse
        alike = (purse.joint, purse.spent)
        step = done.get(alike)
        if step is None:
            step = Step(purse.spent + price, None)
            if footprint is not None:
                now = None if known is None else known.get(purse.user)
                trial = states.trial(page, purse, price, footprint, snapshot, seq, now)
                step = Step(trial.after, trial)
            done[alike] = step
        steps.append(step)
    return steps


def risen(
    states: States,
    page: Page,
    paying: Sequence[payers.Payer],
    parts: Iterable[tuple[Price, Footprint | None]],
    snapshot: str,
) -> Rise:
    """What charges for some releases of a snapshot, one after the other, would do."""
    known: dict[str, Known] = {}
    now, price, steps = list(paying), NOTHING, list[Step]()
    for at, (each, footprint) in enumerate(parts, page.last() + 1):
        steps = taken(states, page, now, each, footprint, snapshot, at, known)
        then = []
        for payer, step in zip(now, steps, strict=True):
            purse = payer.purse
            joint = purse.joint
            if step.trial is not None:
                known[purse.user] = step.trial.known
                joint = step.trial.known.joint
            after = purse.after(step.after, joint, purse.people)
            then.append(payers.Payer(after, payer.grant))
        now, price = then, price + each
    return rise_of(price, paying, now, steps)


def rise_of(
    price: Price,
    before: Sequence[payers.Payer],
    after: Sequence[payers.Payer],
    steps: Sequence[Step],
) -> Rise:
    exact = bool(steps[0].exact)
    return Rise(price, payers.balance(before), payers.balance(after), exact)
