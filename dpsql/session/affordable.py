"""Whether all parts of a statement can be paid, before the first of them is."""

from __future__ import annotations

from dpsql.accounting.filter import holds
from dpsql.accounting.purse import Price, Rise
from dpsql.accounting.refusals import excess
from dpsql.errors import BudgetExceeded


def fits(rise: Rise, more: int) -> bool:
    """Whether every purse that would pay holds a rise, and `more` in pico of rho beside it."""
    after = (rise.after, *rise.after.others)
    return all(holds(each.grant, each.spent + Price(more, None)) for each in after)


def require(rise: Rise) -> None:
    """Raise BudgetExceeded, of the first purse that would not hold it."""
    for before, after in zip(
        (rise.before, *rise.before.others), (rise.after, *rise.after.others), strict=True
    ):
        if not holds(before.grant, after.spent):
            raise BudgetExceeded(excess(before.grant, before.spent, rise.price, after.spent))
