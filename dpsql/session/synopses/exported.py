"""Rows that a synopsis makes up: a table like the private one, on which any SQL is free."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.kept.chosen import Chosen
from dpsql.accounting.kept.synopses import Synopsis
from dpsql.accounting.purse import Price
from dpsql.domain import Domain
from dpsql.errors import UsageError
from dpsql.mechanisms.reuse.archive import Archive
from dpsql.mechanisms.synopses.learnt import tables
from dpsql.mechanisms.synopses.quality import Quality, quality
from dpsql.mechanisms.synopses.smalldb import most
from dpsql.mechanisms.synopses.synthetic import rows
from dpsql.mechanisms.synopses.verifier import LEVEL
from dpsql.planner import Terms
from dpsql.release import Release, Row, figure
from dpsql.schema import Column, Dataset
from dpsql.session import tell
from dpsql.session.charge import Charge
from dpsql.session.synopses import held

if TYPE_CHECKING:
    from dpsql.session.session import Session

MOST = 10_000_000  # rows
_ROUNDED = 1e-6  # of a row, which floats may add
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
    stored = [release for release in releases if release is not None]
    listed = [table for release in stored for table in tables(domain, release)]
    near = quality(codes, fit.total, [t for t in listed if t.names]) if many else ()
    old = () if session._snapshot(dataset) == synopsis.snapshot else (_OLD,)
    chosen = [release.chosen for release in stored if release.chosen is not None and many]
    small = [_small(each, domain, codes) for each in chosen]
    return zip(*values, strict=True), (*old, *held.unfinished(fit), *_notes(near), *small)


def _values(column: Column) -> NDArray[Any]:
    """The value of each code; None for NULL, the last one."""
    points = [*column.points(), *([None] if column.nullable else [])]
    found = np.empty(len(points), object)
    found[:] = points
    return found


def _small(found: Chosen, domain: Domain, codes: Mapping[str, NDArray[np.int64]]) -> str:
    """How near rows are to the counts that the small database was chosen for, in all of them.

    What was released tells how far it is off one of these at most. The rows are besides as far off
    the database, in any count, as there are more of them in some cells than it has.
    """
    size, many, total = len(found.codes), len(codes[found.names[0]]), max(found.total, 0)
    own = {name: found.codes[:, at] for at, name in enumerate(found.names)}
    there = np.bincount(domain.index(own, size), minlength=domain.cells) * (total / size)
    here = np.bincount(domain.index(codes, many), minlength=domain.cells) * (total / many)
    more = math.ceil(float(np.maximum(here - there, 0.0).sum()) - _ROUNDED)
    counts = len(found.keys)
    named = "the count" if counts == 1 else f"all {counts:,} counts"
    off = f"{most(found, LEVEL) + more:,} rows off the table at most, at {100 * LEVEL:.4g} %"
    return (
        f"the rows follow a database of {size}; in {named} that it was chosen for they are {off},"
        " and any other count of them is a guess"
    )


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
