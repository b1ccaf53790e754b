"""Rows that no ledger wrote: damage, or, for whoever verifies a ledger, left out and named."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from dpsql.errors import LedgerError

T = TypeVar("T")


class Unread:
    """The rows of a page that cannot be read, by their keys; an error unless it is `forgiving`."""

    def __init__(self, damage: LedgerError) -> None:
        self._damage = damage
        self.forgiving = False
        self.names: list[str] = []
        self.purses: list[tuple[Any, Any]] = []
        self.entries: list[int] = []

    def one(self, reader: Callable[[Any], T], row: Any) -> T:
        """What a row says. Raises LedgerError for one that cannot be read."""
        try:
            return reader(row)
        except (KeyError, TypeError, ValueError):
            raise self._damage from None

    def purses_of(self, reader: Callable[[Any], T], rows: Iterable[Any]) -> list[T]:
        """The purses of rows that begin with user and dataset."""

        def missing(row: Any) -> None:
            key = (row[0], row[1])
            if key not in self.purses:
                self.purses.append(key)
                who = f"{row[0]} on {row[1]}" if row[0] != "" else f"all users of {row[1]}"
                self.names.append(f"the purse of {who} cannot be read")

        return self._read(reader, rows, missing)

    def entries_of(self, reader: Callable[[Any], T], rows: Iterable[Any]) -> list[T]:
        """The entries of rows that begin with their number."""

        def missing(row: Any) -> None:
            if row[0] not in self.entries:
                self.entries.append(row[0])
                self.names.append(f"entry {row[0]} cannot be read")

        return self._read(reader, rows, missing)

    def _read(
        self, reader: Callable[[Any], T], rows: Iterable[Any], missing: Callable[[Any], None]
    ) -> list[T]:
        """What the rows say; a row that says nothing is `missing` if that is forgiven."""
        found = []
        for row in rows:
            try:
                found.append(self.one(reader, row))
            except LedgerError:
                if not self.forgiving:
                    raise
                missing(row)
        return found
