"""What an engine must give, whatever database it reads."""

from __future__ import annotations

from typing import Protocol

from dpsql.curator.cells import Cells
from dpsql.curator.sealed import Sealed
from dpsql.schema import Dataset

__all__ = ["Cells", "Engine"]


class Engine(Protocol):
    """Sparse counts of the rows that are in the dataset.

    A row is in the dataset when the value of every declared column lies in its domain (in a
    nullable column an outside value reads as NULL), whatever columns are asked for; a unit with
    more rows than its bound keeps that many. All faults are SourceError in words of ours.
    """

    @property
    def dataset(self) -> Dataset:
        """What is declared."""
        ...

    def counts(self, columns: tuple[str, ...]) -> Sealed[Cells]:
        """The non-empty cells of these columns; of none, the number of rows in one cell."""
        ...

    def ready(self) -> None:
        """See to it that the data can be counted, whatever is asked of it; ask before paying.

        Raises SourceError, in words that do not tell which row cannot be read.
        """
        ...

    def snapshot(self) -> str:
        """A public name of the data: another one for other files, schemas and keys.

        Raises SourceError once the data cannot be counted any more.
        """
        ...

    def interrupt(self) -> None:
        """Stop the running count from another thread; it raises KeyboardInterrupt there."""
        ...

    def close(self) -> None:
        """Let go of the database."""
        ...
