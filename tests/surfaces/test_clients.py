"""pandas, polars and pyarrow through a connection itself, against DuckDB's own answers.

pandas warns of every connection that is not SQLAlchemy's, so this expects just that warning; its
way without it is an engine (test_dialect).
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pyarrow
import pytest

import dpsql
from dpsql.accounting.ledger import Ledger
from dpsql.session import Session
from dpsql.surfaces.dbapi import Connection

SCHEMA = """
dataset = "odd table"
neighbours = "add-remove"
unit = "row"
[source]
table = "t"
[columns]
"select" = {type = "integer", min = 0, max = 9}
'quo"te' = {type = "category", values = ["été", "it's"], source = "inner"}
day = {type = "date", min = 2025-01-01, max = 2025-01-09}
"""


@pytest.fixture
def session(tmp_path: Path) -> Session:
    with duckdb.connect(str(tmp_path / "t.duckdb")) as made:
        made.execute('CREATE TABLE t ("select" INT, "inner" VARCHAR, day DATE)')
    (tmp_path / "t.toml").write_text(SCHEMA)
    ledger = Ledger.memory()
    ledger.grant("ann", dataset="odd table", epsilon=10)
    return Session(tmp_path / "t.duckdb", user="ann", ledger=ledger)


def test_pandas_reads_the_catalogue_and_the_probes_of_a_connection(session: Session) -> None:
    con = Connection(session)
    with pytest.warns(UserWarning, match="SQLAlchemy"):
        found = pandas.read_sql(
            "SELECT column_name AS c FROM information_schema.columns WHERE data_type <> ?",
            con, params=["DATE"],
        )  # fmt: skip
    assert list(found["c"]) == ["select", 'quo"te']
    with pytest.warns(UserWarning, match="SQLAlchemy"):
        empty = pandas.read_sql('SELECT * FROM "odd table" WHERE 1 = 0', con)
    assert list(empty.columns) == ["select", 'quo"te', "day"] and empty.empty
    with pytest.warns(UserWarning, match="SQLAlchemy"):
        counted = pandas.read_sql(
            'SELECT "select" AS k, COUNT(*) AS n FROM "odd table" GROUP BY k', con
        )
    assert list(counted["k"]) == list(range(10)) and session.budget().spent.rho > 0
    con.close()


# -- frames ------------------------------------------------------------------------------------

TOWN = """
dataset = "town"
neighbours = "add-remove"
unit = "row"
[source]
table = "town"
[columns]
sex = {type = "category", values = ["f", "m"]}
age = {type = "integer", min = 0, max = 9}
born = {type = "date", min = 2020-01-01, max = 2020-01-05}
tall = {type = "boolean", nullable = true}
"""
ROWS = (
    "SELECT sex, born, tall, COUNT(*) AS n, SUM(age) AS years, AVG(age) AS mean,"
    " COUNT(*)::DECIMAL(9, 2) AS exact FROM town GROUP BY sex, born, tall ORDER BY ALL"
)


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Connection]:
    """A connection at whose price noise vanishes."""
    with duckdb.connect(str(tmp_path / "town.duckdb")) as made:
        made.execute(
            "CREATE TABLE town AS SELECT CASE WHEN i % 3 = 0 THEN 'f' ELSE 'm' END AS sex,"
            " i * 7 % 10 AS age, DATE '2020-01-01' + (i % 5)::INT AS born,"
            " CASE WHEN i % 4 > 0 THEN i % 4 = 1 END AS tall FROM range(600) r(i)"
        )
    (tmp_path / "town.toml").write_text(TOWN)
    with dpsql.Ledger.open(tmp_path / "town.ledger") as ledger:
        ledger.grant("ann", dataset="town", epsilon=1e7)
    with dpsql.connect(tmp_path / "town.duckdb", user="ann", rho=1e4) as con:
        yield con


def truth(con: Connection, sql: str = ROWS, given: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """DuckDB's own answer; a mean has no grid on which noise could vanish."""
    with duckdb.connect(str(con.session.database), read_only=True) as reader:
        rows = reader.execute(sql, list(given)).fetchall()
    return [
        tuple(pytest.approx(v, abs=0.1) if isinstance(v, float) else v for v in row) for row in rows
    ]


def test_pandas_reads_rows_types_and_parameters(town: Connection) -> None:
    with pytest.warns(UserWarning, match="Please consider using SQLAlchemy"):
        found = pandas.read_sql(ROWS, town)
    true = truth(town)
    values = found.astype(object).where(found.notna(), None)
    assert list(values.itertuples(index=False, name=None)) == true
    assert [found[name].dtype.kind for name in ("n", "years", "mean")] == ["i", "i", "f"]
    sql = "SELECT sex, COUNT(*) AS n FROM town WHERE age < ? AND born > ? GROUP BY sex"
    given = [3, datetime.date(2020, 1, 2)]
    with pytest.warns(UserWarning, match="SQLAlchemy"):
        counted = pandas.read_sql(sql, town, params=given, index_col="sex")
    assert counted["n"].to_dict() == dict(truth(town, sql, given))
    with pytest.warns(UserWarning, match="SQLAlchemy"):
        parts = list(pandas.read_sql(ROWS, town, chunksize=7))
    assert [len(part) for part in parts[:-1]] == [7] * (len(true) // 7)
    assert sum(map(len, parts)) == len(true)


def test_what_pandas_asks_in_vain_is_our_refusal(town: Connection) -> None:
    with pytest.warns(UserWarning, match="SQLAlchemy"), pytest.raises(dpsql.Refused):
        pandas.read_sql("SELECT age FROM town", town)
    assert town.execute("SELECT COUNT(*) FROM town").fetchone() == (600,), "it goes on"


def test_polars_reads_a_connection_and_a_cursor(town: Connection) -> None:
    true = truth(town)
    for source in (town, town.cursor()):
        found = polars.read_database(ROWS, source)
        assert found.rows() == true
        kinds = [found.schema[name] for name in ("sex", "born", "tall", "n", "mean", "exact")]
        assert kinds == [
            *(polars.String, polars.Date, polars.Boolean, polars.Int64, polars.Float64),
            polars.Decimal(9, 2),
        ]
    sql = "SELECT COUNT(*) AS n FROM town WHERE age < ?"
    options = {"parameters": [3], "confidence": 0.9}
    assert polars.read_database(sql, town, execute_options=options).item() == 180
    parts = polars.read_database(ROWS, town, iter_batches=True, batch_size=7)
    assert polars.concat(parts).rows() == true
    with pytest.raises(dpsql.Refused):
        polars.read_database("SELECT age FROM town", town)


def test_an_answer_without_rows_keeps_its_columns(town: Connection) -> None:
    sql = "SELECT sex, COUNT(*) AS n FROM town GROUP BY sex HAVING n > 1000"
    assert polars.read_database(sql, town).schema == {"sex": polars.String, "n": polars.Int64}
    with pytest.warns(UserWarning, match="SQLAlchemy"):
        assert list(pandas.read_sql(sql, town).columns) == ["sex", "n"]
    assert town.execute(sql).arrow().schema.names == ["sex", "n"]


def test_arrow_has_the_types_of_duckdb(town: Connection) -> None:
    found = town.execute(ROWS).arrow()
    with duckdb.connect(str(town.session.database), read_only=True) as reader:
        true = reader.sql(ROWS).to_arrow_table()
    assert isinstance(found, pyarrow.Table) and found.schema.names == true.schema.names
    for name in ("sex", "born", "tall", "n", "exact"):
        assert found[name].combine_chunks().equals(true[name].combine_chunks()), name
    assert polars.from_arrow(found).shape == (len(true), 7)
