"""Frames hold the released values, with their types."""

from __future__ import annotations

import datetime
import importlib.util
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from dpsql.errors import MissingExtra
from dpsql.surfaces import frames
from dpsql.surfaces.sheet import Sheet

PAGE = Sheet(
    ("i", "I", 'te"xt', "x", "day", "d", "b", "at"),
    ("BIGINT", "HUGEINT", "VARCHAR", "DOUBLE", "DATE", "DECIMAL(18,3)", "BOOLEAN", "TIMESTAMP"),
    [
        (
            1,
            2**100,
            'a\n"é\u2028',
            0.1 + 0.2,
            datetime.date(2025, 1, 2),
            Decimal("1.500"),
            True,
            datetime.datetime(2025, 1, 2, 3, 4, 5, 6),
        ),
        (None,) * 8,
        (-1, 0, "", float("inf"), None, None, False, None),
    ],
)


def test_parquet_holds_the_rows_with_distinct_names(tmp_path: Path) -> None:
    frames.parquet(PAGE, tmp_path / "a.parquet")
    with duckdb.connect() as judge:
        read = judge.execute("FROM read_parquet($1)", [str(tmp_path / "a.parquet")])
        assert [column[0] for column in read.description or ()] == [
            "i", "I_1", 'te"xt', "x", "day", "d", "b", "at",
        ]  # fmt: skip
        rows = read.fetchall()
    assert rows[0][2:] == PAGE.rows[0][2:] and rows[0][0] == 1
    assert rows[1] == PAGE.rows[1]
    assert rows[2][2:4] == ("", float("inf"))


def test_a_parquet_that_cannot_be_written_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        frames.parquet(PAGE, tmp_path / "missing" / "a.parquet")
    with pytest.raises(OSError):
        frames.parquet(PAGE, Path("/dev/full"))


def test_an_answer_without_rows_keeps_its_types(tmp_path: Path) -> None:
    empty = Sheet(PAGE.columns, PAGE.types, [])
    frames.parquet(empty, tmp_path / "a.parquet")
    with duckdb.connect() as judge:
        found = judge.execute("DESCRIBE FROM read_parquet($1)", [str(tmp_path / "a.parquet")])
        assert [row[1] for row in found.fetchall()][3:5] == ["DOUBLE", "DATE"]


def test_a_data_frame_has_the_values() -> None:
    frame = frames.df(PAGE)
    assert list(frame.columns) == ["i", "I_1", 'te"xt', "x", "day", "d", "b", "at"]
    assert frame["x"][0] == 0.1 + 0.2 and frame["i"].isna().tolist() == [False, True, False]


def test_an_arrow_table_has_the_values() -> None:
    table = frames.arrow(PAGE)
    assert table.num_rows == 3
    assert table.column("d").to_pylist() == [Decimal("1.500"), None, None]


def test_a_polars_frame_has_the_values() -> None:
    assert frames.pl(PAGE)["b"].to_list() == [True, None, False]


@pytest.mark.parametrize(
    ("call", "extra"), [("df", "pandas"), ("arrow", "arrow"), ("pl", "polars")]
)
def test_a_missing_package_is_named_with_its_remedy(
    call: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        MissingExtra, match=rf"pip install 'dpsql\[{extra}\]'; .*not lost"
    ) as missed:
        getattr(frames, call)(PAGE)
    assert missed.value.rows == PAGE.rows  # what was paid for


def test_a_type_that_is_no_type_is_text() -> None:
    page = Sheet(("a",), ("VARCHAR); DROP TABLE page; --",), [("x",)])
    with frames._loaded(page) as database:
        assert database.sql("FROM page").fetchall() == [("x",)]
