"""A small private table in a DuckDB file, and sessions over it that note what they do."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from dpsql.accounting.ledger import Ledger
from dpsql.curator import curator as module
from dpsql.curator.curator import Curator
from dpsql.curator.engines.duckdb import DuckDBEngine
from dpsql.curator.quote import Noise
from dpsql.curator.sealed import unseal
from dpsql.errors import Error
from dpsql.query.linear import Workload
from dpsql.schema import Dataset
from dpsql.session import Session

FIELDS = "pid INTEGER, sex VARCHAR, age INTEGER, hours DOUBLE, smoker BOOLEAN"
Row = tuple[int, str, int, float, bool | None]

SCHEMA = """
dataset = "people"
neighbours = "{neighbours}"
unit = {unit}

[source]
table = "people"

[columns]
sex = {{type = "category", values = ["F", "M"]}}
age = {{type = "integer", min = 0, max = 9}}
hours = {{type = "number", min = 0, max = 4, step = 0.5}}
smoker = {{type = "boolean", nullable = true}}
"""

_numbers = itertools.count()


def rows(count: int, seed: int, people: int = 1000) -> list[Row]:
    """Random rows; some lie outside the domain."""
    rng = np.random.default_rng(seed)
    return [
        (
            int(rng.integers(people)),
            "FMX"[int(rng.choice(3, p=[0.5, 0.45, 0.05]))],
            int(rng.integers(-1, 11)),
            float(rng.integers(0, 9)) / 2,
            [True, False, None][int(rng.integers(3))],
        )
        for _ in range(count)
    ]


def people(
    folder: Path,
    listed: Iterable[Sequence[Any]],
    *,
    neighbours: str = "add-remove",
    unit: str = '"row"',
    ledger: Ledger | None = None,
    epsilon: float = 1e6,
    delta: float = 1e-6,
) -> Session:
    """A session of alice over a table of these rows."""
    place = folder / f"house{next(_numbers)}"
    place.mkdir()
    path = place / "people.duckdb"
    with duckdb.connect(str(path)) as made:
        made.execute(f"CREATE TABLE people ({FIELDS})")
        values = [list(row) for row in listed]
        if values:
            made.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?)", values)
    (place / "people.toml").write_text(SCHEMA.format(neighbours=neighbours, unit=unit))
    if ledger is None:
        ledger = Ledger.memory()
        ledger.grant("alice", dataset="people", epsilon=epsilon, delta=delta)
    return Session(path, user="alice", ledger=ledger)


@dataclass
class Tape:
    """What the wall let through: noisy answers in order, and the true ones behind them.

    `noisy` is recorded when it is empty at the start, and played back when it is not.
    """

    noisy: list[tuple[Any, ...]] = field(default_factory=list)
    true: list[tuple[Any, ...]] = field(default_factory=list)
    asked: list[tuple[Any, ...]] = field(default_factory=list)


def taped(patch: Any, tape: Tape) -> None:
    """Have every curator record on the tape, or play from it."""
    record = not tape.noisy
    noisy = Curator._noisy

    def through(curator: Curator, workload: Workload, noise: Noise) -> Any:
        cells = unseal(curator._cells(workload.domain.names))
        tape.true.append(tuple(workload.matvec(cells.codes, cells.counts)))
        shapes = [tuple(block.shape) for block in tape.true[-1]]
        tape.asked.append((workload.domain, shapes, noise))
        if record:
            tape.noisy.append(tuple(noisy(curator, workload, noise)))
        return tape.noisy[len(tape.true) - 1]

    patch.setattr(module.Curator, "_noisy", through)


def one_key(patch: Any) -> None:
    """Have all engines rank the rows of a unit under one key."""

    def opened(database: Path, dataset: Dataset, *, unit_key: bytes | None) -> DuckDBEngine:
        return DuckDBEngine(database, dataset, unit_key=unit_key and bytes(32))

    patch.setattr("dpsql.session.session.DuckDBEngine", opened)


def told(session: Session, statements: Iterable[str], **settings: Any) -> list[Any]:
    """All that an analyst sees of some statements: releases, plans and errors, as plain values."""
    found: list[Any] = []
    for sql in statements:
        try:
            found.append(session.explain(sql, **settings).to_dict())
        except Error as error:
            found.append(error.to_dict())
        try:
            found.append(session.answer(sql, **settings).to_dict())
        except Error as error:
            found.append(error.to_dict())
        charge = session.last_charge
        found.append(charge and charge.to_dict())
    return found


def charges(ledger: Ledger) -> list[Any]:
    """What a ledger says of charges, without the clock."""
    return [
        (e.seq, e.user, e.statement, e.event, e.price, e.before, e.after)
        for e in ledger.log()
        if e.kind == "charge"
    ]


def moves(one: Tape, other: Tape) -> list[tuple[int, int, int]]:
    """How far the true answers of each measurement are apart: squared, in sum, at most."""
    found = []
    for a, b in zip(one.true, other.true, strict=True):
        apart = [int(x) - int(y) for p, q in zip(a, b, strict=True)
                 for x, y in zip(p.ravel(), q.ravel(), strict=True)]  # fmt: skip
        sizes = [abs(x) for x in apart]
        found.append((sum(x * x for x in sizes), sum(sizes), max(sizes, default=0)))
    return found
