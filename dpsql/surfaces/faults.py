"""Errors as an analyst sees them: text or JSON on standard error, and an exit code."""

from __future__ import annotations

import json
import os
import re
import sys
import traceback
from typing import Any, TextIO

from dpsql.errors import Error, Refused
from dpsql.release import Cost, charged_words
from dpsql.surfaces import terminal
from dpsql.surfaces.aim import Aim

INTERNAL = 70
_HEAD = re.compile(
    r"(?:[^ ].*?:\d+:\d+: )?((?:refused|interrupted|[a-z]+ error):)"
)  # after a place
INTERRUPTED = 130


def report(
    error: BaseException,
    *,
    as_json: bool,
    charged: Cost | None = None,
    owner: bool = False,
    aim: Aim | None = None,
) -> int:
    """Write the error to standard error and give its exit code.

    Commands that it advises name what `aim` names.
    """
    stream = sys.stderr
    if as_json:
        stream.write(json.dumps(_fields(error, charged, aim), ensure_ascii=True) + "\n")
    else:
        for line in text(error, charged, terminal.width(stream), aim).splitlines():
            terminal.say(_painted(line, stream), stream)
    if os.environ.get("DPSQL_DEBUG") == "1" and not isinstance(error, KeyboardInterrupt):
        stream.write(trace(error, owner=owner))
    return code(error)


def code(error: BaseException) -> int:
    """The exit code of an error."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return error.exit_code if isinstance(error, Error) else INTERNAL


def text(
    error: BaseException, charged: Cost | None, width: int | None, aim: Aim | None = None
) -> str:
    """The error in words.

    An unknown one is named by its type alone, for its own words may quote data.
    """
    match error:
        case Refused():
            return refusal(error, width)
        case KeyboardInterrupt():
            return f"interrupted: {charged_words(charged)}"
        case Error():
            said = str(error) if aim is None else aim.words(str(error))
            shown = terminal.visible(f"{error.kind} error: {said}", keep="\n")
            told = charged is None or error.charged
            return shown if told else f"{shown}\n{charged_words(charged)}"
        case _:
            return (
                f"internal error: {type(error).__name__}; this is a fault of dpsql\n"
                f"{charged_words(charged)}"
            )


def refusal(error: Refused, width: int | None) -> str:
    """The reason, the line of the statement with carets below the construct, and what to write."""
    lines = [error.head, *quote(error, width or 160)]
    if error.hint:
        lines.append(f"write instead: {error.hint}")
    return terminal.visible("\n".join([*lines, "nothing was charged"]), keep="\n")


def quote(error: Refused, width: int) -> list[str]:
    """The part of the statement about the construct, in `width` columns, and its carets."""
    if error.start is None or not error.sql.strip():
        return []
    sql = error.sql
    start = min(max(error.start, 0), len(sql))
    first = sql.rfind("\n", 0, start) + 1
    last = sql.find("\n", start)
    last = len(sql) if last < 0 else last
    stop = min(max(error.end or 0, start + 1), max(last, start + 1))
    room = min(width, 160) - 2
    if terminal.cells(_flat(sql[first:last])) > room:  # the neighbourhood of the construct only
        first = max(first, start - room // 3)
        last = min(last, first + room)
    line = _flat(sql[first:last])
    while terminal.cells(line) > room:
        line = line[:-1]
    left = terminal.cells(_flat(sql[first:start]))
    mark = max(min(terminal.cells(_flat(sql[start:stop])), terminal.cells(line) - left), 1)
    return [f"  {line}", "  " + " " * left + "^" * mark]


def _flat(line: str) -> str:
    return terminal.visible(line.replace("\t", " ").replace("\r", " "))


def trace(error: BaseException, *, owner: bool) -> str:
    """The stack of the error. Messages of unknown exceptions may quote private values: they are
    shown to owners, by the commands that only owners run."""
    if owner:
        return "".join(traceback.format_exception(error))
    lines: list[str] = []
    cause: BaseException | None = error
    while cause is not None:
        lines += traceback.format_tb(cause.__traceback__)
        lines.append(f"{type(cause).__name__}\n")
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return "".join(lines)


def _fields(error: BaseException, charged: Cost | None, aim: Aim | None) -> dict[str, Any]:
    match error:
        case KeyboardInterrupt():
            fields: dict[str, Any] = {"error": "interrupted", "message": text(error, charged, None)}
        case Error():
            fields = error.to_dict()
            if aim is not None and isinstance(fields.get("message"), str):
                fields["message"] = aim.words(fields["message"])
        case _:
            fields = {"error": "internal", "message": type(error).__name__}
    taken = None if charged is None else charged.to_dict()
    return {**fields, "charged": taken, "exit_code": code(error)}


def _painted(line: str, stream: TextIO) -> str:
    if found := _HEAD.match(line):
        return (
            line[: found.start(1)] + terminal.paint(found[1], "1;31", stream) + line[found.end() :]
        )
    return terminal.paint(line, "31", stream) if line.strip(" ^") == "" else line
