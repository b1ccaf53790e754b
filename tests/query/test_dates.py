"""Sums and differences of dates: what DuckDB answers is answered, and what it refuses, refused."""

from __future__ import annotations

import datetime
from itertools import product

import duckdb
import pytest

from dpsql.errors import Refused
from dpsql.query.compile import Compiled
from dpsql.query.grid import Grid
from dpsql.schema import loads
from tests.query.exact import answer, compiled, counted
from tests.rows import fill

VISITS = loads("""
dataset = "visits"
neighbours = "add-remove"
unit = "row"
[source]
table = "visits"
[columns]
began = {type = "date", min = 2024-01-01, max = 2024-01-31}
ended = {type = "date", min = 2024-01-01, max = 2024-02-29, nullable = true}
days  = {type = "integer", min = 0, max = 9}
""")
GRID = Grid(VISITS)
ROWS = [
    (datetime.date(2024, 1, 3), datetime.date(2024, 1, 9), 2),
    (datetime.date(2024, 1, 31), datetime.date(2024, 2, 29), 9),
    (datetime.date(2024, 1, 30), datetime.date(2024, 1, 30), 0),
    (datetime.date(2024, 1, 8), None, 5),
]
COUNTS = counted(VISITS, ROWS)
OPERANDS = (
    "began", "ended", "DATE '2024-01-05'", "began::TIMESTAMP", "TIMESTAMP '2024-01-05 10:00:00'",
    "date_trunc('month', ended)", "last_day(began)", "began + INTERVAL 1 DAY",
    "nullif(began, ended::TIMESTAMP)", "greatest(began, ended::TIMESTAMP)",
    "CASE WHEN days > 4 THEN began ELSE ended::TIMESTAMP END", "coalesce(ended, '2024-01-01')",
    "3", "2 + 1", "days", "days * 2", "abs(days)", "days::INTEGER", "days::TINYINT + 1", "2.5",
    "year(began)", "length('abc')", "CASE WHEN days > 4 THEN 1 ELSE 2 END",
    "INTERVAL 2 DAY", "to_days(days::INTEGER)", "to_days(3) + INTERVAL 1 HOUR",
)  # fmt: skip
LITERALS = {
    "DATE": "DATE '2024-01-07'", "TIMESTAMP": "TIMESTAMP '2024-01-07 12:00:00'",
    "INTERVAL": "INTERVAL 4 DAY",
}  # fmt: skip


@pytest.fixture(scope="module")
def engine() -> duckdb.DuckDBPyConnection:
    found = duckdb.connect()
    found.execute("CREATE TABLE visits (began DATE, ended DATE, days BIGINT)")
    fill(found, "visits", ROWS)
    return found


@pytest.mark.parametrize("op", ["+", "-"])
@pytest.mark.parametrize("left", OPERANDS)
def test_dates_are_moved_and_subtracted_as_duckdb_does(
    left: str, op: str, engine: duckdb.DuckDBPyConnection
) -> None:
    for right in OPERANDS:
        part = f"({left}) {op} ({right})"
        try:
            ((kind,),) = engine.execute(f"SELECT any_value(typeof({part})) FROM visits").fetchall()
        except duckdb.Error:
            with pytest.raises(Refused) as caught:
                compiled(f"SELECT COUNT(*) FROM visits WHERE ({part}) IS NULL", VISITS, GRID)
            assert caught.value.start is not None, part
            continue
        sql = f"SELECT COUNT(*) FROM visits WHERE {part} > {LITERALS.get(kind, '4')}"
        assert answer(sql, VISITS, GRID, COUNTS).rows == engine.execute(sql).fetchall(), sql


@pytest.mark.parametrize(("days", "reason"), [("3", "number"), ("'x'", "text"), ("TRUE", "bool")])
def test_an_interval_is_compared_with_intervals_alone(days: str, reason: str) -> None:
    differences = (
        f"{a} - {b}"
        for a, b in product(OPERANDS[3:6], OPERANDS[:6])  # one is a TIMESTAMP
    )
    for difference in differences:
        with pytest.raises(Refused, match=f"interval and {reason}"):
            compiled(f"SELECT COUNT(*) FROM visits WHERE {difference} > {days}", VISITS, GRID)


def test_a_difference_of_dates_is_a_number_of_days() -> None:
    found = compiled("SELECT SUM(ended - began) FROM visits", VISITS, GRID)
    assert isinstance(found, Compiled)
    with pytest.raises(Refused, match="number and interval"):
        compiled("SELECT COUNT(*) FROM visits WHERE ended - began > INTERVAL 1 DAY", VISITS, GRID)
