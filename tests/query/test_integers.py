"""Comparisons that are computed without a database, against what DuckDB says of each."""

from __future__ import annotations

import itertools
from decimal import Decimal

import pytest

from dpsql.query import grid as grids
from dpsql.query.grid import Grid
from dpsql.query.integers import compared
from dpsql.schema import Column as Declared
from dpsql.schema import Dataset, Kind, Neighbours, Source, Unit
from tests.query.test_grid import refuse, resolved

COLUMNS = (
    Declared("a", Kind.INTEGER, True, minimum=-3, maximum=4),
    Declared("n", Kind.INTEGER, minimum=7, maximum=70),
    Declared("big", Kind.INTEGER, minimum=(1 << 61) - 2, maximum=(1 << 61) + 2),
    Declared("c", Kind.CATEGORY, values=(1, 2, 3)),
    Declared("x", Kind.NUMBER, edges=(Decimal(0), Decimal(1), Decimal(2))),
)
DATASET = Dataset("t", COLUMNS, Neighbours.ADD_REMOVE, Unit(), Source(table="t"))
NUMBERS = [-9, -4, -3, -1, 0, 1, 4, 5, 7, 8, 42, 70, 71, 1 << 31, -(1 << 31) - 1, 1 << 40,
           (1 << 61) - 2, 1 << 61, (1 << 61) + 2]  # fmt: skip
SMALL = [-9, -3, -2, -1, 0, 1, 2, 3, 8]
OPS = ("=", "<>", "!=", "==", "<", "<=", ">", ">=")
SIMPLE = [
    *(f"{c} {op} {v}" for c in ("a", "n", "big") for op in OPS for v in NUMBERS),
    *(f"{v} {op} {c}" for c in ("a", "n", "big") for op in OPS for v in NUMBERS),
    *(f"{c} BETWEEN {u} AND {v}" for c in ("a", "n") for u in NUMBERS for v in NUMBERS),
    *(f"{c} IN ({u}, {v}, 8)" for c in ("a", "n", "big") for u in NUMBERS for v in NUMBERS[:8]),
    *(
        f"a {op} {u} {sign} ({v})"
        for op in ("<", "=")
        for sign in "+-*"
        for u in SMALL
        for v in SMALL
    ),
    *(f"{u} % {v} >= n" for u in SMALL[4:] for v in SMALL[5:]),
    "n BETWEEN 2 * (3 + 1) AND 100 - 40 % 23",
    "a IN (1 - 4, 2 * 2)",
    "a > 46341 * 46340 - 2147441939",
]
OTHERS = [
    "a > 0.5", "a = NULL", "a IN (1, NULL)", "a BETWEEN 0 AND 1.5", "a < n", "a NOT IN (1)",
    "a IS NULL", "a IS NOT DISTINCT FROM 1", "c = 1", "x = 1", f"n < {1 << 63}", "a > 1::INTEGER",
    f"a < {1 << 31} - 1", "a < 46341 * 46341", "a < 2147483647 + 1", "a < -7 % 3", "a < 7 % -3",
    "a < 1 % 0", "a < 1 / 1", "a < 7 // 2", "a < 1 + NULL", "a < 1 + 0.5", "a < 1 & 1",
]  # fmt: skip


@pytest.fixture(scope="module")
def judge() -> Grid:
    return Grid(DATASET)


@pytest.mark.parametrize("part", range(8))
def test_each_is_what_duckdb_says(part: int, judge: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    exprs = [resolved(text) for text in itertools.islice(SIMPLE, part, None, 8)]
    ours = [compared(expr, DATASET.column(expr_column(expr))) for expr in exprs]
    monkeypatch.setattr(grids, "compared", lambda expr, column: None)
    theirs = judge.truths(exprs, refuse)
    for expr, own, leaf in zip(exprs, ours, theirs, strict=True):
        assert own is not None and own.tolist() == leaf.table.tolist(), expr


@pytest.mark.parametrize("text", OTHERS)
def test_everything_else_is_left_to_duckdb(text: str) -> None:
    expr = resolved(text)
    assert compared(expr, DATASET.column(expr_column(expr))) is None


def test_a_grid_asks_no_database_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = Grid(DATASET)
    monkeypatch.setattr(grid, "_together", None)
    (leaf,) = grid.truths([resolved("a >= 2")], refuse)
    assert leaf.table.tolist() == [0, 0, 0, 0, 0, 2, 2, 2, 1]


def expr_column(expr: object) -> str:
    from dpsql.query.expr import columns

    return columns(expr)[0]
