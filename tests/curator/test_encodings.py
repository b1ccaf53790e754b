"""Every value gets the code that brute force gives it, or lies outside, exactly."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import duckdb
import numpy as np
import pytest

from dpsql.curator.engines.types import INTEGERS
from dpsql.schema import Column, Kind


def nearly(column: Column, value: float) -> int | None:
    """The code of a DOUBLE, exactly: four units in the last place of the largest are forgiven."""
    if not math.isfinite(value):
        return None
    ends = column.edges or (column.minimum, column.maximum)
    apart = [high - low for low, high in pairwise(column.edges)] or [column.step]
    slack = min(float(max(map(abs, ends))) * 2.0**-51, float(min(apart)) / 1024)
    near, points = value + slack, column.points()
    if column.edges and not float(column.edges[0]) <= near < float(column.edges[-1]):
        return None
    if not column.edges and not (near >= float(ends[0]) and value <= float(ends[1]) + slack):
        return None
    return max(i for i, point in enumerate(points) if point <= near)


def expected(column: Column, value: Any, exact: bool = True) -> int | None:
    """The code by brute force over the points of the domain; None for an outside value."""
    if isinstance(value, Decimal):
        value = float(value)  # the type of a number column is DOUBLE
    match column.kind:
        case _ if value is None:
            return None
        case Kind.NUMBER if not exact:
            return nearly(column, value)
        case Kind.CATEGORY | Kind.BOOLEAN:
            return column.points().index(value) if value in column.points() else None
        case Kind.INTEGER | Kind.DATE:
            low, high = column.minimum, column.maximum
        case Kind.NUMBER if column.edges:
            low, high = float(column.edges[0]), math.nextafter(float(column.edges[-1]), -math.inf)
        case Kind.NUMBER:
            low, high = float(column.minimum), float(column.maximum)
    if not low <= value <= high:
        return None
    return max(i for i, point in enumerate(column.points()) if point <= value)


def agree(bench: Any, column: Column, sql_type: str, values: Sequence[Any]) -> None:
    """The engine and brute force give the same codes; checked nullable and not."""
    rows = [(i, value) for i, value in enumerate(values)]
    path = bench.table(f"i INTEGER, v {sql_type}", rows)
    number = Column("i", Kind.INTEGER, minimum=0, maximum=len(values) + 1)
    exact = sql_type not in ("FLOAT", "DOUBLE")
    shown = (
        (lambda v: v if v is None else float(str(np.float32(v)))) if sql_type == "FLOAT" else None
    )
    codes = {i: expected(column, shown(v) if shown else v, exact) for i, v in rows}
    strict = Counter({(i, code): 1 for i, code in codes.items() if code is not None})
    assert bench.count(path, bench.dataset(number, column)) == strict
    nullable = Column(**{**_fields(column), "nullable": True})
    free = Counter({(i, column.size if c is None else c): 1 for i, c in codes.items()})
    assert bench.count(path, bench.dataset(number, nullable)) == free


def _fields(column: Column) -> dict[str, Any]:
    return {name: getattr(column, name) for name in column.__dataclass_fields__}


def grid(low: str, high: str, step: str) -> Column:
    bounds = {"minimum": Decimal(low), "maximum": Decimal(high), "step": Decimal(step)}
    return Column("v", Kind.NUMBER, **bounds)


GRIDS = [
    ("0", "1", "0.1"),
    ("0.3", "0.9", "0.1"),
    ("-1.05", "2", "0.05"),
    ("0", "200", "5"),
    ("0", "12", "5"),
    ("-60", "30.3", "0.7"),
    ("1e6", "1000001", "0.01"),
    ("0", "1e-10", "1e-12"),
    ("1e15", "1000000000000020", "0.125"),
    ("4503599627370497.5", "4503599627370520", "1.1"),  # points that DOUBLEs barely tell apart
    ("9007199254740990", "9007199254741010", "2"),
    ("0.1234567890123456789", "3", "0.1000000000000000001"),  # beyond 53 bits: a tree
    ("-1e22", "1e22", "1e21"),
    ("1e-300", "1e-298", "1e-300"),
    ("0", "3", "0.3333333333333333333333"),
]


@pytest.mark.parametrize("bounds", GRIDS, ids=" ".join)
def test_a_double_falls_on_the_grid_point_at_or_hardly_above_it(
    bench: Any, bounds: tuple[str, str, str]
) -> None:
    column = grid(*bounds)
    values: list[float | None] = [None, math.nan, math.inf, -math.inf, 0.0, -0.0]
    assert column.minimum is not None and column.maximum is not None
    low, high = float(column.minimum), float(column.maximum)
    for point in [*column.points()[:110], high]:
        assert isinstance(point, float)
        values += [point, math.nextafter(point, -math.inf), math.nextafter(point, math.inf)]
    draw = random.Random(20)
    values += [draw.uniform(low, high) for _ in range(200)]
    values += [low - (high - low) / 7, high + (high - low) / 7]
    agree(bench, column, "DOUBLE", values)


@pytest.mark.parametrize("bounds", GRIDS[:6], ids=" ".join)
def test_a_float_is_compared_as_the_decimal_that_it_prints_as(
    bench: Any, bounds: tuple[str, str, str]
) -> None:
    column = grid(*bounds)
    points = np.array(column.points(), np.float32)
    near = [np.nextafter(points, np.float32(side)) for side in (-np.inf, np.inf)]
    values = [float(value) for value in np.concatenate([points, *near])]
    agree(bench, column, "FLOAT", [*values, math.nan, math.inf, None])


STEPS = [("0", "100", "0.1"), ("0", "0.3", "0.1"), ("0", "9", "0.001"), ("-7", "63", "0.7"),
         ("-3", "3", "0.025"), ("100", "300", "0.05"), ("0", "1e-3", "1e-7"),
         ("0", "30", "0.3")]  # fmt: skip


@pytest.mark.parametrize("sql_type", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize("bounds", STEPS, ids=" ".join)
def test_every_point_of_a_grid_falls_on_itself(
    bench: Any, bounds: tuple[str, str, str], sql_type: str
) -> None:
    """Written as a decimal; and as a DOUBLE also computed, by the step or by going on from below.

    The last point is the maximum, and stays in the domain. Of large grids some 1,000 points, for a
    tree of more is slow: where one in 100 falls elsewhere, that is seen but for a chance of 5e-5.
    """
    column = grid(*bounds)
    low, _, step = map(Decimal, bounds)
    path = bench.build(f"CREATE TABLE t (i INTEGER, v {sql_type})")
    last = column.size - 1
    at = sorted({0, 1, last - 1, last, *random.Random(7).sample(range(last), min(last, 1000))})
    ways = [[low + step * i for i in at]]
    if sql_type == "DOUBLE":
        ways.append([float(low) + float(step) * i for i in at])
        ways.append([(float(low + step * (i - 1)) + float(step)) for i in at])
    with duckdb.connect(str(path)) as made:
        for values in ways:
            made.execute(
                "INSERT INTO t SELECT unnest($1::INTEGER[]), unnest($2::VARCHAR[])::" + sql_type,
                [at, [str(value) for value in values]],
            )
    number = Column("i", Kind.INTEGER, minimum=0, maximum=column.size)
    expected = Counter({(i, i): len(ways) for i in at})
    assert bench.count(path, bench.dataset(number, column)) == expected
    edges = Column("v", Kind.NUMBER, edges=tuple(ways[0]))
    expected = Counter({(i, bin): len(ways) for bin, i in enumerate(at[:-1])})
    assert bench.count(path, bench.dataset(number, edges)) == expected


@pytest.mark.parametrize("digits", [4, 9, 18, 38])
def test_every_decimal_is_the_double_of_its_digits(bench: Any, digits: int) -> None:
    path = bench.build(
        f"CREATE TABLE t AS SELECT i, CAST(i / 100.0 AS DECIMAL({digits}, 2)) AS v "
        "FROM range(9999) r(i)"
    )
    column, number = grid("0", "99.98", "0.01"), Column("i", Kind.INTEGER, minimum=0, maximum=9999)
    found = bench.count(path, bench.dataset(number, column))
    assert found == Counter({(i, i): 1 for i in range(9999)})


@pytest.mark.parametrize("sql_type", ["DECIMAL(4,2)", "DECIMAL(9,2)", "DECIMAL(18,3)"])
def test_a_decimal_falls_on_the_grid_point_at_or_below_it(bench: Any, sql_type: str) -> None:
    column = grid("-1.05", "2", "0.05")
    values = [Decimal(i) / 100 for i in range(-120, 215)]
    agree(bench, column, sql_type, [*values, None])


def test_a_wide_decimal_outside_the_domain_stays_outside(bench: Any) -> None:
    column = grid("0", "2", "0.5")
    values = [Decimal(text) for text in ("2.000", "2.001", "9" * 35, "-" + "9" * 35)]
    agree(bench, column, "DECIMAL(38,3)", [*values, None])


@pytest.mark.parametrize("sql_type", ["TINYINT", "UTINYINT", "INTEGER", "BIGINT", "HUGEINT"])
def test_an_integer_falls_on_the_grid_of_a_number(bench: Any, sql_type: str) -> None:
    values = [0, 1, 2, 3, 4, 5, 6, 7, 8, 100, None]
    agree(bench, grid("0.5", "7.5", "1.5"), sql_type, values)
    edges = Column("v", Kind.NUMBER, edges=tuple(map(Decimal, ("0.5", "2", "7"))))
    agree(bench, edges, sql_type, values)


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 33, 200])
def test_bins_are_half_open(bench: Any, count: int) -> None:
    edges = tuple(Decimal(i * i) / 10 - 1 for i in range(count + 1))
    values: list[float | None] = [None, math.nan, math.inf, -math.inf]
    for edge in map(float, edges):
        values += [edge, math.nextafter(edge, -math.inf), math.nextafter(edge, math.inf)]
    agree(bench, Column("v", Kind.NUMBER, edges=edges), "DOUBLE", values)


@pytest.mark.parametrize("sql_type", INTEGERS)
def test_integers_are_compared_in_their_own_type(bench: Any, sql_type: str) -> None:
    least, most = INTEGERS[sql_type]
    values = sorted({v for v in (least, least + 1, -6, -5, 0, 9, 10, 11, most - 1, most)})
    values = [v for v in values if least <= v <= most]
    agree(bench, Column("v", Kind.INTEGER, minimum=-5, maximum=10), sql_type, [*values, None])


@pytest.mark.parametrize("sql_type", ["BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT"])
def test_integers_at_the_ends_of_bigint_do_not_overflow(bench: Any, sql_type: str) -> None:
    top = 2**63 - 1
    column = Column("v", Kind.INTEGER, minimum=top - 5, maximum=top)
    values = [0, top - 6, top - 5, top] + ([] if sql_type == "BIGINT" else [2**63, 2**64 - 1])
    agree(bench, column, sql_type, values)
    if sql_type in ("BIGINT", "HUGEINT"):
        bottom = Column("v", Kind.INTEGER, minimum=-(2**63), maximum=-(2**63) + 5)
        agree(bench, bottom, sql_type, [0, -(2**63), -(2**63) + 5, -(2**63) + 6, top])


def test_a_range_that_the_type_cannot_reach_holds_nothing(bench: Any) -> None:
    agree(bench, Column("v", Kind.INTEGER, minimum=300, maximum=400), "UTINYINT", [0, 255])
    agree(bench, Column("v", Kind.INTEGER, minimum=-9, maximum=-1), "UBIGINT", [0, 2**64 - 1])


@pytest.mark.parametrize("values", [(0, 1), (3, 1, 2), (1, 3), (10, -7, 4), (-2, -1, 0)])
@pytest.mark.parametrize("sql_type", ["TINYINT", "BIGINT", "HUGEINT"])
def test_categories_of_integers_have_their_declared_order(
    bench: Any, values: tuple[int, ...], sql_type: str
) -> None:
    column = Column("v", Kind.CATEGORY, values=values)
    agree(bench, column, sql_type, [*range(-12, 13), 127, None])


TEXTS = ("b", "a", "", " a", "a ", "A", "it's", 'say "x"', "a\nb", "é", "e\u0301", "😀", "01", "1")


@pytest.mark.parametrize("sql_type", ["VARCHAR", "VARCHAR COLLATE NOCASE"])
def test_categories_of_text_are_compared_byte_by_byte(bench: Any, sql_type: str) -> None:
    column = Column("v", Kind.CATEGORY, values=TEXTS)
    agree(bench, column, sql_type, [*TEXTS, "B", "É", "E\u0301", "ss", "a\tb", "NULL", None])


def test_an_enum_is_read_as_text_and_not_by_its_order(bench: Any) -> None:
    enum = "ENUM('z', 'b', 'a', 'it''s')"
    column = Column("v", Kind.CATEGORY, values=("a", "b", "it's", "missing"))
    agree(bench, column, enum, ["z", "a", "b", "it's", None])


def test_booleans_are_false_then_true(bench: Any) -> None:
    agree(bench, Column("v", Kind.BOOLEAN), "BOOLEAN", [True, False, None])


@pytest.mark.parametrize("step", ["day", "week", "month", "year"])
@pytest.mark.parametrize("first", [date(2023, 1, 31), date(2024, 2, 29), date(2023, 12, 1)])
def test_dates_fall_on_the_step_at_or_before_them(bench: Any, first: date, step: str) -> None:
    last = first + timedelta(days=1500)
    column = Column("v", Kind.DATE, minimum=first, maximum=last, step=step)
    days = [first + timedelta(days=i) for i in range(-40, 1540, 1 if step == "month" else 3)]
    ends = [first, last, first - timedelta(days=1), last + timedelta(days=1), date.max, date.min]
    agree(bench, column, "DATE", [*days, *ends, None])


def test_infinite_dates_are_outside(bench: Any) -> None:
    path = bench.build(
        "CREATE TABLE t AS SELECT unnest(['infinity', '-infinity', '2024-01-05'])::DATE AS v"
    )
    for step in ("day", "week", "month", "year"):
        bounds = {"minimum": date(2024, 1, 1), "maximum": date(2026, 1, 9), "step": step}
        column = Column("v", Kind.DATE, nullable=True, **bounds)
        found = bench.count(path, bench.dataset(column))
        assert sorted(found.values()) == [1, 2] and found[(column.size,)] == 2
