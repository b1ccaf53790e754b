"""Why a text is no SQL: what DuckDB's parser does not read, in words of ours."""

from __future__ import annotations

import re
from itertools import zip_longest

from dpsql.errors import Refused
from dpsql.query.empty import EmptyError
from dpsql.query.expr import Span
from dpsql.query.keywords import RESERVED
from dpsql.query.text import Text, Token

_SIGNS = {"&&": "AND", "<=>": "IS NOT DISTINCT FROM", "===": "="}
_OPENS, _CLOSES = frozenset("([{"), frozenset(")]}")
_COMPARISONS = frozenset({"=", "==", "<", ">", "<=", ">=", "<>", "!="})
_BETWEEN = frozenset(
    {"AND", "OR", "NOT", "WHERE", "HAVING", "QUALIFY", "SELECT", "FROM", "GROUP", "ORDER", "BY",
     "LIMIT", "OFFSET", "UNION", "ON", "USING", "CASE", "WHEN", "THEN", "ELSE", "END", "AS",
     "BETWEEN", "FILTER", "OVER", ";"}
)  # fmt: skip
_ITEMLESS = frozenset({"FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", ")", ";"})
_COLUMNLESS = (["CUBE", "(", ")"], ["ROLLUP", "(", ")"])
EMPTY_LIST = "at least one value: IN (1, 2)"
_FILE = re.compile(r"[^\s;]+\.sql\s*;?", re.IGNORECASE)
_LETTERED = re.compile(r"\b\d+[^\W\d]\w*")  # digits, and letters right behind


def syntax(text: Text, found: list[Token], error: EmptyError, answered: str) -> Refused:
    """A refusal for a text that DuckDB's parser does not read, in words of ours."""
    if error.kind == "not implemented":
        return text.refusal(
            f"{found[0].word} is not a query that can be answered", _place(found[0]), answered
        )
    if _FILE.fullmatch(text.sql.strip()):
        return text.refusal(
            "the name of a file, which is no SQL", None,
            "dpsql run DB FILE, con.run(FILE) in Python, or .read FILE in the shell",
        )  # fmt: skip
    last = found[-1]
    bare = _without_items(found)
    if bare is not None:
        return text.refusal("SELECT without items", _place(bare), "SELECT COUNT(*) FROM ...")
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
    empty = next((i for i in range(len(words)) if words[i : i + 3] == ["IN", "(", ")"]), None)
    if empty is not None:
        place = Span(found[empty].start, found[empty + 2].end)
        return text.refusal("the list after IN is empty", place, EMPTY_LIST)
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
    without = next((i for i in range(len(words)) if words[i : i + 3] in _COLUMNLESS), None)
    if without is not None:
        place = Span(found[without].start, found[without + 2].end)
        return text.refusal(f"{words[without]} of no columns", place, "GROUP BY () for the total")
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
    chain = _chained(text, found)
    if chain is not None:
        return chain
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
    elif word == ":":
        hint += "; a parameter is written ? or $name"
    elif not at_end and word.lower() in RESERVED:
        hint += f'; a column or table of this name is written "{word}"'
    return text.refusal(
        f"a syntax error {after}: DuckDB's SQL does not allow this here", place, hint
    )


def _without_items(found: list[Token]) -> Token | None:
    """The SELECT that is followed by the next clause, or by nothing."""
    starts = {None, "(", ")", "ALL", "UNION", "EXCEPT", "INTERSECT"}
    for before, token, after in zip_longest([None, *found[:-1]], found, found[1:]):
        first = (None if before is None else before.word) in starts
        if first and token.word == "SELECT" and (after is None or after.word in _ITEMLESS):
            return token
    return None


def _chained(text: Text, found: list[Token]) -> Refused | None:
    """A refusal for `a < b < c`: two comparisons without AND or OR between them."""
    open_: list[tuple[int | None, int | None]] = [(None, None)]  # where operand and sign stand
    for index, token in enumerate(found):
        start, sign = open_[-1]
        if token.text in _CLOSES:
            open_ = open_[:-1] or [(None, None)]
        elif token.text == "," or token.word in _BETWEEN:
            open_[-1] = (None, None)
        elif token.text not in _COMPARISONS:
            open_[-1] = (index if start is None else start, sign)
            if token.text in _OPENS:
                open_.append((None, None))
        elif start is None or sign is None:
            open_[-1] = (start, index)
        else:
            last = _operand(found, index + 1)
            ends = (found[start].start, found[sign].start, found[sign].end, token.start)
            a, b, c = (
                text.sql[first:stop].strip()
                for first, stop in (ends[:2], ends[2:], (token.end, last.end))
            )
            if max(map(len, (a, b, c))) > 40:
                a, b, c = "a", "b", "c"
            return text.refusal(
                "a chained comparison",
                Span(found[start].start, last.end),
                f"{a} {found[sign].text} {b} AND {b} {token.text} {c}",
            )
    return None


def _operand(found: list[Token], index: int) -> Token:
    """The last token of the operand that starts at a token."""
    depth = 0
    last = found[index - 1]
    for token in found[index:]:
        depth += (token.text in _OPENS) - (token.text in _CLOSES)
        ends = token.text == "," or token.word in _BETWEEN or token.text in _COMPARISONS
        if depth < 0 or (depth == 0 and ends):
            break
        last = token
    return last


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
