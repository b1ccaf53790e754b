"""The DuckDB engine: speed is measured elsewhere, meaning and isolation here."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import traceback
from collections import Counter
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.curator.engines import pack
from dpsql.curator.engines.connection import Fault
from dpsql.curator.sealed import unseal
from dpsql.errors import InternalError, SourceError
from dpsql.schema import Column, Kind, Unit

AGE = Column("age", Kind.INTEGER, minimum=0, maximum=9)


def ages(bench: Any, values: list[int | None]) -> Path:
    path: Path = bench.table("age INTEGER", [(value,) for value in values])
    return path


def test_many_columns_are_packed_into_several_words(bench: Any) -> None:
    wide = [Column(f"x{i}", Kind.INTEGER, minimum=0, maximum=9_999_999) for i in range(9)]
    fields = ", ".join(f"x{i} INTEGER" for i in range(9))
    table = [tuple((row * 7919 + i * 104729) % 10**7 for i in range(9)) for row in range(50)] * 2
    expected = Counter({row: 2 for row in table})
    assert bench.count(bench.table(fields, table), bench.dataset(*wide)) == expected


def test_nothing_can_be_changed_read_or_loaded_through_the_connection(bench: Any) -> None:
    path = ages(bench, [1, 2])
    other = bench.build("CREATE TABLE u AS SELECT 1 AS a")
    engine = bench.open(path, bench.dataset(AGE))
    connection = engine._source.connection
    for statement in (
        f"ATTACH '{other}' AS other (READ_ONLY)",
        f"ATTACH '{bench.folder}/new.duckdb'",
        f"COPY (SELECT 1) TO '{bench.folder}/out.csv'",
        f"EXPORT DATABASE '{bench.folder}/out'",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM '/etc/passwd'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET threads = 1",
        "SET enable_external_access = true",
        "RESET lock_configuration",
        "INSERT INTO t VALUES (3)",
        "CREATE TABLE u (a INTEGER)",
        "DROP TABLE t",
        "SELECT * FROM bench",
    ):
        with pytest.raises(Fault) as caught:
            connection.execute(statement)
        assert caught.value.__context__ is None and caught.value.__cause__ is None
    engine.close()
    assert not list(bench.folder.glob("out*")) and not (bench.folder / "new.duckdb").exists()


def test_a_parquet_source_reads_its_own_file_alone(bench: Any) -> None:
    first, second = bench.folder / "a.parquet", bench.folder / "b.parquet"
    for path in (first, second):
        duckdb.sql(f"COPY (SELECT 1 AS age) TO '{path}'")
    engine = bench.open(first, bench.dataset(AGE))
    with pytest.raises(Fault):
        engine._source.connection.rows(f"SELECT * FROM '{second}'")
    engine.close()
    query = f"SELECT age FROM read_parquet('{second}')"
    with pytest.raises(SourceError, match="database alone"):
        bench.open(first, bench.dataset(AGE, query=query))


def test_a_file_name_is_not_a_pattern(bench: Any) -> None:
    for name in ("x?.parquet", "x*.parquet", "x[1].parquet", "x1.parquet", "year=2020.parquet"):
        path = bench.folder / name
        duckdb.sql(f"COPY (SELECT {len(name) % 10} AS age) TO '{path}'")
        assert bench.count(path, bench.dataset(AGE)) == Counter({(len(name) % 10,): 1})


def test_a_source_file_is_found_beside_the_schema(bench: Any, tmp_path: Path) -> None:
    folder = tmp_path / "schemas" / "é"
    folder.mkdir(parents=True)
    duckdb.sql(f"COPY (SELECT 4 AS age) TO '{folder}/visits.parquet'")
    declared = replace(bench.dataset(AGE, file="visits.parquet"), folder=folder)
    database = bench.build("CREATE TABLE t AS SELECT 1 AS age")
    assert bench.count(database, declared) == Counter({(4,): 1})
    elsewhere = replace(bench.dataset(AGE, file="nowhere.csv"), folder=folder)
    with pytest.raises(SourceError, match="the schema names as its source does not exist"):
        bench.open(database, elsewhere)
    base = replace(bench.dataset(AGE, file="x.duckdb"), folder=folder)
    with pytest.raises(SourceError, match="is neither"):
        bench.open(database, base)


def test_another_file_than_the_schema_names_is_not_read_in_its_place(bench: Any) -> None:
    path = bench.folder / "visits.parquet"
    duckdb.sql(f"COPY (SELECT 4 AS age) TO '{path}'")
    moved = bench.dataset(AGE, file="../elsewhere/visits.parquet")  # the same, in another folder
    assert bench.count(path, moved) == Counter({(4,): 1})
    other = bench.dataset(AGE, file="visits_2024.parquet")
    with pytest.raises(SourceError, match="is not the file that the schema of"):
        bench.open(path, other)


def test_text_of_a_csv_file_stays_text(bench: Any) -> None:
    path = bench.folder / "a.csv"
    path.write_text("state,age\n01,3\n1,4\n02,\n,5\n")
    state = Column("state", Kind.CATEGORY, values=("01", "1", "02"), nullable=True)
    age = Column("age", Kind.INTEGER, minimum=0, maximum=9, nullable=True)
    expected = Counter({(0, 3): 1, (1, 4): 1, (2, 10): 1, (3, 5): 1})
    assert bench.count(path, bench.dataset(state, age)) == expected


def test_no_row_of_a_csv_file_decides_whether_it_is_read(bench: Any) -> None:
    path = bench.folder / "a.csv"
    whole = "age\n" + "1\n" * 50_000
    for last in ("1.7", "secret", "", '"', "99999999999999999999", "0x1", "+ 1"):
        path.write_text(f"{whole}{last}\n")
        assert bench.count(path, bench.dataset(AGE)) == Counter({(1,): 50_000}), last
    path.write_text(f"{whole}2,3,4\n")  # what a line has beyond the header is dropped
    assert bench.count(path, bench.dataset(AGE)) == Counter({(1,): 50_000, (2,): 1})
    path.write_text(f"{whole} +2 \n")
    assert bench.count(path, bench.dataset(AGE)) == Counter({(1,): 50_000, (2,): 1})


def test_fields_of_a_csv_file_are_read_as_declared(bench: Any) -> None:
    path = bench.folder / "a.csv"
    path.write_text("weight;day;smoker\n0.5;2025-01-02;true\n1e0;2025-01-01;F\nx;y;z\n;;\n")
    weight = Column("weight", Kind.NUMBER, nullable=True, minimum=Decimal(0), maximum=Decimal(1),
                    step=Decimal("0.5"))  # fmt: skip
    first, last = date(2025, 1, 1), date(2025, 1, 2)
    day = Column("day", Kind.DATE, nullable=True, minimum=first, maximum=last)
    smoker = Column("smoker", Kind.BOOLEAN, nullable=True)
    expected = Counter({(1, 1, 1): 1, (2, 0, 0): 1, (3, 2, 2): 2})
    assert bench.count(path, bench.dataset(weight, day, smoker)) == expected


def test_a_csv_column_without_values_has_its_declared_type(bench: Any) -> None:
    path = bench.folder / "a.csv"
    path.write_text("age,n\n,1\n,2\n")
    nullable = Column("age", Kind.INTEGER, minimum=0, maximum=9, nullable=True)
    assert bench.count(path, bench.dataset(nullable)) == Counter({(10,): 2})
    path.write_text("age,n\n")
    assert bench.count(path, bench.dataset(nullable)) == Counter()


def test_ids_of_units_in_a_csv_file_stay_text(bench: Any) -> None:
    path = bench.folder / "a.csv"
    path.write_text("id,age\n7,1\n07,1\n007,1\n")
    declared = bench.dataset(AGE, unit=Unit("id", 1))
    assert bench.count(path, declared) == Counter({(1,): 3})


def test_tables_of_other_schemas_and_views_are_sources(bench: Any) -> None:
    path = bench.build(
        "CREATE SCHEMA extra",
        "CREATE TABLE extra.visits AS SELECT 1 AS age",
        'CREATE TABLE "dotted.name" AS SELECT 2 AS age',
        "CREATE VIEW seen AS SELECT age + 3 AS age FROM extra.visits",
        'CREATE TABLE "MiXed ""Case""" AS SELECT 5 AS AGE',
    )
    for table, age in (
        ("extra.visits", 1),
        ("dotted.name", 2),
        ("seen", 4),
        ('mixed "case"', 5),
    ):
        assert bench.count(path, bench.dataset(AGE, table=table)) == Counter({(age,): 1})


def test_views_and_queries_may_use_the_name_of_the_database(bench: Any, tmp_path: Path) -> None:
    path = tmp_path / "clinic.v2.duckdb"
    with duckdb.connect(str(path)) as made:
        made.execute("CREATE TABLE t AS SELECT 6 AS age")
        made.execute("CREATE VIEW seen AS SELECT age FROM clinic.main.t")
    for source in ({"table": "seen"}, {"query": "SELECT age FROM clinic.main.t"}):
        assert bench.count(path, bench.dataset(AGE, **source)) == Counter({(6,): 1})
    for name in ("memory.duckdb", "temp.duckdb", "system.duckdb", "main.duckdb", ".duckdb", "no"):
        moved = path.rename(tmp_path / name)
        assert bench.count(moved, bench.dataset(AGE)) == Counter({(6,): 1})
        moved.rename(path)


def test_a_query_or_view_gives_the_same_rows_for_as_long_as_it_is_open(
    bench: Any, cells_of: Any
) -> None:
    path = ages(bench, list(range(10)) * 50)
    drawn = "SELECT age FROM t WHERE random() < 0.5"
    with duckdb.connect(str(path)) as made:
        made.execute(f"CREATE VIEW drawn AS {drawn}")
    for source in ({"query": drawn}, {"table": "drawn"}):
        engine = bench.open(path, bench.dataset(AGE, **source))
        first = cells_of(engine, "age")
        assert all(cells_of(engine, "age") == first for _ in range(5))
        engine.close()


def test_names_of_tables_of_ours_do_not_hide_those_of_the_owner(bench: Any) -> None:
    path = bench.build("CREATE TABLE __dpsql_stored AS SELECT 3 AS age", "CREATE TABLE c0 (a INT)")
    query = "SELECT age FROM __dpsql_stored"
    assert bench.count(path, bench.dataset(AGE, query=query)) == Counter({(3,): 1})


def test_any_number_of_readers_at_once(bench: Any, cells_of: Any) -> None:
    path = ages(bench, [1, 1, 2])
    engines = [bench.open(path, bench.dataset(AGE)) for _ in range(5)]
    with duckdb.connect(str(path), read_only=True) as another:
        assert another.execute("SELECT count(*) FROM t").fetchall() == [(3,)]
        for engine in engines:
            assert cells_of(engine, "age") == Counter({(1,): 2, (2,): 1})
    read = f"import duckdb; duckdb.connect({str(path)!r}, read_only=True).execute('FROM t')"
    subprocess.run([sys.executable, "-c", read], check=True)
    for engine in engines:
        engine.close()


def test_threads_may_share_an_engine(bench: Any, cells_of: Any) -> None:
    engine = bench.open(ages(bench, [1, 1, 2]), bench.dataset(AGE))
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(cells_of(engine, "age"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [Counter({(1,): 2, (2,): 1})] * 8
    engine.close()


def test_a_folder_for_what_does_not_fit_is_private_and_removed(
    bench: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    path = ages(bench, [1])
    engine = bench.open(path, bench.dataset(AGE))
    [made] = place.iterdir()
    assert made.stat().st_mode & 0o777 == 0o700
    engine.close()
    assert not list(place.iterdir())
    for wrong in (bench.dataset(AGE, table="nope"), bench.dataset(AGE, query="nope")):
        with pytest.raises(SourceError):
            bench.open(path, wrong)
    assert not list(place.iterdir())


def test_an_engine_that_is_forgotten_lets_go_of_its_file(bench: Any) -> None:
    path = ages(bench, [1])
    bench.open(path, bench.dataset(AGE))
    with duckdb.connect(str(path)) as writer:
        writer.execute("INSERT INTO t VALUES (2)")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_must_open_its_own_engine(bench: Any) -> None:
    engine = bench.open(ages(bench, [1]), bench.dataset(AGE))
    child = os.fork()
    if child == 0:
        try:
            engine.counts(())
        except SourceError as error:
            engine.close()
            os._exit(7 if "fork" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert unseal(engine.counts(())).counts.tolist() == [1]
    engine.close()


def test_a_bounded_unit_needs_a_key(bench: Any) -> None:
    path = bench.table("id INTEGER, age INTEGER", [(1, 1)])
    with pytest.raises(ValueError, match="key"):
        bench.open(path, bench.dataset(AGE, unit=Unit("id", 1)), key=None)


def test_a_fault_of_ours_says_nothing_of_the_data(bench: Any, monkeypatch: Any) -> None:
    engine = bench.open(ages(bench, [7] * 8_675), bench.dataset(AGE))

    def broken(codes: object, counts: object) -> None:
        raise ValueError(codes, counts)

    monkeypatch.setattr(pack, "Cells", broken)
    with pytest.raises(InternalError) as caught:
        engine.counts(("age",))
    told = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert "8675" not in "".join(told.format())
    engine.close()


def test_a_column_that_is_missing_is_told(bench: Any) -> None:
    path = bench.table("a BOOLEAN", [])
    columns = (Column("a", Kind.BOOLEAN), Column("no", Kind.BOOLEAN))
    with pytest.raises(SourceError) as caught:
        bench.open(path, bench.dataset(*columns))
    assert str(caught.value) == (
        "the table lacks the declared column no: take it out of the schema, or give its name in "
        'the table by source = "..."'
    )


def test_every_type_that_does_not_do_is_told_at_once(bench: Any) -> None:
    fields = {
        "a": "VARCHAR",
        "b": "DOUBLE",
        "c": "TIMESTAMP",
        "d": "INTEGER",
        "e": "BOOLEAN",
        "f": "INTEGER[]",
        "g": "ENUM('secret')",
        "h": "DECIMAL(38,20)",
        "i": "BLOB",
        "j": "VARCHAR",
    }
    path = bench.table(", ".join(f"{n} {t}" for n, t in fields.items()), [])
    day: dict[str, Any] = {"minimum": date(2025, 1, 1), "maximum": date(2025, 12, 31)}
    number: dict[str, Any] = {"minimum": Decimal(0), "maximum": Decimal(1), "step": Decimal("0.1")}
    columns = (
        Column("a", Kind.INTEGER, minimum=0, maximum=9),
        Column("b", Kind.INTEGER, minimum=0, maximum=9),
        Column("c", Kind.DATE, **day),
        Column("d", Kind.CATEGORY, values=("0", "1")),
        Column("e", Kind.CATEGORY, values=(0, 1)),
        Column("f", Kind.INTEGER, minimum=0, maximum=9),
        Column("g", Kind.BOOLEAN),
        Column("h", Kind.NUMBER, **number),
        Column("i", Kind.CATEGORY, values=("x", "y")),
        Column("other", Kind.DATE, source="j", **day),
        Column("no", Kind.BOOLEAN),
        Column("such", Kind.BOOLEAN),
    )
    with pytest.raises(SourceError) as caught:
        bench.open(path, bench.dataset(*columns))
    said = str(caught.value)
    assert said.splitlines() == [
        "the table lacks the declared columns no, such: take them out of the schema, or give "
        'their names in the table by source = "..."',
        "column a is declared as an integer, and the table has VARCHAR: declare type = "
        '"category" with its values, or a query source that casts it, [source] query = '
        '"SELECT ... CAST(a AS BIGINT) AS a ..."',
        "column b is declared as an integer, and the table has DOUBLE: declare type = "
        '"number" with min, max and step, or a query source that casts it, [source] query = '
        '"SELECT ... CAST(b AS BIGINT) AS b ..."',
        "column c is declared as a date, and the table has TIMESTAMP: use a query source that "
        'casts it, [source] query = "SELECT ... CAST(c AS DATE) AS c ..."',
        "column d is declared as a category of text, and the table has INTEGER: write its "
        'values without quotes, or declare type = "integer"',
        "column e is declared as a category of integers, and the table has BOOLEAN: declare "
        'type = "boolean"',
        "column f is declared as an integer, and the table has INTEGER[]: use a query source "
        'that casts it, [source] query = "SELECT ... CAST(f AS BIGINT) AS f ..."',
        'column g is declared as a boolean, and the table has ENUM: declare type = "category" '
        'with its values, or a query source that casts it, [source] query = "SELECT ... '
        'CAST(g AS BOOLEAN) AS g ..."',
        "column h is DECIMAL(38,20) in the table, which has more digits than a DOUBLE up to 1: "
        "cast it to DOUBLE or round it in a query source",
        "column i is declared as a category of text, and the table has BLOB: use a query "
        'source that casts it, [source] query = "SELECT ... CAST(i AS VARCHAR) AS i ..."',
        "column other is declared as a date, and the table's j has VARCHAR: declare type = "
        '"category" with its values, or a query source that casts it, [source] query = '
        '"SELECT ... CAST(j AS DATE) AS j ..."',
    ]


def test_units_of_a_csv_file_are_bounded_whatever_their_ids(bench: Any) -> None:
    path = bench.folder / "a.csv"
    path.write_text("id,age\n" + "abc,1\n" * 1000 + "7,1\n")
    assert bench.count(path, bench.dataset(AGE, unit=Unit("id", 3))) == Counter({(1,): 4})
    number = Column("id", Kind.INTEGER, minimum=0, maximum=9, nullable=True)
    with pytest.raises(SourceError, match="the unit column id of a CSV file is read as text"):
        bench.open(path, bench.dataset(AGE, number, unit=Unit("id", 3)))
    renamed = Column("other", Kind.BOOLEAN, nullable=True, source="ID")
    with pytest.raises(SourceError, match="is read as text"):
        bench.open(path, bench.dataset(AGE, renamed, unit=Unit("id", 3)))


def test_lines_of_a_csv_file_may_end_in_different_ways(bench: Any) -> None:
    path = bench.folder / "a.csv"
    path.write_bytes(b"k,age\na,1\nb,2\r\na,3\n")
    assert bench.count(path, bench.dataset(AGE)) == Counter({(1,): 1, (2,): 1, (3,): 1})
