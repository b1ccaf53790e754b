"""Whether all parts of a statement can be paid, before the first of them is."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.accounting.filter import holds
from dpsql.accounting.purse import Balance, Price, Rise
from dpsql.accounting.refusals import excess
from dpsql.errors import BudgetExceeded


def fits(balance: Balance, rises: Sequence[Rise], more: int) -> bool:
    """Whether every purse that would pay holds some rises, and `more` in pico of rho, all of them.

    Several rises are taken at their prices: what they come to together depends on their order.
    """
    own = sum(r.charged.rho if len(rises) == 1 else r.price.rho for r in rises)
    if not holds(balance.grant, balance.spent + Price(own + more, None)):
        return False
    for at, other in enumerate(balance.others):
        raised = sum(r.after.others[at].spent_rho - r.before.others[at].spent_rho for r in rises)
        if not holds(other.grant, other.spent + Price(raised + more, None)):
            return False
    return True


def require(rise: Rise) -> None:
    """Raise BudgetExceeded, of the first purse that would not hold it."""
    for before, after in zip(
        (rise.before, *rise.before.others), (rise.after, *rise.after.others), strict=True
    ):
        if not holds(before.grant, after.spent):
            raise BudgetExceeded(excess(before.grant, before.spent, rise.price, after.spent))
