"""Entries of the ledger's log, as rows of a table and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from dpsql.accounting.clock import last_day
from dpsql.accounting.events import PICO
from dpsql.accounting.purse import EVERYBODY, Entry, Grant, Price
from dpsql.surfaces.figures import figure
from dpsql.surfaces.terminal import visible, visible_json


def row(entry: Entry) -> list[str]:
    """Number, time, user, dataset, what happened, what was spent before and after, statement."""
    statement = " ".join(entry.statement.split())
    when = entry.at[:19].replace("T", " ")
    who = entry.user or "everybody"
    fields = (when, who, entry.dataset, what(entry), spent(entry), statement)
    return [str(entry.seq), *map(visible, fields)]


def what(entry: Entry) -> str:
    """The entry in a few words."""
    match entry.kind:
        case "charge":
            return charge(entry)
        case "grant" | "cap" if entry.grant is not None:
            words = f"{entry.kind} {_terms(entry.grant)}"
        case "cap":
            words = "cap follows the largest grant"
        case "join" | "leave":
            words = f"{entry.kind}s {entry.group}"
        case "end":
            words = "grant ended"
        case "accept":
            words = f"taken as it stands: {entry.note}"
        case _:
            words = entry.kind
    return words if entry.cap is None else f"{words}; cap {_terms(entry.cap)}"


def charge(entry: Entry) -> str:
    """A charge: what it took, what it costs alone, and the mechanism with its noise.

    Of a reading, which draws no noise of its own, the entry that is read comes first.
    """
    words = f"{entry.note}:" if entry.note else "charge"
    made = (f"{words} {took(entry)}".strip(), by(entry))
    return ", ".join(part for part in made if part)


def took(entry: Entry) -> str:
    """What a charge took, and costs alone."""
    price = entry.price
    if price is None:
        return ""
    charged = entry.charged
    words = f"ρ {figure(charged.rho / PICO)}"
    if charged.rho < price.rho:
        words += f" (alone {figure(price.rho / PICO)})"
    if entry.exact is False:
        words += ", a bound"
    if charged.epsilon is not None:
        words += f", pure ε {figure(charged.epsilon / PICO)}"
    return words


def by(entry: Entry) -> str:
    """The mechanism of a charge, with its noise."""
    match entry.event:
        case {"event": "gaussian", "variance": variance, "sensitivity_squared": squared}:
            words = f"gaussian σ {figure(math.sqrt(Fraction(variance)))}"
            return words if squared == 1 else f"{words}, sensitivity {figure(math.sqrt(squared))}"
        case {"event": "laplace", "scale": scale}:
            return f"laplace b {figure(float(Fraction(scale)))}"
        case {"event": "above_threshold", "threshold_scale": once, "query_scale": each}:
            scales = [figure(float(Fraction(scale))) for scale in (once, each)]
            return f"sparse b {scales[0]} and {scales[1]}"
        case {"event": "noisy_max" | "exponential" as name, "scale": scale}:
            return f"{name.replace('_', ' ')} b {figure(float(Fraction(scale)))}"
        case {"event": "rounds", "each": {"variance": variance}, "times": times}:
            rounds = "a round" if times == 1 else f"{times} rounds"
            return f"{rounds}, gaussian σ {figure(math.sqrt(Fraction(variance)))}"
        case _:
            return ""


def spent(entry: Entry) -> str:
    """What each purse that paid had spent before and after."""
    if entry.kind != "charge":
        return ""
    if not entry.payments:
        return _moved(entry.before, entry.after)
    shown = [
        ("" if p.purse == entry.user else f"{p.purse or 'all'} ") + _moved(p.before, p.after)
        for p in entry.payments
    ]
    return ", ".join(shown)


def json_lines(entries: list[Entry]) -> Iterator[str]:
    """A list of objects, one a line; costs in ones."""
    yield "["
    for number, entry in enumerate(entries, 1):
        end = "," if number < len(entries) else ""
        yield f"  {visible_json(json.dumps(fields(entry), ensure_ascii=False))}{end}"
    yield "]"


def fields(entry: Entry) -> dict[str, Any]:
    """The entry as plain values; the purse of everybody, the cap, is null."""
    return {
        "seq": entry.seq,
        "at": entry.at,
        "kind": entry.kind,
        "user": None if entry.user == EVERYBODY else entry.user,
        "dataset": entry.dataset,
        "grant": _grant(entry.grant),
        "cap": _grant(entry.cap),
        "group": entry.group or None,
        "statement": entry.statement,
        "event": None if entry.event is None else dict(entry.event),
        "price": _ones(entry.price),
        "charged": None if entry.price is None else _ones(entry.charged),
        "exact": entry.exact,
        "snapshot": entry.snapshot or None,
        "spent": _ones(entry.after),
        "payments": [
            {"purse": p.purse or None, "before": _ones(p.before), "after": _ones(p.after)}
            for p in entry.payments
        ],
        "note": entry.note or None,
        "mac": entry.mac,
    }


def _terms(grant: Grant) -> str:
    until = f" until {last_day(grant.until)}" if grant.until else ""
    return f"ε {figure(grant.epsilon)} at δ {grant.delta:g}{until}"


def _moved(before: Price, after: Price) -> str:
    return f"{figure(before.rho / PICO)} → {figure(after.rho / PICO)}"


def _grant(grant: Grant | None) -> dict[str, Any] | None:
    if grant is None:
        return None
    found = {"epsilon": grant.epsilon, "delta": grant.delta, "rho": grant.rho / PICO}
    return {**found, "until": grant.until or None}


def _ones(price: Price | None) -> dict[str, float | None] | None:
    if price is None:
        return None
    pure = None if price.epsilon is None else price.epsilon / PICO
    return {"rho": price.rho / PICO, "epsilon": pure}
