"""The cap of a dataset: what all its users together may learn.

A grant bounds what one user learns. Users who put their answers together hold the sum: ten users
of epsilon 1 at delta 1e-6 hold epsilon 3.5. So each charge is paid by the purse of everybody, too,
and the grant of that purse is the cap. Unless the owner fixes it, it is the largest single grant
in force on the dataset (to a user or a group), as if only one of them asked.

Grants in rho and pure grants are compared in rho, where a pure epsilon is at most
epsilon tanh(epsilon / 2). While all grants are pure, and nothing else was paid, so is the cap.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from dpsql.accounting.book import Page
from dpsql.accounting.convert import epsilon_of, pure_rho
from dpsql.accounting.purse import EVERYBODY, LIMIT, NOTHING, Grant, Price, Purse
from dpsql.errors import UsageError

USUAL_DELTA = 1e-6


def cap_of(page: Page, dataset: str) -> Purse:
    """The purse of everybody on `dataset`."""
    return page.purse(EVERYBODY, dataset) or Purse(EVERYBODY, dataset, None, NOTHING)


def granted(page: Page, dataset: str) -> list[Grant]:
    """The grants in force on `dataset`, to users and groups."""
    return [
        purse.grant
        for purse in page.purses()
        if purse.dataset == dataset and purse.user != EVERYBODY and purse.grant is not None
    ]


def largest(grants: Sequence[Grant], cap: Purse, at: str) -> Grant | None:
    """The cap that follows from the grants, None where there are none."""
    best = max(grants, key=most_rho, default=None)
    if best is None:
        return None
    everybody = dataclasses.replace(best, user=EVERYBODY, at=at, until="")
    deltas = [grant.delta for grant in grants]
    if cap.grant is not None:
        deltas.append(cap.grant.delta)
    if not best.pure:
        return everybody
    if not any(grant.delta for grant in grants) and cap.spent.epsilon is not None:
        return everybody
    delta = max(deltas) or USUAL_DELTA
    rho = most_rho(best)
    return dataclasses.replace(everybody, epsilon=epsilon_of(rho, delta), delta=delta, rho=rho)


def follow(page: Page, dataset: str, at: str) -> Grant | None:
    """Let the cap follow the grants, unless it is fixed; gives it if it moved."""
    cap = cap_of(page, dataset)
    grant = largest(granted(page, dataset), cap, at)
    if cap.fixed or grant is None or _same(grant, cap.grant):
        return None
    page.put(dataclasses.replace(cap, grant=grant))
    return grant


def fix(page: Page, dataset: str, epsilon: float, delta: float | None, at: str) -> Grant:
    """Set the cap. Its delta is the largest of the grants unless given. Raises UsageError."""
    cap = cap_of(page, dataset)
    if delta is None:
        deltas = [grant.delta for grant in granted(page, dataset)]
        delta = max(deltas) if deltas else USUAL_DELTA
    grant = Grant.of(EVERYBODY, dataset, epsilon, delta, at)
    if grant.pure and cap.spent.epsilon is None:
        raise UsageError(
            f"users of {dataset} have paid for a release that has no pure epsilon, so no cap at"
            " delta = 0 can hold; give a delta above 0"
        )
    page.put(dataclasses.replace(cap, grant=grant, fixed=True))
    return grant


def total(purses: Iterable[Purse]) -> Price:
    """What the holders of the purses have spent together."""
    spent = NOTHING
    for purse in purses:
        spent = spent + purse.spent
    return Price(min(spent.rho, LIMIT), spent.epsilon)


def most_rho(grant: Grant) -> int:
    """The most rho that can be spent under a grant."""
    return min(pure_rho(grant.epsilon_pico), LIMIT) if grant.pure else grant.rho


def lifting(grants: Iterable[Grant], cap: Grant) -> Grant | None:
    """The pure grant that a cap in rho is as large as, where the cap follows one."""
    found = (grant for grant in grants if grant.pure and most_rho(grant) == cap.rho)
    return None if cap.pure else next(found, None)


def _same(grant: Grant, other: Grant | None) -> bool:
    return other is not None and dataclasses.replace(grant, at=other.at) == other
