"""Why a text is no SQL: what DuckDB's parser does not read, in words of ours."""

from __future__ import annotations

import re

from dpsql.errors import Refused
from dpsql.query.empty import EmptyError
from dpsql.query.expr import Span
from dpsql.query.keywords import RESERVED
from dpsql.query.text import Text, Token

_SIGNS = {"&&": "AND", "<=>": "IS NOT DISTINCT FROM", "===": "="}
_LETTERED = re.compile(r"\b\d+[^\W\d]\w*")  # digits, and letters right behind


def syntax(text: Text, found: list[Token], error: EmptyError, answered: str) -> Refused:
    """A refusal for a text that DuckDB's parser does not read, in words of ours."""
    if error.kind == "not implemented":
        return text.refusal(
            f"{found[0].word} is not a query that can be answered", _place(found[0]), answered
        )
    last = found[-1]
    opened = text.open_quote()
    if opened is not None:
        quote = text.sql[opened.start]
        what = "text" if quote == "'" else "name"
        return text.refusal(
            f"a quoted {what} that does not end",
            opened,
            f"the closing quote ({quote}) after the {what}",
        )
    single = text.unmatched()
    if single is not None:
        opens = text.sql[single.start] == "("
        return text.refusal(
            "a parenthesis that is never closed"
            if opens
            else "a parenthesis that was never opened",
            single,
            "a ) for every (",
        )
    words = [token.word for token in found]
    if "TOP" in words:
        at = found[words.index("TOP")]
        return text.refusal("TOP is of another dialect", _place(at), "LIMIT n at the end")
    if "FOR" in words and words[-1] in ("UPDATE", "SHARE", "NOWAIT", "LOCKED"):
        at = found[words.index("FOR")]
        return text.refusal(
            "a locking clause (FOR UPDATE, FOR SHARE)",
            Span(at.start, last.end),
            "the same SELECT without it",
        )
    if error.position is None and {"CUBE", "ROLLUP"} & set(words):
        return text.refusal(
            "more grouping sets than DuckDB reads",
            text.find("CUBE", "ROLLUP"),
            "fewer columns in CUBE or ROLLUP",
        )
    signs = next((token for token in found if token.text in _SIGNS), None)
    if signs is not None:
        reason = f"{signs.text} is no operator of DuckDB's SQL"
        return text.refusal(reason, _place(signs), _SIGNS[signs.text])
    if error.position is None:
        return text.refusal(
            "the statement is nested too deeply, or in a form that cannot be read",
            Span(found[0].start, last.end),
            "a flatter statement, with fewer parentheses and CASEs inside each other",
        )
    place = text.place(error.position, None)
    lettered = next(
        (m for m in _LETTERED.finditer(text.sql) if m.start() <= place.start <= m.end()), None
    )
    if lettered is not None:
        return _lettered(text, Span(*lettered.span()))
    at_end = place.start >= last.end
    after = f"after {last.text!r}" if at_end else f"near {text.sql[place.start : place.end]!r}"
    hint = "a SELECT in DuckDB's SQL; check commas, parentheses and keywords near the mark"
    word = text.sql[place.start : place.end]
    index = next((i for i, token in enumerate(found) if token.start == place.start), 0)
    if index and found[index - 1].word == "IS":
        hint = f"= {word}; IS is for NULL, TRUE and FALSE"
    elif not at_end and word.lower() in RESERVED:
        hint += f'; a column or table of this name is written "{word}"'
    return text.refusal(
        f"a syntax error {after}: DuckDB's SQL does not allow this here", place, hint
    )


def _lettered(text: Text, place: Span) -> Refused:
    """A refusal for letters that follow digits, hexadecimal numbers among them."""
    digits = text.sql[place.start : place.end]
    try:
        plain = str(int(digits, 0))
    except ValueError:
        return text.refusal(
            f"{digits} is neither a number nor a name",
            place,
            'a number, or the name in quotes: "..."',
        )
    return text.refusal(
        f"{digits} is no number of DuckDB's SQL", place, f"{plain}, the same number"
    )


def _place(token: Token) -> Span:
    return Span(token.start, token.end)
