"""FOR THE OWNER OF THE DATA ALONE: whether the lines of a CSV file are its rows.

A quote that stays open swallows the lines after it, and a line that cannot be read is left out.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator

from dpsql.curator.engines import quote
from dpsql.curator.engines.connection import Connection
from dpsql.curator.engines.files import Files
from dpsql.curator.engines.reader import csv_text


def line_remarks(connection: Connection, files: Files) -> Iterator[str]:
    """What is worth a look where lines and rows differ: TRUE NUMBERS."""
    relation, names = csv_text(files)
    fields = (f"coalesce({_ends(quote.name(name))}, 0)" for name in names)
    read = f"SELECT {' + '.join(fields)} AS ends FROM {relation}"
    summed = f"SELECT count(*), coalesce(sum(ends), 0), coalesce(max(ends), 0) FROM ({read})"
    [(rows, ends, most)] = connection.rows(summed)
    lines = _lines(files) - 1  # but the header
    if lost := max(0, lines - int(rows) - int(ends)):
        yield (
            f"{lost:,} of {lines:,} lines are not read as rows: too few fields, a quote that "
            "stays open, or a text that is not UTF-8"
        )
    if ends:
        yield (
            f"quoted fields hold {int(ends):,} line ends, up to {int(most):,} in one row: if a "
            "quote was left open there, the lines after it are not read as rows"
        )


def _ends(field: str) -> str:
    """SQL for the line ends in a text."""
    text = f"replace({field}, chr(13) || chr(10), chr(10))"
    return f"length({text}) - length(translate({text}, chr(10) || chr(13), ''))"


def _lines(files: Files) -> int:
    """The lines that are not blank, however they end."""
    opened = gzip.open if files.path.name.lower().endswith(".gz") else open
    with opened(files.path, "rt", encoding="latin-1", newline=None) as file:
        return sum(not line.isspace() for line in file)
