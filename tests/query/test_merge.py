"""Aggregates that are the same linear query are measured once, however they are spelt."""

from __future__ import annotations

import itertools
from typing import Any

import duckdb
import numpy as np
import pytest

from dpsql.query.estimators import Count, Sum
from dpsql.query.grid import Grid
from dpsql.schema import loads
from tests.query.exact import answer, compiled, counted
from tests.rows import fill

T = loads("""
dataset = "t"
neighbours = "add-remove"
unit = "row"
[source]
table = "t"
[columns]
a = {type = "integer", min = 0, max = 99}
b = {type = "integer", min = 0, max = 99, nullable = true}
s = {type = "category", values = ["x", "y", "z"]}
q = {type = "boolean", nullable = true}
""")
GRID = Grid(T)
P = "a < 30"
ALIKE = {
    "all rows": [
        "COUNT(*)", "COUNT(*) FILTER (WHERE TRUE)", "COUNT(1)", "COUNT('x')", "COUNT(a)", "SUM(1)",
        "SUM(2)", "COUNT(*) FILTER (WHERE a >= 0)", "COUNT(*) FILTER (WHERE a < 40 OR a >= 40)",
        "SUM(CASE WHEN TRUE THEN 1 ELSE 0 END)", "COUNT_IF(s IN ('x', 'y', 'z'))",
        "COUNT_IF(q IS NULL OR q OR NOT q)", "COUNT_IF(1 = 1)", "SUM(1) FILTER (WHERE NOT FALSE)",
    ],
    "a condition": [
        f"COUNT(*) FILTER (WHERE {P})", f"SUM(CASE WHEN {P} THEN 1 ELSE 0 END)", f"COUNT_IF({P})",
        f"SUM(({P})::INT)", f"SUM({P})", f"COUNT(CASE WHEN {P} THEN 1 END)", "COUNT_IF(30 > a)",
        "COUNT_IF(NOT a >= 30)", "COUNT_IF(a <= 29)", "COUNT(NULLIF(a < 30, FALSE))",
        f"SUM(1) FILTER (WHERE {P})", f"SUM(IF({P}, 1, 0))", "COUNT_IF(a BETWEEN 0 AND 29)",
        f"SUM(CASE WHEN NOT ({P}) THEN 0 ELSE 3 END)", "COUNT_IF(a // 30 = 0)",
    ],
    "what is not NULL": [
        "COUNT(b)", "COUNT(*) FILTER (WHERE b IS NOT NULL)", "COUNT_IF(NOT b IS NULL)",
        "SUM(CASE WHEN b IS NULL THEN 0 ELSE 1 END)", "COUNT(b + 1)", "COUNT_IF(b >= 0)",
    ],
    "a sum": [
        "SUM(a)", "SUM(a) FILTER (WHERE TRUE)", "SUM(a + 0)", "SUM(a * 2)", "SUM(a::DOUBLE)",
        "SUM(CASE WHEN a > 50 THEN a WHEN a <= 50 THEN a END)", "SUM(a / 4)",
    ],
}  # fmt: skip


def size(*aggregates: str, rest: str = "") -> int:
    return compiled(f"SELECT {', '.join(aggregates)} FROM t {rest}", T, GRID).workload.size


@pytest.mark.parametrize("kind", ALIKE)
def test_every_pair_of_spellings_is_measured_once(kind: str) -> None:
    for one, other in itertools.combinations(ALIKE[kind], 2):
        assert size(one, other) == 1, (one, other)


@pytest.mark.parametrize("kind", ALIKE)
def test_all_spellings_together_are_measured_once_and_say_what_each_means(kind: str) -> None:
    """The values are DuckDB's for each spelling, from the one answer."""
    assert size(*ALIKE[kind]) == 1
    rng = np.random.default_rng(7)
    rows = [
        (int(a), None if b > 99 else int(b), "xyz"[s], (True, False, None)[q])
        for a, b, s, q in zip(
            rng.integers(0, 100, 200), rng.integers(0, 130, 200), rng.integers(0, 3, 200),
            rng.integers(0, 3, 200), strict=True,
        )
    ]  # fmt: skip
    sql = f"SELECT {', '.join(ALIKE[kind])} FROM t"
    assert answer(sql, T, GRID, counted(T, rows)).rows == truth(sql, rows)


def truth(sql: str, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t (a BIGINT, b BIGINT, s VARCHAR, q BOOLEAN)")
        fill(con, "t", rows)
        return con.execute(sql).fetchall()


def test_queries_that_differ_anywhere_stay_apart() -> None:
    differing = [
        ("COUNT(*)", "COUNT(b)"), ("COUNT_IF(a < 30)", "COUNT_IF(a < 31)"),
        ("SUM(a)", "SUM(a + 1)"), ("COUNT(*)", "COUNT_IF(q)"), ("SUM(a)", "SUM(b)"),
        ("COUNT_IF(q)", "COUNT_IF(NOT q)"), ("SUM(a)", "SUM(-a)"), ("COUNT(*)", "SUM(a)"),
        ("COUNT_IF(a < 30 AND s = 'x')", "COUNT_IF(a < 30 AND s = 'y')"),
    ]  # fmt: skip
    for one, other in differing:
        assert size(one, other) == 2, (one, other)


def test_where_decides_what_is_alike() -> None:
    assert size("COUNT(*)", "COUNT_IF(a < 30)", rest="WHERE a < 25") == 1
    assert size("COUNT(*)", "COUNT(b)", rest="WHERE b > 3") == 1
    assert size("COUNT(*)", "COUNT_IF(s = 'x')", rest="WHERE s <> 'y'") == 2


def test_means_share_their_parts_with_counts() -> None:
    assert size("AVG(a < 30)", "COUNT_IF(a < 30)", "COUNT_IF(a >= 30)") == 2
    assert size("AVG(a)", "AVG(a::DOUBLE)", "AVG(2 * a)", "SUM(a)") == 2
    assert size("VARIANCE(a)", "STDDEV(a * 3)", "VAR_POP(a)") == 3


def test_groups_multiply_what_is_left() -> None:
    assert size("COUNT(*)", "SUM(1)", rest="GROUP BY s") == 3
    assert size("COUNT(*)", "SUM(1)", "SUM(2)", rest="GROUP BY CUBE (s, q)") == 16


def test_estimators_keep_their_own_units() -> None:
    [select] = compiled("SELECT COUNT(*), SUM(2), SUM(0.5) FROM t", T, GRID).selects
    count, two, half = select.estimators
    assert isinstance(count, Count) and isinstance(two, Sum) and isinstance(half, Sum)
    assert (count.weight, two.weight, half.weight) == (0, 0, 0)
    assert (two.unit, half.unit * 2) == (2, 1)


MIDDLE = loads("""
dataset = "t"
neighbours = "add-remove"
unit = "row"
[source]
table = "t"
[columns]
n = {type = "integer", min = -10, max = 20, nullable = true}
s = {type = "category", values = ["x", "y", "z"]}
q = {type = "boolean"}
""")
ONE_VALUE = [  # all reach one value alone: at an end, the middle or elsewhere in the range
    f"{aggregate}({value}) FROM t WHERE {where}"
    for aggregate in ("AVG", "SUM", "STDDEV", "STDDEV_POP", "VAR_SAMP", "COUNT")
    for value, where in (
        *(("n", f"n = {v} AND s = 'x' OR n = {v} AND q") for v in (-10, 3, 5, 20)),
        *((f"CASE WHEN n = {v} AND q THEN n END", "TRUE") for v in (-10, 5, 20)),
        ("CASE WHEN TRUE THEN 0 WHEN q THEN NULL ELSE -n END", "n IS NOT NULL"),
        ("abs(n)", "n = 10 OR n IS NULL AND q"),
        ("n", "(n, s) IN ((5, 'x'), (5, 'y'))"),
        ("CASE WHEN n = 5 THEN 7 ELSE 7 END", "s <> 'z'"),
    )
]  # fmt: skip


@pytest.mark.parametrize("rest", ONE_VALUE)
@pytest.mark.parametrize("by", ["", "GROUP BY s ORDER BY s"])
def test_aggregates_of_one_value_that_is_left_are_that_value(rest: str, by: str) -> None:
    """Their parts may be one linear query, whose coefficients then add."""
    grid = Grid(MIDDLE)
    rows = list(itertools.product((-10, 3, 5, 7, 10, 20, None), "xyz", (True, False))) * 2
    sql = f"SELECT {'s, ' if by else ''}{rest} {by}"
    found = {row[:-1]: row[-1] for row in answer(sql, MIDDLE, grid, counted(MIDDLE, rows)).rows}
    with duckdb.connect() as judge:
        judge.execute("CREATE TABLE t (n BIGINT, s TEXT, q BOOLEAN)")
        fill(judge, "t", rows)
        expected = judge.execute(sql).fetchall()
    for *key, value in expected:
        assert found.pop(tuple(key)) == (pytest.approx(value) if value is not None else None)
    assert all(value in (0, None) for value in found.values())  # groups that the data lack
