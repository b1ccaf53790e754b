"""Texts of a script as HTML: a little of Markdown, and everything else as it stands.

Paragraphs, lists, `##` headings, **strong**, *stressed*, `code` and [links](https://...). No HTML
of the text's own, no images, and no links but those to web pages and mail addresses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dpsql.surfaces.html.markup import Html, el, join, text

_INLINE = re.compile(
    r"`(?P<code>[^`]+)`"
    r"|\*\*(?P<strong>\S(?:[^*]*\S)?)\*\*"
    r"|(?<!\w)[*_](?P<em>[^\s*_](?:[^*_]*[^\s*_])?)[*_](?!\w)"
    r"|\[(?P<words>[^\[\]]+)\]\((?P<link>(?:https?://|mailto:)[^\s()<>\"']+)\)"
)
_HEADING = re.compile(r"#{1,6}\s+(.*)")
_ITEM = re.compile(r"[-*+]\s+(.*)")
_NUMBERED = re.compile(r"\d{1,3}[.)]\s+(.*)")


def prose(given: str, level: int) -> Html:
    """The paragraphs of a text; its headings are of this level."""
    blocks = re.split(r"\n\s*\n", given.strip())
    return join(made for block in blocks for made in _block(block.split("\n"), level))


def inline(given: str) -> Html:
    """A text of one line, or lines that run on."""
    made: list[Html] = []
    at = 0
    for found in _INLINE.finditer(given):
        made.append(text(given[at : found.start()]))
        at = found.end()
        match found.lastgroup:
            case "code":
                made.append(el("code", found["code"]))
            case "strong":
                made.append(el("strong", inline(found["strong"])))
            case "em":
                made.append(el("em", inline(found["em"])))
            case _:
                made.append(el("a", inline(found["words"]), href=found["link"]))
    made.append(text(given[at:]))
    return join(made)


def _block(lines: list[str], level: int) -> Iterator[Html]:
    """Headings, lists and paragraphs of lines that no blank one divides."""
    kind, held = "", list[str]()
    for line in (line.strip() for line in lines):
        heading, item = _HEADING.fullmatch(line), _ITEM.fullmatch(line)
        numbered = _NUMBERED.fullmatch(line)
        if heading is not None:
            yield from _closed(kind, held)
            kind, held = "", []
            if heading[1]:
                yield el(f"h{level}", inline(heading[1]))
            continue
        new = "ul" if item is not None else "ol" if numbered is not None else ""
        found = item or numbered
        if found is None:
            if kind and held:
                held[-1] += f" {line}"  # a line that goes on with the item
            elif line:
                held.append(line)
            continue
        if new != kind:
            yield from _closed(kind, held)
            kind, held = new, []
        held.append(found[1])
    yield from _closed(kind, held)


def _closed(kind: str, held: list[str]) -> Iterator[Html]:
    if not held:
        return
    if kind:
        yield el(kind, (el("li", inline(item)) for item in held))
    else:
        yield el("p", inline(" ".join(held)))
