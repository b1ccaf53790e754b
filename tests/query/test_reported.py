"""Faults reported of comparable systems, each with the small input that shows its kind."""

from __future__ import annotations

from typing import Any

import pytest

from dpsql.errors import Refused
from dpsql.query.compile import Compiled
from dpsql.query.estimators import Count, Mean
from dpsql.query.grid import Grid
from dpsql.schema import Column, Dataset, Kind, Neighbours, Source, Unit
from tests.query.exact import answer, compiled, counted

PEOPLE = Dataset(
    "people",
    (
        Column("sex", Kind.CATEGORY, values=("f", "m")),
        Column("race", Kind.CATEGORY, True, values=("White", "Black", "Other")),
        Column("age", Kind.INTEGER, minimum=17, maximum=90),
        Column("grade", Kind.CATEGORY, values=("9", "10", "other")),
        Column("income", Kind.CATEGORY, values=("<=50K", ">50K")),
    ),
    Neighbours.ADD_REMOVE,
    Unit(),
    Source(table="people"),
)
GRID = Grid(PEOPLE)
ROWS = [
    ("f", "White", 30, "9", ">50K"),
    ("f", None, 40, "10", "<=50K"),
    ("m", "Black", 50, "other", "<=50K"),
    ("m", "White", 60, "9", ">50K"),
    ("m", None, 70, "9", "<=50K"),
]
COUNTS = counted(PEOPLE, ROWS)


def plan(sql: str) -> Compiled:
    found = compiled(sql, PEOPLE, GRID)
    assert isinstance(found, Compiled)
    return found


def rows(sql: str) -> list[tuple[Any, ...]]:
    return answer(sql, PEOPLE, GRID, COUNTS).rows


@pytest.mark.parametrize(
    "sql",
    [
        "COUNT_IF(age > 30)", "COUNTIF(age > 30)", "SUM(CASE WHEN age > 30 THEN 1 ELSE 0 END)",
        "COUNT(*) FILTER (WHERE age > 30)", "COUNT(CASE WHEN age > 30 THEN 'x' END)",
        "SUM((age > 30)::INT)", "SUM(age > 30)", "SUM(IF(age > 30, 1, 0))",
    ],
)  # fmt: skip
def test_the_spellings_of_a_conditional_count_are_one_query(sql: str) -> None:
    """tobymao/sqlglot#2764 and #4755: COUNT_IF was an unknown function, or another version's."""
    both = plan(f"SELECT {sql}, COUNT(*) FILTER (WHERE age > 30) FROM people")
    assert both.workload.size == 1
    assert rows(f"SELECT {sql} FROM people") == [(4,)]


def test_a_count_of_nothing_known_is_a_number() -> None:
    """tobymao/sqlglot#7833: COUNT_IF over NULLs alone is NULL in DuckDB and 0 elsewhere."""
    sql = "SELECT COUNT_IF(race = 'White') AS n, COUNT_IF(NULL) AS m FROM people WHERE race IS NULL"
    assert rows(sql) == [(0, 0)]


def test_absorption_keeps_the_unknown() -> None:
    """tobymao/sqlglot#7962: (a AND (NOT a OR b)) became a AND b, also under IS FALSE."""
    absorbed = "(race = 'White' AND (NOT race = 'White' OR sex = 'f')) IS FALSE"
    assert rows(f"SELECT COUNT(*) FROM people WHERE {absorbed}") == [(2,)]
    simplified = "(race = 'White' AND sex = 'f') IS FALSE"
    assert rows(f"SELECT COUNT(*) FROM people WHERE {simplified}") == [(3,)]


@pytest.mark.parametrize(
    ("operator", "count"),
    [("race ^@ 'B'", 1), ("race ~~ 'B%'", 1), ("race !~~ 'B%'", 2), ("race ~~* 'b%'", 1),
     ("race !~~* 'b%'", 2), ("race ~~~ 'B*'", 1)],
)  # fmt: skip
def test_rare_operators_mean_what_duckdb_says(operator: str, count: int) -> None:
    """tobymao/sqlglot#4187 and #4189: ~~~, !~~ and ^@ were read as other things."""
    assert rows(f"SELECT COUNT(*) FROM people WHERE {operator}") == [(count,)]


def test_having_on_a_key_of_grouping_sets_sees_the_total_as_null() -> None:
    """duckdb/duckdb#6686: HAVING on a column of grouping sets kept its NULL rows."""
    sql = "SELECT sex, COUNT(*) FROM people GROUP BY ROLLUP (sex) HAVING sex IS NOT NULL"
    assert rows(sql) == [("f", 2), ("m", 3)]


def test_two_empty_grouping_sets_are_refused() -> None:
    """duckdb/duckdb#7219: two empty grouping sets gave one row; here they would be paid twice."""
    with pytest.raises(Refused, match="listed twice"):
        plan("SELECT COUNT(*) FROM people GROUP BY GROUPING SETS ((), ())")


def test_having_keeps_what_select_shows_to_be_true() -> None:
    """duckdb/duckdb#25884: HAVING (p IS TRUE) OR NOT (p IS TRUE) AND q dropped such a group."""
    p, q = "COUNT(*) > 2", "sex = 'f'"
    test = f"({p} IS TRUE) OR NOT ({p} IS TRUE) AND {q}"
    shown = rows(f"SELECT sex, {test} AS kept FROM people GROUP BY sex HAVING COUNT(*) > 0")
    kept = rows(f"SELECT sex, TRUE AS kept FROM people GROUP BY sex HAVING {test}")
    assert kept == [row for row in shown if row[1]] == [("f", True), ("m", True)]


def test_missing_values_fall_into_else_but_not_under_unequal() -> None:
    """<> leaves the unknowns out, ELSE takes them in."""
    sql = (
        "SELECT COUNT(*) FILTER (WHERE race <> 'White') AS unequal, "
        "SUM(CASE WHEN race = 'White' THEN 0 ELSE 1 END) AS other FROM people"
    )
    assert rows(sql) == [(1, 3)]


def test_a_count_of_casts_that_work_is_a_condition() -> None:
    """opendp/opendp#2938: a lenient cast was typed as never NULL, and its count was free."""
    found = plan("SELECT COUNT(TRY_CAST(grade AS INT)) AS n, COUNT(*) AS m FROM people")
    assert found.workload.size == 2
    assert found.workload.domain.names == ("grade",)
    assert rows("SELECT COUNT(TRY_CAST(grade AS INT)) FROM people") == [(4,)]


def test_a_mean_is_measured_once() -> None:
    """opendp/smartnoise-sdk#202: AVG was rewritten to SUM and COUNT, paid once and spent twice."""
    found = plan("SELECT AVG((income = '>50K')::INT) FROM people WHERE sex = 'm'")
    (estimator,) = found.selects[0].estimators
    assert isinstance(estimator, Mean) and found.workload.size == 2
    above, below = found.workload.blocks[0].weights
    codes, _ = COUNTS(found.workload.domain.names)
    count = len(codes["sex"])
    both = above.values(codes, count) * below.values(codes, count)
    assert not both.any(), "one row is in one of the two parts, so one count pays for both"


def test_a_hundred_equal_counts_are_one_query() -> None:
    listed = ", ".join(f"COUNT(*) AS c{i}" for i in range(100))
    found = plan(f"SELECT {listed} FROM people")
    assert found.workload.size == 1 and len(found.names) == 100
    assert rows(f"SELECT {listed} FROM people") == [(5,) * 100]


@pytest.mark.parametrize("sql", ["COUNT(1)", "COUNT('x')", "COUNT(TRUE)", "COUNT(sex)", "COUNT()"])
def test_counts_of_what_is_never_null_are_counts_of_rows(sql: str) -> None:
    both = plan(f"SELECT {sql}, COUNT(*) FROM people")
    assert both.workload.size == 1
    assert set(both.selects[0].estimators) == {Count(0)}


def test_the_noise_of_a_count_does_not_depend_on_where() -> None:
    """cwida/privacy PR 21: bounds that a filter narrows; a condition carries none."""
    for where in ("", "WHERE sex = 'f'", "WHERE age > 200", "WHERE sex = 'f' AND sex = 'm'"):
        block = plan(f"SELECT COUNT(*) FROM people {where}").workload.blocks[0]
        assert [(weight.largest, weight.factor) for weight in block.weights] == [(1, 1)]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT race, COUNT(*) FROM people", "race is neither grouped nor aggregated"),
        ("SELECT race, COUNT(*) FROM people GROUP BY race HAVING IDONTEXIST > 1",
         "there is no column 'IDONTEXIST'"),
        ("SELECT COUNT_IF(age) FROM people", "COUNT_IF counts a condition, and this is a number"),
        ("SELECT COUNT(*) FROM people a JOIN people b ON a.age = b.age", "a JOIN is not answered"),
        ("SELECT setseed(0)", "SETSEED gives another value each time"),
    ],
)  # fmt: skip
def test_what_was_ignored_or_raised_elsewhere_is_refused_here(sql: str, reason: str) -> None:
    with pytest.raises(Refused) as caught:
        compiled(sql, PEOPLE, GRID)
    assert caught.value.reason.startswith(reason)
