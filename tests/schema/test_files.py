"""Schema files are found where people put them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dpsql.errors import SchemaError, UsageError
from dpsql.schema import dumps, find, load, load_all, loads

TEXT = """\
dataset = "NAME"
unit = "row"
[source]
file = "NAME.parquet"
[columns]
sex = {type = "boolean"}
"""


def put(path: Path, name: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(TEXT.replace("NAME", name))
    return path


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


def names(database: Path, schema: list[Path] | None = None) -> list[str]:
    return [dataset.name for dataset in find(database, schema)]


def test_the_file_beside_the_database_comes_first(tmp_path: Path) -> None:
    put(tmp_path / "visits.toml", "own")
    put(tmp_path / "schemas" / "visits.toml", "folder")
    assert names(tmp_path / "visits.duckdb") == ["own"]


def test_then_the_folder_beside_the_database(tmp_path: Path, empty: Path) -> None:
    put(tmp_path / "schemas" / "b.toml", "b")
    put(tmp_path / "schemas" / "a.toml", "a")
    put(empty / "schemas" / "c.toml", "c")
    assert names(tmp_path / "visits.duckdb") == ["a", "b"]


def test_then_the_folder_where_one_works(tmp_path: Path, empty: Path) -> None:
    put(empty / "schemas" / "c.toml", "c")
    assert names(tmp_path / "visits.duckdb") == ["c"]


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".PARQUET"])
def test_a_file_of_one_table_has_the_schema_of_its_name(tmp_path: Path, suffix: str) -> None:
    put(tmp_path / "schemas" / "a.toml", "a")
    put(tmp_path / "schemas" / "visits.toml", "visits")
    assert names(tmp_path / f"visits{suffix}") == ["visits"]
    assert names(tmp_path / "visits.duckdb") == ["a", "visits"]
    assert names(tmp_path / f"other{suffix}") == ["a", "visits"]


def test_files_and_folders_can_be_named_together(tmp_path: Path) -> None:
    one = put(tmp_path / "one.toml", "one")
    put(tmp_path / "more" / "two.toml", "two")
    (tmp_path / "more" / "notes.txt").write_text("no schema")
    assert names(tmp_path / "x.duckdb", [one, tmp_path / "more"]) == ["one", "two"]
    assert names(tmp_path / "x.duckdb", [one, tmp_path / "more" / ".." / "one.toml"]) == ["one"]


def test_without_any_the_error_lists_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        find(tmp_path / "visits.duckdb")
    for place in (tmp_path / "visits.toml", tmp_path / "schemas", Path("schemas")):
        assert str(place) in str(caught.value)


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no schema .*missing\.toml"):
        find(tmp_path / "x.duckdb", [tmp_path / "missing.toml"])
    (tmp_path / "none").mkdir()
    with pytest.raises(UsageError, match=r"it holds no \.toml file"):
        find(tmp_path / "x.duckdb", [tmp_path / "none"])


def test_one_name_in_two_files_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "s" / "a.toml", "visits")
    put(tmp_path / "s" / "b.toml", "Visits")
    with pytest.raises(SchemaError, match=r"dataset 'Visits' is declared in .*a\.toml already"):
        find(tmp_path / "x.duckdb", [tmp_path / "s"])


def test_the_problems_of_all_files_come_at_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.toml").write_text("dataset = 3")
    with pytest.raises(SchemaError) as caught:
        load_all([tmp_path / "a.toml", tmp_path / "b.toml"])
    assert {problem.file for problem in caught.value.problems} == {
        str(tmp_path / "a.toml"),
        str(tmp_path / "b.toml"),
    }


def test_a_dataset_knows_the_folder_of_its_file(tmp_path: Path) -> None:
    path = put(tmp_path / "a.toml", "a")
    os.chdir(tmp_path)
    assert load(path).folder == load("a.toml").folder == tmp_path
    assert loads(dumps(load(path))) == load(path)


def test_a_file_that_cannot_be_read_is_a_schema_error(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="cannot be read: no such file"):
        load(tmp_path / "missing.toml")
    with pytest.raises(SchemaError, match="cannot be read"):
        load(tmp_path)
    (tmp_path / "latin.toml").write_bytes('description = "é"'.encode("latin-1"))
    with pytest.raises(SchemaError, match="not UTF-8"):
        load(tmp_path / "latin.toml")
