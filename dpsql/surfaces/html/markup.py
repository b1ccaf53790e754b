"""Elements of HTML and SVG from Python: every text is escaped unless it was made here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

from dpsql.surfaces.terminal import visible

_VOID = frozenset({"meta", "br", "hr"})
_CLOSED = frozenset({"line", "rect", "circle", "path", "polyline", "polygon"})  # in SVG
_SIGNS = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})
_NONE = re.compile("[\ufdd0-\ufdef]|[^\x00-\uffff]|[\ufffe\uffff]")  # of these, some are no text


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


Content: TypeAlias = "str | Iterable[Content] | None"
Value: TypeAlias = "str | int | float | bool | None"


def text(given: str, keep: str = "") -> Html:
    """A text that is shown as it is; signs that would hide or turn it are spelt as escapes."""
    if not given.isascii():
        given = _NONE.sub(_spelt, given)
    return Html(visible(given, keep).translate(_SIGNS))


def _spelt(found: re.Match[str]) -> str:
    """A noncharacter as an escape: HTML has none."""
    sign = found.group()
    if ord(sign) & 0xFFFE == 0xFFFE or "\ufdd0" <= sign <= "\ufdef":
        return sign.encode("unicode_escape").decode("ascii")
    return sign


def el(name: str, /, *content: Content, **attributes: Value) -> Html:
    """An element. `class_` is class, and other underscores are hyphens; None and False leave out.

    Attributes are escaped as texts are.
    """
    made = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        written = key.rstrip("_").replace("_", "-")
        made.append(written if value is True else f'{written}="{_value(value)}"')
    opening = " ".join(made)
    if name in _VOID:
        return Html(f"<{opening}>")
    if name in _CLOSED and not content:
        return Html(f"<{opening}/>")
    return Html(f"<{opening}>{join(content)}</{name}>")


def join(content: Iterable[Content]) -> Html:
    """Contents one after the other."""
    return Html("".join(map(_content, content)))


def _content(item: Content) -> str:
    if item is None:
        return ""
    if isinstance(item, Html):
        return item
    return text(item) if isinstance(item, str) else join(item)


def _value(value: str | int | float) -> str:
    if isinstance(value, str):
        return value if isinstance(value, Html) else text(value)
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
