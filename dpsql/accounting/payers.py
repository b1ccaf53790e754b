"""Who pays: every purse that a user's questions are charged to, all of them or none.

They are the user's own; those of the groups that the user is in, and of the groups that these are
in; and the one of everybody, which holds the cap of the dataset. Each purse is a promise about what
its holders learn together, so each must be able to pay. The user's own purse pays without a grant,
too: it promises nothing then, and remembers what the user learnt for the day that it has one.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpsql.accounting.book import Page
from dpsql.accounting.caps import cap_of
from dpsql.accounting.clock import last_day, shown
from dpsql.accounting.purse import EVERYBODY, Balance, Grant, Price, Purse
from dpsql.errors import LedgerError, NoGrant, UsageError


@dataclass(frozen=True, slots=True)
class Payer:
    """A purse and its grant in force; a user's own may have none."""

    purse: Purse
    grant: Grant | None

    def at(self, spent: Price) -> Payer:
        """The same, when it has spent so much."""
        return Payer(dataclasses.replace(self.purse, spent=spent), self.grant)


class Ended(NoGrant):
    """The end of a grant has passed at the time `at`."""

    def __init__(self, grant: Grant, at: str, words: str) -> None:
        super().__init__(words)
        self.grant, self.at = grant, at


def payers(page: Page, user: str, dataset: str, clock: Callable[[], str]) -> list[Payer]:
    """Who pays for what `user` asks of `dataset`, the cap last.

    The user's own purse is first, or, without a grant, the last but one. Raises NoGrant without any
    grant, and for a group that has none in force by the clock or the latest time that is known.
    """
    found: list[tuple[Purse, Grant]] = []
    own = page.purse(user, dataset)
    if own is not None and own.grant is not None:
        found.append((own, own.grant))
    for group in _groups(page, own):
        if group.grant is None:
            raise NoGrant(
                f"{group.user}, a group of {user}, has no grant on {dataset}; the owner gives one"
                f" ({_command('grant', group.user, dataset)} --epsilon E) or takes {user} out"
                f" ({_command('group', group.user, dataset)} --remove {shlex.quote(user)})"
            )
        found.append((group, group.grant))
    if not found:
        raise absent(user, dataset)
    for grant in [grant for _, grant in found if grant.until]:  # else the time is nothing to it
        at = clock()
        now = max(at, page.seen())
        if grant.ended(now):
            raise Ended(grant, now, _ended(grant, now, at))
    cap = cap_of(page, dataset)
    if cap.grant is None:
        raise LedgerError(
            f"the ledger has grants on {dataset} and no cap, so it was changed by something else"
            " than dpsql; nothing is answered from it"
        )
    paying = [Payer(purse, grant) for purse, grant in found]
    if own is not None and own.grant is None:
        paying.append(Payer(own, None))
    return [*paying, Payer(cap, cap.grant)]


def newly_about(everybody: Purse, people: str) -> str:
    """`people`, if this is the dataset's first charge. Raises UsageError if they are others."""
    if not everybody.people:
        return people
    if people and people != everybody.people:
        raise UsageError(
            f"what was charged on {everybody.dataset} so far protects {everybody.people}; the"
            f" schema now declares {people}, and the two cannot be added up: give the dataset"
            " another name in the schema and grant anew, or restore the declaration; nothing was"
            " charged"
        )
    return ""


def _ended(grant: Grant, now: str, clock: str) -> str:
    """Why an ended grant pays nothing; whether a clock was, or is, wrong is the owner's to say."""
    words = (
        f"the grant of {grant.user} on {grant.dataset} ended: it was until"
        f" {last_day(grant.until)}; the owner gives another:"
        f" {_command('grant', grant.user, grant.dataset)} --epsilon E"
    )
    if grant.ended(clock):
        return words
    return (
        f"{words} (the latest time that the ledger has seen is {shown(now)}, this clock says"
        f" {shown(clock)}; if the clock was wrong then, the owner has time begin anew:"
        " dpsql budget verify DB --accept REASON)"
    )


def absent(user: str, dataset: str | None) -> NoGrant:
    """The error for a user without any grant, on any dataset where none is named."""
    on, of = (
        ("", "") if dataset is None else (f" on {dataset}", f" --dataset {shlex.quote(dataset)}")
    )
    return NoGrant(
        f"{user} has no grant{on}; the owner gives one:"
        f" dpsql budget grant DB {shlex.quote(user)} --epsilon E{of}"
    )


def held(page: Page, purse: Purse, now: str) -> Balance:
    """A purse with a grant beside those that pay as well, whether they can or not."""
    assert purse.grant is not None
    shared = [*_groups(page, purse), cap_of(page, purse.dataset)]
    others = tuple(Balance.of(other.grant, other.spent) for other in shared if other.grant)
    return Balance.of(purse.grant, purse.spent, others, purse.grant.ended(now))


def all_held(page: Page, now: str) -> list[Balance]:
    """All purses with a grant but the caps, by user and dataset."""
    return [
        held(page, purse, now)
        for purse in page.purses()
        if purse.user != EVERYBODY and purse.grant is not None
    ]


def paying(page: Page, user: str, now: str) -> list[Balance]:
    """The purses that pay for `user` on each dataset, the user's own first."""
    return [
        held(page, purse, now)
        for own in page.purses()
        if own.user == user
        for purse in (own, *_groups(page, own))
        if purse.grant is not None
    ]


def balance(found: Sequence[Payer]) -> Balance:
    """What the first payer holds, beside what the others do."""
    first, *others = [(p.grant, p.purse.spent) for p in found if p.grant is not None]
    return Balance.of(*first, tuple([Balance.of(grant, spent) for grant, spent in others]))


def called(grant: Grant) -> str:
    """The holder of a grant in a sentence."""
    if grant.user == EVERYBODY:
        return f"all users of {grant.dataset} together"
    return f"{grant.user} on {grant.dataset}"


def remedy(grant: Grant) -> str:
    """What to say of a cap that leaves too little."""
    if grant.user != EVERYBODY:
        return ""
    return f" (the dataset's cap; the owner moves it: {_cap(grant.dataset)})"


def grant_more(grant: Grant) -> str:
    """The command that raises a grant."""
    return f"{_command('grant', grant.user, grant.dataset)} --epsilon E"


def _cap(dataset: str) -> str:
    return f"dpsql budget cap DB --epsilon E --dataset {shlex.quote(dataset)}"


def _command(name: str, holder: str, dataset: str) -> str:
    return f"dpsql budget {name} DB {shlex.quote(holder)} --dataset {shlex.quote(dataset)}"


def _groups(page: Page, own: Purse | None) -> list[Purse]:
    """The purses of all groups that `own` belongs to, directly or through groups, nearest first."""
    if own is None:
        return []
    dataset = own.dataset
    found = {own.user: own}
    waiting = list(own.groups)
    for name in waiting:  # it grows
        if name not in found:
            found[name] = page.purse(name, dataset) or Purse(name, dataset, None, Price(0, 0))
            waiting += found[name].groups
    return list(found.values())[1:]
