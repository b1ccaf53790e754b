"""What is made of released values: DuckDB's arithmetic, and NULL where there is no value."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from dpsql.query.compile import Compiled
from dpsql.query.estimators import Count, Mean, Spread, Sum
from dpsql.query.finish import Values, finish, planned
from dpsql.query.grid import Grid
from dpsql.schema import Column, Dataset, Kind, Neighbours, Source, Unit
from tests.query.exact import compiled

DATASET = Dataset(
    "t",
    (
        Column("s", Kind.CATEGORY, True, values=("b", "a")),
        Column("n", Kind.INTEGER, minimum=0, maximum=3),
        Column(
            "d", Kind.DATE, minimum=datetime.date(2025, 1, 31), maximum=datetime.date(2025, 3, 31),
            step="month",
        ),
    ),
    Neighbours.ADD_REMOVE,
    Unit(),
    Source(table="t"),
)  # fmt: skip
GRID = Grid(DATASET)


def released(sql: str, *columns: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The rows of a statement whose aggregates have these values; None is withheld."""
    found = compiled(sql, DATASET, GRID)
    assert isinstance(found, Compiled)
    values, rest = [], list(columns)
    for select in found.selects:
        part = []
        for estimator in select.estimators:
            given = rest.pop(0)
            match estimator:
                case Count():
                    kind = "BIGINT"
                case Sum(type=kind):
                    pass
                case Mean() | Spread():
                    kind = "DOUBLE"
            null = np.array([value is None for value in given])
            array = np.array([0 if value is None else value for value in given])
            part.append(Values(kind, array, null if null.any() else None))
        values.append(part)
    return list(finish(found, GRID, values).rows)


def test_outputs_that_are_released_as_they_are_need_no_database() -> None:
    rows = released("SELECT s, COUNT(*) AS n FROM t GROUP BY s", [5, -2, 7])
    assert rows == [("b", 5), ("a", -2), (None, 7)]


@pytest.mark.parametrize(
    ("sql", "values", "row"),
    [
        ("SELECT COUNT(*) / COUNT(n) FROM t", [[6], [4]], (1.5,)),
        ("SELECT COUNT(*) / COUNT(n) FROM t", [[6], [0]], (None,)),
        ("SELECT COUNT(*) // COUNT(n), COUNT(*) % COUNT(n) FROM t", [[7], [0]], (None, None)),
        ("SELECT COUNT(*) // COUNT(n), COUNT(*) % COUNT(n) FROM t", [[-7], [2]], (-3, -1)),
        ("SELECT sqrt(COUNT(*)), ln(COUNT(*)), log10(COUNT(n)) FROM t", [[-1], [0]],
         (None, None, None)),
        ("SELECT sqrt(COUNT(*)), ln(COUNT(n)) FROM t", [[9], [1]], (3.0, 0.0)),
        ("SELECT COUNT(*)::TINYINT, COUNT(*)::VARCHAR FROM t", [[300]], (None, "300")),
        ("SELECT COUNT(*) > 3, NOT COUNT(*) > 3 FROM t", [[4]], (True, False)),
        ("SELECT COALESCE(AVG(n), -1), AVG(n) + 1, AVG(n) IS NULL FROM t", [[None]],
         (-1.0, None, True)),
        ("SELECT CASE WHEN COUNT(*) > 3 THEN 'many' END FROM t", [[1]], (None,)),
        ("SELECT SUM(n * 0.5), SUM(n) FROM t", [["2.5"], [7]], (Decimal("2.5"), 7)),
        ("SELECT COUNT(*) + 9223372036854775807 FROM t", [[5]], (None,)),
        ("SELECT 1, 'x', NULL, COUNT(*) FROM t", [[2]], (1, "x", None, 2)),
    ],
)  # fmt: skip
def test_arithmetic_is_duckdbs_and_null_where_it_has_no_value(
    sql: str, values: list[list[Any]], row: tuple[Any, ...]
) -> None:
    assert released(sql, *values) == [row]


def test_having_order_and_limit_are_about_released_values() -> None:
    sql = "SELECT n, COUNT(*) AS c FROM t GROUP BY n HAVING c > 0 ORDER BY c DESC, n LIMIT 2"
    assert released(sql, [3, -1, 9, 3]) == [(2, 9), (0, 3)]
    assert released(sql + " OFFSET 1", [3, -1, 9, 3]) == [(0, 3), (3, 3)]
    assert released("SELECT COUNT(*) FROM t HAVING COUNT(*) > 5", [2]) == []


def test_without_order_the_rows_come_in_the_order_of_groups() -> None:
    sql = "SELECT n + 0 AS m, COUNT(*) * 2 AS c FROM t GROUP BY n"
    assert released(sql, [4, 3, 2, 1]) == [(0, 8), (1, 6), (2, 4), (3, 2)]


def test_keys_have_the_types_of_duckdb() -> None:
    sql = "SELECT d, month(d) AS m, COUNT(*) * 1 AS c FROM t GROUP BY d ORDER BY d DESC"
    ends = [datetime.date(2025, 1, 31), datetime.date(2025, 2, 28), datetime.date(2025, 3, 31)]
    assert released(sql, [1, 2, 3]) == [(ends[2], 3, 3), (ends[1], 2, 2), (ends[0], 1, 1)]


def test_text_keys_are_ordered_as_text_and_nulls_come_last() -> None:
    sql = "SELECT s, COUNT(*) AS c FROM t GROUP BY s ORDER BY s"
    assert released(sql, [1, 2, 3]) == [("a", 2), ("b", 1), (None, 3)]
    assert released(sql + " DESC NULLS FIRST", [1, 2, 3]) == [(None, 3), ("b", 1), ("a", 2)]


def test_grouping_tells_a_total_from_a_null() -> None:
    sql = "SELECT s, GROUPING(s) AS g, COUNT(*) AS c FROM t GROUP BY ROLLUP (s) ORDER BY g, s"
    assert released(sql, [1, 2, 3, 6]) == [("a", 0, 2), ("b", 0, 1), (None, 0, 3), (None, 1, 6)]


def test_union_all_is_ordered_as_one() -> None:
    sql = "SELECT 'x' AS k, COUNT(*) AS c FROM t UNION ALL SELECT s, COUNT(*) FROM t GROUP BY s"
    rows = released(sql + " ORDER BY c DESC LIMIT 2", [5], [7, 1, 6])
    assert rows == [("b", 7), (None, 6)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) AS c, SUM(n) FROM t",
        "SELECT d, COUNT(*) AS c, s, s AS t FROM t GROUP BY CUBE (d, s)",
        "SELECT n, COUNT(*) AS c FROM t WHERE FALSE GROUP BY n",
        "SELECT s, COUNT(*) FROM t GROUP BY s UNION ALL SELECT s, COUNT(*) * 2 FROM t GROUP BY s",
    ],
)
def test_a_plan_of_keys_as_they_are_is_what_duckdb_says(
    sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is asked for a constant beside them alone."""
    one, other = (compiled(each, DATASET, GRID) for each in (sql, sql.replace(" FROM", ", 1 FROM")))
    assert isinstance(one, Compiled) and isinstance(other, Compiled)
    slow = planned(other, GRID)
    monkeypatch.setattr(GRID.empty, "rows", lambda *_, **__: pytest.fail("no database is needed"))
    fast = planned(one, GRID)
    assert [(*row, 1) for row in fast.rows] == list(slow.rows) and fast.sources == slow.sources


def test_a_plan_has_the_keys_and_no_values() -> None:
    found = compiled("SELECT s, upper(s) AS u, COUNT(*) AS c FROM t GROUP BY s", DATASET, GRID)
    assert isinstance(found, Compiled)
    done = planned(found, GRID)
    assert done.rows == (("b", "B", None), ("a", "A", None), (None, None, None))
    assert done.sources == (0, 1, 2)
