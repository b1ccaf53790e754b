"""Rows that a synopsis makes up: a table like the private one, on which any SQL is free."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.kept.synopses import Synopsis
from dpsql.accounting.purse import Price
from dpsql.errors import UsageError
from dpsql.mechanisms.reuse.archive import Archive
from dpsql.mechanisms.synopses.learnt import tables
from dpsql.mechanisms.synopses.quality import Quality, quality
from dpsql.mechanisms.synopses.synthetic import rows
from dpsql.planner import Terms
from dpsql.release import Release, Row, figure
from dpsql.schema import Column, Dataset
from dpsql.session import tell
from dpsql.session.charge import Charge
from dpsql.session.synopses import held

if TYPE_CHECKING:
    from dpsql.session.session import Session

MOST = 10_000_000  # rows
_OLD = "the data have changed since it was made: these rows follow what they were then"


def exported(
    session: Session, dataset: Dataset, synopsis: Synopsis, count: int | None, dealt: bool
) -> Release:
    """So many rows of a synopsis, as many as it takes the table to have unless that is said.

    Notes tell how near they are to what was measured, the data being left alone. Whoever has not
    paid for what was measured does. Raises UsageError, and BudgetError as a reading does.
    """
    if count is not None and not (type(count) is int and 0 <= count <= MOST):
        raise UsageError(f"rows is a whole number up to {MOST:,}, not {count!r}")
    if synopsis.method == "holdout":
        raise UsageError(
            f"synopsis {synopsis.name} has no rows but those of its public training table"
        )
    ledger = session.ledger
    archive = session._earlier.archive(ledger, dataset.name, synopsis.snapshot)
    archive.refresh()
    balance = ledger.balance(session.user, dataset.name)
    terms = Terms.of(balance.grant)
    text = f"EXPORT SYNOPSIS {synopsis.name}"
    read = held.read(session, dataset, archive, synopsis, text, balance)
    price, charged = (
        tell.price(Price(rho, None), terms) if rho else tell.nothing(terms)
        for rho in (read.price, read.charged)
    )  # fmt: skip
    session._calls.paid = charged if read.charged else None
    charge = Charge(ledger, read.balance, read.charged)
    failure: BaseException
    try:
        made, notes = _made(session, dataset, archive, synopsis, count, dealt)
        columns = [dataset.column(name) for name in synopsis.columns]
        names, types = [c.name for c in columns], [c.sql_type for c in columns]
        return dataclasses.replace(
            tell.table(names, types, made, (*read.notes, *notes)),
            backend="synopsis", price=price, charged=charged, left=tell.budget(read.balance),
            dataset=dataset.name, reused=not read.price,
        )  # fmt: skip
    except BaseException as error:
        failure = charge.failure(error)
    raise failure  # out here, so that it does not carry what it was made from


def _made(
    session: Session,
    dataset: Dataset,
    archive: Archive,
    synopsis: Synopsis,
    count: int | None,
    dealt: bool,
) -> tuple[Iterator[Row], tuple[str, ...]]:
    """The rows, and notes of how near they are to what was measured."""
    fit = held.fit(session, dataset, archive, synopsis)
    many = round(fit.total) if count is None else count
    codes = rows(fit, many, dealt=dealt)
    columns = map(dataset.column, synopsis.columns)
    values = [_values(column)[codes[column.name]].tolist() for column in columns]
    domain = session._grid(dataset).domain(synopsis.columns)
    releases = [archive.stored(seq) for seq in archive.held(synopsis.charges)]
    listed = [table for r in releases if r is not None for table in tables(domain, r)]
    near = quality(codes, fit.total, [t for t in listed if t.names]) if many else ()
    old = () if session._snapshot(dataset) == synopsis.snapshot else (_OLD,)
    return zip(*values, strict=True), (*old, *held.unfinished(fit), *_notes(near))


def _values(column: Column) -> NDArray[Any]:
    """The value of each code; None for NULL, the last one."""
    points = [*column.points(), *([None] if column.nullable else [])]
    found = np.empty(len(points), object)
    found[:] = points
    return found


def _notes(found: Sequence[Quality]) -> tuple[str, ...]:
    """How far the rows are from what was measured, by the number of columns of a table."""
    notes = []
    for size in sorted({len(each.names) for each in found}):
        some = [each for each in found if len(each.names) == size]
        cells = sum(each.cells for each in some)
        mean = sum(each.mean * each.cells for each in some) / cells
        noise = sum(each.stderr * each.cells for each in some) / cells
        worst = max(some, key=lambda each: each.largest)
        word = "a column" if size == 1 else f"{size} columns"
        notes.append(
            f"tables of {word}: {figure(mean)} rows off what was measured in the mean, at most"
            f" {figure(worst.largest)} ({', '.join(worst.names)}); the noise of that has a standard"
            f" error of {figure(noise)}"
        )
    return tuple(notes)
