"""`dpsql schema` drafts, checks and shows; analysts never see a source."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from dpsql.schema import loads
from dpsql.surfaces.cli import main

SCHEMA = """
dataset = "visits"
unit = {column = "pid", max_rows = 2}

[source]
table = "secret_visits"

[columns]
pid = {type = "integer", min = 0, max = 9}
state = {type = "category", values = ["01", "02"], description = "Where"}
day = {type = "date", min = 2025-01-01, max = 2025-12-31, step = "week"}
weight = {type = "number", min = 0, max = 200, step = 5, nullable = true}
income = {type = "number", edges = [0, 10, 20.5]}
smoker = {type = "boolean"}
"""


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with duckdb.connect(str(tmp_path / "visits.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE secret_visits AS SELECT (i % 10)::BIGINT AS pid,"
            " CASE i WHEN 0 THEN 'XX' WHEN 1 THEN NULL ELSE '01' END AS state,"
            " DATE '2025-03-01' AS day, CASE WHEN i < 5 THEN 500.0 ELSE 70.0 END AS weight,"
            " 5.0 AS income, true AS smoker FROM range(40) t(i)"
        )
    (tmp_path / "visits.toml").write_text(SCHEMA)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_show_tells_the_domains_and_not_the_source(
    clinic: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", "show", "visits.duckdb"]) == 0
    out = capsys.readouterr().out
    for words in (
        "dataset visits",
        "hides all rows of any one pid; at most 2 rows of each are counted",
        "'01', '02'",
        "2025-01-01 to 2025-12-31, each week",
        "NULL or 0 to 200, in steps of 5",
        "bins from 0, 10, 20.5",
        "false, true",
        "Where",
        "6 columns",
    ):
        assert words in out
    assert main(["schema", "show", "visits.toml", "--format", "json"]) == 0
    shown = capsys.readouterr().out
    (fields,) = json.loads(shown)
    assert [column["name"] for column in fields["columns"]][:2] == ["pid", "state"]
    assert fields["columns"][3]["min"] == "0" and fields["columns"][3]["nullable"] is True
    assert "secret" not in out + shown


def test_check_counts_what_falls_out(clinic: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "check", "visits.duckdb"]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0] == "visits: 20 of 40 rows are in the dataset"
    assert any("state" in line and "takes 2 rows out" in line for line in lines)
    assert any("weight" in line and "read as NULL" in line for line in lines)
    assert "10 values of pid have more than 2 rows; 18 of their rows are not counted" in out
    assert lines[-1] == "these are true numbers, for the owner alone"
    assert err == ""  # progress is for terminals
    assert main(["schema", "check", "visits.duckdb", "--format", "json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert report["counted"] == 20 and report["left"] == 38


def test_check_lists_what_keeps_a_dataset_from_being_answered(
    clinic: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = SCHEMA.replace("smoker =", "drinker =").replace("state = {", 'State = {source = "day", ')
    (clinic / "visits.toml").write_text(text)
    assert main(["schema", "check", "visits.duckdb"]) == 2
    out = capsys.readouterr().out
    assert "2 problems; nothing is answered" in out and "drinker" in out


def test_a_wrong_file_gets_all_its_faults_at_once(
    clinic: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", "check", "visits.toml"]) == 0
    assert "visits is well formed: 6 columns" in capsys.readouterr().out
    (clinic / "visits.toml").write_text(SCHEMA.replace("max = 9", "max = -9").replace("5,", "0,"))
    for command in ("check", "show"):
        assert main(["schema", command, "visits.toml"]) == 2
        err = capsys.readouterr().err
        assert "visits.toml:9" in err and "visits.toml:12" in err
    assert main(["schema", "check", "visits.toml", "--format", "json"]) == 2
    assert len(json.loads(capsys.readouterr().err)["problems"]) >= 2


def test_infer_drafts_what_can_be_read(clinic: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "infer", "visits.duckdb"]) == 0
    draft = capsys.readouterr().out
    assert 'dataset = "secret_visits"' in draft and "'XX'" not in draft and '"XX"' not in draft
    assert main(["schema", "infer", "visits.duckdb", "--from-data", "-o", "draft.toml"]) == 0
    dataset = loads((clinic / "draft.toml").read_text())
    assert dataset.unsafe and dataset.column("state").values == ("01", "XX")
    assert main(["query", "visits.duckdb", "SELECT 1", "-s", "draft.toml"]) == 2
    capsys.readouterr()
    assert main(["schema", "infer", "visits.duckdb", "-o", "visits.toml"]) == 2
    assert "is there already" in capsys.readouterr().err
    assert (clinic / "visits.toml").read_text() == SCHEMA


def test_infer_reads_the_metadata_of_others(
    clinic: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (clinic / "domain.json").write_text('{"sex": 2, "age": 111}')
    assert main(["schema", "infer", "domain.json"]) == 0
    dataset = loads(capsys.readouterr().out)
    assert dataset.name == "domain" and dataset.column("age").size == 111


def test_a_table_is_named_where_there_are_several(
    clinic: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with duckdb.connect(str(clinic / "visits.duckdb")) as connection:
        connection.execute("CREATE TABLE other (x BOOLEAN)")
    assert main(["schema", "infer", "visits.duckdb"]) == 3
    assert "other, secret_visits" in capsys.readouterr().err
    assert main(["schema", "infer", "visits.duckdb", "--table", "other"]) == 0
    assert loads(capsys.readouterr().out).column("x").size == 2


def test_the_json_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    from dpsql.schema import json_schema

    assert main(["schema", "json-schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json_schema()


@pytest.mark.parametrize(
    "arguments",
    [["show"], ["show", "nowhere.toml"], ["show", "visits.toml", "-s", "visits.toml"],
     ["check", "visits.duckdb", "more"], ["show", "nowhere/x.duckdb"]],
)  # fmt: skip
def test_a_wrong_command_line_is_code_2(
    clinic: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert main(["schema", *arguments]) == 2
    assert capsys.readouterr().err


@pytest.mark.parametrize("file", [[], ["-o", "draft.toml"]])
def test_a_draft_that_tells_on_people_says_so(
    clinic: Path, capsys: pytest.CaptureFixture[str], file: list[str]
) -> None:
    assert main(["schema", "infer", "visits.duckdb", "--from-data", *file]) == 0
    assert "tell on the people" in capsys.readouterr().err
    assert main(["schema", "infer", "visits.duckdb"]) == 0
    assert capsys.readouterr().err == ""
