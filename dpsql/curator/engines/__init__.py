"""Engines give the sparse counts of a column set; nothing else of a database is read."""

from __future__ import annotations

from dpsql.curator.engines.duckdb import DuckDBEngine
from dpsql.curator.engines.protocol import Cells, Engine

__all__ = ["Cells", "DuckDBEngine", "Engine"]
