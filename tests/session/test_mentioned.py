"""Columns that a question mentions and that make no difference: a synopsis need not have them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.session import Session

SCHEMA = """
dataset = "{name}"
unit = "row"
[source]
table = "{name}"
[columns]
a = {{type = "boolean"}}
b = {{type = "boolean"}}
k = {{type = "integer", min = 0, max = 6}}
note = {{type = "boolean", nullable = true}}
"""
QUERIES = """
SELECT a, b, COUNT(*) FROM town WHERE k >= 0 GROUP BY ALL;
SELECT COUNT(*) FROM town WHERE a AND (note IS NULL OR note IS NOT NULL);
SELECT COUNT(*) FROM town WHERE a AND (b OR k < 9);
"""
ASKED = [
    ("SELECT COUNT(*) FROM town WHERE a AND b AND k >= 0", 10_000),
    ("SELECT COUNT(*) FROM town WHERE a AND NOT b AND (k < 3 OR k >= 3)", 0),
    ("SELECT COUNT(*) FROM town WHERE a AND (b OR k <= 6)", 10_000),
    ("SELECT COUNT(*) FROM town WHERE b AND (note IS NULL OR note IS NOT NULL)", 10_000),
    ("SELECT COUNT(*) FROM town WHERE a AND b AND k < k + 1", 10_000),
]
MADE: dict[str, dict[str, Any]] = {
    "tables": {"method": "pmw", "ways": 1},
    "exponential": {"method": "pmw", "ways": 1, "step": "exponential"},
    "polynomial": {"method": "pmw", "ways": 1, "step": "polynomial"},
    "projection": {"method": "pmw", "ways": 1, "step": "projection"},
    "marginals": {"method": "marginals", "queries": QUERIES},
    "mwem": {"method": "mwem", "queries": QUERIES},
    "smalldb": {"method": "smalldb", "queries": QUERIES, "size": 4},
    "holdout": {"method": "holdout", "training": "train"},
}


@pytest.fixture
def session(tmp_path: Path, town: Any) -> Iterator[Session]:
    path = tmp_path / "twice.duckdb"
    with duckdb.connect(str(path)) as made:
        made.execute(
            "CREATE TABLE town AS SELECT i % 2 = 0 AS a, i % 2 = 0 AS b, i % 7 AS k,"
            " i % 3 = 0 AS note FROM range(20000) r(i)"
        )
        made.execute("CREATE TABLE train AS FROM town LIMIT 1000")
    schemas = [tmp_path / f"{name}.toml" for name in ("town", "train")]
    for each, head in zip(schemas, ("", "public = true\n"), strict=True):
        each.write_text(head + SCHEMA.format(name=each.stem))
    town.ledger.grant("alice", dataset="town", epsilon=1e3)
    with Session(
        path, schema=schemas, user="alice", ledger=town.ledger, settings={"reuse": True}
    ) as found:
        yield found


@pytest.mark.parametrize("method", MADE)
@pytest.mark.parametrize("strict", [True, False])
def test_a_synopsis_need_not_have_them(session: Session, method: str, strict: bool) -> None:
    given = {"columns": ["a", "b"], **MADE[method]}
    session.synopses.create("main", dataset="town", rho=20.0, **given)
    for sql, true in ASKED:
        plan = session.explain(sql, backend="synopsis", strict=strict, rho=1.0)
        told = session.answer(sql, backend="synopsis", strict=strict, rho=1.0)
        assert told.charged is not None and plan.charged is not None
        if strict:
            assert abs(told.rows[0][0] - true) <= 100
        if not any("far off: " in note for note in told.notes):
            assert told.charged == plan.charged
    if method == "smalldb":  # the same queries in other words
        assert told.backend == "synopsis"
