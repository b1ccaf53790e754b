"""The published tables: DuckDB's own answers, and ours without noise."""

from __future__ import annotations

import csv
from pathlib import Path
from types import TracebackType
from typing import Any

import duckdb

from dpsql.curator.engines import DuckDBEngine
from dpsql.curator.sealed import unseal
from dpsql.query.grid import Grid
from dpsql.schema import load
from tests.query.exact import Answer, Cells, answer

HERE = Path(__file__).parent
NAMES = (
    "adult", "covid_tests", "cps", "crash", "flights", "nonvoters", "pums10k", "pums_null",
    "titanic", "yrbss",
)  # fmt: skip


def cases(name: str) -> list[dict[str, str]]:
    """The lines of one file of cases."""
    with open(HERE / name, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


class Published:
    """The ten tables in one database file, opened by DuckDB itself and by our engine."""

    def __init__(self, database: Path) -> None:
        self.database = database
        schemas = HERE.parents[1] / "schemas"
        self.datasets = {name: load(schemas / f"{name}.toml") for name in NAMES}
        self._grids: dict[str, Grid] = {}
        self._engines: dict[str, DuckDBEngine] = {}
        self._truth = duckdb.connect()
        data = HERE.parents[1] / "examples" / "data"
        for name in NAMES:
            file = f"read_parquet('{data / name}.parquet')"
            kept = "WHERE age <> 138" if name == "covid_tests" else ""  # outside its domain
            self._truth.execute(f"CREATE TABLE {name} AS FROM {file} {kept}")

    def __enter__(self) -> Published:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._truth.close()
        for engine in self._engines.values():
            engine.close()

    def truth(self, sql: str) -> tuple[list[str], list[str], list[tuple[Any, ...]]]:
        """DuckDB's own answer: names, types and rows."""
        found = self._truth.execute(sql)
        described = found.description or ()
        rows = found.fetchall()
        return [column[0] for column in described], [str(column[1]) for column in described], rows

    def grid(self, name: str) -> Grid:
        if name not in self._grids:
            self._grids[name] = Grid(self.datasets[name])
        return self._grids[name]

    def answer(self, name: str, sql: str) -> Answer:
        """Our answer without noise, from the counts of the engine."""
        if name not in self._engines:
            dataset = self.datasets[name]
            self._engines[name] = DuckDBEngine(self.database, dataset, unit_key=bytes(32))
        engine = self._engines[name]

        def counts(columns: tuple[str, ...]) -> Cells:
            cells = unseal(engine.counts(columns))
            return cells.codes, cells.counts

        return answer(sql, self.datasets[name], self.grid(name), counts)
