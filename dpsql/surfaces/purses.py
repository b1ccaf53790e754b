"""Purses in words: what was granted, spent and is left."""

from __future__ import annotations

import math
from collections.abc import Iterator

from dpsql.accounting.convert import epsilon_of
from dpsql.accounting.events import PICO
from dpsql.accounting.purse import Balance
from dpsql.release import Budget, Cost
from dpsql.surfaces.figures import figure, percent, share

DEFAULT_SHARE = 100  # a statement without a price costs the grant divided by this
BAR = 30


def budget(balance: Balance) -> Budget:
    """A balance of the ledger in ones instead of pico."""
    grant = balance.grant
    if grant.pure:
        spent = Cost(balance.spent_rho / PICO, (balance.spent_epsilon or 0) / PICO, 0.0)
        granted = Cost(0.0, grant.epsilon_pico / PICO, 0.0)
        left = Cost(0.0, balance.left_epsilon / PICO, 0.0)
    else:
        spent = Cost(
            balance.spent_rho / PICO, epsilon_of(balance.spent_rho, grant.delta), grant.delta
        )
        granted = Cost(grant.rho / PICO, grant.epsilon, grant.delta)
        left = Cost(balance.left_rho / PICO, balance.left_epsilon / PICO, grant.delta)
    return Budget(granted, spent, left, grant.user, grant.dataset)


def questions_left(purse: Budget) -> int:
    """How many statements at the default price, 1 % of the grant, the purse can still pay."""
    part = share(purse.left, purse)
    return math.floor(part * DEFAULT_SHARE + 1e-9) if math.isfinite(part) else 0


def terms(cost: Cost) -> str:
    """A cost in the grant's words: `ε 2.00 at δ 1e-06 (ρ 0.0689)`."""
    if cost.delta == 0:
        return f"ε {figure(cost.epsilon)} (pure, δ 0)"
    return f"ε {figure(cost.epsilon)} at δ {cost.delta:g} (ρ {figure(cost.rho)})"


def purse_lines(purse: Budget, *, bar: bool, width: int | None = None) -> Iterator[str]:
    """A purse on a few lines, with a bar of what is spent."""
    part = share(purse.spent, purse)
    yield f"{purse.user} on {purse.dataset}"
    yield f"  granted  {terms(purse.granted)}"
    yield f"  spent    {terms(purse.spent)}"
    yield f"  left     {terms(purse.left)}"
    words = f"{percent(part)} spent"
    if bar:
        size = BAR if width is None else max(min(BAR, width - 2 - len(words) - 2), 5)
        full = min(math.ceil(part * size), size) if part > 0 else 0
        words = "█" * full + "░" * (size - full) + "  " + words
    yield f"  {words}"
    count = questions_left(purse)
    yield f"  {count:,} default quer{'y' if count == 1 else 'ies'} left (1 % of the grant each)"
