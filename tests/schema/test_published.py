"""The schemas of the published tables: they load, have the known sizes, and fit the tables."""

from __future__ import annotations

import json
import math
import tomllib
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.schema import Column, Dataset, Kind, Neighbours, dumps, find, load, loads

ROOT = Path(__file__).parents[2]
SCHEMAS = sorted((ROOT / "schemas").glob("*.toml"))
DATA = sorted((ROOT / "examples" / "data").glob("*.parquet"))
FACTS: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "published.json").read_text()
)
SHARED = ROOT.parent / "shared" / "data" / "domains.json"
UNITS = {"covid_tests": ("subject_id", 20), "pums_null": ("pid", 4)}
OUTSIDE = {"covid_tests": 1}  # one row of age 138


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def test_there_is_a_schema_for_each_table() -> None:
    assert [path.stem for path in SCHEMAS] == sorted(FACTS)
    assert {path.stem for path in DATA} <= set(FACTS)
    assert len(DATA) >= 4


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.stem)
def test_a_published_schema_has_the_known_domain(path: Path) -> None:
    dataset, facts = load(path), FACTS[path.stem]
    assert dataset.name == dataset.source.table == path.stem
    assert len(dataset.columns) == facts["columns"]
    assert sum(column.nullable for column in dataset.columns) == facts["nullable"]
    assert math.prod(column.cells for column in dataset.columns) == int(facts["universe"])
    assert not {column.name for column in dataset.columns} & set(facts["undeclared"])
    assert (dataset.unit.column, dataset.unit.max_rows) == UNITS.get(path.stem, (None, 1))
    assert dataset.neighbours is Neighbours.ADD_REMOVE
    assert not dataset.unsafe


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.stem)
def test_a_published_schema_is_written_as_we_write(path: Path) -> None:
    plain = [line for line in path.read_text().split("\n") if not line.startswith("# ")]
    assert "\n".join(plain) == dumps(load(path))


def outside(column: Column) -> str:
    """A condition, in DuckDB's words, that takes a row out of the dataset."""
    name = quoted(column.table_name)
    match column.kind:
        case Kind.CATEGORY:
            listed = ", ".join(
                str(v) if isinstance(v, int) else "'" + v.replace("'", "''") + "'"
                for v in column.values
            )
            condition = f"{name} NOT IN ({listed})"
        case Kind.INTEGER:
            condition = f"{name} NOT BETWEEN {column.minimum} AND {column.maximum}"
        case _:
            condition = "FALSE"
    return "FALSE" if column.nullable else f"({name} IS NULL OR {condition})"


@pytest.mark.parametrize("path", DATA, ids=lambda path: path.stem)
def test_a_published_table_fits_its_schema(path: Path) -> None:
    (dataset,) = find(path, [ROOT / "schemas" / f"{path.stem}.toml"])
    condition = " OR ".join(outside(column) for column in dataset.columns)
    with duckdb.connect() as connection:
        table = connection.read_parquet(str(path))
        types = dict(zip(table.columns, map(str, table.types), strict=True))
        for column in dataset.columns:
            assert types[column.table_name] == column.sql_type
        rows = table.aggregate("COUNT(*)").fetchall()[0][0]
        out = table.filter(condition).aggregate("COUNT(*)").fetchall()[0][0]
        unit = dataset.unit.column
        most = 1
        if unit is not None:
            counts = table.filter(f"{quoted(unit)} IS NOT NULL").aggregate(
                "COUNT(*) AS n", group_expr=quoted(unit)
            )
            most = counts.aggregate("MAX(n)").fetchall()[0][0]
    assert (rows, out) == (FACTS[path.stem]["rows"], OUTSIDE.get(path.stem, 0))
    assert most == dataset.unit.max_rows


def test_the_files_of_this_project_are_found_beside_a_table() -> None:
    (dataset,) = find(
        ROOT / "examples" / "data" / "adult.parquet", [ROOT / "schemas" / "adult.toml"]
    )
    assert dataset.name == "adult"


def test_published_domains_agree_with_their_description_where_it_is_at_hand() -> None:
    described: dict[str, Any] = json.loads(SHARED.read_text()) if SHARED.exists() else {}
    for name, facts in described.items():
        dataset = load(ROOT / "schemas" / f"{name}.toml")
        assert [column.name for column in dataset.columns] == list(facts["columns"])
        for column in dataset.columns:
            fact = facts["columns"][column.name]
            points = fact.get("values") or list(range(fact["lo"], fact["hi"] + 1))
            assert column.points() == points
            assert (column.nullable, column.sql_type) == (fact["nullable"], fact["type"])


def test_a_schema_of_117_columns_loads_in_a_few_milliseconds() -> None:
    import time

    text = (ROOT / "schemas" / "nonvoters.toml").read_text()
    taken = []
    for _ in range(5):
        start = time.process_time()
        dataset = loads(text)
        taken.append(time.process_time() - start)
    assert len(dataset.columns) == 117
    assert min(taken) < 0.05


def test_the_example_of_the_documentation_is_a_schema() -> None:
    text = 'day = {type = "date", min = 2025-01-01, max = 2025-12-31, step = "week"}'
    assert tomllib.loads(text)["day"]["min"] == date(2025, 1, 1)
    dataset: Dataset = loads(
        f'dataset = "v"\nunit = "row"\n[source]\nfile = "v.csv"\n[columns]\n{text}\n'
        'w = {type = "number", min = 0, max = 0.3, step = 0.1}'
    )
    assert dataset.columns[1].minimum == Decimal(0)
    assert dataset.columns[1].points() == [0.0, 0.1, 0.2, 0.3]
