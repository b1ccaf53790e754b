"""Probes of tools tell only the schema: free, by a session that has no grant at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.errors import BudgetError, Refused, UsageError
from dpsql.session import Session

SCHEMA = """
dataset = "t"
neighbours = "add-remove"
unit = "row"
[source]
table = "t"
[columns]
a = {type = "integer", min = 0, max = 9}
s = {type = "category", values = ["x", "y"], nullable = true}
e = {type = "number", edges = [0, 1, 2]}
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder: Path = tmp_path_factory.mktemp("probe")
    with duckdb.connect(str(folder / "t.duckdb")) as made:
        made.execute("CREATE TABLE t AS SELECT 1 AS a, 'x' AS s, 0.5::DOUBLE AS e")
    (folder / "t.toml").write_text(SCHEMA)
    with Session(folder / "t.duckdb", schema=folder / "t.toml", ledger=Ledger.memory()) as found:
        yield found


@pytest.mark.parametrize(
    ("sql", "columns", "rows"),
    [
        ("SELECT 1", ("1",), ((1,),)),
        ("SELECT 1 AS one, 'x' || 'y' AS two", ("one", "two"), ((1, "xy"),)),
        ("SELECT 1 + 1 WHERE 1 = 0", ("(1 + 1)",), ()),
        ("SELECT ?::INTEGER AS p LIMIT 1", ("p",), ((5,),)),
        ("SELECT * FROM t LIMIT 0", ("a", "s", "e"), ()),
        ("SELECT * FROM t WHERE 1 = 0", ("a", "s", "e"), ()),
        ("SELECT * FROM t WHERE FALSE", ("a", "s", "e"), ()),
        ("SELECT * FROM t WHERE (0 = 1) AND a > 3", ("a", "s", "e"), ()),
        ("SELECT q.a AS b, upper(s) AS u FROM t AS q WHERE 1 <> 1 ORDER BY u", ("b", "u"), ()),
        ("SELECT * FROM (SELECT a AS z FROM t) AS q WHERE 1 = 0", ("z",), ()),
        ("SELECT * FROM (SELECT a AS z FROM t WHERE 1 = 0) AS q", ("z",), ()),
        ("WITH q AS (SELECT s FROM t) SELECT * FROM q LIMIT 0", ("s",), ()),
        ("SELECT a, s FROM t WHERE a > 3 LIMIT 0", ("a", "s"), ()),
        ("SELECT s, COUNT(*) AS n, AVG(a > 3) AS p FROM t GROUP BY s LIMIT 0", ("s", "n", "p"), ()),
    ],
)
def test_a_probe_is_free_and_tells_the_schema(
    sql: str, columns: tuple[str, ...], rows: tuple[tuple[object, ...], ...], session: Session
) -> None:
    before = session.ledger.dump()
    release = session.answer(sql, [5] if "?" in sql else None)
    assert (release.columns, release.rows) == (columns, rows)
    assert (release.price, release.charged, release.left) == (None, None, None)
    assert session.ledger.dump() == before


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT repeat('x', 1000000000)",
        "SELECT * FROM t WHERE repeat('x', 1000000000) = '' LIMIT 0",
        "SELECT * FROM t LIMIT 0 OFFSET (SELECT 1)",
        "SELECT random() AS r FROM t LIMIT 0",
        "SELECT * FROM t ORDER BY random() LIMIT 0",
        "SELECT (SELECT COUNT(*) FROM t) LIMIT 0",
        "SELECT * FROM t, t AS u LIMIT 0",
        "SELECT nope FROM t LIMIT 0",
        "SELECT * FROM t WHERE a = 99 LIMIT 0",
        "SELECT * FROM t WHERE 1 = 1",
        "SELECT * FROM t WHERE 1 = 0 OR a > 3",
        "SELECT * FROM t LIMIT 1",
        "SELECT current_setting('threads')",
        "SELECT * FROM duckdb_settings() LIMIT 0",
        "SELECT MIN(a) FROM t LIMIT 0",
    ],
)
def test_what_is_no_probe_is_refused_as_ever(sql: str, session: Session) -> None:
    with pytest.raises(Refused):
        session.answer(sql)


def test_a_count_under_a_condition_that_is_never_true_is_charged_as_any_other(
    session: Session,
) -> None:
    with pytest.raises(BudgetError):
        session.answer("SELECT COUNT(*) FROM t WHERE 1 = 0")


def test_a_probe_has_no_plan(session: Session) -> None:
    with pytest.raises(UsageError, match="free"):
        session.explain("SELECT * FROM t LIMIT 0")
