"""Purses in words: what was granted, spent and is left."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

from dpsql.accounting.caps import lifting
from dpsql.accounting.clock import last_day
from dpsql.accounting.convert import epsilon_of
from dpsql.accounting.events import PICO
from dpsql.accounting.purse import EVERYBODY, Balance, Grant
from dpsql.release import Budget, Cost
from dpsql.surfaces.figures import figure, percent, share
from dpsql.surfaces.terminal import visible

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


def terms(cost: Cost) -> str:
    """A cost in the grant's words: `ε 2.00 at δ 1e-06 (ρ 0.0689)`."""
    if cost.delta == 0:
        return f"ε {figure(cost.epsilon)} (pure, δ 0)"
    return f"ε {figure(cost.epsilon)} at δ {cost.delta:g} (ρ {figure(cost.rho)})"


def until_words(grant: Grant) -> str:
    """` until 2026-12-31`, or nothing."""
    return f" until {last_day(grant.until)}" if grant.until else ""


def holds(balance: Balance) -> bool:
    """Whether what is spent lies within the terms, so that they are true of all answers."""
    grant = balance.grant
    if grant.pure:
        return balance.spent_epsilon is not None and balance.spent_epsilon <= grant.epsilon_pico
    return balance.spent_rho <= grant.rho


def cap_words(balance: Balance) -> str:
    """The cap of a dataset: what all its users together may spend, and have."""
    purse = budget(balance)
    why = "set by the owner" if balance.fixed else "the largest grant"
    if not holds(balance):
        return f"at most {terms(purse.granted)}, {why}; more was answered before, and no more is"
    return f"at most {terms(purse.granted)}, {why}; ε {figure(purse.left.epsilon)} is left"


def lifted_words(balances: Sequence[Balance], cap: Balance) -> list[str]:
    """That a cap stands higher than its grants' epsilons, for one of them is pure."""
    granted = [b.grant for b in balances if b.grant.dataset == cap.grant.dataset]
    pure = None if cap.fixed else lifting(granted, cap.grant)
    if pure is None:
        return []
    return [
        f"The pure grant of {pure.user}, ε {figure(pure.epsilon)}, counts as ρ"
        f" {figure(cap.grant.rho / PICO)} beside grants with a delta, so the cap rises to ε"
        f" {figure(cap.grant.epsilon)} at δ {cap.grant.delta:g}; dpsql budget cap sets another."
    ]


def balance_lines(
    balance: Balance, members: Sequence[str], *, bar: bool, width: int | None
) -> Iterator[str]:
    """A purse of the ledger on a few lines: its members, its end, and what binds it."""
    purse, grant = budget(balance), balance.grant
    title = f"{grant.user} on {grant.dataset}"
    if members:
        title += f" (a group: {', '.join(members)})"
    until = until_words(grant)
    if balance.ended:
        until += ", ended"
    yield from purse_lines(purse, bar=bar, width=width, title=visible(title), until=until)
    for other in balance.others:
        if other.grant.user != EVERYBODY:
            yield f"  {visible(other.grant.user)} pays as well (ε left {figure(_left(other))})"
        elif _left(other) < _left(dataclasses.replace(balance, others=())):
            yield f"  no more than all users together have left (ε {figure(_left(other))})"


def idle_lines(group: str, dataset: str, members: Sequence[str]) -> Iterator[str]:
    """A group that was never granted anything."""
    yield visible(f"{group} on {dataset} (a group: {', '.join(members)})")
    yield "  no grant, so its members get no answers"


def cap_lines(balance: Balance, *, bar: bool, width: int | None) -> Iterator[str]:
    """The cap of a dataset on a few lines."""
    why = "set by the owner" if balance.fixed else "the largest grant"
    title = f"all users of {balance.grant.dataset} together (the cap, {why})"
    yield from purse_lines(budget(balance), bar=bar, width=width, title=visible(title))


def fields(balance: Balance, members: Sequence[str], caps: Sequence[Balance]) -> dict[str, Any]:
    """A purse and the cap of its dataset as plain values."""
    purse, grant = budget(balance), balance.grant
    (cap,) = (shared for shared in caps if shared.grant.dataset == grant.dataset)
    return {
        **purse.to_dict(),
        "default_queries_left": purse.default_queries_left,
        "until": grant.until or None,
        "ended": balance.ended,
        "members": list(members),
        "cap": {**budget(cap).to_dict(), "user": None, "fixed": cap.fixed},
    }


def _left(balance: Balance) -> float:
    return balance.left_epsilon / PICO


def purse_lines(
    purse: Budget, *, bar: bool, width: int | None = None, title: str = "", until: str = ""
) -> Iterator[str]:
    """A purse on a few lines, with a bar of what is spent."""
    part = share(purse.spent, purse)
    yield title or visible(f"{purse.user} on {purse.dataset}")
    yield f"  granted  {terms(purse.granted)}{until}"
    yield f"  spent    {terms(purse.spent)}"
    yield f"  left     {terms(purse.left)}"
    sign = "ρ" if purse.granted.delta else "ε"  # in which prices add up
    words = f"{percent(part)} of {sign} spent"
    if bar:
        size = BAR if width is None else max(min(BAR, width - 2 - len(words) - 2), 5)
        full = min(math.ceil(part * size), size) if part > 0 else 0
        words = "█" * full + "░" * (size - full) + "  " + words
    yield f"  {words}"
    count = purse.default_queries_left
    yield f"  {count:,} default quer{'y' if count == 1 else 'ies'} left (1 % of the grant each)"
