"""Rows put into a table at once: one by one, each would be a transaction with its own fsync."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import duckdb


def fill(connection: duckdb.DuckDBPyConnection, table: str, rows: Iterable[Sequence[Any]]) -> None:
    """Add rows, if there are any; the values of a column are of one type, or None."""
    columns = [list(values) for values in zip(*rows, strict=True)]
    if columns:
        listed = ", ".join("unnest(?)" for _ in columns)
        connection.execute(f"INSERT INTO {table} SELECT {listed}", columns)
