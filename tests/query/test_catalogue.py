"""What tools ask of a catalogue: free, of the declared schema alone, without any grant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.accounting.ledger import Ledger
from dpsql.errors import Refused
from dpsql.session import Session

SCHEMA = """
dataset = "odd table"
neighbours = "add-remove"
unit = "row"
[source]
table = "hidden"
[columns]
"select" = {type = "integer", min = 0, max = 9}
'quo"te' = {type = "category", values = ["été", "it's"], nullable = true, source = "inner"}
day = {type = "date", min = 2025-01-01, max = 2025-01-09}
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder: Path = tmp_path_factory.mktemp("catalogue")
    with duckdb.connect(str(folder / "t.duckdb")) as made:
        made.execute('CREATE TABLE hidden ("select" INT, "inner" VARCHAR, day DATE, salary INT)')
        made.execute("CREATE TABLE secret AS SELECT 1 AS a")
    (folder / "t.toml").write_text(SCHEMA)
    with Session(folder / "t.duckdb", user="ann", ledger=Ledger.memory()) as found:
        yield found


def rows(session: Session, sql: str, params: Any = None) -> list[tuple[Any, ...]]:
    release = session.answer(sql, params)
    assert release.price is None and release.charged is None and session.last_charge is None
    return list(release.rows)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT current_user", [("ann",)]), ("SELECT current_user()", [("ann",)]),
        ("SELECT session_user AS who", [("ann",)]), ("SELECT user", [("ann",)]),
        ("SELECT version()", [(duckdb.sql("SELECT version()").fetchall()[0][0],)]),
        ("SELECT current_database()", [("memory",)]), ("SELECT current_schema()", [("main",)]),
        ("SELECT current_schema(), 'x', 1 AS y", [("main", "x", 1)]), ("SELECT 1", [(1,)]),
        ("SELECT table_name FROM information_schema.tables", [("odd table",)]),
        ("SELECT t.table_name FROM information_schema.tables AS t WHERE t.table_name LIKE 'odd%'",
         [("odd table",)]),
        ("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'main'", [(1,)]),
        ("SELECT table_name FROM INFORMATION_SCHEMA.TABLES WHERE table_name = 'hidden'", []),
        ("SELECT column_name, data_type, is_nullable FROM information_schema.columns "
         "WHERE table_name = 'odd table' ORDER BY ordinal_position",
         [("select", "BIGINT", "NO"), ('quo"te', "VARCHAR", "YES"), ("day", "DATE", "NO")]),
        ("SELECT column_name FROM information_schema.columns ORDER BY 1 LIMIT 1 OFFSET 1",
         [('quo"te',)]),
        ("SELECT lower(table_name), COUNT(*) FROM information_schema.columns GROUP BY 1",
         [("odd table", 3)]),
        ("SELECT column_name FROM information_schema.columns WHERE column_name = 'salary'", []),
        ("SHOW TABLES", [("odd table", "", 3)]), ("SHOW ALL TABLES", [("odd table", "", 3)]),
        ("DESCRIBE", [("odd table", "", 3)]),
    ],
)  # fmt: skip
def test_what_tools_ask_is_answered_from_the_schema(
    sql: str, expected: list[tuple[Any, ...]], session: Session
) -> None:
    assert rows(session, sql) == expected


@pytest.mark.parametrize(
    "sql",
    ['DESCRIBE "odd table"', 'DESCRIBE TABLE "ODD TABLE"', 'SHOW "odd table"', 'DESC "odd table"'],
)
def test_a_dataset_is_described_whatever_the_word(sql: str, session: Session) -> None:
    assert [row[0] for row in rows(session, sql)] == ["select", 'quo"te', "day"]


def test_parameters_reach_the_catalogue(session: Session) -> None:
    sql = "SELECT table_name FROM information_schema.tables WHERE table_name = ?"
    assert rows(session, sql, ["odd table"]) == [("odd table",)]
    assert rows(session, sql, ["secret"]) == []


def test_nothing_of_the_database_is_opened_for_it(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(*given: Any, **named: Any) -> Any:
        raise AssertionError("the private database was opened")

    monkeypatch.setattr("dpsql.session.session.DuckDBEngine", opened)
    for sql in ("SELECT version()", "SELECT * FROM information_schema.columns", "SHOW TABLES"):
        assert rows(session, sql)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (
            "SELECT repeat(table_name, 9) FROM information_schema.tables",
            "this is not answered over",
        ),
        ("SELECT (SELECT 1) FROM information_schema.tables", "this is not answered over"),
        ("SELECT replace(table_name, 'o', 'oo') FROM information_schema.tables", "this is not ans"),
        ("SELECT * EXCLUDE (table_name) FROM information_schema.tables", "this is not answered"),
        ('SELECT * FROM information_schema.tables, "odd table"', "a JOIN is not answered"),
        ("SELECT nothing FROM information_schema.tables", "DuckDB does not accept"),
        ("SELECT * FROM information_schema.schemata", "there is no dataset"),
        ("SELECT * FROM duckdb_settings()", "the table function duckdb_settings()"),
        ("SELECT * FROM pg_catalog.pg_tables", "there is no dataset"),
        ('SELECT version() FROM "odd table"', "VERSION depends on the engine's session"),
        ("SELECT current_setting('threads')", "CURRENT_SETTING depends"),
        ("SELECT version() || repeat('x', 9)", "VERSION depends"),
        ("PRAGMA table_info('odd table')", "PRAGMA commands the engine itself"),
        ("PRAGMA show_tables", "PRAGMA commands the engine itself"),
        ("SHOW DATABASES", "there is no setting 'databases'"),
        ("DESCRIBE secret", "there is no dataset 'secret'"),
    ],
)
def test_what_is_not_answered_is_refused_by_name(sql: str, reason: str, session: Session) -> None:
    with pytest.raises(Refused) as caught:
        session.answer(sql)
    assert caught.value.reason.startswith(reason) and caught.value.hint


def test_a_declared_dataset_goes_before_the_catalogue(tmp_path: Path) -> None:
    """The owner's names mean the owner's tables: such a query is charged, or refused unpaid."""
    with duckdb.connect(str(tmp_path / "t.duckdb")) as made:
        made.execute("CREATE TABLE t AS SELECT 1 AS a")
    (tmp_path / "t.toml").write_text(
        'dataset = "information_schema.tables"\nneighbours = "add-remove"\nunit = "row"\n'
        '[source]\ntable = "t"\n[columns]\na = {type = "integer", min = 0, max = 9}\n'
    )
    with Session(tmp_path / "t.duckdb", user="ann", ledger=Ledger.memory()) as found:
        sql = 'SELECT COUNT(*) FROM "information_schema.tables"'
        with pytest.raises(dpsql.BudgetError):
            found.answer(sql)


def test_what_sqlalchemy_sends_at_the_start_is_answered(session: Session) -> None:
    """Its default dialect tries these before anything else."""
    for sql in (
        "SELECT CAST('test plain returns' AS VARCHAR(60)) AS anon_1",
        "SELECT CAST('test unicode returns' AS VARCHAR(60)) AS anon_1",
        "SELECT 'x' AS some_label",
        "SELECT 1",
        "select current_schema()",
    ):
        assert len(rows(session, sql)) == 1
