"""FOR THE OWNER OF THE DATA ALONE: true numbers about how a table fits its schema, without noise.

Nothing here is paid for and nothing is private: what it returns must never reach an analyst. Only
the commands of an owner import this module.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from dpsql.curator.engines import quote
from dpsql.curator.engines.connection import Fault, Trouble
from dpsql.curator.engines.encode import Encoding
from dpsql.curator.engines.files import format_of
from dpsql.curator.engines.layout import UNIT, Layout, faults, layout
from dpsql.curator.engines.source import Source, open_source
from dpsql.curator.lines import line_remarks
from dpsql.errors import SourceError
from dpsql.schema import Dataset

Progress: TypeAlias = Callable[[int, int], None]
"""Told how many of how many steps are done."""

_BATCH: Final = 12  # columns that are counted in one scan
_ROWS: Final = quote.name("temp", "main", "__dpsql_rows")


@dataclass(frozen=True, slots=True)
class Fit:
    """How a column fits its domain: TRUE NUMBERS of rows, for the owner alone.

    `outside` values are read as NULL in a nullable column; in any other one, they and the `nulls`
    take their rows out of the dataset.
    """

    column: str
    nullable: bool
    nulls: int
    outside: int

    @property
    def taken_out(self) -> int:
        """The rows that this column takes out."""
        return 0 if self.nullable else self.nulls + self.outside


@dataclass(frozen=True, slots=True)
class Report:
    """What `check` found: TRUE NUMBERS, for the owner alone.

    With `problems`, which keep the dataset from being answered, there are no numbers. `left` rows
    are in their domains; of those `unitless` have no id of a unit, `units_over` units have more
    than the bound, and `dropped` rows are not counted for it. `remarks` are worth a look and keep
    nothing from being answered.
    """

    dataset: str
    problems: tuple[str, ...] = ()
    rows: int = 0
    columns: tuple[Fit, ...] = ()
    left: int = 0
    unitless: int = 0
    units_over: int = 0
    dropped: int = 0
    remarks: tuple[str, ...] = ()

    @property
    def counted(self) -> int:
        """The rows that are answered about."""
        return self.left - self.dropped


def check(database: Path, dataset: Dataset, progress: Progress | None = None) -> Report:
    """Compare a table with its schema, FOR THE OWNER ALONE: the report has true numbers.

    Raises SourceError when the table cannot be read at all.
    """
    source = open_source(database, dataset)
    try:
        problems = tuple(faults(dataset, source.types))
        if problems:
            return Report(dataset.name, problems)
        with told(source.files.what):
            return _report(source, dataset, progress or _silent)
    finally:
        source.close()


def _report(source: Source, dataset: Dataset, progress: Progress) -> Report:
    read = layout(dataset, source.types)
    encodings = read.encodings
    steps = len(encodings) + 2
    for encoding in encodings:
        if encoding.enum:
            source.connection.execute(encoding.create)
    progress(0, steps)
    try:
        relation = _readable(source, read)
    except Fault as fault:
        if fault.trouble in (Trouble.INTERRUPTED, Trouble.MEMORY):
            raise
        return Report(dataset.name, tuple(_unreadable(source, dataset, read)))
    rows, fits = 0, list[Fit]()
    for first in range(0, len(encodings), _BATCH):
        progress(first, steps)
        rows, some = _fits(source, relation, encodings[first : first + _BATCH])
        fits += some
    progress(steps - 2, steps)
    within = f"({read.rows(relation)})"
    unitless = "0" if read.unit is None else f"count(*) FILTER (WHERE {UNIT} IS NULL)"
    [(left, alone)] = source.connection.rows(f"SELECT count(*), {unitless} FROM {within}")
    progress(steps - 1, steps)
    over = dropped = 0
    if read.unit is not None:
        most = dataset.unit.max_rows
        units = f"SELECT count(*) AS n FROM {within} WHERE {UNIT} IS NOT NULL GROUP BY {UNIT}"
        sums = f"SELECT count(*), coalesce(sum(n - {most}), 0) FROM ({units} HAVING n > {most})"
        [(over, dropped)] = source.connection.rows(sums)
    progress(steps, steps)
    remarks = [*_remarks(dataset, rows, fits, int(left))]
    if format_of(source.files.path) == "csv":
        remarks += line_remarks(source.connection, source.files)
    numbers = (int(left), int(alone), int(over), int(dropped))
    return Report(dataset.name, (), rows, tuple(fits), *numbers, tuple(remarks))


def _readable(source: Source, read: Layout) -> str:
    """The relation to count from, once all declared columns of all rows were read. Raises Fault."""
    if source.costly:
        names = dict.fromkeys([*(e.value for e in read.encodings), read.unit or ""])
        listed = ", ".join(filter(None, names))
        rows = f"SELECT {listed} FROM {source.relation}"
        source.connection.execute(f"CREATE TEMP TABLE {_ROWS} AS {rows}")
        return _ROWS
    if source.fallible:
        source.connection.execute(read.read(source.relation))
    return source.relation


def _unreadable(source: Source, dataset: Dataset, read: Layout) -> Iterator[str]:
    """The columns that cannot be read, each on its own; or that it takes all of them to fail."""
    columns = [(f"column {e.column.name}", e.value) for e in read.encodings]
    if read.unit is not None:
        columns.append((f"the unit column {dataset.unit.column}", read.unit))
    if source.costly:
        fix = "what computes it fails on a row: write TRY(...) or TRY_CAST there"
    else:
        fix = "a text that is not UTF-8, or a damaged file: write the file anew"
    found = False
    for name, value in columns:
        try:
            source.connection.execute(f"SELECT bit_xor(hash({value})) FROM {source.relation}")
        except Fault as fault:
            if fault.trouble in (Trouble.INTERRUPTED, Trouble.MEMORY):
                raise
            found = True
            yield f"{name} cannot be read in every row: {fix}"
    if not found:
        yield f"the rows cannot be read: {fix}"


def _fits(source: Source, relation: str, encodings: Sequence[Encoding]) -> tuple[int, list[Fit]]:
    """The number of rows, and how each of some columns fits, in one scan."""
    counted = ["count(*)"]
    for encoding in encodings:
        value, code = encoding.value, encoding.code
        counted.append(f"count(*) FILTER (WHERE {value} IS NULL)")
        counted.append(f"count(*) FILTER (WHERE {value} IS NOT NULL AND {code} IS NULL)")
    [(rows, *numbers)] = source.connection.rows(f"SELECT {', '.join(counted)} FROM {relation}")
    fits = [
        Fit(e.column.name, e.column.nullable, numbers[2 * i], numbers[2 * i + 1])
        for i, e in enumerate(encodings)
    ]
    return int(rows), fits


def _remarks(dataset: Dataset, rows: int, fits: Sequence[Fit], left: int) -> Iterator[str]:
    if rows == 0:
        yield "the table is empty"
        return
    for fit in fits:
        if fit.nulls < rows and fit.nulls + fit.outside == rows:
            yield f"column {fit.column}: not one value lies in its domain; is it misspelt?"
    if left == 0:
        yield "no row is left: every row has a value outside of its domain"
    if dataset.unsafe:
        yield "the schema says unsafe = true: nothing is answered until its owner removes that"


@contextlib.contextmanager
def told(what: str) -> Iterator[None]:
    """Faults of the engine inside are SourceErrors in our own words."""
    try:
        yield
    except Fault as fault:
        error: BaseException = SourceError(f"{what} cannot be read: restore it from a copy")
        if fault.trouble is Trouble.INTERRUPTED:
            error = KeyboardInterrupt()
        elif fault.trouble is Trouble.MEMORY:
            error = SourceError(f"{what} needs more memory or disk space than there is")
        raise error from None


def _silent(done: int, steps: int) -> None:
    """Tell nobody."""
