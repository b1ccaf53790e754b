"""Names and literals as SQL writes them."""

from __future__ import annotations

from collections.abc import Iterable


def name(*parts: str) -> str:
    """An identifier, qualified by the parts before the last."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def text(value: str) -> str:
    """A text literal."""
    return "'" + value.replace("'", "''") + "'"


def listed(values: Iterable[str]) -> str:
    """Text literals, between commas."""
    return ", ".join(map(text, values))


def cast(value: object, sql_type: str) -> str:
    """A literal of exactly this type, whatever sign or size its value has."""
    return f"CAST('{value}' AS {sql_type})"
