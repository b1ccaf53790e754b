"""Every exception that dpsql raises on purpose.

Error
├── Refused            the SQL is outside what is answered; nothing was read, nothing charged
├── UsageError         a setting, an argument or a parameter is wrong
├── SchemaError        a schema file is wrong (all its problems at once)
├── OperationalError   something outside the statement's text says no
│   ├── Interrupted        the statement was stopped by another thread (Ctrl-C is KeyboardInterrupt)
│   ├── SourceError        the database is missing, locked, corrupt or not what the schema declares
│   └── BudgetError        the ledger says no
│       ├── NoGrant            this user has no grant on this dataset
│       ├── BudgetExceeded     the price exceeds what is left
│       └── LedgerError        the ledger cannot be read or written
├── MissingExtra       an optional package is not installed
└── InternalError      a fault of ours; it never quotes data

A message depends on the analyst's text, the schema and the ledger alone, never on private data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar


class Error(Exception):
    """The root of all errors that dpsql raises.

    `charged` says what the statement took from the purse before the error, "" for nothing.
    """

    exit_code: ClassVar[int] = 70
    kind: ClassVar[str] = "error"
    charged: str = ""

    def __str__(self) -> str:
        words = super().__str__()
        return f"{words}\n{self.charged}" if self.charged else words

    def to_dict(self) -> dict[str, Any]:
        """The error as plain values, for JSON."""
        return {"error": self.kind, "message": str(self)}


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file of SQL; lines and columns count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Refused(Error):
    """The statement is not answered: `reason` says why, `hint` what to write instead.

    `start` and `end` are character offsets into `sql` of the construct that is refused; `place` is
    where that stands in a file of several statements.
    """

    exit_code = 1
    kind = "refused"

    def __init__(
        self,
        reason: str,
        *,
        hint: str = "",
        sql: str = "",
        start: int | None = None,
        end: int | None = None,
        place: Place | None = None,
    ) -> None:
        super().__init__(reason, hint, sql, start, end)
        self.reason, self.hint, self.sql, self.start, self.end = reason, hint, sql, start, end
        self.place = place

    @property
    def head(self) -> str:
        """What is refused, after its place in a file."""
        head = f"refused: {self.reason}"
        return head if self.place is None else f"{self.place}: {head}"

    def at(self, sql: str, start: int | None, end: int | None) -> Refused:
        """The same refusal with its place, unless it already has one."""
        if self.start is not None:
            return self
        return Refused(self.reason, hint=self.hint, sql=sql, start=start, end=end, place=self.place)

    def __str__(self) -> str:
        lines = [self.head, *self._quote()]
        if self.hint:
            lines.append(f"write instead: {self.hint}")
        lines.append("nothing was charged")
        return "\n".join(lines)

    def _quote(self) -> list[str]:
        """The line of the statement that holds the construct, and carets below it."""
        if not self.sql.strip() or self.start is None:
            return []
        start = min(max(self.start, 0), len(self.sql))
        first = self.sql.rfind("\n", 0, start) + 1
        last = self.sql.find("\n", start)
        last = len(self.sql) if last < 0 else last
        line = self.sql[first:last].replace("\t", " ")
        stop = min(max(self.end or start + 1, start + 1), max(last, start + 1))
        left = start - first
        width = stop - start
        if len(line) > 160:  # show the neighbourhood of the construct only
            cut = max(0, left - 60)
            line, left = line[cut : cut + 160], left - cut
            width = min(width, len(line) - left)
        return [f"  {line}", "  " + " " * left + "^" * max(width, 1)]

    def to_dict(self) -> dict[str, Any]:
        at = self.place
        return {
            "error": self.kind,
            "message": self.reason,
            "hint": self.hint,
            "sql": self.sql,
            "start": self.start,
            "end": self.end,
            **({} if at is None else {"file": at.file, "line": at.line, "column": at.column}),
            "charged": 0,
        }


class UsageError(Error):
    """A setting, an argument or a parameter is wrong; the message says what would do."""

    exit_code = 2
    kind = "usage"


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a schema file: where it stands, what was found, what would do."""

    file: str
    key: str
    line: int | None
    found: str
    fix: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        at = f"{place}: {self.key}: " if self.key else f"{place}: "
        return f"{at}{self.found}" + (f"; {self.fix}" if self.fix else "")


class SchemaError(Error):
    """A schema is wrong; `problems` holds every fault found."""

    exit_code = 2
    kind = "schema"

    def __init__(self, problems: tuple[Problem, ...] | str) -> None:
        if isinstance(problems, str):
            problems = (Problem("schema", "", None, problems, ""),)
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)

    def to_dict(self) -> dict[str, Any]:
        listed = [
            {"file": p.file, "key": p.key, "line": p.line, "found": p.found, "fix": p.fix}
            for p in self.problems
        ]
        return {"error": self.kind, "message": str(self), "problems": listed}


class OperationalError(Error):
    """Something outside the statement's text says no: the database or the ledger."""


class Interrupted(OperationalError):
    """The statement was stopped by `interrupt`; what it had charged by then stays charged."""

    exit_code = 130
    kind = "interrupted"


class SourceError(OperationalError):
    """The database cannot be read as the schema declares it."""

    exit_code = 3
    kind = "source"


class BudgetError(OperationalError):
    """The ledger refuses; nothing was released."""

    exit_code = 4
    kind = "budget"


class NoGrant(BudgetError):
    """The user has no grant on the dataset."""


class BudgetExceeded(BudgetError):
    """The price of the statement exceeds what the purse has left."""


class LedgerError(BudgetError):
    """The ledger file cannot be opened, read or written; nothing is answered without it."""


class MissingExtra(Error):
    """An optional package is missing; the message gives the command that brings it.

    `rows` has the answer that was to be shown with it, None where there is none.
    """

    exit_code = 2
    kind = "package"
    rows: Any = None


class InternalError(Error):
    """A fault of dpsql itself. The charge stands; the message never quotes data."""

    exit_code = 70
    kind = "internal"
