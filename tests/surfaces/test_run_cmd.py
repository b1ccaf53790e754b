"""`dpsql run`: every output, dry runs, standard input, exit codes; nothing paid is lost."""

from __future__ import annotations

import csv
import datetime
import io
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.surfaces import terminal
from dpsql.surfaces.cli import main
from dpsql.surfaces.run_cmd import _value, read_params

SCHEMA = """
dataset = "t"
unit = "row"
[source]
table = "t"
[columns]
a = {type = "integer", min = 0, max = 9}
s = {type = "category", values = ["x", "y"]}
"""
REPORT = """\
-- # The report
-- About | all <of> it.

-- # By s
-- Both of them.
SELECT s, COUNT(*) AS n FROM t GROUP BY s;
-- # Été: a < $top!
-- chart: none
SELECT COUNT(*) AS n FROM t WHERE a < $top;
SELECT a, COUNT(*) AS n FROM t GROUP BY a ORDER BY a LIMIT 2;
"""
RUN = ["run", "t.duckdb", "r.sql", "--param", "top=5"]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with duckdb.connect(str(tmp_path / "t.duckdb")) as made:
        made.execute("CREATE TABLE t AS SELECT i % 10 AS a, 'x' AS s FROM range(500) r(i)")
    (tmp_path / "t.toml").write_text(SCHEMA)
    (tmp_path / "r.sql").write_text(REPORT, encoding="utf-8")
    with dpsql.Ledger.open(tmp_path / "t.ledger") as ledger:
        ledger.grant("ann", dataset="t", epsilon=2)
    monkeypatch.chdir(tmp_path)
    for name in ("DPSQL_DB", "DPSQL_SCHEMA", "DPSQL_LEDGER", "DPSQL_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DPSQL_USER", "ann")
    return tmp_path


def dump() -> list[str]:
    with dpsql.Ledger.open("t.ledger", create=False) as ledger:
        return ledger.dump()


def paid() -> int:
    with dpsql.Ledger.open("t.ledger", create=False) as ledger:
        return sum(entry.kind == "charge" for entry in ledger.log())


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> tuple[str, str]:
    assert main(list(words)) == code
    out, err = capsys.readouterr()
    return out, err


def test_a_report_has_titles_tables_and_one_price(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = said(capsys, *RUN)
    assert err == "" and paid() == 1
    lines = out.splitlines()
    assert lines[:5] == ["The report", "About | all <of> it.", "", "1. By s", "Both of them."]
    assert "2. Été: a < $top!" in lines
    assert "3. SELECT a, COUNT(*) AS n FROM t GROUP BY a ORDER BY a LIMIT 2" in lines
    assert out.count("price") == 1 and out.count(" ± ") >= 5 and "note: rows were picked" in out
    assert lines[-1] == (
        "factorization · 95 % intervals · price ε 0.581 for 3 statements together, "
        "10.0 % of the grant · ε left 1.89"
    )
    said(capsys, *RUN, "--reuse")
    assert paid() == 2, "what was bought without reuse is not kept"
    out = said(capsys, *RUN, "--reuse")[0]
    assert paid() == 2
    assert out.splitlines()[-1].startswith("reuse · 95 % intervals · nothing was charged · ε left")


def test_a_dry_run_is_free_and_tells_errors_and_price(capsys: pytest.CaptureFixture[str]) -> None:
    before = dump()
    out, err = said(capsys, *RUN, "--explain", "--epsilon", "0.5")
    assert err == "" and "± is the standard error to expect" in out and "│ laplace" in out
    assert out.splitlines()[-1] == (
        "factorization · price ε 0.500 for 3 statements together, 7.5 % of the grant · ε left 2.00"
        " · then 1.92 · nothing was charged"
    )
    fields = json.loads(said(capsys, *RUN, "--explain", "--format", "json")[0])
    assert fields["price"]["epsilon"] == pytest.approx(0.581, abs=1e-3)
    assert [plan["title"] for plan in fields["plans"]][:2] == ["By s", "Été: a < $top!"]
    assert fields["plans"][0]["stderr"][0][1] > 0 and len(fields["candidates"]) == 3
    assert dump() == before
    assert "without -o" in said(capsys, *RUN, "--explain", "-o", "x.md", code=2)[1]


def test_json_has_releases_and_the_price(capsys: pytest.CaptureFixture[str]) -> None:
    fields = json.loads(said(capsys, *RUN, "--format", "json")[0])
    assert fields["script"] == "r.sql" and fields["title"] == "The report"
    assert [r["line"] for r in fields["releases"]] == [6, 9, 10]
    assert fields["releases"][1]["chart"] == "none" and fields["releases"][1]["weight"] is None
    for found in fields["releases"]:
        release = dpsql.Release.from_dict(found)
        assert release.price is not None and release.price.to_dict() == fields["price"]
    said(capsys, *RUN, "-o", "x.json")
    assert json.loads(Path("x.json").read_text(encoding="utf-8"))["title"] == "The report"


def test_markdown_is_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.md").write_text("old")
    assert said(capsys, *RUN, "-o", "x.md") == ("", "")
    page = Path("x.md").read_text(encoding="utf-8")
    assert page.startswith("# The report\n\nAbout | all &lt;of> it.\n\n## By s\n\nBoth of them.\n")
    assert "| s | n |\n| --- | ---: |\n| x | " in page and "## Été: a &lt; $top!" in page
    assert page.rstrip().endswith("ε left 1.89")


NAMES = ["01-by-s", "02-ete-a-top", "03"]


@pytest.mark.parametrize(
    ("output", "more", "suffix"),
    [
        ("x.csv", [], "csv"), ("x.parquet", [], "parquet"), ("x", ["--format", "csv"], "csv"),
        ("x.zip", [], "csv"), ("x.zip", ["--format", "parquet"], "parquet"),
    ],
)  # fmt: skip
def test_tables_are_one_file_an_answer(
    output: str, more: list[str], suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):  # the second run replaces the first
        assert said(capsys, *RUN, "-o", output, *more) == ("", "")
    folder = Path(output)
    if output.endswith(".zip"):
        folder = Path("unpacked")
        with zipfile.ZipFile(output) as packed:
            packed.extractall(folder)
    assert sorted(os.listdir(folder)) == [f"{name}.{suffix}" for name in NAMES]
    first = folder / f"01-by-s.{suffix}"
    if suffix == "csv":
        rows: Any = list(csv.DictReader(io.StringIO(first.read_text())))
        assert [row["s"] for row in rows] == ["x", "y"]
    else:
        with duckdb.connect() as judge:
            rows = judge.execute(f"FROM read_parquet('{first}')").fetchall()
            assert [row[0] for row in rows] == ["x", "y"]
    assert not [name for name in os.listdir() if name.startswith(".")], "no draft is left"


def test_a_single_answer_is_a_single_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("one.sql").write_text("SET rho = 0.001; SELECT s, COUNT(*) AS n FROM t GROUP BY s")
    said(capsys, "run", "t.duckdb", "one.sql", "-o", "x.csv")
    assert Path("x.csv").read_text().startswith("s,n\nx,")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["-o", "nowhere/x.html"], "cannot write nowhere/x.html: no such file"),
        (["-o", "x.pdf"], "cannot tell the format"),
        (["-o", "x"], "cannot tell the format"),
        (["-o", "x.zip", "--format", "json"], "a .zip holds one table an answer"),
        (["--format", "csv"], "add -o tables.zip"),
        (["-o", "t.duckdb"], "a database, ledger, key or schema"),
        (["-o", "nowhere/x.md"], "cannot write nowhere/x.md: no such file"),
        (["-o", "nowhere/x.csv"], "cannot write nowhere/x.csv: no such file"),
        (["-o", "taken.csv"], "it is a file, and several answers make a folder"),
        (["-o", "full", "--format", "csv"], "the folder holds mine.txt"),
        (["--param", "top"], "is not NAME=VALUE"),
        (["--param", "top=6"], "given twice"),
        (["--param", "old=6"], "r.sql has no parameter old: its parameters are $top"),
        (["--epsilon", "1", "--rho", "1"], "give one of them"),
    ],
)
def test_usage_is_checked_before_anything_is_charged(
    more: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("taken.csv").write_text("mine")
    Path("full").mkdir()
    Path("full/mine.txt").write_text("mine")
    before = dump()
    out, err = said(capsys, *RUN, *more, code=2)
    assert out == "" and words in err
    assert dump() == before and Path("taken.csv").read_text() == "mine"


@pytest.mark.parametrize(
    ("text", "more", "code", "words"),
    [
        ("SELECT COUNT(*) FROM t;\n SELECT MIN(a) FROM t", [], 1, "b.sql:2:9: refused: MIN"),
        ("SELECT COUNT(*) FROM t WHERE a < $b", [], 1, "b.sql:1:34: refused: there is no value"),
        ("-- nothing", [], 2, "b.sql holds no statement"),
        ("SELECT COUNT(*) FROM t", ["--epsilon", "9"], 4, "nothing was charged"),
        ("SELECT COUNT(*) FROM t", ["-u", "bob"], 4, "bob has no grant"),
    ],
)
def test_what_is_not_answered_costs_nothing_and_says_where(
    text: str, more: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("b.sql").write_text(text)
    before = dump()
    out, err = said(capsys, "run", "t.duckdb", "b.sql", "-o", "x.md", *more, code=code)
    assert out == "" and words in err and not Path("x.md").exists()
    err = said(capsys, "run", "t.duckdb", "b.sql", *more, "--format", "json", code=code)[1]
    assert json.loads(err)["exit_code"] == code
    assert dump() == before


def test_the_database_may_come_from_the_environment_and_the_script_from_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPSQL_DB", "t.duckdb")
    said(capsys, "run", "r.sql", "--param", "top=5")
    given = io.TextIOWrapper(io.BytesIO(b"SELECT COUNT(*) FROM t;\nSELECT 1 +;"))
    monkeypatch.setattr(sys, "stdin", given)
    assert "stdin:2:" in said(capsys, "run", "-", code=1)[1]
    given = io.TextIOWrapper(io.BytesIO(b"SELECT COUNT(*) FROM t"))
    monkeypatch.setattr(sys, "stdin", given)
    assert "price ε" in said(capsys, "run", "-")[0]
    monkeypatch.delenv("DPSQL_DB")
    assert "no script" in said(capsys, "run", "t.duckdb", code=2)[1]
    assert "cannot read gone.sql" in said(capsys, "run", "t.duckdb", "gone.sql", code=2)[1]


def test_a_report_that_its_file_does_not_take_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*given: object, **named: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dpsql.surfaces.bundle.text_writer", lambda made: fails)
    out, err = said(capsys, *RUN, "-o", "x.csv", code=2)
    assert "no space left on device; the answers follow" in err and "1. By s" in out
    assert not Path("x.csv").exists()


def test_an_interrupt_says_what_was_charged(place: Path) -> None:
    code = (
        "import sys, time\n"
        "from dpsql.curator.curator import Curator\n"
        "from dpsql.surfaces.cli import main\n"
        "def slow(self, *given):\n"
        "    print('looking', file=sys.stderr, flush=True)\n"
        "    time.sleep(20)\n"
        "Curator._noisy = slow\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, *RUN], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    ) as running:  # fmt: skip
        assert running.stderr is not None
        assert running.stderr.readline() == "looking\n"
        start = time.monotonic()
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=20)
    assert time.monotonic() - start < 5
    assert running.returncode == 130 and out == ""
    assert err.startswith("interrupted: charged ε 0.581") and paid() == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2024", 2024), ("-3", -3), ("1.50", Decimal("1.50")), ("1e3", 1e3), ("true", True),
        ("NULL", None), ("2024-01-31", datetime.date(2024, 1, 31)), ("NO", "NO"), ("", ""),
        ("'2024'", "2024"), ("'it''s'", "it's"), ("x=y", "x=y"), ("nan", "nan"), ("1_0", "1_0"),
    ],
)  # fmt: skip
def test_a_parameter_is_what_sql_would_read(text: str, value: object) -> None:
    assert _value(text) == value and type(_value(text)) is type(value)
    assert read_params((f"a={text}",)) == {"a": value}


@pytest.mark.parametrize(
    "names", [["2024.csv", "2025.csv"], ["01.csv", "03.csv"], ["01.csv", "02.parquet"], ["1.csv"]]
)
def test_a_folder_that_no_report_wrote_stays(
    names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path("kept")
    folder.mkdir()
    for name in names:
        (folder / name).touch()
    _, err = said(capsys, *RUN, "-o", "kept", "--format", "csv", code=2)
    assert "which no report wrote" in err and sorted(os.listdir(folder)) == names and paid() == 0


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_every_answer_has_a_level(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Once for all of them, or with each where they differ."""
    text = "SELECT s, COUNT(*) AS n FROM t GROUP BY s; SET confidence = 0.9; SHOW TABLES;"
    Path("r.sql").write_text(text)
    out, _ = said(capsys, "run", "t.duckdb", "r.sql", "--format", form)
    assert out.count("% intervals") == out.splitlines()[-1].count("95 % intervals") == 1
    Path("r.sql").write_text(text + "SELECT COUNT(*) AS n FROM t WHERE a < 3;")
    out, _ = said(capsys, "run", "t.duckdb", "r.sql", "--format", form)
    assert [line for line in out.splitlines() if "% int" in line] == [
        "95 % intervals", "90 % intervals",
    ]  # fmt: skip


def test_who_watches_is_told_what_was_written_and_what_it_cost(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said(capsys, *RUN, "-o", "first.html") == ("", "")  # a pipe, such as cron's
    monkeypatch.setattr(terminal, "is_terminal", lambda stream: stream is sys.stderr)
    monkeypatch.setattr(terminal, "width", lambda stream: None)
    out, err = said(capsys, *RUN, "-o", "page.html")
    assert out == "" and "wrote 3 answers to page.html\n" in err
    assert "price ε 0.581 for 3 statements together, 10.0 % of the grant · ε left" in err
