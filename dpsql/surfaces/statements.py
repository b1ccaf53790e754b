"""SQL text cut into statements at its semicolons."""

from __future__ import annotations

import re
from collections.abc import Iterator

# What a semicolon inside does not end: texts, quoted names, comments, dollar-quoted texts.
_PART = re.compile(
    r"""
      (?P<text>'(?:[^']|'')*' | "(?:[^"]|"")*")
    | (?P<line>--[^\n]*(?:\n|\Z))
    | (?P<block>/\*)
    | (?P<dollar>\$(?:[A-Za-z_\x80-\uffff][A-Za-z0-9_\x80-\uffff]*)?\$)
    | (?P<end>;)
    | (?P<open>['"])
    """,
    re.VERBOSE,
)
_BLOCK = re.compile(r"/\*|\*/")
_ESCAPED = re.compile(r"'(?:[^'\\]|\\.|'')*'", re.DOTALL)


def split(text: str) -> tuple[list[str], str]:
    """The statements that a semicolon ends (without it), and the text left over."""
    done: list[str] = []
    start = 0
    for end in _ends(text):
        done.append(text[start:end])
        start = end + 1
    return [statement for statement in done if not blank(statement)], text[start:]


def blank(text: str) -> bool:
    """Whether the text holds nothing but spaces and comments."""
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
        elif text.startswith("--", position):
            stop = text.find("\n", position)
            position = len(text) if stop < 0 else stop
        elif text.startswith("/*", position):
            position = after_block(text, position + 2)
        else:
            return False
    return True


def _ends(text: str) -> Iterator[int]:
    position = 0
    while match := _PART.search(text, position):
        position = match.end()
        match match.lastgroup:
            case "end":
                yield match.start()
            case "block":
                position = after_block(text, position)
            case "dollar":
                stop = text.find(match.group(), position)
                position = len(text) if stop < 0 else stop + len(match.group())
            case "text" if _is_escape(text, match.start()):
                found = _ESCAPED.match(text, match.start())
                position = len(text) if found is None else found.end()
            case "open":
                position = len(text)


def after_block(text: str, position: int) -> int:
    """Where a comment ends; comments nest."""
    depth = 1
    while depth and (found := _BLOCK.search(text, position)):
        depth += 1 if found.group() == "/*" else -1
        position = found.end()
    return len(text) if depth else position


def _is_escape(text: str, start: int) -> bool:
    """Whether a quote opens a text with backslash escapes: `E'...'`."""
    before = text[max(start - 2, 0) : start]
    return before[-1:] in ("e", "E") and not (before[:-1].isalnum() or before[:-1] in ("_", '"'))
