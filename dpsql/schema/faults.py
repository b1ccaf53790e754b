"""What can be wrong with a declaration: names, the unit, the source, the dataset as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal

from dpsql.errors import Problem, SchemaError
from dpsql.schema.kinds import MAX_ROWS, Neighbours


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong: the path of its key, what was found and what would do."""

    path: tuple[str, ...]
    found: str
    fix: str


def writable(text: str) -> bool:
    """Whether SQL and TOML can hold the text: no NUL, no half of a surrogate pair."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def name_of(value: object) -> str:
    """What a value of a TOML file is, in words."""
    match value:
        case bool():
            return "a boolean"
        case int():
            return "an integer"
        case float() | Decimal():
            return "a decimal number"
        case str():
            return "text"
        case datetime():
            return "a date with a time"
        case date():
            return "a date"
        case time():
            return "a time"
        case list() | tuple():
            return "a list"
        case dict():
            return "a table"
        case _:
            return f"a {type(value).__name__}"


def name_faults(name: str, path: tuple[str, ...], what: str) -> Iterator[Fault]:
    """Faults of a name; nearly any text is one."""
    if not name:
        yield Fault(path, f"the {what} is empty", "write at least one character")
    elif not writable(name):
        yield Fault(path, f"the {what} {name!r} has a character that SQL cannot hold", "rename it")


def same_names(names: Sequence[str]) -> Iterator[Fault]:
    """Columns that SQL could not tell apart."""
    seen: dict[str, str] = {}
    for name in names:
        first = seen.get(name.casefold())
        seen.setdefault(name.casefold(), name)
        if first is not None:
            found = f"{first!r} and {name!r} are one name to SQL, which ignores case"
            fix = "rename one; source = keeps the name that it has in the table"
            yield Fault(("columns", name), found, fix)


def unit_faults(column: str | None, max_rows: int) -> Iterator[Fault]:
    """Faults of a privacy unit."""
    if column is not None:
        yield from name_faults(column, ("column",), "name of the unit's column")
    elif max_rows != 1:
        yield Fault(("max_rows",), f"a row cannot be {max_rows} rows", "max_rows = 1 for rows")
    if column is not None and not 1 <= max_rows <= MAX_ROWS:
        fix = f"the most rows to keep for one unit, from 1 to {MAX_ROWS:,}"
        yield Fault(("max_rows",), f"max_rows is {max_rows}", fix)


def neighbours_faults(neighbours: Neighbours, column: str | None) -> Iterator[Fault]:
    """Replacing one is about rows only."""
    if neighbours is Neighbours.REPLACE_ONE and column is not None:
        found = f"replace-one is about rows, and the unit is {column!r}"
        yield Fault(("neighbours",), found, 'neighbours = "add-remove", or unit = "row"')


def append_only_faults(append_only: bool, column: str | None) -> Iterator[Fault]:
    """Rows that stay as they are say nothing about people who get more of them."""
    if append_only and column is not None:
        found = f"append_only is about rows, and the unit is {column!r}"
        yield Fault(("append_only",), found, 'remove append_only, or unit = "row"')


def source_faults(table: str | None, query: str | None, file: str | None) -> Iterator[Fault]:
    """Faults of a source: exactly one of the three, and not empty."""
    given = {"table": table, "query": query, "file": file}
    named = [key for key, value in given.items() if value is not None]
    if not named:
        fix = 'table = "...", or query = "SELECT ...", or file = "....parquet"'
        yield Fault((), "the source names nothing", fix)
    for key in named[1:]:
        yield Fault((key,), f"there is a {key} beside a {named[0]}", "keep one of them")
    for key in named:
        text = given[key] or ""
        empty = not text if key == "table" else not text.strip()
        if empty or not writable(text):
            yield Fault((key,), f"the {key} is empty or no text", "say where the rows are")


def synopses_faults(
    synopses: Sequence[tuple[str, tuple[str, ...]]], names: Sequence[str]
) -> Iterator[Fault]:
    """Faults of the synopses of a dataset with columns of these names."""
    known = {name.casefold() for name in names}
    for synopsis, columns in synopses:
        path = ("synopses", synopsis)
        yield from name_faults(synopsis, path, "name of the synopsis")
        if not columns:
            yield Fault(path, "the synopsis has no columns", "list columns, or remove the synopsis")
        seen: set[str] = set()
        for column in columns:
            if column.casefold() not in known:
                fix = "list declared columns only"
                yield Fault(path, f"there is no column {column!r}", fix)
            elif column.casefold() in seen:
                yield Fault(path, f"column {column!r} is listed twice", "list every column once")
            seen.add(column.casefold())


def refuse(what: str, faults: Iterable[Fault]) -> None:
    """Raise SchemaError with all the faults, if there are any."""
    problems = tuple(Problem(what, ".".join(f.path), None, f.found, f.fix) for f in faults)
    if problems:
        raise SchemaError(problems)
