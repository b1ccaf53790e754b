"""What the standard streams can show: width, box drawing, colour."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import sys
import unicodedata
from typing import TextIO

DRAWN = "┌┬┐├┼┤└┴┘─│±·ερδ√…█░≈"
_SPELT = str.maketrans(
    {
        "±": "+/-", "·": "|", "ε": "eps", "δ": "delta", "ρ": "rho", "√": "sqrt ", "…": "...",
        "≈": "~", "█": "#", "░": ".", "→": "->", "σ": "sigma",
    }
)  # fmt: skip
_NARROW = str.maketrans(dict.fromkeys(DRAWN, "."))


class Closed(io.TextIOBase):
    """The standard output of a process that was started without one: every write fails."""

    def write(self, text: str, /) -> int:
        raise OSError(errno.EBADF, "it is closed")


def closed(stream: TextIO) -> bool:
    """Whether nothing can be written to a standard stream."""
    return isinstance(stream, Closed)


def prepare() -> None:
    """Make the standard streams write what their encoding lacks as escapes, and never fail.

    Where the process was started without a stream, its input is empty, its output is `Closed` and
    its errors go nowhere. The numbers of such streams are taken, so that no file gets them.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the least number that is free
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 -- it lasts as long as the process
    if sys.stdout is None:
        sys.stdout = Closed()
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 -- as long, too
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def draws(stream: TextIO) -> bool:
    """Whether the stream's encoding has box drawing and the signs that we use."""
    try:
        DRAWN.encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def is_terminal(stream: TextIO) -> bool:
    """Whether a person watches the stream."""
    try:
        return stream.isatty()
    except (AttributeError, ValueError):
        return False


def width(stream: TextIO) -> int | None:
    """Columns of the terminal behind the stream; None where lines may be as long as they like."""
    if not is_terminal(stream):
        return None
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except OSError:
        columns = 0
    return max(columns, 20) if columns else 80


def coloured(stream: TextIO) -> bool:
    """Whether to colour: on a terminal that can, unless NO_COLOR asks not to."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return is_terminal(stream) and not plain


def paint(text: str, code: str, stream: TextIO) -> str:
    """The text in an ANSI colour where the stream shows colours."""
    return f"\x1b[{code}m{text}\x1b[0m" if text and coloured(stream) else text


def signs(text: str, stream: TextIO) -> str:
    """Our own words with signs that the stream lacks spelt in ASCII."""
    return text if draws(stream) else spelt(text)


def spelt(text: str) -> str:
    """Our own signs spelt in ASCII."""
    return text if text.isascii() else text.translate(_SPELT)


def say(text: str, stream: TextIO) -> None:
    """Write one line, in signs that the stream has."""
    stream.write(signs(text, stream) + "\n")


def joined(parts: list[str], columns: int | None, separator: str = " · ") -> str:
    """Parts on as few lines as fit in `columns`, broken between parts only."""
    lines: list[str] = []
    for part in parts:
        longer = f"{lines[-1]}{separator}{part}" if lines else part
        if lines and columns is not None and cells(longer) > columns:
            lines.append(part)
        else:
            lines[-1:] = [longer]
    return "\n".join(lines)


def cells(text: str) -> int:
    """Columns that the text takes on a terminal."""
    if text.isascii() or text.translate(_NARROW).isascii():  # most texts; spares an import
        return len(text)
    from wcwidth import wcswidth

    return max(wcswidth(f" {text} ") - 2, 0)  # between spaces, as in a table


def visible(text: str, keep: str = "") -> str:
    """The text with control and direction characters escaped, but for those in `keep`."""
    if text.isascii() and text.isprintable():
        return text
    joined_ = {at.start() for at in _JOINER.finditer(text)}
    return "".join(
        c if c in keep or at in joined_ or not _hidden(c) else _escape(c)
        for at, c in enumerate(text)
    )


def visible_json(text: str) -> str:
    """The same for a text in JSON, by escapes of JSON."""
    if text.isascii():
        return text
    return "".join(json.dumps(c)[1:-1] if not c.isascii() and _hidden(c) else c for c in text)


# Joiners are part of the spelling of other scripts, and of emoji: between two such characters.
_JOINER = re.compile(r"(?<=[^\x00-\xff\u200c\u200d])[\u200c\u200d](?=[^\x00-\xff\u200c\u200d])")
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")  # look like nothing


def _hidden(character: str) -> bool:
    kind = unicodedata.category(character)
    other = kind == "Zs" and character != " "
    return kind in ("Cc", "Cf", "Cs", "Zl", "Zp") or other or character in _BLANK


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def cut(text: str, columns: int, ellipsis: str) -> str:
    """The text, or its beginning and an ellipsis, in at most `columns` columns."""
    if cells(text) <= columns:
        return text
    room = columns - cells(ellipsis)
    if text.isascii():
        return text[:room] + ellipsis
    kept = text
    while kept and cells(kept) > room:
        kept = kept[:-1]
    return kept + ellipsis
