"""Cases of our own for what the handed ones lack; the expected value is DuckDB's, worked out here.

`expected` is the statement for DuckDB where ours is not DuckDB's SQL: AVG of a condition, and the
sum of nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.curator.engines import DuckDBEngine
from dpsql.curator.sealed import unseal
from dpsql.query.expr import quote
from dpsql.query.grid import Grid
from dpsql.release import Release
from dpsql.schema import loads
from dpsql.session import Session
from tests.cases import made
from tests.cases.published import NAMES, Published, cases
from tests.query.exact import Answer, Cells, answer
from tests.query.same import extra, same

CASES = cases("own.csv")
IDS = [case["id"] for case in CASES]
SCHEMAS = {"visits": made.VISITS, "panel": made.PANEL, "select from": made.ODD}
RAW = {
    "visits": ("raw visits", made.VISIT_FIELDS, 900),
    "panel": ("panel", made.PANEL_FIELDS, 500),
    "select from": ("odd", made.ODD_FIELDS, 300),
}


class Made:
    """The made tables: what they mean, as DuckDB holds it, and our answers from the raw ones."""

    def __init__(self, folder: Path) -> None:
        self.database = folder / "made.duckdb"
        self.ledger = folder / "made.ledger"
        self.schemas = folder / "schemas"
        self.schemas.mkdir()
        self._truth = duckdb.connect()
        with duckdb.connect(str(self.database)) as raw:
            for name, (table, fields, rows) in RAW.items():
                made.fill(raw, table, fields, rows)
                made.fill(self._truth, table, fields, rows)
                meant = quote(f"meant {table}")
                renamed = ' RENAME ("hours-per-week" AS hours)' if name == "visits" else ""
                self._truth.execute(f"CREATE TABLE copied AS SELECT *{renamed} FROM {meant}")
                self._truth.execute(f"DROP TABLE IF EXISTS {quote(name)}")
                self._truth.execute(f"ALTER TABLE copied RENAME TO {quote(name)}")
                (self.schemas / f"{table}.toml").write_text(SCHEMAS[name], encoding="utf-8")
        self.datasets = {name: loads(text) for name, text in SCHEMAS.items()}
        self._grids = {name: Grid(dataset) for name, dataset in self.datasets.items()}
        with Ledger.open(self.ledger) as ledger:
            for name in SCHEMAS:
                ledger.grant("alice", dataset=name, epsilon=1e6)

    def truth(self, sql: str, params: Any) -> tuple[list[str], list[str], list[tuple[Any, ...]]]:
        found = self._truth.execute(sql, params or None)
        described = found.description or ()
        names, types = [c[0] for c in described], [str(c[1]) for c in described]
        return names, types, found.fetchall()

    def answer(self, name: str, sql: str, params: Any) -> Answer:
        dataset = self.datasets[name]
        engine = DuckDBEngine(self.database, dataset)

        def counts(columns: tuple[str, ...]) -> Cells:
            cells = unseal(engine.counts(columns))
            return cells.codes, cells.counts

        try:
            return answer(sql, dataset, self._grids[name], counts, params)
        finally:
            engine.close()

    def close(self) -> None:
        self._truth.close()


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    found = Made(tmp_path_factory.mktemp("made"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def asking(tables: Made) -> Iterator[Session]:
    with Session(
        tables.database, schema=tables.schemas, user="alice", ledger=tables.ledger
    ) as found:
        yield found


def params(case: dict[str, str]) -> Any:
    return json.loads(case["params"]) if case["params"] else ()


def truth(
    case: dict[str, str], tables: Made, published: Published
) -> tuple[list[str], list[str], list[tuple[Any, ...]]]:
    sql = case["expected"] or case["sql"]
    if case["dataset"] in NAMES:
        return published.truth(sql)
    return tables.truth(sql, params(case))


def ordered(case: dict[str, str]) -> bool:
    return "ORDER BY" in case["sql"]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_without_noise_the_answer_is_duckdbs(
    case: dict[str, str], tables: Made, published: Published
) -> None:
    names, types, rows = truth(case, tables, published)
    if case["dataset"] in NAMES:
        found = published.answer(case["dataset"], case["sql"])
    else:
        found = tables.answer(case["dataset"], case["sql"], params(case))
    if not case["expected"]:
        assert list(found.compiled.names) == names
        assert list(found.compiled.types) == types
    assert extra(found.rows, rows, ordered=ordered(case)) is not None, (found.rows[:9], rows[:9])


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_price_so_large_that_noise_vanishes_gives_duckdbs_answer(
    case: dict[str, str], tables: Made, published: Published, session: Session, asking: Session
) -> None:
    *_, rows = truth(case, tables, published)
    if case["dataset"] in NAMES:
        release = session.answer(case["sql"], rho=1000)
    else:
        release = asking.answer(case["sql"], params(case) or None, rho=1000)
    rest = list(range(len(release.rows)))
    for row in rows:
        at = next((i for i in rest if _near(release, i, row)), None)
        assert at is not None, (row, release.rows[:10])
        rest = [i for i in rest if i > at] if ordered(case) else [i for i in rest if i != at]


def _near(release: Release, at: int, row: tuple[Any, ...]) -> bool:
    """Whether a released row is DuckDB's: values within six standard errors, and a rounding."""
    for found, error, true in zip(release.rows[at], release.stderr[at], row, strict=True):
        if same(found, true) or (found is None and error is None and isinstance(true, float)):
            continue  # a ratio of very few rows is withheld
        if error is None or true is None or found is None:
            return False
        rounded = 0.5 if isinstance(found, int) else 0.0
        if not abs(float(found) - float(true)) <= 6 * error + rounded + 1e-9:
            return False
    return True


def test_the_made_tables_hold_values_between_points_and_outside_of_domains(tables: Made) -> None:
    raw = tables.truth('SELECT COUNT(*) FROM "raw visits"', ())[2][0][0]
    meant = tables.truth("SELECT COUNT(*) FROM visits", ())[2][0][0]
    assert 0.5 * raw < meant < 0.99 * raw
    between = 'SELECT COUNT(*) FROM "raw visits" WHERE weight % 5 <> 0'
    assert tables.truth(between, ())[2][0][0] > 100
