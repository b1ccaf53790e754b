"""A small private table in a DuckDB file, and sessions over it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from dpsql.accounting.ledger import Ledger
from dpsql.session import Session
from tests.rows import fill

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
        fill(made, "people", listed)
    (place / "people.toml").write_text(SCHEMA.format(neighbours=neighbours, unit=unit))
    if ledger is None:
        ledger = Ledger.memory()
        ledger.grant("alice", dataset="people", epsilon=epsilon, delta=delta)
    return Session(path, user="alice", ledger=ledger)
