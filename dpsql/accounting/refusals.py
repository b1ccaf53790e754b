"""Why a charge is refused, in words."""

from __future__ import annotations

from dpsql.accounting.convert import epsilon_of
from dpsql.accounting.payers import called, remedy
from dpsql.accounting.purse import EVERYBODY, LIMIT, Balance, Grant, Price, ones


def excess(grant: Grant, spent: Price, price: Price) -> str:
    """Why `price` cannot be paid: the price, what is left, and that nothing was charged."""
    balance = Balance.of(grant, spent)
    who, aside = called(grant), remedy(grant)
    has = "have" if grant.user == EVERYBODY else "has"
    if grant.pure:
        if price.epsilon is None:
            return (
                f"release has no pure ε, and the grant of {who} is pure (δ=0)"
                f"{aside}: use the laplace backend; nothing was charged"
            )
        return (
            f"release costs ε={ones(price.epsilon)}, {who} {has} ε={ones(balance.left_epsilon)}"
            f" left of {ones(grant.epsilon_pico)} (pure, δ=0){aside}; nothing was charged"
        )
    return (
        f"release costs {_shown(price.rho, grant)}, {who} {has}"
        f" {_shown(balance.left_rho, grant)} left of ρ={ones(grant.rho)} (ε={grant.epsilon:g})"
        f" at δ={grant.delta:g}{aside}; nothing was charged"
    )


def _shown(rho: int, grant: Grant) -> str:
    """A cost in rho and, unless it is beyond all grants, in epsilon."""
    aside = f" (ε={epsilon_of(rho, grant.delta):.3g})" if rho <= LIMIT else ""
    return f"ρ={ones(rho)}{aside}"
