"""Rows of a ledger's tables, the same in all books: purses and entries as columns, and back.

A column never changes its meaning. What only some rows have stands together, as JSON, in `more`.
"""

from __future__ import annotations

import json
import re
from typing import Any

from dpsql.accounting.purse import Entry, Grant, Price, Purse
from dpsql.accounting.seals.fields import (
    entry_more,
    more_of_entry,
    more_of_purse,
    packed,
    purse_more,
    unpacked,
)

FORMAT = 2  # of the tables and of what is written in them
NAME = re.compile("[0-9a-f]{4,64}")  # of a ledger; files are named after it

TERMS = ("epsilon", "delta", "rho", "epsilon_pico")
PURSE = ("user", "dataset", *TERMS, "at", "spent_rho", "spent_epsilon", "more")
ENTRY = (
    *("seq", "at", "kind", "user", "dataset"),
    *("before_rho", "before_epsilon", "after_rho", "after_epsilon"),
    *TERMS,
    *("statement", "event", "price_rho", "price_epsilon"),
    *("more", "seen", "state", "mac"),
)


def purse_row(purse: Purse) -> tuple[Any, ...]:
    """The columns PURSE of a purse."""
    return (
        purse.user,
        purse.dataset,
        *_terms(purse.grant),
        None if purse.grant is None else purse.grant.at,
        purse.spent.rho,
        purse.spent.epsilon,
        packed(purse_more(purse)),
    )


def purse_of_row(row: Any) -> Purse:
    """The purse of a row. Raises KeyError, TypeError or ValueError for what none wrote."""
    user, dataset, epsilon, delta, rho, pico, at, spent_rho, spent_epsilon, more = row
    fields = unpacked(more)
    until = fields.get("until", "")
    grant = None if at is None else Grant(user, dataset, epsilon, delta, rho, pico, at, until)
    return Purse(user, dataset, grant, Price(spent_rho, spent_epsilon), **more_of_purse(fields))


def entry_row(entry: Entry) -> tuple[Any, ...]:
    """The columns ENTRY of an entry."""
    price = entry.price
    return (
        entry.seq,
        entry.at,
        entry.kind,
        entry.user,
        entry.dataset,
        entry.before.rho,
        entry.before.epsilon,
        entry.after.rho,
        entry.after.epsilon,
        *_terms(entry.grant),
        None if price is None else entry.statement,
        None if entry.event is None else json.dumps(entry.event),
        None if price is None else price.rho,
        None if price is None else price.epsilon,
        packed(entry_more(entry)),
        entry.seen,
        entry.state,
        entry.mac,
    )


def entry_of_row(row: Any) -> Entry:
    """The entry of a row. Raises KeyError, TypeError or ValueError for what none wrote."""
    seq, at, kind, user, dataset = row[:5]
    before, after = Price(*row[5:7]), Price(*row[7:9])
    epsilon, delta, rho, pico, statement, event = row[9:15]
    more, seen, state, mac = row[17:]
    fields = unpacked(more)
    until = fields.get("until", "")
    granted = epsilon is not None
    grant = Grant(user, dataset, epsilon, delta, rho, pico, at, until) if granted else None
    price = None if event is None else Price(*row[15:17])
    written = None if event is None else json.loads(event)
    return Entry(
        seq, at, kind, user, dataset, before, after, grant, statement or "", written, price,
        seen=seen, state=state, mac=mac, **more_of_entry(fields),
    )  # fmt: skip


def paid(entry: Entry) -> list[str]:
    """The holders of the purses that paid for a footprint."""
    return [payment.purse for payment in entry.payments] if entry.footprint else []


def _terms(grant: Grant | None) -> tuple[float | int | None, ...]:
    if grant is None:
        return (None, None, None, None)
    return (grant.epsilon, grant.delta, grant.rho, grant.epsilon_pico)
