"""Why a charge is refused, in words."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from dpsql.accounting.convert import epsilon_of
from dpsql.accounting.events import PICO
from dpsql.accounting.payers import called, grant_more, remedy
from dpsql.accounting.purse import EVERYBODY, LIMIT, Balance, Grant, Price, difference, ones
from dpsql.errors import BudgetExceeded, LedgerError

DIGITS = 4  # of a price in a message


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
        cost, left = _up(charged.epsilon), _down(balance.left_epsilon)
        alone = f" (alone {_up(price.epsilon)})" if charged.epsilon < price.epsilon else ""
        return (
            f"release costs ε={cost}{alone}, {who} {has} ε={left} left of {grant.epsilon:g}"
            f" (pure, δ=0){aside}; nothing was charged{_way_out(grant, balance)}"
        )
    cost, left = _up(charged.rho), _down(balance.left_rho)
    alone = f" (alone ρ={_up(price.rho)})" if charged.rho < price.rho else ""
    return (
        f"release costs ρ={cost}{_as_epsilon(charged.rho, grant)}{alone}, {who} {has}"
        f" ρ={left}{_as_epsilon(balance.left_rho, grant)} left of ρ={_down(grant.rho)}"
        f" (ε={grant.epsilon:g}) at δ={grant.delta:g}{aside}; nothing was charged"
        f"{_way_out(grant, balance)}"
    )


def within(balance: Balance) -> str:
    """What price all that pay can still pay."""
    if balance.grant.pure:
        left = f"ε={_down(balance.left_epsilon)}" if balance.left_epsilon else ""
    else:
        rho = balance.left_rho
        left = f"ρ={_down(rho)}{_as_epsilon(rho, balance.grant)}" if rho else ""
    return f": a price up to {left} can be paid, or the owner can grant more" if left else ""


def _way_out(grant: Grant, balance: Balance) -> str:
    """What can still be done with an own purse."""
    if grant.user == EVERYBODY:
        return ""
    left, unit = (balance.left_epsilon, "ε") if grant.pure else (balance.left_rho, "ρ")
    more = f"the owner can grant more: {grant_more(grant)}"
    return f"; a price up to {unit}={_down(left)} can be paid, or {more}" if left else f"; {more}"


def _as_epsilon(rho: int, grant: Grant) -> str:
    """A cost in epsilon, unless it is beyond all grants."""
    return f" (ε={epsilon_of(rho, grant.delta):.3g})" if rho <= LIMIT else ""


def _up(pico: int) -> str:
    return _rounded(pico, ROUND_CEILING)


def _down(pico: int) -> str:
    return _rounded(pico, ROUND_FLOOR)


def _rounded(pico: int, rounding: str) -> str:
    """With a few digits: a cost upwards, what is left downwards, so that they stay apart."""
    context = Context(prec=DIGITS, rounding=rounding)
    return f"{context.divide(Decimal(pico), Decimal(PICO)).normalize(context):f}"
