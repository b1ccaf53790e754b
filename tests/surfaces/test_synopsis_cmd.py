"""`dpsql synopsis` from the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.surfaces.cli import main

TOLD = "SELECT sex, COUNT(*) AS n FROM town GROUP BY sex"
SCHEMA = """
dataset = "town"
neighbours = "add-remove"
unit = "row"
[source]
table = "town"
[columns]
sex = {type = "category", values = ["female", "male"]}
age = {type = "integer", min = 0, max = 9}
"the city, or so" = {type = "integer", min = 0, max = 3}
[synopses]
main = ["sex", "age"]
"""


@pytest.fixture
def town(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "town.duckdb"
    with duckdb.connect(str(path)) as made:
        made.execute(
            "CREATE TABLE town AS SELECT CASE WHEN i % 3 = 0 THEN 'male' ELSE 'female' END AS sex,"
            ' i % 10 AS age, i % 4 AS "the city, or so" FROM range(9000) t(i)'
        )
    path.with_suffix(".toml").write_text(SCHEMA)
    for user in ("alice", "bob"):
        assert main(["budget", "grant", str(path), user, "--epsilon", "10"]) == 0
    capsys.readouterr()
    return path


def run(capsys: pytest.CaptureFixture[str], *words: Any) -> tuple[int, str, str]:
    code = main([str(word) for word in words])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_a_synopsis_is_bought_asked_shown_and_dropped(
    town: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--backend", "synopsis", "--reuse")
    me = ("-u", "alice")
    code, out, _ = run(capsys, "synopsis", "create", town, "main", "--rho", "0.1", "--explain", *me)
    assert code == 0 and "nothing was charged" in out and "sex, age" in out
    code, out, _ = run(capsys, "synopsis", "create", town, "main", "--rho", "0.1", *me)
    assert code == 0 and "price ε" in out and "sex, age" in out
    code, _, err = run(capsys, "synopsis", "create", town, "main", "--rho", "0.1", *me)
    assert code == 2 and f"drop it first: dpsql synopsis drop {town} main" in err
    code, out, _ = run(capsys, "query", town, TOLD, *asked, "--format", "json", *me)
    answer = json.loads(out)
    assert code == 0 and answer["backend"] == "synopsis" and answer["charged"]["rho"] == 0
    code, out, _ = run(capsys, "explain", town, TOLD, *asked, *me)
    assert code == 0 and "synopsis main" in out
    code, out, _ = run(capsys, "synopsis", "show", town, "--format", "json", *me)
    assert code == 0 and json.loads(out)["rows"][0][:4] == ["town", "main", "sex, age", 3]
    code, out, _ = run(capsys, "synopsis", "drop", town, "main", *me)
    assert code == 0 and "synopsis main is dropped" in out
    code, _, err = run(capsys, "query", town, TOLD, *asked, *me)
    assert code == 2 and "there is none" in err


def test_tables_and_who_may_ask_are_named(town: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(
        capsys, "synopsis", "create", town, "two", "--table", 'sex,"the city, or so"', "--for",
        "bob", "--method", "pmw", "--updates", "3", "-u", "alice", "--format", "json",
    )  # fmt: skip
    assert code == 0
    assert [row[0] for row in json.loads(out)["rows"]] == [
        "sex", "the city, or so", "sex, the city, or so"
    ]  # fmt: skip
    code, out, _ = run(capsys, "synopsis", "show", town, "-u", "carol", "--format", "json")
    assert code == 0 and json.loads(out)["rows"] == []
    code, out, _ = run(capsys, "synopsis", "show", town, "-u", "bob", "--format", "json")
    told = json.loads(out)
    assert code == 0 and told["rows"][0][told["columns"].index("asked_by")] == "alice, bob"
    code, out, _ = run(capsys, "synopsis", "show", town, "-u", "bob")
    assert code == 0 and "asked_by" in out and "alice, bob" in out


@pytest.mark.parametrize("suffix", ["parquet", "csv", "duckdb"])
def test_rows_are_made_up_and_any_sql_on_them_is_free(
    town: Path, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    me = ("-u", "alice")
    assert main(["synopsis", "create", str(town), "main", "--rho", "1", *me]) == 0
    out = town.parent / f"rows.{suffix}"
    code, _, err = run(capsys, "synopsis", "export", town, "main", "-o", out, *me)
    assert code == 0 and "tables of 2 columns:" in err
    with duckdb.connect(str(out) if suffix == "duckdb" else ":memory:") as made:
        source = "town" if suffix == "duckdb" else f"'{out}'"
        found = made.execute(
            f"SELECT sex, COUNT(*) FROM {source} GROUP BY sex ORDER BY 1"
        ).fetchall()
    assert [sex for sex, _ in found] == ["female", "male"]
    assert all(abs(n - true) < 60 for (_, n), true in zip(found, (6000, 3000), strict=True))
    again = run(capsys, "synopsis", "export", town, "main", "-o", out, *me)
    assert again[0] == (2 if suffix == "duckdb" else 0)


def test_who_reads_a_synopsis_by_its_rows_is_told_what_that_took(
    town: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["budget", "grant", str(town), "bob", "--epsilon", "5"]) == 0
    assert main(["synopsis", "create", str(town), "main", "--epsilon", "1", "-u", "alice"]) == 0
    out = town.parent / "rows.csv"
    _, _, err = run(capsys, "synopsis", "export", town, "main", "-o", out, "-u", "bob")
    assert "synopsis · price ε 1.00 alone" in err and "ε left" in err
    _, _, err = run(capsys, "synopsis", "export", town, "main", "-o", out, "-u", "bob")
    assert " · free · ε left" in err


def test_so_many_rows_of_a_name_that_says_the_format(
    town: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    me = ("-u", "alice")
    assert main(["synopsis", "create", str(town), "main", "--rho", "1", *me]) == 0
    out = town.parent / "few.csv"
    code, _, _ = run(
        capsys, "synopsis", "export", town, "main", "-o", out, "--rows", "7", "--drawn", *me
    )
    assert code == 0 and len(out.read_text().splitlines()) == 8
    for words, said in (
        (("-o", out.with_suffix(".xlsx")), "end its name in .parquet, .csv or .duckdb"),
        (("-o", out, "--rows", "-1"), "rows is a whole number up to"),
    ):
        code, _, err = run(capsys, "synopsis", "export", town, "main", *words, *me)
        assert code == 2 and said in err
    assert len(out.read_text().splitlines()) == 8


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("create", "main", "--columns", "sex,height"), 2, "town has no column 'height'"),
        (("create", "other"), 2, "which columns?"),
        (("create",), 2, "no name: give DB NAME"),
        (("create", "main", "--epsilon", "1000"), 4, "nothing was charged"),
        (("drop", "main"), 2, "has no synopsis 'main'"),
    ],
)
def test_what_cannot_be_done_is_said(
    town: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, said: str
) -> None:
    found, _, err = run(capsys, "synopsis", words[0], town, *words[1:], "-u", "alice")
    assert found == code and said in err


def test_one_is_made_for_the_queries_of_a_script(
    town: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    script = tmp_path / "week.sql"
    script.write_text("SELECT sex, age, COUNT(*) FROM town WHERE age < $most GROUP BY ALL;\n")
    given = ("--queries", script, "--param", "most=5", "--method", "mwem", "--rho", "0.1")
    me = ("-u", "alice")
    code, out, _ = run(capsys, "synopsis", "create", town, "week", *given, "--explain", *me)
    assert code == 0 and "nothing was charged" in out and "1 that are chosen" in out
    code, out, _ = run(capsys, "synopsis", "create", town, "week", *given, *me)
    assert code == 0 and "sex, age" in out and "week.sql:1" in out
    code, out, _ = run(capsys, "synopsis", "show", town, *me)
    assert "mwem" in out and "sex, age" in out
    code, _, err = run(capsys, "synopsis", "create", town, "other", *given[:2], *me)
    assert code != 0 and "there is no value for $most" in err and "week.sql:1" in err
    script.write_text("SELECT COUNT(*) FROM town;\nSELECT SUM(age) FROM town;\n")
    code, _, err = run(capsys, "synopsis", "create", town, "other", "--queries", script, *me)
    assert code != 0 and "adds up values" in err and "week.sql:2" in err
    code, out, _ = run(capsys, "budget", "log", town)
    assert "a round, gaussian" in out
    script.write_text("SELECT sex, age // 5, COUNT(*) FROM town GROUP BY ALL;\n")
    small = ("--queries", script, "--method", "smalldb", "--rho", "0.1")
    code, out, _ = run(capsys, "synopsis", "create", town, "small", *small, "--size", "3", *me)
    assert code == 0 and "sex, age" in out and "most" in out
    code, _, err = run(capsys, "synopsis", "create", town, "large", *small, "--size", "9", *me)
    assert code != 0 and "databases of 9 rows over 20 cells" in err


def test_one_synopsis_is_told_in_full_free_and_none_in_words(
    town: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    me = ("-u", "alice")
    for words in (("synopsis", "show", town), ("query", town, "SHOW SYNOPSES")):
        code, out, _ = run(capsys, *words, *me)
        assert code == 0 and out.splitlines() == [
            "there is no synopsis that alice may ask: dpsql synopsis create makes one",
            "free: nothing was charged",
        ]
    assert run(capsys, "synopsis", "show", town, "main", *me)[0] == 2
    for name in ("main", "other"):
        terms = ("--method", "pmw", "--rho", "0.1", "--for", "bob")
        assert run(capsys, "synopsis", "create", town, name, "--columns", "sex,age", *terms, *me)[
            0
        ] == (0)
    code, out, _ = run(capsys, "synopsis", "show", town, "main", *me)
    for line in ("sex, age: 20 cells, standard error", "10 left, each ε", "alice, bob",
                 "free: alice has paid"):  # fmt: skip
        assert code == 0 and line in out
    assert run(capsys, "query", town, "show synopsis main", *me)[1] == out
    code, _, err = run(capsys, "query", town, "SHOW SYNOPSIS mian", *me)
    assert code == 1 and "there is no synopsis 'mian'" in err and "there are: main, other" in err
    monkeypatch.setenv("DPSQL_DB", str(town))
    code, out, _ = run(capsys, "synopsis", "show", "main", "other", "-u", "bob", "--format", "json")
    told = json.loads(out)
    assert code == 0 and told["columns"] == ["name", "item", "value"]
    assert {row[0] for row in told["rows"]} == {"main", "other"}
    (reading,) = [row[2] for row in told["rows"] if row[:2] == ["main", "to read it"]]
    assert reading.startswith("ε ") and reading.endswith(", once")
    code, _, err = run(capsys, "synopsis", "show", "main", "-u", "carol")
    assert code == 2 and "there is no synopsis 'main' that carol may ask" in err


def test_a_price_that_would_be_refused_is_said_to_be(
    town: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create = ("synopsis", "create", town, "main", "-u", "alice")
    code, out, _ = run(capsys, *create, "--epsilon", "99", "--explain")
    assert code == 0 and "would be refused: alice on town has too little left: a price up to" in out
    assert run(capsys, *create, "--epsilon", "99")[0] == 4
    told = run(capsys, *create, "--epsilon", "9", "--explain")[1]
    assert "would be refused" not in told
    after = re.search(r"note: (ε [\d.]+) would be left", told)
    assert (
        after
        and f"· {after[1].replace('ε', 'ε left')}" in run(capsys, *create, "--epsilon", "9")[1]
    )


def test_two_prices_are_refused(town: Path, capsys: pytest.CaptureFixture[str]) -> None:
    create = ("synopsis", "create", town, "main", "-u", "alice", "--explain")
    code, _, err = run(capsys, *create, "--epsilon", "1", "--rho", "0.1")
    assert code == 2 and "epsilon and rho each say what a synopsis costs: give one" in err


def test_sql_in_the_place_of_a_script_is_told_where_it_goes(
    town: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (("run", town, TOLD), ("synopsis", "create", town, "s", "--queries", TOLD)):
        code, _, err = run(capsys, *words, "-u", "alice")
        assert code == 2 and "is no file: a script is a file of SQL" in err


def test_tables_and_ways_are_not_given_together(
    town: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(
        capsys, "synopsis", "create", town, "main", "--table", "sex,age", "--ways", "1", "-u",
        "alice", "--explain",
    )  # fmt: skip
    assert code == 2 and "(sets)" in err and "(ways)" in err and "give one" in err


@pytest.mark.parametrize("accuracy", ["300", "0.5"])
def test_terms_of_a_synopsis_are_told_in_epsilon_too(
    town: Path, capsys: pytest.CaptureFixture[str], accuracy: str
) -> None:
    code, out, err = run(
        capsys, "synopsis", "create", town, "main", "--method", "pmw", "--accuracy", accuracy,
        "--explain", "-u", "alice",
    )  # fmt: skip
    assert code == (0 if accuracy == "300" else 2)
    assert re.search(r"ε [\d.]+ \(ρ [\d.]+\)", out + err)


def test_a_price_that_an_accuracy_takes_is_told_and_does(
    town: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for accuracy in ("20", "45", "100"):
        create = (
            "synopsis", "create", town, "main", "--method", "pmw", "--accuracy", accuracy,
            "--explain", "-u", "alice", "--epsilon",
        )  # fmt: skip
        code, _, err = run(capsys, *create, "0.3")
        found = re.search(r"a price of ε ([\d.]+) would do", err)
        assert code == 2 and found is not None
        code, out, _ = run(capsys, *create, found[1])
        assert code == 0 and "with the rest of the price 1 that is far off" in out
        assert run(capsys, *create, str(float(found[1]) * 0.98))[0] == 2


def test_rows_of_a_small_database_are_told_how_far_off_they_are(
    town: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    me, script = ("-u", "alice"), town.parent / "two.sql"
    script.write_text(f"{TOLD};")
    terms = ("--method", "smalldb", "--queries", script, "--size", "3", "--rho", "1")
    assert run(capsys, "synopsis", "create", town, "small", *terms, *me)[0] == 0
    most = []
    for more in ((), ("--drawn", "--rows", "7")):
        out = town.parent / "rows.csv"
        code, _, err = run(capsys, "synopsis", "export", town, "small", "-o", out, *more, *me)
        found = re.search(r"all 2 counts .* they are ([\d,]+) rows off", err)
        assert code == 0 and found is not None and "any other count of them is a guess" in err
        most.append(int(found[1].replace(",", "")))
    assert most[0] < 400 < most[1]  # sevenths are no thirds
