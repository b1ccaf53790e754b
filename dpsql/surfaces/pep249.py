"""The names that PEP 249 gives a module: its exceptions, its codes of types, its constructors."""

from __future__ import annotations

import datetime
import time

from dpsql import errors
from dpsql.errors import InternalError, OperationalError, Refused, UsageError
from dpsql.surfaces.sheet import numeric

__all__ = [
    "BINARY", "DATETIME", "NUMBER", "ROWID", "STRING", "Binary", "DataError", "DatabaseError",
    "Date", "DateFromTicks", "Error", "IntegrityError", "InterfaceError", "InternalError",
    "NotSupportedError", "OperationalError", "ProgrammingError", "Time", "TimeFromTicks",
    "Timestamp", "TimestampFromTicks", "TypeCode", "Warning", "apilevel", "paramstyle",
    "threadsafety",
]  # fmt: skip

apilevel = "2.0"
threadsafety = 1  # threads share the module, each with a connection of its own
paramstyle = "qmark"

# A refused statement is both a programming error and one not supported.
Error = errors.Error
DatabaseError = errors.Error
InterfaceError = UsageError
ProgrammingError = Refused
NotSupportedError = Refused


class Warning(Exception):  # PEP 249 names it so
    """Never raised: a release carries its own notes."""


class DataError(DatabaseError):
    """Never raised: values outside the domain are not in the dataset."""


class IntegrityError(DatabaseError):
    """Never raised: nothing is written."""


class TypeCode:
    """A set of DuckDB types that compares equal to each of its members."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeCode):
            return self is other
        return isinstance(other, str) and _code(other) == self._name

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        return self._name


def _code(kind: str) -> str:
    base = kind.split("(")[0].split(" ")[0]
    if numeric(kind) or base == "BOOLEAN":
        return "NUMBER"
    if base.startswith(("DATE", "TIME", "INTERVAL")):
        return "DATETIME"
    return "BINARY" if base == "BLOB" else "STRING"


STRING, BINARY, NUMBER, DATETIME, ROWID = map(
    TypeCode, ("STRING", "BINARY", "NUMBER", "DATETIME", "ROWID")
)

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:
    """The local date of a time in seconds since the epoch."""
    return datetime.date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:
    """The local time of day of a time in seconds since the epoch."""
    return datetime.time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:
    """The local date and time of a time in seconds since the epoch."""
    return datetime.datetime(*time.localtime(ticks)[:6])
