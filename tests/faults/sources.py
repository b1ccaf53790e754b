"""A database with a private name, and what its engine may say."""

from __future__ import annotations

import traceback
from pathlib import Path

import duckdb
import pytest

from dpsql.curator.engines import DuckDBEngine
from dpsql.curator.sealed import unseal
from dpsql.errors import SourceError
from dpsql.schema import Column, Dataset, Kind, Neighbours, Source, Unit

AGE = Column("age", Kind.INTEGER, minimum=0, maximum=9)
ENGINE_WORDS = ("Error:", "duckdb.org", "Exception", "LINE 1", "checksum", "PID", "/tmp", "__dpsql")


def declared(**source: str) -> Dataset:
    where = Source(**source) if source else Source(table="t")
    return Dataset("d", (AGE,), Neighbours.ADD_REMOVE, Unit(), where)


def made(folder: Path) -> Path:
    """A database of 100,000 rows; no message may say where it is."""
    path = folder / "private place" / "clinic's ü.duckdb"
    path.parent.mkdir()
    with duckdb.connect(str(path)) as writer:
        writer.execute("CREATE TABLE t AS SELECT i % 10 AS age, i AS id FROM range(100_000) r(i)")
    return path


def refusal(path: Path, dataset: Dataset | None = None) -> str:
    """The message with which an engine refuses to open; it holds nothing of the engine's own."""
    with pytest.raises(SourceError) as caught:
        DuckDBEngine(path, dataset or declared())
    return checked(caught.value)


def checked(error: BaseException) -> str:
    said = str(error)
    assert not any(word in said for word in ENGINE_WORDS), said
    assert "private place" not in said
    assert error.__cause__ is None and (error.__context__ is None or error.__suppress_context__)
    told = "".join(traceback.format_exception(error))
    assert "_duckdb" not in told
    return said


def total(engine: DuckDBEngine) -> int:
    return int(unseal(engine.counts(())).counts[0])
