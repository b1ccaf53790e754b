"""What pandas sends through a connection: plain statements, the catalogue, probes."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas
import pytest

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
