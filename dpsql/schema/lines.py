"""Where the keys of a TOML file stand: the standard reader has no positions.

The file is known to parse. It is cut into statements (a header, or a key with its value), each the
shortest run of lines that parses by itself; a key stands on the first line of the statement that
first holds it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

Path: TypeAlias = tuple[str, ...]

_CLOSERS = ("]", "}", '"""', "'''")
"""A statement of several lines ends on a line that has one of these."""


def key_lines(text: str) -> dict[Path, int]:
    """The line, from 1, of every key of the file."""
    lines: dict[Path, int] = {}
    table: Path = ()
    for number, statement in _statements(text):
        fields = tomllib.loads(statement)
        if statement.lstrip().startswith("["):
            table = _header(fields)
            for depth in range(1, len(table) + 1):
                lines.setdefault(table[:depth], number)
        else:
            for path in _paths(fields, table):
                lines.setdefault(path, number)
    return lines


def line_of(path: Path, lines: Mapping[Path, int]) -> int | None:
    """The line of a key, or of the nearest table around it; None when the file has neither."""
    for depth in range(len(path), 0, -1):
        if path[:depth] in lines:
            return lines[path[:depth]]
    return None


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Each statement with the number of its first line."""
    pending: list[str] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        if not pending and (not line.strip() or line.lstrip().startswith("#")):
            continue
        pending.append(line)
        if len(pending) == 1 or any(closer in line for closer in _CLOSERS):
            statement = "\n".join(pending)
            if _parses(statement):
                yield number - len(pending) + 1, statement
                pending = []


def _parses(statement: str) -> bool:
    try:
        tomllib.loads(statement)
    except ValueError:
        return False
    return True


def _header(fields: Mapping[str, Any]) -> Path:
    """The path of the one table, or list of tables, that a header opens."""
    path: list[str] = []
    inner: Any = fields
    while inner:
        if isinstance(inner, list):
            inner = inner[-1]
            continue
        key, inner = next(iter(inner.items()))
        path.append(key)
    return tuple(path)


def _paths(fields: Mapping[str, Any], table: Path) -> Iterator[Path]:
    for key, value in fields.items():
        yield (*table, key)
        if isinstance(value, dict):
            yield from _paths(value, (*table, key))
