"""Why a charge is refused, in words."""

from __future__ import annotations

from dpsql.accounting.convert import epsilon_of
from dpsql.accounting.payers import called, remedy
from dpsql.accounting.purse import EVERYBODY, LIMIT, Balance, Grant, Price, difference, ones
from dpsql.errors import BudgetExceeded, LedgerError


class Regranted(LedgerError):
    """The terms that a charge was chosen under are not in force any more: choose again."""


def require_room(after: Price) -> None:
    """Raises BudgetExceeded where a purse without a grant would come to more than one can hold."""
    if not after.rho <= LIMIT:
        raise BudgetExceeded(
            f"what the user spent would come to ρ={ones(after.rho)}, more than a purse can hold;"
            " nothing was charged"
        )


def excess(grant: Grant, spent: Price, price: Price, after: Price) -> str:
    """Why what comes to `after` cannot be paid: its cost, what is left, that nothing was charged.

    `price` is what the release costs alone, which is told where less would be charged.
    """
    balance, charged = Balance.of(grant, spent), difference(spent, after)
    who, aside = called(grant), remedy(grant)
    has = "have" if grant.user == EVERYBODY else "has"
    if grant.pure:
        if price.epsilon is None or charged.epsilon is None:
            return (
                f"release has no pure ε, and the grant of {who} is pure (δ=0)"
                f"{aside}: use the laplace backend; nothing was charged"
            )
        alone = f" (alone {ones(price.epsilon)})" if charged.epsilon < price.epsilon else ""
        return (
            f"release costs ε={ones(charged.epsilon)}{alone}, {who} {has}"
            f" ε={ones(balance.left_epsilon)} left of {ones(grant.epsilon_pico)}"
            f" (pure, δ=0){aside}; nothing was charged"
        )
    alone = f" (alone ρ={ones(price.rho)})" if charged.rho < price.rho else ""
    return (
        f"release costs {_shown(charged.rho, grant)}{alone}, {who} {has}"
        f" {_shown(balance.left_rho, grant)} left of ρ={ones(grant.rho)} (ε={grant.epsilon:g})"
        f" at δ={grant.delta:g}{aside}; nothing was charged"
    )


def _shown(rho: int, grant: Grant) -> str:
    """A cost in rho and, unless it is beyond all grants, in epsilon."""
    aside = f" (ε={epsilon_of(rho, grant.delta):.3g})" if rho <= LIMIT else ""
    return f"ρ={ones(rho)}{aside}"
