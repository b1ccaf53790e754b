"""The frame of a page: head, title, and what stands at its end."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from pathlib import Path

from dpsql.errors import UsageError
from dpsql.surfaces.html.markup import Content, Html, el, join, text
from dpsql.surfaces.html.scale import MONTHS
from dpsql.surfaces.html.style import CSS
from dpsql.surfaces.output import Target, text_writer, words_of

# Nothing may be loaded and nothing may run, whatever the page came to hold.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(
    title: str, header: Content, main: Content, footer: Content, *, wide: bool = False
) -> Html:
    """A whole document; a `wide` one has room for tables of many columns."""
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        el("meta", name="color-scheme", content="light dark"),
        el("title", title),
        el("style", Html(CSS)),
    )
    parts = [el("header", header), el("main", main), el("footer", footer)]
    body = el("body", parts, class_="wide" if wide else None)
    return join([Html("<!doctype html>\n"), el("html", head, Html("\n"), body, lang="en")])


def lines(made: Html) -> Iterable[str]:
    """A document as the lines of a file."""
    return made.split("\n")


def write(made: Html, path: Path) -> None:
    """Write a document to a file, which is whole or not there. Raises UsageError."""
    target = Target(path)
    try:
        target.place(text_writer(lines(made)))
    except OSError as error:
        raise UsageError(f"cannot write {path}: {words_of(error)}") from None
    finally:
        target.discard()


def tiles(listed: Sequence[tuple[str, str, str]]) -> Html:
    """Large figures side by side: what, how much, and more about it."""
    return el(
        "dl",
        (
            el("div", el("dt", what), el("dd", much, el("small", more) if more else None))
            for what, much, more in listed
        ),
        class_="tiles",
    )


def made_by(now: datetime.datetime, of: str) -> Html:
    """By what and when a page was made."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        number = " " + version("dpsql")
    except PackageNotFoundError:
        number = ""
    return el("p", text(f"Made by dpsql{number} on {moment(now)} UTC{of}."))


def moment(now: datetime.datetime) -> str:
    """A time as people write it."""
    return f"{now.day} {MONTHS[now.month - 1]} {now.year}, {now:%H:%M}"


def section(title: str, name: str, *content: Content) -> Html:
    """A part of a page under its heading; `name` is the heading's id."""
    return el("section", el("h2", title, id=name), *content, aria_labelledby=name)


def whole(words: str) -> Html:
    """Words that are not broken over lines."""
    return el("span", words, class_="nw")


def counted(number: int, word: str) -> str:
    """So many of something."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"
