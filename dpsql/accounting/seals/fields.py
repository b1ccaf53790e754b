"""Entries and purses as plain fields: what is hashed, and what books keep as JSON.

Fields that are empty are left out, so that one added later changes nothing of what is written. The
meaning of a field never changes.
"""

from __future__ import annotations

import json
from typing import Any

from dpsql.accounting.purse import Entry, Grant, Payment, Price, Purse

TEXTS = ("group", "digest", "note", "footprint", "snapshot", "people", "token")  # of an entry

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def packed(fields: dict[str, Any]) -> str:
    """The fields as a line of JSON, always the same one."""
    return _encode(fields)


def unpacked(text: str | None) -> dict[str, Any]:
    """What `packed` wrote. Raises ValueError for anything else."""
    found = json.loads(text or "{}")
    if not isinstance(found, dict):
        raise ValueError("not a line of fields")
    return found


def traces(user: str) -> tuple[str, str]:
    """Texts of which one stands in the JSON of `entry_more` if the entry concerns the user.

    And only then: within the JSON of any other text, quotation marks are escaped.
    """
    name = json.dumps(user)
    return f"[{name},[", f'"group":{name}'


def entry_fields(entry: Entry) -> dict[str, Any]:
    """All of an entry but its mac."""
    fields = entry_more(entry) | {
        "seq": entry.seq,
        "at": entry.at,
        "kind": entry.kind,
        "user": entry.user,
        "dataset": entry.dataset,
        "before": _price(entry.before),
        "after": _price(entry.after),
        "seen": entry.seen,
        "state": entry.state,
    }
    if entry.grant is not None:
        fields["grant"] = _grant(entry.grant)
    if entry.price is not None:
        fields["price"] = _price(entry.price)
        fields["event"] = entry.event
        fields["statement"] = entry.statement
    return fields


def entry_more(entry: Entry) -> dict[str, Any]:
    """What only some entries have; books keep it together."""
    fields: dict[str, Any] = {}
    if entry.grant is not None and entry.grant.until:
        fields["until"] = entry.grant.until
    if entry.payments:
        fields["payments"] = [
            [payment.purse, _price(payment.before), _price(payment.after), *_exact(payment)]
            for payment in entry.payments
        ]
    if entry.cap is not None:
        fields["cap"] = _grant(entry.cap)
    if entry.stand:
        fields["stand"] = [purse_fields(purse) for purse in entry.stand]
    for name in TEXTS:
        if text := getattr(entry, name):
            fields[name] = text
    return fields


def more_of_entry(fields: dict[str, Any]) -> dict[str, Any]:
    """What `entry_more` wrote, as arguments of an Entry, `until` aside.

    Raises KeyError, TypeError or ValueError for anything else.
    """
    found: dict[str, Any] = {name: fields.get(name, "") for name in TEXTS}
    if "cap" in fields:
        found["cap"] = Grant(*fields["cap"])
    found["payments"] = tuple(
        Payment(purse, Price(*before), Price(*after), *exact)
        for purse, before, after, *exact in fields.get("payments", ())
    )
    found["stand"] = tuple(purse_of(purse) for purse in fields.get("stand", ()))
    return found


def purse_fields(purse: Purse) -> dict[str, Any]:
    """All of a purse."""
    fields: dict[str, Any] = {
        "user": purse.user,
        "dataset": purse.dataset,
        "spent": _price(purse.spent),
    }
    if purse.grant is not None:
        fields["grant"] = _grant(purse.grant)
    return fields | _shared(purse)


def purse_of(fields: dict[str, Any]) -> Purse:
    """What `purse_fields` wrote. Raises KeyError, TypeError or ValueError for anything else."""
    grant = Grant(*fields["grant"]) if "grant" in fields else None
    return Purse(
        fields["user"], fields["dataset"], grant, Price(*fields["spent"]), **more_of_purse(fields)
    )


def purse_more(purse: Purse) -> dict[str, Any]:
    """What only some purses have; books keep it together."""
    fields = _shared(purse)
    if purse.grant is not None and purse.grant.until:
        fields["until"] = purse.grant.until
    return fields


def more_of_purse(fields: dict[str, Any]) -> dict[str, Any]:
    """What `purse_more` wrote, as arguments of a Purse, `until` aside."""
    return {
        "groups": tuple(fields.get("groups", ())),
        "fixed": fields.get("fixed", False),
        "joint": fields.get("joint", ""),
        "people": fields.get("people", ""),
    }


def _shared(purse: Purse) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if purse.groups:
        fields["groups"] = list(purse.groups)
    if purse.fixed:
        fields["fixed"] = True
    for name in ("joint", "people"):
        if text := getattr(purse, name):
            fields[name] = text
    return fields


def _exact(payment: Payment) -> list[bool]:
    return [] if payment.exact is None else [payment.exact]


def _price(price: Price) -> list[int | None]:
    return [price.rho, price.epsilon]


def _grant(grant: Grant) -> list[Any]:
    return [
        grant.user, grant.dataset, grant.epsilon, grant.delta, grant.rho, grant.epsilon_pico,
        grant.at, grant.until,
    ]  # fmt: skip
