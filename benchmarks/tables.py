"""The tables that are asked: DuckDB files made of the Parquet files under examples/data."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb

from dpsql.accounting.ledger import Ledger

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "examples" / "data"


def shipped(name: str) -> bool:
    """Whether the table is there."""
    return (DATA / f"{name}.parquet").exists()


def build(name: str, folder: Path, *, epsilon: float, delta: float = 1e-6) -> Path:
    """`folder`/<name>.duckdb with its schema beside it and a grant to alice."""
    database = folder / f"{name}.duckdb"
    with duckdb.connect(str(database)) as connection:
        connection.execute(
            f"CREATE TABLE {name} AS FROM read_parquet($1)", [str(DATA / f"{name}.parquet")]
        )
    shutil.copy(ROOT / "schemas" / f"{name}.toml", folder)
    grant(name, database.with_suffix(".ledger"), epsilon=epsilon, delta=delta)
    return database


def grant(name: str, ledger: Path, *, epsilon: float, delta: float = 1e-6) -> None:
    """A grant to alice in the ledger, in a new file if need be."""
    with Ledger.open(ledger) as book:
        book.grant("alice", dataset=name, epsilon=epsilon, delta=delta)
