"""Refusals, whole: what was found, where, and what to write instead.

`refusals.txt` holds a statement and its text a block. On DuckDB 1, which gives no lengths, the
marks below the statement are shorter; all other lines are the same.
"""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from dpsql.errors import Refused
from dpsql.query.bind import Bound, bind
from dpsql.query.compile import compile_bound
from dpsql.query.grid import Grid
from dpsql.query.parse import Ask, Explain, parse
from dpsql.schema import loads

PEOPLE = loads("""
dataset = "people"
neighbours = "add-remove"
unit = "row"
[source]
table = "people"
[columns]
sex       = {type = "category", values = ["Female", "Male"]}
race      = {type = "category", values = ["White", "Black", "Other"], nullable = true}
age       = {type = "integer", min = 17, max = 90}
"hours worked" = {type = "integer", min = 0, max = 99}
income    = {type = "number", edges = [0, 10000, 50000]}
weight    = {type = "number", min = 0, max = 200, step = 5}
day       = {type = "date", min = 2025-01-01, max = 2025-12-31}
smoker    = {type = "boolean", nullable = true}
grade     = {type = "category", values = ["9", "10", "other"]}
zip       = {type = "integer", min = 0, max = 99999}
""")
GRID = Grid(PEOPLE)
OLD = duckdb.__version__.startswith("1.")

BLOCKS = [
    block.split("\n", 1)
    for block in Path(__file__).with_name("refusals.txt").read_text("utf-8").strip().split("\n\n")
]


def refusal(sql: str) -> str:
    """The whole text of the refusal of a statement."""
    with pytest.raises(Refused) as caught:
        statement = parse(sql)
        if isinstance(statement, Explain):
            statement = statement.ask
        assert isinstance(statement, Ask)
        bound = bind(statement, {"people": PEOPLE})
        assert isinstance(bound, Bound)
        compile_bound(bound, GRID)
    return str(caught.value)


def lines(text: str) -> list[str]:
    """The lines of a refusal; on DuckDB 1 without the statement and the marks below it."""
    found = text.split("\n")
    return [line for line in found if not line.startswith("  ")] if OLD else found


@pytest.mark.parametrize(("sql", "text"), BLOCKS, ids=[sql[:60] for sql, _ in BLOCKS])
def test_a_refusal_reads_as_reviewed(sql: str, text: str) -> None:
    assert lines(refusal(sql)) == lines(text)


@pytest.mark.parametrize("text", [text for _, text in BLOCKS], ids=[sql[:60] for sql, _ in BLOCKS])
def test_a_refusal_says_where_what_to_write_and_that_it_is_free(text: str) -> None:
    found = text.split("\n")
    assert found[0].startswith("refused: ") and found[-1] == "nothing was charged"
    assert found[-2].startswith("write instead: ")
    assert found[0].endswith(": only a comment") or re.fullmatch(r" +\^+", found[2]), "its place"
    assert not re.search(r"/(work|tmp|home|usr)/|Traceback|Error:", text)


def test_most_refusals_point_at_their_place() -> None:
    marked = [text for _, text in BLOCKS if "^" in text]
    assert len(marked) > 0.9 * len(BLOCKS)
