"""The files that a dataset is read from: that they can be read, and whether they changed."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from dpsql.errors import SourceError

_SUFFIXES: Final = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".tsv": "csv",
    ".tsv.gz": "csv",
}


def format_of(path: Path) -> str:
    """What the name says that a file is: parquet, csv, or (any other name) a duckdb database."""
    name = path.name.lower()
    return next((form for end, form in _SUFFIXES.items() if name.endswith(end)), "duckdb")


def require(path: Path, what: str) -> None:
    """Raise SourceError unless `path` is a file that may be read; `what` names it in a message."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        raise SourceError(f"{what} does not exist: check its name and folder") from None
    except (OSError, ValueError) as error:
        raise SourceError(f"{what} cannot be reached: {_reason(error)}") from None
    if stat.S_ISDIR(found.st_mode):
        raise SourceError(f"{what} is a folder: name a .duckdb, .parquet or .csv file in it")
    if not stat.S_ISREG(found.st_mode):
        raise SourceError(f"{what} is not a regular file")
    if not os.access(path, os.R_OK, effective_ids=os.access in os.supports_effective_ids):
        raise SourceError(f"{what} may not be read by this user: ask its owner for permission")


def _reason(error: Exception) -> str:
    if isinstance(error, PermissionError):
        return "a folder above it may not be entered by this user"
    return "the operating system refuses its name"


class Stamp(NamedTuple):
    """A state of the files: their `content`, and when one was last `touched` in any way.

    `content` is the inode, size and time of change of each file, `device` where they are, and
    `touched` the time at which the file system last changed anything of them (ctime), which nobody
    can put back: a row edited in place, but also a new name or other permissions. None for a file
    that is not there.
    """

    device: tuple[int | None, ...]
    content: tuple[tuple[int, ...] | None, ...]
    touched: tuple[int | None, ...]

    def same_file(self, other: Stamp) -> bool:
        """Whether nothing says that another file is there now, or that it was written to."""
        return (self.device, self.content) == (other.device, other.content)


@dataclass(frozen=True, slots=True)
class Files:
    """The files behind a dataset: the one that was named, and its write-ahead log if any."""

    path: Path
    what: str

    def stamp(self) -> Stamp:
        """The state of the files now. Raises SourceError when the named file is gone."""
        path = str(self.path)
        first = _found(path)
        if first is None:
            raise SourceError(f"{self.what} is gone: put it back, then open it again")
        log = _found(f"{path}.wal")
        if log is None:
            return Stamp((first.st_dev, None), (_content(first), None), (first.st_ctime_ns, None))
        return Stamp(
            (first.st_dev, log.st_dev),
            (_content(first), _content(log)),
            (first.st_ctime_ns, log.st_ctime_ns),
        )


def _content(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_ino, found.st_size, found.st_mtime_ns)


def _found(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None
