"""The analyst's text and its tokens, as DuckDB's own tokenizer cuts it; places are characters."""

from __future__ import annotations

import bisect
import functools
import itertools
import re
import unicodedata
from itertools import accumulate
from typing import NamedTuple

from dpsql.errors import Refused
from dpsql.query.empty import tokens
from dpsql.query.expr import Span

MAX_LENGTH = 16_384  # characters of a statement
_TEXT_QUOTE = "the plain quote ' around a text, and \" around a name"
LOOKALIKES = {  # what word processors make of the signs of SQL, and what to write
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\xb4", _TEXT_QUOTE),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\xab\xbb\uff02\uff07", _TEXT_QUOTE),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "the plain minus: -"),
    **dict.fromkeys("\uff08\uff09", "plain parentheses: ( )"),
    "\uff0c": "the plain comma: ,",
    "\uff1b": "the plain semicolon: ;",
    "\uff0a": "the plain asterisk: *",
    "\uff1d": "the plain sign: =",
    "\uff1c": "the plain sign: <",
    "\uff1e": "the plain sign: >",
    "\u2264": "two signs: <=",
    "\u2265": "two signs: >=",
    "\u2260": "two signs: <>",
    "\xd7": "the plain asterisk: *",
    "\xf7": "the plain slash: /",
}
_NAMED = {"\ufeff": "a byte order mark, BOM"}
_QUOTES = ("'", '"', "$")
_MARKS = (*_QUOTES, "--", "/*")  # without which a token ends where blanks begin
_ROUND = {"(": 1, ")": -1}
_NESTS = {**_ROUND, "[": 1, "{": 1, "]": -1, "}": -1}
_MARK = re.compile(r"--|/\*|'|\"")


class Token(NamedTuple):
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
            self._offsets = _offsets(sql)
        except UnicodeEncodeError as error:
            raise self.refusal(
                "a lone surrogate, which is no character", Span(error.start, error.end)
            ) from None
        listed = tokens(sql)
        starts = [start for start, _ in listed]
        if self._offsets is not None:
            starts = [self._char(start) for start in starts]
        texts = [
            sql[start:end] for start, end in zip(starts, [*starts[1:], len(sql)], strict=False)
        ]
        alone = _alone if any([mark in sql for mark in _MARKS]) else str.rstrip
        self.tokens = [
            Token(kind, text, start, start + len(text))
            for (_, kind), start, text in zip(listed, starts, map(alone, texts), strict=True)
            if kind != "comment"
        ]
        self._check_characters()

    @functools.cached_property
    def _starts(self) -> list[int]:
        return [token.start for token in self.tokens]

    def given(self, sql: str) -> None:
        """Places that follow are of `sql`, the text with some of its characters blanked out."""
        if self._offsets is not None:
            self._offsets = _offsets(sql)

    def _char(self, offset: int) -> int:
        """The character that holds a byte offset."""
        if self._offsets is None:
            return offset
        return bisect.bisect_right(self._offsets, offset) - 1

    def place(self, start: int, length: int | None) -> Span:
        """The span of a construct at a byte offset; its length may be unknown (DuckDB 1)."""
        if length is not None and self._offsets is None:
            return Span(start, start + length)
        first = self._char(start)
        if length is not None:
            return Span(first, self._char(start + length))
        index = bisect.bisect_right(self._starts, first) - 1
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
        for token in itertools.islice(self.tokens, index, None):
            depth += _ROUND.get(token.text, 0)
            if depth == 0:
                return token.end
        return None

    def find(self, *words: str) -> Span | None:
        """The first of the tokens that are one of these words."""
        for token in self.tokens:
            if token.word in words:
                return Span(token.start, token.end)
        return None

    def fromless(self) -> Span | None:
        """The first SELECT that no FROM follows inside the same parentheses."""
        waiting: list[Token | None] = [None]
        for token in self.tokens:
            if token.text == "(":
                waiting.append(None)
            elif token.text == ")" and (len(waiting) == 1 or waiting[-1] is not None):
                break
            elif token.text == ")":
                waiting.pop()
            elif token.word == "SELECT" and waiting[-1] is None:
                waiting[-1] = token
            elif token.word == "FROM":
                waiting[-1] = None
        found = waiting[-1] or self.tokens[0]
        return Span(found.start, found.end)

    def parameter(self, name: str) -> Span | None:
        """The n-th `?`, for the parameter called n (DuckDB 1 does not place them)."""
        marks = [token for token in self.tokens if token.text == "?"]
        if not name.isdigit() or not 0 < int(name) <= len(marks):
            return None
        mark = marks[int(name) - 1]
        return Span(mark.start, mark.end)

    def quantified(self) -> Span | None:
        """The first ANY, SOME or ALL that follows a comparison, with what it is compared with."""
        for index, token in enumerate(self.tokens[1:-1], 1):
            after = self.tokens[index - 1].text[-1:] in ("=", "<", ">")
            if (
                after
                and token.word in ("ANY", "SOME", "ALL")
                and self.tokens[index + 1].text == "("
            ):
                return Span(token.start, self._closing(index + 1) or token.end)
        return None

    def inside(self, span: Span) -> Span:
        """What stands between the parentheses of a call: the first that open within `span`."""
        for index, token in enumerate(self.tokens):
            if token.start > span.start and token.text == "(":
                return Span(token.end, (self._closing(index) or len(self.sql)) - 1)
        return span

    def without(self, word: str, until: frozenset[str]) -> str:
        """The text without the clauses that start with a keyword and end before one of `until`.

        Words inside parentheses and brackets are not looked at.
        """
        kept, start, depth, cutting = [], 0, 0, False
        for token in self.tokens:
            depth += _NESTS.get(token.text, 0)
            if depth or token.kind != "keyword":
                continue
            if cutting and token.word in until:
                start, cutting = token.start, False
            elif not cutting and token.word == word:
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

    def too_deep(self) -> Refused:
        """What to raise for a statement that is nested more deeply than Python's stack has room
        for, which is a RecursionError wherever it is read."""
        return self.refusal(
            "the statement is nested too deeply",
            None,
            "a flatter statement, with fewer parentheses and CASEs inside each other",
        )

    def refusal(self, reason: str, span: Span | None = None, hint: str = "") -> Refused:
        """A refusal that quotes this text."""
        start, end = (None, None) if span is None else (span.start, span.end)
        return Refused(reason, hint=hint, sql=self.sql, start=start, end=end)

    def _check_characters(self) -> None:
        """Refuse blanks and marks that look like nothing: parsers disagree about them."""
        if self.sql.isascii() and self.sql.isprintable():
            return
        quoted = [(t.start, t.end) for t in self.tokens if t.text[:1] in _QUOTES]
        starts = [start for start, _ in quoted]
        for index, char in enumerate(self.sql):
            meant = LOOKALIKES.get(char)
            visible = char.isprintable() and not char.isspace()
            if char in " \n\r\t" or (visible and meant is None):
                continue
            at = bisect.bisect_right(starts, index) - 1
            if (at >= 0 and index < quoted[at][1]) or (visible and self._commented(index)):
                continue
            name = _NAMED.get(char) or unicodedata.name(char, f"U+{ord(char):04X}").lower()
            if meant is None:
                gap = "a plain blank in its place" if char.isspace() else "the statement without it"
                raise self.refusal(f"an invisible character ({name})", Span(index, index + 1), gap)
            raise self.refusal(f"{char} ({name}) is no sign of SQL", Span(index, index + 1), meant)

    def _commented(self, index: int) -> bool:
        """Whether a character stands outside all tokens: in a comment."""
        at = bisect.bisect_right(self._starts, index) - 1
        return at < 0 or index >= self.tokens[at].end


def _offsets(sql: str) -> list[int] | None:
    """The byte at which each character begins; None where that is its own number."""
    if len(sql.encode()) == len(sql):
        return None
    return list(accumulate((len(char.encode()) for char in sql), initial=0))


def _alone(text: str) -> str:
    """A token's text without the blanks and comments that follow it."""
    if text[:1] in _QUOTES:
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
