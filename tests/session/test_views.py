"""EXPLAIN of rows that are computed, before anything was answered: it quotes what is taken.

Rows of a view, and of a table with generated columns, may be others each time they are read. So two
sessions never share a snapshot of them, and their losses add up.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from dpsql.accounting.ledger import Ledger
from dpsql.session import Session

SCHEMA = """
dataset = "t"
neighbours = "add-remove"
unit = "row"
[source]
table = "{source}"
[columns]
s = {{type = "category", values = ["x", "y"]}}
"""
ASKED = ("SELECT COUNT(*) FROM t WHERE s = 'x'", "SELECT COUNT(*) FROM t WHERE s = 'y'")


@pytest.mark.parametrize("source", ["rows", "seen", "drawn"])
def test_what_explain_quotes_is_what_the_first_answer_of_a_session_takes(
    source: str, tmp_path: Path
) -> None:
    path = tmp_path / "t.duckdb"
    with duckdb.connect(str(path)) as made:
        made.execute("CREATE TABLE rows AS SELECT 'x' AS s FROM range(100)")
        made.execute("CREATE VIEW seen AS SELECT s FROM rows WHERE random() < 2")
        chance = "CASE WHEN random() < 0.5 THEN 'x' ELSE 'y' END"
        made.execute(f"CREATE TABLE drawn (i INT, s TEXT GENERATED ALWAYS AS ({chance}))")
        made.execute("INSERT INTO drawn (i) SELECT range FROM range(100)")
    (tmp_path / "t.toml").write_text(SCHEMA.format(source=source))
    ledger = Ledger.memory()
    ledger.grant("ann", dataset="t", epsilon=10)
    for number, sql in enumerate(ASKED):
        with Session(path, user="ann", ledger=ledger) as session:
            quoted = session.explain(sql, rho=0.01).charged
            assert session.answer(sql, rho=0.01).charged == quoted
            assert quoted is not None
            assert (quoted.rho > 0) == (number == 0 or source != "rows")
