"""Markdown: tables, code and docstrings, and tables that the README has."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def code(text: object) -> str:
    """Text as code, also where it holds backquotes or, in a table, bars."""
    words = str(text)
    return f"<code>{escape(words)}</code>" if "|" in words or "`" in words else f"`{words}`"


def plain(text: str) -> str:
    """Text of a message or a help, with nothing in it that Markdown would take for its own."""
    return re.sub(r"([\\*_\[\]])", r"\\\1", escape(text))


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "&#124;")


def table(head: Iterable[str], lines: Iterable[Iterable[str]]) -> Iterator[str]:
    heads = list(head)
    yield f"| {' | '.join(heads)} |"
    yield "|" + "---|" * len(heads)
    for line in lines:
        yield f"| {' | '.join(line)} |"
    yield ""


def marked(mark: str) -> list[str]:
    """The lines of a table of the README, which tests run, with links as they are from here."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(rf"<!-- {mark} -->\n((?:\|.*\n)+)", page)
    assert found, f"the README has no table {mark}"
    return [*found[1].replace("](docs/", "](../").splitlines(), ""]


def paragraphs(text: str) -> Iterator[str]:
    """A docstring as Markdown: what is set in columns stays so."""
    for part in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if re.search(r"\S {2,}\S|^ {2,}\S|[├└]", part, re.MULTILINE):
            yield from ("```", *part.splitlines(), "```", "")
        else:
            yield from (*part.splitlines(), "")
