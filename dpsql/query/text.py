"""The analyst's text and its tokens, as DuckDB's own tokenizer cuts it; places are characters."""

from __future__ import annotations

import bisect
import re
import unicodedata
from dataclasses import dataclass
from itertools import accumulate

from dpsql.errors import Refused
from dpsql.query.empty import tokens
from dpsql.query.expr import Span

MAX_LENGTH = 16_384  # characters of a statement
_MARK = re.compile(r"--|/\*|'|\"")


@dataclass(frozen=True, slots=True)
class Token:
    """One token; `kind` is DuckDB's: keyword, identifier, operator, string_const, ..."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """The token in upper case, for keywords."""
        return self.text.upper()


class Text:
    """A statement's text with its tokens. Raises Refused for what cannot be read safely."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        if len(sql) > MAX_LENGTH:
            raise Refused(
                f"the statement has {len(sql):,} characters; at most {MAX_LENGTH:,} are read",
                hint="a shorter statement, or several",
            )
        if "\0" in sql:
            raise self.refusal("a NUL character", Span(sql.index("\0"), sql.index("\0") + 1))
        try:
            encoded = sql.encode()
        except UnicodeEncodeError as error:
            raise self.refusal(
                "a lone surrogate, which is no character", Span(error.start, error.end)
            ) from None
        self._offsets = (
            None
            if len(encoded) == len(sql)
            else list(accumulate((len(c.encode()) for c in sql), initial=0))
        )
        starts = [(self._char(start), kind) for start, kind in tokens(sql)]
        ends = [*(start for start, _ in starts), len(sql)][1:]
        self.tokens: list[Token] = []
        for (start, kind), end in zip(starts, ends, strict=True):
            text = sql[start:end]
            if kind != "comment":
                text = _without_comments(text)
                self.tokens.append(Token(kind, text, start, start + len(text)))
        self._check_characters()

    def _char(self, offset: int) -> int:
        """The character that holds a byte offset."""
        if self._offsets is None:
            return offset
        return bisect.bisect_right(self._offsets, offset) - 1

    def place(self, start: int, length: int | None) -> Span:
        """The span of a construct at a byte offset; its length may be unknown (DuckDB 1)."""
        first = self._char(start)
        if length is not None:
            return Span(first, self._char(start + length))
        index = bisect.bisect_right([token.start for token in self.tokens], first) - 1
        if index < 0:
            return Span(first, first + 1)
        token = self.tokens[index]
        end = max(token.end, first + 1)
        if index + 1 < len(self.tokens) and self.tokens[index + 1].text == "(":
            end = self._closing(index + 1) or end
        return Span(first, end)

    def _closing(self, index: int) -> int | None:
        """The end of the parenthesis that opens at token `index`."""
        depth = 0
        for token in self.tokens[index:]:
            depth += {"(": 1, ")": -1}.get(token.text, 0)
            if depth == 0:
                return token.end
        return None

    def find(self, *words: str) -> Span | None:
        """The first of the tokens that are one of these words."""
        for token in self.tokens:
            if token.word in words:
                return Span(token.start, token.end)
        return None

    def inside(self, span: Span) -> Span:
        """What stands between the parentheses of a call: the first that open within `span`."""
        for index, token in enumerate(self.tokens):
            if token.start > span.start and token.text == "(":
                return Span(token.end, (self._closing(index) or len(self.sql)) - 1)
        return span

    def without(self, word: str, until: frozenset[str]) -> str:
        """The text without the clauses that start with `word` and end before a word of `until`.

        Words inside parentheses and brackets are not looked at.
        """
        kept, start, depth, cutting = [], 0, 0, False
        for token in self.tokens:
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(token.text, 0)
            if depth == 0 and cutting and token.word in until:
                start, cutting = token.start, False
            elif depth == 0 and not cutting and token.word == word:
                kept.append(self.sql[start : token.start])
                cutting = True
        return "".join(kept) if cutting else "".join(kept) + self.sql[start:]

    def open_quote(self) -> Span | None:
        """The quote of a text or a name that never ends."""
        at = 0
        while (found := _MARK.search(self.sql, at)) is not None:
            mark = found.group()
            if mark == "--":
                at = self.sql.find("\n", found.end())
            elif mark == "/*":
                at = self.sql.find("*/", found.end())
            else:
                at = found.start() + len(_quoted(self.sql[found.start() :]))
                if at - found.start() < 2 or self.sql[at - 1] != mark:
                    return Span(found.start(), len(self.sql))
            if at < 0:
                return None
        return None

    def unmatched(self) -> Span | None:
        """A parenthesis without its other half."""
        opened: list[Token] = []
        for token in self.tokens:
            if token.text == "(":
                opened.append(token)
            elif token.text == ")" and not opened:
                return Span(token.start, token.end)
            elif token.text == ")":
                opened.pop()
        return Span(opened[-1].start, opened[-1].end) if opened else None

    def refusal(self, reason: str, span: Span | None = None, hint: str = "") -> Refused:
        """A refusal that quotes this text."""
        start, end = (None, None) if span is None else (span.start, span.end)
        return Refused(reason, hint=hint, sql=self.sql, start=start, end=end)

    def _check_characters(self) -> None:
        """Refuse blanks and marks that look like nothing: parsers disagree about them."""
        if self.sql.isascii() and self.sql.isprintable():
            return
        quoted = [(t.start, t.end) for t in self.tokens if t.text[:1] in ("'", '"', "$")]
        starts = [start for start, _ in quoted]
        for index, char in enumerate(self.sql):
            if char in " \n\r\t" or (char.isprintable() and not char.isspace()):
                continue
            at = bisect.bisect_right(starts, index) - 1
            if at >= 0 and index < quoted[at][1]:
                continue
            name = unicodedata.name(char, f"U+{ord(char):04X}").lower()
            raise self.refusal(
                f"an invisible character ({name})",
                Span(index, index + 1),
                "the same statement with plain blanks",
            )


def _without_comments(text: str) -> str:
    """A token's text without the blanks and comments that follow it."""
    if text[:1] in ("'", '"', "$"):
        return text.rstrip() if text[0] == "$" else _quoted(text)
    for mark in ("--", "/*"):
        if (cut := text.find(mark)) > 0:
            text = text[:cut]
    return text.rstrip()


def _quoted(text: str) -> str:
    """The quoted token at the start of a text, up to its closing quote."""
    quote, at = text[0], 1
    while at < len(text):
        if text[at] == quote:
            if text[at + 1 : at + 2] != quote:
                return text[: at + 1]
            at += 1
        at += 1
    return text
