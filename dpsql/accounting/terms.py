"""What owners change: grants, caps and groups, on the page of a transaction, with its entry."""

from __future__ import annotations

import dataclasses
from typing import Literal

from dpsql.accounting import members
from dpsql.accounting.book import Page
from dpsql.accounting.caps import cap_of, fix, follow
from dpsql.accounting.clock import last_day
from dpsql.accounting.payers import Ended, absent
from dpsql.accounting.purse import NOTHING, Entry, Grant, Kind, Purse
from dpsql.errors import UsageError


def grant(page: Page, terms: Grant, cap: float | None, latest: str) -> Grant:
    """Put a grant in force, and the cap that it brings or that follows. Raises UsageError."""
    user, dataset = terms.user, terms.dataset
    if terms.ended(latest):
        seen = latest[:16].replace("T", " ")
        raise UsageError(
            f"until {last_day(terms.until)} has passed: the ledger has seen {seen} UTC"
        )
    purse = page.purse(user, dataset) or Purse(user, dataset, None, NOTHING)
    if terms.pure and purse.spent.epsilon is None:
        raise UsageError(
            f"{user} has paid on {dataset} for a release that has no pure epsilon, so the"
            " purse can keep no promise at delta = 0; grant with a delta above 0"
        )
    page.put(dataclasses.replace(purse, grant=terms))
    follows = follow(page, dataset, terms.at) if cap is None else None
    page.append(_entry(page, "grant", purse, at=terms.at, grant=terms, cap=follows))
    if cap is not None:
        set_cap(page, dataset, cap, terms.delta, terms.at)
    return terms


def revoke(page: Page, user: str, dataset: str, at: str) -> None:
    """End a grant and all memberships. Raises NoGrant where there are none."""
    purse = page.purse(user, dataset)
    if purse is None or (purse.grant is None and not purse.groups):
        raise absent(user, dataset)
    page.put(dataclasses.replace(purse, grant=None, groups=()))
    follows = follow(page, dataset, at)
    page.append(_entry(page, "revoke", purse, at=at, cap=follows))


def set_cap(page: Page, dataset: str, epsilon: float, delta: float | None, at: str) -> Grant:
    """Fix the cap. Raises UsageError."""
    before = cap_of(page, dataset)
    found = fix(page, dataset, epsilon, delta, at)
    page.append(_entry(page, "cap", before, at=at, grant=found))
    return found


def free_cap(page: Page, dataset: str, at: str) -> None:
    """Let the cap follow the largest grant."""
    before = cap_of(page, dataset)
    page.put(dataclasses.replace(before, fixed=False))
    page.append(_entry(page, "cap", before, at=at, cap=follow(page, dataset, at)))


def move(
    page: Page, kind: Literal["join", "leave"], user: str, group: str, dataset: str, at: str
) -> None:
    """Let a user join or leave a group. Raises UsageError."""
    act = members.join if kind == "join" else members.leave
    purse = act(page, user, group, dataset)
    page.append(_entry(page, kind, purse, at=at, group=group))


def end(page: Page, ended: Ended) -> None:
    """Let the log tell, once, that a grant has ended: from then on no clock opens it again."""
    found, tip = ended.grant, page.tip()
    purse = page.purse(found.user, found.dataset)
    if tip is None or purse is None or purse.grant != found or found.ended(tip.seen):
        return
    page.append(_entry(page, "end", purse, at=ended.at))


def _entry(
    page: Page,
    kind: Kind,
    purse: Purse,
    *,
    at: str,
    grant: Grant | None = None,
    cap: Grant | None = None,
    group: str = "",
) -> Entry:
    """The next entry, of a change that leaves what is spent alone."""
    return Entry(
        page.last() + 1, at, kind, purse.user, purse.dataset, purse.spent, purse.spent, grant,
        cap=cap, group=group,
    )  # fmt: skip
