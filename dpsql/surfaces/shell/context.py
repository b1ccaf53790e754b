"""What may stand where the cursor is, told from the tokens about it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from dpsql.query.keywords import RESERVED
from dpsql.surfaces.shell.scan import Token, statement

Kind: TypeAlias = Literal[
    "nothing", "start", "query", "dataset", "show", "describe", "setting", "choice", "value",
    "column", "operand", "next", "by", "above",
]  # fmt: skip

COMPARED = frozenset(["=", "==", "<>", "!=", "<", "<=", ">", ">=", "LIKE", "ILIKE"])
CLAUSES = (
    "SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "WITH", "UNION",
)  # fmt: skip
_VALUES = frozenset(["NULL", "TRUE", "FALSE", "END", "ALL", "ASC", "DESC"])  # reserved, and whole
_LITERALS = frozenset(["text", "number"])


@dataclass(frozen=True)
class Place:
    """What may come next, and the part of it that is typed already.

    `word` is that part without its opening `quote`. `clause` is the last keyword of a clause.
    `of` is what a value belongs to: (qualifier or "", column), or ("", setting); for columns it is
    (qualifier, ""). `names` has the name or alias of each source of the statement, with the
    dataset that it stands for, and `aliases` those that AS gave. `cased` inside a CASE.
    """

    kind: Kind
    word: str = ""
    quote: str = ""
    clause: str = ""
    of: tuple[str, str] = ("", "")
    names: tuple[tuple[str, str], ...] = ()
    aliases: tuple[str, ...] = ()
    cased: bool = False


def place(text: str, cursor: int) -> Place:
    """What may stand at the cursor in a text of SQL."""
    before, after = statement(text, cursor)
    if before and before[-1].kind == "comment":
        return Place("nothing")
    word = quote = ""
    if before and before[-1].end >= cursor and before[-1].kind not in ("sign",):
        last = before.pop()
        typed = text[last.start : cursor]
        if last.kind in ("text", "name"):
            quote = '"' if last.kind == "name" else "'"
            if typed.count(quote) % 2 == 0 or not typed.startswith(quote):
                return Place("nothing")
            word = typed[1:].replace(quote * 2, quote)
        else:
            word = typed
    kind, of = _kind(before, quote)
    whole, words = [*before, *after], [token.word for token in before]
    cased = words.count("CASE") > words.count("END")
    return Place(kind, word, quote, _clause(before), of, _names(whole), _aliases(whole), cased)


def _kind(before: Sequence[Token], quote: str) -> tuple[Kind, tuple[str, str]]:
    nothing = ("", "")
    if not before:
        return "start", nothing
    first, last = before[0].word, before[-1]
    if first in ("SET", "RESET", "SHOW", "DESCRIBE", "DESC") and (
        found := _ours(first, [token.text for token in before])
    ):
        return found
    if found := _option(before):
        return found
    if (of := _compared(before)) is not None:
        return "value", of
    if quote == "'":
        return "nothing", nothing
    match last.word:
        case "EXPLAIN":
            return "query", nothing
        case "FROM" | "JOIN" if not _inside_call(before):
            return "dataset", nothing
        case "." if len(before) > 1:
            return "column", (before[-2].value, "")
        case "(" if before[-2:-1] and before[-2].word in ("AS", "FROM"):
            return "query", nothing
        case "AS" | "LIMIT" | "OFFSET" | "ABOVE" | "FIRST":
            return "nothing", nothing
        case "GROUP" | "ORDER" | "PARTITION":
            return "by", nothing
    if last.kind == "number" and len(before) > 1 and before[-2].word == "FIRST":
        return "above", nothing
    return ("next" if _whole(last) else "operand"), nothing


def _ours(first: str, words: list[str]) -> tuple[Kind, tuple[str, str]] | None:
    """In a statement of ours: what follows its first words."""
    match first, len(words):
        case (("DESCRIBE" | "DESC"), 1):
            return "describe", ("", "")
        case "SHOW", 1:
            return "show", ("", "")
        case (("SET" | "RESET"), 1):
            return "setting", ("", first)
        case "SET", 3 if words[2].upper() in ("=", "TO"):
            return "choice", ("", words[1].lower())
        case _:
            return "nothing", ("", "")


def _option(before: Sequence[Token]) -> tuple[Kind, tuple[str, str]] | None:
    """In OPTIONS (name = value, ...)."""
    opened = _opened(before)
    if opened is None or opened == 0 or before[opened - 1].word != "OPTIONS":
        return None
    if before[-1].word in ("(", ","):
        return "setting", ("", "OPTIONS")
    if before[-1].word == "=" and len(before) > 1:
        return "choice", ("", before[-2].value.lower())
    return "nothing", ("", "")


def _opened(before: Sequence[Token], end: int | None = None) -> int | None:
    """The index of the last parenthesis that is open at the end."""
    depth = 0
    for at in range((len(before) if end is None else end) - 1, -1, -1):
        if before[at].text == ")":
            depth += 1
        elif before[at].text == "(":
            if depth == 0:
                return at
            depth -= 1
    return None


def _inside_call(before: Sequence[Token]) -> bool:
    """Whether the last parenthesis is that of a call: EXTRACT(year FROM day)."""
    opened = _opened(before)
    if opened is None or opened == 0:
        return False
    caller = before[opened - 1]
    inside = any(token.word == "SELECT" for token in before[opened:])
    return caller.kind == "word" and not _reserved(caller) and not inside


def _compared(before: Sequence[Token]) -> tuple[str, str] | None:
    """The column that what comes is compared with, as (qualifier, column); None for none."""
    words = [token.word for token in before]
    end = len(before)
    if words[-1] == "DATE":  # of a literal: day >= DATE '
        words, end = words[:-1], end - 1
    if not words:
        return None
    match words[-1]:
        case sign if sign in COMPARED:
            end -= 1
        case "FROM" if words[-2:-1] == ["DISTINCT"] and words[-3:-2] in (["IS"], ["NOT"]):
            end -= 3 if words[-3] == "IS" else 4
        case "BETWEEN":
            end -= 1
        case "AND" if end > 3 and (found := _between(words, before, end)) is not None:
            end = found
        case "(" | ",":
            found = _listed(words, before, end)
            if found is None:
                return None
            end = found
        case "WHEN":
            return _cased(words, before, end)
        case _:
            return None
    if end > 0 and words[end - 1] == "NOT":
        end -= 1
    return _column(before, end)


def _between(words: list[str], before: Sequence[Token], end: int) -> int | None:
    """For `column BETWEEN literal AND`, where BETWEEN is."""
    for at in range(end - 2, max(end - 6, 0), -1):
        if words[at] == "BETWEEN":
            return at
        if before[at].kind not in _LITERALS and words[at] not in ("-", "+", "DATE"):
            return None
    return None


def _listed(words: list[str], before: Sequence[Token], end: int) -> int | None:
    """For `column IN (literal, ...,`, where IN is."""
    opened = _opened(before, end)
    if opened is None or opened < 2 or words[opened - 1] != "IN":
        return None
    listed = before[opened + 1 : end]
    literal = all(t.kind in _LITERALS or t.word in (",", "-", "+", "DATE") for t in listed)
    return opened - 1 if literal else None


def _cased(words: list[str], before: Sequence[Token], end: int) -> tuple[str, str] | None:
    """For `CASE column WHEN ... WHEN`, the column."""
    depth = 0
    for at in range(end - 1, -1, -1):
        depth += (words[at] == "END") - (words[at] == "CASE")
        if depth < 0:
            stop = next((i for i in range(at, end) if words[i] == "WHEN"), end)
            return _column(before, stop) if stop > at + 1 else None
    return None


def _column(before: Sequence[Token], end: int) -> tuple[str, str] | None:
    """The bare column, with or without a qualifier, that ends before index `end`."""
    if end < 1 or not _names_something(before[end - 1]):
        return None
    name = before[end - 1].value
    if end > 2 and before[end - 2].text == "." and _names_something(before[end - 3]):
        return before[end - 3].value, name
    return "", name


def _names_something(token: Token) -> bool:
    return token.kind == "name" or (token.kind == "word" and not _reserved(token))


def _reserved(token: Token) -> bool:
    return token.kind == "word" and token.text.lower() in RESERVED


def _whole(last: Token) -> bool:
    """Whether an operand ends with this token, so that an operator or a clause comes."""
    if last.kind == "sign":
        return last.text in (")", "]", "?")
    if last.word in ("BY", "BETWEEN", "ESCAPE", "SETS", "OPTIONS"):
        return False
    return not _reserved(last) or last.word in _VALUES


def _clause(before: Sequence[Token]) -> str:
    """The keyword of the clause that the end is in, parentheses that ended left out."""
    depth = 0
    for at in range(len(before) - 1, -1, -1):
        token = before[at]
        if token.text == ")":
            depth += 1
        elif token.text == "(":
            depth = max(depth - 1, 0)
        elif depth == 0 and token.word in CLAUSES and before[at - 1].word != "DISTINCT":
            return token.word
    return ""


def _names(tokens: Sequence[Token]) -> tuple[tuple[str, str], ...]:
    """The names in FROM, and the aliases that stand for them."""
    found: list[tuple[str, str]] = []
    for at, token in enumerate(tokens[:-1]):
        if token.word != "FROM" or not _names_something(tokens[at + 1]):
            continue
        name = tokens[at + 1].value
        found.append((name, name))
        rest = tokens[at + 2 : at + 4]
        if rest and rest[0].word == "AS":
            rest = rest[1:]
        if rest and _names_something(rest[0]):
            found.append((rest[0].value, name))
    return tuple(found)


def _aliases(tokens: Sequence[Token]) -> tuple[str, ...]:
    """Names that AS gives to what is selected."""
    return tuple(
        dict.fromkeys(
            after.value
            for token, after in itertools.pairwise(tokens)
            if token.word == "AS" and _names_something(after)
        )
    )
