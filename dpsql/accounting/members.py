"""Groups: purses that several users share. A group is a purse with members.

What a member asks is paid by the group's purse, and by the member's own as well, which bounds it if
it has a grant. So what was asked within a group counts when the member is granted something later.
Membership stands in the member's purse. What was asked before joining is not charged to the group.
"""

from __future__ import annotations

import dataclasses

from dpsql.accounting.book import Page
from dpsql.accounting.purse import NOTHING, Purse
from dpsql.errors import UsageError


def join(page: Page, user: str, group: str, dataset: str) -> Purse:
    """Put `user` into `group`; gives the user's purse as it was. Raises UsageError."""
    if user == group:
        raise UsageError(f"{group} cannot be a member of itself")
    purse = page.purse(user, dataset) or Purse(user, dataset, None, NOTHING)
    if group in purse.groups:
        raise UsageError(f"{user} is in the group {group} of {dataset} already")
    page.put(dataclasses.replace(purse, groups=(*purse.groups, group)))
    return purse


def leave(page: Page, user: str, group: str, dataset: str) -> Purse:
    """Take `user` out of `group`; gives the user's purse as it was. Raises UsageError."""
    purse = page.purse(user, dataset)
    if purse is None or group not in purse.groups:
        raise UsageError(f"{user} is not in the group {group} of {dataset}")
    rest = tuple(name for name in purse.groups if name != group)
    page.put(dataclasses.replace(purse, groups=rest))
    return purse


def groups(page: Page) -> dict[tuple[str, str], tuple[str, ...]]:
    """The users in each group that has any, by group and dataset."""
    found: dict[tuple[str, str], list[str]] = {}
    for purse in page.purses():
        for group in purse.groups:
            found.setdefault((group, purse.dataset), []).append(purse.user)
    return {name: tuple(users) for name, users in found.items()}


def members(page: Page, group: str, dataset: str) -> tuple[str, ...]:
    """The users in `group`, by name."""
    return groups(page).get((group, dataset), ())
