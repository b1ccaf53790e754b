"""The tokens of SQL that is still being typed: nothing is refused, and quotes may be open.

For colours and completion alone; what is answered is read by DuckDB's tokenizer (`query.text`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from dpsql.surfaces.statements import after_block

LONGEST = 4_000  # characters that are looked at anew at each key; longer texts have no help
_TOKEN = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<comment>--[^\n]*|/\*)
    | (?P<text>[eE]'(?:[^'\\]|\\.|'')*(?P<escape_end>'?) | '(?:[^']|'')*(?P<text_end>'?))
    | (?P<name>"(?:[^"]|"")*(?P<name_end>"?))
    | (?P<dollar>\$(?:[^\W\d]\w*)?\$)
    | (?P<number>(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<word>[^\W\d]\w*)
    | (?P<sign><>|!=|<=|>=|==|::|\|\||.)
    """,
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """`kind` is word, name (in double quotes), text, number, sign or comment.

    `open` where a quote or a comment has no end as yet.
    """

    kind: str
    text: str
    start: int
    end: int
    open: bool = False

    @property
    def word(self) -> str:
        """The token in upper case, for keywords; a name in quotes is none."""
        return self.text.upper() if self.kind in ("word", "sign") else ""

    @property
    def value(self) -> str:
        """A text or a name without its quotes."""
        if self.kind not in ("text", "name"):
            return self.text
        quote = "'" if self.kind == "text" else '"'
        body = self.text.lstrip("eE") if self.kind == "text" else self.text
        return (body[1:] if self.open else body[1:-1]).replace(quote * 2, quote)


@lru_cache(8)
def scan(text: str) -> tuple[Token, ...]:
    """The tokens of a text, comments among them."""
    found: list[Token] = []
    position = 0
    while match := _TOKEN.match(text, position):
        kind, start, position = match.lastgroup or "", position, match.end()
        is_open = False
        match kind:
            case "space":
                continue
            case "escape_end" | "text_end" | "text":
                kind = "text"
                is_open = not (match["escape_end"] or match["text_end"])
            case "name_end" | "name":
                kind, is_open = "name", not match["name_end"]
            case "comment" if match.group() == "/*":
                position = after_block(text, position)
                is_open = position == len(text) and not text.endswith("*/")
            case "dollar":
                stop = text.find(match.group(), position)
                kind, is_open = "text", stop < 0
                position = len(text) if stop < 0 else stop + len(match.group())
        found.append(Token(kind, text[start:position], start, position, is_open))
    return tuple(found)


def statement(text: str, cursor: int) -> tuple[list[Token], list[Token]]:
    """The tokens of the statement about the cursor: those that begin before it, and those after.

    A token at whose end the cursor stands is among the first. Comments are left out, but for one
    in which the cursor stands, which is the last of the first.
    """
    before: list[Token] = []
    after: list[Token] = []
    for token in scan(text):
        ends = token.kind == "sign" and token.text == ";"
        if token.start < cursor:
            if ends:
                before = []
                continue
            inside = token.end > cursor or (token.end == cursor and not _closed(token))
            if token.kind != "comment" or inside:
                before.append(token)
        elif ends:
            break
        elif token.kind != "comment":
            after.append(token)
    return before, after


def _closed(token: Token) -> bool:
    """Whether what is typed behind a comment is no part of it."""
    return token.text.startswith("/*") and not token.open
