"""The public grid: truth tables that DuckDB found, kept in bounds, shared by threads."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

from dpsql.errors import Refused
from dpsql.query import grid as grids
from dpsql.query.compile import Compiled
from dpsql.query.expr import Column, Expr, columns
from dpsql.query.grid import Grid
from dpsql.query.predicate import FALSE, TRUE, UNKNOWN
from dpsql.schema import Column as Declared
from dpsql.schema import Dataset, Kind, Neighbours, Source, Unit
from tests.query.exact import compiled
from tests.query.test_convert import expression

DATASET = Dataset(
    "given",  # names that our own tables might have
    (
        Declared("a", Kind.INTEGER, True, minimum=-2, maximum=2),
        Declared("s", Kind.CATEGORY, values=("x", "", "it's")),
        Declared("#", Kind.BOOLEAN),
        Declared("n", Kind.INTEGER, minimum=0, maximum=9_999),
        Declared("m", Kind.INTEGER, minimum=0, maximum=9_999),
    ),
    Neighbours.ADD_REMOVE,
    Unit(),
    Source(table="t"),
)


@pytest.fixture
def grid() -> Grid:
    return Grid(DATASET)


def resolved(sql: str) -> Expr:
    """An expression over columns of the dataset."""
    from dpsql.query.expr import Ref, rebuild

    def change(expr: Expr) -> Expr:
        return Column(expr.path[0], expr.span) if isinstance(expr, Ref) else rebuild(expr, change)

    return change(expression(sql))


def refuse(reason: str, span: Any, hint: str) -> Refused:
    return Refused(reason, hint=hint)


def test_a_truth_table_has_the_order_of_cells(grid: Grid) -> None:
    (leaf,) = grid.truths([resolved("a > 0")], refuse)
    assert leaf.domain.names == ("a",)
    assert leaf.table.tolist() == [FALSE, FALSE, FALSE, TRUE, TRUE, UNKNOWN]


def test_leaves_over_several_columns_are_in_row_major_order(grid: Grid) -> None:
    expr = resolved("(a = 1 AND s = 'x') OR a IS NULL AND \"#\"")
    (leaf,) = grid.truths([expr], refuse)
    assert leaf.domain.names == ("#", "a", "s") == columns(expr)
    values = [False, True], [-2, -1, 0, 1, 2, None], ["x", "", "it's"]
    expected = [
        TRUE if (a == 1 and s == "x") or (a is None and flag)
        else UNKNOWN if a is None and s == "x" and not flag
        else FALSE
        for flag in values[0] for a in values[1] for s in values[2]
    ]  # fmt: skip
    assert leaf.table.tolist() == expected


def test_leaves_found_together_are_those_found_alone(grid: Grid) -> None:
    exprs = [resolved(sql) for sql in ("a > 0", "s = ''", "a IS NULL", '"#"', "TRUE", "n > 5")]
    together = grid.truths(exprs, refuse)
    for expr, leaf in zip(exprs, together, strict=True):
        (alone,) = Grid(DATASET).truths([expr], refuse)
        assert (alone.table == leaf.table).all() and alone.domain == leaf.domain
    assert [leaf.table.nbytes for leaf in grid.truths(exprs, refuse)] == [6, 3, 6, 2, 1, 10_000]


def test_numbers_are_null_where_duckdb_says_so(grid: Grid) -> None:
    domain, values, null = grid.numbers(resolved("a * 1.5"), refuse)
    assert domain.names == ("a",)
    assert values[:5].tolist() == [-3, -1.5, 0, 1.5, 3]
    assert null.tolist() == [False] * 5 + [True]


def test_infinite_values_are_refused(grid: Grid) -> None:
    with pytest.raises(Refused, match="infinite or NaN"):
        grid.numbers(resolved("exp(a * 1000)"), refuse)


def test_keys_tell_apart_what_group_by_does(grid: Grid) -> None:
    keys = grid.keys(resolved("abs(a) % 2 = 1"), refuse)
    assert keys.values == [False, True, None]
    assert keys.table.tolist() == [0, 1, 0, 1, 0, 2]
    assert grid.empty.rows(f"SELECT i, v FROM {keys.source} ORDER BY i") == [
        (0, False), (1, True), (2, None),
    ]  # fmt: skip


def test_a_table_of_keys_lives_as_long_as_its_keys(grid: Grid) -> None:
    keys = grid.keys(resolved("a // 2"), refuse)
    source = keys.source
    again = grid.keys(resolved("a // 2"), refuse)
    assert again is keys
    grid._kept.clear()
    another = grid.keys(resolved("a // 2"), refuse)  # a second holder of the same table
    assert another is not keys and another.source == source
    del keys, again
    gc.collect()
    grid.keys(resolved("a // 3"), refuse)
    assert len(grid.empty.rows(f"SELECT * FROM {source}")) == 4
    del another
    grid._kept.clear()
    gc.collect()
    grid.keys(resolved("a // 4"), refuse)
    listed = grid.empty.rows("SELECT table_name FROM duckdb_tables()")
    assert source.split(".")[1] not in [name for (name,) in listed]


def test_what_is_kept_stays_in_bounds(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grids, "_CACHE_BYTES", 30_000)
    exprs = [resolved(f"n > {i}") for i in range(20)]
    leaves = grid.truths(exprs, refuse)  # more than is kept
    assert [int((leaf.table == TRUE).sum()) for leaf in leaves] == [9_999 - i for i in range(20)]
    assert grid._bytes <= 30_000 and len(grid._kept) == 3
    assert grid._bytes == sum(size for _, size in grid._kept.values())
    assert (grid.truths(exprs[:2], refuse)[1].table == leaves[1].table).all()


def test_threads_may_share_a_grid(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grids, "_CACHE_BYTES", 40_000)  # so that they take it from each other
    failures: list[BaseException] = []

    def ask(seed: int) -> None:
        try:
            for i in range(25):
                n = (seed * 7 + i) % 40
                sql = f"SELECT n // {n + 1} AS k, COUNT(*) FROM given WHERE n > {n} GROUP BY k"
                found = compiled(sql, DATASET, grid)
                assert isinstance(found, Compiled)
                assert found.rows == len({v // (n + 1) for v in range(n + 1, 10_000)})
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_what_a_thread_runs_is_stopped_from_another(grid: Grid) -> None:
    stopped: list[str] = []

    def run() -> None:
        try:
            grid.empty.rows("SELECT sum(a.i * b.i) FROM range(1000000) a(i), range(1000000) b(i)")
        except KeyboardInterrupt:
            stopped.append("stopped")

    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive():
        grid.empty.interrupt()
        thread.join(0.05)
    assert stopped == ["stopped"]
    assert grid.empty.rows("SELECT 1") == [(1,)]


def test_a_grid_that_is_too_large_is_refused_with_its_size(grid: Grid) -> None:
    with pytest.raises(Refused, match="spans 100,000,000 combinations of m, n; at most 10,000,000"):
        grid.truths([resolved("n + m > 3")], refuse)
    long = "x" * 2_000
    with pytest.raises(Refused, match="at most 1,250,000 are evaluated"):
        grid.truths([resolved(f"s || '{long}' = 'y' AND n + a + a > 3 AND n % 300 = 2 OR m = 3")],
                    refuse)  # fmt: skip


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("CAST(s AS INTEGER) = 1", "this cast is an error for some declared value: s = 'x'"),
        ("make_date(2024, n, 1) > DATE '2024-01-01'",
         "make_date() is an error for some declared value: n = 0"),
        ("CAST(n AS TINYINT) > 3", "this cast is an error for some declared value: n = 128"),
        ("9223372036854775807 + a > 0",
         "the operator + is an error for some declared value: a = 1"),
    ],
)  # fmt: skip
def test_an_error_is_raised_on_the_grid_and_names_the_value(
    sql: str, reason: str, grid: Grid
) -> None:
    with pytest.raises(Refused) as caught:
        grid.truths([resolved("a > 0"), resolved(sql), resolved("s = 'x'")], refuse)
    assert caught.value.reason == reason


def test_the_empty_database_reaches_nothing(grid: Grid, tmp_path: Any) -> None:
    from dpsql.query.empty import EmptyError

    secret = np.arange(3)  # a replacement scan would find it by name
    for sql in (
        "SELECT * FROM secret", "SELECT * FROM 'x.csv'", f"COPY (SELECT 1) TO '{tmp_path / 'x'}'",
        "ATTACH 'x.duckdb'", "INSTALL httpfs", "LOAD httpfs", "SET threads = 4",
        "SELECT * FROM read_text('/etc/hostname')", "SET enable_external_access = true",
    ):  # fmt: skip
        with pytest.raises(EmptyError):
            grid.empty.rows(sql)
    assert len(secret) == 3 and list(tmp_path.iterdir()) == []
