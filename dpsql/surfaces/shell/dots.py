"""The shell's own commands: names, arguments, and psql's names for them."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, TypeAlias

from dpsql.errors import UsageError

Takes: TypeAlias = Literal["", "command", "dataset", "mode", "switch", "file", "sql", "setting"]

MODES = ("table", "csv", "json", "markdown")
SWITCH = ("on", "off")
LEAVING = ("quit", "exit")  # without a dot, too
BARE = (*LEAVING, "help")


@dataclass(frozen=True)
class Dot:
    """A command; `takes` is the kind of its argument, `argument` how help writes it."""

    name: str
    argument: str
    summary: str
    takes: Takes = ""
    aliases: tuple[str, ...] = ()


DOTS = (
    Dot(".help", "[COMMAND]", "this text, or a line about one", "command", ("\\?", "\\h")),
    Dot(".schema", "[DATASET]", "columns and their domains", "dataset", ("\\d", "\\dt")),
    Dot(".budget", "[DATASET]", "what was granted, spent and is left", "dataset"),
    Dot(".explain", "[SQL]", "plan and price of a statement, or of the last one: free", "sql"),
    Dot(".chart", "[COLUMN]", "bars with error bars of the last answer"),
    Dot(".settings", "[NAME]", "settings of statements and of the shell", "setting", ("\\set",)),
    Dot(".mode", "FORMAT", "table, csv, json or markdown", "mode"),
    Dot(".output", "[FILE]", "answers go to a file, or to the screen again", "file", ("\\o",)),
    Dot(".read", "FILE", "answer the statements in a file", "file", ("\\i",)),
    Dot(".log", "[FILE|off]", "what you paid for, or a copy of all to a file", "file"),
    Dot(".timer", "on|off", "say how long a statement took", "switch", ("\\timing",)),
    Dot(".pager", "on|off", "long answers in a pager ($PAGER, or less)", "switch"),
    Dot(".ask", "on|off", "ask before more than 10 % of what is left is spent", "switch"),
    Dot(".quit", "", "leave (or Ctrl-D)", "", ("\\q", ".exit")),
)
_NAMED = {name: dot for dot in DOTS for name in (dot.name, *dot.aliases)}
_TYPE = "Type SQL, ended by a semicolon. Also SET epsilon = 0.1; SHOW TABLES; EXPLAIN SELECT ...;"
_KEYS = (
    "Enter answers what a semicolon ends, and else starts a line; Alt-Enter answers in any case.",
    "Tab completes keywords, datasets, columns and declared values; Ctrl-R finds what was typed.",
    r"Names of psql's work too: \? \d \o \i \timing \q",
)


def is_dot(line: str) -> bool:
    """Whether a line, at the start of a statement, is a command of the shell."""
    return line[:1] in (".", "\\") and not line[1:2].isdigit()


def cut(line: str) -> tuple[str, str]:
    """The command of a line, and its argument without quotes or semicolon."""
    name, _, rest = line.strip().partition(" ")
    if rest:
        return name, rest.strip().rstrip("; ").strip("'\"")
    return name.rstrip(";"), ""


def dot(name: str) -> Dot:
    """The command of a name or an alias. Raises UsageError, with what is near."""
    found = _NAMED.get(name) or _NAMED.get(name.lower())
    if found is None:
        sign = "\\" if name[:1] == "\\" else "."
        known = [known for known in _NAMED if known[0] == sign]
        near = get_close_matches(name.lower(), known, 1, 0.5) if len(name) > 2 else []
        hint = f"did you mean {near[0]}? " if near else ""
        raise UsageError(f"no command {name}; {hint}.help lists them")
    return found


def path(line: str) -> str | None:
    """The part of a path that is typed, where the command of a line takes a file."""
    name, blank, rest = line.partition(" ")
    found = _NAMED.get(name.lower()) or _NAMED.get(name)
    return rest.lstrip() if blank and found is not None and found.takes == "file" else None


def names() -> tuple[str, ...]:
    """All names, psql's last."""
    ours = tuple(dot.name for dot in DOTS)
    return (*ours, *(name for name in _NAMED if name not in ours))


def help_lines(name: str = "", width: int | None = None) -> list[str]:
    """What the commands do, or one of them. Raises UsageError for one that there is not."""
    if name:
        found = dot(name if is_dot(name) else f".{name}")
        also = f" (also {', '.join(found.aliases)})" if found.aliases else ""
        pairs = [(_usage(found), found.summary + also)]
        return _described(pairs, width)
    described = _described([(_usage(dot), dot.summary) for dot in DOTS], width)
    return [*_wrapped(_TYPE, width), *described, *(w for k in _KEYS for w in _wrapped(k, width))]


def _usage(dot: Dot) -> str:
    return f"{dot.name} {dot.argument}".rstrip()


def _described(pairs: list[tuple[str, str]], width: int | None) -> list[str]:
    """Each command and what it does, on one line where that fits, else on its own below it."""
    wide = max(len(usage) for usage, _ in pairs)
    if width is None or wide + 3 + max(len(words) for _, words in pairs) <= width:
        return [f"{usage:{wide}}   {words}" for usage, words in pairs]
    return [
        line for usage, words in pairs for line in (usage, *_wrapped(words, width, indent="  "))
    ]


def _wrapped(words: str, width: int | None, indent: str = "") -> list[str]:
    if width is None:
        return [indent + words]
    from textwrap import wrap

    return wrap(words, width, initial_indent=indent, subsequent_indent=indent)
