"""What a call asks: its statement, its settings, its price."""

from __future__ import annotations

import functools

from dpsql.errors import UsageError
from dpsql.query.parse import Ask, Statement, parse
from dpsql.session.settings import Settings

_KEPT = 256  # statements that are kept as they were read


def statement(sql: str) -> Statement:
    """The statement of a text. Raises UsageError for anything that is no text."""
    if not isinstance(sql, str):
        raise UsageError(f"a statement is a text (str), not {type(sql).__name__}")
    return parsed(sql)


@functools.lru_cache(_KEPT)
def parsed(sql: str) -> Statement:
    """The statement of a text, which is the same for everybody."""
    return parse(sql)


def effective(ask: Ask, settings: Settings) -> Settings:
    """What holds for a statement: its OPTIONS go before what was set. Raises Refused."""
    options: dict[str, str] = {}
    for option in ask.options:
        if option.name == "delta":
            continue
        options[option.name] = option.value
        try:
            Settings().with_values(options)
        except UsageError as error:
            raise ask.text.refusal(
                str(error), option.span, "OPTIONS (epsilon = 0.1, confidence = 0.99)"
            ) from None
    return settings.with_values(options)


def check_delta(ask: Ask, delta: float) -> None:
    """Refuse an OPTIONS clause whose delta is not the grant's."""
    for option in ask.options:
        if option.name != "delta":
            continue
        try:
            agrees = float(option.value) == delta
        except ValueError:
            agrees = False
        if not agrees:
            raise ask.text.refusal(
                f"delta is the grant's, {delta:g}; a statement cannot choose its own",
                option.span,
                f"OPTIONS without delta, or delta = {delta:g}",
            )
