"""What the owner is told about a table is true, and kept away from everybody else."""

from __future__ import annotations

import ast
import gzip
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.curator.facts import facts
from dpsql.curator.owner import Fit, check
from dpsql.errors import SourceError
from dpsql.schema import Column, Fact, Kind, Source, Unit, draft, loads

AGE = Column("age", Kind.INTEGER, minimum=0, maximum=9)
SEX = Column("sex", Kind.CATEGORY, True, values=("f", "m"))
PAY = Column("pay", Kind.NUMBER, True, minimum=Decimal(0), maximum=Decimal(9), step=Decimal(1))
FIELDS = "id INTEGER, age INTEGER, sex VARCHAR, pay DOUBLE"
ROWS = [
    (1, 5, "f", 1.0),
    (1, 5, "f", float("nan")),
    (1, 6, "x", None),
    (2, 10, "m", 3.0),
    (2, None, "m", 3.0),
    (2, 3, None, float("inf")),
    (None, 3, "y", 9.5),
]


@pytest.mark.parametrize("form", ["table", "query", "csv"])
def test_outside_values_are_counted_and_what_becomes_of_their_rows(bench: Any, form: str) -> None:
    path = bench.table(FIELDS, ROWS)
    declared = bench.dataset(AGE, SEX, PAY)
    if form == "query":
        declared = bench.dataset(AGE, SEX, PAY, query="FROM t")
    if form == "csv":
        made, path = path, bench.folder / "t.csv"
        with duckdb.connect(str(made)) as source:
            source.execute(f"COPY t TO '{path}'")
    report = check(path, declared)
    assert report.problems == () and report.rows == 7 and report.left == report.counted == 5
    assert report.columns == (
        Fit("age", nullable=False, nulls=1, outside=1),
        Fit("sex", nullable=True, nulls=1, outside=2),
        Fit("pay", nullable=True, nulls=1, outside=3),
    )
    assert [fit.taken_out for fit in report.columns] == [2, 0, 0]


def test_units_over_the_bound_are_counted_among_the_rows_that_are_left(bench: Any) -> None:
    path = bench.table(FIELDS, ROWS)
    report = check(path, bench.dataset(AGE, SEX, PAY, unit=Unit("id", 1)))
    assert (report.left, report.units_over, report.dropped, report.counted) == (5, 1, 2, 3)


def test_rows_without_a_unit_are_counted(bench: Any) -> None:
    path = bench.table(FIELDS, [*ROWS, (None, 99, "f", 1.0), (None, 3, "f", 1.0)])
    assert check(path, bench.dataset(AGE, SEX, PAY, unit=Unit("id", 1))).unitless == 2
    assert check(path, bench.dataset(AGE, SEX, PAY)).unitless == 0


LINES = {
    "a,age\n1,2\n\n3,4\n": (),
    'a,age\r\n"x\ny",2\r\n3,4\r\n': ("quoted fields hold 1 line ends, up to 1 in one row",),
    'a,age\n1,2\n"x,3\n4,5\ny",6\n7,8\n': ("quoted fields hold 2 line ends, up to 2 in one row",),
    'a,age\n1,2\n"x,3\n4,5\n6,7\n': ("3 of 4 lines are not read as rows",),
    "a,age\n1,2\n3\n4,5\n": ("1 of 3 lines are not read as rows",),
    "a,age\n1,2\n\udcff,3\n4,5\n": ("1 of 3 lines are not read as rows",),
}


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("text", LINES)
def test_lines_of_a_csv_file_that_are_no_rows_are_remarked(
    bench: Any, text: str, zipped: bool
) -> None:
    content = text.encode("utf-8", "surrogateescape")
    path = bench.folder / ("a.csv.gz" if zipped else "a.csv")
    path.write_bytes(gzip.compress(content) if zipped else content)
    remarks = check(path, bench.dataset(AGE)).remarks
    assert len(remarks) == len(LINES[text])
    assert all(map(str.startswith, remarks, LINES[text]))


def test_the_report_agrees_with_what_the_engine_counts(bench: Any) -> None:
    path = bench.table(FIELDS, ROWS * 50)
    declared = bench.dataset(AGE, SEX, unit=Unit("id", 3))
    counted = sum(bench.count(path, declared, "age").values())
    assert check(path, declared).counted == counted


def test_columns_that_do_not_fit_are_problems_and_not_errors(bench: Any) -> None:
    path = bench.table("age VARCHAR, sex VARCHAR", [])
    report = check(path, bench.dataset(AGE, SEX, PAY, unit=Unit("id", 1)))
    assert len(report.problems) == 3 and report.columns == ()
    assert "lacks the declared column pay" in report.problems[0]
    with pytest.raises(SourceError, match="does not exist"):
        check(bench.folder / "none.duckdb", bench.dataset(AGE))


def test_what_is_worth_a_look_is_remarked(bench: Any) -> None:
    path = bench.table(FIELDS, [(1, 50, "F", 1.0), (2, 60, "M", None)])
    report = check(path, replace(bench.dataset(AGE, SEX), unsafe=True))
    assert [remark.split(":")[0] for remark in report.remarks] == [
        "column age",
        "column sex",
        "no row is left",
        "the schema says unsafe = true",
    ]
    empty = bench.table(FIELDS, [])
    assert check(empty, bench.dataset(AGE)).remarks == ("the table is empty",)


def test_progress_goes_from_nothing_to_all(bench: Any) -> None:
    columns = [Column(f"x{i}", Kind.BOOLEAN) for i in range(30)]
    path = bench.table(", ".join(f"x{i} BOOLEAN" for i in range(30)), [])
    steps: list[tuple[int, int]] = []
    check(path, bench.dataset(*columns), lambda done, of: steps.append((done, of)))
    assert steps == sorted(steps) and steps[0] == (0, 32) and steps[-1] == (32, 32)
    assert len(steps) >= 5


CATALOGUE = (
    "CREATE TYPE mood AS ENUM ('sad', 'it''s ok')",
    "CREATE TABLE people (age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 110), feels mood, "
    "day DATE CHECK (day >= DATE '2025-01-01' AND day < DATE '2026-01-01'), "
    "grade INTEGER CHECK (grade IN (1, 2, 3)), seen TIMESTAMP, pay DOUBLE, smoker BOOLEAN)",
    "COMMENT ON COLUMN people.age IS 'in years'",
    "INSERT INTO people VALUES (33, 'sad', '2025-05-05', 1, NULL, 1.5, NULL)",
)


def test_facts_come_from_the_catalogue_and_not_from_rows(bench: Any) -> None:
    path = bench.build(*CATALOGUE)
    known = facts(path)
    assert known.source == Source(table="people")
    assert not any(fact.from_data or fact.values or fact.minimum for fact in known.columns)
    age, feels, day, grade, *_ = known.columns
    assert (age.name, age.sql_type, age.nullable, age.comment) == (
        "age",
        "INTEGER",
        False,
        "in years",
    )
    assert len(age.checks) == 1 and "110" in age.checks[0]
    assert feels.sql_type.startswith("ENUM(") and feels.nullable and day.checks and grade.checks
    drafted = loads(draft("people", known.columns, source=known.source))
    assert not drafted.unsafe
    assert (drafted.column("age").minimum, drafted.column("age").maximum) == (0, 110)
    assert drafted.column("feels").values == ("sad", "it's ok")
    assert drafted.column("day").maximum == date(2025, 12, 31)
    assert drafted.column("grade").values == (1, 2, 3)
    assert drafted.column("smoker").kind is Kind.BOOLEAN


def test_facts_from_the_data_say_so_and_make_a_schema_that_fits(bench: Any) -> None:
    path = bench.table(
        "a INTEGER, v VARCHAR COLLATE NOCASE, d DATE, x DOUBLE, y DECIMAL(9,2), b BOOLEAN, "
        "n DOUBLE",
        [
            (3, "b", date(2025, 1, 1), 0.125, Decimal("-3.10"), True, float("nan")),
            (-7, "B", date(2025, 3, 1), 17.5, Decimal("8.25"), False, float("inf")),
            (None, "", None, None, None, True, None),
        ],
    )
    steps: list[tuple[int, int]] = []
    known = facts(path, from_data=True, progress=lambda *step: steps.append(step))
    assert all(fact.from_data for fact in known.columns) and steps[-1] == (7, 7)
    by_name = {fact.name: fact for fact in known.columns}
    assert by_name["a"] == Fact("a", "INTEGER", minimum=-7, maximum=3, from_data=True)
    assert by_name["v"].values == ("", "B", "b") and not by_name["v"].nullable
    assert by_name["n"].minimum is None
    drafted = loads(draft("t", known.columns, source=known.source))
    assert drafted.unsafe and [c.name for c in drafted.columns] == ["a", "v", "d", "x", "y", "b"]
    report = check(path, replace(drafted, unsafe=False))
    assert report.left == 3 and report.remarks == ()
    assert all(fit.outside == 0 for fit in report.columns)


@pytest.mark.parametrize(
    "low, high", [(0.0, 0.0), (-1e-9, 1e-9), (3.3, 3.3), (-7e12, 2.0), (0.1, 0.3)]
)
def test_the_grid_that_is_proposed_reaches_over_all_numbers(
    bench: Any, low: float, high: float
) -> None:
    path = bench.table("x DOUBLE", [(low,), (high,)])
    known = facts(path, from_data=True)
    drafted = loads(draft("t", known.columns))
    assert 2 <= drafted.column("x").size <= 205
    assert check(path, drafted).left == 2


def test_a_text_column_of_very_many_values_is_no_category(bench: Any) -> None:
    path = bench.build("CREATE TABLE t AS SELECT 'n' || i AS v, i FROM range(3000) r(i)")
    assert facts(path, from_data=True).columns[0].values == ()


def test_the_table_must_be_clear(bench: Any) -> None:
    several = bench.build("CREATE TABLE a (x INT)", "CREATE SCHEMA s", "CREATE VIEW s.b AS FROM a")
    with pytest.raises(SourceError, match=r"several tables: name one of a, s\.b"):
        facts(several)
    with pytest.raises(SourceError, match=r"no table c: name one of a, s\.b"):
        facts(several, "c")
    assert facts(several, "S.B").source == Source(table="s.b")
    assert facts(several, "s.b").columns[0].name == "x"
    with pytest.raises(SourceError, match="has no tables"):
        facts(bench.build("CREATE SCHEMA s"))


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_file_is_a_table(bench: Any, suffix: str) -> None:
    path = bench.folder / f"x.{suffix}"
    duckdb.sql(f"COPY (SELECT 1 AS a, 'x' AS b) TO '{path}'")
    known = facts(path)
    assert known.source == Source(file=f"x.{suffix}")
    assert [fact.name for fact in known.columns] == ["a", "b"]


def test_only_commands_of_the_owner_import_what_prints_true_numbers() -> None:
    root = Path(str(dpsql.__file__)).parent
    private = {"dpsql.curator.owner", "dpsql.curator.facts", "dpsql.curator.lines"}
    allowed = {"curator/facts.py", "curator/owner.py", "surfaces/schema_cmd.py"}
    for path in root.rglob("*.py"):
        names: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Import(names=found):
                    names |= {alias.name for alias in found}
                case ast.ImportFrom(module=str() as module, names=found):
                    names |= {module, *(f"{module}.{alias.name}" for alias in found)}
        if path.relative_to(root).as_posix() not in allowed:
            assert not names & private, path
