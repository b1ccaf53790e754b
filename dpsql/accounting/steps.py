"""What charges do to the purses that pay: one, and several after each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from dpsql.accounting import payers
from dpsql.accounting.book import Page
from dpsql.accounting.footprints.footprint import Footprint
from dpsql.accounting.footprints.states import Known, States, Trial
from dpsql.accounting.purse import NOTHING, Price, Rise


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


class Course:
    """Charges after each other, of which none is made: what they would do to the purses."""

    def __init__(self, states: States, page: Page, paying: Sequence[payers.Payer]) -> None:
        self._states, self._page, self._before = states, page, paying
        self._seq, self._known = page.last(), dict[str, Known]()
        self.paying, self._price, self._exact = list(paying), NOTHING, False

    def pay(
        self,
        price: Price,
        footprint: Footprint | None,
        snapshot: str,
        due: Collection[str] | None = None,
    ) -> None:
        """One charge more, which all purses pay, or those of the holders that are `due`."""
        self._seq += 1
        now = [p for p in self.paying if due is None or p.purse.user in due]
        steps = taken(
            self._states, self._page, now, price, footprint, snapshot, self._seq, self._known
        )
        after: dict[str, payers.Payer] = {}
        for payer, step in zip(now, steps, strict=True):
            purse = payer.purse
            joint = purse.joint
            if step.trial is not None:
                self._known[purse.user] = step.trial.known
                joint = step.trial.known.joint
            paid = purse.after(step.after, joint, purse.people)
            after[purse.user] = payers.Payer(paid, payer.grant)
        self.paying = [after.get(payer.purse.user, payer) for payer in self.paying]
        self._price += price
        self._exact = bool(steps and steps[0].exact)

    @property
    def rise(self) -> Rise:
        """What all of them would do together."""
        before, after = payers.balance(self._before), payers.balance(self.paying)
        return Rise(self._price, before, after, self._exact)


def rise_of(
    price: Price,
    before: Sequence[payers.Payer],
    after: Sequence[payers.Payer],
    steps: Sequence[Step],
) -> Rise:
    exact = bool(steps[0].exact)
    return Rise(price, payers.balance(before), payers.balance(after), exact)
