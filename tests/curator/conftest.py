"""Tables and schemas made in a line, for tests of engines."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import duckdb
import pytest

from dpsql.curator.engines import DuckDBEngine
from dpsql.curator.sealed import unseal
from dpsql.schema import Column, Dataset, Neighbours, Source, Unit

KEY = bytes(range(32))


class Bench:
    """Makes tables in files of their own, and counts them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._numbers = folder, itertools.count()

    def table(self, fields: str, rows: Iterable[Sequence[object]], name: str = "t") -> Path:
        """A database with a table `name` of these fields and rows."""
        path = self.folder / f"data{next(self._numbers)}.duckdb"
        with duckdb.connect(str(path)) as made:
            made.execute(f"CREATE TABLE {name} ({fields})")
            listed = [list(row) for row in rows]
            for first in range(0, len(listed), 200):
                some = listed[first : first + 200]
                marks = ", ".join("(" + ", ".join("?" for _ in row) + ")" for row in some)
                made.execute(f"INSERT INTO {name} VALUES {marks}", [v for row in some for v in row])
        return path

    def build(self, *statements: str) -> Path:
        """A database after these statements."""
        path = self.folder / f"data{next(self._numbers)}.duckdb"
        with duckdb.connect(str(path)) as made:
            for statement in statements:
                made.execute(statement)
        return path

    @staticmethod
    def dataset(*columns: Column, unit: Unit | None = None, **source: str) -> Dataset:
        """A dataset of these columns, from table t unless it is said."""
        where = Source(**source) if source else Source(table="t")
        return Dataset("d", columns, Neighbours.ADD_REMOVE, unit or Unit(), where)

    @staticmethod
    def open(path: Path, dataset: Dataset, key: bytes = KEY) -> DuckDBEngine:
        return DuckDBEngine(path, dataset, unit_key=key)

    @classmethod
    def count(cls, path: Path, dataset: Dataset, *names: str) -> Counter[tuple[int, ...]]:
        """The cells of some columns (all unless it is said) of a fresh engine."""
        engine = cls.open(path, dataset)
        try:
            return cells(engine, *(names or [column.name for column in dataset.columns]))
        finally:
            engine.close()


def cells(engine: DuckDBEngine, *names: str) -> Counter[tuple[int, ...]]:
    """The cells that an engine counts, as code tuples."""
    found = unseal(engine.counts(names))
    codes = [array.tolist() for array in found.codes.values()]
    keys = zip(*codes, strict=True) if codes else [()]
    listed = list(zip(keys, found.counts.tolist(), strict=True))
    assert len({key for key, _ in listed}) == len(listed), "a cell came twice"
    assert all(count > 0 for _, count in listed) or not names
    return Counter(dict(listed))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def cells_of() -> Callable[..., Counter[tuple[int, ...]]]:
    return cells


@pytest.fixture
def key() -> bytes:
    return KEY
