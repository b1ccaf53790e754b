"""Which statements are so dear that the shell asks before they are paid."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpsql.errors import Error
from dpsql.release import Budget, Cost, Plan
from dpsql.surfaces.figures import figure, percent

if TYPE_CHECKING:
    from dpsql.session import Session

MOST = 0.1  # of what is left, that a statement takes without a question
DEFAULT = 0.01  # of the grant: the price of a statement that has none of its own


def question(session: Session, sql: str) -> str:
    """What to ask before a statement that takes more than MOST of what is left; else nothing.

    It is found by its plan, which is free. What would be refused is left to be refused.
    """
    from dpsql.query.parse import Ask
    from dpsql.session.asked import statement

    try:
        asked = statement(sql)
        if not isinstance(asked, Ask) or (not asked.options and _cheap(session, asked.first)):
            return ""
        plan = session.explain(sql)
    except Error:
        return ""
    part = taken(plan)
    if not MOST < part <= 1:
        return ""
    assert plan.left is not None
    return (
        f"this would take {percent(part)} of what is left (price ε {figure(plan.price.epsilon)}"
        f" alone, ε left {figure(plan.left.left.epsilon)}): ask it? [y/N] "
    )


def taken(plan: Plan) -> float:
    """The part of what is left that a plan takes; 0 where it takes nothing or nobody pays."""
    if plan.charged is None or plan.left is None:
        return 0.0
    charged, left = _currency(plan.charged, plan.left), _currency(plan.left.left, plan.left)
    if not charged > 0:
        return 0.0
    return charged / left if left > 0 else math.inf


def _cheap(session: Session, first: object) -> bool:
    """Whether the default price is known to be little, so that no plan is needed."""
    settings = session.settings
    priced = (settings.epsilon, settings.rho, settings.accuracy) != (None, None, None)
    if priced or first is not None or settings.backend != "auto" or settings.whole != "off":
        return False
    try:
        purses = [session.budget(name) for name in session.datasets]
    except Error:  # one of several datasets has no grant
        return False
    return all(
        DEFAULT * _currency(purse.granted, purse) <= MOST * _currency(purse.left, purse)
        for purse in purses
    )


def _currency(cost: Cost, purse: Budget) -> float:
    """A cost in what the purse counts: rho, or epsilon where the grant is pure."""
    return cost.rho if purse.granted.delta > 0 else cost.epsilon
