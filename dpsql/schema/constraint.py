"""What a CHECK constraint says about one column, where it says it simply.

Understood are AND of comparisons of the column with literals, BETWEEN, IN, and OR of equalities, in
the words that DuckDB's catalogue has for them. Anything else says nothing: a draft is then less
complete, never wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, TypeAlias

Literal: TypeAlias = "str | Decimal"
Token: TypeAlias = tuple[str, "str | Decimal"]

_TOKENS: Final = re.compile(
    r"""\s*(?: '(?P<text>(?:[^']|'')*)'
      | (?P<number>\d+\.?\d*(?:[eE][+-]?\d+)?)
      | "(?P<quoted>(?:[^"]|"")*)"
      | (?P<word>\w+)
      | (?P<sign><=|>=|<>|!=|==|[^\s\w'"]) )""",
    re.VERBOSE,
)
_KEYWORDS: Final = ("AND", "OR", "NOT", "IN", "BETWEEN", "CAST", "AS")
_MIRROR: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "==": "="}


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds and values that a column is held to; an open bound is itself outside."""

    low: Literal | None = None
    low_open: bool = False
    high: Literal | None = None
    high_open: bool = False
    values: tuple[Literal, ...] = ()


def limits(column: str, checks: Iterable[str]) -> Limits:
    """The limits that CHECK constraints put on a column."""
    known = Limits()
    for check in checks:
        body = re.sub(r"(?is)^\s*check\s*(?=\()", "", check)
        for part in _split(_bare(_tokens(body)), "AND"):
            known = _tighter(known, _limits(_bare(part), column.casefold()))
    return known


def _tokens(text: str) -> list[Token]:
    tokens: list[Token] = []
    for found in _TOKENS.finditer(text):
        kind, word = found.lastgroup or "", found[found.lastgroup or 0]
        match kind:
            case "text":
                tokens.append(("literal", word.replace("''", "'")))
            case "number":
                negative = tokens[-1:] == [("sign", "-")]
                if negative:
                    tokens.pop()
                tokens.append(("literal", -Decimal(word) if negative else Decimal(word)))
            case "word" if word.upper() in _KEYWORDS:
                tokens.append(("keyword", word.upper()))
            case "sign":
                tokens.append(("sign", word))
            case _:
                tokens.append(("name", word.replace('""', '"').casefold()))
    return _without_casts(tokens)


def _without_casts(tokens: Sequence[Token]) -> list[Token]:
    """CAST('2025-01-01' AS DATE) as the literal alone."""
    kept: list[Token] = []
    rest = list(tokens)
    while rest:
        match rest[:6]:
            case [
                ("keyword", "CAST"),
                ("sign", "("),
                ("literal", value),
                ("keyword", "AS"),
                ("name", _),
                ("sign", ")"),
            ]:
                kept.append(("literal", value))
                rest = rest[6:]
            case _:
                kept.append(rest.pop(0))
    return kept


def _bare(tokens: list[Token]) -> list[Token]:
    """Without the parentheses that hold the whole."""
    while tokens[:1] == [("sign", "(")] and _closing(tokens) == len(tokens) - 1:
        tokens = tokens[1:-1]
    return tokens


def _closing(tokens: Sequence[Token]) -> int:
    depth = 0
    for place, token in enumerate(tokens):
        depth += (token == ("sign", "(")) - (token == ("sign", ")"))
        if depth == 0:
            return place
    return -1


def _split(tokens: Sequence[Token], word: str) -> list[list[Token]]:
    """The parts between AND (or OR) outside parentheses; the AND of BETWEEN does not part."""
    parts: list[list[Token]] = [[]]
    depth = 0
    between = False
    for token in tokens:
        depth += (token == ("sign", "(")) - (token == ("sign", ")"))
        if token == ("keyword", word) and depth == 0 and not between:
            parts.append([])
            continue
        if depth == 0 and token in (("keyword", "BETWEEN"), ("keyword", "AND")):
            between = token == ("keyword", "BETWEEN")
        parts[-1].append(token)
    return parts


def _limits(tokens: list[Token], column: str) -> Limits:
    ors = _split(tokens, "OR")
    if len(ors) > 1:
        known = [_limits(_bare(part), column).values for part in ors]
        return (
            Limits(values=tuple(v for values in known for v in values)) if all(known) else Limits()
        )
    ands = _split(tokens, "AND")
    if len(ands) > 1:
        both = Limits()
        for part in ands:
            both = _tighter(both, _limits(_bare(part), column))
        return both
    match tokens:
        case [("name", name), ("sign", str() as sign), ("literal", value)] if name == column:
            return _compared(sign, value)
        case [("literal", value), ("sign", str() as sign), ("name", name)] if name == column:
            return _compared(_MIRROR.get(sign, ""), value)
        case [
            ("name", name),
            ("keyword", "BETWEEN"),
            ("literal", low),
            ("keyword", "AND"),
            ("literal", high),
        ] if name == column:
            return Limits(low=low, high=high)
        case [("name", name), ("keyword", "IN"), ("sign", "("), *listed, ("sign", ")")] if (
            name == column and all(kind == "literal" for kind, _ in listed[::2])
        ):
            return Limits(values=tuple(value for _, value in listed[::2]))
        case _:
            return Limits()


def _compared(sign: str, value: Literal) -> Limits:
    match sign:
        case "<" | "<=":
            return Limits(high=value, high_open=sign == "<")
        case ">" | ">=":
            return Limits(low=value, low_open=sign == ">")
        case "=" | "==":
            return Limits(values=(value,))
        case _:
            return Limits()


def _tighter(one: Limits, other: Limits) -> Limits:
    """Limits that hold where both do: the first that was said of each bound."""
    low = one if one.low is not None else other
    high = one if one.high is not None else other
    return Limits(low.low, low.low_open, high.high, high.high_open, one.values or other.values)
