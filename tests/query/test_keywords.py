"""Words that need quotes as names are DuckDB's, and hints write names as DuckDB reads them."""

from __future__ import annotations

import duckdb
import pytest

from dpsql.query.expr import written
from dpsql.query.functions import AGGREGATES, SIGNATURES
from dpsql.query.keywords import DIALECTS, RESERVED


def test_the_reserved_words_are_duckdbs() -> None:
    """Of all versions: a word that only another version reserves is quoted too."""
    rows = duckdb.sql(
        "SELECT keyword_name FROM duckdb_keywords() "
        "WHERE keyword_category IN ('reserved', 'type_function')"
    ).fetchall()
    found = {word for (word,) in rows}
    assert found <= RESERVED and len(RESERVED - found) <= 3


@pytest.mark.parametrize(
    "name", [*sorted(RESERVED), "count", "age", "two words", 'quo"te', "é", "1a", "Select", "_x"]
)
def test_a_written_name_is_read_as_that_column(name: str) -> None:
    with duckdb.connect() as con:
        quoted = '"' + name.replace('"', '""') + '"'
        con.execute(f"CREATE TABLE t ({quoted} INTEGER)")
        con.execute("INSERT INTO t VALUES (7)")
        assert con.execute(f"SELECT {written(name)} FROM t").fetchall() == [(7,)]


def test_what_is_answered_is_of_no_other_dialect() -> None:
    assert not set(DIALECTS) & {*SIGNATURES, *AGGREGATES}
