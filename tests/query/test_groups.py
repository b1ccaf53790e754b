"""Which groups are listed: against every cell of the whole domain, under the rule as it is said.

A group is listed when some cell of the declared domain maps to it and satisfies those conjuncts of
WHERE whose columns are all among the keys' columns; other conjuncts remove no group.
"""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpsql.errors import Refused
from dpsql.query.compile import Compiled
from dpsql.query.expr import Expr, columns, conjuncts, render
from dpsql.query.finish import planned
from dpsql.query.grid import Grid
from dpsql.schema import Column, Dataset, Kind, Neighbours, Source, Unit
from tests.query.exact import compiled
from tests.query.grammar import Statements, asked
from tests.query.same import plain
from tests.query.tables import Table, quoted, table
from tests.query.test_differential import Judge


def every_cell(made: Table) -> Judge:
    """DuckDB with one row for each cell of the domain."""
    lists = [[c.point(code) for code in range(c.cells)] for c in made.dataset.columns]
    return Judge(Table(made.dataset, [tuple(row) for row in product(*lists)], True))


def listed(found: Compiled) -> list[tuple[Any, ...]]:
    """The keys of the groups, as many as there are."""
    groups = found.selects[0].groups
    keys = [groups.values(index) for index in range(len(groups.keys))]
    rows = zip(*keys, strict=True) if keys else [()] * groups.size
    return [tuple(map(plain, row)) for row in rows]


def by_rule(found: Compiled, judge: Judge) -> list[tuple[Any, ...]]:
    """The same, from DuckDB's answer over every cell of the domain."""
    select = found.bound.selects[0]
    tests = conjuncts(select.where) if select.where is not None else ()
    rows: list[tuple[Any, ...]] = []
    for chosen in select.sets:
        keys = [select.keys[k] for k in chosen]
        names = {name for key in keys for name in columns(key)}
        kept = [render(test) for test in tests if set(columns(test)) <= names]
        if not keys:
            rows.append((None,) * len(select.keys))
            continue
        shown: list[Expr | None] = [k if i in chosen else None for i, k in enumerate(select.keys)]
        items = ", ".join("NULL" if key is None else render(key) for key in shown)
        where = " AND ".join(kept) or "TRUE"
        source = quoted(judge.table.dataset.name)
        sql = f"SELECT DISTINCT {items} FROM {source} WHERE {where}"
        rows += judge.duckdb.execute(sql).fetchall()
    return [tuple(map(plain, row)) for row in rows]


@settings(max_examples=60, deadline=None, derandomize=True, database=None,
          suppress_health_check=list(HealthCheck))  # fmt: skip
@given(st.integers(0, 2**48))
def test_the_groups_listed_are_those_of_the_rule(seed: int) -> None:
    rng = Random(seed)
    made = table(rng)
    cells = 1
    for column in made.dataset.columns:
        cells *= column.cells
    if cells > 3_000:
        return
    judge = every_cell(made)
    try:
        for _ in range(6):
            sql = asked(Statements(rng, made).statement().sql)
            try:
                found = compiled(sql, made.dataset, judge.grid)
            except Refused:
                continue
            if isinstance(found, Compiled) and len(found.selects) == 1:
                ours, theirs = listed(found), by_rule(found, judge)
                assert sorted(map(repr, ours)) == sorted(map(repr, theirs)), sql
                assert len(planned(found, judge.grid).rows) == len(ours)
    finally:
        judge.close()


# -- by hand -----------------------------------------------------------------------------------

PEOPLE = Dataset(
    "people",
    (
        Column("sex", Kind.CATEGORY, values=("f", "m")),
        Column("age", Kind.INTEGER, minimum=0, maximum=19),
        Column("grade", Kind.CATEGORY, nullable=True, values=("x", "y")),
        Column("n", Kind.INTEGER, minimum=0, maximum=999_999),
        Column("m", Kind.INTEGER, minimum=0, maximum=999_999),
    ),
    Neighbours.ADD_REMOVE,
    Unit(),
    Source(table="people"),
)


@pytest.fixture(scope="module")
def grid() -> Grid:
    return Grid(PEOPLE)


def keys(sql: str, grid: Grid) -> list[tuple[Any, ...]]:
    found = compiled(sql, PEOPLE, grid)
    assert isinstance(found, Compiled)
    return listed(found)


@pytest.mark.parametrize(
    ("where", "groups"),
    [
        ("", [("f",), ("m",)]),
        ("WHERE sex = 'f'", [("f",)]),
        ("WHERE sex = 'f' AND age > 3", [("f",)]),
        ("WHERE age > 3", [("f",), ("m",)]),
        ("WHERE age > 99", [("f",), ("m",)]),  # other columns remove no group
        ("WHERE sex = 'f' OR age > 3", [("f",), ("m",)]),
        ("WHERE FALSE", []),  # a condition of no columns is about every key
        ("WHERE sex = 'f' AND sex = 'm'", []),
        ("WHERE NULL", []),
    ],
)
def test_only_conditions_on_the_keys_remove_groups(
    where: str, groups: list[tuple[Any, ...]], grid: Grid
) -> None:
    assert keys(f"SELECT sex, COUNT(*) FROM people {where} GROUP BY sex", grid) == groups


def test_a_condition_across_two_keys_removes_their_combinations(grid: Grid) -> None:
    found = keys(
        "SELECT sex, age // 10, COUNT(*) FROM people WHERE (sex = 'f') = (age < 10) "
        "GROUP BY sex, age // 10",
        grid,
    )
    assert found == [("f", 0.0), ("m", 1.0)]


def test_keys_of_one_column_come_together_only_where_a_value_has_both(grid: Grid) -> None:
    found = keys("SELECT COUNT(*) FROM people GROUP BY age > 4, age // 5", grid)
    assert found == [(False, 0.0), (True, 1.0), (True, 2.0), (True, 3.0)]


def test_null_is_a_group_of_its_own_and_comes_last(grid: Grid) -> None:
    assert keys("SELECT COUNT(*) FROM people GROUP BY grade", grid) == [("x",), ("y",), (None,)]


def test_a_grouping_set_without_keys_is_one_group_whatever_where_says(grid: Grid) -> None:
    found = keys("SELECT COUNT(*) FROM people WHERE FALSE GROUP BY ROLLUP (sex)", grid)
    assert found == [(None,)]


def test_too_many_groups_are_refused_with_their_number_before_any_work(grid: Grid) -> None:
    with pytest.raises(Refused, match="1,000,000,000,000 groups; at most 1,000,000"):
        keys("SELECT n, m, COUNT(*) FROM people GROUP BY n, m", grid)
    with pytest.raises(Refused, match="1,000,020 groups"):
        keys("SELECT COUNT(*) FROM people GROUP BY GROUPING SETS (age, n)", grid)


def test_conditions_on_the_keys_count_before_the_limit(grid: Grid) -> None:
    found = keys("SELECT n, COUNT(*) FROM people WHERE n < 5 AND m < 3 GROUP BY n, m", grid)
    assert len(found) == 15


def test_keys_that_cannot_be_numbered_are_refused(grid: Grid) -> None:
    many = ", ".join(f"n + {i}" for i in range(6))
    with pytest.raises(Refused, match="more combinations than can be numbered"):
        keys(f"SELECT COUNT(*) FROM people GROUP BY {many}", grid)
